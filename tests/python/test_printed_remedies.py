"""Every line of code that an error prints as its remedy runs on the input that caused it."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hyrecall as hr

IDS = ["a", "b"]
BYTES = [b"\xff\x00" * 8, b"\xfe\x01" * 8]
COLUMNS: dict[str, pa.Array] = {
    "uuid": pa.ExtensionArray.from_storage(
        pa.uuid(), pa.array([uuid.UUID(int=at).bytes for at in (1, 2)], pa.binary(16))
    ),
    "binary": pa.array(BYTES),
    "bytes of text": pa.array([b"tea", None]),
    "fixed binary": pa.array(BYTES, pa.binary(16)),
    "struct": pa.array([{"x": 1}, None]),
    "map": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
    "list of text": pa.array([["x", None], None]),
    "list of lists": pa.array([[[1]], [[2], None]]),
    "list of bytes": pa.array([[b"\xff"], None]),
    "decimal": pa.array([decimal.Decimal("1.5"), None]),
    "duration": pa.array([1, 2], pa.duration("s")),
    "float": pa.array([1.5, 2.0]),
    "whole float": pa.array([1.0, 2.0]),
    "timestamp": pa.array([1, 2], pa.timestamp("us", "UTC")),
    "time": pa.array([1, 2], pa.time32("s")),
    "bool": pa.array([True, False]),
    "int": pa.array([1, 2]),
    "large int": pa.array([2**63, 1], pa.uint64()),
    "null": pa.nulls(2),
    "text": pa.array(["tea", "cups"]),
    "dictionary": pa.array(["tea", "cups"]).dictionary_encode(),
}
ROLES: dict[str, dict[str, Any]] = {
    "key": {"key": "c"},
    "cell": {"cell": "c"},
    "attribute": {"attributes": "c"},
    "text": {"text": "c"},
    "cluster": {"cluster": "c"},
    "thread": {"thread": "c", "place": "n"},
    "place": {"thread": "id", "place": "c"},
}


def run(fault: hr.HyrecallError, **names: Any) -> Any:
    """Run every alternative of the printed remedy; return the last value, or the new rows."""
    found: Any = None
    names = {"pa": pa, "pc": pc, "np": np, "json": json, "hr": hr, **names}
    for told in fault.remedy.split(", or "):
        head, _, rest = told.partition(": ")
        for line in (rest if rest and "(" not in head else told).split("; "):
            try:
                code = compile(line, "remedy", "eval")
            except SyntaxError:
                exec(line, names)
                found = names["rows"]
            else:
                found = eval(code, names)
    return found


def refused(call: Callable[[], object]) -> hr.HyrecallError:
    with pytest.raises(hr.HyrecallError) as caught:
        call()
    return caught.value


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("kind", COLUMNS)
def test_a_column_of_another_type_becomes_one_that_is_taken(role: str, kind: str) -> None:
    schema = hr.Schema(**{"key": "id", "cell": None, "text": "x", **ROLES[role]})
    table = pa.table({"id": IDS, "x": ["tea", "cups"], "n": [1, 2], "c": COLUMNS[kind]})
    check_remedies(table, schema, role)
    columns = [column.combine_chunks() for column in table.columns]
    check_remedies(pa.RecordBatch.from_arrays(columns, table.column_names), schema, role)


def check_remedies(given: Any, schema: hr.Schema, role: str) -> None:
    """Run the remedies of errors until the rows are taken."""
    for _ in range(3):  # a null key is told of before the type, or after it
        try:
            assert len(hr.Index.build(given, schema)) == given.num_rows
            return
        except hr.HyrecallError as fault:
            caught = fault
        if not caught.remedy:
            assert role in ("cluster", "place"), caught
            return
        made = run(caught, table=given)
        table = pa.table(given)
        is_whole = isinstance(made, pa.Table)
        given = made if is_whole else table.set_column(table.column_names.index("c"), "c", made)
    pytest.fail(str(caught))


def index() -> hr.Index:
    price, day = pa.array([1.5], pa.float32()), dt.date(2024, 2, 28)
    table = pa.table({"id": ["first"], "x": ["tea"], "n": [1], "price": price, "day": [day]})
    return hr.Index.build(
        table, hr.Schema(key="id", cell=None, text="x", attributes=("n", "price", "day"))
    )


@pytest.mark.parametrize("frame", [False, True], ids=["table", "pandas"])
@pytest.mark.parametrize(
    ("column", "values", "wanted"),
    [
        ("n", ["7"], [7]),
        ("n", [float("nan")], [None]),
        ("price", [0.1], [np.float32(0.1)]),
        ("price", [2**24 + 1], [2.0**24]),
        ("x", [[3, 4]], ["3 4"]),
        ("id", [None], []),
        ("id", [5], ["5"]),
        ("day", [dt.datetime(2024, 2, 29, 5)], [dt.date(2024, 2, 29)]),
    ],
)
def test_a_column_that_does_not_join_an_index_becomes_one_that_does(
    frame: bool, column: str, values: list[Any], wanted: list[Any]
) -> None:
    plainly = {"id": ["new"], "x": ["tea"], "n": [2], "price": [1.0], "day": [dt.date(2024, 2, 29)]}
    rows = plainly | {column: values}
    table: Any = pd.DataFrame(rows) if frame else pa.table(rows)
    made = index()
    try:
        made.add(table)
        assert frame  # pandas writes a NaN for a missing number
        assert column == "n"
        return
    except hr.HyrecallError as fault:
        found = run(fault, table=table)
    if isinstance(found, pa.Table):
        assert found.num_rows == 0
        return
    assert found.to_pylist() == wanted
    plain = pa.table(table)
    made.add(plain.set_column(plain.column_names.index(column), column, found))
    assert len(made) == 2


@pytest.mark.parametrize("kind", ["x", "n", "day", "v", "twice"])
def test_rows_of_python_are_refused_without_code_for_columns(kind: str) -> None:
    good = {"id": "a", "x": "tea", "n": 2, "price": 1.0, "day": dt.date(2024, 2, 29), "v": [1, 2]}
    wrong: dict[str, Any] = {
        "x": 5, "n": 2.5, "day": dt.datetime(2024, 2, 29, 5), "v": [[1, 2, 3]], "twice": 0,
    }  # fmt: skip
    schema = hr.Schema(key="id", cell=None, text="x", vector="v", attributes=("n", "price", "day"))
    made = hr.Index.build([good], schema)
    rows = [{**good, "id": "b", kind: wrong[kind]}]
    fault = refused(lambda: made.add(rows * 2 if kind == "twice" else rows))
    assert getattr(fault, "remedy", "") == ""
    assert "; " not in str(fault)
    run(refused(lambda: made.add([good])), table=[good], index=made)  # it is not about columns
    assert " in row" in str(fault) or kind in ("x", "v")


@pytest.mark.parametrize("form", ["view", "dictionary", "runs"])
@pytest.mark.parametrize(
    ("column", "value", "wanted"),
    [
        ("day", "2026-11-28", dt.date(2026, 11, 28)),
        ("n", "7", 7),
        ("n", math.nan, None),
        ("price", 0.1, np.float32(0.1)),
        ("id", 5, "5"),
    ],
)
def test_a_column_of_another_form_becomes_one_that_joins_an_index(
    form: str, column: str, value: Any, wanted: Any
) -> None:
    price, day = pa.array([1.5], pa.float32()), dt.date(2024, 2, 29)
    rows = pa.table({"id": ["a"], "x": ["tea"], "n": [1], "price": price, "day": [day]})
    array = pa.array([value])
    if form == "view" and isinstance(value, str):
        array = array.cast(pa.string_view())
    elif form != "view":
        array = array.dictionary_encode() if form == "dictionary" else pc.run_end_encode(array)
    table = rows.set_column(rows.column_names.index(column), column, array)
    schema = hr.Schema(key="id", cell=None, text="x", attributes=("n", "price", "day"))
    made = hr.Index.build(rows, schema)
    with pytest.raises(hr.DTypeError) as caught:
        made.upsert(table)
    found = run(caught.value, table=table)
    assert found.to_pylist() == [wanted]
    made.upsert(table.set_column(table.column_names.index(column), column, found))


@pytest.mark.parametrize("frame", [False, True], ids=["table", "pandas"])
def test_a_key_that_comes_twice_is_kept_once(frame: bool) -> None:
    rows = {"id": ["a", "b", "a"], "x": ["tea", "cups", "fog"]}
    table: Any = pd.DataFrame(rows) if frame else pa.table(rows)
    schema = hr.Schema(key="id", cell=None, text="x")
    kept = run(refused(lambda: hr.Index.build(table, schema)), table=table)
    assert kept["id"].to_pylist() == ["a", "b"]
    made = hr.Index.build(kept, schema)
    fault = refused(lambda: made.add(kept))
    run(fault, table=kept, index=made)
    assert len(made) == 2


VECTORS: dict[str, Any] = {
    "nulls": pa.nulls(2),
    "JSON": pa.array(["[1, 2]", "[3, 4]"]),
    "JSON with a null": pa.array(["[1, 2]", None]),
    "integers": pa.array([[1, 2], [3, 4]]),
    "decimals": pa.array([[decimal.Decimal("1.5"), 2], [3, 4]]),
    "lists of digits": pa.array([["1", "2"], ["3", "4"]]),
    "of several lengths": pa.array([[1.0, 2.0], [3.0]]),
    "with a null inside": pa.array([[1.0, None], [3.0, 4.0]]),
    "an array with NaN": np.array([[1.0, np.nan], [3.0, 4.0]]),
    "a column with NaN": pa.array([[1.0, np.nan], [3.0, 4.0]]),
    "an array that rounds to zero": np.array([[1e-60, 1.0e-61], [1.0, 0.0]]),
    "an array beyond float32": np.array([[1e300, 1.0], [0.0, 0.0]]),
    "a column beyond float32": pa.array([[1e300, 1.0], [0.0, 0.0]]),
}


@pytest.mark.parametrize("kind", VECTORS)
def test_vectors_that_are_refused_become_vectors(kind: str) -> None:
    schema = hr.Schema(key="id", cell=None, text="x", vector="v")
    table = pa.table({"id": IDS, "x": ["tea", "cups"]})

    def build(rows: Any) -> hr.Index:
        return hr.Index.build(table, schema, vectors={"v": rows})

    rows = VECTORS[kind]
    fault = refused(lambda: build(rows))
    assert fault.remedy
    assert len(build(run(fault, rows=rows, column=rows, dim=2))) == 2


NO_VECTORS: dict[str, pa.Array] = {
    "lists of lists": pa.array([[[1.0, 2.0]], [[3.0, 4.0]]]),
    "lists of structs": pa.array([[{"x": 1}], [{"x": 2}]]),
    "lists of times": pa.array([[1], [2]], pa.list_(pa.timestamp("us"))),
    "lists of words": pa.array([["hot", "tea"], ["1", "2"]]),
    "lists of large integers": pa.array([[2**60 + 1], [1]]),
    "text": pa.array(["tea", "[1, 2]"]),
    "other JSON": pa.array(["[1, 2]", '{"x": 1}']),
}


@pytest.mark.parametrize("kind", NO_VECTORS)
def test_a_column_that_no_cast_makes_vectors_is_refused_without_a_remedy(kind: str) -> None:
    schema = hr.Schema(key="id", cell=None, text="x", vector="v")
    table = pa.table({"id": IDS, "x": ["tea", "cups"], "v": NO_VECTORS[kind]})
    fault = refused(lambda: hr.Index.build(table, schema))
    assert isinstance(fault, hr.DTypeError)
    assert (fault.remedy, "expected " in str(fault)) == ("", True)


def test_the_remedies_of_other_calls_run_as_printed(tmp_path: Path) -> None:
    made, path = index(), tmp_path / "t.index"
    made.save(path)
    again = index()
    run(refused(lambda: again.save(path)), index=again, path=path)
    run(refused(lambda: made.save(path)), index=made, path=path)
    assert run(refused(lambda: hr.Filter({"n": 1}))) == hr.Filter(n=1)
    assert run(refused(lambda: made.recall(text=["tea"], filter=[{"n": 1}]))) == hr.Filter(n=1)
    assert run(refused(lambda: hr.Between([1, 2]))) == hr.Between(1, 2)
    assert run(refused(lambda: hr.Text(["x", "y"]))) == hr.Text("x", "y")
    large = pa.table({"id": pa.array([2**63], pa.uint64()), "x": ["tea"]})
    fault = refused(lambda: hr.Index.build(large, hr.Schema(key="id", cell=None, text="x")))
    assert run(fault, table=large).to_pylist() == [str(2**63)]


def test_a_column_of_text_that_is_not_utf8_is_replaced() -> None:
    bad = pa.Array.from_buffers(
        pa.string(),
        2,
        [None, pa.py_buffer(np.array([0, 3, 4], np.int32)), pa.py_buffer(b"tea\xff")],
    )
    table = pa.table({"id": IDS, "x": bad})
    schema = hr.Schema(key="id", cell=None, text="x")
    made = run(refused(lambda: hr.Index.build(table, schema)), table=table)
    assert made.to_pylist() == ["tea", "\ufffd"]
