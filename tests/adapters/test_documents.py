"""The index of documents that vector-store adapters share: what it writes, finds and refuses."""

import random
import threading
from collections.abc import Callable
from datetime import UTC, date, datetime
from operator import ge, gt, le, lt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hyrecall as hr
from hyrecall.adapters.documents import Collection, Document, DocumentIndex
from small_index import refused

# ---- what it writes, finds and refuses ----

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
        (pc.field("year") > 2024, ["b"]),
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
    assert documents.recall(text="hot", scope="ann", min_confidence=1.0) == []
    assert documents.recall(text="hot", scope="ann", min_confidence=0.0) == by_text
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
    ("metadata", "kind", "message"),
    [
        ({"tags": ["a", 1]}, hr.DTypeError, "metadata['tags'][1]: expected string, got 1"),
        (
            {"x": 1 << 20_000},
            hr.OptionError,
            "metadata['x']: expected an int of at most 8,192 bits, got one of 20,001 bits",
        ),
    ],
)
def test_a_document_that_does_not_fit_is_named_and_none_is_written(
    metadata: dict[str, Any], kind: type[hr.HyrecallError], message: str
) -> None:
    documents = filled()
    bad = Document(text="x", metadata=metadata)
    good = Document(text="tea")
    told = f"documents[1].{message}"
    refused(lambda: documents.write([good, bad], cell="ann"), kind, told, None)
    assert len(documents) == 4


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


# ---- how deep metadata may be, and updates that lose no field and no vector ----


def test_updates_by_threads_lose_no_field_and_no_vector() -> None:
    documents = filled(keep_vectors=True)

    def update(thread: int) -> None:
        for i in range(10):
            documents.update({f"{thread}-{i}": i}, cell="ann", filter=hr.Filter(id=["a", "b"]))

    threads = [threading.Thread(target=update, args=(one,)) for one in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    changed = documents.get(["a", "b"], scope="ann")
    assert [len(one.metadata) for one in changed] == [42, 41]
    assert [list(one.vector) for one in changed] == [[1, 0], [0, 1]]  # type: ignore[arg-type]
    assert documents.get(["a"], scope="bob")[0].metadata == {}
    assert ids(documents.find(scope="ann"))[0] == "c"


def test_an_update_that_would_lose_vectors_is_refused() -> None:
    documents = filled()
    with pytest.raises(hr.OptionError, match=r"^keep_vectors: expected True to update documents"):
        documents.update({"x": 1}, cell="ann", filter=hr.Filter(id="a"))
    assert documents.update({"x": 1}, cell="ann", filter=hr.Filter(id="none")) == 0
    texts = DocumentIndex()
    texts.write([Document(id="a", text="tea")], cell="ann")
    assert texts.update({"x": 1}, cell="ann", filter=hr.Filter(id="a")) == 1
    assert texts.find(scope="ann")[0].metadata == {"x": 1}


@pytest.mark.parametrize(("levels", "is_refused"), [(63, False), (64, True), (5000, True)])
def test_metadata_of_too_many_levels_is_refused(levels: int, is_refused: bool) -> None:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    documents = DocumentIndex()
    if not is_refused:
        documents.write([Document(id="a", text="x", metadata={"x": value})], cell="ann")
        assert documents.find(scope="ann")[0].metadata == {"x": value}
        return
    with pytest.raises(hr.OptionError, match="expected at most 64 levels, got more"):
        documents.write([Document(text="x", metadata={"x": value})], cell="ann")
    assert len(documents) == 0


@pytest.mark.parametrize("value", [datetime(2026, 3, 5), date(2026, 3, 5)])
def test_a_time_in_metadata_is_refused_with_the_call_that_writes_it(value: Any) -> None:
    documents = DocumentIndex(attributes={"at": type(value)})
    told = r"metadata\['at'\]: expected a JSON value .*; write it as value\.isoformat\(\)"
    with pytest.raises(hr.DTypeError, match=told):
        documents.write([Document(text="x", metadata={"at": value})], cell="ann")
    written = Document(text="x", metadata={"at": value.isoformat()})
    assert documents.write([written], cell="ann")
    assert documents.count(scope="ann", filter=hr.Filter(at=documents.value("at", value))) == 1


@pytest.mark.parametrize(
    ("value", "kind"),
    [(1.5, "float"), (True, "bool"), (7, "int"), ("x", "str"), (None, "str"), (date.max, "date")],
)
def test_an_undeclared_attribute_is_refused_with_the_type_of_the_value(
    value: Any, kind: str
) -> None:
    with pytest.raises(hr.OptionError, match=rf"declare it: attributes=\{{'a': {kind}\}}"):
        DocumentIndex().value("a", value)


# ---- comparisons, as the stores of frameworks ask for them ----


def test_a_comparison_finds_what_python_finds() -> None:
    documents = DocumentIndex(attributes={"n": int, "many": list[int]})
    values = [None, 1, 2, 2, 3]
    documents.write([Document(text="x", metadata={"n": one}) for one in values], cell="ann")
    held = Collection("ann", documents=documents)
    for sign in (">", ">=", "<", "<="):
        found = [one.metadata["n"] for one in held.find(held.ordered("n", sign, 2))]
        test = {">": gt, ">=": ge, "<": lt, "<=": le}[sign]
        assert found == [one for one in values if one is not None and test(one, 2)]
    for finds_null, n_found in ((False, 1), (True, 2)):
        assert held.count(held.equal("n", [None, 3], finds_null=finds_null)) == n_found
        assert held.count(~held.equal("n", [None, 3], finds_null=finds_null)) == 5 - n_found


def test_a_strict_comparison_of_a_list_is_refused() -> None:
    # Of two elements one may be in the range, and the other be the value that is excluded.
    held = Collection("ann", attributes={"n": list[int]})
    held.write([Document(text="x", metadata={"n": [2, 5]})])
    for sign, value in ((">", 2), ("<", 5)):
        assert held.count(held.ordered("n", f"{sign}=", value)) == 1
        with pytest.raises(hr.OptionError, match=f"expected '{sign}=' for the list 'n'"):
            held.ordered("n", sign, value)


# ---- beside a model of dicts, over random histories of several cells ----

CELLS = ("ann", "bob")
WORDS = ("tea", "milk", "hot", "cold", "green")
N_STEPS, N_HISTORIES = 25, 12


class Model:
    """Documents by cell and id, in the order of writing: the definition of what an index holds."""

    def __init__(self) -> None:
        self.cells: dict[str, dict[str, Document]] = {cell: {} for cell in CELLS}
        self.written: list[tuple[str, str]] = []  # cell and id, the last written last

    def write(self, documents: list[Document], *, cell: str, on_duplicate: str) -> list[str]:
        held = self.cells[cell]
        names = [str(one.id) for one in documents]
        if on_duplicate == "fail" and (len({*names}) < len(names) or {*names} & {*held}):
            raise hr.KeyConflictError
        written = []
        for name, one in zip(names, documents, strict=True):
            if on_duplicate == "skip" and name in held:
                continue
            if name in held:
                self.written.remove((cell, name))
            held[name] = one
            self.written.append((cell, name))
            written.append(name)
        return written

    def delete(self, ids: list[str] | None, *, cell: str, year: int | None) -> int:
        held = self.cells[cell]
        gone = [
            name
            for name, one in held.items()
            if (ids is None or name in ids) and (year is None or one.metadata["year"] == year)
        ]
        for name in gone:
            del held[name]
            self.written.remove((cell, name))
        return len(gone)

    def find(self, scope: tuple[str, ...], year: int | None) -> list[tuple[str, str, str | None]]:
        rows = [(cell, name, self.cells[cell][name]) for cell, name in self.written]
        return [
            (cell, name, one.text)
            for cell, name, one in rows
            if cell in scope and (year is None or one.metadata["year"] == year)
        ]


def fresh(model: Model) -> DocumentIndex:
    """Return a new index of the model's documents, written one by one in their order."""
    made = DocumentIndex(attributes={"year": int}, dim=2)
    for cell, name in model.written:
        made.write([model.cells[cell][name]], cell=cell)
    return made


def recalls(documents: DocumentIndex) -> list[Any]:
    """Return replies to several queries in every scope, without the vectors."""
    scopes: list[Any] = [*CELLS, hr.Scope(CELLS), hr.Scope([])]
    queries: list[dict[str, Any]] = [
        {"text": "hot tea"},
        {"text": "green milk", "vector": (1, 0.5)},
        {"vector": (0.2, 1), "filter": hr.Filter(year=(2, None))},
        {"text": "cold", "vector": (1, 1), "fusion": hr.RRF(), "shaping": hr.MMR(0.5)},
    ]
    return [documents.recall(scope=scope, **query) for scope in scopes for query in queries]


def random_documents(random_: random.Random) -> list[Document]:
    return [
        Document(
            id=str(random_.randrange(6)),
            text=" ".join(random_.choices(WORDS, k=random_.randrange(4))) or None,
            vector=(random_.random() + 0.1, random_.random()) if random_.random() < 0.6 else None,
            metadata={"year": random_.randrange(4)},
        )
        for _ in range(random_.randrange(4))
    ]


def outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except hr.KeyConflictError:
        return "a conflict"


def check_history(make: Callable[[], DocumentIndex], seed: int) -> None:
    """Do the same to an index and to the model, and compare every reply."""
    random_ = random.Random(seed)
    documents, model = make(), Model()
    for _ in range(N_STEPS):
        cell, year = random_.choice(CELLS), random_.choice([None, 1])
        if random_.random() < 0.6:
            how = random_.choice(["overwrite", "skip", "fail"])
            given = random_documents(random_)
            options: Any = {"cell": cell, "on_duplicate": how}
            done = outcome(lambda g=given, o=options: documents.write(g, **o))
            assert done == outcome(lambda g=given, o=options: model.write(g, **o))
        else:
            ids = random_.choice([None, [str(one) for one in random_.sample(range(6), 2)]])
            where = None if year is None else hr.Filter(year=year)
            everything = ids is None and where is None
            done = documents.delete(ids, cell=cell, filter=where, everything=everything)
            assert done == model.delete(ids, cell=cell, year=year)
        for scope in ((cell,), CELLS):
            narrowed = None if year is None else hr.Filter(year=year)
            found = documents.find(scope=hr.Scope(scope), filter=narrowed)
            expected = model.find(scope, year)
            assert [(*one.cell, one.id, one.text) for one in found] == expected
            assert documents.count(scope=hr.Scope(scope), filter=narrowed) == len(expected)
    assert recalls(documents) == recalls(fresh(model))


@pytest.mark.plain_cases(5)
@pytest.mark.parametrize("seed", range(N_HISTORIES))
def test_any_history_gives_the_documents_of_the_model_and_the_replies_of_a_new_index(
    seed: int,
) -> None:
    check_history(lambda: DocumentIndex(attributes={"year": int}), seed)


class SkipOverwrites(DocumentIndex):
    """Planted: what should be skipped is written."""

    def write(self, documents: Any, *, cell: Any, on_duplicate: Any = "overwrite") -> list[str]:
        how: Any = "overwrite" if on_duplicate == "skip" else on_duplicate
        return super().write(documents, cell=cell, on_duplicate=how)


class FirstOfABatchStays(DocumentIndex):
    """Planted: of an id that comes twice the first document stays."""

    def write(self, documents: Any, *, cell: Any, on_duplicate: Any = "overwrite") -> list[str]:
        given = list(documents)
        if on_duplicate == "overwrite":
            given = list({one.id: one for one in reversed(given)}.values())[::-1]
        return super().write(given, cell=cell, on_duplicate=on_duplicate)


class DeletesEverywhere(DocumentIndex):
    """Planted: a delete by id reaches the other cell."""

    def delete(self, ids: Any = None, *, cell: Any, **options: Any) -> int:
        if ids is not None:
            for other in set(CELLS) - {cell}:
                super().delete(ids, cell=other, **options)
        return super().delete(ids, cell=cell, **options)


class KeepsItsPlace(DocumentIndex):
    """Planted: the order is that of ids, not of writing."""

    def find(self, **options: Any) -> list[Document]:
        return sorted(super().find(**options), key=lambda one: (one.id or "", one.cell))


class ForgetsVectors(DocumentIndex):
    """Planted: a document that is overwritten loses its vector."""

    def write(self, documents: Any, *, cell: Any, on_duplicate: Any = "overwrite") -> list[str]:
        given = [
            Document(id=one.id, text=one.text, metadata=one.metadata)
            if self.get([one.id], scope=cell)
            else one
            for one in documents
        ]
        return super().write(given, cell=cell, on_duplicate=on_duplicate)


PLANTED = [SkipOverwrites, FirstOfABatchStays, DeletesEverywhere, KeepsItsPlace, ForgetsVectors]


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.__name__)
def test_a_planted_bug_is_caught(bug: type[DocumentIndex]) -> None:
    with pytest.raises(AssertionError):  # noqa: PT012
        for seed in range(N_HISTORIES):
            check_history(lambda: bug(attributes={"year": int}), seed)


def test_what_another_cell_writes_changes_no_byte() -> None:
    alone, beside = (DocumentIndex(attributes={"year": int}) for _ in range(2))
    for documents in (alone, beside):
        documents.write([Document(id="a", text="hot tea", metadata={"year": 1})], cell="ann")
        documents.write([Document(id="b", text="tea tea", metadata={"year": 3})], cell="ann")
    other = [Document(id=str(i), text="hot hot milk", vector=(i, 1)) for i in range(20)]
    beside.write(other, cell="bob")  # with the first vector of the index
    queries: list[dict[str, Any]] = [
        {"text": "hot tea"},
        {"text": "hot tea", "vector": (1, 0)},
        {"text": "hot tea", "vector": (1, 0), "fusion": hr.RRF(alpha=0.5)},
        {"vector": (1, 0), "shaping": hr.MMR(0.5)},
    ]
    for query in queries:
        assert beside.recall(scope="ann", **query) == alone.recall(scope="ann", **query)
    assert beside.find(scope="ann") == alone.find(scope="ann")
