"""The classes whose instances cross between processes: an allow-list."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import reduce
from operator import and_, or_
from typing import Any, Final, cast

from hyrecall.ask import arms, expansion, predicates, recipe_parts, scoring, shaping
from hyrecall.ask.arms.regex import Edges
from hyrecall.ask.filters import Filter
from hyrecall.ask.recipe import Recipe
from hyrecall.ask.scope import Scope
from hyrecall.ask.session import Session
from hyrecall.errors import OptionError, error
from hyrecall.memory.sharing.wire import Kind
from hyrecall.text.bm25 import BM25

__all__ = ["OF_RECIPES", "OF_REQUESTS"]

_MOST_PARTS = 10_000


def _filter(op: object, tests: object, parts: object) -> Filter:
    """Make a filter as its operators make it, so that everything is checked."""
    if not isinstance(tests, tuple) or not isinstance(parts, tuple) or len(parts) > _MOST_PARTS:
        raise error(OptionError, "filter", "tests and parts", "others")
    if op == "test":
        return Filter(**dict(tests))
    if not parts or not all(isinstance(part, Filter) for part in parts):
        raise error(OptionError, "filter", "filters to join", "others")
    if op == "not" and len(parts) == 1:
        return cast(Filter, ~parts[0])
    if op in ("and", "or"):
        return cast(Filter, reduce(and_ if op == "and" else or_, parts))
    raise error(OptionError, "filter", "a known operator", repr(op)[:40])


def _weighted(of: type, *options: str) -> Kind:
    """Return the kind of a fusion, which is made of a mapping of weights."""

    def parts(value: Any) -> Iterable[Any]:
        weights = None if value.weights is None else dict(value.weights)
        return (weights, *(getattr(value, name) for name in options))

    def make(weights: Any, *values: Any) -> Any:
        return of(weights, **dict(zip(options, values, strict=True)))

    return Kind(of, parts, make)


def _predicate(of: type) -> Kind:
    return Kind(of, lambda value: value.values, of)


OF_RECIPES: Final[tuple[type | Kind, ...]] = (
    replace(Kind.read(Recipe), is_kept=True),
    *(recipe_parts.Lexical, recipe_parts.Dense, recipe_parts.TieBreak),
    *(recipe_parts.Tables, recipe_parts.Fill),
    *(arms.EdgeLexical, arms.Listed, arms.Newest, arms.Regex, arms.Tags, Edges),
    *(expansion.Context, expansion.SharedTags),
    *(shaping.Provenance, shaping.Rerank, shaping.RerankBy, shaping.Dedup, shaping.Recency),
    *(shaping.Composite, shaping.SessionSignals, shaping.Phase, shaping.Budget, shaping.MMR),
    *(shaping.Gate, scoring.Above, BM25),
    _weighted(scoring.RRF, "rank_constant", "alpha", "alpha_mode"),
    _weighted(scoring.WeightedSum, "normalize", "complete", "balance"),
    _weighted(scoring.Max, "normalize", "complete"),
    _weighted(scoring.DBSF, "complete"),
)
"""Recipes and what they are made of."""

OF_REQUESTS: Final[tuple[type | Kind, ...]] = (
    Kind(Filter, lambda value: value._identity(), _filter),
    *map(
        _predicate,
        (
            *(predicates.Equal, predicates.AnyOf, predicates.Between, predicates.NoneOf),
            *(predicates.AllOf, predicates.IsNull, predicates.NotNull),
        ),
    ),
    Kind(Scope, lambda value: (value.cells,), Scope),
    Session,
)
"""What else a request of an index is made of."""
