"""``hyrecall index`` of a folder of documents, ``sync`` and ``recall``."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

import hyrecall as hr
from hyrecall.embed import MiniLMEmbedder

Run = Callable[..., SimpleNamespace]


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    filler = "Nothing of it here. " * 30
    (folder / "disks.md").write_text(f"# Disks\n\n## Replace\n\n{filler}Stop the replica first.\n")
    (folder / "tea.txt").write_text("Hot tea, not boiling.")
    (folder / ".hidden.md").write_text("hidden")
    return folder


def test_a_folder_is_indexed_found_and_followed(run: Run, docs: Path, tmp_path: Path) -> None:
    index = tmp_path / "an index"
    made = run("index", docs, "-o", index)
    assert made.code == 0, made.err
    assert "docs: 2 files, 2 chunks" in made.err
    assert "skipped .hidden.md: hidden" in made.err
    assert made.err.splitlines()[-1] == f"next: hyrecall recall '{index}' \"words\""
    found = run("recall", index, "replica")
    lines = [line.strip() for line in found.out.splitlines()]
    at = next(at for at, line in enumerate(lines) if "disks.md#0" in line)
    assert lines[at + 1] == "Disks > Replace"
    assert "Stop the replica first." in " ".join(lines[at + 2 :])
    (docs / "tea.txt").unlink()
    (docs / "new.md").write_text("Cold milk")
    done = run("sync", docs, index)
    assert done.out == "1 new, 0 changed, 1 removed, 1 unchanged files; 2 chunks\n"
    assert "new.md#0" in run("recall", index, "milk").out
    before = {path.name: path.stat().st_mtime_ns for path in index.iterdir()}
    done = run("sync", docs, index)
    assert done.out == "0 new, 0 changed, 0 removed, 2 unchanged files; 2 chunks\n"
    assert {path.name: path.stat().st_mtime_ns for path in index.iterdir()} == before


def test_the_settings_of_an_index_are_those_of_its_folder(
    run: Run, docs: Path, tmp_path: Path
) -> None:
    pytest.importorskip("wordllama", reason="the extra [local] is not installed")
    index = tmp_path / "index"
    made = run(
        "index", docs, "-o", index, "--pattern", "*.txt", "--pattern", "*.rst", "--chunk-tokens", 2,
        "--overlap", 0, "--embed", "text", "--analyzer", "unicode:english", "--bm25", "okapi",
    )  # fmt: skip
    assert made.code == 0, made.err
    (docs / "more.rst").write_text("Teas")
    done = run("sync", docs, index)
    assert done.out == "1 new, 0 changed, 0 removed, 1 unchanged files; 3 chunks, 1 embedded\n"
    assert "files              *.txt, *.rst; 2 words a chunk, overlap 0" in run("info", index).out
    with hr.Index.open(index) as opened:
        assert opened.stats()["embedded_by"] == {"static": "wordllama/l2_supercat_256"}
        assert opened.recall_one(text="tea", vector={}).keys == ["more.rst#0", "tea.txt#0"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--text", "t"], "error: --text: expected no such option for a folder, got 't'"),
        (["--no-cell"], "error: --no-cell: expected no such option for a folder, got True"),
        (["--memory", "2GB"], "error: --memory: expected no such option for a folder, got '2GB'"),
        (["--embed", "title"], "error: --embed: expected a column of path, heading, text"),
        (["--bm25", "x=okapi"], "error: --bm25: expected a text arm of ['text'], got 'x'"),
        (["--pattern", "/x"], "error: patterns: expected paths with * and **, relative to the"),
        (["--overlap", "256"], "error: overlap: expected an int in [0, 256) (chunk_tokens)"),
        (["--pattern", "*.none"], "error: chunks: expected a folder with a file that fits *.none"),
    ],
)
def test_what_does_not_fit_a_folder_is_refused_by_name(
    run: Run, docs: Path, tmp_path: Path, options: list[str], told: str
) -> None:
    done = run("index", docs, "-o", tmp_path / "index", *options)
    assert done.code == 1
    assert told in done.err
    assert not (tmp_path / "index").exists()


def test_what_does_not_fit_files_or_is_no_index_of_a_folder_is_refused(
    run: Run, docs: Path, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": "a", "t": "tea"}\n')
    table = ("index", tmp_path / "a.jsonl", "-o", tmp_path / "index", "--no-cell", "--text", "t")
    assert "--key COLUMN" in run(*table).err
    assert run(*table).code == 2
    done = run(*table, "--key", "id", "--overlap", 3)
    assert done.err == "error: --overlap: expected no such option for files, got 3\n"
    done = run("sync", docs, folder)
    assert (done.code, done.err[:44]) == (1, "error: index: expected an index of a folder ")
    done = run("sync", tmp_path / "none", folder)
    assert done.code == 1


def test_an_interrupted_sync_leaves_the_index_as_it_was(
    run: Run, docs: Path, tmp_path: Path
) -> None:
    index = tmp_path / "index"
    assert run("index", docs, "-o", index).code == 0
    before = (index / "MANIFEST").read_bytes()
    (docs / "new.md").write_text("Cold milk")
    waits = (
        "import signal, sys, time; from hyrecall.cli import main; "
        "from hyrecall.segments import saving; "
        "signal.signal(signal.SIGINT, signal.default_int_handler); "  # a shell's jobs ignore it
        "saving.disk.commit = lambda *_: (print('now', flush=True), time.sleep(60)); "
        "sys.argv = ['hyrecall', 'sync', *sys.argv[1:]]; main()"
    )
    path = os.pathsep.join([str(Path(hr.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    with subprocess.Popen(
        [sys.executable, "-c", waits, str(docs), str(index)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path},
    ) as started:  # fmt: skip
        assert started.stdout is not None
        assert started.stdout.readline() == b"now\n"
        time.sleep(0.1)
        started.send_signal(signal.SIGINT)
        assert started.wait(60) == 130
    assert (index / "MANIFEST").read_bytes() == before
    assert run("recall", index, "milk").err.endswith("note: no hits\n")
    assert run("sync", docs, index).out.startswith("1 new, ")


def test_a_folder_without_files_is_refused_and_the_index_stays(
    run: Run, docs: Path, tmp_path: Path
) -> None:
    index = tmp_path / "index"
    assert run("index", docs, "-o", index).code == 0
    for path in docs.iterdir():
        path.unlink()
    done = run("sync", docs, index)
    assert (done.code, done.err[:35]) == (1, "error: folder: expected a file that")
    assert "disks.md#0" in run("recall", index, "replica").out


def test_a_model_without_columns_to_embed_is_refused(run: Run, docs: Path, tmp_path: Path) -> None:
    refused = run("index", docs, "-o", tmp_path / "index", "--embedder", "minilm")
    assert refused.code == 1
    assert "--embedder: expected --embed with it" in refused.err


@pytest.mark.skipif(not MiniLMEmbedder.available(), reason="the extra [minilm] is not installed")
def test_a_folder_is_embedded_and_asked_by_the_named_model(
    run: Run, docs: Path, tmp_path: Path
) -> None:
    index = tmp_path / "index"
    made = run("index", docs, "-o", index, "--embed", "text", "--embedder", "minilm")
    assert "embedded with {'minilm': 'all-MiniLM-L6-v2-int8'}" in made.err
    found = run("recall", index, "a beverage that is warm", "--json")
    assert "all-MiniLM-L6-v2-int8 embeds the query" in found.err
    assert found.data["hits"][0]["key"] == "tea.txt#0"
