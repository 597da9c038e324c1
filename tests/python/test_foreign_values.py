"""Arrow columns with bytes and offsets that their types do not allow, as another program sends."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from seams import python_values


def strings(offsets: list[int], data: bytes, kind: pa.DataType | None = None) -> pa.Array:
    """A string array with these offsets, sound or not."""
    kind = pa.large_string() if kind is None else kind
    dtype = np.int64 if pa.types.is_large_string(kind) else np.int32
    buffers = [None, pa.py_buffer(np.array(offsets, dtype)), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, len(offsets) - 1, buffers)


def counted(kind: pa.DataType, *values: int) -> pa.Array:
    """An array of a time type from its counts."""
    return pa.array(values, pa.int64()).view(kind)


def dictionary(indices: list[int], values: pa.Array) -> pa.Array:
    kind = pa.dictionary(pa.int32(), values.type)
    buffers = [None, pa.py_buffer(np.array(indices, np.int32))]
    return pa.DictionaryArray.from_buffers(kind, len(indices), buffers, values)


def lists(offsets: list[int], values: pa.Array) -> pa.Array:
    buffers = [None, pa.py_buffer(np.array(offsets, np.int64))]
    kind = pa.large_list(values.type)
    return pa.Array.from_buffers(kind, len(offsets) - 1, buffers, children=[values])


def views(*views: tuple[int, int, int, int]) -> pa.Array:
    """A string view array of (length, first letters, buffer, offset)."""
    buffers = [None, pa.py_buffer(np.array(views, np.int32)), pa.py_buffer(b"x" * 30)]
    return pa.Array.from_buffers(pa.string_view(), len(views), buffers)


FAR, NEAR = [0, 2, 2**40, 6], [0, 2, 4000, 6]
BYTES = strings([0, 1, 2, 3], b"a\xffc")
X4 = 0x78787878
Role = tuple[str, ...]
TEXT_ROLES: Role = ("text", "stored", "attributes", "key", "cell")
OFFSETS = "in row 1"
BAD: dict[str, tuple[pa.Array, Role, str]] = {
    "far offset": (strings(FAR, b"abcdef"), TEXT_ROLES, OFFSETS),
    "near offset": (strings(NEAR, b"abcdef"), TEXT_ROLES, OFFSETS),
    "falling offset": (strings([0, 4, 2, 6], b"abcdef"), TEXT_ROLES, OFFSETS),
    "negative offset": (strings([0, 1, -7, 6], b"abcdef"), TEXT_ROLES, OFFSETS),
    "32-bit offset": (strings(NEAR, b"abcdef", pa.string()), TEXT_ROLES, OFFSETS),
    "no UTF-8": (BYTES, TEXT_ROLES, OFFSETS),
    "no UTF-8, 32 bits": (strings([0, 1, 2], b"a\xff", pa.string()), TEXT_ROLES, OFFSETS),
    "view": (views((20, X4, 0, 0), (20, X4, 0, 999)), TEXT_ROLES, OFFSETS),
    "dictionary index": (dictionary([0, 77], pa.array(["a"])), TEXT_ROLES, OFFSETS),
    "dictionary value": (dictionary([0, 1, 0], BYTES), TEXT_ROLES, OFFSETS),
    "list offset": (lists(FAR, pa.array(["a"] * 6)), ("stored", "attributes"), OFFSETS),
    "list of numbers": (lists(NEAR, pa.array([1.0] * 6)), ("attributes", "vector"), OFFSETS),
    "text in lists": (lists([0, 1, 3], BYTES), ("stored", "attributes"), OFFSETS),
    "offset in lists": (lists([0, 2, 3], strings(NEAR, b"abcdef")), ("stored",), "in row 0"),
    "text in structs": (pa.StructArray.from_arrays([BYTES], ["a"]), ("stored",), OFFSETS),
    "text in maps": (
        pa.MapArray.from_arrays([0, 1, 2, 3], pa.array(["a", "b", "c"]), BYTES), ("stored",), ""
    ),
    "half a day": (counted(pa.date64(), 0, 43_200_000), ("stored", "attributes"), OFFSETS),
    "time after its day": (counted(pa.time64("ns"), 0, 2**60), ("attributes",), OFFSETS),
}  # fmt: skip


def built(column: pa.Array, role: str) -> hr.Index:
    n = len(column)
    columns: dict[str, Any] = {"id": range(n), "text": ["tea"] * n, "x": column}
    options: dict[str, Any] = {"key": "id", "cell": None, "text": "text"}
    options[role] = "x"
    return hr.Index.build(pa.table(columns), hr.Schema(**options))


@pytest.mark.parametrize(
    ("name", "role"), [(name, role) for name, (_, roles, _) in BAD.items() for role in roles]
)
def test_a_value_that_its_type_does_not_allow_is_refused_with_its_row(name: str, role: str) -> None:
    column, _, row = BAD[name]
    with pytest.raises(hr.OptionError, match=r"^x: expected valid .*, got ") as caught:
        built(column, role)
    is_text = "UTF" in name or "text" in name or name == "dictionary value"
    assert ("expected valid UTF-8" in str(caught.value)) == is_text
    assert row in str(caught.value)


@pytest.mark.parametrize("role", ["text", "stored", "attributes"])
def test_the_row_counts_over_chunks_and_slices(role: str) -> None:
    good = pa.array(["a", "b"], pa.large_string())
    with pytest.raises(hr.OptionError, match="in row 2"):
        built(pa.chunked_array([good, BYTES.slice(1)]), role)
    built(pa.chunked_array([good, BYTES.slice(2)]), role)  # the bad row is cut off


def test_offsets_of_query_vectors_and_participants_are_checked() -> None:
    index = built(
        pa.FixedSizeListArray.from_arrays(pa.array([1.0, 0.5], pa.float32()), 1), "vector"
    )
    bad = lists([0, 1, 10**9, 2], pa.array([1.0, 0.5], pa.float32()))
    with pytest.raises(hr.OptionError, match=r"^vectors: expected valid .* in query 1"):
        index.recall(vectors=bad)
    nodes = pa.array([0, 1])
    edges = pa.table({"id": [0, 1], "text": ["near"] * 2, "nodes": lists([0, 10**9, 2], nodes)})
    with pytest.raises(hr.OptionError, match=r"^nodes: expected valid .* in row 0"):
        hr.Graph.build(
            edges, hr.GraphSchema(participants="nodes", cell=None, key="id"), nodes=index
        )


# ---- what a forged file holds ----


@pytest.fixture
def forged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> hr.Index:
    """A saved index with texts that no build takes; only bob's rows hold such."""
    texts = [b"green tea", b"tea \xff", b"tea leaf", b"\xed\xa0\x80 tea"]
    table = pa.table({
        "id": [1, 2, 3, 4],
        "who": ["alice", "bob", "alice", "bob"],
        "text": strings(np.cumsum([0, *map(len, texts)]).tolist(), b"".join(texts)),
        "note": pa.array([["x"]] * 4, pa.list_(pa.string())),
        "day": counted(pa.date64(), 0, 43_200_001, 86_400_000, 5),
    })  # fmt: skip
    monkeypatch.setattr("hyrecall.table.columns.check_column", lambda *_: None)
    schema = hr.Schema(key="id", cell="who", text="text", stored=("text", "note", "day"))
    hr.Index.build(table, schema).save(tmp_path / "forged")
    monkeypatch.undo()
    return hr.Index.open(tmp_path / "forged")


SHAPINGS: dict[str, Callable[[], Any]] = {
    "none": lambda: (),
    "rerank": lambda: hr.RerankBy(lambda _, texts: [float(len(text)) for text in texts]),
    "budget": lambda: hr.Budget(50),
    "own budget": lambda: hr.Budget(50, estimate=lambda texts: [len(text) for text in texts]),
    "recency": lambda: hr.Recency("day", half_life="1d"),
}


@pytest.mark.parametrize("shaping", ["none", "rerank", "budget", "own budget", "recency"])
def test_bytes_of_a_forged_file_reach_nobody_elses_reply(forged: hr.Index, shaping: str) -> None:
    options: dict[str, Any] = {"columns": ["text", "note", "day"], "shaping": SHAPINGS[shaping]()}
    together = forged.recall(text=["tea"] * 2, scope=["alice", "bob"], **options)
    alone = forged.recall(text=["tea"], scope=["alice"], **options)
    assert together.to_list()[0] == alone.to_list()[0]
    assert [hit.text for hit in together[0]] == [hit.text for hit in alone[0]]
    assert {hit.text for hit in together[1]} == {"tea \ufffd", "\ufffd\ufffd\ufffd tea"}
    assert len(together.to_arrow()["text"].to_pylist()) == 4


# ---- values one by one ----


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_the_least_int64_is_a_moment_and_not_missing(unit: str) -> None:
    kinds = [pa.timestamp(unit)] if unit == "us" else [pa.timestamp(unit), pa.duration(unit)]
    for kind in kinds:  # a timedelta holds all durations of microseconds
        value = python_values(counted(kind, -(2**63)))[0]
        assert not np.isnat(value)
        assert (np.datetime_data(value.dtype), int(value.astype(np.int64))) == ((unit, 2), -(2**62))


@pytest.mark.parametrize(
    "kind",
    [
        *(pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC")),
        *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
        pa.time64("us"), pa.time64("ns"), pa.date64(),
    ],
    ids=str,
)  # fmt: skip
def test_a_value_does_not_depend_on_the_others_of_its_column(kind: pa.DataType) -> None:
    counts = [0, 1, -1, 86_400_000, 2**62, -(2**62), 2**63 - 1, -(2**63), 10**9, 10**18]
    column = counted(kind, *counts)
    together = python_values(column)
    alone = [python_values(column.slice(at, 1))[0] for at in range(len(counts))]
    assert [exactly(one) for one in together] == [exactly(one) for one in alone]


def exactly(value: object) -> object:
    """What tells a value from all others. NumPy 2.5 prints no least int64 of a time."""
    if isinstance(value, np.datetime64 | np.timedelta64):
        return value.dtype.str, int(value.astype(np.int64))
    return repr(value)


def moved(array: pa.Array) -> pa.Array:
    """The array as if it began a value before its buffers."""
    is_list = array.type.num_fields > 0
    return pa.Array.from_buffers(
        array.type, len(array), [None] if is_list else array.buffers(), null_count=0, offset=-1,
        children=[array.values] if is_list else None,
    )  # fmt: skip


NAMES = pa.array(["a", "b"])
PAIRS = pa.FixedSizeListArray.from_arrays(pa.array([1.0, 0.0] * 2, pa.float32()), 2)
SEQUENCES: dict[str, Callable[[hr.Index], object]] = {
    "get": lambda index: index.get(moved(NAMES)),
    "delete": lambda index: index.delete(moved(NAMES)),
    "text": lambda index: index.recall(text=moved(NAMES)),
    "texts in chunks": lambda index: index.recall(text=pa.chunked_array([moved(NAMES)])),
    "scope": lambda index: hr.Scope(moved(NAMES)),
    "filter": lambda index: hr.Filter(kind=moved(NAMES)),
    "predicate": lambda index: hr.NoneOf(moved(NAMES)),
    "vectors": lambda index: index.recall(vectors=moved(PAIRS)),
}


@pytest.mark.parametrize("call", SEQUENCES.values(), ids=SEQUENCES)
def test_a_sequence_that_begins_before_its_buffers_is_refused(
    call: Callable[[hr.Index], object],
) -> None:
    table = pa.table({"id": NAMES, "text": NAMES})
    schema = hr.Schema(key="id", cell=None, text="text", vector="v")
    index = hr.Index.build(table, schema, vectors={"v": PAIRS})
    with pytest.raises(hr.OptionError, match="an offset and a length of at least 0, got offset -1"):
        call(index)
    assert len(index) == 2


def test_a_scope_of_an_arrow_array_has_its_values() -> None:
    assert hr.Scope(NAMES) == hr.Scope(["a", "b"])
