"""The page of the five systems: a section for each recipe, whose examples name it and run."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from hyrecall import recipes

PAGE = (Path(__file__).parents[2] / "docs" / "systems.md").read_text(encoding="utf-8")
OURS = {"conversation", "default", "hypergraph_regex"}  # no system's own
SECTIONS = dict(re.findall(r"^## [^\n]*`recipes\.(\w+)`\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S))
WITH_COMMANDS = [name for name, text in SECTIONS.items() if "```console" in text]


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_every_system_has_a_section() -> None:
    assert set(SECTIONS) == set(recipes.__all__) - OURS
    assert set(WITH_COMMANDS) >= {"hypergraph", "l0", "honeycomb", "hebb"}
    for text in SECTIONS.values():
        assert "**The same**" in text
        assert "**Different**" in text


@pytest.mark.parametrize("name", SECTIONS)
def test_the_examples_of_a_section_name_its_recipe(name: str) -> None:
    (first, *_) = blocks(SECTIONS[name], "python")
    assert f"recipe=recipes.{name}" in first
    for block in blocks(SECTIONS[name], "console"):
        assert block.startswith(f"hyrecall config set recipe {name}\n")


@pytest.mark.plain_cases(1)
@pytest.mark.parametrize("name", WITH_COMMANDS)
def test_the_commands_of_a_section_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package, extra in (("typer", "cli"), ("rich", "cli"), ("apsw", "memory")):
        pytest.importorskip(package, reason=f"the extra [{extra}] is not installed")
    from typer.testing import CliRunner

    from seams import app_app as app

    monkeypatch.setenv("HYRECALL_PATH", str(tmp_path / "agent.mem"))
    monkeypatch.setenv("HYRECALL_CONFIG", str(tmp_path / "config.json"))
    (commands,) = blocks(SECTIONS[name], "console")
    replies: list[tuple[list[str], Any]] = []
    for line in commands.splitlines():
        words = shlex.split(line)
        assert words[0] == "hyrecall"
        reply = CliRunner().invoke(app, words[1:])
        assert reply.exit_code == 0, (line, reply.stderr)
        replies.append((words, reply))
    recalls = [reply for words, reply in replies if words[1] == "recall"]
    assert recalls
    for reply in recalls:  # each finds something
        assert reply.stdout.strip()
        assert '"matches": []' not in reply.stdout
    browsed = [reply.stdout for words, reply in replies if words[1] == "browse"]
    assert all(text.strip() for text in browsed)
