"""Rows as Python has them: dicts, columns of a dict, texts alone; plain functions as embedders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall.distributed import ShardedIndex
from small_index import refused

SCHEMA = hr.Schema(
    key="id", cell="user", text="text", vector="embedding", attributes=("kind", "year")
)
NAN = float("nan")
ROWS: list[dict[str, Any]] = [
    {"id": "a", "user": "ann", "text": "hot tea", "embedding": [1, 0], "year": 2024},
    {"id": "b", "user": None, "text": "milk", "embedding": np.array([0.5, 1], "f"), "kind": "x"},
    {"id": "c", "user": "ann", "text": NAN, "kind": "y", "embedding": None, "more": object},
    {"id": "d", "user": "ann", "text": "cold tea", "embedding": [0, 1.5], "year": NAN},
]
TABLE = pa.table(
    {
        "id": ["a", "b", "c", "d"],
        "user": ["ann", None, "ann", "ann"],
        "text": ["hot tea", "milk", None, "cold tea"],
        "kind": [None, "x", "y", None],
        "year": [2024, None, None, None],
        "embedding": pa.array([[1, 0], [0.5, 1], None, [0, 1.5]], pa.list_(pa.float32())),
    }
)
COLUMNS = {**TABLE.to_pydict(), "year": np.array([2024, NAN, NAN, NAN])}
MATRIX = np.array([[1, 0], [0.5, 1], [0, 0], [0, 1.5]])  # a row of zeros counts as no vector
WITHOUT = [{name: one for name, one in row.items() if name != "more"} for row in ROWS]
FORMS: dict[str, Any] = {
    "list of dicts": WITHOUT,
    "tuple of dicts": tuple(WITHOUT),
    "dict of lists": COLUMNS,
    "dict with a matrix": {**COLUMNS, "embedding": MATRIX},
    "dict of series": {name: pd.Series(values) for name, values in COLUMNS.items()},
}


def shown(index: hr.Index) -> list[Any]:
    said: dict[str, Any] = {"scope": hr.Scope(["ann", None]), "columns": ["kind", "year", "text"]}
    hits = index.recall(text=["tea milk"], vectors=[[1, 1]], **said)
    return [hits.to_arrow().to_pylist(), index.get(["a", "b", "c", "d"], **said).to_pylist()]


@pytest.mark.parametrize("form", FORMS)
def test_rows_of_python_are_those_of_the_table(form: str) -> None:
    rows, wanted = FORMS[form], shown(hr.Index.build(TABLE, SCHEMA))
    assert shown(hr.Index.build(rows, SCHEMA)) == wanted
    one, other = (hr.Index.build(TABLE[:1], SCHEMA) for _ in range(2))
    one.upsert(rows)
    other.upsert(TABLE)
    assert shown(one) == shown(other)
    if isinstance(rows, list):
        one, half = hr.Index.build(rows[:2], SCHEMA), rows[2:]
        one.add(half)
        assert shown(one) == wanted
        shards = ShardedIndex.build([rows[:2], TABLE[2:]], SCHEMA)
        hits = shards.recall(text=["tea"], scope="ann")
        assert (
            hits[0].keys == hr.Index.build(TABLE, SCHEMA).recall_one(text="tea", scope="ann").keys
        )


def test_rows_that_are_added_need_not_have_what_only_filters_and_hits_read() -> None:
    index = hr.Index.build(TABLE, SCHEMA)
    index.add([{"id": "e", "user": "ann", "text": "tea", "embedding": [1, 2]}])
    found = index.get(["e"], scope="ann", columns=["kind", "year"]).to_pylist()
    assert found == [{"key": "e", "user": "ann", "kind": None, "year": None}]
    index.add([])
    index.upsert([])
    assert len(index) == 5


def built() -> hr.Index:
    return hr.Index.build(TABLE, SCHEMA)


GOOD = {"id": "e", "user": "ann", "text": "tea", "embedding": [1, 2]}
WRONG: dict[str, tuple[Any, type[hr.HyrecallError], str]] = {
    "no key": (
        [GOOD, {"user": "ann"}], hr.KeyConflictError,
        "id: expected a key in every row, got none in row 1",
    ),
    "no cell": (
        [{"id": "e"}], hr.ScopeError,
        "user: expected the cell in every row (None names the null cell), got none in row 0",
    ),
    "a value of another type": (
        [*[GOOD] * 37, {**GOOD, "text": 5}, GOOD], hr.DTypeError,
        "text: expected values of one type that Arrow holds, got int 5 in row 37",
    ),
    "text that is not Unicode": (
        [{**GOOD, "text": "\ud800"}], hr.DTypeError,
        "text: expected values of one type that Arrow holds, got str '\\ud800' in row 0",
    ),
    "a column of another type": (
        [{**GOOD, "year": "7"}], hr.DTypeError,
        "year: expected int64, the index's type, got large_string",
    ),
    "a key that comes twice": (
        [GOOD, GOOD], hr.KeyConflictError,
        "id: expected keys unique within a cell, got 'e' in rows 0 and 1",
    ),
    "no text": (
        [{"id": "e", "user": "ann", "txt": "tea", "embedding": [1, 2]}], hr.OptionError,
        "text: expected one column of the table, got none among 'id', 'user', 'txt', 'embedding', "
        "'kind', 'year'",
    ),
    "no dict": ([GOOD, 3], hr.DTypeError, "table[1]: expected a dict, as table[0] is, got int"),
    "no name": ([{1: 2}], hr.DTypeError, "table[0]: expected names of columns, got 1"),
    "no name of a column": ({1: [2]}, hr.DTypeError, "table: expected names of columns, got 1"),
    "no list": ({"id": "e"}, hr.DTypeError, "id: expected a list or array of values, got str"),
    "of two lengths": (
        {"id": ["e"], "user": [1, 2]}, hr.ShapeError,
        "user: expected 1 rows, as the first column has, got 2",
    ),
    "NaN in a vector": (
        [GOOD, {**GOOD, "id": "f", "embedding": [1, NAN]}], hr.OptionError,
        "embedding: expected finite values, got nan in row 1",
    ),
    "None in a vector": (
        [GOOD, {**GOOD, "id": "f", "embedding": [1, None]}], hr.OptionError,
        "embedding: expected no null inside a row's vector, got one in row 1",
    ),
    "NA in a vector": (
        [{**GOOD, "embedding": [1.0, pd.NA]}], hr.OptionError,
        "embedding: expected no null inside a row's vector, got one in row 0",
    ),
    "texts": (
        ["tea"], hr.OptionError,
        "table: expected rows with the columns of the schema (texts alone have a key and one text "
        "column), got a list of texts",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_row_is_named_with_its_column(fault: str) -> None:
    rows, kind, message = WRONG[fault]
    index = built()
    refused(lambda: index.add(rows), kind, message)
    assert len(index) == 4


@pytest.mark.parametrize("rows", [[], (), {}, {"id": [], "user": [], "text": []}])
def test_no_rows_have_no_types_to_build_of(rows: Any) -> None:
    told = "got no rows (an empty list has no types)"
    refused(
        lambda: hr.Index.build(rows, SCHEMA),
        hr.DTypeError,
        f"table: expected rows, or an Arrow table with types, {told}",
    )


@pytest.mark.parametrize("form", [list, dict])
def test_cells_of_only_none_are_the_null_cell(form: type) -> None:
    schema = hr.Schema(key="id", cell="user", text="text")
    rows: Any = [{"id": n, "user": None, "text": "tea"} for n in (1, 2)]
    index = hr.Index.build(rows if form is list else pd.DataFrame(rows).to_dict("list"), schema)
    assert index.recall_one(text="tea", scope=hr.Scope([None])).keys == [1, 2]
    index.add([{"id": 3, "user": "ann", "text": "tea"}])
    assert index.recall_one(text="tea", scope="ann").keys == [3]


def letters(texts: list[str]) -> list[list[float]]:
    return [[text.count("a"), text.count("e"), 0.5] for text in texts]


def test_texts_alone_have_their_insertion_numbers_as_keys(tmp_path: Path) -> None:
    index = hr.Index.build(["disk full", "green tea"])
    assert index.recall_one(text="tea")[0].text == "green tea"
    index.delete([1])
    index.add(["more tea", None])
    assert index.recall_one(text="tea").keys == [2]
    assert index.get([0, 1, 2, 3], columns=["text"])["text"].to_pylist() == [
        "disk full", "more tea", None,
    ]  # fmt: skip
    refused(
        lambda: index.upsert(["tea"]),
        hr.DTypeError,
        "table: expected rows with keys (only build and add give keys to texts alone), "
        "got a list of texts",
    )
    given = hr.Index.build(["x", "y"], vectors={"embedding": np.eye(2)}, first_seq=7)
    assert given.recall_one(vector=[0, 1])[0].key == 8
    named = hr.Schema(key="n", cell=None, text={"body": "words"}, stored=())
    assert hr.Index.build(["x", "y"], named).recall_one(text="y").keys == [1]


def test_a_plain_function_embeds_and_is_known_by_its_name(tmp_path: Path) -> None:
    index = hr.Index.build(["aaa", "eee"], embed=letters)
    assert index.recall_one(text="ae e")[0].text == "eee"
    assert index.stats()["embedded_by"] == {"embedding": "letters"}
    index.save(tmp_path / "i")
    with hr.Index.open(tmp_path / "i") as again:
        assert "'letters'" in again.recall_one(text="e").trace.degraded[0]
    with hr.Index.open(tmp_path / "i", embed=letters) as again:
        again.add(["e e"])
        assert again.recall_one(text="e").keys == [2, 1, 0]

    def others(texts: list[str]) -> np.ndarray:
        return np.ones((len(texts), 3))

    with pytest.raises(hr.IndexMismatchError, match="expected the embedder 'letters'"):
        hr.Index.open(tmp_path / "i", embed=others)
    refused(
        lambda: hr.Index.build(["a"], embed=lambda texts: np.ones((len(texts), 3))),
        hr.DTypeError,
        "embedder: expected a function with a name, which files keep, got a lambda",
    )
