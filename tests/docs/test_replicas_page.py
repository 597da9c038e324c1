"""The commands of docs/replicas.md run as printed."""

import json
import re
from pathlib import Path

import pytest

from docs.commands import run_commands

PAGE = (Path(__file__).parents[2] / "docs" / "replicas.md").read_text(encoding="utf-8")
(COMMANDS,) = re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYRECALL_EMBED_DISABLE", "1")
    ran = run_commands(COMMANDS, tmp_path, monkeypatch)
    replies = {" ".join(words[1:3]): reply.stdout for words, reply in ran}
    assert "Deploys run on Friday" in replies["recall deploys"]
    assert "generation 1" in replies["pull remote"]
    assert "replica" in replies["doctor --path"]
    assert "1 generation kept" in replies["push remote"]
    assert "generation 1 of file://" in " ".join(replies["info copy.index"].split())


def test_the_objects_are_those_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_commands(COMMANDS, tmp_path, monkeypatch)
    table = PAGE.split("## The objects of a place\n")[1]
    remote = tmp_path / "remote"
    (generation,) = (remote / "generations").iterdir()
    told = json.loads(generation.read_text())
    head = json.loads((remote / "HEAD").read_text().splitlines()[0])
    fields = {*told, *told["files"][0], *head} - {"format"}
    assert {name for name in fields if f"`{name}`" not in table} == set()
    number, _, digest = generation.name.partition("-")
    assert (int(number), digest) == (head["number"], head["manifest"])
