"""Cells: the units in which memories are isolated, each with a number in the store."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import apsw

from hyrecall.errors import CorruptStoreError, error
from hyrecall.memory.sql.damaged_rows import checksum, rows, warn_of_damage
from hyrecall.memory.sql.schema import has_tables, take_sequence

__all__ = [
    "CELLS",
    "FACT_SOURCE",
    "Cell",
    "add_cell",
    "as_kept",
    "cell_of",
    "cells_by_number",
    "cells_of",
    "every_cell",
    "find_cell",
    "find_cells",
    "has_named_users",
    "home_of_edges",
    "is_sound_cell",
    "lookup_order",
    "make_cell",
]


class Cell(NamedTuple):
    """The owner of a memory, its partition, and its visibility. None is a value of its own."""

    # In a store with tables, what has another source lies in another cell, so that an id may
    # stand in
    # several tables. Edges, and everything in a store without tables, have None there.

    org: str | None
    workspace: str | None
    user: str | None
    visibility: str
    source: str | None = None

    def identity(self) -> dict[str, Any]:
        """Return the fields of an episode, a fact or an edge that name its cell."""
        return {
            "org": self.org,
            "workspace": self.workspace,
            "user_id": self.user,
            "visibility": self.visibility,
        }


# The same expressions as in the index cells_identity, so that SQLite uses it.
_IS = "ifnull({0}, '') = ifnull(?{1}, '') AND ({0} IS NULL) = (?{1} IS NULL)"
_IN_PARTITION = " AND ".join(_IS.format(*one) for one in (("org", 1), ("workspace", 2)))
CELLS = "SELECT checksum, cell, org, workspace, user, visibility, source FROM cells"
"""What :func:`is_sound_cell` takes."""
_OF_USER = f"{CELLS} WHERE {_IN_PARTITION} AND {_IS.format('user', 3)} AND visibility = ?4"
_FIND = f"{_OF_USER} AND {_IS.format('source', 5)}"
FACT_SOURCE = "memory"
"""The source of facts: what was distilled."""


def cell_of(kept: Any) -> Cell:
    """Return the cell of an episode, or of an edge, which has no source."""
    # The source counts in a store with tables only: :func:`find_cell` and :func:`make_cell` drop it
    # elsewhere.
    source = getattr(kept, "source", None)
    return Cell(kept.org, kept.workspace, kept.user_id, kept.visibility, source)


def find_cell(connection: apsw.Connection, cell: Cell) -> int | None:
    """Return the number of a cell, or None if nothing was ever kept there."""
    cell = as_kept(connection, cell)
    return next(iter(_found(connection, _FIND, cell, len(cell))), None)


def find_cells(connection: apsw.Connection, cell: Cell) -> dict[int, Cell]:
    """Return the cells of a user with one visibility, whatever their source, by number."""
    return _found(connection, _OF_USER, cell, len(cell) - 1)


def _found(
    connection: apsw.Connection, select: str, cell: Cell, n_compared: int
) -> dict[int, Cell]:
    found, n_damaged = {}, 0
    for row in rows(connection, select, cell[:n_compared]):
        one = Cell(*row[2:])
        # SQLite does not compare the row with the terms that the index has satisfied.
        if is_sound_cell(row) and one[:n_compared] == cell[:n_compared]:
            found[int(row[1])] = one
        else:
            n_damaged += 1
    if n_damaged and not found:
        raise error(CorruptStoreError, "cells", "an undamaged row of the user", "a damaged one")
    warn_of_damage(n_damaged)
    return found


def as_kept(connection: apsw.Connection, cell: Cell) -> Cell:
    """Return a cell as the store keeps it: without a source unless the store has tables."""
    if cell.source is None or has_tables(connection):
        return cell
    return cell._replace(source=None)


def lookup_order(number: int, cell: Cell) -> tuple[bool, str, int]:
    """Return what cells are sorted by where an id is looked up: private first, then by table."""
    return cell.visibility != "private", cell.source or "", number


def home_of_edges(connection: apsw.Connection, number: int) -> int | None:
    """Return the cell of edges between memories of a cell; those of all tables share one."""
    cell = cells_by_number(connection, [number]).get(number)
    if cell is None or cell.source is None:
        return number
    return find_cell(connection, cell._replace(source=None))


def make_cell(connection: apsw.Connection, cell: Cell) -> int:
    """Return the number of a cell, and give one to a new cell."""
    cell = as_kept(connection, cell)
    found = find_cell(connection, cell)
    return add_cell(connection, cell, take_sequence(connection)) if found is None else found


def add_cell(connection: apsw.Connection, cell: Cell, number: int) -> int:
    """Add a new cell, as :func:`as_kept` returns it, under a change number; return its number."""
    # A number is never used again, also not after an erase: somebody may still hold the old one.
    insert = (
        "INSERT INTO cells (cell, org, workspace, user, visibility, source) "
        "SELECT max(?, ifnull(max(cell), 0) + 1), ?, ?, ?, ?, ? FROM cells RETURNING cell"
    )
    made: int = connection.execute(insert, (number, *cell)).get
    seal = "UPDATE cells SET checksum = ? WHERE cell = ?"
    connection.execute(seal, (_checksum(made, *cell), made))
    return made


def _checksum(*kept: Any) -> int:
    """Return the checksum of a row; a source that is null is left out."""
    return checksum(*(kept if kept[-1] is not None else kept[:-1]))


def is_sound_cell(row: Sequence[Any]) -> bool:
    """Return whether a row of a cell is undamaged."""
    found, *kept = row
    return bool(_checksum(*kept) == found)


def cells_of(
    connection: apsw.Connection,
    org: str | None,
    workspace: str | None,
    *,
    visibility: str | None = None,
) -> dict[int, Cell]:
    """Return the cells of a partition by number, all or only those of one visibility."""
    # Leaves out a row that is damaged, or that a damaged index wrongly puts into the
    # partition. Where
    # all cells are asked for, a warning tells how many; a reader of one visibility learns
    # nothing of
    # others' damage.
    select, given = f"{CELLS} WHERE {_IN_PARTITION}", (org, workspace)
    if visibility is None:
        read = list(rows(connection, select, given))
    else:
        read = list(rows(connection, f"{select} AND visibility = ?3", (*given, visibility)))
    found = {
        number: cell
        for number, cell in _cells(read).items()
        if cell[:2] == given and visibility in (None, cell.visibility)
    }
    if visibility is None:
        warn_of_damage(len(read) - len(found))
    return found


def has_named_users(connection: apsw.Connection, org: str | None, workspace: str | None) -> bool:
    """Return whether a partition has cells of named users."""
    # The index keeps the cells of one user together, so few others are read.
    select = f"SELECT EXISTS (SELECT 1 FROM cells WHERE {_IN_PARTITION} AND user IS NOT NULL)"
    return bool(connection.execute(select, (org, workspace)).get)


def every_cell(connection: apsw.Connection) -> dict[int, Cell]:
    """Return every cell by number, for the store's upkeep only, never for a user's request."""
    # A warning tells how many were left out because their row is damaged.
    read = list(rows(connection, CELLS))
    found = _cells(read)
    warn_of_damage(len(read) - len(found))
    return found


def cells_by_number(connection: apsw.Connection, numbers: Iterable[int]) -> dict[int, Cell]:
    """Return the cells of these numbers; one that is not there is left out."""
    wanted = tuple(numbers)
    select = f"{CELLS} WHERE cell IN (SELECT value FROM json_each(?))"
    found = _cells(rows(connection, select, (json.dumps(wanted),)))
    return {number: found[number] for number in wanted if number in found}


def _cells(found: Iterable[tuple[Any, ...]]) -> dict[int, Cell]:
    """Return cells by number; nobody sees one whose row is damaged."""
    return {row[1]: Cell(*row[2:]) for row in found if is_sound_cell(row)}
