"""Sends the questions of a recall to shards and collects the answers.

The calling thread first sends all questions to the processes, and then waits for one answer after
the other. Shards that do not support this are asked in parallel threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall.ask.expansion import check_graphs, graphs_of, name_graphs, names_in, parts_of
from hyrecall.ask.recipe import Recipe
from hyrecall.ask.request import CallOptions
from hyrecall.base.forks import renew_in_children
from hyrecall.base.graphs import GraphLike
from hyrecall.distributed.channel import SMALL_BYTES
from hyrecall.distributed.shards import (
    AskedAlone,
    AskedShard,
    Fault,
    LooksUp,
    Named,
    Question,
    Shard,
    all_lost,
    closed,
    turns,
)
from hyrecall.errors import (
    CorruptIndexError,
    OptionError,
    ShardLostError,
    StaleStatisticsError,
    error,
)
from hyrecall.graph.graph import NO_NODES, AskedGraph, Graph, nodes_of
from hyrecall.hits.hits import Hits
from hyrecall.parts.counts import Statistics
from hyrecall.parts.lookups import Ask as LookUp
from hyrecall.parts.lookups import Lookup, LookupAnswer, join_looked, lookup_keys
from hyrecall.parts.merging import merge_parts
from hyrecall.parts.part import Part
from hyrecall.parts.request import Request
from hyrecall.parts.spreading import tell_edges
from hyrecall.segments.segments import IndexFacts, State
from hyrecall.stages.stage import check_stages

N_ = TypeVar("N_", bound=Named)
S_ = TypeVar("S_")
T_ = TypeVar("T_")

NO_GRAPHS: Mapping[str, Any] = MappingProxyType({})


def begin_statistics(shard: Shard, request: Request) -> Question[Statistics]:
    """Send a shard the question for its counts, or prepare it."""
    if isinstance(shard, AskedShard):
        return shard.begin_statistics(request)
    return Question(partial(shard.statistics, request))


def begin_candidates(shard: Shard, request: Request, statistics: Statistics) -> Question[Part]:
    """Send a shard the question for each arm's best documents, or prepare it."""
    if isinstance(shard, AskedShard):
        return shard.begin_candidates(request, statistics)
    return Question(partial(shard.candidates, request, statistics))


def begin_alone(shard: AskedAlone, request: Request) -> Question[Part]:
    """Send a shard one question for counts and documents, or prepare it."""
    if isinstance(shard, AskedShard):
        return shard.begin_alone(request)
    return Question(partial(shard.alone, request))


def begin_lookup(shard: Shard, lookup: Lookup) -> Question[LookupAnswer]:
    """Send a shard a question about some documents, or prepare it."""
    if isinstance(shard, AskedShard):
        return shard.begin_lookup(lookup)
    if not isinstance(shard, LooksUp):
        wish = "shards with the method lookup(), which graphs and tags need"
        raise error(OptionError, "shards", wish, f"{shard.name!r} without it")
    return Question(partial(shard.lookup, lookup))


def results_of(
    shards: Sequence[N_], begin: Callable[[N_], Question[T_]], threads: ShardThreads | None
) -> list[T_ | Fault]:
    """Ask shards; return the answer of each, or the fault if it has none."""
    # All questions are sent first; then this thread waits for the answers. Two or more questions
    # that cannot be sent this way are asked in ``threads``. If there is only one, or no threads are
    # given, this thread asks.
    with nullcontext() if threads is None else turns.taken():
        asked = [_unless_lost(partial(begin, one)) for one in shards]
    turns.leave()

    def result(one: Question[T_] | Fault) -> T_ | Fault:
        return _unless_lost(one.answer) if isinstance(one, Question) else one

    others = [
        at for at, one in enumerate(asked) if isinstance(one, Question) and not one.is_under_way
    ]
    handed: dict[int, Future[T_ | Fault]] = {}
    if threads is not None and len(others) > 1:
        handed = {at: threads.submit(result, asked[at]) for at in others}
    results: dict[int, T_ | Fault] = {}
    refusal: Exception | None = None
    for at in sorted(range(len(asked)), key=lambda at: (at in handed, at not in others)):
        # Questions that are not sent yet come first. After a refusal the other answers are read
        # too: a question whose answer is never read would stay with its process.
        try:
            if at in handed:
                turns.leave()  # an answer that was read here may have begun one
                results[at] = handed[at].result()
            else:
                results[at] = result(asked[at])
        except Exception as fault:
            refusal = refusal or fault
    if refusal is not None:
        raise refusal
    return [results[at] for at in range(len(asked))]


def _unless_lost(call: Callable[[], T_]) -> T_ | Fault:
    """Return the result of a call to a shard, or the fault if the shard is lost or damaged."""
    try:
        return call()
    except (ShardLostError, CorruptIndexError) as fault:
        return fault


def merged(
    request: Request,
    parts: Sequence[Part],
    degraded: Sequence[str] = (),
    graphs: Mapping[str, GraphLike] = NO_GRAPHS,
    look_up: LookUp | None = None,
) -> Hits:
    """Merge parts: small requests in a turn, others while other threads run."""
    if not graphs and _is_short(request):
        with turns.taken():
            return merge_parts(request, parts, degraded, graphs, look_up)
    turns.leave()
    return merge_parts(request, parts, degraded, graphs, look_up)


def _is_short(request: Request) -> bool:
    """Say whether a merge takes few milliseconds, most of them in the interpreter."""
    # A large merge is mostly native code, a reranker may take any time, and a merge that asks
    # shards waits for them.
    asks = request._told is not None
    if asks or request._n_packed is None or request._n_packed > SMALL_BYTES:
        return False
    recipe = request.given["recipe"]
    recipes = recipe if isinstance(recipe, list) else [] if recipe is None else [recipe]
    shapings = [request.given["shaping"], *(one.shaping for one in recipes)]
    return not any(one._may_wait for some in shapings for one in check_stages(some))


def answers_of(
    answers: Iterable[tuple[N_, T_ | Fault]], lost: dict[str, Fault]
) -> list[tuple[N_, T_]]:
    """Return the answers of shards; shards without an answer are recorded in ``lost``."""
    out: list[tuple[N_, T_]] = []
    for shard, answer in answers:
        if isinstance(answer, ShardLostError | CorruptIndexError):
            lost[shard.name] = answer
        else:
            out.append((shard, answer))
    if not out:
        raise all_lost(lost.values())
    return out


class ShardThreads:
    """A thread pool that is created again in a forked child, where no thread of the parent runs."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.renew()
        renew_in_children(self)

    def renew(self) -> None:
        """Create the pool."""
        self._pool = ThreadPoolExecutor(self._most, "hyrecall-shards")

    def map(self, call: Callable[[S_], T_], values: Iterable[S_]) -> Iterator[T_]:
        """Return the results of calls in the order of their values."""
        try:
            return self._pool.map(call, values)
        except RuntimeError as fault:
            raise closed() from fault

    def submit(self, call: Callable[[S_], T_], value: S_) -> Future[T_]:
        """Start a call in a thread."""
        try:
            return self._pool.submit(call, value)
        except RuntimeError as fault:
            raise closed() from fault

    def close(self, *, waits: bool) -> None:
        """End the threads, and wait for their end if asked."""
        self._pool.shutdown(wait=waits)


# ---- Asks shards look-ups during a recall, and keeps which version of each shard answered ----


class _Routes(Protocol):
    @property
    def queries(self) -> Mapping[int, npt.NDArray[np.int64] | None]: ...


class Routing(Protocol):
    """Says which shards of a placement may hold the documents of a scope."""

    def of_scope(self, scope: object) -> _Routes | None:
        """Return which queries each shard is asked, by its number; None: the scope is invalid."""
        ...


class _ShardLookup(NamedTuple):
    """A shard, and the queries of a look-up that go to it; None: all."""

    shard: Shard
    lookup: Lookup
    queries: npt.NDArray[np.int64] | None

    @property
    def name(self) -> str:
        """The name of the shard."""
        return self.shard.name


class Looking:
    """The look-ups of one recall."""

    # All questions of a recall read one version of each shard. A shard that did not answer one of
    # them is not asked again. If it had answered others, a recall with tags or graphs begins again,
    # so that its reply lacks all or nothing of the shard.

    def __init__(
        self, shards: Sequence[Shard], router: Routing | None, threads: ShardThreads | None
    ) -> None:
        """Take the shards of a generation, with what says which of them a query needs."""
        self._shards = shards
        self._router = router
        self._threads = threads
        self.lost: dict[str, Fault] = {}
        self.versions: dict[str, tuple[str, ...]] = {}

    @property
    def has_failed(self) -> bool:
        """Whether a shard is lost that had answered."""
        return not self.lost.keys().isdisjoint(self.versions)

    def forget_lost(self) -> None:
        """Forget that lost shards had answered, since the recall begins again without them."""
        for name in self.lost:
            self.versions.pop(name, None)

    def ask(self, lookup: Lookup) -> list[pa.Table]:
        """Ask the shards that a look-up needs; return the rows of each that answers."""
        known = tuple(one for some in self.versions.values() for one in some)
        asked = self._asked(lookup)
        if all(one.name in self.versions for one in asked):  # else one may have any version
            asked = self._asked(replace(lookup, versions=known))

        def begin(one: _ShardLookup) -> Question[LookupAnswer]:
            return begin_lookup(one.shard, one.lookup)

        results = results_of(asked, begin, self._threads)
        found: list[tuple[_ShardLookup, LookupAnswer]] = []
        if known:
            for one, answer in zip(asked, results, strict=True):
                if isinstance(answer, ShardLostError | CorruptIndexError):
                    self.lost[one.name] = answer
                else:
                    found.append((one, answer))
        elif asked:
            found = answers_of(zip(asked, results, strict=True), self.lost)
        for one, looked in found:
            self.note(one.name, (looked.version,))
        joined = join_looked(lookup, [(looked, one.queries) for one, looked in found])
        return [rows for _, rows in joined]

    def _asked(self, lookup: Lookup) -> list[_ShardLookup]:
        routes = None if self._router is None else self._router.of_scope(lookup.scope)
        if routes is None:  # without a placement, or the shards say why a scope cannot be read
            asked = [_ShardLookup(one, lookup, None) for one in self._shards]
        else:
            asked = [
                _ShardLookup(self._shards[number], lookup, None)
                if own is None
                else _ShardLookup(self._shards[number], lookup.of_queries(own), own)
                for number, own in routes.queries.items()
            ]
        return [one for one in asked if one.name not in self.lost and one.lookup.rows.num_rows]

    def note(self, name: str, versions: tuple[str, ...]) -> None:
        """Record the version of a shard that answered."""
        if self.versions.setdefault(name, versions) != versions:
            wish, remedy = "one version of each shard in a call", "call again"
            raise error(StaleStatisticsError, name, wish, "a newer one", remedy)

    def ask_ahead(self, lookup: Lookup) -> list[pa.Table]:
        """Ask as :meth:`ask` does, for what is told with a request."""
        # If no shard that is asked answers, others may still answer other queries of the request.
        try:
            return self.ask(lookup)
        except (ShardLostError, CorruptIndexError):
            if all(one.name in self.lost for one in self._shards):
                raise
            return []

    def left(self, shards: Sequence[Shard]) -> list[Shard]:
        """Return those of some shards that have answered every look-up so far."""
        left = [one for one in shards if one.name not in self.lost]
        if not left:
            raise all_lost(self.lost[one.name] for one in shards)
        return left


# ---- Graphs of a recall over shards: this process searches their edges before shards are asked
# Each shard is told which participants of edges its queries credit. Stages and expansions, which
# walk along edges, run where the parts are merged; shards then say which participants exist.

Graphs = Mapping[str, Graph]
"""The graphs of a call by the names that its request has."""

_FIELDS = {"more": "arms", "shaping": "shaping", "expansion": "expansion"}


def take_graphs(index: object, options: Mapping[str, Any]) -> tuple[dict[str, Any], Graphs]:
    """Return the options of a call with a name for each graph, and the graphs."""
    given = dict(options)
    graphs = given.pop("graphs", None)
    recipe = given.get("recipe")
    recipes = recipe if isinstance(recipe, list) else [recipe]
    settings = CallOptions(**{field: given.get(name) for field, name in _FIELDS.items()})
    hows: list[Any] = [one for one in recipes if isinstance(one, Recipe)]
    if recipe is None:
        hows = [settings]
    known = check_graphs(graphs, [pair for how in hows for pair in names_in(how)])
    for how in hows:
        for part in parts_of(how):
            for argument, graph in graphs_of(part):
                _check_graph(index, argument, known[graph] if isinstance(graph, str) else graph)
    taken: dict[str, Graph] = dict(known)

    def name_of(graph: Graph) -> str:
        """Return a name that no other graph of the call has."""
        for name, one in taken.items():
            if one is graph and name not in known:
                return name
        name = next(name for at in range(len(taken) + 1) if (name := f"graph {at}") not in taken)
        taken[name] = graph
        return name

    changed = name_graphs(settings, name_of)
    given |= {_FIELDS[field]: parts for field, parts in changed.items()}
    named = [
        one.replace(**name_graphs(one, name_of)) if isinstance(one, Recipe) else one
        for one in recipes
    ]
    if taken and recipe is not None:
        given["recipe"] = named if isinstance(recipe, list) else named[0]
    return given, taken


def _check_graph(index: object, argument: str, graph: object) -> None:
    """Refuse what is no graph over the recalled index."""
    if not isinstance(graph, GraphLike):
        raise error(OptionError, argument, "an hr.Graph in place of its name", repr(graph))
    if not isinstance(graph, Graph) or graph.nodes is not index:
        raise error(OptionError, argument, "a graph over the recalled index", "another")


@dataclass(frozen=True, eq=False)
class _HeldGraph:
    """A graph as it was when the shards were asked."""

    bound: AskedGraph

    def _bind(self, argument: str, facts: object, nodes: object) -> AskedGraph:
        del argument, facts, nodes
        return self.bound


def hold_graphs(
    facts: IndexFacts, request: Request, graphs: Graphs, looking: Looking
) -> tuple[Request, Mapping[str, GraphLike]]:
    """Hold graphs for a call as they are now."""

    def ask(scopes: Sequence[object], keys: Sequence[pa.Array]) -> State:
        """Return a state of the documents of each scope that have one of its keys."""
        return nodes_of(facts, looking.ask(lookup_keys(facts, request.id, scopes, keys)))

    edges = {name: AskedGraph(one, one.edges._state, NO_NODES, ask) for name, one in graphs.items()}
    told = tell_edges(facts, request, dict(edges.items()))
    return request._with_told(told), {name: _HeldGraph(one) for name, one in edges.items()}
