"""Run the commands that a page shows."""

import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest


def run_commands(
    block: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> list[tuple[list[str], Any]]:
    """Run every line of a block beside a small corpus; return the words and result of each."""
    for package, extra in (("typer", "cli"), ("rich", "cli"), ("apsw", "memory")):
        pytest.importorskip(package, reason=f"the extra [{extra}] is not installed")
    from typer.testing import CliRunner

    from seams import app_app as app

    monkeypatch.chdir(folder)
    monkeypatch.setenv("HYRECALL_PATH", "agent.mem")
    monkeypatch.setenv("HYRECALL_CONFIG", "config.json")
    _write_corpus_and_queries(folder)
    ran = []
    for line in block.splitlines():
        words = shlex.split(line)
        assert words[0] == "hyrecall"
        result = CliRunner().invoke(app, words[1:])
        assert result.exit_code == 0, (line, result.stderr)
        ran.append((words, result))
    return ran


def _write_corpus_and_queries(folder: Path) -> None:
    rng = np.random.default_rng(5)
    vectors = pa.FixedSizeListArray.from_arrays(rng.standard_normal(40, dtype=np.float32), 4)
    corpus = {
        "id": range(10),
        "tenant": ["acme", "bolt"] * 5,
        "title": ["Postgres"] * 10,
        "text": ["replication lag", "failover of the primary"] * 5,
        "created_at": pa.array(range(10), pa.timestamp("s")),
        "kind": ["note", "note", "task", "task", "note"] * 2,
        "embedding": vectors,
    }
    pq.write_table(pa.table(corpus), folder / "corpus.parquet")
    queries = {"id": ["a", "b"], "tenant": ["acme", "bolt"], "question": ["lag", "primary"]}
    pq.write_table(
        pa.table({**queries, "embedding": vectors.slice(3, 2)}), folder / "queries.parquet"
    )
