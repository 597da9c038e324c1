"""docs/ranking-conversations.md: its plot is drawn from its table, its commands run as printed."""

import json
import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "ranking-conversations.md").read_text(encoding="utf-8")
EVALUATION = (ROOT / "docs" / "evaluation.md").read_text(encoding="utf-8")


def test_the_plot_is_that_of_the_table() -> None:
    conversations = pytest.importorskip("bench.conversations")
    assert conversations.OUT.read_text(encoding="utf-8") == conversations.draw(PAGE)


def test_the_table_is_that_of_the_page_of_evaluation() -> None:
    conversations = pytest.importorskip("bench.conversations")
    own = [list(row.values()) for row in conversations.table(PAGE).values()]
    lines = EVALUATION.partition("## Conversations")[2].splitlines()
    rows = [line for line in lines if re.match(r"\| (`recipes|without)", line)]
    theirs = [[float(cell.split()[0]) for cell in row.split("|")[2:-1]] for row in rows]
    assert sorted(own) == sorted(theirs)


def test_the_commands_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("typer", "rich"):
        pytest.importorskip(package, reason="the extra [cli] is not installed")
    from typer.testing import CliRunner

    from seams import app_app as app

    monkeypatch.chdir(tmp_path)
    turns = re.findall(r'\("(\w\d)", "(\w+)", (\d), "(.*)"\)', PAGE)
    assert len(turns) == 5
    lines = [
        json.dumps({"id": key, "session": session, "turn": int(turn), "text": text})
        for key, session, turn, text in turns
    ]
    Path("chat.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (block,) = re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    shown = []
    for line in block.splitlines():
        result = CliRunner().invoke(app, shlex.split(line)[1:])
        assert result.exit_code == 0, (line, result.stderr)
        shown.append(result.stdout)
    assert "7:40" not in shown[1]
    assert "7:40" in shown[2]
