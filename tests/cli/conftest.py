"""A corpus of two tenants, its index on disk, and the command in this process or another."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr

WORDS = [
    "amber",
    "basin",
    "cedar",
    "delta",
    "ember",
    "fjord",
    "grove",
    "haven",
    "inlet",
    "jetty",
    "kelp",
    "ledge",
]
DIM = 8


def documents(n_rows: int, seed: int = 7) -> pa.Table:
    """Return rows with texts of few words, so that ties and shared words are common."""
    rng = np.random.default_rng(seed)
    picks = rng.integers(0, len(WORDS), (n_rows, 6))
    vectors = rng.standard_normal((n_rows, DIM), dtype=np.float32)
    return pa.table(
        {
            "id": [f"d{row}" for row in range(n_rows)],
            "tenant": [("acme", "bolt", "corp")[row % 3] for row in range(n_rows)],
            "title": [WORDS[row[0]] for row in picks],
            "text": [" ".join(WORDS[word] for word in row) for row in picks],
            "stars": pa.array(rng.integers(1, 6, n_rows)),
            "embedding": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), DIM),
        }
    )


SCHEMA = hr.Schema(
    key="id",
    cell="tenant",
    text={"body": hr.Text("title", "text")},
    vector="embedding",
    attributes="stars",
)


@pytest.fixture(scope="session")
def table() -> pa.Table:
    """The corpus."""
    return documents(300)


@pytest.fixture(scope="session")
def folder(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The corpus's index, saved. Tests only read it."""
    path = tmp_path_factory.mktemp("index") / "saved"
    hr.Index.build(table, SCHEMA).save(path)
    return path


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., SimpleNamespace]:
    """Run the command in this process; give code, out, err and, where it is JSON, data."""
    return runner(monkeypatch)


def runner(monkeypatch: pytest.MonkeyPatch) -> Callable[..., SimpleNamespace]:
    """Return what runs the command in this process."""
    pytest.importorskip("typer", reason="the extra [cli] is not installed")
    pytest.importorskip("rich", reason="the extra [cli] is not installed")
    from typer.testing import CliRunner

    from seams import app_app as app

    monkeypatch.setenv("COLUMNS", "160")

    def call(*arguments: object) -> SimpleNamespace:
        result = CliRunner().invoke(app, [str(one) for one in arguments])
        is_json = result.stdout.startswith(("{\n", "{}"))  # JSON lines begin with more
        data = json.loads(result.stdout) if is_json else None
        return SimpleNamespace(
            code=result.exit_code, out=result.stdout, err=result.stderr, data=data
        )

    return call


def start(*arguments: object, code: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command (or some Python) in a process of its own."""
    what = ["-c", code] if code is not None else ["-m", "hyrecall.cli"]
    path = os.pathsep.join([str(Path(hr.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, *what, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )


@pytest.fixture
def process() -> Callable[..., subprocess.CompletedProcess[str]]:
    """The command in a process of its own."""
    pytest.importorskip("typer", reason="the extra [cli] is not installed")
    pytest.importorskip("rich", reason="the extra [cli] is not installed")
    return start


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store's folder that commands find by the environment; no settings, no embedder."""
    path = tmp_path / "agent.mem"
    monkeypatch.setenv("HYRECALL_PATH", str(path))
    monkeypatch.setenv("HYRECALL_CONFIG", str(tmp_path / "config.json"))
    monkeypatch.setenv("HYRECALL_EMBED_DISABLE", "1")
    return path


@pytest.fixture
def filled(store: Path) -> Path:
    """Fill it with four memories of two users."""
    pytest.importorskip("apsw", reason="the extra [memory] is not installed")
    from hyrecall.memory import MemorySync

    with MemorySync.open(store, embedder=None) as memory:
        for at, (user, text, kind, tag) in enumerate(
            [
                ("ann", "Postgres replication is asynchronous", "episodic", "db"),
                ("ann", "lunch was great", "note", "food"),
                ("ann", "logical replication on the primary", "episodic", "db"),
                ("bob", "bob keeps postgres passwords", "episodic", "db"),
            ]
        ):
            memory.remember(
                text, id=f"m{at}", user_id=user, kind=kind, tags=(tag,), session_id=f"s{at}",
                occurred_at=f"2026-06-0{at + 1}T12:00:00Z",
            )  # fmt: skip
    return store
