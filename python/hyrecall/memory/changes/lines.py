"""The changes of an import: a page of lines, and the move of its memories to their tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import ClassVar, NamedTuple, cast

import apsw
from pydantic import ValidationError

from hyrecall.base.progress import ProgressFunction
from hyrecall.errors import CorruptStoreError, HyrecallError, OptionError, StoreError, error
from hyrecall.memory.changes.change import Change, Numbers, Write
from hyrecall.memory.faces.export_lines import Line
from hyrecall.memory.faces.import_rows import (
    merge_agent,
    merge_edge,
    merge_feedback,
    merge_version,
)
from hyrecall.memory.faces.table_cells import settle
from hyrecall.memory.faces.transfer import Imported, LineError, Numbered, why

__all__ = ["ImportLines", "ImportedLines", "SettleTables", "import_lines"]

PAGE = 500
"""Lines of one transaction."""

_REPEATED = "refused; why is not known any more, import again to see it"


class ImportedLines(NamedTuple):
    """The reply to a page: how many lines were new or known, and what is wrong with the others."""

    # An error is the place of its line in the page, from 0, and a text.

    n_new: int
    n_known: int
    errors: tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class ImportLines(Change[ImportedLines]):
    """Merge lines of an export into the store; one that cannot be kept changes nothing."""

    is_offered: ClassVar[bool] = False

    lines: tuple[Line, ...]
    recorded_at: datetime

    def run(self, connection: apsw.Connection, now: datetime) -> ImportedLines:
        """Merge each line that has something."""
        del now
        counts = {True: 0, False: 0}
        errors = []
        for place, line in enumerate(self.lines):
            try:
                counts[_merge(connection, line, self.recorded_at)] += 1
            except (HyrecallError, ValidationError) as fault:
                # A damaged row concerns its own line alone; SQLite's faults are no StoreError
                # before the transaction ends.
                if isinstance(fault, StoreError) and not isinstance(fault, CorruptStoreError):
                    raise
                errors.append((place, why(fault)))
        return ImportedLines(counts[True], counts[False], tuple(errors))

    def numbers(self, reply: ImportedLines) -> Numbers:
        """Return the counts, and the places of the errors without their texts."""
        return reply.n_new, reply.n_known, tuple(place for place, _ in reply.errors)

    def reply_of(self, numbers: Numbers) -> ImportedLines:
        """Return the reply again; the texts of the errors are lost."""
        n_new, n_known, places = cast("tuple[int, int, tuple[int, ...]]", numbers)
        return ImportedLines(n_new, n_known, tuple((place, _REPEATED) for place in places))


@dataclass(frozen=True)
class SettleTables(Change[int]):
    """Move memories without a table to the table of their source; replies with how many moved."""

    is_offered: ClassVar[bool] = False

    def run(self, connection: apsw.Connection, now: datetime) -> int:
        """Move them, in a store with tables."""
        del now
        return settle(connection)


def import_lines(
    write: Write,
    lines: Iterable[Numbered],
    *,
    now: datetime,
    progress: ProgressFunction | None = None,
) -> Imported:
    """Merge lines into the store; existing memories stay as they are."""
    # Lines are kept in pages: what was imported before a crash stays, and importing the same file
    # again skips it. A line whose row in the store is damaged is an error that names the row.
    n_new = n_known = done = 0
    errors: list[LineError] = []
    left = iter(lines)
    while page := list(islice(left, PAGE)):
        merged = [line for _, line in page if isinstance(line, Line) and line.format is None]
        reply = write(ImportLines(tuple(merged), now))
        n_new, n_known = n_new + reply.n_new, n_known + reply.n_known
        refused, place = dict(reply.errors), 0
        for at, line in page:
            if isinstance(line, LineError):
                errors.append(line)
            elif line.format is None:
                if place in refused:
                    errors.append(LineError(at, line.name, refused[place]))
                place += 1
        done += len(page)
        if progress is not None:
            progress(done, done)
    if n_new:
        write(SettleTables())
    return Imported(n_new, n_known, tuple(errors))


def _merge(connection: apsw.Connection, line: Line, now: datetime) -> bool:
    if line.version is not None:
        return merge_version(connection, line.version)
    if line.edge is not None:
        return merge_edge(connection, line.edge, now)
    if line.agent is not None:
        return merge_agent(connection, line.agent)
    if line.feedback is not None:
        return merge_feedback(connection, line.feedback)
    wish = "a version, an edge, an agent or feedback"
    raise error(OptionError, "line", wish, "none of them")
