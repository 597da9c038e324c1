"""An index that is built in parts replies as one that was built at once, bit for bit."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import hyrecall as hr
from engine.saved_index import ask, build, schema, table
from seams import parts

LIMIT = parts.LEAST_MEMORY
N_ROWS = 200


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of some rows each, as a small limit makes them of large rows."""
    monkeypatch.setattr(parts, "_LEAST_PART", 2_500)
    monkeypatch.setattr(parts, "_PEAK_PER_INPUT_BYTE", 1e6)


def batches(n_rows: int = N_ROWS, step: int = 17) -> Iterator[pa.RecordBatch]:
    """The rows of the plain index, in batches."""
    yield from table(0, n_rows).to_batches(max_chunksize=step)


def in_parts(path: Path, source: object = None, **options: object) -> hr.Index:
    """Build without a join, which test_join_parts.py tests."""
    given = batches() if source is None else source
    options = {"memory_limit": LIMIT, "join": False} | options
    return hr.Index.build_in_parts(given, schema(), path, **options)  # type: ignore[arg-type]


def test_replies_are_those_of_one_build(tmp_path: Path) -> None:
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


def test_changes_afterwards_are_those_of_any_index(tmp_path: Path) -> None:
    made, whole = in_parts(tmp_path / "index"), build(N_ROWS)
    for index in (made, whole):
        index.delete([3, 50], scope=hr.Scope([("alice",), ("bob",), ("carol",)]))
        index.add(table(1000, 40))
        index.compact()
    assert ask(made) == ask(whole)


def test_a_key_that_comes_twice_in_two_parts_is_refused(tmp_path: Path) -> None:
    rows = table(0, N_ROWS)
    twice = pa.concat_tables([rows, rows[:1]]).to_batches(max_chunksize=17)
    with pytest.raises(hr.KeyConflictError, match="id: expected keys that their cells do not hold"):
        in_parts(tmp_path / "index", twice)
    assert not (tmp_path / "index").exists()


class StoppedError(Exception):
    pass


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


def test_what_cannot_be_built_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "index"
    with pytest.raises(hr.OptionError, match="memory_limit: expected an int of at least"):
        hr.Index.build_in_parts(batches(), schema(), path, memory_limit=10)
    with pytest.raises(hr.DTypeError, match=r"schema: expected an hr\.Schema, got dict"):
        hr.Index.build_in_parts(batches(), {}, path, memory_limit=LIMIT)  # type: ignore[arg-type]
    with pytest.raises(hr.DTypeError, match="batches: expected an Arrow stream"):
        in_parts(path, 3)
    with pytest.raises(hr.DTypeError, match=r"batches\[1\]: expected a table or record batch"):
        in_parts(path, [table(0, 20), 3])
    with pytest.raises(hr.OptionError, match="batches: expected at least one batch, got none"):
        in_parts(tmp_path / "other", [])
    for option in ("resume", "join"):
        with pytest.raises(hr.DTypeError, match=f"{option}: expected True or False"):
            in_parts(path, **{option: 1})
    with pytest.raises(hr.OptionError, match="total_rows: expected an int"):
        in_parts(path, total_rows=-1)
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
