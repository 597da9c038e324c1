"""The statements that make the tables of a store, format by format.

A format only ever adds: tables, indexes, columns with defaults. So a program that knows an older
format goes on reading a newer file, and writing it where the newer format says that it may.

- Times are microseconds since 1970, UTC. JSON columns hold one object or list.
- A *document* is an identity (cell, id) with its highest version. *Versions* are appended; of a
  version that is there only ``embedding`` and ``embedding_model`` ever change, since they are made
  from the rest.
- ``changed`` numbers the changes of documents and edges together, from ``meta.sequence``. Whoever
  has read up to a number finds all that came after it above that number, each document once.
- ``checksum`` covers what never changes of a row, ``embedding_checksum`` the vector and its model;
  :mod:`hyrecall.memory.sql.damaged_rows` computes them. Null: a row of format 1, not checked.
- ``cells`` gives every combination of org, workspace, user and visibility a number; null is none.
  Where ``meta.tables`` is 1, memories of another source lie in another cell.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MIGRATIONS", "Migration"]

_FORMAT_1 = """
CREATE TABLE meta (
  name TEXT PRIMARY KEY,
  value ANY NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE cells (
  cell INTEGER PRIMARY KEY,
  org TEXT,
  workspace TEXT,
  user TEXT,
  visibility TEXT NOT NULL CHECK (visibility IN ('private', 'global'))
) STRICT;

-- Nulls are equal here, and differ from ''.
CREATE UNIQUE INDEX cells_identity ON cells (
  ifnull(org, ''), org IS NULL, ifnull(workspace, ''), workspace IS NULL,
  ifnull(user, ''), user IS NULL, visibility
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
  embedding BLOB,
  embedding_model TEXT,
  UNIQUE (cell, id, version),
  CHECK ((embedding IS NULL) = (embedding_model IS NULL)),
  FOREIGN KEY (cell, id) REFERENCES documents ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED
) STRICT;

CREATE TABLE facts (
  row INTEGER PRIMARY KEY REFERENCES versions ON DELETE CASCADE,
  cell INTEGER NOT NULL,
  subject TEXT NOT NULL,
  predicate TEXT NOT NULL,
  object TEXT NOT NULL,
  valid_from INTEGER NOT NULL,
  valid_to INTEGER,
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
"""

_FORMAT_2 = """
ALTER TABLE versions ADD COLUMN checksum INTEGER;
ALTER TABLE versions ADD COLUMN embedding_checksum INTEGER;
ALTER TABLE facts ADD COLUMN checksum INTEGER;
ALTER TABLE edges ADD COLUMN checksum INTEGER;
ALTER TABLE cells ADD COLUMN checksum INTEGER;

-- A program of format 1 changes a vector and leaves the checksum: that is then unchecked.
CREATE TRIGGER versions_vector AFTER UPDATE OF embedding, embedding_model ON versions
  WHEN (new.embedding, new.embedding_model) IS NOT (old.embedding, old.embedding_model)
    AND new.embedding_checksum IS old.embedding_checksum
  BEGIN
    UPDATE versions SET embedding_checksum = NULL WHERE row = new.row;
  END;
"""

# For whoever only reads a file of format 1: temporary names come before those of the file.
_BEFORE_2 = """
CREATE TEMP VIEW versions AS
  SELECT *, NULL AS checksum, NULL AS embedding_checksum FROM main.versions;
CREATE TEMP VIEW facts AS SELECT *, NULL AS checksum, 1 AS single FROM main.facts;
CREATE TEMP VIEW edges AS SELECT *, NULL AS checksum FROM main.edges;
CREATE TEMP VIEW cells AS SELECT *, NULL AS checksum, NULL AS source FROM main.cells;
"""


# The index has more columns, and those of before first: an older program finds its cells by it. It
# makes none with a source, and a store that has any is closed to it: see `divide_tables`.
_FORMAT_3 = """
ALTER TABLE cells ADD COLUMN source TEXT;
DROP INDEX cells_identity;
CREATE UNIQUE INDEX cells_identity ON cells (
  ifnull(org, ''), org IS NULL, ifnull(workspace, ''), workspace IS NULL,
  ifnull(user, ''), user IS NULL, visibility, ifnull(source, ''), source IS NULL
);

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
"""

_BEFORE_3 = """
CREATE TEMP VIEW IF NOT EXISTS cells AS SELECT *, NULL AS source FROM main.cells;
CREATE TEMP VIEW sessions AS SELECT NULL AS session, NULL AS org, NULL AS workspace, NULL AS user,
  NULL AS name, NULL AS last, NULL AS n_recalls WHERE 0;
CREATE TEMP VIEW session_ids AS SELECT NULL AS session, NULL AS id, NULL AS at WHERE 0;
"""


# Writes that other processes may ask for again, with the reply to each; only a writer reads them.
_FORMAT_4 = """
CREATE TABLE applied (
  id BLOB PRIMARY KEY, reply TEXT NOT NULL, at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX applied_at ON applied (at);
"""

# What helped: a row for each memory that somebody used for a query. A program of an older format
# would leave the row where it erases the memory, so it writes no file that has the table.
_FORMAT_5 = """
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

_BEFORE_5 = """
CREATE TEMP VIEW feedback AS SELECT NULL AS row, NULL AS org, NULL AS workspace, NULL AS user,
  NULL AS query, NULL AS cell, NULL AS id, NULL AS at, NULL AS checksum WHERE 0;
"""

# Whether a fact is the only one of its subject and predicate at a time. An older program would end
# those of many values, so it writes no file that may have some.
_FORMAT_6 = """
ALTER TABLE facts ADD COLUMN single INTEGER NOT NULL DEFAULT 1 CHECK (single IN (0, 1));
"""

_BEFORE_6 = """
CREATE TEMP VIEW IF NOT EXISTS facts AS SELECT *, 1 AS single FROM main.facts;
"""


@dataclass(frozen=True)
class Migration:
    """The statements from one format to the next.

    Attributes
    ----------
    format : int
        The one it leads to.
    statements : str
        SQL that only adds.
    min_reader, min_writer : int
        The oldest formats whose programs may read and write a file of this one.
    before : str
        SQL that shows what is new, empty, to a connection that reads a file of the format before.
    """

    format: int
    statements: str
    min_reader: int = 1
    min_writer: int = 1
    before: str = ""


MIGRATIONS: tuple[Migration, ...] = (
    Migration(1, _FORMAT_1),
    Migration(2, _FORMAT_2, before=_BEFORE_2),
    Migration(3, _FORMAT_3, before=_BEFORE_3),
    Migration(4, _FORMAT_4),
    Migration(5, _FORMAT_5, min_writer=5, before=_BEFORE_5),
    Migration(6, _FORMAT_6, min_writer=6, before=_BEFORE_6),
)
