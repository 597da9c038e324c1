"""Documents, the shape of their table, one recall call, and its reply: plain data shared by oracle
and tests.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from oracle.arithmetic import F32
from oracle.bm25 import Bm25
from oracle.fusion import Fusion
from oracle.scope import Attributes, Cell, Predicate
from oracle.words import Query

Key = str | int
Scope = frozenset[Cell]

DEFAULT_DEPTH = 100


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
    many: frozenset[str] = frozenset()  # dense arms whose rows and queries have many vectors
    sparse: frozenset[str] = frozenset()  # likewise of terms: number i has the weight vector[i]
    integer_keys: bool = False
    weights: Mapping[str, Mapping[str, int]] = field(
        default_factory=dict
    )  # arm -> column -> weight; 1 where nothing is said

    def column_weights(self, arm: str) -> tuple[int, ...]:
        """The weight of each column of a lexical arm."""
        given = self.weights.get(arm, {})
        return tuple(given.get(column, 1) for column in self.lexical[arm])

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
class Page:
    """What a call counts beside its hits, and the columns that order them; None: scores do."""

    sort: tuple[tuple[str, bool], ...] | None = None  # columns, each with whether it descends
    facets: tuple[str, ...] = ()
    edges: tuple[float | None, ...] = ()  # of ranges of ``price``


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
    more: tuple[Any, ...] = ()  # arms, with the names and the options of the public ones
    inputs: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)  # of those that take any
    shaping: tuple[Any, ...] = ()  # stages, with the names and the options of the public ones
    by_thread: bool = False
    group: str | None = None  # where it is by thread: by a column instead
    per_group: int = 5
    n_around: int = 0
    page: Page | None = None
    recipe: str | None = None  # "exact" or "threads": the call goes by such a recipe

    @property
    def arms(self) -> tuple[str, ...]:
        """Arms that the call asks for."""
        return (*self.texts, *self.vectors, *(arm.name for arm in self.more))

    def filter(self, query: int) -> Predicate | None:
        """The filter of one query."""
        return None if self.filters is None else self.filters[query]

    def take(self, queries: Iterable[int]) -> "Call":
        """The same call for some of its queries, in the order given."""
        at = tuple(queries)
        return replace(
            self,
            scopes=tuple(self.scopes[i] for i in at),
            texts={arm: tuple(texts[i] for i in at) for arm, texts in self.texts.items()},
            vectors={arm: tuple(vectors[i] for i in at) for arm, vectors in self.vectors.items()},
            inputs={arm: tuple(given[i] for i in at) for arm, given in self.inputs.items()},
            filters=None if self.filters is None else tuple(self.filters[i] for i in at),
        )

    def stage(self, name: str) -> Any:
        """The stage of that name, or None."""
        return next((one for one in self.shaping if type(one).__name__ == name), None)

    @property
    def is_grouped(self) -> bool:
        """Whether threads are hits, or rows around hits are shown."""
        return self.by_thread or self.n_around > 0

    def deep(self) -> "Call":
        """The same call with a depth that gives its page."""
        most = self.limit + self.offset
        return replace(self, depth=max(DEFAULT_DEPTH if self.depth is None else self.depth, most))


class Hit(NamedTuple):
    """One row of a reply; scores and ranks are in the order of ``Shape.arms``."""

    rank: int
    key: Key
    cell: Cell
    score: float | None
    arm_scores: tuple[float | None, ...]
    arm_ranks: tuple[int | None, ...]
    around: tuple[tuple[int, Key], ...] = ()  # rows beside it in its thread, by steps
    thread: tuple[tuple[Key, float], ...] = ()  # the best rows of its thread, with their scores
    counted: tuple[Any, ...] = ()  # how many rows the query matches, and its facets


Reply = tuple[Hit, ...]
