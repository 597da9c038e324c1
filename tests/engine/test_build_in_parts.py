"""An index that is built in parts replies as one that was built at once, bit for bit; parts are
joined by cell, through interrupts.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hyrecall as hr
from engine.disk_faults import FailingOs
from engine.saved_index import ask, build, everyone, schema, table
from hyrecall import _core
from seams import disk, joining, parts

LIMIT = parts.LEAST_MEMORY
N_ROWS = 200


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of some rows each, as a small limit makes them of large rows."""
    monkeypatch.setattr(parts, "_LEAST_PART", 2_500)
    monkeypatch.setattr(parts, "_PEAK_PER_INPUT_BYTE", 1e6)


def pieces_of(monkeypatch: pytest.MonkeyPatch, n_rows: int) -> None:
    """Let about so many rows fit in a piece."""
    monkeypatch.setattr(joining.FolderJoin, "_most_rows", lambda *_: n_rows)


def batches() -> Iterator[pa.RecordBatch]:
    yield from table(0, N_ROWS).to_batches(max_chunksize=17)


def joined(path: Path, **options: object) -> hr.Index:
    return hr.Index.build_in_parts(batches(), schema(), path, memory_limit=LIMIT, **options)  # type: ignore[arg-type]


def cells_of(index: hr.Index) -> int:
    """How many cells the segments have, each counted as often as it lies in one."""
    return sum(segment["n_cells"] for segment in index.stats()["segments"])


def test_replies_are_those_of_one_build(tmp_path: Path) -> None:
    made = joined(tmp_path / "index")
    assert made.stats()["n_segments"] == 1
    assert ask(made) == ask(build(N_ROWS))
    assert [file.name for file in tmp_path.iterdir()] == ["index"]


def test_each_cell_lies_in_one_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pieces_of(monkeypatch, 80)
    made = joined(tmp_path / "index")
    assert made.stats()["n_segments"] == 3
    assert cells_of(made) == 3
    assert ask(made) == ask(build(N_ROWS))


def test_a_cell_that_fits_in_no_piece_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces_of(monkeypatch, 60)
    made = joined(tmp_path / "index")
    sizes = [segment["n_rows"] for segment in made.stats()["segments"]]
    assert max(sizes) == 60
    assert len(sizes) > 4
    assert ask(made) == ask(build(N_ROWS))


def test_changes_afterwards_are_those_of_any_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces_of(monkeypatch, 80)
    made, whole = joined(tmp_path / "index"), build(N_ROWS)
    for index in (made, whole):
        index.delete([3, 50], scope=everyone(index))
        index.add(table(1000, 40))
    assert ask(made) == ask(whole)
    made.save(tmp_path / "index")
    assert ask(hr.Index.open(tmp_path / "index", device="cpu")) == ask(whole)


@pytest.mark.parametrize("n_rows", [0, 15])
def test_parts_stay_where_a_join_would_not_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_rows: int
) -> None:
    """No room, or pieces so small that no cell would lie in fewer segments."""
    pieces_of(monkeypatch, n_rows)
    made = joined(tmp_path / "index")
    plain = joined(tmp_path / "plain", join=False)
    assert made.stats()["n_segments"] == plain.stats()["n_segments"] > 3
    assert ask(made) == ask(plain)
    assert {file.name for file in tmp_path.iterdir()} == {"index", "plain"}


def test_one_audience_is_not_cut_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces that are little larger than the parts are not worth a second copy."""
    pieces_of(monkeypatch, 40)
    rows = table(0, N_ROWS).drop_columns("tenant")
    plain = schema(cell=None, cluster=None)
    made = hr.Index.build_in_parts(
        rows.to_batches(max_chunksize=17), plain, tmp_path / "index", memory_limit=LIMIT
    )
    assert made.stats()["n_segments"] > 3
    assert ask(made) == ask(hr.Index.build(rows, plain, device="cpu"))


# ---- cuts ----


def views_of(sizes: list[list[int]]) -> list[_core.SegmentView]:
    """Segments whose cell c has sizes[segment][c] rows."""
    views, first = [], 0
    for each in sizes:
        cells = [f"c{cell}" for cell, n in enumerate(each) for _ in range(n)]
        seqs = np.arange(first, first + len(cells), dtype=np.int64)
        first += len(cells)
        directory = _core.CellDirectory([pa.array(cells, pa.large_string())], len(cells))
        keys = pa.array(seqs)
        views.append(_core.SegmentView(_core.Segment(seqs, directory, keys, [], [], [])))
    return views


def cuts_by_definition(sizes: list[list[int]], most: int) -> list[list[int]]:
    """Cells in order, as many to a part as fit; a part has at least one."""
    rows = np.array(sizes)
    ends, held = [np.zeros(len(sizes), int)], 0
    for cell in range(rows.shape[1]):
        n = int(rows[:, cell].sum())
        if held and held + n > most:
            ends.append(rows[:, :cell].sum(axis=1))
            held = 0
        held += n
    return [end.tolist() for end in [*ends, rows.sum(axis=1)]]


def check_cuts(cut: Callable[..., Any]) -> None:
    rng = np.random.default_rng(5)
    for most in (1, 2, 7, 20, 1000):
        for _ in range(20):
            sizes = rng.integers(0, 9, (rng.integers(1, 5), rng.integers(1, 12))).tolist()
            begins, n_cells = cut(views_of(sizes), most)
            found = begins.reshape(-1, len(sizes)).tolist()
            assert found == cuts_by_definition(sizes, most)
            assert n_cells == int((np.array(sizes).sum(axis=0) > 0).sum())


def test_a_merge_is_cut_between_cells() -> None:
    check_cuts(_core.rows.cut_merge)


def test_the_check_of_cuts_catches_a_cut_inside_a_cell() -> None:
    """A planted bug: the last part begins a row too early in its first segment."""

    def wrong(views: list[_core.SegmentView], most: int) -> tuple[Any, int]:
        begins, n_cells = _core.rows.cut_merge(views, most)
        moved = begins.copy()
        if len(moved) > 2 * len(views) and moved[-2 * len(views)] > 0:
            moved[-2 * len(views)] -= 1
        return moved, n_cells

    with pytest.raises(AssertionError):
        check_cuts(wrong)


def test_an_order_of_some_rows_is_a_part_of_the_whole_order() -> None:
    views = views_of([[3, 0, 4, 2], [1, 5, 2, 0]])
    whole = np.stack(_core.rows.merge_order(views, []))
    begins, _ = _core.rows.cut_merge(views, 6)
    cuts = begins.reshape(-1, 2)
    parts_of_it = [
        np.stack(_core.rows.merge_order(views, [], list(zip(a.tolist(), b.tolist(), strict=True))))
        for a, b in pairwise(cuts)
    ]
    assert len(parts_of_it) > 2
    assert np.array_equal(np.concatenate(parts_of_it, axis=1), whole)


# ---- interrupts ----


class StoppedError(Exception):
    pass


def test_a_join_goes_on_where_it_was_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces_of(monkeypatch, 80)
    save, left = joining.FolderJoin._save, [2]

    def stopped(*given: Any) -> None:
        if not left[0]:
            raise StoppedError
        left[0] -= 1
        save(*given)

    monkeypatch.setattr(joining.FolderJoin, "_save", stopped)
    path = tmp_path / "index"
    with pytest.raises(StoppedError):
        joined(path)
    assert not path.exists()
    held = tmp_path / "index.unfinished"
    assert len(hr.Index.open(held, device="cpu")) == N_ROWS
    names = {file.name for file in (held / "joined").glob("*.arrow")}
    left[0] = 1  # one piece of three is left
    assert ask(joined(path, resume=True)) == ask(build(N_ROWS))
    assert names < {file.name for file in path.glob("*.arrow")}
    assert not held.exists()


def test_a_join_that_was_cut_otherwise_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces_of(monkeypatch, 80)
    save = joining.FolderJoin._save
    saved: list[int] = []

    def counted(*given: Any) -> None:
        if len(saved) == 2:
            raise StoppedError
        saved.append(len(given[3]))
        save(*given)

    monkeypatch.setattr(joining.FolderJoin, "_save", counted)
    with pytest.raises(StoppedError):
        joined(tmp_path / "index")
    monkeypatch.setattr(joining.FolderJoin, "_save", save)
    pieces_of(monkeypatch, 150)
    made = joined(tmp_path / "index", resume=True)
    assert [s["n_rows"] for s in made.stats()["segments"]] != saved
    assert ask(made) == ask(build(N_ROWS))


@pytest.mark.slow
def test_a_disk_that_fails_at_any_moment_leaves_a_build_that_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk stops, as for a process that is killed, at each of the join's operations in turn."""
    pieces_of(monkeypatch, 80)
    path = tmp_path / "index"
    expected = ask(build(N_ROWS))
    fail_at, n_failed = 1, 0
    while True:
        faulty = FailingOs(fail_at, for_ever=True)
        run = joining.FolderJoin.run

        def joins(join: joining.FolderJoin, faulty: FailingOs = faulty, run: Any = run) -> bool:
            monkeypatch.setattr(disk, "os", faulty)
            return bool(run(join))

        with monkeypatch.context() as patched:
            patched.setattr(joining.FolderJoin, "run", joins)
            try:
                made = joined(path, resume=True)
            except OSError:
                made = None
        monkeypatch.setattr(disk, "os", os)
        if made is not None:
            break
        n_failed += 1
        assert path.exists() or (tmp_path / "index.unfinished" / "MANIFEST").exists()
        fail_at += 7
    assert n_failed > 5
    assert ask(made) == expected
    assert [file.name for file in tmp_path.iterdir()] == ["index"]


def test_what_is_left_of_a_build_that_had_its_name_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(folder: Path) -> None:
        next(folder.glob("*.arrow")).unlink()
        raise StoppedError

    path = tmp_path / "index"
    with monkeypatch.context() as patched:
        patched.setattr(parts, "_remove", killed)
        with pytest.raises(StoppedError):
            joined(path)
    assert ask(joined(path, resume=True)) == ask(build(N_ROWS))
    assert [file.name for file in tmp_path.iterdir()] == ["index"]


def test_a_damaged_part_is_not_joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "BLOCK_BYTES", 256)
    run = joining.FolderJoin.run

    def damaged(join: joining.FolderJoin) -> bool:
        file = next(join.parts.glob("*-documents-0.arrow"))
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 4
        file.unlink()
        file.write_bytes(content)
        return run(join)

    monkeypatch.setattr(joining.FolderJoin, "run", damaged)
    with pytest.raises(hr.CorruptIndexError, match="documents-0"):
        joined(tmp_path / "index")
    assert not (tmp_path / "index").exists()


KILLED = """
import os, signal, sys
from hyrecall.base import disk
from hyrecall.cli import index_command as index_in_parts, main
from hyrecall.segments import parts
index_in_parts._BATCH_ROWS = 17
parts._LEAST_PART, parts._PEAK_PER_INPUT_BYTE = 2_500, 1e6
parts.FolderJoin._most_rows = lambda *_: 80
CHANGES = ("write", "fsync", "replace", "unlink")
kill_at, count = int(sys.argv.pop(1)), 0
class Os:
    def __getattr__(self, name):
        return changing(name) if name in CHANGES else getattr(os, name)
def changing(name):
    def call(*given):
        global count
        count += 1
        if count == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return getattr(os, name)(*given)
    return call
disk.os = parts.os = Os()
sys.exit(main())
"""


@pytest.mark.slow
def test_a_command_that_is_killed_again_and_again_ends_with_the_whole_index(
    tmp_path: Path,
) -> None:
    """kill -9 at random operations of the disk, in parts and join, over a Parquet file."""
    corpus, path = tmp_path / "corpus.parquet", tmp_path / "index"
    rows = table(0, N_ROWS)
    pq.write_table(rows.select(["id", "tenant", "body", "v"]), corpus, row_group_size=20)
    command = ["index", str(corpus), "-o", str(path), "--key", "id", "--cell", "tenant"]
    command += ["--text", "body", "--vector", "v", "--memory", "1GB", "--resume"]
    rng = np.random.default_rng(8)
    n_killed = 0
    while True:
        script = [sys.executable, "-c", KILLED, str(int(rng.integers(10, 60)))]
        done = subprocess.run([*script, *command], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr[-2000:]
        n_killed += 1
        assert n_killed < 60
    assert n_killed > 2
    made = hr.Index.open(path, device="cpu", verify="full")
    plain = hr.Schema(key="id", cell="tenant", text="body", vector="v")
    whole = hr.Index.build(rows.select(["id", "tenant", "body", "v"]), plain, device="cpu")
    scope = hr.Scope(["alice", "bob", "carol"])
    query = np.ones((1, 9), np.float32)
    for index in (made, whole):
        assert len(index) == N_ROWS
    replies = [
        index.recall(text=["oak tea"], vectors=query, scope=scope, limit=50).to_arrow()
        for index in (made, whole)
    ]
    assert replies[0].equals(replies[1])
    assert {file.name for file in tmp_path.iterdir()} == {"index", "corpus.parquet"}


# ---- parts alone ----


def in_parts(path: Path, source: object = None, **options: object) -> hr.Index:
    """Build without a join."""
    given = batches() if source is None else source
    options = {"memory_limit": LIMIT, "join": False} | options
    return hr.Index.build_in_parts(given, schema(), path, **options)  # type: ignore[arg-type]


def test_parts_alone_reply_as_one_build(tmp_path: Path) -> None:
    made = in_parts(tmp_path / "index")
    assert made.stats()["n_segments"] > 3
    assert ask(made) == ask(build(N_ROWS))
    assert [file.name for file in tmp_path.iterdir()] == ["index"]


@pytest.mark.parametrize(
    "source",
    [
        lambda: table(0, N_ROWS),
        lambda: table(0, N_ROWS).to_reader(max_chunksize=50),
        lambda: [table(0, N_ROWS)[:90], table(0, N_ROWS)[90:]],
    ],
    ids=["a table", "a reader", "tables"],
)
def test_any_stream_of_rows_is_read(tmp_path: Path, source: object) -> None:
    made = in_parts(tmp_path / "index", source())  # type: ignore[operator]
    assert ask(made) == ask(build(N_ROWS))


def test_a_key_that_comes_twice_in_two_parts_is_refused(tmp_path: Path) -> None:
    rows = table(0, N_ROWS)
    twice = pa.concat_tables([rows, rows[:1]]).to_batches(max_chunksize=17)
    with pytest.raises(hr.KeyConflictError, match="id: expected keys that their cells do not hold"):
        in_parts(tmp_path / "index", twice)
    assert not (tmp_path / "index").exists()


def stopped_after(n_batches: int) -> Iterator[pa.RecordBatch]:
    for at, batch in enumerate(batches()):
        if at == n_batches:
            raise StoppedError
        yield batch


def test_a_build_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    path = tmp_path / "index"
    with pytest.raises(StoppedError):
        in_parts(path, stopped_after(7))
    assert not path.exists()
    held = hr.Index.open(tmp_path / "index.unfinished", device="cpu")
    names = {file.name for file in (tmp_path / "index.unfinished").iterdir()}
    assert 0 < len(held) < N_ROWS
    with pytest.raises(hr.OptionError, match=r"index\.unfinished, which exists"):
        in_parts(path)
    told: list[tuple[int, int]] = []
    made = in_parts(
        path,
        resume=True,
        total_rows=N_ROWS,
        progress=lambda done, total: told.append((done, total)),
    )
    assert ask(made) == ask(build(N_ROWS))
    assert told[-1] == (N_ROWS, N_ROWS)
    assert told[0][0] > len(held)
    assert {name for name in names if name.endswith(".arrow")} <= {f.name for f in path.iterdir()}


def test_a_build_without_an_earlier_one_may_be_resumed(tmp_path: Path) -> None:
    assert ask(in_parts(tmp_path / "index", resume=True)) == ask(build(N_ROWS))


@pytest.mark.parametrize(
    "other", [lambda: table(5000, N_ROWS).to_batches(), lambda: table(0, 20).to_batches()]
)
def test_other_rows_do_not_resume_a_build(tmp_path: Path, other: object) -> None:
    with pytest.raises(StoppedError):
        in_parts(tmp_path / "index", stopped_after(7))
    with pytest.raises(hr.OptionError, match="resume: expected the rows that the unfinished"):
        in_parts(tmp_path / "index", other(), resume=True)  # type: ignore[operator]


def test_a_folder_that_is_there_is_not_built_into(tmp_path: Path) -> None:
    path = tmp_path / "index"
    path.mkdir()
    with pytest.raises(hr.OptionError, match="a folder that is not there yet"):
        in_parts(path)


PEAK = """
import json, re, sys, threading
from pathlib import Path
import numpy as np, pyarrow as pa
import hyrecall as hr
limit, path = int(sys.argv[1]), sys.argv[2]
rng = np.random.default_rng(1)
def batches():
    for first in range(0, 400_000, 5_000):
        rows = rng.standard_normal((5_000, 256), dtype=np.float32)
        yield pa.record_batch({
            "id": pa.array(range(first, first + 5_000)),
            "v": pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), 256),
        })
schema = hr.Schema(key="id", cell=None, vector="v")
peak, stop = 0, threading.Event()
def watch():
    global peak
    while not stop.wait(0.002):
        status = Path("/proc/self/status").read_text()
        peak = max(peak, int(re.search(r"RssAnon:\\s+(\\d+)", status)[1]) * 1024)
watcher = threading.Thread(target=watch)
watcher.start()
index = hr.Index.build_in_parts(batches(), schema, path, memory_limit=limit, threads=1)
stop.set()
watcher.join()
print(json.dumps({"rows": len(index), "segments": index.stats()["n_segments"], "peak": peak}))
"""


@pytest.mark.slow
def test_a_build_keeps_within_its_limit(tmp_path: Path) -> None:
    """410 MB of vectors within 320 MiB of memory of its own, beside pages of mapped files."""
    limit = 320 * 2**20
    command = [sys.executable, "-c", PEAK, str(limit), str(tmp_path / "index")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["rows"] == 400_000
    assert found["segments"] > 2
    assert 50e6 < found["peak"] < limit
