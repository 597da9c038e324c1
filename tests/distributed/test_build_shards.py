"""Shards that are built from files, placed by cell, reply as one index of all rows does (L4)."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hyrecall as hr
from distributed.building_worlds import built, same_calls, write_files
from distributed.subjects import AroundSubject, schema_of
from distributed.worlds import SHARDS
from hyrecall.distributed import ShardedIndex, Shards, build_shards, rebalance
from laws.checks import LawBroken
from laws.effort import Effort
from laws.engine import EngineSubject, table
from oracle.corpus import Draw, draw_mix, draw_rows, draw_shape
from seams import (
    LocalShard,
    building,
    encode_cell,
    parts,
)


def worlds(seeds: range, folder: Path, subject: type[EngineSubject]) -> int:
    """Build and rebalance the shards of random tables; return the calls that were answered."""
    answered = 0
    for seed in seeds:
        draw, chance = Draw(seed), random.Random(seed)
        shape = draw_shape(draw)
        rows = draw_rows(draw, shape, draw_mix(draw))
        schema = schema_of(subject, shape)
        whole = table(shape, rows)
        analyzer = hr.Analyzer("word") if schema.text else None
        one = hr.Index.build(whole, schema, analyzer=analyzer, device="cpu")
        source = write_files(folder / f"{seed}", whole, chance)
        output = folder / f"{seed}-shards"
        n = SHARDS[seed % len(SHARDS)]
        made = built(source, schema, output, shards=n, analyzer=analyzer)
        assert len(made.shards) == n
        assert made.rows == whole.num_rows
        answered += same_calls(subject, shape, rows, one, output, draw)
        moved = rebalance(output, shards=SHARDS[chance.randrange(len(SHARDS))], threads=1)
        assert moved.rows == whole.num_rows
        answered += same_calls(subject, shape, rows, one, output, draw)
    return answered


@pytest.mark.slow
@pytest.mark.parametrize("subject", [EngineSubject, AroundSubject])
def test_random_tables(subject: type[EngineSubject], tmp_path: Path, effort: Effort) -> None:
    n = effort.cases(quick=8, full=200)
    assert worlds(range(n), tmp_path, subject) > 3 * n


def test_planted_order_of_the_files_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are numbered backwards, so ties come in another order."""
    files = building.source_files
    monkeypatch.setattr(building, "source_files", lambda source: files(source)[::-1])
    with pytest.raises(LawBroken):
        worlds(range(20), tmp_path, EngineSubject)


def test_planted_rows_that_stay_behind_are_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shard lacks the rows of the last of its segments."""
    write = building.Move._write

    def planted(self: Any, folder: Path, source: Any, row: Any) -> None:
        kept = source < max(source, default=0)
        if kept.any():
            source, row = source[kept], row[kept]
        write(self, folder, source, row)

    monkeypatch.setattr(building.Move, "_write", planted)
    with pytest.raises((LawBroken, hr.HyrecallError, AssertionError)):
        worlds(range(8), tmp_path, EngineSubject)


def test_planted_hash_of_text_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are laid out by the hash of str(cell), scopes are looked up by that of the cell."""

    def planted(values: Any, kinds: Any) -> bytes:
        return str(tuple(values)).encode()

    monkeypatch.setattr(building, "encode_cell", planted)
    with pytest.raises((LawBroken, hr.HyrecallError)):
        worlds(range(20), tmp_path, EngineSubject)


ODD = ("", " ", "1", "None", "null", "('a', 'b')", "a", "\u00e9", "e\u0301", "\U0001f375", "a\0b",
       "\u202e", "x" * 5000, None)  # fmt: skip


def test_cells_that_look_alike_are_told_apart(tmp_path: Path) -> None:
    cells = [(one, number) for one in ODD for number in (None, 0, -1, 2**63 - 1)]
    encoded = {encode_cell(one, (("a", "large_string"), ("b", "int64"))) for one in cells}
    assert len(encoded) == len(cells)
    rows = pa.table(
        {
            "id": list(range(2 * len(cells))),
            "a": [cell[0] for cell in cells] * 2,
            "b": pa.array([cell[1] for cell in cells] * 2, pa.int64()),
            "text": ["oak tea"] * (2 * len(cells)),
        }
    )
    schema = hr.Schema(key="id", cell=("a", "b"), text="text")
    source = write_files(tmp_path / "in", rows, random.Random(1))
    built(source, schema, tmp_path / "out", shards=7)
    one = hr.Index.build(rows, schema, device="cpu")
    scope = [hr.Scope([cell]) for cell in cells]
    scope += [hr.Scope.matching(a="a", b=hr.ANY), hr.Scope.matching(a="", b=0), hr.Scope([])]
    asked = {"text": ["tea"] * len(scope), "scope": scope}
    with ShardedIndex.open(tmp_path / "out", device="cpu") as index:
        assert index.recall(**asked).to_arrow().equals(one.recall(**asked).to_arrow())


def large(n: int, thread: bool) -> pa.Table:
    chance = random.Random(3)
    table = pa.table(
        {
            "id": list(range(n)),
            "user": [chance.choice([*["big"] * 8, "ann", None, "bob"]) for _ in range(n)],
            "text": [" ".join(chance.choices(["oak", "ash", "elm", "fir"], k=3)) for _ in range(n)],
        }
    )
    if thread:
        days = [None if chance.random() < 0.2 else chance.randrange(n // 5) for _ in range(n)]
        table = table.append_column("day", pa.array(days, pa.int32()).cast(pa.date32()))
    return table


@pytest.mark.slow
@pytest.mark.parametrize("thread", [None, "day"])
def test_a_cell_larger_than_a_shard(thread: str | None, tmp_path: Path) -> None:
    rows = large(400, thread is not None)
    schema = hr.Schema(key="id", cell="user", text="text", thread=thread)
    source = write_files(tmp_path / "in", rows, random.Random(1))
    made = built(source, schema, tmp_path / "out", shards=5)
    assert [cell for cell, _ in made.placement.split] == [("big",)]
    assert len(made.placement.shards_of("big")) == 5
    assert max(one.rows for one in made.shards) < 1.5 * 400 / 5
    one = hr.Index.build(rows, schema, device="cpu")
    asked = {
        "text": ["oak", "elm ash", "fir", "oak fir"],
        "scope": ["big", "ann", hr.Scope([None]), hr.Scope(["big", "ann"])], "limit": 50,
    }  # fmt: skip
    if thread:
        asked["group"] = "thread"
    for n in (5, 2, 6, 1):
        rebalance(tmp_path / "out", shards=n, threads=1)
        with ShardedIndex.open(tmp_path / "out", device="cpu") as index:
            assert index.recall(**asked).to_arrow().equals(one.recall(**asked).to_arrow())


def test_a_key_twice_in_a_cell_is_refused_also_over_shards(tmp_path: Path) -> None:
    rows = large(400, True)
    for thread in (None, "day"):
        ids = rows["id"].to_pylist()
        bigs = np.flatnonzero(np.array(rows["user"].to_pylist()) == "big")
        ids[bigs[-1]] = ids[bigs[0]]
        twice = rows.set_column(0, "id", pa.array(ids))
        schema = hr.Schema(key="id", cell="user", text="text", thread=thread)
        source = write_files(tmp_path / f"in-{thread}", twice, random.Random(1))
        with pytest.raises(hr.KeyConflictError, match=r"unique within a cell|hold yet"):
            built(source, schema, tmp_path / f"out-{thread}", shards=5)


def test_a_table_without_rows_and_shards_without_rows(tmp_path: Path) -> None:
    schema = hr.Schema(key="id", cell="user", text="text")
    for n in (0, 1):
        source = tmp_path / f"{n}.parquet"
        pq.write_table(
            pa.table({"id": ["a"], "user": ["ann"], "text": ["tea"]}).slice(0, n), source
        )
        made = built(source, schema, tmp_path / f"out-{n}", shards=3)
        assert sum(one.rows for one in made.shards) == n
        moved = rebalance(tmp_path / f"out-{n}", shards=2, threads=1)
        assert [one.rows for one in moved.shards].count(0) == 2 - n
        with ShardedIndex.open(tmp_path / f"out-{n}", device="cpu") as index:
            assert len(index.recall(text=["tea"], scope="ann")[0]) == n


def test_the_parts_of_a_build_are_joined_by_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "_LEAST_PART", 2_000)
    monkeypatch.setattr(parts, "_PEAK_PER_INPUT_BYTE", 1e6)
    users = [f"u{at % 6}" for at in range(900)]
    rows = pa.table({"id": list(range(900)), "user": users, "text": ["hot tea"] * 900})
    (tmp_path / "in").mkdir()
    for at in range(9):
        pq.write_table(rows.slice(100 * at, 100), tmp_path / "in" / f"{at}.parquet")
    schema = hr.Schema(key="id", cell="user", text="text")
    added: list[Path] = []
    add = parts.PartsBuild._add

    def counted(build: parts.PartsBuild, folder: Path, part: pa.Table) -> None:
        added.append(build.path)
        add(build, folder, part)

    monkeypatch.setattr(parts.PartsBuild, "_add", counted)
    made = built(tmp_path / "in", schema, tmp_path / "out", shards=2)
    assert len(added) > 4
    asked: dict[str, Any] = {"text": ["tea"] * 6, "scope": users[:6], "limit": 20}
    want = hr.Index.build(rows, schema, device="cpu").recall(**asked)
    with ShardedIndex.open(tmp_path / "out", device="cpu") as index:
        assert index.recall(**asked).to_arrow().equals(want.to_arrow())
        for shard, entry in zip(index.shards, made.shards, strict=True):
            assert isinstance(shard, LocalShard)
            (segment,) = shard.index.stats()["segments"]
            assert segment["n_cells"] == entry.cells
    left = {path.name for path in (tmp_path / "out").iterdir()}
    assert left == {"LOCK", "shards.json", *(one.folder for one in made.shards)}


def test_progress_a_limit_of_memory_and_a_build_that_is_complete(tmp_path: Path) -> None:
    rows = large(600, False)
    schema = hr.Schema(key="id", cell="user", text=hr.Text("text", analyzer=hr.Analyzer("word")))
    source = write_files(tmp_path / "in", rows, random.Random(2))
    told: list[tuple[int, int]] = []
    made = build_shards(
        source, schema, tmp_path / "out", shard_rows=200, memory_limit=2**28,
        bm25=hr.BM25("okapi"), progress=lambda *now: told.append(now),
    )  # fmt: skip
    assert len(made.shards) == 3
    assert told[-1] == (1200, 1200)
    assert told == sorted(told)
    left = {path.name for path in (tmp_path / "out").iterdir()}
    assert left == {"LOCK", "shards.json", *(one.folder for one in made.shards)}
    one = hr.Index.build(rows, schema, bm25=hr.BM25("okapi"), device="cpu")
    asked = {"text": ["oak", "elm"], "scope": ["big", "ann"]}
    with ShardedIndex.open(tmp_path / "out", device="cpu", threads=1) as index:
        assert index.recall(**asked).to_arrow().equals(one.recall(**asked).to_arrow())
        # The folder is rebalanced beneath the index, which keeps what it has opened.
        rebalance(tmp_path / "out", shards=2)
        hits = index.recall(**asked)
        assert not hits.degraded
        assert hits.to_arrow().equals(one.recall(**asked).to_arrow())
    again = build_shards(
        source, schema, tmp_path / "out", shard_rows=200, resume=True, bm25=hr.BM25("okapi")
    )
    assert again == Shards.read(tmp_path / "out"), "what is complete is left as it is"
    assert again.generation == 2
