"""Sends each shard only the queries whose scopes may have documents there.

A placement says which shards may hold a cell, and so which queries of a batch each shard gets. The
statistics and parts of each shard are spread to the whole batch before they are summed and merged,
so replies are the same, bit for bit, as if every shard were asked every query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall.ask.graphs import GraphLike
from hyrecall.ask.scope import ANY, CellTypes, Scope, ScopePattern, scope_entries
from hyrecall.base.arguments import as_list, python_scalar
from hyrecall.distributed.asking import begin_alone, begin_candidates, begin_statistics, merged
from hyrecall.distributed.looking import Looking
from hyrecall.distributed.lost_shards import Fault, told_of
from hyrecall.distributed.placement import Placement
from hyrecall.distributed.question import Question
from hyrecall.distributed.shards import Ask, AskedAlone, Shard
from hyrecall.errors import (
    CorruptIndexError,
    HyrecallError,
    ScopeError,
    ShapeError,
    ShardLostError,
    StaleStatisticsError,
    error,
)
from hyrecall.hits.hits import Hits, reply_of
from hyrecall.hits.joined_reply import JoinedReply
from hyrecall.parts.counts import Statistics
from hyrecall.parts.part import Part
from hyrecall.parts.request import Request
from hyrecall.parts.spreading import Share, joined_alone, spread_part, sum_shares, widest_runs
from hyrecall.recall.recipe_answer import by_recipe

__all__ = ["Routed", "Router", "Routes", "answer_routed", "told_by_query"]

Queries = npt.NDArray[np.int64]


class Routes(NamedTuple):
    """Which shards are asked which queries."""

    scope: Any
    queries: Mapping[int, Queries | None]
    blind: frozenset[int] = frozenset()

    @property
    def is_split(self) -> bool:
        """Whether some shard is asked only some of the queries."""
        return any(own is not None for own in self.queries.values())

    @property
    def is_disjoint(self) -> bool:
        """Whether no query goes to two shards; valid only if the routes are split."""
        asked = [0 if own is None else len(own) for own in self.queries.values()]
        return sum(asked) == len(self.scope)


class Router:
    """Distributes the queries of a batch over the shards of a placement."""

    def __init__(self, placement: Placement, types: CellTypes) -> None:
        """Take a placement, and the types of the cell columns."""
        self._placement = placement
        self._types = types
        self._all = frozenset(range(placement.n_shards))

    def routes(self, request: Request) -> Routes | None:
        """Return which queries of a request each shard is asked; see :meth:`of_scope`."""
        return self.of_scope(request.given["scope"])

    def of_scope(self, scope: object) -> Routes | None:
        """Return which queries each shard is asked."""
        try:
            given = scope_entries(self._types, scope)
            needed = self._scopes(given)
        except (HyrecallError, TypeError):
            return None
        if not isinstance(needed, list):
            return Routes(given, dict.fromkeys(sorted(needed or {0})))
        any_shard = min((shard for shards in needed for shard in shards), default=0)
        queries: dict[int, list[int]] = {}
        for query, shards in enumerate(needed):
            for shard in shards or (any_shard,):
                queries.setdefault(shard, []).append(query)
        if all(len(own) == len(needed) for own in queries.values()):
            return Routes(given, dict.fromkeys(sorted(queries) or [0]))
        own = {shard: np.array(queries[shard], np.int64) for shard in sorted(queries)}
        blind = frozenset(query for query, shards in enumerate(needed) if not shards)
        return Routes(given, dict(own), blind)

    def _scopes(self, scope: object) -> frozenset[int] | list[frozenset[int]]:
        """Return the shards of a scope, or of the scope of each query."""
        if isinstance(scope, list):
            known: dict[object, frozenset[int]] = {}
            return [self._known(one, known) for one in scope]
        return self._shards(scope)

    def _known(self, scope: object, known: dict[object, frozenset[int]]) -> frozenset[int]:
        if not isinstance(scope, str | Scope):  # 1 and True would be the same dict key
            return self._shards(scope)
        found = known.get(scope)
        if found is None:
            found = known[scope] = self._shards(scope)
        return found

    def _shards(self, scope: object) -> frozenset[int]:
        """Return the shards that may hold documents of a scope."""
        placement = self._placement
        if not self._types:
            if scope is not None:
                raise error(ScopeError, "scope", "no scope", repr(scope))
            return frozenset(placement.shards_of(()))
        if isinstance(scope, ScopePattern):
            named = dict(scope.parts)
            if set(named) != set(self._types):
                raise error(ScopeError, "scope", "every cell column named", sorted(named))
            if any(value is ANY for value in named.values()):
                return self._all
            return frozenset(placement.shards_of(tuple(named[name] for name in self._types)))
        if isinstance(scope, Scope):
            shards = (one for cell in scope.cells for one in placement.shards_of(cell))
            return frozenset(shards)
        scope = python_scalar(scope)
        if scope is None or isinstance(scope, list):
            raise error(ScopeError, "scope", "a scope", repr(scope))
        return frozenset(placement.shards_of(scope))


class Routed(NamedTuple):
    """Queries of a batch, and the shard that is asked them."""

    shard: Shard
    queries: Queries
    request: Request
    share: Share

    @property
    def name(self) -> str:
        """The name of the shard."""
        return self.shard.name


def answer_routed(
    request: Request,
    shards: Sequence[Shard],
    routes: Routes,
    ask: Ask,
    looking: Looking,
    graphs: Mapping[str, GraphLike],
) -> Hits | None:
    """Answer a request by asking each shard its own queries."""
    # Shards that ``looking`` has lost are not asked.
    lost = looking.lost
    try:
        left = set(map(id, looking.left([shards[number] for number in routes.queries])))
        routed = [
            _routed(request, routes.scope, shards[number], own)
            for number, own in routes.queries.items()
            if own is not None and id(shards[number]) in left
        ]
        if routes.is_disjoint and all(isinstance(one.shard, AskedAlone) for one in routed):
            found = ask(routed, _alone, lost)
            for one, part in found:
                looking.note(one.name, (part.version,))
            parts = joined_alone([(part, one.share) for one, part in found])
        elif len({_has_forms(one.request) for one in routed}) == 1:
            parts = _summed(routed, ask, looking)
        else:  # shards whose recipes have no form for threads name their runs differently
            return None
        hits = merged(request, parts, told_of(lost), graphs, looking.ask)
    except (ShardLostError, CorruptIndexError, StaleStatisticsError):
        raise
    except HyrecallError:
        return None
    return told_by_query(hits, shards, routes, lost)


def _has_forms(request: Request) -> bool:
    """Say whether a recipe has a separate form for queries that see threads."""
    given = request.given["recipe"]
    return given is not None and any(one.with_threads is not None for one, _ in by_recipe(given))


def _alone(one: Routed) -> Question[Part]:
    assert isinstance(one.shard, AskedAlone)
    return begin_alone(one.shard, one.request)


def _summed(routed: Sequence[Routed], ask: Ask, looking: Looking) -> list[Part]:
    """Ask shards that share queries: first for counts, then for candidates with their sums."""
    lost = looking.lost

    def count(one: Routed) -> Question[Statistics]:
        return begin_statistics(one.shard, one.request._for_counts())

    counted = ask(routed, count, lost)
    for one, counts in counted:
        looking.note(one.name, counts.versions)
    summed, shares = sum_shares([(counts, one.share) for one, counts in counted])
    told = {one.name: own for (one, _), own in zip(counted, shares, strict=True)}

    def find(one: Routed) -> Question[Part]:
        return begin_candidates(one.shard, one.request, told[one.name])

    found = ask([one for one, _ in counted], find, lost)
    likes = widest_runs([(part, one.share) for one, part in found])
    return [spread_part(part, one.share, summed.sees_threads, likes) for one, part in found]


def told_by_query(
    hits: Hits, shards: Sequence[Shard], routes: Routes, lost: Mapping[str, Fault]
) -> Hits:
    """Return hits that report a lost shard only for the queries that may have documents there."""
    about = {}
    for number, own in routes.queries.items():
        name = shards[number].name
        if name in lost and own is not None:  # None: the report is for all queries
            (told,) = told_of({name: lost[name]})
            needs = (query for query in own.tolist() if query not in routes.blind)
            about[told] = dict.fromkeys(needs, told)
    if not about:
        return hits

    def noted(reply: Any) -> Any:
        return replace(reply, trace=replace(reply.trace, about=reply.trace.about | about))

    reply = noted(reply_of(hits))
    if isinstance(reply, JoinedReply):
        reply = replace(reply, replies=tuple(noted(one) for one in reply.replies))
    return Hits(reply)


def _routed(request: Request, scope: Sequence[object], shard: Shard, queries: Queries) -> Routed:
    """Make the request of some queries, with the id of the whole request."""
    given = dict(request.given) | {"scope": scope}
    n = len(scope)
    for name in ("text", "vectors", "candidates"):
        given[name] = _pick(name, given[name], queries, n)
    for name in ("scope", "filter", "session", "recipe"):
        if name == "scope" or isinstance(given[name], list):
            given[name] = _pick(name, given[name], queries, n)
    given["query_keys"] = None  # read where the parts are merged
    share = Share(queries, n, _recipes(request, queries))
    return Routed(shard, queries, request.of_queries(given, queries), share)


def _pick(name: str, value: Any, queries: Queries, n: int) -> Any:
    """Return the entries of some queries."""
    if value is None:
        return None
    if isinstance(value, Mapping):
        return {key: _pick(name, one, queries, n) for key, one in value.items()}
    if not hasattr(value, "shape"):
        value = value if isinstance(value, pa.Array | pa.ChunkedArray) else as_list(value)
    if isinstance(value, str) or not hasattr(value, "__len__") or len(value) != n:
        raise error(ShapeError, name, f"{n} entries, one per query", type(value).__name__)
    if isinstance(value, pa.Array | pa.ChunkedArray):
        return value.take(pa.array(queries))
    if isinstance(value, list | tuple):
        return [value[query] for query in queries.tolist()]
    # In brackets, pandas reads numbers as labels of its index.
    return value.iloc[queries] if hasattr(value, "iloc") else value[queries]


def _recipes(request: Request, queries: Queries) -> list[int]:
    """Return the recipe number in the batch of each recipe of some queries."""
    given = request.given["recipe"]
    if not isinstance(given, list):
        return [0]
    known = [one for one, _ in by_recipe(given)]
    return [known.index(one) for one, _ in by_recipe([given[at] for at in queries.tolist()])]
