"""Documents, the shape of their table, one recall call, and its reply: plain data shared by oracle
and tests.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from oracle.arithmetic import F32
from oracle.bm25 import Bm25
from oracle.fusion import Fusion
from oracle.scope import Attributes, Cell, Predicate
from oracle.words import Query

Key = str | int
Scope = frozenset[Cell]


@dataclass(frozen=True)
class Shape:
    """What a table looks like. ``cell=()`` is a table with one audience."""

    cell: tuple[str, ...] = ("tenant",)
    lexical: Mapping[str, tuple[str, ...]] = field(
        default_factory=lambda: {"text": ("text",)}
    )  # arm -> columns
    dense: Mapping[str, int] = field(
        default_factory=lambda: {"embedding": 4}
    )  # arm (and column) -> dimension
    integer_keys: bool = False

    @property
    def text_columns(self) -> tuple[str, ...]:
        """Every column that feeds a lexical arm, once."""
        return tuple(
            dict.fromkeys(column for columns in self.lexical.values() for column in columns)
        )

    @property
    def arms(self) -> tuple[str, ...]:
        """All arms, in the order in which replies show them."""
        return (*self.lexical, *self.dense)


@dataclass(frozen=True)
class Row:
    """One row of the input table."""

    key: Key
    cell: Cell
    texts: Mapping[str, str | None]
    vectors: Mapping[str, F32 | None]
    attributes: Attributes

    @property
    def identity(self) -> tuple[Cell, Key]:
        """What makes a document the same document."""
        return self.cell, self.key


@dataclass(frozen=True)
class Above:
    """A strict floor."""

    value: float


@dataclass(frozen=True)
class Call:
    """One recall call: a batch of queries, each with its scope and filter, and options that hold
    for all of them.
    """

    scopes: tuple[Scope, ...]
    texts: Mapping[str, tuple[Query | None, ...]] = field(default_factory=dict)
    vectors: Mapping[str, tuple[F32 | None, ...]] = field(default_factory=dict)
    filters: tuple[Predicate | None, ...] | None = None
    limit: int = 10
    offset: int = 0
    depth: int | None = None
    fusion: Fusion | None = None
    min_score: Mapping[str, float | Above] = field(default_factory=dict)
    min_fused: float | None = None
    bm25: Bm25 | None = None

    @property
    def arms(self) -> tuple[str, ...]:
        """Arms that the call asks for."""
        return (*self.texts, *self.vectors)

    def filter(self, query: int) -> Predicate | None:
        """The filter of one query."""
        return None if self.filters is None else self.filters[query]

    def take(self, queries: Iterable[int]) -> "Call":
        """The same call for some of its queries, in the order given."""
        at = tuple(queries)
        return Call(
            scopes=tuple(self.scopes[i] for i in at),
            texts={arm: tuple(texts[i] for i in at) for arm, texts in self.texts.items()},
            vectors={arm: tuple(vectors[i] for i in at) for arm, vectors in self.vectors.items()},
            filters=None if self.filters is None else tuple(self.filters[i] for i in at),
            limit=self.limit,
            offset=self.offset,
            depth=self.depth,
            fusion=self.fusion,
            min_score=self.min_score,
            min_fused=self.min_fused,
            bm25=self.bm25,
        )


class Hit(NamedTuple):
    """One row of a reply; scores and ranks are in the order of ``Shape.arms``."""

    rank: int
    key: Key
    cell: Cell
    score: float
    arm_scores: tuple[float | None, ...]
    arm_ranks: tuple[int | None, ...]


Reply = tuple[Hit, ...]
