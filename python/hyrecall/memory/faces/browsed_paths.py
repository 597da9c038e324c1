"""Finds the memories below a path of a browsed store, and lines in them, for one caller."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import apsw
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hyrecall.memory.data.types import Episode
from hyrecall.memory.faces import folders
from hyrecall.memory.faces.paths import Place, memory_path
from hyrecall.memory.recall.audience import Audience
from hyrecall.memory.sql.fact_rows import KIND
from hyrecall.memory.sql.reading import (
    episodes_of_rows,
    head_row,
    newest_rows,
    text_sizes,
    texts_of_rows,
)

__all__ = ["AT_A_TIME", "Line", "Seen", "matching_lines", "memories", "rows_below"]

AT_A_TIME = 1_000
"""Memories that are read together."""

BYTES_AT_A_TIME = 1 << 20
"""Of the texts that are searched together; a longer one is searched alone."""

_LINE_ENDS = r"\r\n|[\n\r\x0b\x0c\x1c-\x1e\x{85}\x{2028}\x{2029}]"  # those of str.splitlines


@dataclass(frozen=True)
class Line:
    """A line that :meth:`hyrecall.memory.Browse.grep` found."""

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
    seen: Seen, rows: Iterable[int], matcher: Callable[[Any], Any], *, within_lines: bool
) -> Iterator[Line]:
    """Yield the matching lines of memories, in the order of the rows."""
    # ``within_lines``: what matches a line matches the text around it, so that other texts are not
    # split. Lines are Arrow's; only those that match become Python's.
    for page in _pages(seen.connection, iter(rows)):
        texts = texts_of_rows(seen.connection, page)
        kept = [  # a damaged one is not
            (row, is_second, text)
            for row in page
            for is_second, text in enumerate(texts.pop(row, ()))
            if text and not text.isspace()
        ]
        column = pa.array([text for _, _, text in kept], pa.large_string())
        if within_lines:
            mask = _mask(matcher(column))
            split = mask.copy()
            for at, (row, is_second, _) in enumerate(kept):  # numbers count the first text's lines
                if is_second and mask[at] and at and kept[at - 1][0] == row:
                    split[at - 1] = True
            column = column.filter(pa.array(split))
            kept = [one for one, is_split in zip(kept, split, strict=True) if is_split]
        owners = [(row, is_second) for row, is_second, _ in kept]
        del kept
        yield from _matching_lines(
            seen, owners, pc.split_pattern_regex(column, _LINE_ENDS), matcher
        )


def _matching_lines(
    seen: Seen, owners: Sequence[tuple[int, int]], split: Any, matcher: Callable[[Any], Any]
) -> Iterator[Line]:
    ends = np.cumsum(pc.list_value_length(split).to_numpy(), dtype=np.int64)
    lines = split.flatten()
    # As splitlines: what follows the last end of a line is a line only if it is not empty.
    n_own = np.diff(ends, prepend=0) - (pc.binary_length(lines.take(ends - 1)).to_numpy() == 0)
    hits = np.flatnonzero(_mask(matcher(lines)))
    for begin in range(0, len(hits), AT_A_TIME):  # the caller takes a few of perhaps millions
        found = hits[begin : begin + AT_A_TIME]
        texts = np.searchsorted(ends, found, "right")
        places = found - np.concatenate([[0], ends])[texts]
        is_line = places < n_own[texts]
        wanted = list({owners[at][0] for at in np.unique(texts[is_line])})
        episodes = episodes_of_rows(seen.connection, wanted, seen.cells)
        for line, at, place in zip(found[is_line], texts[is_line], places[is_line], strict=True):
            row, is_second = owners[at]
            if row in episodes:
                before = n_own[at - 1] if is_second and at and owners[at - 1][0] == row else 0
                number = int(before + place) + 1
                yield Line(memory_path(episodes[row]), number, lines[line].as_py())


def _pages(connection: apsw.Connection, rows: Iterator[int]) -> Iterator[list[int]]:
    """Yield rows whose texts are read together: as many as their bytes allow, at least one."""
    page: list[int] = []
    n_bytes = 0
    while part := list(islice(rows, AT_A_TIME)):
        sizes = text_sizes(connection, part)
        for row in part:
            size = sizes.get(row, 0)
            if page and (n_bytes + size > BYTES_AT_A_TIME or len(page) == AT_A_TIME):
                yield page
                page, n_bytes = [], 0
            page.append(row)
            n_bytes += size
    if page:
        yield page


def _mask(matches: Any) -> npt.NDArray[np.bool_]:
    mask: npt.NDArray[np.bool_] = matches.to_numpy().astype(bool, copy=False)
    return mask
