"""stdout is data, stderr is talk, and every documented exit code comes where it should."""

import os
import signal
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hyrecall as hr


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["delta"], "error: --scope: expected --scope, a cell of (tenant)"),
        (["delta", "--scope", "acme", "--bm25", "best"], "error: --bm25: variant: expected one of"),
        (
            ["delta", "--scope", "acme", "--bm25", "okapi:1:1:1"],
            "error: --bm25: delta: expected None (okapi has none)",
        ),
        (
            ["delta", "--scope", "acme", "--bm25", "bm25l:1:1:1:1"],
            "error: --bm25: expected VARIANT[:K1[:B[:DELTA]]]",
        ),
        (
            ["delta", "--scope", "acme", "--fusion", "dbsf:none"],
            "error: --fusion: expected options",
        ),
        (["delta", "--scope", "acme", "--fusion", "mean"], "error: --fusion: expected rrf, sum"),
        (["delta", "--scope", "acme", "--limit", "-1"], "error: limit: expected an int"),
        (["delta", "--scope", "acme", "--filter", "stars=3"], "error: --filter: expected a JSON"),
        (["delta", "--scope", "acme", "--filter", '{"size": 1}'], "error: size: expected an attr"),
        (["delta", "--scope", '["acme", "x"]'], "error: scope: expected a value for each"),
        (["--scope", "acme", "--vector", "[1, 2]"], "error: vectors: expected 8 values"),
        (["--scope", "acme", "--vector", "one"], "error: --vector: expected a JSON list"),
        (["--scope", "acme", "--vector", "@absent.json"], "error: absent.json: No such file"),
        (["delta", "--scope", "acme", "--columns", "stars"], "error: --columns: expected --json"),
        (["delta", "--scope", "acme", "--around", "101"], "error: surrounding: expected an int in"),
    ],
)
def test_what_is_refused_is_one_line_and_1(run, folder, arguments, line):
    reply = run("recall", folder, *arguments)
    assert reply.code == 1
    assert reply.out == ""
    (last,) = [one for one in reply.err.splitlines() if not one.startswith("note: ")]
    assert last.startswith(line)


def test_a_refusal_ends_without_the_line_of_python_that_mends_it(run, folder, tmp_path):
    decimals = pa.table({"id": ["a"], "text": ["tea"], "x": [Decimal("1.5")], "v": [[1, 0]]})
    pq.write_table(decimals, tmp_path / "c.parquet")
    index = ["index", tmp_path / "c.parquet", "-o", tmp_path / "i", "--no-cell", "--text", "text"]
    lines = {
        "error: x: expected a string or integer key, got decimal128(2, 1)": [*index, "--key", "x"],
        "error: v: expected float16, float32 or float64 values, got int64": [
            *index, "--key", "id", "--vector", "v",
        ],
        "error: offset + limit: expected <= 100 (depth), got 105": [
            "recall", folder, "tea", "--scope", "acme", "--vector", str([1.0] * 8),
            "--offset", "95", "--limit", "10",
        ],
    }  # fmt: skip
    for line, arguments in lines.items():
        reply = run(*arguments)
        assert reply.code == 1
        assert reply.err.splitlines()[-1] == line


def test_debug_shows_where_an_error_came_from(run, folder):
    arguments = ("recall", folder, "delta", "--scope", "acme", "--limit", "-1")
    assert "Traceback" not in run(*arguments).err
    assert "Traceback" in run("--debug", *arguments).err


@pytest.mark.parametrize(("made", "code"), [("nothing", 1), ("an empty folder", 3), ("a file", 3)])
def test_no_index_at_the_path_is_1_and_a_path_that_holds_none_3(run, tmp_path, made, code):
    path = tmp_path / "there"
    if made == "an empty folder":
        path.mkdir()
    elif made == "a file":
        path.write_text("x")
    reply = run("info", path)
    assert reply.code == code
    assert reply.err.startswith("error: ")
    assert reply.err.count("\n") == 1


def test_a_damaged_index_is_3(run, folder, tmp_path):
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in Path(folder).iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    manifest = copy / "MANIFEST"
    manifest.write_bytes(manifest.read_bytes()[:-20])
    reply = run("recall", copy, "delta", "--scope", "acme")
    assert reply.code == 3
    assert reply.err.startswith("error: ")
    assert "MANIFEST" in reply.err


@pytest.mark.parametrize("fault", [hr.InternalError("broken"), ZeroDivisionError("broken")])
def test_a_fault_of_ours_is_4_and_asks_for_a_report(run, folder, monkeypatch, fault):
    def fail(*_: object, **__: object) -> None:
        raise fault

    monkeypatch.setattr(hr.Index, "stats", fail)
    reply = run("info", folder)
    assert reply.code == 4
    assert reply.out == ""
    assert "broken; please report" in reply.err


def test_an_interrupt_is_130(run, folder, monkeypatch):
    def interrupt(*_: object, **__: object) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(hr.Index, "stats", interrupt)
    # Under nohup, say, the signal is ignored from the start and Python sets no handler of its own.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        reply = run("info", folder)
    finally:
        signal.signal(signal.SIGINT, before)
    assert reply.code == 130
    assert reply.err == "interrupted\n"


def test_python_m_hyrecall_is_the_command(process):
    code = "import runpy, sys; sys.argv[1:] = ['recall', '--limit', 'x']\n"
    done = process(code=code + "runpy.run_module('hyrecall', run_name='__main__', alter_sys=True)")
    assert done.returncode == 2
    assert done.stderr.startswith("Usage: hyrecall recall ")


@pytest.mark.plain_cases(1)
@pytest.mark.parametrize("package", ["typer", "rich", "platformdirs"])
def test_without_the_cli_extra_the_command_says_how_to_get_it_and_2(process, package):
    code = (
        f"import sys; sys.modules['{package}'] = None; import importlib.util as u\n"
        "find = u.find_spec\n"
        f"u.find_spec = lambda name, *rest: None if name == '{package}' else find(name, *rest)\n"
        "from hyrecall.cli import main; main()"
    )
    done = process(code=code)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        "error: hyrecall: expected the extra [cli] (pip install 'hyrecall[cli]'), "
        f"got no package {package}\n"
    )


def test_without_the_local_extra_embed_says_how_to_get_it_and_2(run, folder, monkeypatch):
    from seams import static_module

    monkeypatch.setattr(static_module, "_PACKAGE", "no_such_package")
    reply = run("recall", folder, "delta", "--scope", "acme", "--embed")
    assert reply.code == 2
    assert reply.err.startswith("error: embedder: expected the packaged static model (pip install")


@pytest.mark.slow
def test_a_process_of_its_own_gives_the_same_codes(process, folder):
    done = process("recall", folder, "delta", "--scope", "acme", "--json", "--limit", 1)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("{")
    assert "note: 'embedding': no vector given" in done.stderr
    refused = process("recall", folder, "delta")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert process("recall", folder, "--no-such-option").returncode == 2


def test_version_is_the_packages(run):
    assert run("--version").out == f"{hr.__version__}\n"


def test_an_interrupt_before_the_command_is_loaded_ends_like_one_in_it(process):
    code = """
import sys
import hyrecall.cli

class Interrupt:
    def find_spec(self, name, *_):
        if name == "hyrecall.cli.app":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupt())
hyrecall.cli.main()
"""
    reply = process(code=code)
    assert (reply.returncode, reply.stdout, reply.stderr) == (130, "", "interrupted\n")


# Calls that write little, which stays in a buffer until the end, and one that writes while it runs.
WRITING = {
    "help": ["--help"], "help of a command": ["recall", "--help"], "version": ["--version"],
    "a line": ["config", "path"], "a table": ["info", "--devices"],
    "hits": ["recall", "FOLDER", "delta", "--scope", "acme", "--vector", "[1,0,0,0,0,0,0,0]",
             "--limit", "100", "--json"],
}  # fmt: skip
BUFFERED = {"buffered": "", "unbuffered": "1"}
WRITTEN = [
    pytest.param(name, buffering, marks=[] if is_plain else pytest.mark.slow)
    for name in WRITING
    for buffering in BUFFERED
    for is_plain in [name in {"hits", "help"} or (name, buffering) == ("a line", "buffered")]
]


def written_to(stdout, folder, name, buffering):
    """Run a command that writes to this file."""
    arguments = [str(folder) if one == "FOLDER" else one for one in WRITING[name]]
    env = {**os.environ, "PYTHONUNBUFFERED": BUFFERED[buffering]}
    env["PYTHONPATH"] = os.pathsep.join([*sys.path, env.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "hyrecall", *arguments]
    return subprocess.run(
        command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False, env=env
    )


@pytest.mark.plain_cases(1)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize(("name", "buffering"), WRITTEN)
def test_a_full_disk_is_said_of_the_output(folder, name, buffering):
    with open("/dev/full", "w") as full:
        reply = written_to(full, folder, name, buffering)
    assert reply.stderr == "error: output: No space left on device\n"
    assert reply.returncode == 1


@pytest.mark.plain_cases(1)
@pytest.mark.parametrize(("name", "buffering"), WRITTEN)
def test_a_reader_that_has_gone_ends_the_command_in_silence(folder, name, buffering):
    reading, writing = os.pipe()
    os.close(reading)
    try:
        reply = written_to(writing, folder, name, buffering)
    finally:
        os.close(writing)
    assert (reply.stderr, reply.returncode) == ("", 1)


def test_a_closed_output_is_no_fault(process):
    code = (
        "import sys; sys.stdout = None; sys.argv = ['hyrecall', '--version'];"
        "from hyrecall.cli import main; main()"
    )
    done = process(code=code)
    assert (done.returncode, done.stderr) == (0, "")
