"""Decides how rows of a store become rows of an index: columns, texts, analyzer.

A recipe decides which texts are searched, a recipe or the store's ``analyzer=`` how they become
words; everything else is there for every recipe. So recipes of one layout share one index, and a
store is indexed anew only for a recipe of another layout or for another analyzer. Rows of one cell
and one session are a thread, in the order of their times; a row without a session is in none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias

import pyarrow as pa
import xxhash

from hyrecall.arm.regex import Regex
from hyrecall.ask.filters import Filter
from hyrecall.ask.recipe import Recipe
from hyrecall.ask.scope import ANY, Scope, ScopePattern
from hyrecall.errors import OptionError, error
from hyrecall.graph.graph import Graph, GraphSchema
from hyrecall.index import Index
from hyrecall.memory.data.matches import DegradedReason
from hyrecall.memory.data.metadata import COLUMN as METADATA
from hyrecall.memory.data.metadata import metadata_tokens
from hyrecall.memory.sql.codec import FACT_SOURCE, Cell
from hyrecall.memory.sql.reading import STORED
from hyrecall.table.schema import Schema, Text
from hyrecall.text.analyzer import Analyzer

CELL = {"org": "org", "workspace": "workspace", "user": "user", "visibility": "visibility",
        "table": "source"}  # fmt: skip
"""The columns that are a row's cell, and what they are called in the table of cells."""

ANALYZER = "unicode:english"
"""The analyzer of a store where neither recipe nor ``analyzer=`` says which; see
docs/decisions/0017-analyzer-of-a-store.md."""

_OWN_ANALYZERS = {"loom": "word"}
"""Analyzers of systems whose recipes state none, since an index may have any."""

_REVISION = 1
"""Raised when the same rows of a store would become other rows of an index."""

_TEXT = pa.large_string()
_TIME = pa.timestamp("us", "UTC")
_TAGS = pa.list_(_TEXT)


@dataclass(frozen=True)
class IndexColumn:
    """A column of an index, and the SQL that reads it from a store."""

    # ``sql`` speaks of a document d, its head version v, its cell c and its fact f (nulls if it is
    # none); for an edge, of the edge e and its cell c. ``read`` makes the value of what that gives.

    sql: str
    type: pa.DataType
    read: Callable[[Any], Any] | None = None

    def array(self, values: Sequence[Any]) -> pa.Array:
        """Return values from SQL as an Arrow array."""
        return pa.array(values if self.read is None else map(self.read, values), self.type)


_BOTH = """CASE WHEN trim(v.input) = '' THEN v.output WHEN trim(v.output) = '' THEN v.input
  ELSE v.input || char(10) || v.output END"""

_COLUMNS = {
    "id": IndexColumn("d.id", _TEXT),
    "key": IndexColumn("d.id", _TEXT),
    **{name: IndexColumn(f"c.{column}", _TEXT) for name, column in CELL.items()},
    "input": IndexColumn("v.input", _TEXT),
    "output": IndexColumn("v.output", _TEXT),
    "text": IndexColumn(_BOTH, _TEXT),
    "description": IndexColumn(_BOTH, _TEXT),
    "tag_words": IndexColumn(
        """CASE WHEN json_valid(v.tags) THEN
          ifnull((SELECT group_concat(value, ' ' ORDER BY key) FROM json_each(v.tags)), '') END""",
        _TEXT,
    ),
    "data": IndexColumn("v.metadata", _TEXT),
    "row": IndexColumn("v.row", pa.int64()),
    "kind": IndexColumn("v.kind", _TEXT),
    "source": IndexColumn(f"iif(f.row IS NULL, v.source, '{FACT_SOURCE}')", _TEXT),
    "session_id": IndexColumn("v.session_id", _TEXT),
    "occurred_at": IndexColumn("v.occurred_at", _TIME),
    "created_at": IndexColumn("v.occurred_at", _TIME),
    "stored_at": IndexColumn(STORED, _TIME),
    "updated_at": IndexColumn("v.recorded_at", _TIME),
    "last_accessed": IndexColumn("ifnull(d.last_accessed, v.occurred_at)", _TIME),
    "importance": IndexColumn("v.importance", pa.float64()),
    "pinned": IndexColumn("d.pinned", pa.bool_(), bool),
    "tags": IndexColumn("v.tags", _TAGS, json.loads),
    "valid_from": IndexColumn("f.valid_from", _TIME),
    "valid_to": IndexColumn("f.valid_to", _TIME),
    "version": IndexColumn("d.version", pa.int64()),
    "expires_at": IndexColumn("v.expires_at", _TIME),
    "author": IndexColumn("v.author", _TEXT),
    METADATA: IndexColumn("v.metadata", _TAGS, metadata_tokens),
}

_ATTRIBUTES = (
    "kind", "source", "session_id", "occurred_at", "created_at", "stored_at", "updated_at",
    "last_accessed", "importance", "pinned", "tags", "valid_from", "valid_to", "version",
    "expires_at", "author", METADATA,
)  # fmt: skip

UNEMBEDDED = "unembedded"
"""The column that says which rows have a text, and no vector that the index takes."""

FILTERED = {name: _COLUMNS[name] for name in _ATTRIBUTES}
"""The columns that a filter may ask; of the metadata's tokens, its keys."""

EDGES = {
    "id": IndexColumn("e.id", _TEXT),
    **{name: _COLUMNS[name] for name in CELL},
    "relationship": IndexColumn("e.relationship", _TEXT),
    "description": IndexColumn("e.description", _TEXT),
    "participants": IndexColumn(
        # The cast is needed because damage may turn a name into a BLOB, which JSON refuses.
        """(SELECT json_group_array(CAST(node AS TEXT) ORDER BY ordinal) FROM participants p
            WHERE p.cell = e.cell AND p.edge = e.id)""",
        _TAGS,
        json.loads,
    ),
    "recorded_at": IndexColumn("e.recorded_at", _TIME),
    "changed": IndexColumn("e.changed", pa.int64()),
}
"""The columns of an index of edges."""

_EDGE_SCHEMA = GraphSchema(
    key="id",
    cell=tuple(CELL),
    text=("relationship", "description"),
    participants="participants",
    attributes="recorded_at",
    stored="changed",
)


@dataclass(frozen=True)
class Layout:
    """The columns, texts and analyzer of a store's index."""

    key: str = "id"
    texts: tuple[str, ...] = ("input", "output")
    analyzer: Analyzer = field(default_factory=lambda: Analyzer(ANALYZER))
    stored: tuple[str, ...] = field(default=("row", "text"))

    @cached_property
    def schema(self) -> Schema:
        """The schema of the index of documents."""
        return Schema(
            key=self.key,
            cell=tuple(CELL),
            text={"text": Text(*self.texts)},
            vector="embedding",
            attributes=(*_ATTRIBUTES, UNEMBEDDED),
            stored=self.stored,
            thread="session_id",
            place="occurred_at",
        )

    @property
    def edge_schema(self) -> GraphSchema:
        """The schema of the graph."""
        return _EDGE_SCHEMA

    @cached_property
    def columns(self) -> dict[str, IndexColumn]:
        """The columns of a table of documents by name, but for those made of the embedding."""
        names = (self.key, *CELL, *self.texts, *_ATTRIBUTES, *self.stored)
        return {name: _COLUMNS[name] for name in dict.fromkeys(names)}

    @cached_property
    def hash(self) -> str:
        """16 hex digits over everything that determines the rows of an index."""
        facts = {
            "revision": _REVISION,
            "documents": self.schema.to_dict(),
            "edges": self.edge_schema.index_schema.to_dict(),
            "analyzer": self.analyzer.hash,
            "columns": {
                kind: {name: [column.sql, str(column.type)] for name, column in columns.items()}
                for kind, columns in (("documents", self.columns), ("edges", EDGES))
            },
        }
        return xxhash.xxh3_64_hexdigest(json.dumps(facts, sort_keys=True).encode())


def layout_of(recipe: Recipe, analyzer: Analyzer | None = None) -> Layout:
    """Return the layout that a recipe needs."""
    # A recipe that breaks ties by ``key`` calls the id so, and speaks of nodes with a description
    # and data; every other one speaks of what was said, with l0 counting id and tags as words.
    if analyzer is None:
        name = recipe.analyzer or _OWN_ANALYZERS.get(recipe.name, ANALYZER)
        analyzer = Analyzer(name)
    elif recipe.analyzer not in (None, analyzer.name):
        wish = f"{recipe.analyzer!r}, which the recipe {recipe.name!r} states"
        raise error(OptionError, "analyzer", wish, repr(analyzer))
    if "key" in recipe.columns:
        stored = ("row", "text", "description", "data")
        made = Layout("key", ("description",), analyzer, stored)
    elif recipe.name == "l0":
        made = Layout(texts=("id", "input", "output", "tag_words"), analyzer=analyzer)
    else:
        made = Layout(analyzer=analyzer)
    unknown = [name for name in recipe.columns if name not in made.columns]
    if unknown:
        raise error(OptionError, "recipe", f"columns of {list(made.columns)}", repr(unknown[0]))
    return made


_OTHER_NAMES = {"key": "id", "description": "text"}
"""What a store of memories calls the columns of one of nodes; it has no column ``data``."""


def on_layout(recipe: Recipe, layout: Layout) -> Recipe | None:
    """Return a recipe as it recalls from an index of a layout; None: it cannot."""
    # A recipe that states no analyzer takes the layout's.
    if recipe.analyzer not in (None, layout.analyzer.name):
        return None
    forms = [recipe, _of_memories(recipe)]
    return next((one for one in forms if layout_of(one, layout.analyzer) == layout), None)


def serves(layout: Layout, recipe: Recipe) -> bool:
    """Return whether a recipe can recall from an index of a layout."""
    return on_layout(recipe, layout) is not None


def _of_memories(recipe: Recipe) -> Recipe:
    """Return a recipe over nodes as one over memories; others are given back as they are."""
    if "key" not in recipe.columns:
        return recipe

    def renamed(arm: Any) -> Any:
        if not isinstance(arm, Regex):
            return arm
        named = [_OTHER_NAMES.get(one, one) if isinstance(one, str) else one for one in arm.columns]
        return replace(arm, columns=tuple(one for one in named if one != "data"))

    ties = [
        replace(one, column=_OTHER_NAMES.get(one.column, one.column)) for one in recipe.tie_break
    ]
    return recipe.replace(
        tie_break=tuple(ties),
        more=tuple(map(renamed, recipe.more)),
        on_no_match=tuple(map(renamed, recipe.on_no_match)),
    )


# ---- What a follower returns: an index to search, why there is none, how it was opened ----

BEHIND = "changes are being applied"
"""What is known of an index that is there, and not up to date."""

How: TypeAlias = Literal["snapshot", "rebuilt", "later", "failed"]


class IndexNotReadyError(Exception):
    """There is no index now. Raised inside the package only: recall then answers without it."""

    def __init__(self, reason: DegradedReason, detail: str) -> None:
        super().__init__(f"{reason} ({detail})")
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True)
class Ready:
    """An index that has applied every change up to ``sequence``."""

    # ``graph`` is there without edges too: recipes name it. ``behind``: changes of another process
    # are being applied, and it lacks them.

    index: Index
    graph: Graph
    sequence: int
    layout: Layout
    model: str | None
    dim: int
    behind: bool = False


@dataclass(frozen=True)
class OpenReport:
    """How a follower got its index: opened, built, or left for later."""

    how: How
    reason: str
    seconds: float


# ---- Counts the memories of some cells that vectors cannot find ----

EVERYWHERE = Scope.matching(**dict.fromkeys(CELL, ANY))

MOST_KEPT = 256
"""Counts that are kept for the next call."""

ARE_UNEMBEDDED = Filter(**{UNEMBEDDED: True})
"""Passes memories with a text and without a vector that the index takes."""


def count_unembedded(index: Index, scope: Scope | ScopePattern = EVERYWHERE) -> int:
    """Count the memories of a scope with a text and without a vector that the index takes."""
    return index.count(scope=scope, filter=ARE_UNEMBEDDED)


def told_unembedded(n: int, n_memories: int) -> str:
    """Say how many memories have no usable vector."""
    return f"{n} of {n_memories} memories have no usable vector"


class ComparableVectors:
    """Counts the memories that a query's vector cannot be compared with, once for each state."""

    def __init__(self) -> None:
        self._kept: dict[tuple[object, ...], str] = {}

    def told(self, ready: Ready, cells: tuple[tuple[int, Cell], ...]) -> str:
        """Say how many memories of cells have no usable vector; "" if all have one."""
        key = (ready.sequence, ready.model, ready.dim, tuple(number for number, _ in cells))
        found = self._kept.get(key)
        if found is None:
            scope = Scope([tuple(cell) for _, cell in cells])
            n = count_unembedded(ready.index, scope)
            found = told_unembedded(n, ready.index.count(scope=scope)) if n else ""
            if len(self._kept) >= MOST_KEPT:
                self._kept = {}
            self._kept[key] = found
        return found
