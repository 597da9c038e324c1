"""Bytes of another process with a right checksum, and arrays or headers that do not fit."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash

import hyrecall as hr
from distributed.test_refusals import ASKED, built
from hyrecall.distributed import Part, Request, Statistics, merge
from laws.effort import Effort
from seams import parts_frames_module as frames

HUGE = (0, 1, -1, 7, 10**6, 2**31, 2**32, 3 * 10**9, 2**62, 2**63 - 1, -(2**63))
KINDS = ("request", "statistics", "part")
STAGES = (hr.Around((0.2,), thread=0.3), hr.MMR(0.5))


class World:
    """A request over two shards, and what each of its three messages is used for."""

    def __init__(self, **options: Any) -> None:
        self.shards = [built(0), built(6)]
        self.request = Request(**ASKED, **options)
        self.summed = Statistics.sum([one.statistics(self.request) for one in self.shards])
        self.parts = [one.candidates(self.request, self.summed) for one in self.shards]

    def bytes_of(self, kind: str) -> bytes:
        made = {"request": self.request, "statistics": self.summed, "part": self.parts[0]}
        return made[kind].to_bytes()

    def use(self, kind: str, data: bytes) -> object:
        if kind == "request":
            return self.shards[0].statistics(Request.from_bytes(data))
        if kind == "statistics":
            counts = Statistics.from_bytes(data)
            Statistics.sum([counts, self.summed])
            return self.shards[0].candidates(self.request, counts)
        return merge(self.request, [Part.from_bytes(data), self.parts[1]]).to_arrow()


def forged(
    kind: str, data: bytes, change: Callable[[dict[str, Any], dict[str, Any]], None]
) -> bytes:
    """Return a message with another header or other arrays, and their checksum."""
    header, arrays = frames.unpack(f"hyrecall {kind}", data)
    arrays = {name: one if isinstance(one, bytes) else one.copy() for name, one in arrays.items()}
    change(header, arrays)
    return frames.pack(f"hyrecall {kind}", header, arrays)


def spoil(chance: random.Random, header: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Change one value of the header, or one array."""
    if chance.random() < 0.4:
        node: Any = header
        while True:
            keys = list(node) if isinstance(node, dict) else range(len(node))
            key = chance.choice(list(keys))
            below = node[key]
            if not isinstance(below, dict | list) or not below or chance.random() < 0.2:
                break
            node = below
        node[key] = chance.choice([None, -1, 2**40, 1e308, "x", [], {}, [[]],
                                   {"kind": "timedelta", "of": [10**12, 0, 0]}])  # fmt: skip
        return
    name = chance.choice(sorted(arrays))
    array = arrays[name]
    if isinstance(array, bytes):
        arrays[name] = array[: chance.randrange(len(array) + 1)]
    elif not len(array) or chance.random() < 0.2:
        arrays[name] = np.concatenate([array, array, np.zeros(1, array.dtype)])
    elif chance.random() < 0.3:
        arrays[name] = array.astype(chance.choice(["i1", "u4", "f8"]))
    elif chance.random() < 0.3:
        arrays[name] = array[: chance.randrange(len(array))]
    elif array.dtype.kind == "f":
        array[chance.randrange(len(array))] = chance.choice([np.nan, np.inf, -1.0, 1e30])
    else:
        value = np.array(chance.choice(HUGE))
        array[chance.randrange(len(array))] = value.astype(array.dtype)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_whatever_is_forged_is_refused_by_an_error_of_ours_or_read(
    kind: str, effort: Effort
) -> None:
    chance = random.Random(kind)
    worlds = [World(), World(shaping=STAGES), World(recipe=hr.recipes.default)]
    for world in worlds:
        world.use(kind, forged(kind, world.bytes_of(kind), lambda header, arrays: None))
    refused = 0
    n = effort.cases(quick=200, full=4000)
    for _ in range(n):
        world = chance.choice(worlds)
        data = forged(kind, world.bytes_of(kind), lambda h, a: spoil(chance, h, a))
        try:
            world.use(kind, data)
        except hr.HyrecallError:
            refused += 1
    assert n // 3 < refused < n


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_compressed_frames_are_refused_before_they_are_read(codec: str) -> None:
    """Of a few kilobytes, each of them would become 64 MB."""
    options = pa.ipc.IpcWriteOptions(compression=codec)
    values = pa.LargeListArray.from_arrays(pa.array([0, 2**23]), pa.array(np.zeros(2**23)))
    plain = pa.table({"a": values})
    words = pa.DictionaryArray.from_arrays([0], pa.array(["x" * 2**26]))
    for table, told in (
        (plain, {"hyrecall.kind": "hyrecall part 1"}),
        (pa.table({"a": words}), {}),
    ):
        sink = pa.BufferOutputStream()
        table = table.replace_schema_metadata(told or None)  # noqa: PLW2901
        with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
            writer.write_table(table)
        body = bytes(sink.getvalue())
        assert len(body) < 2**20
        before = pa.total_allocated_bytes()
        peak = pa.default_memory_pool().max_memory() or 0
        read = [lambda body=body: frames.unpack_table(body)]
        if table.schema.metadata:
            data = body + xxhash.xxh3_64_digest(body)
            read.append(lambda data=data: frames.unpack("hyrecall part", data))
        for one in read:
            with pytest.raises(hr.OptionError, match="data: expected record batches without comp"):
                one()
        assert pa.total_allocated_bytes() - before < 2**20
        assert (pa.default_memory_pool().max_memory() or 0) == peak
    kept = pa.table({"a": words.slice(0, 0), "b": pa.array([], pa.int64())})
    assert frames.unpack_table(frames.pack_table(kept)).equals(kept)


def test_sizes_that_are_not_there_cost_no_memory() -> None:
    world = World()

    def many_freqs(header: dict[str, Any], arrays: dict[str, Any]) -> None:
        arrays["0.freq_ends"][-1] = 2**40

    def many_docs(header: dict[str, Any], arrays: dict[str, Any]) -> None:
        arrays["0.list_ends"][-1] = arrays["0.doc_ends"][-1] = 2**40

    def many_arms(header: dict[str, Any], arrays: dict[str, Any]) -> None:
        header["runs"][0][1] = 2**40

    for kind, change in (("statistics", many_freqs), ("part", many_docs), ("part", many_arms)):
        data = forged(kind, world.bytes_of(kind), change)
        with pytest.raises(hr.OptionError, match="arrays that fit each other"):
            world.use(kind, data)


def test_a_part_with_the_facts_of_another_index_is_refused() -> None:
    def other(header: dict[str, Any], arrays: dict[str, Any]) -> None:
        header["facts"]["dims"]["v"] = 9

    world = World()
    with pytest.raises(hr.OptionError, match="a part of the index that it names"):
        world.use("part", forged("part", world.bytes_of("part"), other))


@pytest.mark.parametrize(
    "odd",
    [
        pa.sparse_union([pa.field("a", pa.int8())]),
        pa.dense_union([pa.field("a", pa.int8())]),
        pa.run_end_encoded(pa.int32(), pa.string()),
        pa.list_view(pa.int8()),
        pa.month_day_nano_interval(),
        pa.decimal256(70, 2),
        pa.dictionary(pa.int8(), pa.string()),
        pa.map_(pa.string(), pa.int8()),
        pa.uuid(),
    ],
    ids=str,
)
def test_columns_of_types_that_no_index_stores_are_refused(odd: pa.DataType) -> None:
    """Arrow cannot make an array of each type that a schema can name."""

    def other(header: dict[str, Any], arrays: dict[str, Any]) -> None:
        kinds = frames.unpack_table(arrays["kinds"]).schema.append(pa.field("odd", odd))
        sink = pa.BufferOutputStream()
        pa.ipc.new_stream(sink, kinds).close()
        arrays["kinds"] = bytes(sink.getvalue())

    world = World()
    with pytest.raises(hr.OptionError, match="data: expected"):
        world.use("part", forged("part", world.bytes_of("part"), other))
