"""Memory of other programs, messages of peers and forged files: a typed refusal, or a sound use."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from itertools import islice

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from fuzz import border
from hyrecall.errors import OptionError, ShapeError
from seams import CODEC, WireError


@pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.slow)])
def test_every_change_of_an_arrow_struct_is_refused_by_type_or_used(step: int) -> None:
    ends: Counter[str] = Counter()
    for name, array, deep, change in islice(border.grid(), None, None, step):
        batch = border.with_column(name, array)
        at = batch.schema.get_field_index(name)
        changed = border.Changed(batch, at, change, deep=deep)
        if changed.is_changed:
            told = border.build(changed)
            assert told == "used" or ": expected " in told, (name, array.type, deep, change)
            ends["used" if told == "used" else "refused"] += 1
            if change[0] == "offset" or change == ("length", -1):
                assert told != "used", (name, array.type, deep, change)
    assert ends["refused"] > 400 // step
    assert ends["used"] > 50 // step


@pytest.mark.parametrize("change", border.CHANGES)
def test_every_change_of_a_whole_batch_is_refused_by_type_or_used(change: border.Change) -> None:
    batch = border.with_column("k", border.COLUMNS["k"][0])
    told = border.build(border.Changed(batch, None, change, deep=False))
    assert told == "used" or ": expected " in told


@pytest.mark.parametrize("name", ["id", "c", "x", "v", "k", "s"])
@pytest.mark.parametrize("n_rows", [0, 3, 8])
def test_a_column_of_another_length_is_a_shape_error_that_names_it(name: str, n_rows: int) -> None:
    batch = border.with_column(name, border.COLUMNS[name][0])
    at = batch.schema.get_field_index(name)
    ragged = border.Changed(batch, at, ("length", n_rows), deep=False)
    with pytest.raises(
        ShapeError, match=f"^{name}: expected 9 rows, as its table has, got {n_rows}"
    ):
        hr.Index.build(ragged, border.SCHEMA, device="cpu")


def shifted(array: pa.Array) -> pa.Array:
    """The array with an offset of -1; of a list, also its values."""
    n_own = array.type.num_buffers
    kind, types = array.type, pa.types
    children = [array.values] if types.is_list(kind) or types.is_fixed_size_list(kind) else None
    children = [array.field(0)] if types.is_struct(kind) else children
    # pyarrow itself looks at what stands before a buffer, so it is zeros.
    buffers = [
        None if one is None else pa.py_buffer(bytes(64) + one.to_pybytes()).slice(64)
        for one in array.buffers()[:n_own]
    ]
    return pa.Array.from_buffers(array.type, len(array), buffers, array.null_count, -1, children)


@pytest.mark.parametrize("name", ["id", "c", "x", "k"])
def test_an_offset_below_0_that_pyarrow_makes_is_refused(name: str) -> None:
    table = pa.Table.from_batches([border.with_column(name, shifted(border.COLUMNS[name][0]))])
    with pytest.raises(OptionError, match=f"^{name}: expected Arrow arrays with an offset"):
        hr.Index.build(table, border.SCHEMA, device="cpu")
    values = shifted(pa.array([1.0] * 36, pa.float32()))
    lists = pa.FixedSizeListArray.from_arrays(values, border.DIM)
    table = pa.Table.from_batches([border.with_column("v", lists)])
    with pytest.raises(OptionError, match=r"^v: expected Arrow arrays with an offset"):
        hr.Index.build(table, border.SCHEMA, device="cpu")
    index = hr.Index.build(border.with_column("k", border.COLUMNS["k"][0]), border.SCHEMA)
    with pytest.raises(OptionError, match=r"expected Arrow arrays with an offset"):
        index.recall(vectors=lists, scope=["a"] * 9)


@pytest.mark.parametrize("array", [kinds[0] for kinds in border.COLUMNS.values()])
def test_the_engine_takes_no_offset_below_0(array: pa.Array) -> None:
    with pytest.raises(OptionError, match=r"^x: expected Arrow arrays with an offset"):
        hr._core.check_layout(pa.StructArray.from_arrays([shifted(array)], ["p"]), "x")
    hr._core.check_layout(array.slice(2), "x")


@pytest.mark.parametrize("offset", [1, 100])
def test_rows_beyond_the_values_of_a_fixed_size_list_are_refused(offset: int) -> None:
    # pyarrow finds them valid, reads beyond the values, or ends the process.
    pairs = pa.array([[1.0, 2.0]] * 4, pa.list_(pa.float32(), 2))
    far = pa.Array.from_buffers(pairs.type, 4, [None], 0, offset, [pairs.values])
    nested = pa.ListArray.from_arrays(pa.array(range(5), pa.int32()), far)
    rows = {"id": range(4), "text": ["tea"] * 4}
    for x, role in ((far, "attributes"), (far, "stored"), (nested, "stored"), (far, "vector")):
        schema = hr.Schema(key="id", cell=None, **{"text": "text", role: "x"})
        with pytest.raises(OptionError, match=r"^x: expected Arrow arrays whose parts hold all"):
            hr.Index.build(pa.table({**rows, "x": x}), schema, device="cpu")
    schema = hr.Schema(key="id", cell=None, text="text", vector="x")
    index = hr.Index.build(pa.table({**rows, "x": pairs}), schema)
    for call in (lambda: index.recall(vectors=far), lambda: hr.Scope(far)):
        with pytest.raises(OptionError, match=r"expected Arrow arrays whose parts hold all"):
            call()
    assert len(index.recall(vectors=pairs[2:])) == 2


@pytest.mark.parametrize(
    "seed", [0, 20, 40, *(pytest.param(n, marks=pytest.mark.slow) for n in range(60, 800, 20))]
)
def test_a_dlpack_capsule_is_refused_or_means_what_its_copy_means(seed: int) -> None:
    ends = Counter(border.dlpack_case(one) for one in range(seed, seed + 20))
    assert not any(end.startswith("numpy: TypeError: build()") for end in ends)


@pytest.mark.parametrize(
    "vectors",
    [np.empty((0, 2**32), np.float32), np.lib.stride_tricks.as_strided(
        np.zeros(1, np.float32), (1, 2**40), (0, 0))],
)  # fmt: skip
def test_a_row_of_more_values_than_any_has_is_a_shape_error(vectors: np.ndarray) -> None:
    table = pa.table({"id": pa.array(range(len(vectors)), pa.int64())})
    schema = hr.Schema(key="id", cell=None, vector="v")
    with pytest.raises(ShapeError, match=r"^vectors\['v'\]: expected at most 16,777,216 values"):
        hr.Index.build(table, schema, vectors={"v": vectors}, device="cpu")


# ---- bytes of a peer ----


@pytest.mark.parametrize("kind", ["S0", "U0", "m8", "f4"])
@pytest.mark.parametrize("shape", [[2**31], [2**33], [2, 2**40]])
def test_an_array_is_no_larger_than_its_bytes(kind: str, shape: list[int]) -> None:
    import msgspec

    data = msgspec.msgpack.encode([11, [kind, *shape, msgspec.msgpack.Ext(0, b"")]])
    with pytest.raises(WireError):
        CODEC.decode(data)


def test_keys_that_collide_are_refused_and_others_cross() -> None:
    import msgspec

    many = [[5, hex(at * (2**61 - 1))] for at in range(5_000)]
    pairs = [one for key in many for one in (key, 0)]
    nested = [[1, [key, at]] for at, key in enumerate(many)]
    for tag, parts in ((2, pairs), (3, many), (4, many), (1, many), (0, nested), (1, nested)):
        with pytest.raises(WireError):
            CODEC.decode(msgspec.msgpack.encode([tag, parts]))
    likes = [0] * 500, [(7, at) for at in range(500)], {(7, at) for at in range(500)}
    more = {f"k{at}": at for at in range(500)}, set(range(-(2**63), 2**63 - 1, 2**54))
    for value in (*likes, *more):
        assert CODEC.decode(CODEC.encode(value)) == value
    assert CODEC.decode(CODEC.encode({-1.0 * 2**at for at in range(1000)})) is not None


def test_a_map_of_keys_that_collide_is_refused_before_it_is_made() -> None:
    import msgspec

    same_hash = [at * (2**61 - 1) for at in range(8)]
    keys = itertools.product(same_hash, repeat=5)  # tuples of one hash, of numbers below 2^64
    parts = b"".join(msgspec.msgpack.encode(key) + b"\0" for key in keys)
    began = time.process_time()
    with pytest.raises(WireError):
        CODEC.decode(b"\xdf" + (8**5).to_bytes(4, "big") + parts)
    assert time.process_time() - began < 5  # a minute, if it is made
