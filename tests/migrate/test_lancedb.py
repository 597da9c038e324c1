"""A table of LanceDB comes as it was."""

from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("apsw", reason="the extra [memory] is not installed")
pytest.importorskip("lancedb", reason="lancedb is not installed")

import lancedb

from hyrecall.errors import OptionError
from hyrecall.migrate import LeftOut, Migrated, into_store, open_source
from migrate.moved import DIM, MODEL, Kept, in_store, one, plant, store, vectors

N = 1103
ROWS = vectors(N)
AT = datetime(2025, 3, 1, 12)


def as_column(rows: Any) -> pa.FixedSizeListArray:
    return pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1])


def table(**more: Any) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(N)),
            "text": [f"text {at} — é" for at in range(N)],
            "user": [f"u{at % 3}" for at in range(N)],
            "vector": as_column(ROWS),
            "deep": [{"a": [at, None]} for at in range(N)],
            "at": pa.array([AT] * N, pa.timestamp("us")),
            **more,
        }
    )


def folder_with(path: Path, **tables: pa.Table) -> Path:
    database = lancedb.connect(str(path))
    for name, rows in tables.items():
        database.create_table(name, rows, on_bad_vectors="null")
    return path


def move(memory: Any, path: Path, **options: Any) -> Migrated:
    with open_source("lancedb", path, **options) as source:
        return into_store(memory, source, user_from="user", vector_model=MODEL, time_from="at")


def expected() -> Kept:
    found: Kept = {}
    for at in range(N):
        user = f"u{at % 3}"
        metadata = {"user": user, "deep": {"a": [at, None]}, "at": AT.isoformat()}
        found |= one(user, str(at), f"text {at} — é", metadata, ROWS[at])
    return found


def test_a_table_comes_as_it_was_and_once(tmp_path: Path) -> None:
    folder_with(tmp_path, notes=table())
    with store() as memory:
        done = move(memory, tmp_path)
        assert (done.n_read, done.imported, done.n_vectors) == (N, N, N)
        assert (done.left_out, done.dropped, done.needs_reembed) == ((), {}, False)
        assert in_store(memory) == expected()
        kept = memory.get("7", user_id="u1")
        assert kept is not None
        assert kept.occurred_at.replace(tzinfo=None) == AT
        again = move(memory, tmp_path)
        assert (again.imported, again.skipped) == (0, N)


def test_a_planted_change_of_a_text_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder_with(tmp_path, notes=table())
    plant(monkeypatch, "records.Mapper.of", lambda m: type(m)(**{**vars(m), "text": "tea"}))
    with store() as memory:
        move(memory, tmp_path)
        assert in_store(memory) != expected()


def test_one_of_several_tables_and_columns_is_named(tmp_path: Path) -> None:
    more = {"body": ["tea"] * N, "second": as_column(vectors(N, 2)), "blob": [b"x"] * N}
    folder_with(tmp_path, notes=table(**more), others=table())
    with store() as memory:
        with pytest.raises(OptionError, match=r"^collection: expected one of notes, others"):
            move(memory, tmp_path)
        with pytest.raises(OptionError, match=r"^vector_field: expected one of second, vector"):
            move(memory, tmp_path, collection="notes")
        chosen = {"collection": "notes", "vector_field": "vector"}
        with pytest.raises(OptionError, match=r"^text_field: expected one of .*, got 'no'"):
            move(memory, tmp_path, **chosen, text_field="no")
        with pytest.raises(OptionError, match=r"^id_field: expected one of .*, got 'no'"):
            move(memory, tmp_path, **chosen, id_field="no")
        done = move(memory, tmp_path, **chosen, text_field="body")
        assert done.dropped == {"second": N, "blob": N}
        assert {text for text, *_ in in_store(memory).values()} == {"tea"}


def test_nulls_of_a_table_are_told(tmp_path: Path) -> None:
    rows = pa.table(
        {
            "id": ["a", None, "c", "d"],
            "text": ["tea", "tea", None, "tea"],
            "user": ["ann", "ann", "ann", None],
            "vector": pa.array([None, [1.0] * DIM, None, None], pa.list_(pa.float32(), DIM)),
            "at": pa.array([None] * 4, pa.timestamp("us")),
        }
    )
    folder_with(tmp_path, notes=rows)
    with store() as memory:
        done = move(memory, tmp_path)
        assert done.left_out == (
            LeftOut("no id: it is no text and no int", 1, "None"),
            LeftOut("no text", 1, "c"),
            LeftOut("no user: it has no field 'user'", 1, "d"),
        )
        assert done.without_vector == (LeftOut("no vector in the source", 1, "a"),)


def test_a_table_without_vectors_comes_too(tmp_path: Path) -> None:
    folder_with(tmp_path, notes=table().drop_columns(["vector"]))
    with store() as memory:
        assert move(memory, tmp_path).imported == N


def test_a_folder_that_is_not_there_is_refused_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"^path: expected a folder of LanceDB"):
        move(None, tmp_path / "none")
    assert not (tmp_path / "none").exists()
