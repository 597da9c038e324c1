"""What tests of the store put in it."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import apsw
import numpy as np

from hyrecall.memory import Edge, Episode, Participant
from seams import HEAD, Cell, ChangedDocument, NewVersion, cell_of, migrate, tell_time, to_micros

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)

ANA = Cell(None, None, "ana", "private")
BOB = Cell(None, None, "bob", "private")
NOBODY = Cell(None, None, None, "private")

TEXTS = ["", " ", "a\0b", "Zoë \U0001f600\u202e", "%_'\"; --", "naïve\r\n\ttext", "東京"]
MODEL = "hash-4"


def an_episode(key: str, cell: Cell = ANA, **fields: Any) -> Episode:
    """An episode in a cell, at noon."""
    return Episode(**{**cell.identity(), "id": key, "occurred_at": NOW, **fields})


def new(key: str, cell: Cell = ANA, *, embedded: bool = False, **fields: Any) -> NewVersion:
    """What remembers an episode of a cell."""
    row = vector(key) if embedded else None
    return NewVersion(cell, an_episode(key, cell, **fields), row, MODEL if embedded else None)


def vector(seed: str, dim: int = 4) -> Any:
    """A vector of a text, always the same."""
    return np.random.default_rng(list(seed.encode())).normal(size=dim).astype(np.float32)


def any_episode(seed: int) -> Episode:
    """An episode with whatever an episode may have."""
    draw = random.Random(seed)
    text = lambda: draw.choice(TEXTS) + draw.choice(TEXTS)  # noqa: E731
    name = lambda: draw.choice("abcé東") + str(draw.randrange(10**6))  # noqa: E731
    maybe = lambda value: value if draw.random() < 0.7 else None  # noqa: E731
    return Episode(
        id=name(),
        user_id=draw.choice([None, "", "ana", "Zoë"]),
        org=draw.choice([None, "", "acme"]),
        workspace=draw.choice([None, "w"]),
        visibility=draw.choice(["private", "global"]),
        kind=name(),
        source=maybe("memory"),
        session_id=maybe(name()),
        input=text(),
        text=text(),
        occurred_at=NOW + timedelta(microseconds=draw.randrange(-(10**16), 10**16)),
        importance=maybe(draw.random() * 10),
        pinned=draw.random() < 0.3,
        tags=tuple(name() for _ in range(draw.randrange(4))),
        metadata={"n": draw.random(), "big": 2**70, "of": [None, True, {text(): -0.0}]},
    )


def cell_rows(episodes: list[Episode]) -> list[NewVersion]:
    """What remembers episodes where they say."""
    return [NewVersion(cell_of(one), one) for one in episodes]


def a_store() -> apsw.Connection:
    """The tables of an empty store, in memory."""
    connection = tell_time(apsw.Connection(":memory:"), lambda: to_micros(NOW))
    connection.pragma("foreign_keys", 1)
    migrate(connection, now=NOW, made_by="a test")
    return connection


def an_edge(key: str, *nodes: str, cell: Cell = ANA) -> Edge:
    """An edge between nodes, in their order."""
    ends = tuple(Participant(id=node, role=f"as {node}") for node in nodes)
    return Edge(
        **cell.identity(), id=key, participants=ends, relationship="knows", metadata={"n": [1]}
    )


def changed_since(connection: apsw.Connection, sequence: int, limit: int) -> list[ChangedDocument]:
    """The documents that changed after a number, in the order of their last change."""
    select = (
        "SELECT d.changed, d.cell, d.id, iif(v.status = 'live', v.row, NULL) "
        f"FROM {HEAD} WHERE d.changed > ? ORDER BY d.changed LIMIT ?"
    )
    return [ChangedDocument(*row) for row in connection.execute(select, (sequence, limit))]
