"""Checks a store and reports what is wrong: reads everything and changes nothing.

No check names a text, an id or a user: a report may be shown to whoever keeps the machine.
"""

from __future__ import annotations

import contextlib
import re
import stat
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

import apsw

from hyrecall.base.asking import SOCKET
from hyrecall.errors import OptionError
from hyrecall.memory.data.types import normal_predicate
from hyrecall.memory.sql.codec import (
    CELLS,
    CHECKED,
    N_CHECKED,
    Cell,
    decode_vector,
    is_sound,
    is_sound_cell,
    rows,
    vector_checksum,
)
from hyrecall.memory.sql.database import DATABASE, Database
from hyrecall.memory.sql.edge_rows import (
    EDGE_COLUMNS,
    FEEDBACK_COLUMNS,
    is_sound_feedback,
)
from hyrecall.memory.sql.fact_rows import FACT_COLUMNS, read_fact
from hyrecall.memory.sql.schema import HEAD, meta
from hyrecall.memory.sql.store_sessions import count_damaged

_FOR_EVER = 2**63 - 1
_SINGLE_FACTS = (
    f"SELECT f.cell, f.subject, f.predicate, f.valid_from, ifnull(f.valid_to, {_FOR_EVER}) "
    f"FROM {HEAD} JOIN facts f USING (row) WHERE v.status = 'live' AND f.single "
    f"AND f.valid_from < ifnull(f.valid_to, {_FOR_EVER}) ORDER BY f.valid_from, f.row"
)
_MOST_NAMED = 20  # rows of a table in a report
# SQLite's locks and its shared memory do not hold between machines.
_NETWORK = (
    *("nfs", "cifs", "smb", "9p", "afs", "ceph", "gluster", "fuse.sshfs", "lustre", "ocfs"),
    *("afpfs", "webdav"),
)
_MOUNT = re.compile(r".*? on (/.*) \((\w+)[,)].*")  # as mount of macOS shows it


@dataclass(frozen=True)
class DoctorCheck:
    """The result of one check."""

    name: str
    ok: bool
    detail: str = ""


@dataclass(frozen=True)
class Report:
    """The results of all checks, and counts."""

    checks: tuple[DoctorCheck, ...]
    counts: dict[str, int]

    @property
    def ok(self) -> bool:
        """Whether every check is."""
        return all(one.ok for one in self.checks)


def examine(
    database: Database,
    *,
    full: bool = False,
    more: Iterable[DoctorCheck] = (),
    empty_log: Callable[[], bool] | None = None,
) -> Report:
    """Run all checks on a store."""
    problems = database.problems(full=full)
    checks = [DoctorCheck("database", not problems, "; ".join(problems[:3]))]
    if database.folder is not None:
        checks += [
            _log(database, database.folder, empty_log or partial(database.checkpoint, wait=1.0)),
            _modes(database.folder),
            _file_system(database.folder),
        ]
    if problems:  # what stands in damaged tables says nothing
        return Report((*checks, *more), {})
    with database.reading() as connection:
        checks += [_none(connection, name, *asked) for name, asked in _QUERIES.items()]
        checks.append(_facts(connection))
        checks.append(_vectors(connection, full=full))
        checks.append(_rows(connection, full=full))
        checks.append(_conversations(connection, full=full))
        counts = {name: int(connection.execute(sql).get) for name, sql in _COUNTS.items()}
    return Report((*checks, *more), counts)


# Each statement counts rows that must not exist.
_QUERIES: dict[str, tuple[str, str]] = {
    # A connection that only reads checks no CHECK of a table, not even when it looks for damage.
    "values": (
        "SELECT (SELECT count(*) FROM versions WHERE version < 1 "
        "OR status NOT IN ('live', 'superseded', 'archived', 'deleted') "
        "OR (embedding IS NULL) <> (embedding_model IS NULL)) "
        "+ (SELECT count(*) FROM documents WHERE pinned NOT IN (0, 1)) "
        "+ (SELECT count(*) FROM edges WHERE status NOT IN ('live', 'deleted')) "
        "+ (SELECT count(*) FROM cells WHERE visibility NOT IN ('private', 'global'))",
        "rows hold what is never written",
    ),
    "versions": (
        "SELECT count(*) FROM documents d WHERE d.version IS NOT "
        "(SELECT max(v.version) FROM versions v WHERE v.cell = d.cell AND v.id = d.id)",
        "documents do not point to their highest version",
    ),
    "sequence": (
        "SELECT count(*) FROM (SELECT changed FROM documents UNION ALL SELECT changed FROM edges) "
        "WHERE changed > (SELECT value FROM meta WHERE name = 'sequence')",
        "changes have a number that was not given",
    ),
    "fields": (
        "SELECT count(*) FROM versions WHERE NOT (json_valid(tags) AND json_valid(metadata))",
        "versions have tags or metadata that are no JSON",
    ),
}

_COUNTS = {
    "memories": f"SELECT count(*) FROM {HEAD} WHERE v.status = 'live'",
    "versions": "SELECT count(*) FROM versions",
    "facts": f"SELECT count(*) FROM {HEAD} JOIN facts f USING (row) WHERE v.status = 'live'",
    "edges": "SELECT count(*) FROM edges WHERE status = 'live'",
    "cells": "SELECT count(*) FROM cells",
    "without_vector": f"SELECT count(*) FROM {HEAD} WHERE v.status = 'live' "
    "AND v.embedding IS NULL",
    "models": "SELECT count(*) FROM models",
    "feedback": "SELECT count(*) FROM feedback",
    "erasures": "SELECT value FROM meta WHERE name = 'erasures'",
}


def _none(connection: apsw.Connection, name: str, sql: str, told: str) -> DoctorCheck:
    n_found = connection.execute(sql).get
    return DoctorCheck(name, not n_found, f"{n_found} {told}" if n_found else "")


def _facts(connection: apsw.Connection) -> DoctorCheck:
    """Count the pairs of facts of one value that hold at the same time."""
    ends: dict[tuple[int, str, str], list[int]] = defaultdict(list)
    n_pairs = 0
    for cell, subject, predicate, begin, end in rows(connection, _SINGLE_FACTS):
        held = ends[cell, subject, normal_predicate(predicate)]  # a heap
        while held and held[0] <= begin:
            heappop(held)
        n_pairs += len(held)
        heappush(held, end)
    told = f"{n_pairs} pairs of facts hold at the same time for one subject and predicate"
    return DoctorCheck("facts", not n_pairs, told if n_pairs else "")


def _vectors(connection: apsw.Connection, *, full: bool) -> DoctorCheck:
    """Count the damaged vectors, whose rows only words find."""
    if full:
        select = (
            "SELECT embedding, embedding_model, embedding_checksum FROM versions "
            "WHERE embedding IS NOT NULL ORDER BY row"
        )
        n_bad = sum(
            not _is_vector(blob) or seal not in (None, vector_checksum(blob, model))
            for blob, model, seal in rows(connection, select)
        )
    else:
        bad = "length(embedding) % 4 <> 0 OR length(embedding) = 0"
        n_bad = connection.execute(f"SELECT count(*) FROM versions WHERE {bad}").get
    return DoctorCheck("vectors", not n_bad, f"{n_bad} are no vectors: reembed" if n_bad else "")


def _is_sound_fact(columns: Sequence[Any]) -> bool:
    """Return whether a fact is undamaged; a damaged version is counted elsewhere."""
    any_cell = Cell(None, None, None, "private")
    return read_fact(any_cell, columns) is not None or not is_sound(columns[:N_CHECKED])


# For each table: the column that numbers rows, the SELECT, and the check of a row.
_ROWS: dict[str, tuple[str, str, Callable[[Sequence[Any]], bool]]] = {
    "cells": ("cell", f"SELECT cell, * FROM ({CELLS})", is_sound_cell),
    "versions": ("row", f"SELECT v.row, {CHECKED} FROM versions v", is_sound),
    "facts": (
        "row",
        f"SELECT f.row, {CHECKED}, {FACT_COLUMNS} FROM versions v JOIN facts f USING (row)",
        _is_sound_fact,
    ),
    "edges": ("changed", f"SELECT e.changed, {EDGE_COLUMNS} FROM edges e", is_sound),
    "feedback": ("row", f"SELECT b.row, {FEEDBACK_COLUMNS} FROM feedback b", is_sound_feedback),
}


def _rows(connection: apsw.Connection, *, full: bool) -> DoctorCheck:
    """Return the numbers of damaged rows; without ``full``, of cells only."""
    # Cells are few, and one damaged row of them hides all that its user has.
    told = []
    for table, (number, select, is_whole) in _ROWS.items():
        if table != "cells" and not full:
            continue
        read = rows(connection, f"{select} ORDER BY 1")
        found = [str(at) for at, *columns in read if not is_whole(columns)]
        if found:
            more = ", ..." if len(found) > _MOST_NAMED else ""
            which = f"{', '.join(found[:_MOST_NAMED])}{more}"
            told.append(f"{len(found)} of {table} are damaged (their {number}: {which})")
    return DoctorCheck("rows", not told, "; ".join(told))


def _conversations(connection: apsw.Connection, *, full: bool) -> DoctorCheck:
    n_bad = count_damaged(connection, full=full)
    told = f"{n_bad} cannot be read: each counts as new, and its next recall replaces it"
    return DoctorCheck("conversations", not n_bad, told if n_bad else "")


def _is_vector(blob: bytes) -> bool:
    try:
        decode_vector(blob)
    except OptionError:
        return False
    return True


def _log(database: Database, folder: Path, empty_log: Callable[[], bool]) -> DoctorCheck:
    """Check whether erased rows may still be in the write-ahead log."""
    with database.reading() as connection:
        n_erasures = meta(connection, "erasures")
    path = folder / f"{DATABASE}-wal"
    if not n_erasures or not path.exists() or not path.stat().st_size:
        return DoctorCheck("log", True)
    if not database.read_only and empty_log():
        return DoctorCheck("log", True)
    told = "what was erased may be in the log until its readers leave and the writer is next closed"
    return DoctorCheck("log", database.read_only, told)


def _modes(folder: Path) -> DoctorCheck:
    open_to_others = [
        path.name or str(path)
        for path in (folder, *folder.glob(f"{DATABASE}*"), *folder.glob(SOCKET))
        if stat.S_IMODE(path.stat().st_mode) & 0o077
    ]
    told = f"others may read {', '.join(sorted(open_to_others))}" if open_to_others else ""
    return DoctorCheck("modes", not open_to_others, told)


def _file_system(folder: Path) -> DoctorCheck:
    kind = file_system_of(folder)
    is_shared = kind.startswith(_NETWORK)
    return DoctorCheck(
        "file system", not is_shared, f"{kind} is shared by machines" if is_shared else ""
    )


def _mounts() -> str:
    """Return what the system tells of the mounted file systems, a line each."""
    with contextlib.suppress(FileNotFoundError):
        return Path("/proc/self/mountinfo").read_text()
    import subprocess

    return subprocess.run(["/sbin/mount"], stdout=subprocess.PIPE, text=True, check=False).stdout


def file_system_of(folder: Path, read: Callable[[], str] = _mounts) -> str:
    """Return the kind of file system of a folder as the kernel tells it, "" if it does not."""
    try:
        lines = read().splitlines()
    except OSError:
        return ""
    kind, longest = "", -1
    for line in lines:
        if mounted := _MOUNT.fullmatch(line):
            point, of_point = Path(mounted[1]), mounted[2]
        else:
            before, _, after = line.partition(" - ")
            point = Path(before.split(" ")[4].replace("\\040", " "))
            of_point = after.split(" ")[0]
        if folder.absolute().is_relative_to(point) and len(point.parts) >= longest:
            kind, longest = of_point, len(point.parts)
    return kind
