"""Columns of every type come through a build of shards, and keep their places when cells move."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hyrecall as hr
from distributed.building_worlds import built, write_files
from hyrecall.distributed import ShardedIndex, rebalance
from seams import rows_of

TEXTS = pa.dictionary(pa.int32(), pa.string())
DAY = 86_400_000
THREADS: list[tuple[pa.DataType, list[Any]]] = [
    *((kind, [1, 0, None]) for kind in (
        pa.date32(), pa.time32("s"), pa.time64("us"), pa.timestamp("ms"),
        pa.timestamp("ns", "UTC"), pa.duration("s"), pa.int8(), pa.int64(),
    )),
    (pa.date64(), [DAY, 0, None]),
    (pa.uint64(), [2**63 + 5, 1, None]),
    (pa.bool_(), [True, False, None]),
    *((kind, ["a", "b", None]) for kind in (
        pa.string(), pa.large_string(), pa.string_view(), TEXTS,
    )),
]  # fmt: skip


def column(kind: pa.DataType, values: list[Any]) -> pa.Array:
    if isinstance(values[0], str | bool) or kind == pa.uint64():
        return pa.array(values, kind)
    whole = pa.array(values, pa.int64())
    if kind in (pa.date32(), pa.time32("s")):
        return whole.cast(pa.int32()).view(kind)
    return whole.cast(kind) if pa.types.is_integer(kind) else whole.view(kind)


@pytest.mark.parametrize(("kind", "values"), THREADS, ids=[str(kind) for kind, _ in THREADS])
def test_a_thread_has_one_part_before_and_after_it_is_saved(
    kind: pa.DataType, values: list[Any]
) -> None:
    rows = pa.table(
        {
            "id": ["x", "y", "z"],
            "user": pa.array(["ann"] * 3, TEXTS),
            "thread": column(kind, values),
            "text": ["tea"] * 3,
        }
    )
    schema = hr.Schema(key="id", cell="user", text="text", thread="thread")
    index = hr.Index.build(rows, schema, device="cpu")
    (segment,) = index._state.segments
    kept = segment.columns(["user", "id", "thread"])
    order = [rows["id"].to_pylist().index(key) for key in kept["id"].to_pylist()]
    given = rows_of(rows, schema).parts(0)
    assert len(set(given.tolist())) == 3
    assert rows_of(kept, schema).parts(0).tolist() == given[order].tolist()


def test_dictionaries_lists_and_tensors(tmp_path: Path) -> None:
    n, chance = 120, random.Random(4)
    vectors = np.random.default_rng(0).standard_normal((n, 4)).astype(np.float32)
    listed = [None if at % 9 == 0 else row.tolist() for at, row in enumerate(vectors)]
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(vectors)
    rows = pa.table(
        {
            "id": pa.array(range(n), pa.int32()),
            "user": pa.array([chance.choice(["ann", "bob", None]) for _ in range(n)], TEXTS),
            "private": pa.array([chance.choice([True, False, None]) for _ in range(n)]),
            "text": pa.array([chance.choice(["oak", "ash oak", None]) for _ in range(n)], TEXTS),
            "listed": pa.array(listed, pa.list_(pa.float32())),
            "tensor": tensors,
            "half": pa.FixedSizeListArray.from_arrays(
                pa.array(vectors.astype(np.float16).reshape(-1)), 4
            ),
            "tags": pa.array([chance.choices(["a", "b"], k=at % 3) for at in range(n)]),
            "seq": pa.array([{"x": at} for at in range(n)]),
        }
    )
    schema = hr.Schema(
        key="id", cell=("user", "private"), text="text", vector=("listed", "tensor", "half"),
        attributes="tags", stored=("text", "seq"),
    )  # fmt: skip
    source = write_files(tmp_path / "in", rows, random.Random(1))
    assert pq.read_schema(source / "0.parquet").field("tensor").type == tensors.type
    one = hr.Index.build(rows, schema, device="cpu")
    pair = hr.Scope([("ann", True), ("ann", None), (None, None), ("bob", False)])
    asked: dict[str, Any] = {
        "text": ["oak", "ash"], "scope": [pair, ("bob", False)], "columns": ["seq", "tags"],
        "vectors": dict.fromkeys(("listed", "tensor", "half"), vectors[:2]), "limit": 60,
        "filter": hr.Filter(tags="a"), "shaping": (hr.MMR(0.5, vector="half"),),
    }  # fmt: skip
    want = one.recall(**asked).to_arrow()
    built(source, schema, tmp_path / "out", shards=3)
    for n_shards in (3, 7, 2):
        rebalance(tmp_path / "out", shards=n_shards, threads=1)
        with ShardedIndex.open(tmp_path / "out", device="cpu") as index:
            assert index.recall(**asked).to_arrow().equals(want)


@pytest.mark.parametrize("kind", [pa.list_(pa.float32()), pa.large_list(pa.float32())], ids=str)
def test_a_shard_whose_rows_have_no_vectors(tmp_path: Path, kind: pa.DataType) -> None:
    users = [f"u{at % 8}" for at in range(40)]
    listed = [[1.0, float(at)] if user == "u3" else None for at, user in enumerate(users)]
    rows = pa.table({"id": list(range(40)), "user": users, "v": pa.array(listed, kind)})
    schema = hr.Schema(key="id", cell="user", vector="v")
    source = write_files(tmp_path / "in", rows, random.Random(1))
    made = built(source, schema, tmp_path / "out", shards=4)
    assert sum(one.rows > 0 for one in made.shards) > 1
    asked: dict[str, Any] = {"vectors": [[1.0, 9.0]] * 2, "scope": ["u3", "u4"], "limit": 40}
    want = hr.Index.build(rows, schema, device="cpu").recall(**asked)
    assert len(want[0]) == 5
    with ShardedIndex.open(tmp_path / "out", device="cpu") as index:
        assert index.recall(**asked).to_arrow().equals(want.to_arrow())


def test_files_of_other_types_or_dimensions_are_refused(tmp_path: Path) -> None:
    schema = hr.Schema(key="id", cell="user", text="text", vector="v")
    first = pa.table({"id": [1], "user": ["a"], "text": ["tea"], "v": [[1.0, 0.0]]})
    others = {
        "id": pa.array([2], pa.int32()), "user": pa.array([2]), "text": pa.array([b"tea"]),
        "v": pa.array([[1.0, 0.0]], pa.list_(pa.float32())),
    }  # fmt: skip
    for name, values in others.items():
        source = tmp_path / name
        source.mkdir()
        pq.write_table(first, source / "0.parquet")
        at = first.schema.get_field_index(name)
        pq.write_table(first.set_column(at, name, values), source / "1.parquet")
        with pytest.raises(hr.OptionError, match=rf"^{name}: expected .* in .*1\.parquet, as in"):
            built(source, schema, tmp_path / f"{name}-out", shards=2)
    source = tmp_path / "dimensions"
    source.mkdir()
    for at, vector in enumerate(([1.0, 0.0], [1.0, 0.0, 0.0])):
        users = [f"u{one}" for one in range(20)]
        rows = {"id": list(range(20)), "user": users, "text": ["tea"] * 20, "v": [vector] * 20}
        rows["user"] = [f"{at}{one}" for one in users]
        pq.write_table(pa.table(rows), source / f"{at}.parquet")
    with pytest.raises(hr.HyrecallError):
        built(source, schema, tmp_path / "dimensions-out", shards=2)
    (tmp_path / "text.parquet").write_text("tea")
    with pytest.raises(hr.DTypeError, match=r"text\.parquet: expected a parquet file"):
        built(tmp_path / "text.parquet", schema, tmp_path / "text-out", shards=2)
