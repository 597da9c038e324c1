"""Facts: documents that hold for a time, at most one at a time for a subject and a predicate.

Each version of a fact has its interval beside it, so what was believed when stays readable.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import apsw
import numpy as np
import numpy.typing as npt

from hyrecall.memory.data.fields import AS_KEPT
from hyrecall.memory.data.types import Episode, Fact, Status
from hyrecall.memory.sql.cells import FACT_SOURCE, Cell, cell_of, cells_by_number, make_cell
from hyrecall.memory.sql.codec import (
    CHECKED,
    N_CHECKED,
    content_of,
    from_json,
    from_micros,
    is_sound,
    is_time,
    to_json,
    to_micros,
)
from hyrecall.memory.sql.damaged_rows import checksum, is_text, rows, warn_of_damage
from hyrecall.memory.sql.reading import HIGHEST
from hyrecall.memory.sql.version_rows import embedding_of
from hyrecall.memory.sql.writing import NewVersion, Written, append, remember

__all__ = [
    "FACT_COLUMNS",
    "KIND",
    "FactVersion",
    "as_episode",
    "assert_fact",
    "fact_history",
    "facts_of_rows",
    "put_interval",
    "read_fact",
    "valid_facts",
]

KIND = "fact"
"""The kind of the episodes that facts are recalled as."""

_HEAD = "documents d JOIN versions v USING (cell, id, version) JOIN facts f USING (row)"
_LISTED = "(SELECT value FROM json_each(?))"
_KEPT = "row, cell, subject, predicate, object, valid_from, valid_to"
FACT_COLUMNS = ", ".join(f"f.{name}" for name in f"checksum, {_KEPT}".split(", "))
"""A fact's checksum and all that it covers, as SQL: what :func:`read_fact` takes."""
_FACT = f"{CHECKED}, {FACT_COLUMNS}"
_IS_HIGHEST = f"v.version = {HIGHEST}"


@dataclass(frozen=True)
class FactVersion:
    """One version of a fact, believed from ``recorded_at`` on."""

    version: int
    status: Status
    reason: str | None
    recorded_at: datetime
    fact: Fact


def as_episode(fact: Fact) -> Episode:
    """Return the episode by which a fact is found."""
    fields = {
        **home_of(fact).identity(),
        "id": fact.id,
        "output": fact.text,
        "kind": KIND,
        "occurred_at": fact.valid_from,
        "metadata": fact.metadata,
    }
    return Episode.model_validate(fields, context=AS_KEPT)


def home_of(fact: Fact) -> Cell:
    """Return the cell of a fact."""
    return cell_of(fact)._replace(source=FACT_SOURCE)


# ---- writing: inside a transaction ----


def assert_fact(
    connection: apsw.Connection,
    fact: Fact,
    vector: npt.NDArray[np.float32] | None,
    model: str | None,
    now: datetime,
) -> Written:
    """Insert a fact between the one before it, which ends there, and the next one.

    One that ends when it begins holds at no time: it ends no other, nor does another end there.
    Where the same is held to be valid already, for all that time, nothing is written and the fact
    that says so is given.

    Raises
    ------
    KeyConflictError
        The cell has the id.
    """
    cell = home_of(fact)
    number = make_cell(connection, cell)
    slot = list(_slot(connection, number, fact))
    later = [
        held.valid_from
        for _, held in slot
        if held.valid_from > fact.valid_from and not _is_empty(held)
    ]
    fact = fact.model_copy(update={"valid_to": _earliest([fact.valid_to, *later])})
    for known, held in slot:
        if _is_empty(fact) or not held.is_valid_at(fact.valid_from):
            continue
        if held.object == fact.object and _covers(held, fact):
            return known
        _close(connection, cell, known, held, fact.valid_from, now)
    new = NewVersion(cell, as_episode(fact), vector, model)
    (written,) = remember(connection, [new], now)
    put_interval(connection, written, fact)
    return written


def put_interval(connection: apsw.Connection, written: Written, fact: Fact) -> None:
    """Write a fact's content and interval beside its version."""
    kept = (
        written.row,
        written.cell,
        fact.subject,
        fact.predicate,
        fact.object,
        to_micros(fact.valid_from),
        None if fact.valid_to is None else to_micros(fact.valid_to),
    )
    connection.execute(
        f"INSERT INTO facts (checksum, {_KEPT}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (checksum(*kept), *kept),
    )


def _is_empty(fact: Fact) -> bool:
    return fact.valid_to == fact.valid_from


def _earliest(times: Sequence[datetime | None]) -> datetime | None:
    return min((time for time in times if time is not None), default=None)


def _covers(held: Fact, fact: Fact) -> bool:
    """Return whether a fact that is valid when another begins stays valid until that one ends."""
    return held.valid_to is None or (fact.valid_to is not None and fact.valid_to <= held.valid_to)


def _slot(connection: apsw.Connection, cell: int, fact: Fact) -> Iterator[tuple[Written, Fact]]:
    """Return the facts of a subject and predicate."""
    select = (
        f"SELECT {_IS_HIGHEST}, d.changed, {_FACT} FROM {_HEAD} WHERE f.cell = ? AND f.subject = ? "
        "AND f.predicate = ? AND v.status = 'live' ORDER BY f.valid_from, v.row"
    )
    given = (cell, fact.subject, fact.predicate)
    n_bad = 0
    for is_highest, changed, *columns in list(rows(connection, select, given)):
        held = read_fact(cell_of(fact), columns)
        if held is None or not is_highest:
            n_bad += 1
        else:
            _, _, key, version, *_ = columns
            yield Written(cell, key, version, columns[_ROW], changed), held
    warn_of_damage(n_bad)


def _close(
    connection: apsw.Connection,
    cell: Cell,
    known: Written,
    held: Fact,
    end: datetime,
    now: datetime,
) -> None:
    """Append a version that ends there; its text, its vector and its pin are the same."""
    closed = held.model_copy(update={"valid_to": end})
    select = "SELECT pinned FROM documents WHERE cell = ? AND id = ?"
    pinned = bool(connection.execute(select, (known.cell, known.id)).get)
    ended = append(
        connection,
        known.cell,
        as_episode(closed).model_copy(update={"pinned": pinned}),
        known.version + 1,
        embedding_of(connection, known.row),
        now,
        reason="followed by another fact",
    )
    put_interval(connection, ended, closed)


# ---- reading ----


def facts_of_rows(
    connection: apsw.Connection, numbers: Sequence[int], cells: Collection[int]
) -> dict[int, Fact]:
    """Return the facts of version rows, by row.

    A row is left out if it is no live version (any more), no fact, or lies in none of the cells.
    """
    where = f"v.row IN {_LISTED} AND v.cell IN {_LISTED} AND v.status = 'live'"
    return _read(connection, where, (to_json(tuple(numbers)), to_json(tuple(cells))), cells)


def valid_facts(
    connection: apsw.Connection,
    cells: Collection[int],
    *,
    valid_at: datetime | None = None,
    subject: str | None = None,
    predicate: str | None = None,
    object_: str | None = None,
) -> list[Fact]:
    """Return the facts of cells, by subject, predicate and begin.

    Parameters
    ----------
    connection : apsw.Connection
    cells : collection of int
    valid_at : datetime, optional
        Only what holds at that time.
    subject, predicate, object_ : str, optional
        Only facts that say so.
    """
    where, given = f"f.cell IN {_LISTED} AND v.status = 'live'", [to_json(tuple(cells))]
    said = (("subject", subject), ("predicate", predicate), ("object", object_))
    for name, wanted in said:
        if wanted is not None:
            where += f" AND f.{name} = ?"
            given.append(wanted)
    found = _read(connection, where, tuple(given), cells).values()
    return sorted(
        (one for one in found if valid_at is None or one.is_valid_at(valid_at)),
        key=lambda one: (one.subject, one.predicate, one.valid_from),
    )


def fact_history(connection: apsw.Connection, cell: int, key: str) -> list[FactVersion]:
    """Return every version of a fact that says something, oldest first."""
    select = (
        f"SELECT {_FACT} FROM versions v JOIN facts f USING (row) "
        "WHERE v.cell = ? AND v.id = ? ORDER BY v.version"
    )
    homes = cells_by_number(connection, [cell])
    found, n_bad = [], 0
    for columns in rows(connection, select, (cell, key)):
        fact = read_fact(homes.get(cell), columns)
        if fact is None:
            n_bad += 1
            continue
        _, _, _, version, status, reason, recorded_at, *_ = columns
        found.append(FactVersion(version, status, reason, from_micros(recorded_at), fact))
    warn_of_damage(n_bad)
    return found


def _read(
    connection: apsw.Connection, where: str, given: tuple[Any, ...], cells: Collection[int]
) -> dict[int, Fact]:
    homes = cells_by_number(connection, cells)
    select = f"SELECT {_IS_HIGHEST}, {_FACT} FROM {_HEAD} WHERE {where} ORDER BY v.row"
    found, n_bad = {}, 0
    for is_highest, *columns in rows(connection, select, given):
        fact = read_fact(homes.get(columns[1]), columns)
        if fact is None or not is_highest:
            n_bad += 1
        else:
            found[columns[_ROW]] = fact
    warn_of_damage(n_bad)
    return found


_ROW = N_CHECKED + 1  # of the columns of a fact, after its checksum


def read_fact(cell: Cell | None, columns: Sequence[Any]) -> Fact | None:
    """Return a fact of a cell; None: it, its version or its cell is damaged.

    Parameters
    ----------
    cell : Cell or None
    columns : sequence
        Those of :data:`hyrecall.memory.sql.codec.CHECKED` and then of :data:`FACT_COLUMNS`.
    """
    checked, (found, *kept) = columns[:N_CHECKED], columns[N_CHECKED:]
    _, _, subject, predicate, object_, valid_from, valid_to = kept
    if found is None:
        texts, times = (subject, predicate, object_), (valid_from, valid_to or 0)
        is_whole = is_text(*texts) and all(map(is_time, times))
    else:
        is_whole = checksum(*kept) == found
    if cell is None or not is_whole or not is_sound(checked):
        return None
    return Fact.model_construct(
        **cell.identity(),
        id=checked[2],
        subject=subject,
        predicate=predicate,
        object=object_,
        valid_from=from_micros(valid_from),
        valid_to=None if valid_to is None else from_micros(valid_to),
        metadata=from_json(content_of(checked).metadata),
    )
