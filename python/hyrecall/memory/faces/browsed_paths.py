"""Finds the memories below a path of a browsed store, and lines in them, for one caller."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import apsw
import pyarrow as pa

from hyrecall.memory.data.types import Episode
from hyrecall.memory.faces import folders
from hyrecall.memory.faces.paths import Place, memory_path
from hyrecall.memory.recall.audience import Audience
from hyrecall.memory.sql.fact_rows import KIND
from hyrecall.memory.sql.reading import episodes_of_rows, head_row, newest_rows, texts_of_rows

__all__ = ["AT_A_TIME", "Line", "Seen", "matching_lines", "memories", "rows_below"]

AT_A_TIME = 1_000
"""Memories that are read together."""


@dataclass(frozen=True)
class Line:
    """A line that :meth:`hyrecall.memory.Browse.grep` found.

    Attributes
    ----------
    path : str
        The memory's.
    number : int
        Of the line in the texts, from 1.
    text : str
        The line.
    """

    path: str
    number: int
    text: str


@dataclass(frozen=True)
class Seen:
    """One reading transaction of the store, and what its caller may see."""

    connection: apsw.Connection
    audience: Audience

    @property
    def cells(self) -> tuple[int, ...]:
        """All cells that the caller may see."""
        return tuple(self.audience.cells)

    @property
    def private(self) -> tuple[int, ...]:
        """The caller's private cells."""
        cells = self.audience.cells.items()
        return tuple(n for n, cell in cells if cell.visibility == "private")

    def shared(self, place: Place) -> tuple[int, ...]:
        """The global cells, or those of the user in the path."""
        return tuple(
            number
            for number, cell in self.audience.cells.items()
            if cell.visibility == "global" and (not place.has_user or cell.user == place.user)
        )

    def below(self, place: Place) -> tuple[int, ...]:
        """The cells whose memories lie in the folder of a path."""
        if place.top == "memories":
            return self.private
        return self.shared(place) if place.top == "shared" else self.cells


def rows_below(seen: Seen, place: Place) -> list[tuple[int, str]]:
    """Return row and id of the memories that lie below a path, newest first."""
    connection, cells = seen.connection, seen.below(place)
    if place.kind == "memory":
        # A file lies in one cell. A path without an id names no file.
        found = [
            (row, place.id)
            for cell in cells
            if place.id is not None and (row := head_row(connection, cell, place.id)) is not None
        ]
        kept = episodes_of_rows(connection, [row for row, _ in found], cells)
        there = [one for one in found if one[0] in kept]  # a damaged one is not
        return [one for one in there if kept[one[0]].kind == place.memory_kind]
    if place.kind == "session":
        return newest_rows(connection, cells, session_id=place.id)
    if place.kind == "fact":
        return folders.rows_about(connection, cells, place.id or "")
    if place.kind != "folder" or place.top == "graph":
        return []
    return newest_rows(
        connection,
        cells,
        kind=KIND if place.top == "facts" else place.memory_kind,
        pinned=True if place.top == "pinned" else None,
        in_session=place.top == "sessions",
    )


def memories(seen: Seen, rows: Sequence[int]) -> Iterator[Episode]:
    """Read the memories of rows, in pages."""
    for begin in range(0, len(rows), AT_A_TIME):
        part = rows[begin : begin + AT_A_TIME]
        found = episodes_of_rows(seen.connection, part, seen.cells)
        yield from (found[row] for row in part if row in found)


def matching_lines(
    seen: Seen, rows: Sequence[int], matcher: Callable[[pa.Array], Any]
) -> list[Line]:
    """Return the matching lines of memories; reads other columns only of memories that match."""
    texts = texts_of_rows(seen.connection, rows)
    lines = [
        (row, number, line)
        for row in rows
        if row in texts  # a damaged one is not
        for number, line in enumerate(_lines(texts[row]), start=1)
    ]
    mask = matcher(pa.array([line for _, _, line in lines], pa.large_string())).to_pylist()
    hits = list(compress(lines, mask))
    episodes = episodes_of_rows(seen.connection, [row for row, _, _ in hits], seen.cells)
    return [
        Line(memory_path(episodes[row]), number, line)
        for row, number, line in hits
        if row in episodes
    ]


def _lines(texts: tuple[str, str]) -> list[str]:
    return [line for text in texts if text.strip() for line in text.splitlines()]
