"""Haystack's own suites for document stores, and what they do not ask."""

import inspect
import random
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

pytest.importorskip("haystack", reason="Haystack is not installed: .ci/frameworks haystack")

import haystack.testing.document_store as suites
from haystack import Document, Pipeline
from haystack.components.writers import DocumentWriter
from haystack.dataclasses import ByteStream, SparseEmbedding
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.document_stores.types import DuplicatePolicy, FilterPolicy
from haystack.errors import FilterError
from haystack.utils.filters import document_matches_filter

import hyrecall as hr
from hyrecall.adapters.documents import DocumentIndex
from hyrecall.adapters.haystack import (
    HyrecallDocumentStore,
    HyrecallEmbeddingRetriever,
    HyrecallHybridRetriever,
    HyrecallKeywordRetriever,
)
from hyrecall.errors import DTypeError, OptionError
from seams import haystack_filters

# ---- document stores ----

EXAMPLE = Path(__file__).parents[2] / "examples" / "frameworks" / "haystack_store.py"
ATTRIBUTES = {
    "name": "str", "page": "str", "chapter": "str", "number": "int", "date": "datetime",
    "no_embedding": "bool", "category": "str", "year": "int", "status": "str", "updated": "bool",
    "extra_field": "str", "featured": "bool",
}  # fmt: skip


def classes_of(module: Any, *names: str) -> tuple[type, ...]:
    """Return the suites that this version of Haystack has."""
    return tuple(getattr(module, name) for name in names if hasattr(module, name))


SUITES = classes_of(
    suites, "DocumentStoreBaseExtendedTests", "DocumentStoreBaseTests",
    "CountDocumentsByFilterTest", "CountUniqueMetadataByFilterTest", "GetMetadataFieldsInfoTest",
    "GetMetadataFieldMinMaxTest", "GetMetadataFieldUniqueValuesTest",
)  # fmt: skip
ASYNC_SUITES: tuple[type, ...] = ()
if find_spec("haystack.testing.document_store_async") and find_spec("pytest_asyncio"):
    import haystack.testing.document_store_async as async_suites

    ASYNC_SUITES = classes_of(
        async_suites, "CountDocumentsAsyncTest", "CountDocumentsByFilterAsyncTest",
        "CountUniqueMetadataByFilterAsyncTest", "DeleteAllAsyncTest", "DeleteByFilterAsyncTest",
        "DeleteDocumentsAsyncTest", "FilterDocumentsAsyncTest", "GetMetadataFieldMinMaxAsyncTest",
        "GetMetadataFieldUniqueValuesAsyncTest", "GetMetadataFieldsInfoAsyncTest",
        "UpdateByFilterAsyncTest", "WriteDocumentsAsyncTest",
    )  # fmt: skip


def rounded(documents: list[Document]) -> dict[str, Any]:
    """Return documents by id, with embeddings as float32, which is what an index keeps."""
    found = {}
    for one in documents:
        data = one.to_dict(flatten=False)
        if data["embedding"] is not None:
            data["embedding"] = np.asarray(data["embedding"], np.float32).tolist()
        found[one.id] = data
    assert len(found) == len(documents)
    return found


class OurStore:
    """What the suites run on: the declared fields are those that their filters name."""

    @pytest.fixture
    def document_store(self) -> HyrecallDocumentStore:
        return HyrecallDocumentStore(cell="ann", attributes=ATTRIBUTES)

    @staticmethod
    def assert_documents_are_equal(received: list[Document], expected: list[Document]) -> None:
        assert rounded(received) == rounded(expected)


class TestStore(OurStore, *SUITES):  # type: ignore[misc]
    def test_write_documents(self, document_store: HyrecallDocumentStore) -> None:
        doc = Document(content="test doc")
        assert document_store.write_documents([doc]) == 1
        with pytest.raises(DuplicateDocumentError):
            document_store.write_documents([doc])


if ASYNC_SUITES:

    class TestStoreAsync(OurStore, *ASYNC_SUITES):  # type: ignore[misc]
        @pytest.mark.asyncio
        async def test_write_documents_async(self, document_store: HyrecallDocumentStore) -> None:
            doc = Document(content="test doc")
            assert await document_store.write_documents_async([doc]) == 1
            with pytest.raises(DuplicateDocumentError):
                await document_store.write_documents_async([doc])


# ---- what the suites do not ask ----


class Pets(NamedTuple):
    """Two users' stores in one index, with embeddings of two dimensions."""

    documents: DocumentIndex
    ann: HyrecallDocumentStore
    bob: HyrecallDocumentStore


@pytest.fixture
def pets() -> Pets:
    documents = DocumentIndex(attributes={"year": int, "tags": list[str]}, keep_vectors=True)
    ann, bob = (HyrecallDocumentStore(cell=name, documents=documents) for name in ("ann", "bob"))
    ann.write_documents(
        [
            Document(id="1", content="a grey cat", embedding=[1.0, 0.0], meta={"year": 2024}),
            Document(id="2", content="a black cat", embedding=[0.8, 0.6], meta={"year": 2025}),
            Document(id="3", content="a dog", embedding=[0.0, 1.0], meta={"tags": ["big"]}),
        ]
    )
    bob.write_documents([Document(id="1", content="the cat of bob", embedding=[1.0, 0.0])])
    return Pets(documents, ann, bob)


def ids(found: dict[str, Any]) -> list[str]:
    return [one.id for one in found["documents"]]


def test_an_undeclared_field_is_refused_by_the_line_that_declares_it(pets: Pets) -> None:
    asked = {"field": "meta.color", "operator": "==", "value": "grey"}
    for call in (
        pets.ann.filter_documents,
        pets.ann.count_documents_by_filter,
        pets.ann.delete_by_filter,
    ):
        with pytest.raises(FilterError, match=r"'color'; declare it: attributes=\{'color': str\}"):
            call(asked)


def test_a_field_and_an_operator_are_texts(pets: Pets) -> None:
    for asked in (
        {"field": 7, "operator": "==", "value": 1},
        {"field": "year", "operator": ["=="], "value": 1},
        {"operator": {}, "conditions": [{}]},
    ):
        with pytest.raises(
            FilterError, match=r"filters: expected a str as '(field|operator)', got"
        ):
            pets.ann.filter_documents(asked)


def test_no_filter_is_no_way_to_change_everything(pets: Pets) -> None:
    with pytest.raises(FilterError, match="filter"):
        pets.ann.update_by_filter({}, {"year": 1})
    with pytest.raises(OptionError, match="everything=True"):
        pets.ann.delete_by_filter({})
    assert [one.meta.get("year") for one in pets.ann.filter_documents()] == [2024, 2025, None]


def test_a_blob_and_a_sparse_embedding_are_refused(pets: Pets) -> None:
    for document, name in (
        (Document(blob=ByteStream(b"x")), "blob"),
        (Document(content="x", sparse_embedding=SparseEmbedding([1], [0.5])), "sparse_embedding"),
    ):
        with pytest.raises(ValueError, match=rf"documents\[1\]\.{name}: expected None"):
            pets.bob.write_documents([Document(content="fine"), document])
    assert pets.bob.count_documents() == 1


def test_a_duplicate_leaves_the_store_as_it_was(pets: Pets) -> None:
    given = [Document(id="new", content="new"), Document(id="1", content="again")]
    with pytest.raises(DuplicateDocumentError, match="'1'"):
        pets.bob.write_documents(given, DuplicatePolicy.FAIL)
    assert pets.bob.count_documents() == 1
    assert pets.bob.write_documents(given, DuplicatePolicy.SKIP) == 1
    assert pets.bob.write_documents(given, DuplicatePolicy.OVERWRITE) == 2
    assert [one.content for one in pets.bob.filter_documents()] == ["new", "again"]


# ---- retrievers ----


def test_retrievers_give_what_the_index_gives(pets: Pets) -> None:
    query, vector = "grey cat", [0.0, 1.0]
    index = pets.documents.index
    keyword = HyrecallKeywordRetriever(pets.ann).run(query)
    expected = index.recall_one(text=query, scope="ann")
    assert [(one.id, one.score) for one in keyword["documents"]] == [
        (hit.key, hit.score) for hit in expected
    ]
    dense = HyrecallEmbeddingRetriever(pets.ann, top_k=2).run(vector)
    assert ids(dense) == ["3", "2"]
    assert dense["documents"][0].score == pytest.approx(1.0)
    assert dense["documents"][0].embedding == [0.0, 1.0]
    for alpha, fusion in ((None, None), (0.25, hr.RRF(alpha=0.25))):
        hybrid = HyrecallHybridRetriever(pets.ann, alpha=alpha).run(query, vector)
        wanted = index.recall_one(text=query, vector=vector, scope="ann", fusion=fusion)
        assert [(one.id, one.score) for one in hybrid["documents"]] == [
            (hit.key, hit.score) for hit in wanted
        ]
        assert hybrid["scores"] == [
            {"text": hit.bm25_score, "vector": hit.vector_score} for hit in wanted
        ]
        assert hybrid["cells"] == [["ann"]] * len(wanted)
    both = HyrecallHybridRetriever(pets.ann).run(query, vector, scope=hr.Scope(["ann", "bob"]))
    cells = {one.content: cell for one, cell in zip(both["documents"], both["cells"], strict=True)}
    assert cells["the cat of bob"] == ["bob"]
    assert cells["a grey cat"] == ["ann"]


def test_a_run_may_name_its_scope_filters_and_top_k(pets: Pets) -> None:
    retriever = HyrecallKeywordRetriever(pets.ann)
    assert ids(retriever.run("cat", scope="bob")) == ["1"]
    assert retriever.run("cat", scope="bob")["documents"][0].content == "the cat of bob"
    assert len(ids(retriever.run("cat", scope=hr.Scope(["ann", "bob"])))) == 3
    assert retriever.run("cat", scope=hr.Scope([])) == {"documents": []}
    late = {"field": "meta.year", "operator": ">", "value": 2024}
    assert ids(retriever.run("cat", filters=late)) == ["2"]
    assert len(ids(retriever.run("cat", top_k=1))) == 1
    assert len(ids(retriever.run("cat", top_k=500))) == 2
    assert ids(retriever.run("")) == []


def test_filters_of_a_run_replace_those_of_the_retriever_or_join_them(pets: Pets) -> None:
    late = {"field": "meta.year", "operator": ">", "value": 2024}
    early = {"field": "meta.year", "operator": "<=", "value": 2024}
    replacing = HyrecallKeywordRetriever(pets.ann, filters=late)
    assert (ids(replacing.run("cat")), ids(replacing.run("cat", filters=early))) == (["2"], ["1"])
    merging = HyrecallKeywordRetriever(pets.ann, filters=late, filter_policy="merge")
    assert merging.filter_policy == FilterPolicy.MERGE
    big = {"field": "meta.tags", "operator": "==", "value": "big"}
    assert ids(merging.run("cat", filters=big)) == []
    assert ids(HyrecallKeywordRetriever(pets.ann, filters=big).run("dog")) == ["3"]


def test_a_retriever_needs_a_store_that_has_a_scope() -> None:
    with pytest.raises(DTypeError, match="document_store: expected a HyrecallDocumentStore"):
        HyrecallKeywordRetriever(InMemoryDocumentStore())  # type: ignore[arg-type]


def test_a_pipeline_runs_and_comes_back_from_its_file(tmp_path: Path) -> None:
    store = HyrecallDocumentStore(
        cell="ann",
        scope=hr.Scope(["ann", "team"]),
        path=tmp_path / "documents",
        attributes={"year": "int", "tags": "list[str]", "at": "datetime"},
    )
    pipeline = Pipeline()
    pipeline.add_component("writer", DocumentWriter(store, policy=DuplicatePolicy.OVERWRITE))
    document = Document(id="a", content="hot tea", meta={"year": 2026, "tags": ["x"]})
    pipeline.run({"writer": {"documents": [document]}})

    asking = Pipeline()
    late = {"field": "meta.year", "operator": ">", "value": 2025}
    asking.add_component("keyword", HyrecallKeywordRetriever(store, filters=late, top_k=3))
    asking.add_component("hybrid", HyrecallHybridRetriever(store, alpha=0.5))
    options = {"allowed_modules": ["hyrecall.adapters.*"]}
    if "allowed_modules" not in inspect.signature(Pipeline.loads).parameters:
        options = {}
    again = Pipeline.loads(asking.dumps(), **options)
    assert again.to_dict() == asking.to_dict()
    asked = {"keyword": {"query": "tea"}, "hybrid": {"query": "tea", "query_embedding": [1.0, 0.0]}}
    for one in (asking, again):
        (found,) = one.run(asked)["keyword"]["documents"]
        assert (found.content, found.meta) == ("hot tea", document.meta)


def test_a_store_with_a_path_keeps_an_update(tmp_path: Path) -> None:
    options: dict[str, Any] = {"cell": "ann", "path": tmp_path / "documents"}
    store = HyrecallDocumentStore(**options, attributes={"year": "int"})
    store.write_documents([Document(id="0", content="tea", meta={"year": 0})])
    store.update_by_filter({"field": "year", "operator": "==", "value": 0}, {"year": 9})
    assert [one.meta for one in HyrecallDocumentStore(**options).filter_documents()] == [
        {"year": 9}
    ]


def test_a_shared_index_cannot_be_written_to_a_file(pets: Pets) -> None:
    with pytest.raises(OptionError, match="documents: expected path="):
        pets.ann.to_dict()


def test_a_scope_that_no_file_can_hold_is_refused(tmp_path: Path) -> None:
    scope: Any = hr.Scope.matching(cell=hr.ANY)
    store = HyrecallDocumentStore(cell="ann", scope=scope, path=tmp_path / "documents")
    with pytest.raises(OptionError, match="scope: expected cells, which a file can hold"):
        store.to_dict()


def test_an_update_keeps_embeddings(pets: Pets) -> None:
    black = {"field": "year", "operator": "==", "value": 2025}
    assert pets.ann.update_by_filter(black, {"seen": True}) == 1
    assert ids(HyrecallEmbeddingRetriever(pets.ann, top_k=1).run([0.8, 0.6])) == ["2"]
    with pytest.raises(DTypeError, match="metadata: expected a mapping, got None"):
        pets.ann.update_by_filter(black, None)  # type: ignore[arg-type]


# ---- one depth for all runs, and options that are refused by name ----


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


# ---- filters, read by ours and by Haystack's own function on the same documents ----

FIELDS: dict[str, list[Any]] = {
    "number": [-2, 0, 3, 7],
    "name": ["a", "b", ""],
    "rating": [0.5, 1.0, 2.5],
    "done": [True, False],
    "date": ["1969-07-21T20:17:40", "1972-12-11T19:54:58", "1989-11-09T17:53:00"],
}
KINDS = {"number": "int", "name": "str", "rating": "float", "done": "bool", "date": "datetime"}
ORDERED = ("number", "rating", "date")


def random_filter(draw: random.Random, depth: int = 2) -> dict[str, Any]:
    if depth and draw.random() < 0.6:
        parts = [random_filter(draw, depth - 1) for _ in range(draw.randint(1, 3))]
        return {"operator": draw.choice(["AND", "OR", "NOT"]), "conditions": parts}
    name = draw.choice(list(FIELDS))
    order = [">", ">=", "<", "<="] if name in ORDERED else []
    operator = draw.choice(["==", "!=", "in", "not in", *order])
    value: Any = draw.choice([*FIELDS[name], None])
    if operator in ("in", "not in"):
        value = draw.sample([*FIELDS[name], None], draw.randint(0, 3))
    return {"field": f"meta.{name}", "operator": operator, "value": value}


def filter_faults() -> list[dict[str, Any]]:
    """Return the random filters that find other documents than Haystack's own function."""
    draw = random.Random(20261126)
    documents = []
    for at in range(30):
        meta = {name: draw.choice(values) for name, values in FIELDS.items()}
        kept = {name: value for name, value in meta.items() if draw.random() < 0.8}
        documents.append(Document(id=str(at), content="x", meta=kept))
    store = HyrecallDocumentStore(cell="ann", attributes=KINDS)
    store.write_documents(documents)
    found = []
    for _ in range(150):
        asked = random_filter(draw)
        expected = [one for one in documents if document_matches_filter(asked, one)]
        if store.filter_documents(asked) != expected:
            found.append(asked)
    return found


def test_filters_find_what_haystack_itself_finds() -> None:
    assert filter_faults() == []


@pytest.mark.parametrize(
    ("operator", "wrong"),
    [
        (">", lambda value: [(value, None)]),
        ("<=", lambda value: [(None, value), hr.NoneOf(value)]),
        ("<", lambda value: [hr.NoneOf(value)]),
    ],
)
def test_a_planted_wrong_comparison_is_found(
    operator: str, wrong: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(haystack_filters.ORDERS, operator, wrong)
    assert filter_faults()


@pytest.mark.parametrize("name", ["AND", "NOT"])
def test_a_planted_wrong_join_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(haystack_filters._LOGIC, name, haystack_filters._LOGIC["OR"])
    assert filter_faults()


# ---- types of attributes by their names, and what the store refuses ----


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: HyrecallDocumentStore(cell="ann", attributes={"tags": "list[text]"}),
            r"^attributes\['tags'\]: expected str, int, .*, got 'text'",
        ),
        (
            lambda: HyrecallDocumentStore(cell="ann").write_documents([], policy="fail"),  # type: ignore[arg-type]
            "^policy: expected a DuplicatePolicy, got 'fail'",
        ),
    ],
)
def test_a_value_of_another_type_is_named(call: Any, message: str) -> None:
    with pytest.raises(DTypeError, match=message):
        call()


def test_types_of_attributes_have_names_that_say_which() -> None:
    kinds = {"half": "float32", "whole": "float", "few": "list[int]"}
    store = HyrecallDocumentStore(cell="ann", attributes=kinds)
    assert store.to_dict()["init_parameters"]["attributes"] == kinds
    again = HyrecallDocumentStore.from_dict(store.to_dict())
    assert again.to_dict() == store.to_dict()
