"""Nanoseconds, and moments beyond datetime, come back the same with and without pandas."""

import datetime as dt
import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr

EXACT_NS, ODD_NS = 1_709_208_000_123_456_000, 1_709_208_000_123_456_789
EXACT_TIME = dt.datetime(2024, 2, 29, 12, 0, 0, 123456)
PARIS = "Europe/Paris"
FINE: list[tuple[pa.DataType, int, Any]] = [
    (pa.timestamp("ns"), EXACT_NS, EXACT_TIME),
    (pa.timestamp("ns"), ODD_NS, np.datetime64(ODD_NS, "ns")),
    (pa.timestamp("ns", PARIS), EXACT_NS, EXACT_TIME.replace(tzinfo=dt.UTC)),
    (pa.timestamp("ns", PARIS), ODD_NS, np.datetime64(ODD_NS, "ns")),
    (pa.duration("ns"), 2_000, dt.timedelta(microseconds=2)),
    (pa.duration("ns"), -2_001, np.timedelta64(-2_001, "ns")),
    (pa.time64("ns"), 3_000, dt.time(microsecond=3)),
    (pa.time64("ns"), 3_001, np.timedelta64(3_001, "ns")),
    (pa.timestamp("s"), 10**12, np.datetime64(10**12, "s")),
    (pa.timestamp("us", PARIS), 10**18, np.datetime64(10**18, "us")),
    (pa.date32(), 10**7, np.datetime64(10**7, "D")),
]
NESTINGS: dict[str, tuple[Any, Any]] = {  # the type and a value of it, from an inner one
    "flat": (lambda kind: kind, lambda value: value),
    "list": (pa.list_, lambda value: [None, value]),
    "fixed list": (lambda kind: pa.list_(kind, 2), lambda value: [value, None]),
    "struct": (lambda kind: pa.struct({"a": kind, "b": pa.int8()}), lambda v: {"a": v, "b": 1}),
    "map": (lambda kind: pa.map_(pa.string(), kind), lambda value: [("k", value)]),
    "structs": (lambda kind: pa.list_(pa.struct({"a": kind})), lambda value: [{"a": value}]),
}


def recalled(array: pa.Array) -> hr.Hits:
    table = pa.table({"id": range(len(array)), "text": ["tea"] * len(array), "x": array})
    schema = hr.Schema(key="id", cell=None, text="text", stored="x")
    return hr.Index.build(table, schema).recall(text=["tea"], columns=["x"])


def innermost(value: Any) -> Any:
    while isinstance(value, list | tuple | dict):
        parts = value.values() if isinstance(value, dict) else value
        value = next(part for part in parts if part is not None and part != "k")
    return value


@pytest.mark.parametrize("nesting", NESTINGS)
@pytest.mark.parametrize(("kind", "raw", "wanted"), FINE, ids=str)
def test_a_time_is_datetimes_where_that_is_exact_and_numpys_elsewhere(
    kind: pa.DataType, raw: int, wanted: Any, nesting: str
) -> None:
    outer, wrap = NESTINGS[nesting]
    hits = recalled(pa.array([None, wrap(raw)], outer(kind)))
    for values in ([row["x"] for row in hits.to_list()[0]], [hit["x"] for hit in hits[0]]):
        assert values == [None, wrap(wanted)]
        assert type(innermost(values[1])) is type(wanted)


def test_a_column_of_nanoseconds_needs_no_pandas() -> None:
    code = f"""
import sys
class NoPandas:
    def find_spec(self, name, *rest):
        if name.partition(".")[0] == "pandas":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, NoPandas())
import pyarrow as pa, hyrecall as hr
x = pa.array([{ODD_NS}, {EXACT_NS}, None], pa.timestamp("ns"))
y = pa.StructArray.from_arrays([x], ["a"])
table = pa.table({{"id": [1, 2, 3], "text": ["tea"] * 3, "x": x, "y": y}})
schema = hr.Schema(key="id", cell=None, text="text", attributes="x", stored=("text", "y"))
hits = hr.Index.build(table, schema).recall(text=["tea"], columns=["x", "y"])
print([hit["x"] for hit in hits[0]], [row["y"] for row in hits.to_list()[0]])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    odd, exact = np.datetime64(ODD_NS, "ns"), EXACT_TIME
    assert done.stdout == f"{[odd, exact, None]} {[{'a': odd}, {'a': exact}, {'a': None}]}\n"
