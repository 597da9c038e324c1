"""``~`` is the home folder in every path, and commands work for a user who has none."""

from __future__ import annotations

import errno
import os
import pwd
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, NoReturn

import pyarrow as pa
import pytest

pytest.importorskip("apsw", reason="the extra [memory] is not installed")

import typer
from typer.testing import CliRunner

import hyrecall as hr
from hyrecall.errors import OptionError
from hyrecall.memory import MemorySync
from seams import Command, Commands, _note, resolve_target
from seams import app_app as app


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HYRECALL_EMBED_DISABLE", "1")
    for name in ("HYRECALL_CONFIG", "HYRECALL_PATH", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "work")
    _note.cache_clear()
    return tmp_path / "home"


@pytest.fixture
def no_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user id without a row in passwd, as containers have, and no HOME."""

    def none(_: int) -> NoReturn:
        raise KeyError

    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", none)
    return home


def run(*command: str) -> SimpleNamespace:
    done = CliRunner().invoke(app, list(command))
    return SimpleNamespace(code=done.exit_code, out=done.stdout, err=done.stderr)


def every(commands: Any) -> Iterator[Any]:
    for command in commands.values():
        inner = getattr(command, "commands", None)
        yield from (command,) if inner is None else every(inner)


def test_a_tilde_is_the_home_folder_in_every_path_of_every_command(home: Path) -> None:
    found = list(every(Commands()))
    assert len(found) > 40
    assert {isinstance(one, Command) for one in found} == {True}
    given: list[Any] = []
    plain = typer.Typer()

    @plain.command(cls=Command)
    def show(
        one: Path,
        text: str,
        several: Annotated[list[Path] | None, typer.Option("--several")] = None,
        other: Annotated[Path | None, typer.Option("--other")] = None,
    ) -> None:
        given.extend([one, text, several, other])

    done = CliRunner().invoke(plain, ["~/a", "~/b", "--several=~/c", "--several", "d", "--other=~"])
    assert done.exit_code == 0, done.output
    assert given == [home / "a", "~/b", [home / "c", Path("d")], home]


def test_a_tilde_is_the_home_folder_for_stores_and_indexes(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("remember", "tea", "--id", "a", "--path=~/agent.mem").code == 0
    monkeypatch.setenv("HYRECALL_PATH", "~/agent.mem")
    assert "tea" in run("recall", "tea").out
    assert run("export", "--output", "~/out.jsonl").code == 0
    assert run("import", "--path=~/again.mem", "~/out.jsonl").code == 0
    table = pa.table({"id": ["a"], "text": ["tea"]})
    index = hr.Index.build(table, hr.Schema(key="id", cell=None, text="text"))
    index.save("~/index")
    assert "tea" in run("recall", "~/index", "tea").out
    assert hr.Index.open("~/index").recall(text=["tea"])[0][0].key == "a"
    with MemorySync.open("~/again.mem", embedder=None) as memory:
        assert [one.id for one in memory.list()] == ["a"]
    assert sorted(one.name for one in home.iterdir() if one.name[0] != ".") == [
        "again.mem", "agent.mem", "index", "out.jsonl",
    ]  # fmt: skip
    assert list(Path.cwd().iterdir()) == []


def test_commands_work_for_a_user_without_a_home_folder(no_home: Path) -> None:
    assert run("remember", "tea", "--path", "m").code == 0
    assert "tea" in run("recall", "tea", "--path", "m").out
    assert run("config", "list").code == 0
    assert run("info", "--report").code == 0
    for command, told in (
        (["remember", "tea"], "--path: expected a folder, since this user has no home folder"),
        (["remember", "tea", "--path", "~/m"], "--path: expected a path, since this user has no"),
        (["config", "set", "recipe", "loom"], "HYRECALL_CONFIG: expected a path, since this user"),
    ):
        done = run(*command)
        assert (done.code, done.err.startswith(f"error: {told}")) == (1, True), done.err
    with pytest.raises(OptionError, match="path: expected a path, since this user has no home"):
        hr.Index.open("~/index")
    assert not Path("~").exists()


def test_settings_that_cannot_be_read_are_noted_unless_they_were_named(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / ".config").write_text("a file")
    done = run("remember", "tea", "--path", "m")
    assert (done.code, done.err.count("Not a directory: no settings are used")) == (0, 1)
    monkeypatch.setenv("HYRECALL_CONFIG", str(home / ".config" / "named.json"))
    done = run("remember", "tea", "--path", "m")
    assert (done.code, "Not a directory" in done.err) == (1, True)


@pytest.mark.parametrize("fault", [RuntimeError("loop"), OSError(errno.ELOOP, "loop")])
def test_a_loop_of_links_is_refused_whatever_this_python_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    """Since Python 3.13 only a strict ``resolve`` tells of one."""

    def resolve(self: Path, strict: bool = False) -> Path:
        if strict and self.name == "loop":
            raise fault
        return Path(os.path.abspath(self))

    (tmp_path / "loop").symlink_to("loop")
    with monkeypatch.context() as patched:
        patched.setattr(Path, "resolve", resolve)
        with pytest.raises(OptionError, match="expected a file, got a loop of links"):
            resolve_target("output", tmp_path / "loop")
        assert resolve_target("output", tmp_path / "new") == tmp_path / "new"
    with pytest.raises(OptionError, match="expected a file, got a loop of links"):
        resolve_target("output", tmp_path / "loop")


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("index c.csv -o loop.csv --key id --text text --no-cell", "path: expected a folder"),
        ("index loop.csv -o i --key id --text text --no-cell", "loop.csv"),
        ("batch tea c.csv -o loop.csv --query-text text", "--output: expected a file, got a loop"),
        ("batch tea loop.csv -o new.csv --query-text text", "loop.csv"),
        (
            "batch tea c.csv -o new.csv --query-text text --on-error skip --rejects loop.csv",
            "--rejects: expected a file, got a loop",
        ),
    ],
)
def test_commands_refuse_a_loop_of_links(home: Path, command: str, told: str) -> None:
    Path("loop.csv").symlink_to("loop.csv")
    Path("c.csv").write_text("id,text\n1,tea\n")
    hr.Index.build(
        pa.table({"id": ["1"], "text": ["tea"]}), hr.Schema(key="id", cell=None, text="text")
    ).save("tea")
    done = run(*command.split())
    assert (done.code, done.err.splitlines()[-1].startswith(f"error: {told}")) == (1, True), done
    assert sorted(one.name for one in Path.cwd().iterdir()) == ["c.csv", "loop.csv", "tea"]
