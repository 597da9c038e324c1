"""Facts: documents that hold for a time, most of them one at a time for a subject and predicate.

Each version of a fact has its interval beside it, so what was believed when stays readable.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import apsw
import numpy as np
import numpy.typing as npt

from hyrecall.errors import NotFoundError, OptionError, error
from hyrecall.memory.data.types import Episode, Fact, normal_predicate
from hyrecall.memory.sql.codec import (
    CHECKED,
    FACT_SOURCE,
    N_CHECKED,
    Cell,
    all_rows,
    cell_of,
    cells_by_number,
    checksum,
    content_of,
    from_json,
    from_micros,
    is_sound,
    is_text,
    make_cell,
    numbers_json,
    rows,
    to_json,
    to_micros,
    warn_of_damage,
)
from hyrecall.memory.sql.reading import embedding_of, head_row
from hyrecall.memory.sql.schema import HEAD, HIGHEST, LISTED
from hyrecall.memory.sql.writing import NewVersion, Written, append, remember

KIND = "fact"
"""The kind of the episodes that facts are recalled as."""

_FACTS = f"{HEAD} JOIN facts f USING (row)"
_KEPT = "row, cell, subject, predicate, object, valid_from, valid_to"
_COLUMNS = f"checksum, single, {_KEPT}"
FACT_COLUMNS = ", ".join(f"f.{name}" for name in _COLUMNS.split(", "))
"""A fact's checksum and all that it covers, as SQL: what :func:`read_fact` takes."""
_FACT = f"{CHECKED}, {FACT_COLUMNS}"
_IS_HIGHEST = f"v.version = {HIGHEST}"


def as_episode(fact: Fact) -> Episode:
    """Return the episode by which a fact is found."""
    fields = {
        **home_of(fact).identity(),
        "id": fact.id,
        "text": fact.text,
        "kind": KIND,
        "occurred_at": fact.valid_from,
        "metadata": fact.metadata,
    }
    return Episode.model_validate(fields)


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
    """Insert a fact between the one before it, which ends there, and the next one."""
    # One that ends when it begins holds at no time: it ends no other, nor does another end there.
    # If the same is held to be valid already, for all that time, nothing is inserted and the fact
    # that says so is returned, whatever its ``single`` is; if ``fact`` has an end, it ends there.
    cell = home_of(fact)
    number = make_cell(connection, cell)
    slot = list(_slot(connection, number, fact))
    end = fact.valid_to
    later = [
        held.valid_from
        for _, held in slot
        if held.valid_from > fact.valid_from and not _is_empty(held)
    ]
    fact = fact.model_copy(update={"valid_to": _earliest([fact.valid_to, *later])})
    same: Written | None = None
    for known, held in slot:
        if _is_empty(fact) or not held.is_valid_at(fact.valid_from):
            continue
        if held.object != fact.object or not _covers(held, fact):
            _end_at(connection, known, held, fact.valid_from, "followed by another fact", now)
        elif end is not None and held.is_valid_at(end):
            same = _end_at(connection, known, held, end, "said again with an end", now)
        else:
            same = known
    if same is not None:
        return same
    new = NewVersion(cell, as_episode(fact), vector, model)
    (written,) = remember(connection, [new], now)
    put_interval(connection, written, fact)
    return written


def end_fact(
    connection: apsw.Connection,
    cell: Cell,
    key: str,
    end: datetime | None,
    latest: datetime | None,
    reason: str | None,
    now: datetime,
) -> Written:
    """Set when a fact ends; None: where the next one of its subject and predicate begins, or
    never.
    """
    # ``latest``: then, if it would not have ended before.
    number = make_cell(connection, cell)
    found = _read(
        connection, "d.cell = ? AND d.id = ? AND v.status = 'live'", (number, key), [number]
    )
    if not found:
        if head_row(connection, number, key) is None:
            raise error(NotFoundError, "id", "a memory that is there", repr(key))
        raise error(OptionError, "id", "a fact (an episode has no end)", "an episode")
    ((row, held),) = found.items()
    slot = list(_slot(connection, number, held))
    known = next(known for known, _ in slot if known.row == row)
    following = [
        one.valid_from for _, one in slot if one.valid_from > held.valid_from and not _is_empty(one)
    ]
    if _is_empty(held) and any(one.is_valid_at(held.valid_from) for _, one in slot):
        following.append(held.valid_from)  # the fact that replaced it whole, or holds around it
    last = _earliest(following)
    if end is None and latest is not None:
        end = max(_earliest([held.valid_to, latest]) or latest, held.valid_from)
    elif end is None:
        end = last
    elif end < held.valid_from:
        wish = f"a time from valid_from ({held.valid_from.isoformat()}) on, or None"
        raise error(OptionError, "valid_to", wish, end.isoformat())
    elif last is not None and end > last:
        wish = f"a time up to {last.isoformat()}, when another fact holds"
        raise error(OptionError, "valid_to", wish, end.isoformat())
    if end == held.valid_to:
        return known
    return _end_at(connection, known, held, end, reason, now)


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
        f"INSERT INTO facts ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (_checksum(fact.single, kept), fact.single, *kept),
    )


def _checksum(single: object, kept: Sequence[Any]) -> int:
    """Return the checksum of a fact; of one of many values it differs."""
    return checksum(*kept) if single else checksum(*kept, 0)


def _is_empty(fact: Fact) -> bool:
    return fact.valid_to == fact.valid_from


def _earliest(times: Sequence[datetime | None]) -> datetime | None:
    return min((time for time in times if time is not None), default=None)


def _covers(held: Fact, fact: Fact) -> bool:
    """Return whether a fact that is valid when another begins stays valid until that one ends."""
    return held.valid_to is None or (fact.valid_to is not None and fact.valid_to <= held.valid_to)


def _slot(connection: apsw.Connection, cell: int, fact: Fact) -> Iterator[tuple[Written, Fact]]:
    """Return the facts of which at most one may hold beside this one, by begin."""
    # They are those with the same object, and if it is one of one value, all others of one value.
    where, given = "f.cell = ? AND f.subject = ?", (cell, fact.subject)
    said = _predicates(connection, where, given, fact.predicate)
    select = (
        f"SELECT {_IS_HIGHEST}, d.changed, {_FACT} FROM {_FACTS} WHERE {where} "
        f"AND f.predicate IN {LISTED} AND v.status = 'live' ORDER BY f.valid_from, v.row"
    )
    n_bad = 0
    for is_highest, changed, *columns in list(rows(connection, select, (*given, said))):
        held = read_fact(cell_of(fact), columns)
        if held is None or not is_highest:
            n_bad += 1
        elif held.object == fact.object or (held.single and fact.single):
            _, _, key, version, *_ = columns
            yield Written(cell, key, version, columns[_ROW], changed), held
    warn_of_damage(n_bad)


def _predicates(
    connection: apsw.Connection, where: str, given: tuple[Any, ...], wanted: str
) -> str:
    """Return the predicates of facts that are written otherwise or just so, as JSON."""
    select = f"SELECT DISTINCT f.predicate FROM facts f WHERE {where}"
    normal = normal_predicate(wanted)
    held = (one for (one,) in rows(connection, select, given) if is_text(one))
    return to_json([one for one in held if normal_predicate(one) == normal])


def _end_at(
    connection: apsw.Connection,
    known: Written,
    held: Fact,
    end: datetime | None,
    reason: str | None,
    now: datetime,
) -> Written:
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
        reason=reason,
    )
    put_interval(connection, ended, closed)
    return ended


# ---- reading ----


def has_facts(connection: apsw.Connection, cells: Collection[int]) -> bool:
    """Say whether a fact was ever kept in some cells."""
    select = f"SELECT EXISTS (SELECT 1 FROM facts WHERE cell IN {LISTED})"
    return bool(connection.execute(select, (numbers_json(cells),)).get)


def has_times(connection: apsw.Connection, cells: Collection[int]) -> tuple[bool, bool]:
    """Say whether some cells have had facts, and memories that expire."""
    select = (
        f"SELECT EXISTS (SELECT 1 FROM facts WHERE cell IN {LISTED}), EXISTS "
        f"(SELECT 1 FROM versions WHERE expires_at IS NOT NULL AND cell IN {LISTED})"
    )
    numbers = numbers_json(cells)
    facts, expiring = connection.execute(select, (numbers, numbers)).get
    return bool(facts), bool(expiring)


def memories_that_hold(
    connection: apsw.Connection, keys: Collection[str], cells: Collection[int], now: datetime
) -> set[tuple[int, str]]:
    """Return cell and id of memories with some ids, without facts that ended or have not begun."""
    select = (
        f"SELECT d.cell, d.id FROM {HEAD} "
        f"LEFT JOIN facts f USING (row) WHERE d.cell IN {LISTED} AND d.id IN {LISTED} "
        "AND v.status = 'live' AND (f.valid_to IS NULL OR f.valid_to > ?) "
        "AND (f.valid_from IS NULL OR f.valid_from <= ?)"
    )
    at = to_micros(now)
    given = (to_json(tuple(cells)), to_json(tuple(keys)), at, at)
    return set(rows(connection, select, given))


def behind_successors(
    connection: apsw.Connection, numbers: Sequence[int], cells: Collection[int], now: datetime
) -> list[int]:
    """Return the places of ranked rows, each ended fact directly behind what followed it."""
    # All others keep their order.
    facts = facts_of_rows(connection, numbers, cells)
    chains: dict[object, list[int]] = defaultdict(list)  # the one that began last first
    from_last = [at for at in reversed(range(len(numbers))) if numbers[at] in facts]
    for place in sorted(from_last, key=lambda at: interval(facts[numbers[at]])):
        chains[facts[numbers[place]].slot].insert(0, place)
    met: set[int] = set()
    order: dict[int, None] = {}
    for place, row in enumerate(numbers):
        met.add(place)
        fact = facts.get(row)
        if fact is None or not _has_ended(fact, now):
            order[place] = None
        for one in () if fact is None else chains[fact.slot]:
            if one not in met:
                break
            order.setdefault(one)
    return list(order)


def interval(fact: Fact) -> tuple[datetime, datetime]:
    """Return begin and end: a fact that was replaced from its beginning on ends first."""
    return fact.valid_from, fact.valid_to or datetime.max.replace(tzinfo=UTC)


def _has_ended(fact: Fact, now: datetime) -> bool:
    return fact.valid_to is not None and fact.valid_to <= now


def facts_of_rows(
    connection: apsw.Connection, numbers: Sequence[int], cells: Collection[int]
) -> dict[int, Fact]:
    """Return the facts of version rows, by row."""
    # A row is left out if it is no live version (any more), no fact, or lies in none of the cells.
    where = f"v.row IN {LISTED} AND v.cell IN {LISTED} AND v.status = 'live'"
    return _read(connection, where, (numbers_json(numbers), numbers_json(cells)), cells)


def facts_by_id(
    connection: apsw.Connection, keys: Collection[str], cells: Collection[int]
) -> list[Fact]:
    """Return the facts among live documents of cells, by their ids."""
    where = f"d.cell IN {LISTED} AND d.id IN {LISTED} AND v.status = 'live'"
    given = (to_json(tuple(cells)), to_json(tuple(keys)))
    return list(_read(connection, where, given, cells).values())


def valid_facts(
    connection: apsw.Connection,
    cells: Collection[int],
    *,
    valid_at: datetime | None = None,
    subject: str | None = None,
    predicate: str | None = None,
    object_: str | None = None,
) -> list[Fact]:
    """Return the facts of cells, by subject, predicate and begin."""
    where, given = f"f.cell IN {LISTED} AND v.status = 'live'", [to_json(tuple(cells))]
    for name, wanted in (("subject", subject), ("object", object_)):
        if wanted is not None:
            where += f" AND f.{name} = ?"
            given.append(wanted)
    if predicate is not None:
        in_cells = f"f.cell IN {LISTED}"
        given.append(_predicates(connection, in_cells, (given[0],), predicate))
        where += f" AND f.predicate IN {LISTED}"
    found = _read(connection, where, tuple(given), cells).values()
    return sorted(
        (one for one in found if valid_at is None or one.is_valid_at(valid_at)),
        key=lambda one: (one.subject, one.predicate, one.valid_from),
    )


def _read(
    connection: apsw.Connection, where: str, given: tuple[Any, ...], cells: Collection[int]
) -> dict[int, Fact]:
    select = f"SELECT {_IS_HIGHEST}, {_FACT} FROM {_FACTS} WHERE {where} ORDER BY v.row"
    kept = all_rows(connection, select, given)
    if not kept:
        return {}
    homes = cells_by_number(connection, cells)
    found, n_bad = {}, 0
    for is_highest, *columns in kept:
        fact = read_fact(homes.get(columns[1]), columns)
        if fact is None or not is_highest:
            n_bad += 1
        else:
            found[columns[_ROW]] = fact
    warn_of_damage(n_bad)
    return found


_ROW = N_CHECKED + 2  # of the columns of a fact, after its checksum and single


def read_fact(cell: Cell | None, columns: Sequence[Any]) -> Fact | None:
    """Return a fact of a cell; None: it, its version or its cell is damaged."""
    checked, (found, *kept) = columns[:N_CHECKED], columns[N_CHECKED:]
    single, *kept = kept
    _, _, subject, predicate, object_, valid_from, valid_to = kept
    is_whole = single in (0, 1) and _checksum(single, kept) == found
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
        single=bool(single),
        metadata=from_json(content_of(checked).metadata),
    )
