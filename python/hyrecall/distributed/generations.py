"""Replaces the shards of an open index when ``shards.json`` of their folder was replaced.

A generation is the shards of one ``shards.json`` and the router that belongs to them. A recall uses
one generation from its beginning to its end. A new generation replaces the old one in one step,
when all of its shards are open. Shards of the old one are closed after the last recall that uses
them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall.ask.scope import ANY, CellTypes, Scope, ScopePattern, scope_entries
from hyrecall.base.arguments import as_list, python_scalar
from hyrecall.base.forks import renew_in_children
from hyrecall.distributed.asking import (
    ShardThreads,
    answers_of,
    begin_alone,
    begin_candidates,
    begin_statistics,
    merged,
    results_of,
)
from hyrecall.distributed.replicated import ReplicatedShard
from hyrecall.distributed.shards import (
    AskedAlone,
    Fault,
    LocalShard,
    Named,
    OpenShard,
    Question,
    Shard,
    closed,
    told_of,
)
from hyrecall.distributed.shards_file import PlacedShards, Placement, SavedFolders
from hyrecall.errors import (
    CorruptIndexError,
    HyrecallError,
    OptionError,
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
from hyrecall.parts.spreading import (
    Share,
    joined_alone,
    spread_part,
    sum_shares,
    widest_runs,
)
from hyrecall.recall.recipe_answer import by_recipe
from hyrecall.segments.segments import IndexFacts

# ---- Sends each shard only the queries whose scopes may have documents there ----
# A placement says which shards may hold a cell, and so which queries of a batch each shard gets.
# The statistics and parts of each shard are spread to the whole batch before they are summed and
# merged, so replies are the same, bit for bit, as if every shard were asked every query.

Queries = npt.NDArray[np.int64]


class Routes(NamedTuple):
    """The queries that each shard gets."""

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


class ShardRouter:
    """Distributes the queries of a batch over the shards of a placement."""

    def __init__(self, placement: Placement, types: CellTypes) -> None:
        self._placement = placement
        self._types = types
        self._all = frozenset(range(placement.n_shards))

    def routes(self, request: Request) -> Routes | None:
        """Return which queries of a request each shard is asked; None: its scope is invalid."""
        try:
            given = scope_entries(self._types, request.given["scope"])
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
    """Some queries of a batch, and the shard that gets them."""

    shard: Shard
    request: Request
    share: Share

    @property
    def name(self) -> str:
        """The name of the shard."""
        return self.shard.name


def _has_forms(request: Request) -> bool:
    """Say whether a recipe has a separate form for queries that see threads."""
    given = request.given["recipe"]
    return given is not None and any(one.with_threads is not None for one, _ in by_recipe(given))


def _alone(one: Routed) -> Question[Part]:
    assert isinstance(one.shard, AskedAlone)
    return begin_alone(one.shard, one.request)


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
    return Routed(shard, request.of_queries(given, queries), share)


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


# ---- Replaces the shards of an open index when ``shards.json`` of their folder was replaced ----

N_ = TypeVar("N_", bound=Named)
T_ = TypeVar("T_")


class OpenShards(NamedTuple):
    """Shards that were opened together."""

    shards: list[Shard]
    folders: list[Path]
    placed: PlacedShards | None
    facts: IndexFacts


Opener = Callable[[SavedFolders, Mapping[Path, Shard]], OpenShards]
"""Opens saved indexes as shards, except those that are open already: by their folders."""


def n_replicas(shard: Shard) -> int:
    """Return the number of replicas of a shard."""
    return len(shard.replicas) if isinstance(shard, ReplicatedShard) else 1


class ShardGeneration:
    """Open shards that answer recalls together."""

    def __init__(self, shards: Sequence[Shard], opened: OpenShards | None = None) -> None:
        self.shards = tuple(shards)
        self.placed: PlacedShards | None = None
        self.router: ShardRouter | None = None
        if opened is not None and opened.placed is not None:
            folder = opened.placed.folder.absolute()  # the program may change its directory
            self.placed = opened.placed._replace(folder=folder)
            self.router = ShardRouter(opened.placed.shards.placement, opened.facts.cell_types)
        self.n_users = 0
        is_local = all(isinstance(one, LocalShard) for one in shards)
        # Two a replica: a question to a replica that hangs must not block other questions.
        self.pool = None if is_local else ShardThreads(2 * sum(map(n_replicas, shards)))
        # A separate pool: recalls that hang must not block health checks.
        self.checks = None if is_local else ShardThreads(2 * len(shards))

    def shards_in(self, placed: PlacedShards) -> dict[Path, Shard]:
        """Return the shards that another generation has, too, by their folders."""
        if self.placed is None:
            return {}
        theirs = set(zip(placed.folders, placed.seals, strict=True))
        ours = zip(self.placed.folders, self.placed.seals, self.shards, strict=True)
        return {folder: one for folder, seal, one in ours if (folder, seal) in theirs}

    @property
    def facts(self) -> IndexFacts:
        """The facts that all shards share."""
        for one in self.shards:
            if isinstance(one, OpenShard):
                return one.facts
        raise error(OptionError, "shards", "one that this package opened", "others")

    def answer(self, request: Request) -> Hits:
        """Answer a request; see :meth:`ShardedIndex.recall` for what it raises."""
        routes = None if self.router is None else self.router.routes(request)
        if routes is None:  # without a placement, or the shards say why a scope cannot be read
            return self._answer_whole(request, self.shards, {})
        if routes.is_split:
            hits = self._answer_routed(request, routes)
            if hits is not None:
                return hits
        lost: dict[str, Fault] = {}
        asked = [self.shards[number] for number in routes.queries]
        return told_by_query(self._answer_whole(request, asked, lost), self.shards, routes, lost)

    def _answer_routed(self, request: Request, routes: Routes) -> Hits | None:
        """Ask each shard its own queries; None: ask whole, for the errors of a single index."""
        lost: dict[str, Fault] = {}
        try:
            routed = [
                _routed(request, routes.scope, self.shards[number], own)
                for number, own in routes.queries.items()
                if own is not None
            ]
            if routes.is_disjoint and all(isinstance(one.shard, AskedAlone) for one in routed):
                found = self._ask(routed, _alone, lost)
                parts = joined_alone([(part, one.share) for one, part in found])
            elif len({_has_forms(one.request) for one in routed}) == 1:
                parts = self._summed(routed, lost)
            else:  # shards whose recipes have no form for threads name their runs differently
                return None
            hits = merged(request, parts, told_of(lost))
        except (ShardLostError, CorruptIndexError, StaleStatisticsError):
            raise
        except HyrecallError:
            return None
        return told_by_query(hits, self.shards, routes, lost)

    def _summed(self, routed: Sequence[Routed], lost: dict[str, Fault]) -> list[Part]:
        """Ask shards that share queries for counts, then for candidates with their sums."""
        counted = self._ask(routed, lambda one: begin_statistics(one.shard, one.request), lost)
        summed, shares = sum_shares([(counts, one.share) for one, counts in counted])
        told = {one.name: own for (one, _), own in zip(counted, shares, strict=True)}

        def find(one: Routed) -> Question[Part]:
            return begin_candidates(one.shard, one.request, told[one.name])

        found = self._ask([one for one, _ in counted], find, lost)
        likes = widest_runs([(part, one.share) for one, part in found])
        return [spread_part(part, one.share, summed.sees_threads, likes) for one, part in found]

    def _answer_whole(
        self, request: Request, shards: Sequence[Shard], lost: dict[str, Fault]
    ) -> Hits:
        """Ask shards all queries; record in ``lost`` those that do not answer."""
        if len(shards) == 1 and isinstance(shards[0], AskedAlone):
            ((_, part),) = self._ask([shards[0]], lambda one: begin_alone(one, request), lost)
            return merged(request, [part], told_of(lost))
        counted = self._ask(shards, lambda one: begin_statistics(one, request), lost)
        summed = Statistics.sum([statistics for _, statistics in counted])
        asked = [shard for shard, _ in counted]
        found = self._ask(asked, lambda one: begin_candidates(one, request, summed), lost)
        return merged(request, [part for _, part in found], told_of(lost))

    def _ask(
        self, shards: Sequence[N_], begin: Callable[[N_], Question[T_]], lost: dict[str, Fault]
    ) -> list[tuple[N_, T_]]:
        """Ask shards; record in ``lost`` those that do not answer or are damaged."""
        results = results_of(shards, begin, self.pool)
        return answers_of(zip(shards, results, strict=True), lost)

    def reload(self, shards: Sequence[Shard]) -> None:
        """Let some of the shards load the versions of their folders; processes start."""
        run = map if self.pool is None else self.pool.map
        for _ in run(lambda one: one.reload() if isinstance(one, OpenShard) else None, shards):
            pass

    def close(self, shards: Sequence[Shard], *, waits: bool) -> None:
        """Close some of the shards, and end the threads that ask shards."""
        for one in shards:
            one.close()
        for pool in (self.pool, self.checks):
            if pool is not None:
                pool.close(waits=waits)


class Generations:
    """The current generation, and earlier ones that recalls still use."""

    def __init__(self, first: ShardGeneration, opener: Opener | None = None) -> None:
        self.current = first
        self._opener = opener
        self._retired: list[ShardGeneration] = []
        self._is_closed = False
        self.renew()
        renew_in_children(self)

    def renew(self) -> None:
        """Make the locks and count no users, also in a forked child."""
        # Threads of the parent, which may hold the locks and recall, do not run there.
        self._lock = threading.Lock()
        self._taking_up = threading.Lock()
        for one in (self.current, *self._retired):
            one.n_users = 0

    @contextmanager
    def used(self) -> Iterator[ShardGeneration]:
        """Use the current generation, which stays open until the end."""
        with (lock := self._lock):
            if self._is_closed:
                raise closed()
            one = self.current
            one.n_users += 1
        try:
            yield one
        finally:
            with self._lock:
                if self._lock is lock:  # else the call was forked: the child does not count it
                    one.n_users -= 1
            self._close_unused()

    @property
    def is_stale(self) -> bool:
        """Whether ``shards.json`` names another generation, or cannot be read any more."""
        placed = self.current.placed
        if placed is None:
            return False
        try:
            return not placed.is_current
        except CorruptIndexError:
            return True

    def take_up(self) -> None:
        """Replace the current generation by the one that ``shards.json`` names now."""
        with self._taking_up:
            while (placed := self.current.placed) is not None and not placed.is_current:
                newer = PlacedShards.read(placed.folder)
                _check_same(placed, newer)
                try:
                    self._exchange(newer)
                except (CorruptIndexError, ShardLostError):
                    if newer.is_current:  # else it was replaced while it was opened
                        raise

    def _exchange(self, newer: PlacedShards) -> None:
        """Open a generation and make it the current one."""
        assert self._opener is not None
        kept = self.current.shards_in(newer)
        opened = self._opener(SavedFolders(newer.folders, newer, is_index=False), kept)
        made = ShardGeneration(opened.shards, opened)
        fresh = _without(made.shards, kept.values())
        try:
            made.reload(fresh)  # all processes start before the first recall
            with self._lock:
                if self._is_closed:
                    raise closed()
                # One statement: an interrupt comes before or after both.
                self.current, self._retired = made, [*self._retired, self.current]
        except BaseException:
            if self.current is not made:  # else an interrupt came after the exchange
                made.close(fresh, waits=False)
            raise
        self._close_unused()

    def _close_unused(self) -> None:
        """Close the shards that only unused earlier generations have."""
        if not self._retired:
            return
        with self._lock:
            unused = [one for one in self._retired if not one.n_users]
            self._retired = [one for one in self._retired if one.n_users]
            used = [shard for one in (self.current, *self._retired) for shard in one.shards]
        for one in unused:
            one.close(_without(one.shards, used), waits=False)

    def close(self) -> None:
        """Close all shards; calls that are under way may fail."""
        with self._lock:
            self._is_closed = True
            retired, self._retired = self._retired, []
        for one in (self.current, *retired):
            one.close(one.shards, waits=True)


def _without(shards: Iterable[Shard], others: Iterable[Shard]) -> list[Shard]:
    """Return the shards that are not among others."""
    known = set(map(id, others))
    return [one for one in shards if id(one) not in known]


def _check_same(placed: PlacedShards, newer: PlacedShards) -> None:
    """Refuse a generation of an index with another schema."""
    if newer.shards.index != placed.shards.index:
        wish = f"shards in {placed.folder} with the same schema, analyzers and dimensions"
        remedy = f"open them: ShardedIndex.open({str(placed.folder)!r})"
        raise error(OptionError, "path", wish, "those of another index", remedy)
