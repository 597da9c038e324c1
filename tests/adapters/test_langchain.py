"""The adapter for LangChain: its own conformance suites, then scopes, filters, modes and errors."""

import asyncio
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

pytest.importorskip("langchain_core", reason="LangChain is not installed: .ci/frameworks langchain")
pytest.importorskip("langchain_tests", reason="langchain-tests is not installed")

from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.indexing import InMemoryRecordManager, index
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import ConfigurableField
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from langchain_tests.integration_tests import (
    RetrieversIntegrationTests,
    VectorStoreIntegrationTests,
)

import hyrecall as hr
from adapters.degraded_world import degraded_index
from hyrecall.adapters.degraded import DegradedWarning
from hyrecall.adapters.documents import Document as Row
from hyrecall.adapters.documents import DocumentIndex
from hyrecall.adapters.langchain import HyrecallRetriever, HyrecallVectorStore

EXAMPLE = Path(__file__).parents[2] / "examples" / "frameworks" / "langchain.py"


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


class TestVectorStore(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self) -> VectorStore:
        return HyrecallVectorStore(self.get_embeddings(), cell="ann")


class TestHybridVectorStore(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self) -> VectorStore:
        return HyrecallVectorStore(self.get_embeddings(), cell="ann", mode="hybrid")


class TestVectorStoreBesideOthers(VectorStoreIntegrationTests):
    """The suite in one cell of an index, while another cell holds the same ids and texts."""

    @pytest.fixture
    def vectorstore(self) -> Iterator[VectorStore]:  # type: ignore[override]
        documents, embeddings = DocumentIndex(), self.get_embeddings()
        other = HyrecallVectorStore(embeddings, documents=documents, cell="bob")
        other.add_texts(["foo", "bar", "baz"], ids=["1", "2", "3"])
        yield HyrecallVectorStore(embeddings, documents=documents, cell="ann")
        assert documents.count(scope="bob") == 3


class TestRetriever(RetrieversIntegrationTests):
    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return HyrecallRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"index": store().documents, "scope": "ann", "embeddings": OneHot()}

    @property
    def retriever_query_example(self) -> str:
        return "hot tea with milk"


class TestRetrieverOfAnIndex(TestRetriever):
    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"index": own_index(), "scope": "ann"}


def own_index() -> hr.Index:
    rows = {"key": [1, 2, 3, 4], "user": ["ann"] * 3 + ["bob"], "body": [*TEXTS[:2], "tea", "tea"]}
    table = pa.table({**rows, "year": [2024, 2025, 2026, 2026], "page": ["x", "y", "z", "x"]})
    schema = hr.Schema(
        key="key", cell="user", text="body", attributes="year", stored=("body", "page")
    )
    return hr.Index.build(table, schema)


# ---- scopes ----


def test_no_scope_is_refused() -> None:
    documents = store().documents
    with pytest.raises(hr.ScopeError, match=r"^scope: expected a scope: a cell or hr.Scope"):
        HyrecallRetriever(index=documents)  # type: ignore[call-arg]
    with pytest.raises(hr.ScopeError, match=r"^scope: expected a scope"):
        HyrecallRetriever(index=documents, scope=None)
    retriever = HyrecallRetriever(index=documents, scope="ann")
    for call in (
        lambda: retriever.invoke("tea", scope=None),
        lambda: store().similarity_search("tea", scope=None),
    ):
        with pytest.raises(hr.ScopeError, match=r"^scope: expected a scope"):
            call()


def test_a_store_may_read_more_than_it_writes_and_a_call_may_read_less() -> None:
    shared = store("shared")
    scope = hr.Scope(["ann", "shared"])
    ann = HyrecallVectorStore(OneHot(), documents=shared.documents, cell="ann", scope=scope)
    ann.add_texts(["hot tea, mine"], ids=["x"])
    assert ids(ann.similarity_search("hot tea", k=2)) == ["a", "x"]
    assert ids(ann.similarity_search("hot tea", k=2, scope="ann")) == ["x"]
    retriever = ann.as_retriever(search_kwargs={"k": 1, "scope": "ann"})
    assert ids(retriever.invoke("hot tea")) == ["x"]


def test_a_chain_names_the_scope_of_each_call() -> None:
    retriever = HyrecallRetriever(index=own_index(), scope="ann")
    per_user = retriever.configurable_fields(scope=ConfigurableField(id="user"))
    assert ids(per_user.invoke("tea", config={"configurable": {"user": "bob"}})) == ["4"]
    assert len(per_user.invoke("tea")) == 3
    configs: Any = [{"configurable": {"user": user}} for user in ("bob", "ann", "nobody")]
    assert [len(one) for one in per_user.batch(["tea"] * 3, configs)] == [1, 3, 0]
    with pytest.raises(hr.ScopeError):
        per_user.invoke("tea", config={"configurable": {"user": None}})


def test_an_index_with_one_audience_takes_no_scope() -> None:
    table = pa.table({"id": ["a"], "text": ["tea"]})
    built = hr.Index.build(table, hr.Schema(key="id", cell=None, text="text"))
    assert ids(HyrecallRetriever(index=built, scope=None).invoke("tea")) == ["a"]
    with pytest.raises(hr.ScopeError, match="one audience"):
        HyrecallRetriever(index=built, scope="ann")


# ---- filters, modes and scores ----


@pytest.mark.parametrize(
    ("filter_", "expected"),
    [
        (hr.Filter(n=[0, 3]), "ad"),
        ({"n": 1}, "b"),
        ({"n": {"from": 3}}, "de"),
        (pc.field("n") < 2, "ab"),
        ({"id": ["c", "x"]}, "c"),
    ],
)
def test_filters_have_three_forms(filter_: Any, expected: str) -> None:
    ours = store()
    assert sorted(map(str, ids(ours.similarity_search("tea", k=9, filter=filter_)))) == [*expected]
    retriever = HyrecallRetriever(index=ours.documents, scope="ann", k=9, embeddings=OneHot())
    assert sorted(map(str, ids(retriever.invoke("tea", filter=filter_)))) == [*expected]
    assert ours.delete(filter=filter_) is True
    assert ours.documents.count(scope="ann") == 5 - len(expected)


def test_an_undeclared_field_and_another_kind_of_filter_are_refused() -> None:
    ours = store()
    with pytest.raises(hr.OptionError, match=r"declare it: attributes=\{'source': str\}"):
        ours.similarity_search("tea", filter={"source": "x"})
    with pytest.raises(hr.OptionError, match="an object with from/to"):
        ours.similarity_search("tea", filter={"n": {"$gte": 2}})
    with pytest.raises(hr.OptionError, match=r"^filter: expected an hr.Filter"):
        ours.similarity_search("tea", filter=lambda _: True)


def test_modes_search_by_vector_by_words_or_by_both() -> None:
    ours = store()
    ours.add_texts(["INV-42"], ids=["f"])  # a word without a vector
    assert "f" not in ids(ours.similarity_search("INV-42", k=9))
    assert ids(ours.similarity_search("INV-42", k=9, mode="text")) == ["f"]
    assert ids(ours.similarity_search("INV-42 hot", k=2, mode="hybrid", fusion=hr.RRF())) == [
        *("a", "f")
    ]
    with pytest.raises(hr.OptionError, match=r"^mode: expected"):
        ours.similarity_search("tea", mode="mmr")
    with pytest.raises(hr.OptionError, match=r"^mode: expected"):
        store(mode="sparse")
    with pytest.raises(hr.UnknownOptionError, match="top_k"):
        ours.similarity_search("tea", top_k=3)
    with pytest.raises(hr.UnknownOptionError, match="did you mean scope"):
        HyrecallVectorStore(OneHot(), cell="ann", namespace="ann")  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="top_k"):
        HyrecallRetriever(index=own_index(), scope="ann", top_k=3)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda one: one.similarity_search("tea", limit=1), "limit: expected none (k is the limit"),
        (lambda one: one.similarity_search("tea", text="x"), "text: expected none (the query"),
        (
            lambda one: one.similarity_search_by_vector([1.0] * 6, mode="text"),
            "mode: expected 'vector' where there is no text, got 'text'",
        ),
        (lambda one: one.max_marginal_relevance_search("tea", mode="hybrid"), "mode: expected"),
        (lambda one: one.max_marginal_relevance_search("tea", depth=9), "depth: expected none"),
        (
            lambda one: one.similarity_search_with_relevance_scores("tea", normalize=True),
            "normalize: expected none",
        ),
        (lambda one: retriever_of(one).invoke("tea", limit=1), "limit: expected none (k is the"),
        (lambda one: retriever_of(one).invoke("tea", text="x"), "text: expected none (the query"),
        (lambda one: retriever_of(one, options={"limit": 1}), "limit: expected none (k is the"),
        (lambda one: retriever_of(one, options={"scope": "bob"}), "scope: expected none (a field"),
        (lambda one: retriever_of(one, k=-1), "k: expected an int >= 0, got -1"),
        (lambda one: retriever_of(one, columns=["n"]), "columns: expected none (metadata comes"),
        (
            lambda _: HyrecallRetriever(index=own_index(), scope="ann", columns=["x"]),
            "columns: expected a column, or a sequence of columns",
        ),
        (
            lambda _: HyrecallRetriever(index=own_index(), scope="ann", embeddings=OneHot()),
            "embeddings: expected None (the index has no vector arm), got OneHot",
        ),
    ],
)
def test_an_option_that_a_call_would_not_follow_is_refused(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        call(store(mode="hybrid"))


def retriever_of(made: HyrecallVectorStore, **options: Any) -> HyrecallRetriever:
    return HyrecallRetriever(index=made.documents, scope="ann", **options)


def test_a_retriever_of_an_index_of_vectors_alone_needs_embeddings() -> None:
    vectors = pa.array([OneHot().embed_query(one) for one in TEXTS[:2]], pa.list_(pa.float32(), 6))
    table = pa.table({"id": ["a", "b"], "user": ["ann"] * 2, "vector": vectors})
    built = hr.Index.build(table, hr.Schema(key="id", cell="user", vector="vector"))
    found = HyrecallRetriever(index=built, scope="ann", embeddings=OneHot(), k=1).invoke("milk")
    assert found[0].id == "b"
    assert found[0].page_content == ""
    with pytest.raises(ValueError, match=r"embeddings: expected one \(the index has no text arm"):
        HyrecallRetriever(index=built, scope="ann")


@pytest.mark.parametrize("mode", ["vector", "hybrid", "text"])
def test_relevance_scores_are_in_0_to_1_and_keep_the_order(mode: Any) -> None:
    ours = store(mode=mode)
    ours.embedding = Signed()
    ours.add_texts(["opposite of tea"], ids=["o"])
    found = ours.similarity_search_with_relevance_scores("hot tea", k=9)
    assert ids([one for one, _ in found]) == ids(ours.similarity_search("hot tea", k=9))
    scores = [score for _, score in found]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    asked: dict[str, Any] = {"k": 9, "score_threshold": scores[1]}
    few = ours.similarity_search_with_relevance_scores("hot tea", **asked)
    assert [score for _, score in few] == [one for one in scores if one >= scores[1]]
    assert asyncio.run(ours.asimilarity_search_with_relevance_scores("hot tea", **asked)) == few


class Signed(OneHot):
    """Some cosines are negative."""

    def embed_query(self, text: str) -> list[float]:
        found = super().embed_query(text)
        return [-one for one in found] if "opposite" in text else found


def test_a_retriever_shows_the_scores_of_each_arm() -> None:
    ours = store()
    retriever = HyrecallRetriever(
        index=ours.documents, scope="ann", embeddings=OneHot(), options={"fusion": hr.RRF()}
    )
    first = retriever.invoke("hot tea")[0]
    assert (first.id, first.page_content, first.metadata["n"]) == ("a", "hot tea", 0)
    direct = ours.documents.recall(
        text="hot tea", vector=OneHot().embed_query("hot tea"), scope="ann", fusion=hr.RRF()
    )[0]
    expected = {"rank": 1, "score": direct.score, **direct.scores, "cell": ["ann"]}
    assert first.metadata["hyrecall"] == expected
    assert expected["vector"] == pytest.approx(1.0)


def test_a_retriever_of_an_index_returns_its_columns() -> None:
    retriever = HyrecallRetriever(index=own_index(), scope="ann", columns=["page"], k=1)
    (found,) = retriever.invoke("iced", recipe=hr.recipes.default)
    scores = found.metadata.pop("hyrecall")
    assert found == Document("iced tea with milk", id="2", metadata={"year": 2025, "page": "y"})
    assert scores["score"] > 0
    assert scores["cell"] == ["ann"]
    assert ids(retriever.invoke("tea", filter={"year": 2026})) == ["3"]
    with pytest.raises(hr.DTypeError, match=r"^index: expected an hr.Index or a DocumentIndex"):
        HyrecallRetriever(index="an index", scope="ann")


# ---- writing ----


def test_a_delete_without_ids_needs_to_say_that_all_is_meant() -> None:
    ours = store()
    with pytest.raises(hr.OptionError, match="everything=True for the whole cell"):
        ours.delete()
    with pytest.raises(hr.OptionError, match="everything=True for the whole cell"):
        ours.delete(filter={})
    assert ours.documents.count(scope="ann") == 5
    assert ours.delete([]) is True
    assert asyncio.run(ours.adelete(everything=True)) is True
    assert ours.documents.count(scope="ann") == 0


def test_texts_may_be_a_generator_and_counts_have_to_agree() -> None:
    ours = HyrecallVectorStore(OneHot(), cell="ann")
    assert len(ours.add_texts((text for text in TEXTS), batch_size=2)) == 5
    assert ours.similarity_search_with_score("milk", k=1)[0][1] == pytest.approx(1.0)
    with pytest.raises(hr.OptionError, match=r"^batch_size: expected an int >= 1"):
        ours.add_texts(TEXTS, batch_size=0)
    with pytest.raises(hr.ShapeError, match=r"^ids: expected 2, one per document, got 1"):
        ours.add_documents([Document("x"), Document("y")], ids=["1"])
    with pytest.raises(hr.ShapeError, match=r"^ids: expected 2, one per text, got 1"):
        ours.add_texts(["x", "y"], ids=["1"])  # LangChain itself would drop the second text
    with pytest.raises(hr.ShapeError, match=r"^ids: expected 2, one per text, got 1"):
        asyncio.run(ours.aadd_texts(["x", "y"], ids=["1"]))
    assert ours.documents.count(scope="ann") == 5
    with pytest.raises(hr.KeyConflictError):
        ours.add_texts(["x", "y"], ids=["1", "1"], on_duplicate="fail")
    with pytest.raises(hr.DTypeError, match=r"metadata\['x'\]: expected a JSON value"):
        ours.add_texts(["x"], [{"x": object()}])


def test_a_store_is_made_of_texts() -> None:
    made = HyrecallVectorStore.from_texts(["hot tea"], OneHot(), cell="ann", ids=["a"])
    assert ids(made.similarity_search("tea")) == ["a"]


def test_async_calls_leave_the_loop_free() -> None:
    threads: set[int] = set()

    class Watched(DocumentIndex):
        def recall(self, **options: Any) -> Any:
            threads.add(threading.get_ident())
            return super().recall(**options)

        def write(self, *args: Any, **options: Any) -> list[str]:
            threads.add(threading.get_ident())
            return super().write(*args, **options)

    async def main() -> None:
        ours = HyrecallVectorStore(OneHot(), documents=Watched(), cell="ann")
        await ours.aadd_texts(TEXTS, ids=list("abcde"))
        assert ids(await ours.asimilarity_search("hot tea", k=1)) == ["a"]
        assert ids(await ours.amax_marginal_relevance_search("hot tea", k=1)) == ["a"]
        retriever = HyrecallRetriever(index=ours.documents, scope="ann", embeddings=OneHot())
        assert ids(await retriever.ainvoke("coffee", k=1)) == ["c"]
        ours.embedding = OnlyAsync()
        assert ids(await ours.amax_marginal_relevance_search("hot tea", k=1)) == ["a"]
        scored = await ours.asimilarity_search_with_relevance_scores("hot tea", k=1)
        assert [(one.id, round(score, 3)) for one, score in scored] == [("a", 1.0)]

    asyncio.run(main())
    assert len(threads) >= 1
    assert threading.get_ident() not in threads


class OnlyAsync(OneHot):
    """Embeds queries by its async method alone, as a client of a service may."""

    def embed_query(self, text: str) -> list[float]:
        raise NotImplementedError

    async def aembed_query(self, text: str) -> list[float]:
        return super().embed_query(text)


# ---- cells and degraded replies ----


def test_documents_of_several_cells_say_their_cell() -> None:
    documents = DocumentIndex(cell_columns=("tenant", "user"))
    cells = [("acme", "ann"), ("acme", "shared"), ("other", "ann")]
    for cell in cells:
        documents.write([Row(id="1", text="tea")], cell=cell)
    retriever = HyrecallRetriever(index=documents, scope=hr.Scope(cells[:2]))
    found = [one.metadata["hyrecall"]["cell"] for one in retriever.invoke("tea")]
    assert sorted(found) == [["acme", "ann"], ["acme", "shared"]]


def test_a_degraded_retrieval_warns() -> None:
    retriever = HyrecallRetriever(index=degraded_index(), scope="ann")
    with pytest.warns(DegradedWarning, match=r"vector did not run: crashed \(RuntimeError\)"):
        (found,) = retriever.invoke("tea")
    assert (found.id, found.metadata["hyrecall"]["vector"]) == ("1", None)


# ---- beside LangChain's own store in memory, and under LangChain's indexing ----


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
