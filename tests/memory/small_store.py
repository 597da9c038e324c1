"""Small stores for the tests of what is derived from one, and a way to compare two indexes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import hyrecall as hr
from seams import (
    INDEX,
    Cell,
    Database,
    Derived,
    Edge,
    Episode,
    Follower,
    Layout,
    NewVersion,
    Participant,
    Ready,
    Selection,
    Wish,
    cell_of,
    edge_rows,
    find_cell,
    layout_of,
    writing,
)
from seams import derived_index as derived

NOW = datetime(2026, 3, 1, tzinfo=UTC)
DIM = 4
MODEL = "model-4"
WORDS = ["oak", "ash", "elm", "fir", "yew", "bay", "fig", "nut", "hop", "rye", "ivy", "tea"]
USERS = ("alice", "bob", None)
LOOM = layout_of(hr.recipes.loom)


def cell(user: str | None = "alice") -> Cell:
    return Cell(None, None, user, "private")


def episode(number: int, *, user: str | None = "alice", **fields: Any) -> Episode:
    """An episode whose content follows from its number."""
    rng = np.random.default_rng([7, number])
    made: dict[str, Any] = {
        "id": f"e{number}",
        "user_id": user,
        "input": " ".join(rng.choice(WORDS, 2)),
        "text": " ".join(rng.choice(WORDS, 6)),
        "occurred_at": NOW + timedelta(minutes=number % 50),
        "tags": tuple(rng.choice(WORDS, 2).tolist()),
        "importance": float(number % 11),
        "metadata": {"number": number},
    }
    return Episode(**(made | fields))


def vector(seed: int, dim: int = DIM) -> np.ndarray[Any, Any]:
    return np.random.default_rng([9, seed]).standard_normal(dim).astype(np.float32)


def remember(
    database: Database, *episodes: Episode, model: str | None = MODEL, dim: int = DIM
) -> None:
    """Keep episodes in one transaction, each with a vector that follows from its text."""
    rows = [
        NewVersion(cell_of(one), one, vector(sum(one.full_text.encode()), dim), model)
        if model
        else NewVersion(cell_of(one), one)
        for one in episodes
    ]
    with database.transaction() as connection:
        writing.remember(connection, rows, NOW)


def update(database: Database, key: str, user: str | None = "alice", **changes: Any) -> None:
    text = changes.get("text", "")
    with database.transaction() as connection:
        writing.update(connection, cell(user), key, changes, vector(len(text)), MODEL, "test", NOW)


def forget(database: Database, key: str, user: str | None = "alice") -> int:
    with database.transaction() as connection:
        number = find_cell(connection, cell(user))
        wanted = Selection([] if number is None else [number], ids=[key])
        return writing.forget(connection, wanted, "test", NOW)


def link(database: Database, key: str, nodes: Sequence[str], user: str | None = "alice") -> None:
    ends = tuple(Participant(id=node) for node in nodes)
    edge = Edge(id=key, user_id=user, participants=ends, relationship="near", description=key)
    with database.transaction() as connection:
        edge_rows.link(connection, edge, NOW)


def follower_of(
    database: Database, layout: Layout = LOOM, *, model: str | None = MODEL, **options: Any
) -> Follower:
    options = {"dim": DIM, "may_save": not database.read_only, "threads": 1} | options
    return Follower(database, database.folder / INDEX, layout, model=model, **options)


def rebuilt(database: Database, layout: Layout = LOOM, model: str | None = MODEL) -> Ready:
    """What a build of the store as it is gives."""
    with database.reading() as connection:
        return ready_of(derived.build(connection, Wish(layout, model, DIM, threads=1)))


def ready_of(made: Derived) -> Ready:
    """What a follower would give of it."""
    wish = made.wish
    return Ready(made.index, made.graph, made.sequence, wish.layout, wish.model, wish.dim)


def replies(ready: Ready) -> bytes:
    """What an index and its graph answer to fixed questions, as bytes."""
    sink = pa.BufferOutputStream()
    scopes = [hr.Scope([tuple(cell(user))]) for user in USERS] + [hr.Scope([])]
    scopes.append(hr.Scope([tuple(cell(user)) for user in USERS]))
    n = len(scopes)
    columns = ["row", "version", "pinned", "occurred_at", "tags", "text"]
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((n, DIM)).astype(np.float32)
    for words in ("oak ash", "tea near", "fir yew rye ivy"):
        tables = [
            ready.index.recall(
                text=[words] * n, vectors=rows, scope=scopes, limit=60, columns=columns
            ).to_arrow(),
            ready.index.recall(text=[words] * n, scope=scopes, limit=60).to_arrow(),
        ]
        tables.append(ready.graph.edges.recall(text=[words] * n, scope=scopes, limit=60).to_arrow())
        for table in tables:
            with pa.ipc.new_stream(sink, table.schema) as stream:
                stream.write_table(table.combine_chunks())
    return bytes(sink.getvalue())


def keys(ready: Ready, user: str | None = "alice", text: str = "oak") -> list[str]:
    """Which documents of a user a text finds."""
    return sorted(ready.index.recall_one(text=text, scope=tuple(cell(user)), limit=100).keys)


def listing(folder: Path) -> dict[str, bytes]:
    """Every file under a folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
