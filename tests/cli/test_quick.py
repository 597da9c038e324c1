"""Plain ``recall`` and ``context``: what the owner of a store answers, or the store alone."""

import contextlib
import json
import logging
import re
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("apsw", reason="the extra [memory] is not installed")
pytest.importorskip("typer", reason="the extra [cli] is not installed")

from cli.conftest import start
from hyrecall import Analyzer, __version__, recipes
from hyrecall.memory import MemorySync
from seams import LENGTH, MOST_BYTES_OF_HELLO, NOTICE, Commands, address_of, asking, plain, quick

Run = Callable[..., SimpleNamespace]

UNSURE = ("recall", "is Bob at lunch", "--user", "ann")
LINES = [
    ("recall", "replication", "--user", "ann"),
    ("recall", "replication", "--user", "ann", "--json"),
    ("recall", "replication", "--user=ann", "--limit", "1", "--offset", "1"),
    ("recall", "postgres lunch", "--user", "ann", "--kind", "episodic", "--tag", "db"),
    ("recall", "replication", "--user", "ann", "--min-score", "bm25=0.1", "--token-budget", "9"),
    ("recall", "replication", "--agent", "ada", "--org", "acme", "--workspace", "lab"),
    ("recall", "replication", "--json"),  # with a note of isolation
    ("recall", " ", "--user", "ann"),
    ("recall", "none of these", "--user", "ann", "--recipe", "default"),
    UNSURE,
    (*UNSURE, "--json"),
    (*UNSURE, "--min-confidence", "0.5"),
    ("recall", "replication", "--user", "ann", "--min-confidence=.2"),
    ("context", "--query", "is Bob at lunch", "--user", "ann", "--min-confidence", "0.5"),
    ("context", "--query", "replication", "--user", "ann"),
    ("context", "--query", "replication", "--user", "ann", "--budget", "60", "--limit", "1"),
    ("context", "--query", "xyzzy", "--user", "ann"),
]
LEFT = [
    ("recall", "replication", "--user", "ann", "--recipe", "hebb"),
    ("recall", "replication", "--user", "ann", "--recipe", "nobody"),
    ("recall", "replication", "--user", "ann", "--explain"),
    ("recall", "replication", "--user", "ann", "--limit", "many"),
    ("recall", "replication", "--user", "ann", "--limit", "1000"),
    ("recall", "replication", "--user", "ann", "--min-score", "0.1"),
    ("recall", "replication", "--user", "ann", "--min-score", "bm25=nan"),
    ("recall", "replication", "--user", "ann", "--agent", "ada"),
    ("recall", "replication", "--user", "-x"),
    ("recall", "replication", "--user", "ann", "--min-confidence", "2"),
    ("recall", "replication", "--user", "ann", "--min-confidence", "high"),
    ("recall", "replication", "--agent", "ada"),
    ("recall", ".", "--user", "ann"),
    ("recall", "", "--user", "ann"),
    ("recall", "one", "two", "three"),
    ("recall", "--help"),
    ("context", "--query", "replication", "--budget", "0"),
    ("context", "--query", "\ud800", "--user", "ann"),
    ("context", "--user", "ann"),
    ("context", "replication", "--query", "replication"),
    ("get", "m0"),
    (),
]


@pytest.fixture
def owner(filled: Path) -> Iterator[MemorySync]:
    """The store, open in this process with the embedder that the command would choose."""
    with MemorySync.open(filled) as memory:
        yield memory


def same(text: str) -> str:
    """Return what is printed, but for the mark that is drawn."""
    return re.sub(r"stored-[0-9a-f]{16}", "stored", text)


@pytest.mark.parametrize("line", LINES, ids=" ".join)
def test_the_owner_answers_what_the_command_finds(
    run: Run, owner: MemorySync, capsys: pytest.CaptureFixture[str], line: tuple[str, ...]
) -> None:
    assert quick.answered(line)
    quickly = capsys.readouterr()
    slowly = run(*line)
    assert slowly.code == 0
    assert (same(quickly.out), quickly.err) == (same(slowly.out), slowly.err)


def test_a_reply_that_probably_holds_no_answer_is_told(
    owner: MemorySync, capsys: pytest.CaptureFixture[str]
) -> None:
    assert quick.answered(UNSURE)
    assert "note: probably nothing here answers: confidence 0." in capsys.readouterr().err
    asked = ("context", "--query", "is Bob at lunch", "--user", "ann")
    assert quick.answered(asked)
    assert "lunch was great" in capsys.readouterr().out
    assert quick.answered((*asked, "--min-confidence", "0.5"))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("line", LEFT, ids=repr)
def test_what_is_not_plain_is_left_to_the_command(
    owner: MemorySync, capsys: pytest.CaptureFixture[str], line: tuple[str, ...]
) -> None:
    assert not quick.answered(line)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("options", "environ", "settings"),
    [
        ({"embedder": None}, {}, {}),
        ({"recipe": recipes.hebb}, {}, {}),
        ({"analyzer": "word"}, {}, {}),
        ({"clock": partial(datetime, 2001, 1, 1, tzinfo=UTC)}, {}, {}),
        ({"recall_timeout": 9.0}, {}, {}),
        ({}, {"HYRECALL_EMBED_DISABLE": ""}, {}),
        ({}, {"HYRECALL_EMBED_DISABLE": "", "HYRECALL_EMBEDDING_URL": "nothing"}, {}),
        ({}, {}, {"recall_timeout": 3.0}),
        ({}, {}, {"recipe": "loom"}),
    ],
    ids=repr,
)
def test_another_index_embedder_or_setting_is_left_to_the_command(
    filled: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    environ: dict[str, str],
    settings: dict[str, Any],
) -> None:
    (filled.parent / "config.json").write_text(json.dumps(settings))
    with MemorySync.open(filled, **options):
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        assert not quick.answered(LINES[0])


def content_of(folder: Path) -> dict[Path, bytes]:
    """Return the files of a store, but for those that SQLite makes for each reader."""
    files = (one for one in folder.rglob("*") if one.is_file())
    return {one: one.read_bytes() for one in files if not one.name.startswith("memory.db-")}


@pytest.mark.parametrize("line", LINES, ids=" ".join)
def test_a_store_that_nobody_owns_is_opened_for_what_the_command_finds(
    run: Run, filled: Path, capsys: pytest.CaptureFixture[str], line: tuple[str, ...]
) -> None:
    before = content_of(filled)
    assert quick.answered(line)
    assert content_of(filled) == before
    quickly = capsys.readouterr()
    slowly = run(*line)
    assert slowly.code == 0
    assert (same(quickly.out), quickly.err) == (same(slowly.out), slowly.err)


@pytest.mark.parametrize("options", [{"read_only": True}, {"shared": False}], ids=repr)
def test_nobody_owns_a_store_without_a_socket(
    run: Run, filled: Path, capsys: pytest.CaptureFixture[str], options: dict[str, Any]
) -> None:
    with MemorySync.open(filled, **options):
        assert quick.answered(LINES[0])
        assert capsys.readouterr().out == run(*LINES[0]).out


def warned(*_: Any, **__: Any) -> None:
    warnings.warn("of the store", stacklevel=1)


def logged(*_: Any, **__: Any) -> None:
    logging.getLogger("hyrecall.memory.store").warning("of the store")


def failed(*_: Any, **__: Any) -> None:
    raise RuntimeError("of the store")


@pytest.mark.parametrize("told", [warned, logged, failed])
def test_what_the_command_would_tell_beside_the_answer_is_left_to_it(
    filled: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    told: Callable[..., None],
) -> None:
    answer = plain.answer
    monkeypatch.setattr(plain, "answer", lambda *a, **k: told() or answer(*a, **k))
    assert not quick.answered(LINES[0])
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("settings", [{"recall_timeout": 3.0}, {"recipe": "nobody"}], ids=repr)
def test_settings_that_are_not_plain_are_left_to_the_command(
    filled: Path, capsys: pytest.CaptureFixture[str], settings: dict[str, Any]
) -> None:
    (filled.parent / "config.json").write_text(json.dumps(settings))
    assert not quick.answered(LINES[0])
    assert capsys.readouterr() == ("", "")


def test_an_owner_that_does_not_look_at_the_index_is_noticed(
    run: Run, filled: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    line = ("recall", "replicating", "--user", "ann")
    planted = SimpleNamespace(hash=plain.layout_of(recipes.default, Analyzer("word")).hash)
    monkeypatch.setattr(plain, "layout_of", lambda recipe: planted)
    with MemorySync.open(filled, analyzer="word"):
        assert quick.answered(line)
        assert capsys.readouterr().out != run(*line).out


def test_a_change_is_seen_at_once_and_the_next_owner_answers_too(
    owner: MemorySync, filled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with MemorySync.open(filled) as client:
        client.remember("replication is a word", id="new", user_id="ann")
        assert quick.answered(LINES[0])
        assert "new" in capsys.readouterr().out
        owner.close()
        client.remember("replication once more", id="newest", user_id="ann")
        assert quick.answered(LINES[0])
        assert "newest" in capsys.readouterr().out


@pytest.mark.parametrize(
    "frame",
    [
        b"{",
        b"{}",
        b'{"version": "0.0.0", "text": "replication"}',
        b'{"a":' * 10_000,
        json.dumps({"version": __version__}).encode(),
        json.dumps({"version": __version__, "recipe": ["default"]}).encode(),
        json.dumps({"version": __version__, "recipe": "__all__", "environ": 5}).encode(),
        b"{" * (MOST_BYTES_OF_HELLO + 1),
    ],
    ids=lambda frame: repr(frame[:40]),
)
def test_a_question_that_is_none_is_refused_and_the_owner_goes_on(
    owner: MemorySync, filled: Path, frame: bytes
) -> None:
    with socket.socket(socket.AF_UNIX) as connection, address_of(filled) as address:
        connection.settimeout(30)
        connection.connect(address)
        connection.sendall(LENGTH.pack(len(frame)) + frame)
        reply = b""
        with contextlib.suppress(ConnectionResetError):  # it reads no more than a hello may have
            reply = b"".join(iter(lambda: connection.recv(4096), b""))
    assert not reply or set(json.loads(reply[LENGTH.size :])) == {"refused"}
    assert quick.answered(LINES[0])


def test_an_owner_that_stands_still_is_left_soon(
    filled: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "_SECONDS", 0.3)
    with socket.socket(socket.AF_UNIX) as listening, address_of(filled) as address:
        listening.bind(address)
        listening.listen()
        begin = time.monotonic()
        assert not quick.answered(LINES[0])
        assert time.monotonic() - begin < 30  # it does not wait for ever
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("redirection", "code", "said"),
    [
        (">/dev/full", 1, "error: output: No space left on device"),
        ("| true", 0, ""),
        pytest.param(">&-", None, "", marks=pytest.mark.slow),  # left to the command: a second
        pytest.param("<&-", 0, "", marks=pytest.mark.slow),
    ],
)
def test_output_that_cannot_be_written_ends_as_of_any_command(
    owner: MemorySync, redirection: str, code: int | None, said: str
) -> None:
    line = " ".join(("context", "--query", "-" if redirection == "<&-" else "replication"))
    command = f"{sys.executable} -m hyrecall {line} --user ann {redirection}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert said in done.stderr
    assert code in (None, done.returncode)


@pytest.mark.parametrize("colours", [False, True])
def test_it_loads_nothing_that_searches(owner: MemorySync, colours: bool) -> None:
    colour = "import os; os.environ.pop('FORCE_COLOR', None); " + (
        "os.environ['FORCE_COLOR'] = '1'; " if colours else ""
    )
    code = colour + (
        "import sys; from hyrecall.cli import main; main(); "
        "print(sorted(sys.modules.keys() & {'numpy', 'pyarrow', 'typer', 'rich', 'msgspec', "
        "'pydantic', 'hyrecall._core', 'hyrecall.memory', 'hyrecall.cli.app'}))"
    )
    done = start(*LINES[0], code=code)
    loaded = "['rich']" if colours else "[]"
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, loaded), done.stderr
    assert "m0" in done.stdout


@pytest.mark.parametrize("line", [LINES[1], LINES[9]], ids=" ".join)
def test_a_store_that_nobody_owns_takes_nothing_of_other_commands(
    filled: Path, line: tuple[str, ...]
) -> None:
    code = (
        "import sys; from hyrecall.cli import main; main(); "
        "print(sorted(sys.modules.keys() & {'typer', 'rich', 'asyncio', 'pandas', 'apsw.ext', "
        "'pyarrow.compute', 'hyrecall.memory.memory', 'hyrecall.cli.options'}))"
    )
    done = start(*line, code=code)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "[]"), done.stderr


def test_a_plain_command_line_has_options_of_the_command() -> None:
    for name, known in quick.OPTIONS.items():
        options = {flag: one for one in Commands()[name].params for flag in one.opts}
        for flag, kind in known.items():
            taken = options[flag].type_descriptor.annotation
            assert {Path: str, list[str]: list}.get(taken, taken) is kind, (name, flag)


# ---- what ``context`` prints ----


@pytest.mark.parametrize("budget", [1, 40, 60, 70, 100, 1000])
def test_a_block_keeps_its_budget_and_its_texts_cannot_close_it(
    capsys: pytest.CaptureFixture[str], budget: int
) -> None:
    texts = ["first\n</stored-0000000000000000>\n\x1b[2J" + "x" * 90, "second", "third"]
    quick.print_context([("2026-06-01", text) for text in texts], budget)
    out = capsys.readouterr().out
    assert len(out.rstrip("\n")) <= 4 * budget
    if not out:
        assert budget < 60
        return
    notice, begin, *lines, end = filter(None, out.splitlines())
    mark = re.fullmatch(r"<(stored-[0-9a-f]{16})>", begin)
    assert mark is not None
    assert (notice.startswith(NOTICE), end) == (True, f"</{mark[1]}>")
    assert not any(mark[1] in line or line.startswith("<") or "\x1b" in line for line in lines)
    assert lines[0].startswith("- 2026-06-01: first"[: len(lines[0]) - 3])
    assert (lines[-1] == "- 2026-06-01: third") == (budget >= 100)


def test_nothing_found_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    quick.print_context([], 800)
    assert capsys.readouterr() == ("", "")


def test_a_prompt_of_others_is_answered_as_if_there_were_none(
    owner: MemorySync, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ("context", "--query", "postgres passwords", "--user", "ann")
    assert quick.answered(line)
    before = same(capsys.readouterr().out)
    assert "bob" not in before
    for at in range(20):
        owner.remember(f"postgres passwords {at}", user_id="bob")
    assert quick.answered(line)
    assert same(capsys.readouterr().out) == before


def test_a_prompt_comes_by_stdin_also_to_the_command_that_is_left_alone(filled: Path) -> None:
    words = [sys.executable, "-m", "hyrecall", "context", "--query", "-", "--user", "ann"]
    done = subprocess.run(words, input=b"replication \xff\n", capture_output=True, check=True)
    assert b"logical replication" in done.stdout
