"""The pages "coming from ...": both programs run, and the commands move what the first one kept.

Without the package of a system, its first program and the commands after it are skipped by name.
"""

import json
import re
from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("apsw", reason="the extra [memory] is not installed")

from cli.conftest import runner
from docs.test_docs_code import python_blocks, run_block
from hyrecall.adapters.documents import DocumentIndex
from hyrecall.memory import MemorySync
from hyrecall.migrate import SYSTEMS

FOLDER = Path(__file__).parents[2] / "docs" / "coming-from"
PACKAGES = {
    "chroma": ("chromadb",),
    "lancedb": ("lancedb",),
    "qdrant": ("qdrant_client",),
    "mem0": ("mem0", "qdrant_client"),
    "langchain": ("langchain_core",),
}
PARTS = ["Before", "After", "Concepts", "Different on purpose", "Bring your data"]


def needs(packages: Sequence[str]) -> None:
    """Skip without importing: some packages read their settings when they are imported."""
    for package in packages:
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, settings of nobody, and models that need no network."""
    monkeypatch.chdir(tmp_path)
    settings = {
        "HYRECALL_CONFIG": str(tmp_path / "config.json"),
        "HYRECALL_EMBED_DISABLE": "1",
        "MEM0_TELEMETRY": "False",
        "MEM0_DIR": str(tmp_path / "mem0"),
        "OPENAI_API_KEY": "none",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    return tmp_path


def without_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let mem0's default embedder count letters: a key and a network are needed otherwise."""
    from mem0.embeddings.openai import OpenAIEmbedding

    def embed(_: object, text: str, *__: object) -> list[float]:
        return [float(text.count(chr(97 + at % 26)) + 1) for at in range(1536)]

    monkeypatch.setattr(OpenAIEmbedding, "embed", embed)
    monkeypatch.setattr(
        OpenAIEmbedding, "embed_batch", lambda self, texts, *_: [embed(self, one) for one in texts]
    )


def end_clients_of_chroma() -> None:
    """Let another client open the folder, as one of another process may."""
    from chromadb.api.shared_system_client import SharedSystemClient

    SharedSystemClient.clear_system_cache()


def commands(page: Path) -> list[list[str]]:
    (block,) = re.findall(r"^```console\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S)
    return [line.split()[1:] for line in block.splitlines()]


def test_every_system_has_a_page_with_the_same_parts() -> None:
    assert {page.stem for page in FOLDER.glob("*.md")} == set(SYSTEMS) == set(PACKAGES)
    for page in FOLDER.glob("*.md"):
        assert re.findall(r"^## (.*)$", page.read_text("utf-8"), re.MULTILINE) == PARTS
        assert len(python_blocks(page.read_text("utf-8"))) == 2


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_program_with_hyrecall_runs(here: Path, system: str) -> None:
    if system == "langchain":
        needs((*PACKAGES[system], "hyrecall.adapters.langchain"))
    run_block(FOLDER / f"{system}.md", 1)


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_program_before_runs_and_the_commands_move_what_it_kept(
    here: Path, system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs(PACKAGES[system])
    if system == "mem0":
        if version("mem0ai").startswith("1."):
            pytest.skip("the page shows the calls of mem0 2")
        without_a_model(monkeypatch)
    run_block(FOLDER / f"{system}.md", 0)
    if system == "chroma":
        end_clients_of_chroma()
    run = runner(monkeypatch)
    for words in commands(FOLDER / f"{system}.md"):
        reply = run(*words, "--json")
        assert reply.code == 0, reply.err
        assert reply.data["imported"] > 0
        assert reply.data["left_out"] == []
    if system == "mem0":
        with MemorySync.open("vectors.mem", embedder=None, read_only=True) as memory:
            assert [one.text for one in memory.list(user_id="bob")] == ["Bob skis on the fjord"]
            lines = memory.export(user_id="bob")
            assert isinstance(lines, list)
            assert lines[1]["version"]["embedding_model"] == "my-model"
    else:
        index = DocumentIndex.open("moved.index")
        assert (index.count(scope="ann"), index.count(scope="bob")) == (2, 1)
        assert len(index.recall(text="fjord", scope="bob")) == 1
    with MemorySync.open("agent.mem", embedder=None, read_only=True) as memory:
        assert len(memory.list(user_id="ann")) == 2
        (kept,) = memory.list(user_id="bob")
        assert "fjord" in kept.text


def test_a_record_that_a_command_of_a_page_would_leave_out_is_seen(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "ann.json").write_text(json.dumps([{"id": "a", "memory": "tea"}]))
    words = commands(FOLDER / "mem0.md")[0]
    reply = runner(monkeypatch)(*words, "--json")
    assert reply.code == 1
    assert [one["count"] for one in reply.data["left_out"]] == [1]
