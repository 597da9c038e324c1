"""Haystack's retrievers: one depth for all runs, and options that are refused by name."""

from typing import Any

import pytest

pytest.importorskip("haystack", reason="Haystack is not installed: .ci/frameworks haystack")

from haystack import Document
from haystack.document_stores.errors import DuplicateDocumentError

from hyrecall.adapters.haystack import (
    HyrecallDocumentStore,
    HyrecallEmbeddingRetriever,
    HyrecallHybridRetriever,
    HyrecallKeywordRetriever,
)
from hyrecall.embed import HashEmbedder
from hyrecall.errors import OptionError


def ids(found: dict[str, Any]) -> list[str]:
    return [one.id for one in found["documents"]]


def many(n: int = 300) -> list[Document]:
    words = [f"{'tea ' * (at % 7 + 1)}w{at % 11}" for at in range(n)]
    vectors = HashEmbedder(dim=64).embed([f"w{at % 13} w{at % 11}" for at in range(n)]).tolist()
    return [
        Document(id=str(at), content=words[at], embedding=vectors[at], meta={}) for at in range(n)
    ]


def test_a_smaller_top_k_gives_the_first_documents_of_a_larger_one() -> None:
    store = HyrecallDocumentStore(cell="ann")
    store.write_documents(many())
    vector = HashEmbedder(dim=64).embed(["w5"])[0].tolist()
    deep = HyrecallHybridRetriever(store, depth=200, alpha=0.5)
    found = {top_k: ids(deep.run("tea w5", vector, top_k=top_k)) for top_k in (60, 150)}
    assert found[60] == found[150][:60]
    flat = HyrecallHybridRetriever(store, alpha=0.5)
    # A depth that follows top_k is seen.
    assert ids(flat.run("tea w5", vector, top_k=60)) != found[150][:60]
    for ask in (
        lambda: HyrecallHybridRetriever(store, top_k=101),
        lambda: flat.run("tea", vector, top_k=101),
    ):
        with pytest.raises(
            OptionError, match=r"top_k: expected <= 100 \(depth\), got 101; pass dep"
        ):
            ask()


def test_an_option_that_a_retriever_does_not_have_is_refused_by_name() -> None:
    store = HyrecallDocumentStore(cell="ann")
    with pytest.raises(TypeError, match=r"HyrecallKeywordRetriever: .*, got 'scale_score'"):
        HyrecallKeywordRetriever(store, scale_score=True)  # type: ignore[call-arg]
    for top_k in (0, -1, "3"):
        with pytest.raises(OptionError, match="top_k: expected an int >= 1"):
            HyrecallEmbeddingRetriever(store, top_k=top_k)  # type: ignore[arg-type]
        with pytest.raises(OptionError, match="top_k: expected an int >= 1"):
            HyrecallKeywordRetriever(store).run("cat", top_k=top_k)


def test_a_duplicate_is_refused_with_the_policy_that_replaces_it() -> None:
    store = HyrecallDocumentStore(cell="ann")
    store.write_documents([Document(id="a", content="tea")])
    with pytest.raises(
        DuplicateDocumentError, match=r"got 'a' in row 0; replace it: policy=DuplicatePolicy\.OVER"
    ):
        store.write_documents([Document(id="a", content="tea")])
