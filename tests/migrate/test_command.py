"""``hyrecall import --from SYSTEM`` moves records, and says what came and what did not."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("apsw", reason="the extra [memory] is not installed")

import hyrecall as hr
from cli.conftest import runner
from hyrecall.adapters.documents import DocumentIndex
from hyrecall.memory import MemorySync
from hyrecall.migrate import SYSTEMS
from seams import _SYSTEMS

Run = Callable[..., SimpleNamespace]
DATA = Path(__file__).parent / "data"
MEM0 = (DATA / "mem0.json", "--from", "mem0")
LANGCHAIN = (DATA / "langchain.json", "--from", "langchain")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "agent.mem"
    monkeypatch.setenv("HYRECALL_PATH", str(path))
    monkeypatch.setenv("HYRECALL_CONFIG", str(tmp_path / "config.json"))
    monkeypatch.setenv("HYRECALL_EMBED_DISABLE", "1")
    return path


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    return runner(monkeypatch)


def outputs(folder: Path, user: str) -> set[str]:
    with MemorySync.open(folder, embedder=None, read_only=True) as memory:
        return {one.text for one in memory.list(user_id=user)}


def test_what_came_goes_to_stdout_and_what_did_not_to_stderr(run: Run, folder: Path) -> None:
    reply = run("import", *MEM0, "--user-from", "user_id")
    assert reply.code == 1
    assert reply.out == "5 read, 2 imported (0 with vectors), 0 skipped, 3 left out\n"
    assert reply.err.splitlines() == [
        "left out: 1 (no user: it has no field 'user_id'), such as "
        "'2f1c6b0e-8a3d-4a52-9d0a-0d8f6a6f1a03'",
        "left out: 1 (no text), such as '2f1c6b0e-8a3d-4a52-9d0a-0d8f6a6f1a04'",
        "left out: 1 (time: neither ISO 8601 nor seconds from 1970 on), such as "
        "'2f1c6b0e-8a3d-4a52-9d0a-0d8f6a6f1a05'",
        "not kept: relations (1)",
        "not kept: hash (2)",
        "without vector: 2 (no vector in the source), such as "
        "'2f1c6b0e-8a3d-4a52-9d0a-0d8f6a6f1a01'",
        "note: hyrecall reembed makes the vectors that are missing",
    ]
    assert outputs(folder, "ann") == {"Drinks green tea at four"}
    assert outputs(folder, "bob") == {"Lives in Oslo — near the fjord"}


def test_json_has_the_whole_report(run: Run) -> None:
    reply = run("import", *LANGCHAIN, "--user", "ann", "--json")
    assert reply.code == 0
    assert {name: reply.data[name] for name in ("n_read", "imported", "needs_reembed")} == {
        "n_read": 4, "imported": 4, "needs_reembed": True,
    }  # fmt: skip
    (fault,) = reply.data["without_vector"]
    assert fault == {"reason": "its model is not named", "count": 4, "example": "d1"}
    again = run("import", *LANGCHAIN, "--user", "ann", "--json")
    assert (again.data["imported"], again.data["skipped"]) == (0, 4)


def test_an_index_is_built_instead_of_a_store(run: Run, folder: Path, tmp_path: Path) -> None:
    into = ("--into-index", tmp_path / "saved")
    reply = run("import", *LANGCHAIN, "--user", "ann", *into)
    assert reply.code == 0
    assert "reembed" not in reply.err
    assert not folder.exists()
    row = json.loads(LANGCHAIN[0].read_text())["d2"]["vector"]
    found = DocumentIndex.open(tmp_path / "saved").recall(vector=row, scope="ann", limit=1)
    assert found[0].document.id == "d2"
    again = run("import", *LANGCHAIN, "--user", "ann", *into)
    assert again.out == "4 read, 0 imported (0 with vectors), 4 skipped, 0 left out\n"


def test_a_new_index_may_declare_the_fields_to_filter_by(run: Run, tmp_path: Path) -> None:
    source = tmp_path / "dump.json"
    of_years = {f"d{year}": {"year": year, "tags": ["x"]} for year in (2024, 2026)}
    dump = {key: {"id": key, "text": "tea", "metadata": one} for key, one in of_years.items()}
    source.write_text(json.dumps(dump))
    moved = ("import", source, "--from", "langchain", "--user", "ann")
    declared = ("--attribute", "year=int", "--attribute", "tags=list[str]")
    assert run(*moved, "--into-index", tmp_path / "saved", *declared).code == 0
    index = DocumentIndex.open(tmp_path / "saved")
    late = hr.Filter(year=(2025, None), tags="x")
    assert [one.id for one in index.find(scope="ann", filter=late)] == ["d2026"]
    reply = run(*moved, "--into-index", tmp_path / "saved", *declared)
    assert reply.err.startswith("error: --attribute: expected none: the index is there")
    reply = run(*moved, "--into-index", tmp_path / "new", "--attribute", "year=number")
    assert reply.err.startswith("error: attributes['year']: expected str, int, float")
    assert not (tmp_path / "new").exists()


REFUSED = {
    "--from mem0": "--user: expected --user or --user-from, whose the records are, got neither",
    "--from mem0 --user a --user-from b":
        "--user: expected --user or --user-from, whose the records are, got both",
    "--from mem0 --user a --collection x": "--collection: expected none for mem0, got 'x'",
    "--from langchain --user a": "path: expected a dump of InMemoryVectorStore, got others",
    "--from word": "--from: expected hyrecall, l0, chroma, lancedb, qdrant, mem0, langchain, "
        "got 'word'",
    "--user a": "--user: expected none with --from hyrecall, got 'a'",
    "--from l0 --collection x": "--collection: expected none with --from l0, got 'x'",
    "--from mem0 --user a --into-index x --org o":
        "--org: expected none with --into-index, got 'o'",
    "--from mem0 --user a --into-index x --time-from at":
        "--time-from: expected none with --into-index, got 'at'",
    "--from mem0 --user a --attribute n=int":
        "--attribute: expected none without --into-index, got 'n=int'",
    "--from mem0 --user a --into-index x --attribute n":
        "--attribute: expected NAME=TYPE, such as year=int, got 'n'",
    "--from l0 --attribute n=int": "--attribute: expected none with --from l0, got 'n=int'",
    "--from mem0 --user a --time-from ' '":
        "--time-from: expected 1 to 512 bytes, not blank, without NUL, got ' '",
}  # fmt: skip


@pytest.mark.parametrize("options", REFUSED)
def test_other_options_are_refused_before_a_store_is_made(
    run: Run, folder: Path, options: str
) -> None:
    reply = run("import", DATA / "mem0.json", *options.replace("' '", "_").split())
    if "' '" in options:
        reply = run("import", *MEM0, "--user", "a", "--time-from", " ")
    else:
        assert not folder.exists()
    assert (reply.code, reply.err) == (1, f"error: {REFUSED[options]}\n")


def test_a_file_that_is_not_there_makes_no_store(run: Run, folder: Path) -> None:
    reply = run("import", "none.json", "--from", "mem0", "--user", "a")
    assert (reply.code, reply.err) == (1, "error: none.json: No such file or directory\n")
    assert not folder.exists()


def test_the_command_names_every_system() -> None:
    assert _SYSTEMS == SYSTEMS
