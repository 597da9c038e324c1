"""The vector store beside LangChain's own one in memory, and under LangChain's indexing."""

from typing import Any

import pytest

pytest.importorskip("langchain_core", reason="LangChain is not installed: .ci/frameworks langchain")

from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.indexing import InMemoryRecordManager, index
from langchain_core.vectorstores import InMemoryVectorStore

from adapters.langchain_world import TEXTS, OneHot, ids, store
from hyrecall.adapters.langchain import HyrecallVectorStore


def by_score(found: list[tuple[Document, float]]) -> list[tuple[float, str, str]]:
    return sorted((-round(score, 5), str(one.id), one.page_content) for one, score in found)


def check_replies(ours: HyrecallVectorStore) -> None:
    theirs = InMemoryVectorStore(OneHot())
    theirs.add_texts(TEXTS, [{"n": n} for n in range(5)], ids=list("abcde"))
    for query in ("hot tea", "milk coffee", "iced cold milk"):
        expected = theirs.similarity_search_with_score(query, k=9)
        found = ours.similarity_search_with_score(query, k=9)
        assert [score for _, score in found] == pytest.approx([score for _, score in expected])
        # Equal scores have no order there.
        assert by_score(found) == by_score(expected)


def test_replies_are_those_of_the_store_in_memory() -> None:
    check_replies(store())


class Positive(DeterministicFakeEmbedding):
    """No two scores are equal, and no cosine is negative: our MMR counts a negative one as 0."""

    def embed_query(self, text: str) -> list[float]:
        return [abs(one) for one in super().embed_query(text)]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(one) for one in texts]


@pytest.mark.parametrize(("k", "fetch_k", "lambda_mult"), [(2, 5, 0.3), (4, 20, 0.5), (3, 10, 0.6)])
def test_mmr_chooses_as_the_store_in_memory(k: int, fetch_k: int, lambda_mult: float) -> None:
    check_mmr(HyrecallVectorStore, k, fetch_k, lambda_mult)


def check_mmr(kind: type[HyrecallVectorStore], k: int, fetch_k: int, lambda_mult: float) -> None:
    texts = [f"text {n}" for n in range(40)]
    embeddings = Positive(size=8)
    ours, theirs = kind(embeddings, cell="ann"), InMemoryVectorStore(embeddings)
    for one in (ours, theirs):
        one.add_texts(texts, ids=texts)
    asked: dict[str, Any] = {"k": k, "fetch_k": fetch_k, "lambda_mult": lambda_mult}
    found, expected = (
        one.max_marginal_relevance_search("query", **asked) for one in (ours, theirs)
    )
    assert ids(found) == ids(expected)
    assert ids(found) != ids(ours.similarity_search("query", k=k))


class LambdaTurnedRound(HyrecallVectorStore):
    """Planted: lambda weighs diversity."""

    def max_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        return super().max_marginal_relevance_search(query, k, fetch_k, 1 - lambda_mult, **kwargs)


class AllAreFetched(HyrecallVectorStore):
    """Planted: MMR chooses among all documents."""

    def max_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        return super().max_marginal_relevance_search(query, k, 100, lambda_mult, **kwargs)


@pytest.mark.parametrize("bug", [LambdaTurnedRound, AllAreFetched], ids=lambda bug: bug.__name__)
def test_a_planted_bug_of_mmr_is_caught(bug: type[HyrecallVectorStore]) -> None:
    with pytest.raises(AssertionError):
        check_mmr(bug, 2, 5, 0.3)


@pytest.mark.parametrize("mode", ["hybrid", "text"])
def test_scores_of_another_mode_are_caught(mode: Any) -> None:
    with pytest.raises(AssertionError):
        check_replies(store(mode=mode))


def test_langchains_indexing_adds_skips_and_cleans_up() -> None:
    ours, records = store(), InMemoryRecordManager("hyrecall")
    records.create_schema()
    ours.delete(everything=True)
    docs = [Document(text, metadata={"source": text}) for text in TEXTS]
    options: dict[str, Any] = {"cleanup": "full", "source_id_key": "source"}
    options["key_encoder"] = "sha256"
    assert index(docs, records, ours, **options)["num_added"] == 5
    told = index(docs[:2], records, ours, **options)
    assert (told["num_skipped"], told["num_deleted"]) == (2, 3)
    assert ours.documents.count(scope="ann") == 2
