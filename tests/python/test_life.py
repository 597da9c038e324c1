"""The life of an index: adds, upserts, deletes and merges, also those that fail; and its keys."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from laws.effort import Effort
from laws.engine import ipc_bytes

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


def keys_of(index: hr.Index, scope: Any = EVERYONE) -> list[Any]:
    return sorted(index.recall_one(vector=[1, 1, 1], scope=scope, limit=10_000).keys)


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


def test_a_failing_delete_deletes_nothing() -> None:
    index = built(list(range(30)))
    before = reply(index)
    for keys, scope in (
        ([1, "x"], EVERYONE),
        ([1, None], EVERYONE),
        ([1, 2], [EVERYONE]),
        ([1], 7),
    ):
        with pytest.raises(hr.HyrecallError):
            index.delete(keys, scope=scope)
    assert reply(index) == before


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
