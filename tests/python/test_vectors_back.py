"""Vectors come back with the bits that were given, from get and with hits."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall.distributed import Request, Statistics, merge
from small_index import refused

N, DIM = 9, 5
ROWS = np.random.default_rng(7).normal(size=(N, DIM)).astype(np.float32)
ROWS[4] = 0  # counts as no vector
KINDS: dict[str, Any] = {
    "float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16,
}  # fmt: skip
BOTH = {"scope": hr.Scope(["ann", "bob"])}


def built(dtype: str, rows: np.ndarray = ROWS, first: int = 0) -> hr.Index:
    n = len(rows)
    table = pa.table(
        {
            "id": np.arange(first, first + n),
            "user": ["ann", "bob", "ann"] * (n // 3),
            "text": ["tea"] * n,
        }
    )
    vector = hr.Vector("e", dtype=dtype)  # type: ignore[arg-type]
    schema = hr.Schema(key="id", cell="user", text="text", vector={"arm": vector})
    return hr.Index.build(
        table, schema, vectors={"arm": rows.astype(KINDS[dtype])}, first_seq=first
    )


def bits(column: Any, dtype: str) -> list[bytes | None]:
    """The bytes of each row; None where there is no vector."""
    kind = np.uint16 if dtype == "bfloat16" else np.dtype(dtype)
    assert column.type == pa.list_(pa.from_numpy_dtype(kind), DIM)
    return [None if one is None else np.array(one, kind).tobytes() for one in column.to_pylist()]


def given(dtype: str, keys: list[int]) -> list[bytes | None]:
    return [None if key == 4 else ROWS[key].astype(KINDS[dtype]).tobytes() for key in keys]


@pytest.mark.parametrize("dtype", KINDS)
def test_the_very_bits_come_back_after_any_life(dtype: str, tmp_path: Path) -> None:
    index = built(dtype, ROWS[:3])
    index.add(built(dtype, ROWS[3:6], 3).get([3, 4, 5], **BOTH, columns=["arm", "text"])
              .rename_columns(["id", "user", "e", "text"]))  # fmt: skip
    rest = pa.table({"id": [6, 7, 8], "user": ["ann", "bob", "ann"], "text": ["tea"] * 3})
    index.add(rest, vectors={"arm": ROWS[6:].astype(KINDS[dtype])})
    index.delete([1], scope="bob")
    index.save(tmp_path / "i")
    keys = [8, 4, 0, 5, 8]
    for memory in ("mmap", "ram"):
        with hr.Index.open(tmp_path / "i", memory=memory, verify="structure") as again:
            found = again.get([*keys, 1], **BOTH, columns=["arm"])
            assert bits(found["arm"], dtype) == given(dtype, keys)
            again.compact()
            assert again.get([*keys, 1], **BOTH, columns=["arm"]).equals(found)
    none = index.get([1], **BOTH, columns=["arm"])
    assert bits(none["arm"], dtype) == []


@pytest.mark.parametrize("dtype", KINDS)
def test_hits_have_the_vectors_that_were_asked_for(dtype: str) -> None:
    index = built(dtype)
    asked: dict[str, Any] = {"text": ["tea", "tea"], "scope": ["ann", "bob"], "columns": ["arm"]}
    hits = index.recall(**asked)
    table = hits.to_arrow()
    assert bits(table["arm"], dtype) == given(dtype, table["key"].to_pylist())
    assert hits[1][0]["arm"] == table["arm"].to_pylist()[6]
    assert pickle.loads(pickle.dumps(hits)).to_arrow().equals(table)
    assert "arm" not in index.recall(text=["tea"], scope="ann").to_arrow().column_names
    # Over shards that are asked apart, too; what was not asked for stays there.
    shards = [built(dtype, ROWS[:6]), built(dtype, ROWS[6:], 6)]
    for names in (["arm"], []):
        request = Request(**{**asked, "columns": names})
        counted = Statistics.sum([shard.statistics(request) for shard in shards])
        merged = merge(request, [shard.candidates(request, counted) for shard in shards])
        if names:
            assert merged.to_arrow().equals(table)
        else:
            with pytest.raises(hr.OptionError, match=r"^columns: expected columns of \['id', 'use"):
                merged[0][0]["arm"]


def test_an_arm_without_a_name_of_its_own_in_results_is_refused() -> None:
    schema = hr.Schema(key="id", cell=None, vector={"score": "e", "a": "e", "a_rank": "e"})
    rows = {"id": [1], "e": [[1.0, 2.0]]}
    index = hr.Index.build(rows, schema)
    assert index.get([1], columns=["a"])["a"].to_pylist() == [[1.0, 2.0]]
    for name in ("score", "a_rank", "e", "A"):
        refused(
            lambda name=name: index.get([1], columns=[name]),
            hr.OptionError,
            f"columns: expected a column, or a sequence of columns, of ['id', 'a'], got ['{name}']",
        )
