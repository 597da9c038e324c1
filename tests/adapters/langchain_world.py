"""Texts, an embedding whose nearness has a meaning, and a store of them."""

from typing import Any

from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding

from hyrecall.adapters.langchain import HyrecallVectorStore

TEXTS = ["hot tea", "iced tea with milk", "coffee", "a cold brew of coffee", "milk"]


class OneHot(DeterministicFakeEmbedding):
    """Counts the words of the texts above, so that nearness has a meaning."""

    size: int = 6

    def embed_query(self, text: str) -> list[float]:
        words = ("hot", "iced", "tea", "milk", "coffee", "cold")
        return [float(text.split().count(one)) for one in words]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(one) for one in texts]


def store(cell: str = "ann", **options: Any) -> HyrecallVectorStore:
    made = HyrecallVectorStore(OneHot(), cell=cell, attributes={"n": int}, **options)
    made.add_texts(TEXTS, [{"n": n} for n in range(5)], ids=list("abcde"))
    return made


def ids(found: list[Document]) -> list[str | None]:
    return [one.id for one in found]
