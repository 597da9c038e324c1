"""Reads episodes, versions, changes and read policies of a store."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

import apsw

from hyrecall.base.progress import ROOM, Room
from hyrecall.errors import CorruptStoreError, OptionError, error
from hyrecall.memory.data.types import Episode, Status, Version, check_id
from hyrecall.memory.sql.codec import (
    CHECKED,
    EPISODE_COLUMNS,
    IN_PARTITION,
    N_BEFORE_CONTENT,
    N_CHECKED,
    Cell,
    KeptEpisode,
    all_rows,
    cells_by_number,
    checksum,
    checksums,
    content_of,
    episode_of,
    episodes_of,
    from_micros,
    is_sound,
    is_text,
    numbers_json,
    rows,
    to_columns,
    to_json,
    vector_checksum,
    warn_of_damage,
)
from hyrecall.memory.sql.schema import EXPIRED, HEAD, HIGHEST, LISTED, LIVE, NOW, take_sequence

KEPT_NOW = (
    "w.cell = d.cell AND w.id = d.id AND w.version > ifnull((SELECT max(t.version) "
    "FROM versions t WHERE t.cell = d.cell AND t.id = d.id AND t.version < d.version "
    "AND t.status = 'deleted'), 0)"
)
"""Whether a version w belongs to what a document d is now, as SQL.

Versions before a deletion do not: another memory may have taken the id since.
"""
STORED = f"(SELECT min(w.recorded_at) FROM versions w WHERE {KEPT_NOW})"
"""When a document d was kept, as SQL: at its first version, or at the first after a deletion."""

# The document may be missing only because the id in the row is damaged. One that points to a
# version below the highest is damaged itself.
_OF_ROWS = (
    f"SELECT v.row, {EXPIRED}, d.pinned, d.version, {HIGHEST}, {STORED}, {CHECKED} "
    "FROM versions v LEFT JOIN documents d "
    "ON (d.cell, d.id, d.version) = (v.cell, v.id, v.version) "
    f"WHERE v.row IN {LISTED} AND v.cell IN {LISTED} ORDER BY v.row"
)
_N_BEFORE = 6  # of these columns before those that are checked
_NEWEST_FIRST = "ORDER BY v.occurred_at DESC, v.row DESC"


class ChangedDocument(NamedTuple):
    """A document that changed, and the row of its live version; None: it is not live any more."""

    changed: int
    cell: int
    id: str
    row: int | None


class Accesses(NamedTuple):
    """How often a memory was accessed, when last, and when it was last written."""

    times: int
    last: datetime | None
    written: datetime


def episodes_of_rows(
    connection: apsw.Connection,
    numbers: Sequence[int],
    cells: Mapping[int, Cell] | Collection[int],
    damaged: set[int] | None = None,
    *,
    shown: bool = False,
) -> dict[int, Episode]:
    """Return the episodes of version rows, by row; those to be ``shown`` take room of a reply."""
    # Cells that come with their numbers were read before, and are not read again. A row is left out
    # if it is not its document's live version (any more), or lies in none of the cells: nothing of
    # it but that is looked at. One that is damaged is left out and put into ``damaged``; without
    # that, a warning tells how many were.
    given = (numbers_json(numbers), numbers_json(cells))
    homes = cells if isinstance(cells, dict) else cells_by_number(connection, cells)
    bad: set[int] = set()
    room = ROOM.get() if shown else None
    if room is None:
        live = _live(all_rows(connection, _OF_ROWS, given), homes, bad)
    else:  # a text that would be too much is the last that is read
        live = {}
        for row in rows(connection, _OF_ROWS, given):
            own = _live((row,), homes, bad)
            if own:
                _take_room(room, row[_N_BEFORE:])
            live |= own
    if damaged is None:
        warn_of_damage(len(bad))
    else:
        damaged |= bad
    return dict(zip(live, episodes_of(live.values()), strict=True))


def _live(
    kept: Sequence[tuple[Any, ...]], homes: Mapping[int, Cell], bad: set[int]
) -> dict[int, KeptEpisode]:
    """Return live versions by their rows; the rows of damaged ones go to ``bad``."""
    found: dict[int, KeptEpisode] = {}
    seals = checksums([row[_N_BEFORE + 1 :] for row in kept])
    for row, seal in zip(kept, seals, strict=True):
        number, is_expired, pinned, head, highest, stored, own, cell, key, version, *others = row
        if seal != own or head not in (None, highest):
            bad.add(number)
        elif head is not None and others[0] == "live" and not is_expired and cell in homes:
            content = row[_N_BEFORE + N_BEFORE_CONTENT :]
            found[number] = homes[cell], key, pinned, content, stored, version
    return found


def homes_of_rows(connection: apsw.Connection, numbers: Sequence[int]) -> list[tuple[Cell, str]]:
    """Return cell and id of the documents of version rows; leaves out rows that are gone."""
    found = places_of_rows(connection, numbers)
    homes = cells_by_number(connection, {cell for cell, _ in found})
    return [(homes[cell], key) for cell, key in found if cell in homes]


def places_of_rows(connection: apsw.Connection, numbers: Sequence[int]) -> list[tuple[int, str]]:
    """Return the number of the cell, and the id, of version rows."""
    select = f"SELECT cell, id FROM versions WHERE row IN {LISTED} ORDER BY row"
    return list(rows(connection, select, (numbers_json(numbers),)))


def head_row(connection: apsw.Connection, cell: int, key: str) -> int | None:
    """Return the row of a document's live version."""
    select = f"SELECT v.row FROM {HEAD} WHERE d.cell = ? AND d.id = ? AND v.status = 'live'"
    found: int | None = connection.execute(select, (cell, key)).get
    return found


def last_changes(
    connection: apsw.Connection, cells: Collection[int], key: str
) -> dict[int, ChangedDocument]:
    """Return how an id changed last in each of some cells that knows it, by cell."""
    select = (
        "SELECT d.changed, d.cell, d.id, iif(v.status = 'live', v.row, NULL) "
        f"FROM {HEAD} WHERE d.cell IN {LISTED} AND d.id = ?"
    )
    found = rows(connection, select, (to_json(tuple(cells)), key))
    return {cell: ChangedDocument(changed, cell, *rest) for changed, cell, *rest in found}


def episode_by_id(connection: apsw.Connection, cell: int, key: str) -> Episode | None:
    """Return the live episode of an id in a cell."""
    select = f"SELECT v.row FROM {HEAD} WHERE d.cell = ? AND d.id = ?"
    row: int | None = connection.execute(select, (cell, key)).get
    if row is None:
        return None
    bad: set[int] = set()
    found = episodes_of_rows(connection, [row], [cell], bad).get(row)
    if bad:
        wish, got = "an undamaged memory", f"the damaged row {row}"
        raise error(CorruptStoreError, "id", wish, got, "doctor(full=True) tells more")
    return found


def episodes_by_id(
    connection: apsw.Connection, homes: Collection[tuple[int, str]], damaged: set[int]
) -> dict[tuple[int, str], Episode]:
    """Return the live episodes of ids in cells, by (cell, id), in two reads for all of them."""
    # The rows of damaged ones are put into ``damaged``.
    if not homes:
        return {}
    cells = to_json(sorted({cell for cell, _ in homes}))
    keys = to_json(sorted({key for _, key in homes}))
    select = f"SELECT v.row, d.cell, d.id FROM {HEAD} WHERE d.cell IN {LISTED} AND d.id IN {LISTED}"
    wanted = set(homes)
    at_row = {
        row: (cell, key)
        for row, cell, key in rows(connection, select, (cells, keys))
        if (cell, key) in wanted
    }
    found = episodes_of_rows(connection, tuple(at_row), {cell for cell, _ in homes}, damaged)
    return {at_row[row]: episode for row, episode in found.items()}


def accesses(
    connection: apsw.Connection, keys: Collection[str], cells: Collection[int]
) -> dict[tuple[int, str], Accesses]:
    """Return the accesses of live documents of cells, by (cell, id)."""
    select = (
        "SELECT d.cell, d.id, d.access_count, d.last_accessed, v.recorded_at "
        f"FROM {HEAD} WHERE d.cell IN {LISTED} AND d.id IN {LISTED} AND {LIVE}"
    )
    given = (to_json(tuple(cells)), to_json(tuple(keys)))
    return {
        (cell, key): Accesses(
            count, None if last is None else from_micros(last), from_micros(written)
        )
        for cell, key, count, last, written in rows(connection, select, given)
    }


def history(connection: apsw.Connection, cell: int, key: str) -> list[Version]:
    """Return every version of a document, oldest first; an erased one, or none, has no version."""
    # A pin is the document's: each version shows the one there is now. A warning tells how many
    # versions were left out because they are damaged.
    select = (
        f"SELECT v.successor, d.pinned, {CHECKED} FROM versions v JOIN documents d "
        "USING (cell, id) WHERE v.cell = ? AND v.id = ? ORDER BY v.version"
    )
    homes, room = cells_by_number(connection, [cell]), ROOM.get()
    found, n_bad = [], 0
    for successor, pinned, *checked in rows(connection, select, (cell, key)):
        _, _, _, version, status, reason, recorded_at, *_ = checked
        if not is_sound(checked) or not (successor is None or is_text(successor)):
            n_bad += 1
            continue
        if room is not None:
            _take_room(room, checked)
        found.append(
            Version(
                version=version,
                status=status,
                reason=reason,
                successor=successor,
                recorded_at=from_micros(recorded_at),
                episode=(
                    None
                    if status == "deleted"
                    else episode_of(homes[cell], key, pinned, content_of(checked), version)
                ),
            )
        )
    warn_of_damage(n_bad)
    return _unexpired(connection, found)


def _unexpired(connection: apsw.Connection, found: list[Version]) -> list[Version]:
    """Return the versions without those that ``HAS_EXPIRED`` and ``LEFT_EXPIRED`` name."""
    times = [None if one.episode is None else one.episode.expires_at for one in found]
    if not any(times):
        return found
    now = from_micros(connection.execute(f"SELECT {NOW}()").get)
    is_past = [time is not None and time <= now for time in times]
    is_there = found[-1].status == "live"
    if is_there and is_past[-1]:
        return []
    last_end = max((one.version for one in found if one.status == "deleted"), default=0)
    return [
        one
        for one, is_over in zip(found, is_past, strict=True)
        if not is_over or (is_there and one.version > last_end)
    ]


def newest(
    connection: apsw.Connection,
    cells: Collection[int],
    *,
    kind: str | None = None,
    tags: Collection[str] | None = None,
    pinned: bool | None = None,
    session_id: str | None = None,
    limit: int = 200,
    offset: int = 0,
) -> list[Episode]:
    """Return the live episodes of cells, newest first; equal times: the one written last."""
    found = newest_rows(
        connection, cells, kind=kind, tags=tags, pinned=pinned, session_id=session_id,
        limit=limit, offset=offset,
    )  # fmt: skip
    numbers = [row for row, _ in found]  # texts are read when the order is known, not sorted
    episodes = episodes_of_rows(connection, numbers, cells, shown=True)
    return [episodes[row] for row in numbers if row in episodes]


def newest_rows(
    connection: apsw.Connection,
    cells: Collection[int],
    *,
    kind: str | None = None,
    tags: Collection[str] | None = None,
    pinned: bool | None = None,
    session_id: str | None = None,
    in_session: bool = False,
    limit: int = -1,
    offset: int = 0,
) -> list[tuple[int, str]]:
    """Return row and id of live episodes, in the order of :func:`newest`, and nothing else of
    them.
    """
    # ``in_session``: only those of a session, whichever. ``limit``: -1 is all.
    wanted, given = _wanted(cells, kind=kind, pinned=pinned, session_id=session_id, tags=tags)
    if in_session:
        wanted += " AND v.session_id IS NOT NULL"
    select = f"SELECT v.row, v.id FROM {HEAD} WHERE {wanted} {_NEWEST_FIRST} LIMIT ? OFFSET ?"
    return [(row, key) for row, key in rows(connection, select, (*given, limit, offset))]


def count_live(
    connection: apsw.Connection,
    cells: Collection[int],
    *,
    kind: str | None = None,
    tags: Collection[str] | None = None,
    pinned: bool | None = None,
    most: int,
) -> int:
    """Return how many episodes :func:`newest` would give, ``most`` at most."""
    wanted, given = _wanted(cells, kind=kind, tags=tags, pinned=pinned)
    select = f"SELECT count(*) FROM (SELECT 1 FROM {HEAD} WHERE {wanted} LIMIT ?)"
    found: int = connection.execute(select, (*given, most)).get
    return found


def texts_of_rows(
    connection: apsw.Connection, numbers: Sequence[int]
) -> dict[int, tuple[str, str]]:
    """Return input and output of rows that the caller may read; a damaged one is left out."""
    select = f"SELECT v.row, {CHECKED} FROM versions v WHERE v.row IN {LISTED} ORDER BY v.row"
    found, n_bad = {}, 0
    for row, *checked in rows(connection, select, (to_json(tuple(numbers)),)):
        if is_sound(checked):
            content = content_of(checked)
            found[row] = content.input, content.output
        else:
            n_bad += 1
    warn_of_damage(n_bad)
    return found


def text_sizes(connection: apsw.Connection, numbers: Sequence[int]) -> dict[int, int]:
    """Return the bytes of input and output of rows, without reading them."""
    select = f"""SELECT row, octet_length(input) + octet_length(output) FROM versions
      WHERE row IN {LISTED}"""
    return dict(connection.execute(select, (to_json(tuple(numbers)),)))


def newest_model(connection: apsw.Connection) -> tuple[str, int] | None:
    """Return model and length of the newest vector that is not damaged."""
    numbers = "SELECT row FROM versions WHERE embedding IS NOT NULL ORDER BY row DESC"
    select = "SELECT embedding, embedding_model, embedding_checksum FROM versions WHERE row = ?"
    for (number,) in connection.execute(numbers):
        for blob, model, found in rows(connection, select, (number,)):
            if is_sound_vector(blob, model, found):
                return model, len(blob) // 4
    return None


def is_sound_vector(blob: object, model: object, kept: object) -> bool:
    """Return whether a vector is as it was written; without a checksum (see the trigger
    ``versions_vector``), whether it can be one.
    """
    if not (isinstance(blob, bytes) and blob and len(blob) % 4 == 0):
        return False
    if not (isinstance(model, str) and is_text(model)):
        return False
    return kept is None or vector_checksum(blob, model) == kept


def _wanted(
    cells: Collection[int],
    *,
    kind: str | None = None,
    pinned: bool | None = None,
    session_id: str | None = None,
    tags: Collection[str] | None = None,
) -> tuple[str, list[Any]]:
    """Return the condition on live documents, and its values."""
    wanted = f"d.cell IN {LISTED} AND {LIVE}"
    given: list[Any] = [to_json(tuple(cells))]
    for column, value in (("v.kind", kind), ("d.pinned", pinned), ("v.session_id", session_id)):
        if value is not None:
            wanted += f" AND {column} = ?"
            given.append(value)
    if tags is not None:
        tags_there = "json_each(iif(json_valid(v.tags), v.tags, '[]'))"  # they may be damaged
        wanted += f" AND EXISTS (SELECT 1 FROM {tags_there} t WHERE t.value IN {LISTED})"
        given.append(to_json(tuple(tags)))
    return wanted, given


def _take_room(room: Room, checked: Sequence[Any]) -> None:
    content = content_of(checked)
    room.take(len(content.input) + len(content.output) + len(content.metadata))


# ---- Inserts the rows of versions, each once with its checksum; later only its vector may change

Embedding: TypeAlias = tuple[bytes, str] | tuple[None, None]
"""The columns of a vector: its bytes and its model, or none."""

_INSERT = (
    "INSERT INTO versions (checksum, cell, id, version, status, reason, recorded_at, "
    f"{EPISODE_COLUMNS}, successor, embedding, embedding_model, embedding_checksum) "
    f"VALUES ({', '.join('?' * (N_CHECKED + 4))}) RETURNING row"
)


def insert_version(
    connection: apsw.Connection,
    cell: int,
    episode: Episode,
    version: int,
    embedding: Embedding,
    recorded_at: int,
    *,
    status: Status = "live",
    reason: str | None = None,
    successor: str | None = None,
) -> int:
    """Insert the row of a version and return its number; the caller updates the document."""
    state = (cell, episode.id, version, status, reason, recorded_at)
    return insert_row(connection, (*state, *to_columns(episode)), successor, embedding)


def insert_row(
    connection: apsw.Connection,
    kept: Sequence[Any],
    successor: str | None,
    embedding: Embedding = (None, None),
) -> int:
    """Insert the row of a version, what never changes of it in the order of ``CHECKED``."""
    seals = checksum(*kept), vector_checksum(*embedding)
    given = (seals[0], *kept, successor, *embedding, seals[1])
    row: int = connection.execute(_INSERT, given).get
    _know_model(connection, embedding)
    return row


def embedding_of(connection: apsw.Connection, row: int) -> Embedding:
    """Return the columns of a version's vector; none if the vector is damaged."""
    select = "SELECT embedding, embedding_model, embedding_checksum FROM versions WHERE row = ?"
    (found,) = rows(connection, select, (row,))
    blob, model, kept = found
    return (blob, model) if is_sound_vector(blob, model, kept) else (None, None)


def set_embedding(connection: apsw.Connection, row: int, embedding: Embedding) -> None:
    """Replace or remove the vector of a version."""
    set_embeddings(connection, [(row, embedding)])


def set_embeddings(connection: apsw.Connection, rows: Sequence[tuple[int, Embedding]]) -> None:
    """Replace or remove the vectors of versions."""
    set_it = (
        "UPDATE versions SET embedding = ?, embedding_model = ?, embedding_checksum = ? "
        "WHERE row = ?"
    )
    given = [(*embedding, vector_checksum(*embedding), row) for row, embedding in rows]
    connection.executemany(set_it, given)
    for one in {embedding[1]: embedding for _, embedding in rows}.values():
        _know_model(connection, one)


def _know_model(connection: apsw.Connection, embedding: Embedding) -> None:
    blob, model = embedding
    if blob is not None:
        know = (
            "INSERT INTO models (model, dim) VALUES (?, ?) ON CONFLICT (model) "
            "DO UPDATE SET dim = excluded.dim WHERE dim <> excluded.dim"
        )
        connection.execute(know, (model, len(blob) // 4))


# ---- Reads and sets the read policies of agents: what each may read beside its own memories ----

POLICIES = ("isolated", "shared", "group")


class ReadPolicy(NamedTuple):
    """The read policy of an agent. A reader must treat an unknown policy as the strictest.

    Attributes
    ----------
    policy : str
        "isolated": its own; "shared": what others of the partition keep as global too; "group":
        of these, what agents of its group keep.
    policy_group : str or None
    """

    policy: str
    policy_group: str | None


def set_policy(
    connection: apsw.Connection,
    org: str | None,
    workspace: str | None,
    agent: str,
    policy: str,
    group: str | None,
) -> None:
    """Insert or replace the read policy of an agent."""
    check_id("agent", agent)
    if not isinstance(policy, str) or policy not in POLICIES:
        raise error(OptionError, "policy", " | ".join(map(repr, POLICIES)), repr(policy))
    if group is not None:
        check_id("policy_group", group)
    given = (org, workspace, agent, policy, group)
    change = f"UPDATE roster SET policy = ?4, policy_group = ?5 WHERE {IN_PARTITION} AND agent = ?3"
    connection.execute(change, given)
    if not connection.changes():
        insert = (
            "INSERT INTO roster (org, workspace, agent, policy, policy_group) "
            "VALUES (?, ?, ?, ?, ?)"
        )
        connection.execute(insert, given)
    take_sequence(connection)  # so that its loss would be noticed


def read_policy(
    connection: apsw.Connection, org: str | None, workspace: str | None, agent: str
) -> ReadPolicy | None:
    """Return the read policy of an agent, or None if none was set."""
    select = f"SELECT policy, policy_group FROM roster WHERE {IN_PARTITION} AND agent = ?3"
    found = connection.execute(select, (org, workspace, agent)).get
    return None if found is None else ReadPolicy(*found)


def policies(connection: apsw.Connection) -> list[dict[str, str | None]]:
    """Return every agent with its partition and read policy, in the order of entry."""
    names = ("org", "workspace", "agent", "policy", "policy_group")
    select = f"SELECT {', '.join(names)} FROM roster ORDER BY rowid"
    return [dict(zip(names, row, strict=True)) for row in connection.execute(select)]


def agents_of_group(
    connection: apsw.Connection, org: str | None, workspace: str | None, group: str
) -> list[str]:
    """Return the agents of a partition that were entered with policy "group" and this group."""
    select = (
        f"SELECT agent FROM roster WHERE {IN_PARTITION} AND policy = 'group' AND policy_group = ?3 "
        "ORDER BY agent"
    )
    return [agent for (agent,) in connection.execute(select, (org, workspace, group))]


def policies_of(
    connection: apsw.Connection, org: str | None, workspace: str | None
) -> dict[str, ReadPolicy]:
    """Return the read policies of the agents of a partition, by name."""
    select = f"SELECT agent, policy, policy_group FROM roster WHERE {IN_PARTITION} ORDER BY agent"
    found = connection.execute(select, (org, workspace))
    return {agent: ReadPolicy(*policy) for agent, *policy in found}


# ---- Counts the live memories of cells ----


class Counted(NamedTuple):
    """How many memories there are, and when the first and the last of them happened."""

    memories: int
    oldest: datetime
    newest: datetime


_TALLY = f"count(*), min(v.occurred_at), max(v.occurred_at) FROM {HEAD} WHERE {LIVE}"


def tally_by_cell(connection: apsw.Connection, cells: Collection[int]) -> dict[int, Counted]:
    """Count the live memories of each cell that has any."""
    select = f"SELECT d.cell, {_TALLY} AND d.cell IN {LISTED} GROUP BY d.cell"
    found = rows(connection, select, (numbers_json(cells),))
    return {cell: Counted(n, from_micros(a), from_micros(b)) for cell, n, a, b in found}


def tally_by_session(
    connection: apsw.Connection, cells: Collection[int], limit: int, offset: int
) -> dict[str, Counted]:
    """Count the live memories of each session, the one with the newest memory first."""
    select = (
        f"SELECT v.session_id, {_TALLY} AND d.cell IN {LISTED} AND v.session_id IS NOT NULL "
        "GROUP BY v.session_id ORDER BY 4 DESC, 1 LIMIT ? OFFSET ?"
    )
    found = rows(connection, select, (numbers_json(cells), limit, offset))
    return {
        name: Counted(n, from_micros(a), from_micros(b)) for name, n, a, b in found if is_text(name)
    }
