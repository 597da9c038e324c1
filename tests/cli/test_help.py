"""Help has one form: what is required, what defaults are, and no line wider than the screen."""

import re
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("typer", reason="the extra [cli] is not installed")
pytest.importorskip("rich", reason="the extra [cli] is not installed")

import typer

from seams import app_app as app

Run = Callable[..., SimpleNamespace]


def commands(group: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, group
    for name, one in getattr(group, "commands", {}).items():
        yield from commands(one, *path, name)


COMMANDS = dict(commands(typer.main.get_command(app)))


def words(reply: SimpleNamespace) -> str:
    return " ".join(reply.out.split())


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_no_line_of_help_is_wider_than_the_screen(
    run: Run, monkeypatch: pytest.MonkeyPatch, path: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", "60")  # 80 and 120 have the screens
    reply = run(*path, "--help")
    assert reply.code == 0
    widths = [len(line) for line in reply.out.splitlines()]
    assert max(widths) <= 60
    assert reply.out.startswith("Usage: ")


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_of_a_parameter_is_a_sentence_with_its_default(
    run: Run, path: tuple[str, ...]
) -> None:
    shown = words(run(*path, "--help"))
    for one in COMMANDS[path].params:
        assert re.match(r"[A-Z].*[.\])]$", one.help), f"{one.name}: a sentence"
        assert not re.search(r"[Dd]efault:|\(default\)", one.help), "it stands in show_default"
        has_value = one.param_type_name == "option" and not one.is_flag
        assert one.metavar or not has_value, "a name of its value"
        told = " ".join(one.help.split())
        if one.required:
            assert f"{told} [required]" in shown
        elif isinstance(one.show_default, str):
            assert f"{told} [default: {one.show_default}]" in shown
        elif one.default is not None and one.default is not False:
            assert f"{told} [default: {one.default}]" in shown
        else:
            assert told in shown
        if one.param_type_name == "argument":
            assert re.search(r"\[(required|optional|default: )", shown)


def test_arguments_that_may_be_left_out_are_in_brackets(run: Run) -> None:
    def usage(*path: str) -> str:
        return run(*path, "--help").out.splitlines()[0]

    assert usage("recall") == "Usage: hyrecall recall [OPTIONS] [DIR] [TEXT]"
    assert usage("forget") == "Usage: hyrecall forget [OPTIONS] [ID...]"
    assert usage("remember") == "Usage: hyrecall remember [OPTIONS] TEXT"
    assert usage("browse") == "Usage: hyrecall browse [OPTIONS] COMMAND ..."
    refused = run("forget", "--no-such-option")
    assert refused.code == 2
    assert refused.err.startswith("Usage: hyrecall forget [OPTIONS] [ID...]\n")
    neither = run("recall")
    assert (neither.code, "expected DIR, TEXT or both" in neither.err) == (2, True)


def test_recall_tells_which_options_are_for_an_index_and_which_for_a_store(run: Run) -> None:
    _, both, store, index = re.split(r"Options[a-z ]*:\n", run("recall", "--help").out)
    assert "--limit" in both
    assert "--explain" in both
    assert "--user" in store
    assert "--scope" in index
