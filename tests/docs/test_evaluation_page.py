"""The commands of docs/evaluation.md run as printed, on one tenant of the golden set."""

import json
import re
import shlex
from pathlib import Path

import pytest

from hyrecall.embed import StaticEmbedder

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "evaluation.md").read_text(encoding="utf-8")
GOLDEN = ROOT / "tests" / "evaluate" / "golden"


def write_small_set(folder: Path) -> None:
    """Write the part of the golden set that one tenant has."""
    folder.mkdir()
    kept: set[str] = set()
    for name in ("corpus.jsonl", "queries.jsonl"):
        lines = (GOLDEN / name).read_text(encoding="utf-8").splitlines(keepends=True)
        lines = [line for line in lines if json.loads(line)["tenant"] == "spokes"]
        (folder / name).write_text("".join(lines), encoding="utf-8")
        kept |= {json.loads(line)["id"] for line in lines}
    head, *lines = (GOLDEN / "qrels.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    lines = [line for line in lines if kept >= set(line.split("\t")[:2])]
    (folder / "qrels.tsv").write_text(head + "".join(lines), encoding="utf-8")


@pytest.mark.slow
def test_the_commands_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package, extra in (("typer", "cli"), ("rich", "cli"), ("ir_measures", "evaluate")):
        pytest.importorskip(package, reason=f"the extra [{extra}] is not installed")
    if not StaticEmbedder.available():
        pytest.skip("the extra [local] is not installed")
    from typer.testing import CliRunner

    from seams import app_app as app

    write_small_set(tmp_path / "DATA")
    monkeypatch.chdir(tmp_path)
    first, *_ = re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    commands = [shlex.split(line, comments=True) for line in first.splitlines()]
    assert len(commands) >= 6
    for command in commands:
        assert command[0] == "hyrecall"
        result = CliRunner().invoke(app, command[1:])
        assert result.exit_code == 0, (command, result.stderr)
        assert result.stdout
