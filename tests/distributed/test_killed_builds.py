"""A build or a rebalancing that is killed at any step leaves whole generations, and goes on."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import hyrecall as hr
from distributed.building_worlds import built, write_files
from hyrecall.distributed import ShardedIndex, Shards, rebalance
from hyrecall.errors import IndexNotFoundError
from laws.effort import Effort
from seams import building, disk, write_shards

SCHEMA = hr.Schema(key="id", cell="user", text="text")
STEPS = ("mkdir", "rename", "replace", "unlink", "fsync", "rmdir")
"""Every function by which a build changes what is on the disk."""


def documents(n: int = 60) -> pa.Table:
    chance = random.Random(5)
    return pa.table(
        {
            "id": list(range(n)),
            "user": [chance.choice(["big", "big", "ann", "bob", "cyd"]) for _ in range(n)],
            "text": [" ".join(chance.choices(["oak", "ash", "elm"], k=3)) for _ in range(n)],
        }
    )


ASKED: dict[str, Any] = {
    "text": ["oak", "ash elm", "elm"], "scope": ["big", "ann", hr.Scope(["bob", "big"])],
    "limit": 50,
}  # fmt: skip


def steps_of(run: Callable[[], object], killed_at: int = sys.maxsize) -> int | None:
    """Run something in a child; return its steps, or None if it was killed before one of them."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        left = killed_at
        try:
            for name in STEPS:
                plain = getattr(os, name)

                def counted(*given: Any, _plain: Any = plain, **options: Any) -> Any:
                    nonlocal left
                    left -= 1
                    if left < 0:
                        os.kill(os.getpid(), signal.SIGKILL)
                    return _plain(*given, **options)

                setattr(os, name, counted)
            run()
            os.write(writing, b"%d" % (killed_at - left))
            os._exit(0)
        finally:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading) as told:
        n_steps = told.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return None
    assert os.WEXITSTATUS(status) == 0
    return int(n_steps)


def killed_at(step: int, run: Callable[[], object]) -> bool:
    """Run something in a child that is killed before one of its steps; whether it was."""
    return steps_of(run, step) is None


def chosen(n_steps: int | None, effort: Effort) -> list[int]:
    """Return some steps of a run that has as many."""
    assert n_steps is not None
    assert n_steps > 20
    n = min(n_steps, effort.cases(quick=8, full=10_000))
    return sorted(random.Random(n_steps).sample(range(n_steps), n))


def replies(folder: Path) -> pa.Table:
    with ShardedIndex.open(folder, device="cpu", threads=1) as index:
        return index.recall(**ASKED).to_arrow()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_files(tmp_path / "in", documents(), random.Random(1))


@pytest.fixture
def want() -> pa.Table:
    return hr.Index.build(documents(), SCHEMA, device="cpu").recall(**ASKED).to_arrow()


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def only_used(folder: Path) -> set[str]:
    return {"LOCK", "shards.json", *(one.folder for one in Shards.read(folder).shards)}


@pytest.mark.slow
def test_a_build_killed_at_any_step_goes_on(
    tmp_path: Path, source: Path, want: pa.Table, effort: Effort
) -> None:
    def build(at: object) -> object:
        return built(source, SCHEMA, tmp_path / f"{at}", shards=3, resume=True)

    for step in chosen(steps_of(lambda: build("whole")), effort):
        folder = tmp_path / f"{step}"
        assert killed_at(step, lambda step=step: build(step))
        if not (folder / "shards.json").exists() and folder.exists():
            with pytest.raises(IndexNotFoundError):
                ShardedIndex.open(folder)
        build(step)
        assert replies(folder).equals(want)
        assert names(folder) == only_used(folder)


def test_a_build_with_empty_shards_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "in"
    write_files(source, documents().filter(pc.field("user") == "ann"), random.Random(1))

    def killed(self: Any, folder: Path, *_: Any) -> None:
        folder.mkdir()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(building.Move, "_append", killed)
        with pytest.raises(KeyboardInterrupt):
            built(source, SCHEMA, tmp_path / "out", shards=30)
    made = built(source, SCHEMA, tmp_path / "out", shards=30, resume=True)
    assert min(one.rows for one in made.shards) == 0
    assert names(tmp_path / "out") == only_used(tmp_path / "out")


@pytest.mark.slow
def test_a_rebalancing_killed_at_any_step_leaves_one_generation(
    tmp_path: Path, source: Path, want: pa.Table, effort: Effort
) -> None:
    def ready(at: object) -> Path:
        folder = tmp_path / f"{at}"
        if not folder.exists():
            built(source, SCHEMA, folder, shards=2)
        return folder

    whole = ready("whole")
    for step in chosen(steps_of(lambda: rebalance(whole, shards=4, threads=1)), effort):
        folder = ready(step)
        assert killed_at(step, lambda folder=folder: rebalance(folder, shards=4, threads=1))
        assert len(Shards.read(folder).shards) in (2, 4)
        assert replies(folder).equals(want)
        made = rebalance(folder, shards=4, threads=1)
        assert (made.generation, len(made.shards)) == (2, 4)
        assert replies(folder).equals(want)
        assert names(folder) == only_used(folder)


def test_planted_generation_before_its_shards_is_seen(
    tmp_path: Path, source: Path, want: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``shards.json`` is replaced first, and the folders that it names are written later."""
    plain = building.Move._write

    def planted(self: Any, folder: Path, *rows: Any) -> None:
        plain(self, folder, *rows)
        early = Shards.read(folder.parent)
        entries, shard = list(early.shards), int(folder.name.split("-")[1])
        if shard < len(entries):
            entries[shard] = building.described(folder, shard)[0]
            moved = replace(early, generation=early.generation + 1, shards=tuple(entries))
            write_shards(folder.parent, moved)

    def is_seen(step: int) -> bool:
        folder = tmp_path / f"{step}"
        built(source, SCHEMA, folder, shards=2)
        with monkeypatch.context() as patch:
            patch.setattr(building.Move, "_write", planted)
            killed_at(step, lambda: rebalance(folder, shards=4, threads=1))
        try:
            return not replies(folder).equals(want)
        except hr.HyrecallError:
            return True

    assert any(map(is_seen, range(0, 120, 10)))


def test_a_folder_is_opened_while_it_is_rebalanced(
    tmp_path: Path, source: Path, want: pa.Table, effort: Effort
) -> None:
    folder = tmp_path / "out"
    built(source, SCHEMA, folder, shards=2)
    ended = threading.Event()
    faults: list[BaseException] = []

    def move() -> None:
        at = 0
        try:
            while not ended.is_set():
                rebalance(folder, shards=(4, 3, 1, 2)[at % 4], threads=1)
                at += 1
        except BaseException as fault:
            faults.append(fault)

    thread = threading.Thread(target=move)
    thread.start()
    try:
        for _ in range(effort.cases(quick=20, full=500)):
            assert replies(folder).equals(want)
    finally:
        ended.set()
        thread.join()
    assert not faults
    assert Shards.read(folder).generation > 2


def test_another_source_is_not_gone_on_with(tmp_path: Path, source: Path) -> None:
    folder = tmp_path / "out"
    assert killed_at(12, lambda: built(source, SCHEMA, folder, shards=3))
    with pytest.raises(hr.OptionError, match="output: expected a new or an empty folder"):
        built(source, SCHEMA, folder, shards=3)
    for options in ({"shards": 2}, {"shards": 3, "bm25": hr.BM25("okapi")}):
        with pytest.raises(hr.OptionError, match="resume: expected the source, schema and options"):
            built(source, SCHEMA, folder, resume=True, **options)
    other = hr.Schema(key="id", cell=None, text="text")
    with pytest.raises(hr.OptionError, match=r"others \(schema\)"):
        built(source, other, folder, resume=True, shards=3)
    os.utime(next(iter(sorted(source.iterdir()))), ns=(1, 1))
    with pytest.raises(hr.OptionError, match=r"others \(files\)"):
        built(source, SCHEMA, folder, resume=True, shards=3)


def test_a_file_that_is_written_during_the_build_is_refused(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows are as many as before, so that their number does not tell."""
    last, plain = max(source.iterdir()), building.batches_of

    def writes(*given: Any) -> Iterator[pa.RecordBatch]:
        yield from plain(*given)
        rows = pq.read_table(last)
        at = rows.schema.get_field_index("text")
        n_rows = pq.ParquetFile(last).metadata.row_group(0).num_rows
        other = rows.set_column(at, "text", [["fir"] * rows.num_rows])
        pq.write_table(other, last, row_group_size=n_rows)

    monkeypatch.setattr(building, "batches_of", writes)
    with pytest.raises(hr.OptionError, match="source: expected files that do not change"):
        built(source, SCHEMA, tmp_path / "out", shards=3)
    assert not (tmp_path / "out" / "shards.json").exists()


def test_a_complete_build_of_something_else_is_not_taken_for_this_one(
    tmp_path: Path, source: Path
) -> None:
    folder = tmp_path / "out"
    made = built(source, SCHEMA, folder, shards=3)
    assert built(source, SCHEMA, folder, shards=3, resume=True) == made
    moved = rebalance(folder, shards=4, threads=1)
    assert built(source, SCHEMA, folder, shards=3, resume=True) == moved
    wish = "resume: expected the source, schema and options that the complete build began with"
    for options in ({"shards": 2}, {"shards": 3, "bm25": hr.BM25("okapi")}):
        with pytest.raises(hr.OptionError, match=wish):
            built(source, SCHEMA, folder, resume=True, **options)
    os.utime(next(iter(sorted(source.iterdir()))), ns=(1, 1))
    with pytest.raises(hr.OptionError, match=wish):
        built(source, SCHEMA, folder, resume=True, shards=3)
    assert Shards.read(str(folder)) == moved


def test_a_build_that_ends_before_another_one_gets_the_lock(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, lock = tmp_path / "out", disk.writer_lock

    @contextmanager
    def late(path: Path) -> Iterator[None]:
        monkeypatch.setattr(disk, "writer_lock", lock)
        built(source, SCHEMA, folder, shards=3)
        with lock(path):
            yield

    monkeypatch.setattr(disk, "writer_lock", late)
    with pytest.raises(hr.OptionError, match="output: expected a new or an empty folder"):
        built(source, SCHEMA, folder, shards=3)
