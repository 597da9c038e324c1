"""The tables of a store, the steps between its formats, and the check of a file's format.

The only format so far is 7; the first step that a release needs goes to the end of ``MIGRATIONS``.

- Times are microseconds since 1970, UTC. JSON columns hold one object or list.
- A *document* is an identity (cell, id) with its highest version. *Versions* are appended; of a
  version that is there only ``embedding`` and ``embedding_model`` ever change, since they are made
  from the rest.
- ``changed`` numbers the changes of documents and edges together, from ``meta.sequence``. Whoever
  has read up to a number finds all that came after it above that number, each document once.
- ``checksum`` covers what never changes of a row, ``embedding_checksum`` the vector and its model;
  :mod:`hyrecall.memory.sql.codec` computes them.
- ``cells`` gives every combination of org, workspace, user and visibility a number; null is none.
  Where ``meta.tables`` is 1, memories of another source lie in another cell.
- ``facts.single`` says whether a fact is the only one of its subject and predicate at a time.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import apsw

from hyrecall.errors import StoreFormatError, error

NOW = "hyrecall_now"
"""The function of SQL that gives the time of the store, in microseconds."""

HEAD = "documents d JOIN versions v USING (cell, id, version)"
"""Every document d with its version v that counts, as SQL."""

HIGHEST = "(SELECT max(w.version) FROM versions w WHERE w.cell = v.cell AND w.id = v.id)"
"""The highest version of the document of a version v, as SQL.

No checksum covers the number in ``documents``: a lower one there would bring back an old text.
"""

LISTED = "(SELECT value FROM json_each(?))"
"""The values of a list that is given as JSON, as SQL."""

EXPIRED = f"iif(v.expires_at IS NULL, 0, v.expires_at <= {NOW}())"
"""Whether a version v, the highest of its document, has expired, as SQL; most are not asked."""

LIVE = f"v.status = 'live' AND NOT {EXPIRED}"
"""Whether a version v, the highest of its document, may be shown, as SQL."""

HAS_EXPIRED = (
    "EXISTS (SELECT 1 FROM versions h WHERE (h.cell, h.id, h.version) = (d.cell, d.id, d.version) "
    f"AND h.status = 'live' AND {EXPIRED.replace('v.', 'h.')})"
)
"""Whether the memory of a document d has expired, as SQL."""

LEFT_EXPIRED = (
    f"({EXPIRED} AND NOT EXISTS (SELECT 1 FROM versions h WHERE (h.cell, h.id, h.version) = "
    f"(d.cell, d.id, d.version) AND {LIVE.replace('v.', 'h.')} AND v.version > ifnull((SELECT "
    "max(t.version) FROM versions t WHERE t.cell = d.cell AND t.id = d.id "
    "AND t.status = 'deleted'), 0)))"
)
"""Whether a version v of a document d is past its time and belongs to no memory that is there."""

APPLICATION_ID = 0x48795243  # "HyRC"

_TABLES = """
CREATE TABLE meta (
  name TEXT PRIMARY KEY,
  value ANY NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE cells (
  cell INTEGER PRIMARY KEY,
  org TEXT,
  workspace TEXT,
  user TEXT,
  visibility TEXT NOT NULL CHECK (visibility IN ('private', 'global')),
  checksum INTEGER,
  source TEXT
) STRICT;

-- Nulls are equal here, and differ from ''.
CREATE UNIQUE INDEX cells_identity ON cells (
  ifnull(org, ''), org IS NULL, ifnull(workspace, ''), workspace IS NULL,
  ifnull(user, ''), user IS NULL, visibility, ifnull(source, ''), source IS NULL
);

CREATE TABLE documents (
  cell INTEGER NOT NULL REFERENCES cells,
  id TEXT NOT NULL,
  version INTEGER NOT NULL,
  changed INTEGER NOT NULL,
  pinned INTEGER NOT NULL DEFAULT 0 CHECK (pinned IN (0, 1)),
  access_count INTEGER NOT NULL DEFAULT 0,
  last_accessed INTEGER,
  PRIMARY KEY (cell, id)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX documents_changed ON documents (changed);

CREATE TABLE versions (
  row INTEGER PRIMARY KEY AUTOINCREMENT,
  cell INTEGER NOT NULL,
  id TEXT NOT NULL,
  version INTEGER NOT NULL CHECK (version >= 1),
  status TEXT NOT NULL CHECK (status IN ('live', 'superseded', 'archived', 'deleted')),
  reason TEXT,
  successor TEXT,
  recorded_at INTEGER NOT NULL,
  kind TEXT NOT NULL,
  source TEXT,
  session_id TEXT,
  input TEXT NOT NULL DEFAULT '',
  output TEXT NOT NULL DEFAULT '',
  occurred_at INTEGER NOT NULL,
  importance REAL,
  tags TEXT NOT NULL DEFAULT '[]',
  metadata TEXT NOT NULL DEFAULT '{}',
  expires_at INTEGER,
  author TEXT,
  embedding BLOB,
  embedding_model TEXT,
  checksum INTEGER,
  embedding_checksum INTEGER,
  UNIQUE (cell, id, version),
  CHECK ((embedding IS NULL) = (embedding_model IS NULL)),
  FOREIGN KEY (cell, id) REFERENCES documents ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED
) STRICT;

CREATE INDEX versions_expiring ON versions (cell) WHERE expires_at IS NOT NULL;

CREATE INDEX versions_expiry ON versions (expires_at) WHERE expires_at IS NOT NULL;

-- A vector that is changed by SQL from outside has no checksum until it is written again.
CREATE TRIGGER versions_vector AFTER UPDATE OF embedding, embedding_model ON versions
  WHEN (new.embedding, new.embedding_model) IS NOT (old.embedding, old.embedding_model)
    AND new.embedding_checksum IS old.embedding_checksum
  BEGIN
    UPDATE versions SET embedding_checksum = NULL WHERE row = new.row;
  END;

CREATE TABLE facts (
  row INTEGER PRIMARY KEY REFERENCES versions ON DELETE CASCADE,
  cell INTEGER NOT NULL,
  subject TEXT NOT NULL,
  predicate TEXT NOT NULL,
  object TEXT NOT NULL,
  valid_from INTEGER NOT NULL,
  valid_to INTEGER,
  checksum INTEGER,
  single INTEGER NOT NULL DEFAULT 1 CHECK (single IN (0, 1)),
  CHECK (valid_to IS NULL OR valid_to >= valid_from)
) STRICT;

CREATE INDEX facts_slot ON facts (cell, subject, predicate, valid_from);

CREATE TABLE edges (
  cell INTEGER NOT NULL REFERENCES cells,
  id TEXT NOT NULL,
  changed INTEGER NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('live', 'deleted')),
  reason TEXT,
  recorded_at INTEGER NOT NULL,
  relationship TEXT NOT NULL,
  description TEXT NOT NULL DEFAULT '',
  metadata TEXT NOT NULL DEFAULT '{}',
  checksum INTEGER,
  PRIMARY KEY (cell, id)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX edges_changed ON edges (changed);

CREATE TABLE participants (
  cell INTEGER NOT NULL,
  edge TEXT NOT NULL,
  ordinal INTEGER NOT NULL,
  node TEXT NOT NULL,
  role TEXT,
  PRIMARY KEY (cell, edge, ordinal),
  FOREIGN KEY (cell, edge) REFERENCES edges ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE INDEX participants_node ON participants (cell, node);

-- No CHECK on the policy: one that is unknown closes, and whoever reads it must be able to say so.
CREATE TABLE roster (
  org TEXT,
  workspace TEXT,
  agent TEXT NOT NULL,
  policy TEXT NOT NULL,
  policy_group TEXT
) STRICT;

CREATE UNIQUE INDEX roster_identity ON roster (
  ifnull(org, ''), org IS NULL, ifnull(workspace, ''), workspace IS NULL, agent
);

CREATE TABLE models (
  model TEXT PRIMARY KEY,
  dim INTEGER NOT NULL CHECK (dim > 0)
) STRICT, WITHOUT ROWID;

-- What a conversation met: signals for ranking, for a day. They are no memories.
CREATE TABLE sessions (
  session INTEGER PRIMARY KEY,
  org TEXT,
  workspace TEXT,
  user TEXT,
  name TEXT NOT NULL,
  last INTEGER NOT NULL,
  n_recalls INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX sessions_identity ON sessions (
  ifnull(org, ''), org IS NULL, ifnull(workspace, ''), workspace IS NULL,
  ifnull(user, ''), user IS NULL, name
);

CREATE INDEX sessions_last ON sessions (last);

CREATE TABLE session_ids (
  session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
  id TEXT NOT NULL,
  at INTEGER NOT NULL,
  PRIMARY KEY (session, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX session_ids_id ON session_ids (id);

-- Writes that other processes may ask for again, with the reply to each; only a writer reads them.
CREATE TABLE applied (
  id BLOB PRIMARY KEY, reply TEXT NOT NULL, at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX applied_at ON applied (at);

-- One row for each memory that somebody used for a query.
CREATE TABLE feedback (
  row INTEGER PRIMARY KEY,
  org TEXT,
  workspace TEXT,
  user TEXT,
  query TEXT NOT NULL,
  cell INTEGER NOT NULL,
  id TEXT NOT NULL,
  at INTEGER NOT NULL,
  checksum INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX feedback_identity ON feedback (
  ifnull(org, ''), org IS NULL, ifnull(workspace, ''), workspace IS NULL,
  ifnull(user, ''), user IS NULL, query, cell, id
);

CREATE INDEX feedback_memory ON feedback (cell, id);
"""


@dataclass(frozen=True)
class Migration:
    """The step to a format from the one before."""

    format: int
    statements: str
    min_reader: int
    min_writer: int


MIGRATIONS: tuple[Migration, ...] = (Migration(7, _TABLES, min_reader=7, min_writer=7),)
"""The first one makes a store; each later one leads from the format before it to its own."""

FORMAT = MIGRATIONS[-1].format
"""The newest format, which this version writes."""


def meta(connection: apsw.Connection, name: str) -> Any:
    """Return a value of the table ``meta``."""
    return connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).get


def has_tables(connection: apsw.Connection) -> bool:
    """Return whether the store has tables: memories of another source lie in another cell."""
    return bool(meta(connection, "tables"))


def set_tables(connection: apsw.Connection) -> None:
    """Turn the store into one with tables."""
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('tables', 1)")


def take_sequence(connection: apsw.Connection, n: int = 1) -> int:
    """Reserve the next n change numbers inside the transaction and return the first."""
    update = "UPDATE meta SET value = value + ? WHERE name = 'sequence' RETURNING value"
    last: int = connection.execute(update, (n,)).get
    return last - n + 1


def migrate(connection: apsw.Connection, *, now: datetime, made_by: str) -> bool:
    """Bring a database to the newest format in one transaction; return whether it was older."""
    wanted = [one for one in MIGRATIONS if one.format > _user_version(connection)]
    if not wanted:
        return False
    with connection:  # a transaction
        with _unchecked(connection):
            for one in wanted:
                connection.execute(one.statements)
        facts: dict[str, object] = {
            "store_id": secrets.token_hex(16),
            "made_at": now.isoformat(),
            "made_by": made_by,
            "sequence": 0,
            "erasures": 0,
        }
        connection.executemany("INSERT OR IGNORE INTO meta VALUES (?, ?)", list(facts.items()))
        least = {"min_reader": wanted[-1].min_reader, "min_writer": wanted[-1].min_writer}
        connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", list(least.items()))
        connection.pragma("application_id", APPLICATION_ID)
        connection.pragma("user_version", wanted[-1].format)
    return True


@contextmanager
def _unchecked(connection: apsw.Connection) -> Iterator[None]:
    """Let ADD COLUMN skip the check of every row in a STRICT table."""
    # One damaged row would fail it, and the store could not be opened for writing any more.
    check = (apsw.SQLITE_PRAGMA, "quick_check")  # as which SQLite runs it
    connection.authorizer = lambda action, name, *_: (
        apsw.SQLITE_IGNORE if (action, name) == check else apsw.SQLITE_OK
    )
    try:
        yield
    finally:
        connection.authorizer = None


def check_format(connection: apsw.Connection, path: str, *, writing: bool) -> None:
    """Refuse a database that is not a store, or of a format that cannot be read or written."""
    # An empty database is none yet, which is fine for a writer.
    if writing and is_empty(connection):
        return
    found, oldest, known = _user_version(connection), MIGRATIONS[0].format, MIGRATIONS[-1].format
    if connection.pragma("application_id") != APPLICATION_ID or found < 1:
        raise error(StoreFormatError, path, "a store of hyrecall", "another SQLite database")
    if found < oldest:
        raise error(StoreFormatError, path, f"a store of format {oldest}", f"format {found}")
    if found < known and not writing:
        wish = f"a store of format {known}, to which a writer brings it"
        raise error(StoreFormatError, path, wish, f"format {found}", "read_only=False")
    if found <= known:
        return
    least = meta(connection, "min_writer" if writing else "min_reader")
    if least > known:
        verb = "written" if writing else "read"
        wish = f"a format that can be {verb} by one that knows {known}"
        got = f"format {found}, which needs {least} (pip install --upgrade hyrecall)"
        raise error(StoreFormatError, path, wish, got)


def is_empty(connection: apsw.Connection) -> bool:
    """Say whether a database has no tables yet."""
    n_tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
    return not n_tables and _user_version(connection) == 0


def _user_version(connection: apsw.Connection) -> int:
    return int(connection.pragma("user_version"))
