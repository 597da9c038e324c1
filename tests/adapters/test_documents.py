"""The index of documents that vector-store adapters share: what it writes, finds and refuses."""

import threading
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall.adapters.documents import Document, DocumentIndex
from small_index import refused

TEA = Document(id="a", text="hot tea", vector=(1, 0), metadata={"year": 2024, "tags": ["hot"]})
MILK = Document(id="b", text="hot milk", vector=(0, 1), metadata={"year": 2026})
JUICE = Document(id="c", text="cold juice", vector=(0.6, 0.8), metadata={"lang": {"code": "de"}})
ATTRIBUTES: dict[str, Any] = {"year": int, "tags": list[str], "lang.code": str}


def filled(**options: Any) -> DocumentIndex:
    documents = DocumentIndex(**{"attributes": ATTRIBUTES} | options)
    documents.write([TEA, MILK, JUICE], cell="ann")
    documents.write([Document(id="a", text="tea of bob", vector=(1, 0))], cell="bob")
    return documents


def ids(found: list[Any]) -> list[str]:
    return [getattr(one, "document", one).id for one in found]


# ---- writing ----


def test_ids_are_kept_or_made() -> None:
    documents = DocumentIndex()
    first, second, third = documents.write(
        [Document(text="x"), Document(text="y", id="mine"), Document(text="z")], cell="ann"
    )
    assert second == "mine"
    assert len({first, second, third}) == 3
    assert ids(documents.find(scope="ann")) == [first, "mine", third]


@pytest.mark.parametrize("taken", ["b", "new"])
def test_a_duplicate_fails_and_nothing_is_written(taken: str) -> None:
    documents = filled()
    new = [Document(id="new", text="x"), Document(id=taken, text="y")]
    with pytest.raises(
        hr.KeyConflictError, match=r'got .* in rows? .*; replace it: on_duplicate="overwrite"'
    ):
        documents.write(new, cell="ann", on_duplicate="fail")
    assert ids(documents.find(scope="ann")) == ["a", "b", "c"]
    documents.write(new[:1], cell="ann", on_duplicate="fail")
    assert ids(documents.find(scope="ann")) == ["a", "b", "c", "new"]


def test_a_document_may_lack_a_text_or_a_vector() -> None:
    documents = DocumentIndex(keep_vectors=True)
    documents.write([Document(id="t", text="tea")], cell="ann")
    assert documents.dim is None
    documents.write([Document(id="v", text=None, vector=[1, 2, 3])], cell="ann")
    assert documents.dim == 3
    first, second = documents.find(scope="ann")
    assert (first.text, first.vector, second.text, second.vector) == ("tea", None, None, [1, 2, 3])
    assert ids(documents.recall(text="tea", scope="ann")) == ["t"]
    assert ids(documents.recall(vector=[1, 2, 3], scope="ann")) == ["v"]


# ---- reading ----


def test_get_keeps_the_order_and_leaves_out_what_is_not_there() -> None:
    documents = filled()
    assert ids(documents.get(["c", "none", "a"], scope="ann")) == ["c", "a"]
    assert [one.text for one in documents.get(["a"], scope="bob")] == ["tea of bob"]
    both = documents.get(["a"], scope=hr.Scope(["ann", "bob"]))
    assert [one.cell for one in both] == [("ann",), ("bob",)]
    assert documents.get(["a"], scope=hr.Scope([])) == []


def test_metadata_comes_back_whole() -> None:
    metadata = {"n": 1, "x": 1.5, "none": None, "deep": {"list": [True, "ä", {}]}, "year": 2020}
    documents = DocumentIndex(attributes={"year": int})
    documents.write([Document(id="a", text="x", metadata=metadata)], cell="ann")
    (found,) = documents.get(["a"], scope="ann")
    assert found == Document(id="a", text="x", metadata=metadata, cell=("ann",))


@pytest.mark.parametrize(
    ("filter_", "expected"),
    [
        (hr.Filter(year=2024), ["a"]),
        (hr.Filter(year=(None, 2026)), ["a", "b"]),
        (hr.Filter(year=hr.IsNull()), ["c"]),
        (hr.Filter(tags="hot"), ["a"]),
        (hr.Filter(**{"lang.code": "de"}) | hr.Filter(id=["b", "none"]), ["b", "c"]),
        (pa.compute.field("year") > 2024, ["b"]),
        (None, ["a", "b", "c"]),
    ],
)
def test_filters_read_declared_attributes(filter_: Any, expected: list[str]) -> None:
    documents = filled()
    assert ids(documents.find(scope="ann", filter=filter_)) == expected
    assert documents.count(scope="ann", filter=filter_) == len(expected)
    found = documents.recall(text="hot juice", vector=(1, 1), scope="ann", filter=filter_)
    assert sorted(ids(found)) == expected
    assert documents.delete(cell="ann", filter=filter_, everything=filter_ is None) == len(expected)
    assert documents.count(scope="ann", filter=filter_) == 0
    assert documents.count(scope="bob") == 1


def test_times_are_strings_in_the_metadata_and_times_in_filters() -> None:
    documents = DocumentIndex(attributes={"at": datetime, "day": date})
    metadata = {"at": "2026-03-01T12:00:00+02:00", "day": "2026-03-01"}
    documents.write([Document(id="a", text="x", metadata=metadata)], cell="ann")
    instant = datetime(2026, 3, 1, 10, tzinfo=UTC)
    assert documents.count(scope="ann", filter=hr.Filter(at=instant)) == 1
    assert documents.count(scope="ann", filter=hr.Filter(day=date(2026, 3, 1))) == 1
    assert documents.value("at", "2026-03-01T10:00:00Z") == instant
    assert documents.find(scope="ann")[0].metadata == metadata


def test_recall_by_text_by_vector_and_by_both_has_the_scores_of_each_arm() -> None:
    documents = filled()
    by_text = documents.recall(text="hot", scope="ann")
    assert sorted(ids(by_text)) == ["a", "b"]
    assert by_text[0].scores == {"text": pytest.approx(by_text[0].score), "vector": None}
    by_vector = documents.recall(vector=(1, 0), scope="ann", min_score={"vector": 0.5})
    assert ids(by_vector) == ["a", "c"]
    assert [one.score for one in by_vector] == pytest.approx([1.0, 0.6])
    both = documents.recall(text="milk", vector=(1, 0), scope="ann", fusion=hr.RRF(alpha=0.5))
    assert {one.document.id: one.scores["vector"] for one in both} == pytest.approx(
        {"a": 1.0, "c": 0.6, "b": 0.0}
    )
    assert [one.rank for one in both] == [1, 2, 3]
    assert ids(documents.recall(text="milk", vector=(1, 0), scope="ann", limit=1, offset=1)) == [
        ids(documents.recall(text="milk", vector=(1, 0), scope="ann"))[1]
    ]


def test_mmr_runs_on_the_vectors() -> None:
    documents = DocumentIndex()
    near = [
        Document(id=str(i), text="x", vector=v)
        for i, v in enumerate([(1, 0), (1, 0.01), (0.7, 0.7)])
    ]
    documents.write(near, cell="ann")
    assert ids(documents.recall(vector=(1, 0), scope="ann", limit=2)) == ["0", "1"]
    diverse = hr.MMR(0.4, relevance="raw")
    assert ids(documents.recall(vector=(1, 0), scope="ann", limit=2, shaping=diverse)) == ["0", "2"]


def test_an_empty_index_answers_and_checks() -> None:
    for documents in (DocumentIndex(), DocumentIndex(dim=2)):
        assert documents.recall(text="tea", vector=(1, 0), scope="ann") == []
        assert documents.recall(vector=(1, 0), scope="ann", shaping=hr.MMR(0.5)) == []
        assert documents.get(["a"], scope="ann") == documents.find(scope="ann") == []
        assert documents.count(scope="ann") == 0
        assert documents.delete(["a"], cell="ann") == 0
        with pytest.raises(hr.ScopeError):
            documents.recall(vector=(1, 0), scope=None)


def test_cells_may_have_several_columns() -> None:
    documents = DocumentIndex(cell_columns=("tenant", "user"))
    documents.write([TEA], cell=("acme", "ann"))
    documents.write([MILK], cell=("acme", "bob"))
    assert ids(documents.find(scope=("acme", "ann"))) == ["a"]
    everyone = hr.Scope.matching(tenant="acme", user=hr.ANY)
    assert sorted(ids(documents.recall(text="hot", scope=everyone))) == ["a", "b"]


# ---- what is refused ----


@pytest.mark.parametrize("cell", [None, "", ["a", "list"], 3, ("ann", "x"), hr.Scope(["ann"])])
def test_a_write_needs_exactly_one_cell(cell: Any) -> None:
    documents = filled()
    for call in (
        lambda: documents.write([TEA], cell=cell),
        lambda: documents.delete(["a"], cell=cell),
        lambda: documents.delete(cell=cell, everything=True),
    ):
        with pytest.raises(
            hr.ScopeError, match=r"^cell: expected one cell: a non-empty str for \(cell\)"
        ):
            call()
    assert len(documents) == 4


def test_a_delete_says_what_it_means() -> None:
    documents = filled()
    told = "ids: expected ids, a filter, or everything=True for the whole cell, got none of them"
    refused(lambda: documents.delete(cell="ann"), hr.OptionError, told, None)
    assert documents.delete([], cell="ann") == 0
    assert documents.delete(cell="ann", everything=True) == 3
    assert len(documents) == 1


def test_a_filter_on_an_undeclared_field_says_how_to_declare_it() -> None:
    documents = filled()
    told = (
        "filter: expected a declared attribute (id, year, tags, lang.code), got 'source'; "
        "declare it: attributes={'source': str}"
    )
    for filter_ in (hr.Filter(source="x"), ~(hr.Filter(year=1) & hr.Filter(source="x"))):
        for call in (
            lambda f=filter_: documents.find(scope="ann", filter=f),
            lambda f=filter_: documents.count(scope="ann", filter=f),
            lambda f=filter_: documents.delete(cell="ann", filter=f),
            lambda f=filter_: documents.recall(text="tea", scope="ann", filter=f),
        ):
            refused(call, hr.OptionError, told, "filter")
    refused(lambda: documents.value("source", "x"), hr.OptionError, told, "filter")


@pytest.mark.parametrize(
    ("document", "kind", "message"),
    [
        ({"metadata": {"year": "x"}}, hr.DTypeError, "metadata['year']: expected int64, got 'x'"),
        ({"metadata": {"year": True}}, hr.DTypeError, "metadata['year']: expected int64, got True"),
        ({"metadata": {"year": 1.5}}, hr.DTypeError, "metadata['year']: expected int64, got 1.5"),
        (
            {"metadata": {"year": 2**63}},
            hr.DTypeError,
            "metadata['year']: expected int64, got 9223372036854775808",
        ),
        (
            {"metadata": {"tags": ["a", 1]}},
            hr.DTypeError,
            "metadata['tags'][1]: expected string, got 1",
        ),
        (
            {"metadata": {"x": [{"y": {1}}]}},
            hr.DTypeError,
            "metadata['x'][0]['y']: expected a JSON value (str, int, finite float, bool, None, "
            "list or dict), got set {1}",
        ),
        ({"metadata": {1: 2}}, hr.DTypeError, "metadata: expected names that are str, got 1"),
        (
            {"metadata": {"x": 1 << 20_000}},
            hr.OptionError,
            "metadata['x']: expected an int of at most 8,192 bits, got one of 20,001 bits",
        ),
        ({"metadata": []}, hr.DTypeError, "metadata: expected a mapping, got []"),
        ({"id": 1}, hr.DTypeError, "id: expected a str or None, got 1"),
        ({"text": b"x"}, hr.DTypeError, "text: expected a str or None, got b'x'"),
        ({"vector": [1, 2, 3]}, hr.ShapeError, "vector: expected 2 values, got 3"),
        ({"vector": [1]}, hr.ShapeError, "vector: expected at least 2 values, got shape (1,)"),
        ({"vector": ["x", 1]}, hr.DTypeError, "vector: expected numbers, got ['x', 1]"),
        (
            {"vector": [1e300, 1]},
            hr.OptionError,
            "vector: expected finite float32 values, got [1e+300, 1]",
        ),
    ],
)
def test_a_document_that_does_not_fit_is_named_and_none_is_written(
    document: dict[str, Any], kind: type[hr.HyrecallError], message: str
) -> None:
    documents = filled()
    bad = Document(**{"text": "x"} | document)
    good = Document(text="tea")
    told = f"documents[1].{message}"
    refused(lambda: documents.write([good, bad], cell="ann"), kind, told, None)
    assert len(documents) == 4


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        (
            {"attributes": {"text": str}},
            hr.OptionError,
            "attributes: expected no name of the index's own columns "
            "(id, text, metadata, position, vector), got 'text'",
        ),
        (
            {"attributes": {"x": dict}},
            hr.DTypeError,
            "attributes['x']: expected str, int, float, bool, datetime, date, a list of one "
            "(list[str]), or its Arrow type, got <class 'dict'>",
        ),
        (  # the metadata of a document would say in which cell it lies
            {"attributes": {"user": str}, "cell_columns": ("tenant", "user")},
            hr.OptionError,
            "attributes: expected no name of a cell column (tenant, user), got 'user'; "
            "cell_columns= takes other names",
        ),
        ({"dim": 1}, hr.OptionError, "dim: expected an int >= 2, or None, got 1"),
    ],
)
def test_an_index_that_cannot_be_is_refused(
    options: dict[str, Any], kind: type[hr.HyrecallError], message: str
) -> None:
    refused(lambda: DocumentIndex(**options), kind, message, None)


# ---- keeping ----


def test_saved_documents_open_with_attributes_order_and_vectors(tmp_path: Path) -> None:
    documents = filled(keep_vectors=True, analyzer=hr.Analyzer("snowball:english"))
    documents.save(tmp_path / "d")
    opened = DocumentIndex.open(tmp_path / "d")
    assert opened.attributes == {
        "year": pa.int64(),
        "tags": pa.large_list(pa.large_string()),
        "lang.code": pa.large_string(),
    }
    assert opened.dim == 2
    assert opened.find(scope="ann") == documents.find(scope="ann")
    assert opened.find(scope="ann")[2].vector == pytest.approx([0.6, 0.8])
    opened.write([Document(id="0", text="teas", metadata={"tags": ["x"]})], cell="ann")
    assert ids(opened.find(scope="ann")) == ["a", "b", "c", "0"]
    assert sorted(ids(opened.recall(text="tea", scope="ann"))) == ["0", "a"]  # stemmed, as before
    opened.save(tmp_path / "d")
    with pytest.raises(hr.SaveConflictError):
        documents.save(tmp_path / "d")


def test_documents_without_vectors_open_and_take_the_first_one(tmp_path: Path) -> None:
    documents = DocumentIndex(analyzer=hr.Analyzer("snowball:english"))
    documents.write([Document(id="a", text="teas")], cell="ann")
    documents.save(tmp_path / "d")
    opened = DocumentIndex.open(tmp_path / "d")
    assert opened.dim is None
    opened.write([Document(id="b", text="x", vector=[1, 0])], cell="ann")
    assert ids(opened.recall(text="tea", vector=[1, 0], scope="ann")) == ["a", "b"]
    opened.save(tmp_path / "d")  # the version that it came from: no conflict
    assert DocumentIndex.open(tmp_path / "d").dim == 2
    documents.write([Document(id="c", text="x", vector=[1, 0])], cell="ann")
    with pytest.raises(hr.SaveConflictError):
        documents.save(tmp_path / "d")


def test_a_folder_of_another_index_is_refused(tmp_path: Path) -> None:
    table = pa.table({"id": ["a"], "text": ["tea"]})
    hr.Index.build(table, hr.Schema(key="id", cell=None, text="text")).save(tmp_path / "d")
    with pytest.raises(hr.OptionError, match=r"^path: expected an index that DocumentIndex.save"):
        DocumentIndex.open(tmp_path / "d")


def test_threads_that_write_wait_for_one_another() -> None:
    documents = DocumentIndex()

    def write(thread: int) -> None:
        for i in range(20):
            one = Document(id=f"{thread}-{i}", text="tea", vector=np.ones(2) if i else None)
            documents.write([one], cell=f"user{thread % 2}")

    threads = [threading.Thread(target=write, args=(one,)) for one in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert [documents.count(scope=f"user{one}") for one in range(2)] == [40, 40]
    assert len({one.id for one in documents.find(scope="user0")}) == 40
