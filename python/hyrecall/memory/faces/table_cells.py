"""Divides a store into tables: another source is another cell, so ids may repeat."""

from __future__ import annotations

import apsw

from hyrecall.memory.faces.export_lines import VersionLine
from hyrecall.memory.sql.cells import FACT_SOURCE, cells_by_number, find_cells, make_cell
from hyrecall.memory.sql.codec import CHECKED, N_CHECKED, is_sound
from hyrecall.memory.sql.damaged_rows import rows
from hyrecall.memory.sql.fact_rows import FACT_COLUMNS, put_interval, read_fact
from hyrecall.memory.sql.feedback_rows import move_feedback
from hyrecall.memory.sql.schema import has_tables, set_tables, take_sequence
from hyrecall.memory.sql.version_rows import embedding_of, insert_row
from hyrecall.memory.sql.writing import Written

__all__ = ["cell_of_line", "divide", "settle"]


def divide(connection: apsw.Connection) -> None:
    """Turn a store into one with tables, permanently; existing memories move to their table."""
    if not has_tables(connection):
        set_tables(connection)
        settle(connection)


def settle(connection: apsw.Connection) -> int:
    """Move memories without a table to the table of their source; return how many."""
    # One of which a version is damaged stays where it is.
    if not has_tables(connection):
        return 0
    source = f"iif(f.row IS NULL, v.source, '{FACT_SOURCE}')"
    select = (
        f"SELECT d.cell, d.id, {source} FROM documents d JOIN versions v USING (cell, id, version) "
        "JOIN cells c ON c.cell = d.cell LEFT JOIN facts f ON f.row = v.row "
        f"WHERE c.source IS NULL AND v.status <> 'deleted' AND {source} IS NOT NULL "
        "ORDER BY d.changed"
    )
    found = list(rows(connection, select))
    n_moved = sum(_move(connection, *one) for one in found)
    if n_moved:  # an index that holds the old rows drops them
        connection.execute("UPDATE meta SET value = value + 1 WHERE name = 'erasures'")
    return n_moved


def cell_of_line(connection: apsw.Connection, line: VersionLine) -> int:
    """Return the cell that an imported version goes to."""
    # A line that names no table belongs to the memory of its id that has moved to one, if any.
    if line.table is None and has_tables(connection):
        select = "SELECT 1 FROM documents WHERE cell = ? AND id = ?"
        for number in find_cells(connection, line.cell):
            if connection.execute(select, (number, line.id)).get:
                return number
    return make_cell(connection, line.cell)


def _move(connection: apsw.Connection, cell: int, key: str, source: str) -> bool:
    home = cells_by_number(connection, [cell]).get(cell)
    select = (
        f"SELECT v.row, v.successor, {CHECKED}, {FACT_COLUMNS} FROM versions v "
        "LEFT JOIN facts f ON f.row = v.row WHERE v.cell = ? AND v.id = ? ORDER BY v.version"
    )
    versions = list(rows(connection, select, (cell, key)))
    if home is None or not all(is_sound(one[2 : 2 + N_CHECKED]) for one in versions):
        return False
    target = make_cell(connection, home._replace(source=source))
    taken = "SELECT 1 FROM documents WHERE cell = ? AND id = ?"
    if connection.execute(taken, (target, key)).get:
        return False
    connection.execute(
        "INSERT INTO documents SELECT ?, id, version, ?, pinned, access_count, last_accessed "
        "FROM documents WHERE cell = ? AND id = ?",
        (target, take_sequence(connection), cell, key),
    )
    for row, successor, *columns in versions:
        _, _, *kept = columns[:N_CHECKED]
        fact = read_fact(home, columns)
        made = insert_row(connection, (target, *kept), successor, embedding_of(connection, row))
        if fact is not None:
            put_interval(connection, Written(target, key, kept[1], made, 0), fact)
    connection.execute("DELETE FROM documents WHERE cell = ? AND id = ?", (cell, key))
    move_feedback(connection, cell, key, target)
    return True
