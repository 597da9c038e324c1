"""Files of JSON, from mem0 and from LangChain, are read as records without any package."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("apsw", reason="the extra [memory] is not installed")

from hyrecall.errors import OptionError
from hyrecall.migrate import LeftOut, Migrated, Record, into_store, open_source
from migrate.moved import DIM, MODEL, in_store, one, plant, store

DATA = Path(__file__).parent / "data"


def records(system: str, path: Path) -> list[Record]:
    with open_source(system, path) as source:
        return list(source.records)


def move(memory: Any, system: str, path: Path, **options: Any) -> Migrated:
    with open_source(system, path) as source:
        return into_store(memory, source, user_from="user_id", **options)


def written(folder: Path, content: object) -> Path:
    path = folder / "file.json"
    path.write_text(json.dumps(content))
    return path


# ---- mem0 ----


def test_memories_of_mem0_come_with_their_user_time_and_session() -> None:
    with store() as memory:
        done = move(memory, "mem0", DATA / "mem0.json")
        assert (done.n_read, done.imported) == (5, 2)
        assert [(one.reason, one.count, one.example[-2:]) for one in done.left_out] == [
            ("no user: it has no field 'user_id'", 1, "03"),
            ("no text", 1, "04"),
            ("time: neither ISO 8601 nor seconds from 1970 on", 1, "05"),
        ]
        assert done.dropped == {"relations": 1, "hash": 2}
        assert [one.reason for one in done.without_vector] == ["no vector in the source"]
        assert done.needs_reembed
        tea = memory.get("2f1c6b0e-8a3d-4a52-9d0a-0d8f6a6f1a01", user_id="ann")
        assert tea is not None
        assert tea.text == "Drinks green tea at four"
        assert tea.occurred_at.isoformat() == "2025-03-01T17:15:30.123456+00:00"
        assert tea.session_id == "session-7"
        assert tea.metadata == {
            "topic": "habits", "weight": 0.1, "tags": ["tea", "afternoon"],
            "categories": ["food"], "updated_at": "2025-04-02T10:00:00-07:00",
        }  # fmt: skip
        again = move(memory, "mem0", DATA / "mem0.json")
        assert (again.imported, again.skipped) == (0, 2)


def test_an_agent_of_mem0_may_be_the_user(tmp_path: Path) -> None:
    with store() as memory, open_source("mem0", DATA / "mem0.json") as source:
        done = into_store(memory, source, user_from="agent_id")
        assert done.dropped == {"relations": 1, "hash": 1, "agent_id": 1}
        assert {(user, key[-2:]) for user, key in in_store(memory)} == {("planner", "03")}
        (kept,) = memory.list(user_id="planner")
        assert kept.metadata == {"agent_id": "from the metadata"}


def test_a_list_of_memories_is_an_export_too(tmp_path: Path) -> None:
    found = records("mem0", written(tmp_path, [{"id": "a", "memory": "tea", "score": 0.5}]))
    assert [(r.id, r.text, r.dropped) for r in found] == [("a", "tea", ("score",))]


def test_an_export_that_has_further_pages_says_so(tmp_path: Path) -> None:
    path = written(tmp_path, {"count": 2, "next": "page 2", "results": []})
    with open_source("mem0", path) as source:
        assert source.dropped == {"further pages of the export (next)": 1}


@pytest.mark.parametrize("content", [5, {"memories": []}, [5], {"results": {"id": 1}}, None])
def test_other_json_is_no_export_of_mem0(tmp_path: Path, content: object) -> None:
    wish = r"^path: expected a list of memories of mem0, or its results, got others"
    with pytest.raises(OptionError, match=wish):
        records("mem0", written(tmp_path, content))


# ---- LangChain ----


def dump() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DATA / "langchain.json").read_text())
    return found


def test_documents_of_langchain_come_with_their_vectors() -> None:
    with store() as memory:
        done = move(memory, "langchain", DATA / "langchain.json", vector_model=MODEL)
        assert (done.n_read, done.imported, done.n_vectors) == (4, 3, 3)
        assert done.left_out == (LeftOut("no user: it has no field 'user_id'", 1, "d4"),)
        assert done.dropped == {"at": 1}  # a datetime, of which the dump has only a note
        wish = {}
        for given in dump().values():
            metadata = {name: v for name, v in given["metadata"].items() if name != "at"}
            if metadata:
                row = np.array(given["vector"], "<f4")
                wish |= one(metadata["user_id"], given["id"], given["text"], metadata, row)
        assert len(next(iter(dump().values()))["vector"]) == DIM
        assert in_store(memory) == wish


def test_a_planted_loss_of_a_vector_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "records.Mapper.of", lambda m: type(m)(**{**vars(m), "vector": None}))
    with store() as memory:
        move(memory, "langchain", DATA / "langchain.json", vector_model=MODEL)
        assert None in {blob for *_, blob in in_store(memory).values()}


def test_no_object_that_a_dump_names_is_made(tmp_path: Path) -> None:
    given = {"lc": 1, "type": "constructor", "id": ["os", "system"], "kwargs": {"command": "x"}}
    path = written(tmp_path, {"a": {"id": "a", "text": "tea", "metadata": {"deep": [given]}}})
    (found,) = records("langchain", path)
    assert (found.metadata, found.dropped) == ({}, ("deep",))


@pytest.mark.parametrize("content", [5, [], {"a": 5}, {"a": {"id": "a"}}])
def test_other_json_is_no_dump(tmp_path: Path, content: object) -> None:
    wish = r"^path: expected a dump of InMemoryVectorStore, got others"
    with pytest.raises(OptionError, match=wish):
        records("langchain", written(tmp_path, content))


# ---- both ----


@pytest.mark.parametrize("system", ["mem0", "langchain"])
def test_a_file_that_is_no_json_is_refused(tmp_path: Path, system: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"\xff")
    with pytest.raises(OptionError, match=r"^path: expected JSON of .*, got UnicodeDecodeError"):
        records(system, path)
    with pytest.raises(FileNotFoundError):
        records(system, tmp_path / "none")


def test_options_that_a_system_does_not_take_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"^collection: expected none for mem0, got 'x'"):
        open_source("mem0", tmp_path, collection="x")
    with pytest.raises(OptionError, match=r"^id_field: expected none for qdrant, got 'x'"):
        open_source("qdrant", tmp_path, id_field="x")
    with pytest.raises(OptionError, match=r"^text_field: expected 1 to 512 bytes"):
        open_source("qdrant", tmp_path, text_field=" ")
    with pytest.raises(OptionError, match=r"^system: expected one of chroma, .*, got 'word'"):
        open_source("word", tmp_path)


# ---- what no program writes ----


@pytest.mark.parametrize(
    ("system", "content"),
    [
        ("mem0", {"results": [{"id": "1", "memory": "x", "metadata": "oops"}], "relations": 5}),
        ("langchain", {"1": {"id": "1", "text": "x", "metadata": ["oops"]}}),
    ],
)
def test_metadata_that_is_no_object_is_dropped_by_name(
    tmp_path: Path, system: str, content: object
) -> None:
    (found,) = records(system, written(tmp_path, content))
    assert (found.id, found.text, found.metadata, found.dropped) == ("1", "x", {}, ("metadata",))


def test_metadata_of_too_many_levels_is_dropped_by_name(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    deep = "[" * 900 + "]" * 900
    dump = json.dumps({"1": {"id": "1", "text": "x", "metadata": {"deep": "DEEP", "n": 1}}})
    path.write_text(dump.replace('"DEEP"', deep))
    (found,) = records("langchain", path)
    assert (found.metadata, found.dropped) == ({"n": 1}, ("deep",))
