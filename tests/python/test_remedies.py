"""The line at the end of a message mends what the message is about."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hyrecall as hr
from hyrecall.errors import error

SCHEMA = hr.Schema(key="id", cell=None, text="text", vector="v", attributes="n")
GOOD = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
LISTS = pa.list_(pa.float32())


def table(**columns: Any) -> pa.Table:
    rows = {"id": [1, 2, 3], "text": ["hot tea"] * 3, "n": [1, 2, 3], "v": pa.array(GOOD, LISTS)}
    return pa.table({**rows, **columns})


def remedy(call: Callable[[], object], message: str) -> str:
    with pytest.raises(hr.HyrecallError) as caught:
        call()
    line: str = caught.value.remedy  # type: ignore[attr-defined]
    assert str(caught.value).startswith(message)
    assert str(caught.value).endswith(f"; {line}")
    return line.partition(": ")[2]


def mended(line: str, **names: Any) -> Any:
    """What the line makes of what it names."""
    return eval(line, {"pa": pa, "pc": pc, "np": np, "json": json, **names})


def test_rows_with_null_keys_are_dropped() -> None:
    bad = table(id=[1, None, None])
    line = remedy(lambda: hr.Index.build(bad, SCHEMA), "id: expected a key in every row, got null")
    assert len(hr.Index.build(mended(line, table=bad), SCHEMA)) == 1


def test_bytes_that_are_not_utf8_are_replaced() -> None:
    raw = pa.array([b"hot \xff tea", None, b""], pa.large_binary())
    text = pa.Array.from_buffers(pa.large_string(), 3, raw.buffers())
    bad = table(text=text)
    line = remedy(lambda: hr.Index.build(bad, SCHEMA), "text: expected valid UTF-8, got ")
    good = mended(line, table=bad)
    assert good.to_pylist() == ["hot \ufffd tea", None, ""]
    assert hr.Index.build(table(text=good), SCHEMA).recall_one(text="tea").keys == [1]


@pytest.mark.parametrize("verb", ["build", "add", "upsert"])
def test_of_a_key_that_comes_twice_one_row_is_kept(verb: str) -> None:
    bad = table(id=[7, 8, 7])
    index = hr.Index.build(table(), SCHEMA)
    write = {
        "build": lambda rows: hr.Index.build(rows, SCHEMA),
        "add": index.add,
        "upsert": index.upsert,
    }[verb]
    line = remedy(lambda: write(bad), "id: expected keys unique within a cell, got 7 in rows 0 and")
    assert mended(line, table=bad)["id"].to_pylist() == [7, 8]
    write(mended(line, table=bad))


def test_a_key_that_is_there_is_replaced() -> None:
    index = hr.Index.build(table(), SCHEMA)
    again = table(id=[3, 4, 5], text=["milk"] * 3)
    line = remedy(lambda: index.add(again), "id: expected keys that their cells do not hold yet")
    mended(line, index=index, table=again)
    assert index.recall_one(text="milk").keys == [3, 4, 5]
    assert len(index) == 5


@pytest.mark.parametrize("verb", ["add", "upsert"])
def test_an_attribute_of_another_type_is_cast_to_the_indexs(verb: str) -> None:
    index = hr.Index.build(table(), SCHEMA)
    bad = table(id=[4, 5, 6], n=["4", "5", "6"])
    line = remedy(lambda: getattr(index, verb)(bad), "n: expected int64, the index's type, got la")
    getattr(index, verb)(bad.set_column(2, "n", mended(line, table=bad)))
    assert index.recall_one(text="tea", filter=hr.Filter(n=[5])).keys == [5]


NO_NULL = "v: expected no null inside a row's vector, got one in row 1"
NO_LIST = "v: expected a fixed_size_list or list column of floats, got "
VECTORS: list[tuple[str, list[Any], pa.DataType, int]] = [
    ("v: expected 2 values in every row, got 1 in row 1", [[1, 0], [1], [0, 1]], LISTS, 1),
    (NO_NULL, [[1, 0], [1, None], [0, 1]], LISTS, 1),
    (NO_NULL, [[1, 0], [1, None], None], pa.list_(pa.float16(), 2), 2),
    (NO_LIST + "string", ["[1, 0]", "[0, 1]", "[1, 1]"], pa.string(), 0),
    (NO_LIST + "null", [None] * 3, pa.null(), 3),
    ("v: expected float16, float32 or float64 values, got int64", [[1, 0]] * 3,
     pa.list_(pa.int64()), 0),
]  # fmt: skip


@pytest.mark.parametrize(("message", "values", "kind", "n_missing"), VECTORS, ids=str)
def test_vectors_that_are_none_are_made_or_left_out(
    message: str, values: list[Any], kind: pa.DataType, n_missing: int
) -> None:
    bad = table(v=pa.array(values, kind))
    line = remedy(lambda: hr.Index.build(bad, SCHEMA), message)
    good = mended(line, rows=bad["v"], column=bad["v"], dim=2)
    index = hr.Index.build(bad.set_column(3, "v", good), SCHEMA)
    assert len(index.recall_one(vector=[1.0, 0.0])) == 3 - n_missing


def test_vectors_that_are_not_finite_are_zeroed_and_those_too_large_scaled() -> None:
    rows = np.array([[1, 0], [np.nan, 1], [np.inf, 0]])
    plain = table().drop_columns("v")
    build = lambda vectors: hr.Index.build(plain, SCHEMA, vectors={"v": vectors})  # noqa: E731
    line = remedy(lambda: build(rows), "vectors['v']: expected finite values, got nan in row 1")
    names = {"np": np, "rows": rows}
    exec(line, names)
    assert build(names["rows"]).recall_one(vector=[1.0, 0.0]).keys == [1]
    rows = np.array([[3e300, 4e300], [1e-300, 0], [0.0, 2.0]])
    line = remedy(lambda: build(rows), "vectors['v']: expected values that fit float32, got 3e+300")
    names = {"np": np, "rows": rows}
    exec(line, names)
    index = build(names["rows"])
    assert [hit.vector_score for hit in index.recall_one(vector=[0.75, 1.0])] == pytest.approx(
        [1.0, 0.8, 0.6]
    )


def test_an_error_without_a_remedy_ends_with_what_it_got() -> None:
    plain = error(hr.OptionError, "x", "1", 2)
    assert (str(plain), vars(plain)["remedy"]) == ("x: expected 1, got 2", "")
    fixed = error(hr.OptionError, "x", "1", 2, "x = 1")
    assert (str(fixed), vars(fixed)["remedy"]) == ("x: expected 1, got 2; x = 1", "x = 1")
