"""An interrupted batch goes on where it stopped; no query is answered twice, no row lost."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hyrecall as hr

pytest.importorskip("typer", reason="the extra [cli] is not installed")

from seams import FileRecall, dataset

N_QUERIES = 23
DIM = 8
WORDS = ["amber", "basin", "cedar", "delta", "ember", "fjord", "kelp", "ledge"]
ALL = (
    "--query-text", "words", "--query-vector", "vec", "--query-key", "qid", "--query-scope", "who",
)  # fmt: skip


def rows_of(path):
    """Return the rows of an output of any format."""
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()
    lines = path.read_text().splitlines()
    return [json.loads(line) for line in lines] if path.suffix == ".jsonl" else lines


@pytest.fixture
def queries(tmp_path, monkeypatch):
    """A file in row groups of 5, asked in parts of 4."""
    monkeypatch.setattr(dataset, "FILE_ROWS", 4)
    rng = np.random.default_rng(5)
    table = pa.table(
        {
            "qid": [f"q{row}" for row in range(N_QUERIES)],
            "words": [" ".join(rng.choice(WORDS, 2)) for _ in range(N_QUERIES)],
            "vec": pa.array(
                rng.standard_normal((N_QUERIES, DIM)).tolist(), pa.list_(pa.float32(), DIM)
            ),
            "who": [("acme", "bolt", "corp")[row % 3] for row in range(N_QUERIES)],
        }
    )
    pq.write_table(table, tmp_path / "q.parquet", row_group_size=5)
    lines = "\n".join(json.dumps(row) + "\n" for row in table.to_pylist())  # blank ones between
    (tmp_path / "q.jsonl").write_text(lines)
    cells = zip(*(table.column(name).to_pylist() for name in ("qid", "words", "who")), strict=True)
    (tmp_path / "q.csv").write_text("qid,words,who\n" + "".join(",".join(c) + "\n" for c in cells))
    return tmp_path / "q.parquet"


@pytest.fixture
def answered(monkeypatch):
    """Count the queries that were answered; `stop` is called with each slice's first one."""
    seen = []
    answer = FileRecall._answer

    def counted(job, some, first):
        if some.num_rows:
            counted.stop(first)
        hits = answer(job, some, first)
        seen.extend(range(first, first + some.num_rows))
        return hits

    counted.stop = lambda first: None
    counted.seen = seen
    monkeypatch.setattr(FileRecall, "_answer", counted)
    return counted


def interrupt_at(query):
    def stop(first):
        if first >= query:
            before = signal.signal(signal.SIGINT, signal.default_int_handler)
            try:
                signal.raise_signal(signal.SIGINT)
            finally:
                signal.signal(signal.SIGINT, before)

    return stop


@pytest.mark.plain_cases(3)
@pytest.mark.parametrize("given", ["q.parquet", "q.jsonl", "q.csv"])
@pytest.mark.parametrize("made", ["h.parquet", "h.csv", "h.jsonl"])
def test_an_interrupted_run_goes_on_and_gives_the_same_file(
    run, folder, queries, answered, tmp_path, given, made
):
    asked = ["batch", folder, tmp_path / given, *ALL]
    if given == "q.csv":
        asked = [one for one in asked if one not in ("--query-vector", "vec")]
    whole, output = tmp_path / f"whole-{made}", tmp_path / made
    assert run(*asked, "-o", whole).code == 0
    answered.seen.clear()
    for query in (8, 9, 16):  # at 9 nothing is done before the next interrupt
        answered.stop = interrupt_at(query)
        resume = ["--resume"] if answered.seen else []
        reply = run(*asked, "-o", output, *resume)
        assert reply.code == 130, reply.err
        assert reply.err.splitlines()[-1] == "interrupted"
        assert "queries are done and kept in" in reply.err
        assert "the same command with --resume continues from there" in reply.err
        assert not output.exists()
    answered.stop = lambda first: None
    reply = run(*asked, "-o", output, "--resume")
    assert reply.code == 0, reply.err
    assert answered.seen == list(range(N_QUERIES))
    assert rows_of(output) == rows_of(whole)
    assert len(rows_of(output)) > N_QUERIES
    assert not list(tmp_path.glob("*.unfinished"))


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_run_that_is_killed_loses_no_more_than_its_last_part(
    process, run, folder, queries, answered, tmp_path, when
):
    code = (
        "import os\n"
        "from hyrecall.cli import main\n"
        "from hyrecall.distributed import dataset\n"
        "dataset.FILE_ROWS = 4\n"
        "replace = os.replace\n"
        "def killed(source, target):\n"
        f"    if {when == 'after'}: replace(source, target)\n"
        "    if str(target).endswith('part-000012.arrow'): os._exit(9)\n"
        f"    if {when == 'before'}: replace(source, target)\n"
        "os.replace = killed\n"
        "main()\n"
    )
    asked = ("batch", folder, queries, *ALL, "-o", tmp_path / "h.parquet")
    assert process(*asked, code=code).returncode == 9
    kept = sorted(one.name for one in (tmp_path / "h.parquet.unfinished").glob("part-*"))
    done = [0, 4, 8] if when == "before" else [0, 4, 8, 12]
    assert kept == [f"part-{at:06d}.arrow" for at in done]
    assert run(*asked, "--resume").code == 0
    assert answered.seen == list(range(done[-1] + 4, N_QUERIES))
    assert run(*asked[:-1], tmp_path / "whole.parquet").code == 0
    assert rows_of(tmp_path / "h.parquet") == rows_of(tmp_path / "whole.parquet")


@pytest.mark.slow
def test_ctrl_c_in_a_process_of_its_own_is_130_and_says_how_to_go_on(
    run, folder, queries, answered, tmp_path
):
    code = (
        "import signal, time\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from hyrecall.cli import main\n"
        "from hyrecall.distributed import dataset\n"
        "from hyrecall.distributed.batch_recall import FileRecall\n"
        "dataset.FILE_ROWS = 1\n"
        "answer = FileRecall._answer\n"
        "def slow(job, some, first):\n"
        "    time.sleep(0.2 if first else 0)\n"
        "    return answer(job, some, first)\n"
        "FileRecall._answer = slow\n"
        "main()\n"
    )
    asked = ("batch", folder, queries, *ALL, "-o", tmp_path / "h.jsonl")
    path = os.pathsep.join([str(Path(hr.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    kept = tmp_path / "h.jsonl.unfinished"
    with subprocess.Popen(
        [sys.executable, "-c", code, *map(str, asked)],
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
        text=True,
    ) as started:
        until = time.monotonic() + 60
        while not list(kept.glob("part-*")):
            assert time.monotonic() < until
            time.sleep(0.02)
        started.send_signal(signal.SIGINT)
        assert started.stderr is not None
        told = started.stderr.read().splitlines()
        assert started.wait(60) == 130
    assert told[-1] == "interrupted"
    n_done = len(list(kept.glob("part-*")))
    assert told[-3].startswith(f"note: {n_done} quer")
    assert 0 < n_done < N_QUERIES
    assert run(*asked, "--resume").code == 0
    assert answered.seen == list(range(n_done, N_QUERIES))


def test_a_full_disk_leaves_the_last_whole_part_to_go_on_from(
    run, folder, queries, answered, tmp_path, monkeypatch
):
    def full(first):
        if first == 8:
            raise OSError(28, "No space left on device", "h.parquet")

    answered.stop = full
    asked = ("batch", folder, queries, *ALL, "-o", tmp_path / "h.parquet")
    reply = run(*asked)
    assert reply.code == 1
    assert reply.err.splitlines()[-1] == "error: h.parquet: No space left on device"
    assert "note: 8 queries are done" in reply.err
    answered.stop = lambda first: None
    answered.seen.clear()
    assert run(*asked, "--resume").code == 0
    assert answered.seen == list(range(8, N_QUERIES))
    numbers = pq.read_table(tmp_path / "h.parquet")["query"].to_pylist()
    assert sorted(set(numbers)) == list(range(N_QUERIES))


@pytest.mark.parametrize("name", ["h.parquet", "h.csv"])
def test_a_run_whose_end_failed_goes_on_when_nothing_is_left_to_answer(
    run, folder, queries, answered, tmp_path, monkeypatch, name
):
    asked = ("batch", folder, queries, *ALL, "-o", tmp_path / name)

    replace = os.replace

    def fails(source, target):
        if Path(target).name == name:
            raise OSError(5, "Input/output error", str(target))
        replace(source, target)

    with monkeypatch.context() as broken:
        broken.setattr("os.replace", fails)
        reply = run(*asked)
    assert reply.code == 1
    assert f"note: {N_QUERIES} queries are done" in reply.err
    answered.seen.clear()
    assert run(*asked, "--resume").code == 0
    assert answered.seen == []
    assert run(*asked[:-1], tmp_path / f"whole-{name}").code == 0
    assert rows_of(tmp_path / name) == rows_of(tmp_path / f"whole-{name}")


@pytest.fixture
def stopped(run, folder, queries, answered, tmp_path):
    """A run that was interrupted after 8 queries; its arguments."""
    answered.stop = interrupt_at(8)
    asked = ["batch", folder, queries, *ALL, "-o", tmp_path / "h.parquet", "--limit", 5]
    assert run(*asked).code == 130
    answered.stop = lambda first: None
    answered.seen.clear()
    return asked


def test_a_run_of_other_options_queries_or_index_does_not_go_on(
    run, folder, queries, stopped, answered, tmp_path
):
    reply = run(*stopped[:-1], 6, "--resume")
    assert reply.code == 1
    assert reply.err == "error: --resume: expected --limit as before (5), got 6\n"
    reply = run(*stopped, "--resume", "--fusion", "max")
    assert reply.err == "error: --resume: expected --fusion as before (None), got max\n"
    index = hr.Index.open(folder)
    index.delete(["d0"], scope="acme")
    index.save(tmp_path / "i")
    reply = run("batch", tmp_path / "i", *stopped[2:], "--resume")
    assert reply.err.startswith("error: --resume: expected the index as before (")
    table = pq.read_table(queries)
    pq.write_table(table.set_column(1, "words", table["qid"]), queries, row_group_size=5)
    reply = run(*stopped, "--resume")
    assert reply.err.startswith("error: --resume: expected the queries as before (")
    assert answered.seen == []
    assert (tmp_path / "h.parquet.unfinished").is_dir()


def test_an_unfinished_run_is_not_thrown_away_by_the_same_command(run, stopped, answered, tmp_path):
    reply = run(*stopped)
    assert reply.code == 1
    assert reply.err.startswith("error: --output: expected --resume (or ")
    assert reply.err.endswith("neither, and 8 answered queries there\n")
    assert answered.seen == []
    reply = run(*stopped[:-1], 6)
    assert reply.code == 0
    assert "note: an unfinished run with other options (--limit) is discarded" in reply.err
    assert answered.seen == list(range(N_QUERIES))
    assert not (tmp_path / "h.parquet.unfinished").exists()


def test_a_part_that_lost_bytes_is_answered_again(run, stopped, answered, tmp_path):
    kept = tmp_path / "h.parquet.unfinished" / "part-000004.arrow"
    kept.write_bytes(kept.read_bytes()[:-1])
    assert run(*stopped, "--resume").code == 0
    assert answered.seen == list(range(4, N_QUERIES))
    assert set(pq.read_table(tmp_path / "h.parquet")["query"].to_pylist()) == set(range(N_QUERIES))


def test_parts_beyond_one_that_is_missing_are_answered_again(run, stopped, answered, tmp_path):
    parts = tmp_path / "h.parquet.unfinished"
    (parts / "part-000004.arrow").rename(parts / "part-000006.arrow")  # of other rows
    (parts / ".hyrecall-left.tmp").write_bytes(b"of a process that was killed")
    assert run(*stopped, "--resume").code == 0
    assert answered.seen == list(range(4, N_QUERIES))
    assert set(pq.read_table(tmp_path / "h.parquet")["query"].to_pylist()) == set(range(N_QUERIES))


def test_threads_may_change_and_the_rows_stay_the_same(run, stopped, answered, tmp_path):
    reply = run(*stopped, "--resume", "--threads", 1)
    assert reply.code == 0
    assert "15 queries after 8 of an earlier run" in reply.err
    assert answered.seen == list(range(8, N_QUERIES))


def test_a_folder_of_somebody_else_is_never_touched(run, folder, queries, tmp_path):
    asked = ("batch", folder, queries, *ALL, "-o", tmp_path / "h.parquet")
    own = tmp_path / "h.parquet.unfinished"
    own.mkdir()
    (own / "diary").write_text("mine")
    for resume in ((), ("--resume",)):
        reply = run(*asked, *resume)
        assert reply.code == 1
        assert "expected no such file, or the folder of an unfinished run" in reply.err
    assert (own / "diary").read_text() == "mine"
    (own / "diary").unlink()
    own.rmdir()
    (tmp_path / "elsewhere").mkdir()
    own.symlink_to(tmp_path / "elsewhere")
    assert "got something else" in run(*asked).err
    assert list((tmp_path / "elsewhere").iterdir()) == []
    own.unlink()
    own.mkdir()
    (tmp_path / "precious").write_text("mine")
    (own / "part-000000.arrow").symlink_to(tmp_path / "precious")
    assert run(*asked).code == 0  # the link is not followed: it is removed
    assert (tmp_path / "precious").read_text() == "mine"


def test_two_runs_to_one_file_are_refused_while_the_first_works(
    run, folder, queries, answered, tmp_path
):
    asked = ("batch", folder, queries, *ALL, "-o", tmp_path / "h.parquet")
    replies = []

    def again(first):
        if first == 8 and threading.current_thread() is threading.main_thread():
            answered.stop = lambda first: None
            replies.append(run(*asked))

    answered.stop = again
    assert run(*asked).code == 0
    (reply,) = replies
    assert reply.code == 1
    assert reply.err == "error: --output: expected no other run to it, got an active one\n"
    assert pq.read_table(tmp_path / "h.parquet")["query"].to_pylist()[-1] == N_QUERIES - 1


def test_a_link_stays_and_the_file_it_names_is_replaced(run, folder, queries, tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "real.parquet").write_text("old")
    (tmp_path / "h.parquet").symlink_to(tmp_path / "sub" / "real.parquet")
    assert run("batch", folder, queries, *ALL, "-o", tmp_path / "h.parquet").code == 0
    assert (tmp_path / "h.parquet").is_symlink()
    assert pq.read_metadata(tmp_path / "sub" / "real.parquet").num_rows > 0


def test_the_output_has_the_rights_that_the_process_gives(run, folder, queries, tmp_path):
    before = os.umask(0o027)
    try:
        assert run("batch", folder, queries, *ALL, "-o", tmp_path / "h.csv").code == 0
    finally:
        os.umask(before)
    assert (tmp_path / "h.csv").stat().st_mode & 0o777 == 0o640
