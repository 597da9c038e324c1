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
from pathlib import Path
from typing import NamedTuple, TypeVar

from hyrecall.ask.graphs import GraphLike
from hyrecall.base.forks import renew_in_children
from hyrecall.distributed.asking import (
    NO_GRAPHS,
    ShardThreads,
    answers_of,
    begin_alone,
    begin_candidates,
    begin_statistics,
    merged,
    results_of,
)
from hyrecall.distributed.graph_calls import Graphs, hold_graphs
from hyrecall.distributed.looking import Looking
from hyrecall.distributed.lost_shards import Fault, told_of
from hyrecall.distributed.placed import PlacedShards
from hyrecall.distributed.question import Question
from hyrecall.distributed.replicated import ReplicatedShard
from hyrecall.distributed.routing import Router, answer_routed, told_by_query
from hyrecall.distributed.saved_folders import SavedFolders
from hyrecall.distributed.shards import (
    AskedAlone,
    LocalShard,
    Named,
    OpenShard,
    Shard,
    closed,
)
from hyrecall.errors import (
    CorruptIndexError,
    HyrecallError,
    OptionError,
    ShardLostError,
    StaleStatisticsError,
    error,
)
from hyrecall.hits.hits import Hits
from hyrecall.parts.counts import Statistics
from hyrecall.parts.request import Request
from hyrecall.parts.tag_rounds import follow_tags, has_tags
from hyrecall.segments.facts import IndexFacts

__all__ = ["Generation", "Generations", "OpenShards", "Opener", "n_replicas"]

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


class Generation:
    """Open shards that answer recalls together."""

    def __init__(self, shards: Sequence[Shard], opened: OpenShards | None = None) -> None:
        """Take shards, and how they were opened by this package."""
        self.shards = tuple(shards)
        self.placed: PlacedShards | None = None
        self.router: Router | None = None
        if opened is not None and opened.placed is not None:
            folder = opened.placed.folder.absolute()  # the program may change its directory
            self.placed = opened.placed._replace(folder=folder)
            self.router = Router(opened.placed.shards.placement, opened.facts.cell_types)
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

    def looking(self) -> Looking:
        """Return what asks the shards look-ups during one recall."""
        return Looking(self.shards, self.router, self.pool)

    def answer(self, request: Request, graphs: Graphs = NO_GRAPHS) -> Hits:
        """Answer a request; see :meth:`ShardedIndex.recall` for what it raises."""
        looking = self.looking()
        if not graphs and not has_tags(request.given):
            return self._answer(request, looking, NO_GRAPHS)
        held: Mapping[str, GraphLike] = NO_GRAPHS
        if graphs:
            request, held = hold_graphs(self.facts, request, graphs, looking)
        while True:
            told = self._with_tags(request, looking)
            hits = None if looking.has_failed else self._answer(told, looking, held)
            if hits is not None and not looking.has_failed:
                return hits
            # Answers of a lost shard are in the reply: the other shards answer without it. Each
            # turn leaves out one shard more, for good, so there are at most as many as shards.
            looking.forget_lost()

    def _answer(self, request: Request, looking: Looking, held: Mapping[str, GraphLike]) -> Hits:
        lost = dict(looking.lost)
        routes = None if self.router is None else self.router.routes(request)
        if routes is None:
            return self._answer_whole(request, self.shards, looking, held)
        if routes.is_split:
            hits = answer_routed(request, self.shards, routes, self._ask, looking, held)
            if hits is not None:
                return hits
        looking.lost = lost  # those that only another question had lost are asked again
        asked = [self.shards[number] for number in routes.queries]
        hits = self._answer_whole(request, asked, looking, held)
        return told_by_query(hits, self.shards, routes, looking.lost)

    def _with_tags(self, request: Request, looking: Looking) -> Request:
        """Return a request that tells shards the tags that its queries reach."""
        if not has_tags(request.given):
            return request
        told = request._told or {}
        try:
            tags = follow_tags(request, looking.ask_ahead, self.facts.cell_types)
        except HyrecallError as fault:
            if not isinstance(fault, ShardLostError | CorruptIndexError | StaleStatisticsError):
                # A single index checks all arguments before it looks up tags.
                counting = request._with_told({})
                self._ask(self.shards, lambda one: begin_statistics(one, counting), {})
            raise
        return request._with_told({**told, **tags})

    def _answer_whole(
        self,
        request: Request,
        shards: Sequence[Shard],
        looking: Looking,
        held: Mapping[str, GraphLike],
    ) -> Hits:
        shards, lost = looking.left(shards), looking.lost
        if len(shards) == 1 and isinstance(shards[0], AskedAlone):
            ((one, part),) = self._ask([shards[0]], lambda one: begin_alone(one, request), lost)
            looking.note(one.name, (part.version,))
            return merged(request, [part], told_of(lost), held, looking.ask)
        counting = request._for_counts()
        counted = self._ask(shards, lambda one: begin_statistics(one, counting), lost)
        for shard, statistics in counted:
            looking.note(shard.name, statistics.versions)
        summed = Statistics.sum([statistics for _, statistics in counted])
        asked = [shard for shard, _ in counted]
        found = self._ask(asked, lambda one: begin_candidates(one, request, summed), lost)
        return merged(request, [part for _, part in found], told_of(lost), held, looking.ask)

    def _ask(
        self, shards: Sequence[N_], begin: Callable[[N_], Question[T_]], lost: dict[str, Fault], /
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

    def __init__(self, first: Generation, opener: Opener | None = None) -> None:
        """Take the first generation, and what opens later ones."""
        self.current = first
        self._opener = opener
        self._retired: list[Generation] = []
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
    def used(self) -> Iterator[Generation]:
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
        made = Generation(opened.shards, opened)
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
