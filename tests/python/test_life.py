"""The life of an index: adds, upserts, deletes and merges, also those that fail; and its keys."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hyrecall as hr
from laws.effort import Effort
from laws.engine import ipc_bytes
from small_index import N, documents
from small_index import built as read_built

# ---- changes ----

WORDS = np.array(["tea", "milk", "cup", "pot", "jug", "hot", "cold", "green"])
CELLS = ("ana", "bob", None)
EVERYONE = hr.Scope(CELLS)
SCHEMA = hr.Schema(key="id", cell="user", text="text", vector="v", attributes="n")
MOST_SEGMENTS = 40


class BrokenError(Exception):
    """What a user's own analyzer may raise."""


def analyse(text: str) -> list[str]:
    if "broken" in text:
        raise BrokenError("no such word")
    return text.split()


def rows(keys: list[Any], seed: int = 0, users: list[Any] | None = None) -> dict[str, Any]:
    """Arguments of build, add or upsert: random documents with these keys."""
    rng = np.random.default_rng(seed)
    n = len(keys)
    table = pa.table(
        {
            "id": pa.array(keys, pa.int64() if not n or isinstance(keys[0], int) else pa.string()),
            "user": pa.array(users or [CELLS[i] for i in rng.integers(0, 3, n)], pa.string()),
            "text": pa.array([" ".join(w) for w in WORDS[rng.integers(0, 8, (n, 4))]], pa.string()),
            "n": pa.array(rng.integers(0, 10, n), pa.int32()),
        }
    )
    return {"table": table, "vectors": {"v": rng.normal(size=(n, 3)).astype(np.float32)}}


def built(keys: list[Any], seed: int = 0) -> hr.Index:
    given = rows(keys, seed)
    analyzer = hr.Analyzer.from_callable(analyse, name="split", version="1")
    return hr.Index.build(given["table"], SCHEMA, vectors=given["vectors"], analyzer=analyzer)


def reply(index: hr.Index) -> bytes:
    """Everything that a few queries over all cells can show."""
    hits = index.recall(
        text=["tea", "milk cup", hr.Phrase("hot tea"), None],
        vectors=[[1, 0, 0], [0, 1, 1], None, [-1, 2, 0]],
        scope=[EVERYONE, "ana", EVERYONE, hr.Scope([None, "bob"])],
        limit=5000,
        depth=5000,
        columns=("text", "n"),
    )
    return ipc_bytes(hits.to_arrow())


# ---- what fails changes nothing ----


def changed(**columns: Any) -> dict[str, Any]:
    given = rows([100, 101, 102], 7)
    table = given["table"]
    for name, values in columns.items():
        table = table.set_column(table.column_names.index(name), name, pa.array(values))
    return {**given, "table": table}


def with_vectors(vectors: Any) -> dict[str, Any]:
    return {**rows([100, 101, 102], 7), "vectors": vectors}


GOOD = np.ones((3, 3), np.float32)
FAILURES: dict[str, tuple[Callable[[], dict[str, Any]], type[Exception]]] = {
    "a key twice": (lambda: changed(id=[100, 100, 101], user=["ana"] * 3), hr.KeyConflictError),
    "a null key": (lambda: changed(id=[100, None, 101]), hr.KeyConflictError),
    "a key of another type": (lambda: changed(id=["x", "y", "z"]), hr.DTypeError),
    "a cell of another type": (lambda: changed(user=[1, 2, 3]), hr.DTypeError),
    "keys that read as numbers": (lambda: changed(id=["100", "101", "102"]), hr.DTypeError),
    "a cell of booleans": (lambda: changed(user=[True, False, None]), hr.DTypeError),
    "an attribute of strings": (lambda: changed(n=["1", "2", "3"]), hr.DTypeError),
    "an attribute out of range": (lambda: changed(n=[1, 2, 2**40]), hr.DTypeError),
    "no such column": (
        lambda: {**changed(), "table": changed()["table"].drop_columns("text")},
        hr.OptionError,
    ),
    "a text column of numbers": (lambda: changed(text=[1, 2, 3]), hr.DTypeError),
    "NaN": (lambda: with_vectors({"v": np.where(np.eye(3) > 0, np.nan, GOOD)}), hr.OptionError),
    "another dimension": (lambda: with_vectors({"v": np.ones((3, 4), np.float32)}), hr.ShapeError),
    "too few vectors": (lambda: with_vectors({"v": GOOD[:2]}), hr.ShapeError),
    "no vectors": (lambda: with_vectors(None), hr.OptionError),
    "vectors of no arm": (lambda: with_vectors({"v": GOOD, "w": GOOD}), hr.OptionError),
    "a norm too large": (lambda: with_vectors({"v": GOOD * np.float32(1e30)}), hr.OptionError),
    "vectors of integers": (lambda: with_vectors({"v": np.ones((3, 3), int)}), hr.DTypeError),
    "no table": (lambda: {"table": [1, 2, 3], "vectors": {"v": GOOD}}, hr.DTypeError),
    "an analyzer that raises": (lambda: changed(text=["tea", "broken", "cup"]), BrokenError),
}


@pytest.mark.parametrize("verb", ["add", "upsert"])
@pytest.mark.parametrize("name", FAILURES)
def test_a_failing_write_leaves_the_index_as_it_was(name: str, verb: str) -> None:
    make, kind = FAILURES[name]
    index = built(list(range(50)))
    index.delete([3, 4], scope=EVERYONE)
    index.add(**rows([60, 61], 3))
    before, stats = reply(index), index.stats()
    with pytest.raises(kind):
        getattr(index, verb)(**make())
    assert reply(index) == before
    assert index.stats() == stats
    index.add(**rows([100, 101, 102], 7))  # and the lock is free, the keys are not taken
    assert len(index) == 53


def test_one_row_adds_keep_few_segments_and_merges_keep_replies(effort: Effort) -> None:
    n = effort.cases(quick=750, full=30_000)
    start = 500
    given = rows(list(range(start + n)), 23)
    table, vectors = given["table"], given["vectors"]["v"]
    options: dict[str, Any] = {"analyzer": hr.Analyzer("word")}
    index = hr.Index.build(table.slice(0, start), SCHEMA, vectors={"v": vectors[:start]}, **options)
    most = 0
    for row in range(start, start + n):
        index.add(table.slice(row, 1), vectors={"v": vectors[row : row + 1]})
        if row % 7 == 0:
            assert index.delete([row - 300], scope=EVERYONE) == 1
        most = max(most, index.stats()["n_segments"] if row % 10 == 0 else 0)
    assert most <= MOST_SEGMENTS
    gone = {row - 300 for row in range(start, start + n) if row % 7 == 0}
    live = np.array([row not in gone for row in range(start + n)])
    assert len(index) == live.sum()
    fresh = hr.Index.build(table.filter(live), SCHEMA, vectors={"v": vectors[live]}, **options)
    assert reply(index) == reply(fresh)
    index.compact()
    assert reply(index) == reply(fresh)


# ---- keys at their ends ----


LOW, HIGH = -(2**63), 2**63 - 1
TEXT_ALONE = hr.Schema(key="id", cell="user", text="text")

INTEGERS = [LOW, LOW + 1, -1, 0, 1, 2**31, 2**32, 2**53 + 1, HIGH - 1, HIGH]
STRINGS = [
    "",
    "a",
    "A",
    "a ",
    "0",
    "00",
    "é",
    "e\u0301",
    "日本",
    "👩\u200d👧",
    "a\0b",
    "a\0",
    "null",
    "k" * 1024,
    "k" * 1023 + "l",
    "\n\t",
    "' OR 1=1 --",
]


def of_keys(keys: list[Any], text: str = "tea", user: str = "ana") -> pa.Table:
    kind = pa.int64() if isinstance(keys[0], int) else pa.string()
    n = len(keys)
    return pa.table({"id": pa.array(keys, kind), "user": [user] * n, "text": [text] * n})


def found(index: hr.Index, text: str = "tea", scope: Any = "ana") -> list[Any]:
    return index.recall_one(text=text, scope=scope, limit=1000).keys


@pytest.mark.parametrize("keys", [INTEGERS, STRINGS], ids=["integers", "strings"])
def test_every_key_is_kept_found_replaced_and_deleted_by_itself(keys: list[Any]) -> None:
    index = hr.Index.build(of_keys(keys), TEXT_ALONE)
    assert found(index) == keys
    for key in keys:
        with pytest.raises(hr.KeyConflictError) as caught:
            index.add(of_keys([key]))
        assert repr(key) in str(caught.value)
    for number, key in enumerate(keys):
        index.upsert(of_keys([key], f"milk{number}"))
        assert found(index, f"milk{number}") == [key]
        assert found(index) == keys[number + 1 :]
    for number, key in enumerate(keys):
        assert index.delete([key], scope="ana") == 1
        assert index.delete([key], scope="ana") == 0
        assert len(index) == len(keys) - number - 1
    index.add(of_keys(keys))  # a key may come again after it went
    assert found(index) == keys


def test_keys_of_narrower_and_unsigned_integers_are_int64() -> None:
    for kind in (pa.int8(), pa.uint8(), pa.int32(), pa.uint32(), pa.uint64()):
        table = of_keys([0, 1, 100]).set_column(0, "id", pa.array([0, 1, 100], kind))
        index = hr.Index.build(table, TEXT_ALONE)
        assert index.recall(text=["tea"], scope="ana").to_arrow()["key"].type == pa.int64()
        assert found(index) == [0, 1, 100]
    table = of_keys([0]).set_column(0, "id", pa.array([2**63], pa.uint64()))
    with pytest.raises(hr.OptionError, match=f"^id: expected integers of at most {HIGH}"):
        hr.Index.build(table, TEXT_ALONE)


# ---- rows by key, numbers of documents, and deletes by filter or of a whole scope ----

READ_EVERYONE = hr.Scope(["ana", "bob", None])
KIND_0, KIND_1 = hr.Filter(kind=0), hr.Filter(kind=1)


@pytest.fixture
def index() -> hr.Index:
    return read_built()


# ---- get ----


def test_get_returns_rows_in_the_order_of_the_keys(index: hr.Index) -> None:
    table = index.get(["k2", "k0"], scope="ana")
    assert table.schema.names == ["key", "user"]
    assert table.to_pydict() == {"key": ["k2", "k0"], "user": ["ana", "ana"]}
    more = index.get(["k2", "k0"], scope="ana", columns=["text", "kind", "user"])
    assert more.schema.names == ["key", "user", "text", "kind"]
    assert more["text"].to_pylist() == ["green tea", "hot tea"]
    assert more.select(["key", "user"]).equals(table)


def test_a_name_alone_is_one_column(index: hr.Index) -> None:
    both = [
        (
            index.get(["k0"], scope="ana", columns=columns),
            index.recall_one(text="tea", scope="ana", columns=columns).to_arrow(),
            index.recall(text=["tea"], scope="ana", columns=columns).to_arrow(),
        )
        for columns in ("kind", ("kind",))
    ]
    assert both[0] == both[1]
    assert {one.column_names[-1] for one in both[0]} == {"kind"}


def test_get_takes_a_scope_per_key(index: hr.Index) -> None:
    asked = ["k3", "k0", "k0", "k5"]
    scopes = ["bob", "ana", "bob", hr.Scope([None])]
    assert index.get(asked, scope=scopes)["key"].to_pylist() == ["k3", "k0", "k5"]
    column = pd.Series(["bob", "ana", "bob", "bob"])
    assert index.get(asked, scope=column)["key"].to_pylist() == ["k3", "k0"]


def test_a_key_of_several_cells_has_a_row_for_each_and_one_asked_twice_comes_twice() -> None:
    index = read_built()
    index.add(
        documents().slice(0, 1).set_column(1, "user", pa.array(["bob"])), vectors=one_vector()
    )
    table = index.get(["k1", "k0", "k1"], scope=READ_EVERYONE, columns=["user"])
    assert table["key"].to_pylist() == ["k1", "k0", "k0", "k1"]
    assert table["user"].to_pylist() == ["ana", "ana", "bob", "ana"]


def one_vector() -> dict[str, Any]:
    return {"embedding": np.ones((1, 3), np.float32)}


def test_get_takes_keys_in_the_forms_that_delete_takes(index: hr.Index) -> None:
    for given in (("k0",), np.array(["k0"]), pa.array(["k0"]), iter(["k0"])):
        assert index.get(given, scope="ana").num_rows == 1
    numbers = hr.Index.build(
        pa.table({"id": [5, 6], "text": ["tea", "milk"]}),
        hr.Schema(key="id", cell=None, text="text"),
    )
    assert numbers.get(np.array([6, 5])).to_pydict() == {"key": [6, 5]}


# ---- count ----


def test_count_is_of_a_scope_and_a_filter(index: hr.Index) -> None:
    assert [index.count(scope=cell) for cell in ("ana", "bob", hr.Scope([None]))] == [3, 2, 1]
    assert index.count(scope=READ_EVERYONE) == len(index) == 6
    assert index.count(scope=READ_EVERYONE, filter=KIND_0) == 3
    assert index.count(scope="ana", filter=pc.field("kind") == 1) == 1
    assert index.count(scope="ana", filter=hr.Filter(kind=9)) == 0
    assert index.count(scope="nobody") == index.count(scope=hr.Scope([])) == 0
    assert index.count(scope=hr.Scope.matching(user=hr.ANY)) == 6
    index.delete(["k0"], scope="ana")
    assert index.count(scope="ana") == 2


def test_an_index_of_one_audience_needs_no_scope() -> None:
    schema = hr.Schema(key="id", cell=None, text="text", attributes="kind")
    index = hr.Index.build(documents(), schema)
    assert (index.count(), index.count(filter=KIND_1)) == (6, 3)
    assert index.get(["k5"]).to_pydict() == {"key": ["k5"]}
    with pytest.raises(hr.ScopeError):
        index.count(scope="ana")
    assert index.delete(filter=KIND_1) == 3
    with pytest.raises(hr.OptionError, match="everything=True"):
        index.delete()
    assert index.delete(everything=True) == 3
    assert (len(index), index.count()) == (0, 0)


# ---- delete by filter, and of a whole scope ----


def test_keys_and_a_filter_must_both_hold(index: hr.Index) -> None:
    assert index.delete(["k0", "k1", "k2"], scope="ana", filter=KIND_1) == 1
    assert index.delete(["k3", "k4"], scope=["bob", "ana"], filter=KIND_1) == 1
    assert index.get([f"k{at}" for at in range(N)], scope=READ_EVERYONE)["key"].to_pylist() == [
        *("k0", "k2", "k4", "k5")
    ]
    assert index.delete([], scope="ana", filter=KIND_0) == 0


# ---- what a build tells of its progress, and that ending it there loses nothing ----

ROWS = 5000  # several batches of the builder
PROGRESS_SCHEMA = hr.Schema(key="id", cell="user", text={"a": "text", "b": "note"}, vector="v")


class StoppedError(Exception):
    """What a caller raises to end a build."""


def progress_rows(n: int, first: int = 0) -> pa.Table:
    number = np.arange(first, first + n)
    return pa.table(
        {
            "id": number,
            "user": number % 3,
            "text": [f"tea w{i % 97} w{i % 89}" for i in number],
            "note": [f"n{i % 7}" for i in number],
        }
    )


def vectors(n: int) -> dict[str, np.ndarray]:
    return {"v": np.ones((n, 4), np.float32)}


def stop_at(done: int) -> Callable[[int, int], None]:
    def tell(reached: int, total: int) -> None:
        assert reached <= total
        if reached >= done:
            raise StoppedError

    return tell


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_progress_rises_from_row_to_row_and_ends_at_the_total(threads: int) -> None:
    told: list[tuple[int, int, int]] = []

    def tell(done: int, total: int) -> None:
        told.append((done, total, threading.get_ident()))

    hr.Index.build(
        progress_rows(ROWS), PROGRESS_SCHEMA, vectors=vectors(ROWS), threads=threads, progress=tell
    )
    done = [one[0] for one in told]
    assert done == sorted(done)
    assert {one[1:] for one in told} == {(3 * ROWS, threading.get_ident())}
    assert {ROWS, 2 * ROWS, 3 * ROWS} <= set(done), "an arm did not tell that it is done"
    assert done[-1] == 3 * ROWS


def test_one_thread_tells_of_every_batch() -> None:
    told: list[int] = []
    hr.Index.build(
        progress_rows(ROWS),
        PROGRESS_SCHEMA,
        vectors=vectors(ROWS),
        threads=1,
        progress=lambda done, _: told.append(done),
    )
    assert [done for done in told if done <= ROWS] == [1024, 2048, 3072, 4096, ROWS]


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("at", [1, ROWS, ROWS + 1, 3 * ROWS])
def test_what_progress_raises_ends_the_build(threads: int, at: int) -> None:
    with pytest.raises(StoppedError):
        hr.Index.build(
            progress_rows(ROWS),
            PROGRESS_SCHEMA,
            vectors=vectors(ROWS),
            threads=threads,
            progress=stop_at(at),
        )


@pytest.mark.parametrize("change", ["add", "upsert"])
def test_an_add_that_is_ended_leaves_the_index_as_it_was(change: str) -> None:
    index = hr.Index.build(progress_rows(10), PROGRESS_SCHEMA, vectors=vectors(10), threads=2)

    def reply() -> object:
        hits = index.recall_one(text="tea w1", scope=1, limit=10)
        return [(hit.key, hit.score) for hit in hits]

    before = reply()
    with pytest.raises(StoppedError):
        getattr(index, change)(
            progress_rows(ROWS, 5000), vectors=vectors(ROWS), progress=stop_at(ROWS)
        )
    assert len(index) == 10
    assert reply() == before
    told: list[tuple[int, int]] = []
    getattr(index, change)(
        progress_rows(ROWS, 5000), vectors=vectors(ROWS), progress=lambda *at: told.append(at)
    )
    assert len(index) == 10 + ROWS
    assert told[-1] == (3 * ROWS, 3 * ROWS)
