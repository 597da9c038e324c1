"""Changes that are written straight to a database, for tests that have no open store."""

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any, TypeVar

from memory.rows_of_tests import NOW
from seams import Change, Database, Guard, Imported, Numbered, Reembedded, SetVectors, backfill
from seams import lines as changes_of_lines

Reply = TypeVar("Reply")


class _Written:
    def __init__(self, database: Database) -> None:
        self.database = database

    def __call__(self, change: Change[Reply]) -> Reply:
        with self.database.transaction() as connection:
            return change.run(connection, NOW)

    def page(self, *given: Any) -> int:
        return self(SetVectors(*given))


def import_lines(database: Database, lines: Iterable[Numbered], *, now: datetime) -> Imported:
    """Merge lines into a database."""
    return changes_of_lines.import_lines(_Written(database), lines, now=now)


def reembed(database: Database, guard: Guard, cells: Collection[int], **options: Any) -> Reembedded:
    """Embed the memories of cells."""
    return backfill.reembed(database, guard, cells, write=_Written(database).page, **options)
