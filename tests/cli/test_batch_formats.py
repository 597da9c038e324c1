"""The formats of batch's output, chosen by name or option; queries from stdin, hits to stdout."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import hyrecall as hr

QUERIES = pa.table(
    {
        "qid": ["a", "b", "c"],
        "words": ["amber delta", "zebra", "kelp"],
        "who": ["acme", "bolt", "corp"],
    }
)
ASKED = ("--query-text", "words", "--query-scope", "who", "--query-key", "qid", "--limit", 3)
LINES = "".join(json.dumps(row) + "\n" for row in QUERIES.to_pylist())


@pytest.fixture
def asked(folder, tmp_path):
    """The arguments of a batch over a Parquet file, without the output."""
    pq.write_table(QUERIES, tmp_path / "q.parquet")
    return ("batch", folder, tmp_path / "q.parquet", *ASKED, "--columns", "stars,text")


@pytest.fixture
def expected(run, asked, tmp_path):
    """The hits as Parquet has them."""
    reply = run(*asked, "-o", tmp_path / "expected.parquet")
    assert reply.code == 0, reply.err
    table = pq.read_table(tmp_path / "expected.parquet")
    assert table.num_rows == 6
    return table


@pytest.mark.parametrize("name", ["h.csv", "h.CSV"])
def test_a_name_that_ends_in_csv_gives_csv(run, asked, expected, tmp_path, name):
    assert run(*asked, "-o", tmp_path / name).code == 0
    text = (tmp_path / name).read_text()
    assert text.splitlines()[0].replace('"', "") == ",".join(expected.column_names)
    assert "PAR1" not in text
    assert pa_csv.read_csv(tmp_path / name).num_rows == expected.num_rows
    types = {field.name: field.type for field in expected.schema}
    convert = pa_csv.ConvertOptions(column_types=types, strings_can_be_null=True)
    assert pa_csv.read_csv(tmp_path / name, convert_options=convert).equals(expected)


@pytest.mark.parametrize("name", ["h.jsonl", "h.ndjson", "h.json"])
def test_a_name_of_json_gives_a_line_per_hit(run, asked, expected, tmp_path, name):
    assert run(*asked, "-o", tmp_path / name).code == 0
    rows = [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
    assert rows == expected.to_pylist()
    assert list(rows[0]) == expected.column_names


def test_the_format_that_is_named_goes_before_the_ending(run, asked, expected, tmp_path):
    assert run(*asked, "-o", tmp_path / "h.dat", "--output-format", "parquet").code == 0
    assert pq.read_table(tmp_path / "h.dat").equals(expected)
    assert run(*asked, "-o", tmp_path / "h.parquet", "--output-format", "jsonl").code == 0
    assert len((tmp_path / "h.parquet").read_text().splitlines()) == expected.num_rows


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (("-o", "h.txt"), "error: --output: expected a name that ends in .parquet, .csv, .jsonl, "),
        (("-o", "h"), "error: --output: expected a name that ends in .parquet, .csv, .jsonl, "),
        (("-o", "h.csv", "--rejects", "r"), "error: --rejects: expected --on-error skip with it"),
        (("-o", "-", "--on-error", "skip"), "error: --rejects: expected a file, because the hits"),
        (("-o", "-", "--resume"), "error: --resume: expected a file of queries and a file as out"),
        (("-o", "h.csv", "--resume"), "error: --resume: expected an interrupted run to continue"),
        (("-o", "sub"), "error: --output: expected a file, got the folder sub"),
        (
            ("-o", "absent/h.csv"),
            "error: --output: expected a file in an existing folder",
        ),
    ],
)
def test_an_output_that_cannot_be_is_refused_before_any_work(
    run, asked, tmp_path, monkeypatch, given, line
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    reply = run(*asked, *given)
    assert reply.code == 1
    assert reply.err.startswith(line)
    assert reply.err.count("\n") == 1
    assert sorted(one.name for one in tmp_path.iterdir()) == ["q.parquet", "sub"]


def test_a_list_column_is_refused_for_csv_and_given_in_json(run, tmp_path):
    rows = pa.table({"id": ["a"], "text": ["tea"], "tags": [["hot", "green"]]})
    schema = hr.Schema(key="id", cell=None, text="text", attributes="tags")
    hr.Index.build(rows, schema).save(tmp_path / "i")
    (tmp_path / "q.csv").write_text("q\ntea\n")
    asked = ("batch", tmp_path / "i", tmp_path / "q.csv", "--query-text", "q", "--columns", "tags")
    reply = run(*asked, "-o", tmp_path / "h.csv")
    assert reply.code == 1
    assert reply.err.startswith("error: tags: expected columns of single values for CSV")
    assert not list(tmp_path.glob("h.*"))
    assert run(*asked, "-o", tmp_path / "h.jsonl").code == 0
    assert json.loads((tmp_path / "h.jsonl").read_text())["tags"] == ["hot", "green"]


def test_json_has_null_for_infinity_and_text_for_times(run, tmp_path):
    rows = pa.table(
        {
            "id": ["a", "b"],
            "text": ["tea", "tea"],
            "x": [float("inf"), 0.5],
            "at": pa.array([1, 1_000_000_000], pa.timestamp("ns")),
        }
    )
    schema = hr.Schema(key="id", cell=None, text="text", attributes=("x", "at"))
    hr.Index.build(rows, schema).save(tmp_path / "i")
    (tmp_path / "q.csv").write_text("q\ntea\n")
    reply = run(
        "batch", tmp_path / "i", tmp_path / "q.csv", "-o", tmp_path / "h.jsonl",
        "--query-text", "q", "--columns", "x,at",
    )  # fmt: skip
    assert reply.code == 0, reply.err
    made = [json.loads(line) for line in (tmp_path / "h.jsonl").read_text().splitlines()]
    assert [one["x"] for one in made] == [None, 0.5]
    assert [one["at"] for one in made] == ["1970-01-01T00:00:00.000000001", "1970-01-01 00:00:01"]


# ---- pipes ----


def in_a_process(*arguments: object, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    pytest.importorskip("typer", reason="the extra [cli] is not installed")
    path = os.pathsep.join([str(Path(hr.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-m", "hyrecall.cli", *map(str, arguments)],
        input=given,
        capture_output=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )


@pytest.mark.slow
def test_stdin_and_stdout_are_json_lines_and_nothing_else(folder, expected):
    done = in_a_process(
        "batch", folder, "-", "-o", "-", *ASKED, "--columns", "stars,text", given=LINES.encode()
    )
    assert done.returncode == 0, done.stderr
    assert [json.loads(line) for line in done.stdout.splitlines()] == expected.to_pylist()
    assert b"3 queries, 6 hits" in done.stderr
    assert done.stderr.rstrip().endswith(b"written to stdout")


@pytest.mark.slow
def test_parquet_goes_through_pipes_both_ways(folder, expected):
    file = io.BytesIO()
    pq.write_table(QUERIES, file)
    done = in_a_process(
        "batch", folder, "-", "-o", "-", *ASKED, "--columns", "stars,text",
        "--input-format", "parquet", "--output-format", "parquet", given=file.getvalue(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert pq.read_table(pa.BufferReader(done.stdout)).equals(expected)


@pytest.mark.slow
def test_csv_goes_through_pipes_and_a_refusal_writes_nothing(folder):
    given = b"words,who\namber delta,acme\n"
    asked = ("--query-text", "words", "--query-scope", "who", "--input-format", "csv")
    done = in_a_process(
        "batch", folder, "-", "-o", "-", *asked, "--output-format", "csv", given=given
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(b'"query","rank","key","tenant","score"')
    refused = in_a_process("batch", folder, "-", "-o", "-", *asked, given=b"words\ntea\n")
    assert (refused.returncode, refused.stdout) == (1, b"")
    assert (
        refused.stderr == b"error: --query-scope: expected a column of stdin (words), got 'who'\n"
    )


@pytest.mark.slow
def test_queries_of_stdin_go_to_a_file_that_is_whole_or_not_there(folder, tmp_path):
    asked = ("batch", folder, "-", "-o", tmp_path / "h.csv", *ASKED)
    done = in_a_process(*asked, given=LINES.encode())
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "h.csv").read_text().count("\n") == 7
    (tmp_path / "h.csv").unlink()
    done = in_a_process(*asked, given=LINES.encode() + b'{"words": 5}\n')
    assert done.returncode == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
def test_a_pipe_with_a_name_is_written_to_and_stays(folder, expected, tmp_path):
    pipe = tmp_path / "h.parquet"
    os.mkfifo(pipe)
    asked = ("batch", folder, tmp_path / "q.parquet", *ASKED, "--columns", "stars,text")
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE) as reader:
        done = in_a_process(*asked, "-o", pipe)
        out, _ = reader.communicate(timeout=60)
    assert done.returncode == 0, done.stderr
    assert pq.read_table(pa.BufferReader(out)).equals(expected)
    assert pipe.is_fifo()


@pytest.mark.slow
def test_queries_come_from_a_pipe_with_a_name_too(folder, expected, tmp_path):
    pipe = tmp_path / "q.jsonl"
    os.mkfifo(pipe)
    asked = ("batch", folder, pipe, *ASKED, "--columns", "stars,text", "-o", tmp_path / "h.jsonl")
    assert b"--resume: expected a file of queries" in in_a_process(*asked, "--resume").stderr
    with subprocess.Popen(
        ["tee", str(pipe)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    ) as w:
        assert w.stdin is not None
        w.stdin.write(LINES.encode())
        w.stdin.close()
        done = in_a_process(*asked)
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "h.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == expected.to_pylist()


@pytest.mark.slow
def test_a_reader_that_stops_ends_the_run_without_a_word_of_internals(folder, tmp_path):
    pytest.importorskip("typer", reason="the extra [cli] is not installed")
    path = os.pathsep.join([str(Path(hr.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    pq.write_table(pa.concat_tables([QUERIES] * 4000), tmp_path / "q.parquet")
    command = [sys.executable, "-m", "hyrecall.cli", "batch", folder, tmp_path / "q.parquet"]
    with subprocess.Popen(
        [*map(str, command), "-o", "-", *map(str, ASKED)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
    ) as started:
        assert started.stdout is not None
        assert started.stderr is not None
        json.loads(started.stdout.readline())
        started.stdout.close()
        err = started.stderr.read()
        assert started.wait(60) == 1
    assert b"Traceback" not in err
    assert b"internal" not in err
