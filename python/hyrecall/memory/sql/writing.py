"""Writes documents: appends a version and points its document to it.

Every function works inside the caller's transaction and returns what it changed. After an error the
caller rolls the transaction back, so nothing of it is kept.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import apsw
import numpy as np
import numpy.typing as npt

from hyrecall.errors import DTypeError, KeyConflictError, NotFoundError, OptionError, error
from hyrecall.memory.data.types import Episode, checked
from hyrecall.memory.sql.codec import (
    CHECKED,
    Cell,
    add_cell,
    as_kept,
    content_of,
    encode_vector,
    find_cell,
    is_sound,
    rows,
    to_columns,
    to_json,
    to_micros,
)
from hyrecall.memory.sql.edge_rows import forget_feedback_on, unlink_all, unlink_incident
from hyrecall.memory.sql.reading import (
    KEPT_NOW,
    STORED,
    Embedding,
    embedding_of,
    episode_by_id,
    head_row,
    insert_row,
    insert_version,
    set_embedding,
    set_embeddings,
)
from hyrecall.memory.sql.schema import EXPIRED, HEAD, LISTED, take_sequence

# ---- Selects documents of cells by ids, a session or a time ----

_IS_HIGHEST = (  # no checksum covers the number in documents
    "NOT EXISTS (SELECT 1 FROM versions w WHERE w.cell = d.cell AND w.id = d.id "
    "AND w.version > d.version)"
)
_IS_FACT = (  # also of a tombstone, which itself says nothing
    f"EXISTS (SELECT 1 FROM facts f JOIN versions w USING (row) WHERE {KEPT_NOW})"
)
_LAST_SESSION = (
    "(SELECT s.session_id FROM versions s WHERE s.cell = d.cell AND s.id = d.id "
    "AND s.status <> 'deleted' ORDER BY s.version DESC LIMIT 1)"
)


@dataclass(frozen=True)
class Selection:
    """The documents of some cells that meet all other given conditions."""

    cells: Collection[int]
    ids: Collection[str] | None = None
    session_id: str | None = None
    before: datetime | None = None
    homes: tuple[tuple[int, str], ...] | None = None
    expired: bool = False
    owner: tuple[str | None, str | None, str | None] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether all that is in the cells is selected."""
        narrower = (self.ids, self.session_id, self.before, self.homes)
        return not self.expired and all(one is None for one in narrower)


def check_which(user: object, *narrower: object, everything: object) -> None:
    """Refuse a removal that nothing but its user narrows, unless the caller says ``everything``."""
    # An id that is missing by mistake must not remove all that a user has.
    if not isinstance(everything, bool | str):
        wish = "True, or the name of the user"
        raise error(DTypeError, "everything", wish, repr(everything))
    is_narrow = any(one is not None for one in narrower)
    is_all = everything is True or isinstance(everything, str)
    if is_all and is_narrow:
        wish = "False beside an id, a session_id, a time or a filter"
        raise error(OptionError, "everything", wish, repr(everything))
    if is_all and user is None:
        raise error(OptionError, "user_id", "a named user beside everything", None)
    if isinstance(everything, str) and everything != user:
        raise error(OptionError, "everything", "the name of the user", repr(everything))
    if not is_all and not is_narrow:
        wish = "an id, a session_id, a time, a filter, or everything=True for all of a user"
        raise error(OptionError, "id", wish, "none of them")


def selected(
    connection: apsw.Connection, selection: Selection, *, deleted_too: bool = False
) -> list[tuple[int, str]]:
    """Return cell and id of the selected documents; never of documents in other cells."""
    wanted = f"d.cell IN {LISTED}"
    if not deleted_too:
        wanted += f" AND v.status <> 'deleted' AND {_IS_HIGHEST}"
    given: list[Any] = [to_json(tuple(selection.cells))]
    if selection.ids is not None:
        wanted += f" AND d.id IN {LISTED}"
        given.append(to_json(tuple(selection.ids)))
    if selection.session_id is not None:
        wanted += f" AND {_LAST_SESSION if deleted_too else 'v.session_id'} = ?"
        given.append(selection.session_id)
    if selection.expired:
        wanted += f" AND v.status <> 'deleted' AND v.expires_at IS NOT NULL AND {EXPIRED}"
    if selection.homes is not None:
        one = "SELECT value ->> 0, value ->> 1 FROM json_each(?)"
        wanted += f" AND (d.cell, d.id) IN ({one})"
        given.append(to_json(selection.homes))
    if selection.before is not None:
        wanted += f" AND iif({_IS_FACT}, {STORED}, v.occurred_at) < ?"
        given.append(to_micros(selection.before))
    select = f"SELECT d.cell, d.id FROM {HEAD} WHERE {wanted} ORDER BY d.cell, d.id"
    return list(connection.execute(select, given))


# ---- Writes documents: appends a version and points its document to it ----

FIXED_FIELDS = ("id", "user_id", "org", "workspace", "stored_at", "version")
"""What an update cannot change: they say which document it is, whose, and since when."""

_POINT = (
    "INSERT INTO documents (cell, id, version, changed, pinned) VALUES (?, ?, ?, ?, ?) "
    "ON CONFLICT (cell, id) DO UPDATE SET version = excluded.version, "
    "changed = excluded.changed, pinned = excluded.pinned"
)
_FORGET_ACCESSES = (
    "UPDATE documents SET access_count = 0, last_accessed = NULL WHERE cell = ? AND id = ?"
)
_LIVE = (
    "SELECT d.cell, d.id FROM json_each(?) one "
    "JOIN documents d ON d.cell = one.value ->> 0 AND d.id = one.value ->> 1 "
    "JOIN versions v ON (v.cell, v.id, v.version) = (d.cell, d.id, d.version) "
    "WHERE v.status = 'live'"
)
_ANY = "episodic"  # the kind of a tombstone says nothing


@dataclass(frozen=True)
class NewVersion:
    """An episode to write, its cell, and its vector with the model that made it, if any."""

    cell: Cell
    episode: Episode
    vector: npt.NDArray[np.float32] | None = None
    model: str | None = None

    def embedding(self) -> Embedding:
        """Return the columns of the vector."""
        if self.vector is None:
            return None, None
        if self.model is None:
            raise error(OptionError, "model", "the name of the vector's model", None)
        return encode_vector(self.vector), self.model


class Written(NamedTuple):
    """A version that was appended."""

    cell: int
    id: str
    version: int
    row: int
    changed: int


# ---- new documents ----


def remember(
    connection: apsw.Connection, new_rows: Sequence[NewVersion], now: datetime
) -> list[Written]:
    """Keep new episodes."""
    # An id that was deleted in its cell may come again, as the next version.
    if not new_rows:
        return []
    # Cells are looked up, and change numbers taken, once for all rows. A new cell takes its number
    # just before the first of its rows.
    kept = {one: as_kept(connection, one) for one in {new.cell for new in new_rows}}
    cells = {one: find_cell(connection, one) for one in set(kept.values())}
    n_new_cells = sum(number is None for number in cells.values())
    next_number = itertools.count(take_sequence(connection, len(new_rows) + n_new_cells))
    written = []
    for new in new_rows:
        cell = cells[kept[new.cell]]
        if cell is None:
            cell = add_cell(connection, kept[new.cell], next(next_number))
            cells[kept[new.cell]] = cell
        changed = next(next_number)
        last, status = _head(connection, cell, new.episode.id)
        if status == "deleted":
            connection.execute(_FORGET_ACCESSES, (cell, new.episode.id))
        elif status == "expired":
            _retire(connection, cell, new.episode.id, "deleted", "expired", None, now)
            unlink_incident(connection, cell, [new.episode.id], "expired", now)
            connection.execute(_FORGET_ACCESSES, (cell, new.episode.id))
            last, changed = last + 1, take_sequence(connection)
        elif status is not None:
            wish, got = "an id that is free", f"{new.episode.id!r}, which is {status}"
            # A change needs a live one; what is superseded or archived can only be given up.
            remedy = "update(id, ...)" if status == "live" else "forget(id), then it is free"
            raise error(KeyConflictError, "id", wish, got, remedy)
        written.append(
            append(connection, cell, new.episode, last + 1, new.embedding(), now, changed=changed)
        )
    return written


# ---- changes of documents ----


def update(
    connection: apsw.Connection,
    cell: Cell,
    key: str,
    changes: Mapping[str, Any],
    vector: npt.NDArray[np.float32] | None,
    model: str | None,
    reason: str | None,
    now: datetime,
) -> Written:
    """Append a version with other fields."""
    # Without a vector the last one is kept where the text is the same, and otherwise there is none:
    # that of another text would be wrong. Another ``visibility`` moves the episode: it is deleted
    # in this cell and new in the other.
    fixed = sorted(set(changes) & set(FIXED_FIELDS))
    if fixed:
        raise error(OptionError, fixed[0], f"none of {', '.join(FIXED_FIELDS)}", "a change of it")
    number, old, row = _found(connection, cell, key)
    if connection.execute("SELECT 1 FROM facts WHERE row = ?", (row,)).get:
        raise error(OptionError, "id", "an episode (a fact changes by a new one)", "a fact")
    new = _changed(old, changes)
    embedding: Embedding = (None, None)
    if vector is not None:
        embedding = NewVersion(cell, new, vector, model).embedding()
    elif new.full_text == old.full_text:
        embedding = embedding_of(connection, row)
    target = as_kept(connection, cell._replace(visibility=new.visibility, source=new.source))
    if target == cell:
        last, _ = _head(connection, number, key)
        return append(connection, number, new, last + 1, embedding, now, reason=reason)
    _retire(connection, number, key, "deleted", reason, None, now)
    unlink_incident(connection, number, [key], reason, now)
    (moved,) = remember(connection, [NewVersion(target, new)], now)
    set_embedding(connection, moved.row, embedding)
    return moved


def supersede(
    connection: apsw.Connection,
    cell: Cell,
    key: str,
    new: NewVersion,
    reason: str | None,
    now: datetime,
) -> Written:
    """Replace an old episode by a new one, which the history of the old one then names."""
    number, _, _ = _found(connection, cell, key)
    _retire(connection, number, key, "superseded", reason, new.episode.id, now)
    (written,) = remember(connection, [new], now)
    return written


def forget(
    connection: apsw.Connection, selection: Selection, reason: str | None, now: datetime
) -> int:
    """Append a tombstone to every selected document; return how many."""
    # The edges that one of them takes part in go too, and all of a cell that is selected whole.
    found = selected(connection, selection)
    by_cell: dict[int, list[str]] = {}
    for cell, key in found:
        _retire(connection, cell, key, "deleted", reason, None, now)
        by_cell.setdefault(cell, []).append(key)
    for cell, keys in by_cell.items():
        unlink_incident(connection, cell, keys, reason, now)
    if selection.is_whole:
        unlink_all(connection, selection.cells, reason, now)
    return len(found)


def pin(connection: apsw.Connection, cell: Cell, key: str, on: bool) -> int:
    """Pin or unpin an episode; return its change number, the old one if nothing changed."""
    number, _, _ = _found(connection, cell, key)
    where = (number, key)
    select = "SELECT pinned, changed FROM documents WHERE cell = ? AND id = ?"
    pinned, changed = connection.execute(select, where).get
    if bool(pinned) != on:
        changed = take_sequence(connection)
        change = "UPDATE documents SET pinned = ?, changed = ? WHERE cell = ? AND id = ?"
        connection.execute(change, (on, changed, *where))
    return int(changed)


def touch(connection: apsw.Connection, rows: Sequence[tuple[Cell, str]], now: datetime) -> int:
    """Count an access of each live episode; return how many there were."""
    cells = {cell: find_cell(connection, cell) for cell in {cell for cell, _ in rows}}
    wanted = [(cells[cell], key) for cell, key in rows if cells[cell] is not None]
    live = set(connection.execute(_LIVE, (to_json(wanted),)))
    times = Counter(home for home in wanted if home in live)
    if not times:
        return 0
    first = take_sequence(connection, len(times))
    given = [(*home, n, first + at) for at, (home, n) in enumerate(times.items())]
    connection.execute(
        "UPDATE documents SET access_count = access_count + (one.value ->> 2), last_accessed = ?, "
        "changed = one.value ->> 3 FROM json_each(?) one "
        "WHERE documents.cell = one.value ->> 0 AND documents.id = one.value ->> 1",
        (to_micros(now), to_json(given)),
    )
    return times.total()


def set_vectors(connection: apsw.Connection, rows: Sequence[tuple[int, bytes, str]]) -> int:
    """Write vectors and their model to version rows; leaves out rows that are no longer live."""
    numbers = to_json([row for row, _, _ in rows])
    select = f"SELECT v.row, d.cell, d.id FROM {HEAD} WHERE v.status = 'live' AND v.row IN {LISTED}"
    homes = {row: (cell, key) for row, cell, key in connection.execute(select, (numbers,))}
    kept = [(row, (blob, model)) for row, blob, model in rows if row in homes]
    if not kept:
        return 0
    set_embeddings(connection, kept)
    first = take_sequence(connection, len(kept))
    changed = [(*homes[row], first + at) for at, (row, _) in enumerate(kept)]
    change = "UPDATE documents SET changed = ?3 WHERE cell = ?1 AND id = ?2"
    connection.executemany(change, changed)
    return len(kept)


# ---- shared ----


def append(
    connection: apsw.Connection,
    cell: int,
    episode: Episode,
    version: int,
    embedding: Embedding,
    now: datetime,
    *,
    reason: str | None = None,
    changed: int | None = None,
) -> Written:
    """Append a live version and point its document to it; ``changed`` is reserved by the caller."""
    changed = take_sequence(connection) if changed is None else changed
    connection.execute(_POINT, (cell, episode.id, version, changed, episode.pinned))
    row = insert_version(
        connection, cell, episode, version, embedding, to_micros(now), reason=reason
    )
    return Written(cell, episode.id, version, row, changed)


def _retire(
    connection: apsw.Connection,
    cell: int,
    key: str,
    status: str,
    reason: str | None,
    successor: str | None,
    now: datetime,
) -> Written:
    """Append a version that is not live: without content if it is a tombstone, else as it was."""
    changed = take_sequence(connection)
    select = f"SELECT d.version, {CHECKED} FROM {HEAD} WHERE d.cell = ? AND d.id = ?"
    (last, *checked), at = next(rows(connection, select, (cell, key))), to_micros(now)
    content = content_of(checked)
    if status == "deleted":  # also of a damaged one, of which nothing may go on
        kind, time = (content.kind, content.occurred_at) if is_sound(checked) else (_ANY, at)
        content = to_columns(Episode(kind=kind))._replace(occurred_at=time)
        forget_feedback_on(connection, cell, key)
    row = insert_row(connection, (cell, key, last + 1, status, reason, at, *content), successor)
    point = (
        "UPDATE documents SET version = version + 1, changed = ? WHERE cell = ? AND id = ? "
        "RETURNING version"
    )
    version: int = connection.execute(point, (changed, cell, key)).get
    return Written(cell, key, version, row, changed)


def _head(connection: apsw.Connection, cell: int, key: str) -> tuple[int, str | None]:
    """Return the highest version of a document and its status; 0 and None if there is none."""
    status = f"iif(v.status = 'live' AND {EXPIRED}, 'expired', v.status)"
    select = f"SELECT d.version, {status} FROM {HEAD} WHERE d.cell = ? AND d.id = ?"
    found: tuple[int, str] | None = connection.execute(select, (cell, key)).get
    return found or (0, None)


def _found(connection: apsw.Connection, cell: Cell, key: str) -> tuple[int, Episode, int]:
    """Return the number of the cell, the live episode and its row."""
    number = find_cell(connection, cell)
    row = None if number is None else head_row(connection, number, key)
    episode = None if number is None else episode_by_id(connection, number, key)
    if number is None or row is None or episode is None:
        raise error(NotFoundError, "id", "a memory that is there", repr(key))
    return number, episode, row


def _changed(old: Episode, changes: Mapping[str, Any]) -> Episode:
    fields = {name: getattr(old, name) for name in Episode.model_fields}
    if {"occurred_at", "created_at"} & set(changes):  # two names of one time
        del fields["occurred_at"], fields["created_at"]
    return checked(Episode, {**fields, **changes})
