"""Encodes and decodes columns of a store: times as microseconds, vectors as bytes, tags as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

import apsw
import numpy as np
import numpy.typing as npt
import xxhash

from hyrecall.base.threads import warn_caller
from hyrecall.errors import CorruptStoreError, OptionError, ShapeError, error
from hyrecall.memory.data.types import Episode, construct_all
from hyrecall.memory.sql.schema import LISTED, has_tables, take_sequence

# ---- Finds damaged rows of a store by their checksums, and reads rows whose texts are damaged ----
# A checksum stands beside each row and covers what never changes of it.


class DamageWarning(UserWarning):
    """A call left out damaged rows that its caller may read; ``doctor(full=True)`` names them."""


def checksum(*values: str | bytes | float | None) -> int:
    """Return the checksum of a row's values, as an integer that SQLite can keep."""
    return checksums((values,))[0]


def checksums(kept: Iterable[Iterable[str | bytes | float | None]]) -> list[int]:
    """Return the checksums of rows' values."""
    # In one loop, the frequent types first: each row that is read comes by here.
    found = []
    for values in kept:
        parts = []
        for value in values:
            if value is None:
                parts.append(b"None")
            elif isinstance(value, str):
                parts.append(b"text " + value.encode("utf-8", "surrogateescape"))
            elif isinstance(value, int):
                parts.append(b"%d" % value)
            elif isinstance(value, bytes):
                parts.append(b"blob " + value)
            else:
                parts.append(ascii(value + 0.0).encode())  # SQLite gives 0.0 for -0.0
        digest = xxhash.xxh3_64_digest(b"\0".join(parts))
        found.append(int.from_bytes(digest, "big", signed=True))
    return found


def is_text(*values: object) -> bool:
    """Say whether each value is a text that UTF-8 can hold."""
    return all(isinstance(one, str) for one in values) and _is_unicode(values)


def _is_unicode(texts: Iterable[Any]) -> bool:
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return False
    return True


def rows(
    connection: apsw.Connection, select: str, given: tuple[Any, ...] = ()
) -> Iterator[tuple[Any, ...]]:
    """Return the rows of a SELECT, also where a text is not UTF-8."""
    # The bytes of such a text come as lone surrogates, so one damaged row stops no other. The order
    # of the rows must be the same each time the SELECT runs.
    n_given = 0
    try:
        for row in connection.execute(select, given):
            yield row
            n_given += 1
    except UnicodeDecodeError:
        yield from islice(_escaped(connection, select, given), n_given, None)


def all_rows(
    connection: apsw.Connection, select: str, given: tuple[Any, ...] = ()
) -> list[tuple[Any, ...]]:
    """Return the same rows as a list, which takes no call a row."""
    try:
        return connection.execute(select, given).fetchall()
    except UnicodeDecodeError:
        return list(_escaped(connection, select, given))


def _escaped(
    connection: apsw.Connection, select: str, given: tuple[Any, ...]
) -> Iterator[tuple[Any, ...]]:
    import apsw.ext

    names = [f"c{at}" for at in range(len(apsw.ext.query_info(connection, select).description))]
    wanted = ", ".join(
        f"typeof({one}), iif(typeof({one}) = 'text', CAST({one} AS BLOB), {one})" for one in names
    )
    wrapped = f"WITH q({', '.join(names)}) AS MATERIALIZED ({select}) SELECT {wanted} FROM q"
    for row in connection.execute(wrapped, given):
        pairs = zip(row[::2], row[1::2], strict=True)
        yield tuple(
            value.decode(errors="surrogateescape") if kind == "text" else value
            for kind, value in pairs
        )


def warn_of_damage(n_rows: int) -> None:
    """Warn that so many damaged rows were left out; of none, say nothing."""
    if n_rows:
        told = f"{n_rows} damaged rows were left out: doctor(full=True) names them"
        warn_caller(told, DamageWarning)


# ---- Cells: the units in which memories are isolated, each with a number in the store ----


class Cell(NamedTuple):
    """The owner of a memory, its partition, and its visibility. None is a value of its own."""

    # In a store with tables, what has another source lies in another cell, so that an id may stand
    # in several tables. Edges, and everything in a store without tables, have None there.

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


def same(one: str, other: str) -> str:
    """Return SQL that says whether two values are equal, or both null."""
    # The terms of the indexes cells_, roster_ and feedback_identity, so that SQLite uses them.
    return f"ifnull({one}, '') = ifnull({other}, '') AND ({one} IS NULL) = ({other} IS NULL)"


IN_PARTITION = f"{same('org', '?1')} AND {same('workspace', '?2')}"
OF_OWNER = f"{IN_PARTITION} AND {same('user', '?3')}"
CELLS = "SELECT checksum, cell, org, workspace, user, visibility, source FROM cells"
"""What :func:`is_sound_cell` takes."""
_EVERY_OF_USER = (
    f"{CELLS} WHERE {OF_OWNER} AND visibility IN ('global', 'private') ORDER BY visibility"
)
_OF_USER = f"{CELLS} WHERE {OF_OWNER} AND visibility = ?4"
_FIND = f"{_OF_USER} AND {same('source', '?5')}"
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


def cells_of_user(
    connection: apsw.Connection, org: str | None, workspace: str | None, user: str | None
) -> dict[int, Cell]:
    """Return all cells of a user by number, global ones first."""
    own = (org, workspace, user)
    kept = all_rows(connection, _EVERY_OF_USER, own)
    # A source that is null is not in the checksum: see _checksum.
    covered = [row[1:] if row[-1] is not None else row[1:-1] for row in kept]
    found = {}
    for row, seal in zip(kept, checksums(covered), strict=True):
        if row[0] != seal or row[2:5] != own:  # damaged: look closer
            both = (find_cells(connection, Cell(*own, one)) for one in ("global", "private"))
            return {number: cell for cells in both for number, cell in cells.items()}
        found[row[1]] = tuple.__new__(Cell, row[2:])
    return found


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
    # Leaves out a row that is damaged, or that a damaged index wrongly puts into the partition.
    # Where all cells are asked for, a warning tells how many; a reader of one visibility learns
    # nothing of others' damage.
    select, given = f"{CELLS} WHERE {IN_PARTITION}", (org, workspace)
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
    select = f"SELECT EXISTS (SELECT 1 FROM cells WHERE {IN_PARTITION} AND user IS NOT NULL)"
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
    select = f"{CELLS} WHERE cell IN {LISTED}"
    found = _cells(rows(connection, select, (json.dumps(wanted),)))
    return {number: found[number] for number in wanted if number in found}


def _cells(found: Iterable[tuple[Any, ...]]) -> dict[int, Cell]:
    """Return cells by number; nobody sees one whose row is damaged."""
    return {row[1]: Cell(*row[2:]) for row in found if is_sound_cell(row)}


# ---- Encodes and decodes columns of a store: times as microseconds, vectors as bytes, tags as JSON

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

# ---- times ----


def to_micros(time: datetime) -> int:
    """Return a time as microseconds since 1970."""
    return (time - _EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    """Return the time, in UTC, of so many microseconds since 1970."""
    return _EPOCH + timedelta(microseconds=micros)


# ---- vectors ----


def encode_vector(vector: npt.ArrayLike) -> bytes:
    """Return the bytes of a vector: little-endian float32, no header."""
    with np.errstate(over="ignore"):  # what overflows is refused below
        row = np.asarray(vector, dtype="<f4")
    if row.ndim != 1 or not row.size:
        raise error(ShapeError, "vector", "one row of numbers", f"shape {row.shape}")
    if not np.isfinite(row).all():
        raise error(OptionError, "vector", "finite numbers", "NaN or infinity")
    return row.tobytes()


def decode_vector(blob: bytes) -> npt.NDArray[np.float32]:
    """Return the vector of bytes from :func:`encode_vector`."""
    if not blob or len(blob) % 4:
        raise error(OptionError, "blob", "a multiple of 4 bytes", f"{len(blob)} bytes")
    row = np.frombuffer(blob, dtype="<f4")
    if not np.isfinite(row).all():
        raise error(OptionError, "blob", "finite numbers", "NaN or infinity")
    return row


def vector_checksum(blob: bytes | None, model: str | None) -> int | None:
    """Return the checksum of a vector and its model; of none, None."""
    return None if blob is None else checksum(blob, model)


# ---- JSON ----


# json.loads and json.dumps look at their options first, for each text.
_READ = json.JSONDecoder().decode
_WRITE = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def to_json(value: Mapping[str, Any] | Sequence[Any]) -> str:
    """Write metadata, tags, or a list for SQL."""
    return _WRITE(value)


def numbers_json(numbers: Iterable[int]) -> str:
    """Write a list of row or cell numbers for SQL."""
    return f"[{','.join(map(str, numbers))}]"


def from_json(text: str) -> Any:
    """Read what :func:`to_json` wrote."""
    return _READ(text)


# ---- episodes ----


class EpisodeColumns(NamedTuple):
    """The content of an episode as the columns of a version have it."""

    kind: str
    source: str | None
    session_id: str | None
    input: str
    output: str
    occurred_at: int
    importance: float | None
    tags: str
    metadata: str
    expires_at: int | None = None
    author: str | None = None


EPISODE_COLUMNS = ", ".join(EpisodeColumns._fields)
"""The same as SQL."""


def to_columns(episode: Episode) -> EpisodeColumns:
    """Return the columns of an episode; the rest of it is its cell, its id and its pin."""
    return EpisodeColumns(
        episode.kind,
        episode.source,
        episode.session_id,
        episode.input,
        episode.text,
        to_micros(episode.occurred_at),
        episode.importance,
        to_json(episode.tags),
        to_json(episode.metadata),
        None if episode.expires_at is None else to_micros(episode.expires_at),
        episode.author,
    )


_STATE = "cell, id, version, status, reason, recorded_at"
_KEPT = f"{_STATE}, {EPISODE_COLUMNS}"

CHECKED = ", ".join(f"v.{name}" for name in f"checksum, {_KEPT}".split(", "))
"""A version's checksum and all that it covers, as SQL: what :func:`is_sound` takes."""

N_CHECKED = CHECKED.count(",") + 1
N_BEFORE_CONTENT = N_CHECKED - len(EpisodeColumns._fields)
"""Columns of :data:`CHECKED` before those of the content."""


def is_sound(checked: Sequence[Any]) -> bool:
    """Return whether a version is undamaged."""
    found, *kept = checked
    return bool(checksum(*kept) == found)


def is_time(micros: object) -> bool:
    """Return whether a value of a column is a time."""
    try:
        return isinstance(micros, int) and bool(from_micros(micros))
    except OverflowError:
        return False


def content_of(checked: Sequence[Any]) -> EpisodeColumns:
    """Return the content of a version from the columns :data:`CHECKED`."""
    return EpisodeColumns(*checked[N_BEFORE_CONTENT:])


KeptEpisode: TypeAlias = "tuple[Cell, str, int, Sequence[Any], object, int]"
"""Cell, id, pin, content in the order of ``EPISODE_COLUMNS``, the time of the first version, and
the number of this one."""


def episode_of(cell: Cell, key: str, pinned: int, columns: Sequence[Any], version: int) -> Episode:
    """Return the episode that is kept in these columns, in the order of ``EPISODE_COLUMNS``."""
    return episodes_of(((cell, key, pinned, columns, None, version),))[0]


def episodes_of(kept: Iterable[KeptEpisode]) -> list[Episode]:
    """Return the episodes that are kept in some rows."""
    # They were checked when they were written, and are not checked again.
    found = []
    for cell, key, pinned, columns, stored, version in kept:
        kind, source, session_id, given, output, occurred_at, importance, *others = columns
        tags, metadata, expires_at, author = others
        time = _EPOCH + timedelta(microseconds=occurred_at)
        try:
            stored_at = _EPOCH + timedelta(microseconds=stored) if isinstance(stored, int) else None
        except OverflowError:  # no checksum covers it
            stored_at = None
        found.append(
            {
                "user_id": cell[2],
                "org": cell[0],
                "workspace": cell[1],
                "visibility": cell[3],
                "id": key,
                "input": given,
                "text": output,
                "kind": kind,
                "source": source,
                "session_id": session_id,
                "occurred_at": time,
                "created_at": time,
                "stored_at": stored_at,
                "version": version,
                "importance": importance,
                "pinned": bool(pinned),
                "tags": () if tags == "[]" else tuple(_READ(tags)),
                "metadata": {} if metadata == "{}" else _READ(metadata),
                "expires_at": None if expires_at is None else from_micros(expires_at),
                "author": author,
            }
        )
    return construct_all(Episode, found)
