"""Merges the candidates of the shards of an index: the reply is that of a single index."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from hyrecall import _core
from hyrecall.ask.expansion import SharedTags
from hyrecall.base.keywords import check_keywords
from hyrecall.errors import DTypeError, InternalError, OptionError, error
from hyrecall.hits.hits import Hits
from hyrecall.hits.joined_reply import JoinedReply
from hyrecall.hits.reply import Reply
from hyrecall.hits.trace import Told
from hyrecall.parts.counts import check_alike
from hyrecall.parts.lookups import Ask
from hyrecall.parts.newest import with_newest
from hyrecall.parts.part import Part, RunPart
from hyrecall.parts.placing import check_found_threads
from hyrecall.parts.pool_state import pools_of
from hyrecall.parts.request import Call, Request
from hyrecall.parts.run_arrays import cut_exact, list_sizes, piece, without_exact
from hyrecall.parts.runs import named_runs, nothing_found
from hyrecall.recall.answer import answer
from hyrecall.recall.arms.batch import FoundDocs, no_candidates, scope_request
from hyrecall.recall.evidence import with_columns
from hyrecall.recall.exact import Exact, ExactTexts, asked_whole
from hyrecall.recall.recipe_answer import bind_recipes
from hyrecall.recall.steps import Ran, Steps

if TYPE_CHECKING:
    from hyrecall.ask.graphs import GraphLike
    from hyrecall.ask.recipe import Recipe
    from hyrecall.ask.request import CallOptions
    from hyrecall.ask.request import Request as Asked
    from hyrecall.hits.around import Related
    from hyrecall.hits.reply import BatchReply, Source
    from hyrecall.hits.second_look import SecondLook
    from hyrecall.recall.callables import CallableResults
    from hyrecall.recall.plan import Plan
    from hyrecall.segments.facts import IndexFacts
    from hyrecall.segments.segments import State
    from hyrecall.text.bm25 import BM25

__all__ = ["merge", "merge_parts"]


@check_keywords
def merge(request: Request, parts: Sequence[Part], *, degraded: Sequence[str] = ()) -> Hits:
    """Merge the candidates that the shards of an index found for a request.

    The lists of each arm are merged by (score, insertion number), cut at the depth, then ranked.
    All later steps are those of :meth:`hyrecall.Index.recall`, so the reply equals that of a single
    index with the documents of all shards, bit for bit.

    Parameters
    ----------
    request : Request
    parts : sequence of Part
        One for each shard that :meth:`hyrecall.distributed.Statistics.sum` summed, in any order.
    degraded : sequence of str
        Messages for ``degraded`` of the reply, such as the name of a shard that did not answer.
        If there are any, parts may be missing.

    Returns
    -------
    Hits
        ``hit.text`` works only if ``columns`` of the request names it. ``explain()`` is refused:
        the postings stay in the shards.

    Raises
    ------
    OptionError
        No part, parts of several requests or indexes, a shard whose part is missing, or a thread
        with rows from two shards.
    DTypeError
        The arguments are not a request and parts.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import hyrecall as hr
    >>> from hyrecall.distributed import Request, Statistics, merge
    >>> schema = hr.Schema(key="id", cell=None, text="text")
    >>> tables = pa.table({"id": [0], "text": ["tea"]}), pa.table({"id": [1], "text": ["hot tea"]})
    >>> shards = [hr.Index.build(table, schema, first_seq=n) for n, table in enumerate(tables)]
    >>> request = Request(text=["hot tea"])
    >>> summed = Statistics.sum([shard.statistics(request) for shard in shards])
    >>> hits = merge(request, [shard.candidates(request, summed) for shard in shards])
    >>> hits[0].keys
    [1, 0]
    """
    return merge_parts(request, parts, degraded, {}, None)


def merge_parts(
    request: Request,
    parts: Sequence[Part],
    degraded: Sequence[str],
    graphs: Mapping[str, GraphLike],
    look_up: Ask | None,
) -> Hits:
    """Merge as :func:`merge` does."""
    # Stages and expansions read ``graphs``, by their names. ``look_up`` asks the shards for
    # documents
    # beside the hits.
    _check(request, parts, degraded)
    pools = pools_of(parts)
    if any(len(run.arrays["found"]) for part in parts for run in part.runs.values()):
        check_found_threads([part.rows for part in parts], parts[0].facts.schema)
    facts, state = pools.facts, pools.state
    call = _with_graphs(request.read(facts), graphs)
    sees = parts[0].sees_threads
    related = _Related(request, look_up)
    steps = _MergedSteps(call, pools.runs, bool(sees[0]) if len(sees) == 1 else sees, related)
    device = ", ".join(sorted({part.device for part in parts}))
    told = Told(degraded=(*degraded, *_unembedded(facts, request, call)))
    given = call.asked, call.options, call.recipe
    return Hits(_narrow(answer(facts, state, device, *given, None, told, steps), pools.brought))


def _unembedded(facts: IndexFacts, request: Request, call: Call) -> list[str]:
    """Say which arms do not run because shards embed no texts."""
    if not facts.embedded or request.given["vectors"] is not None:
        return []
    from hyrecall.recall.embedders import unembedded  # loads clients of endpoints

    asked = call.asked._replace(vectors=None)
    return [
        f"{arm} did not run: its vectors are of {model!r}, and shards embed no texts: pass vectors="
        for arm, model in unembedded(facts, asked, call.recipe, call.options).items()
    ]


def _with_graphs(call: Call, graphs: Mapping[str, GraphLike]) -> Call:
    """Return a call with graphs instead of their names, so that each run is found again."""
    if not graphs:
        return call
    options, recipe = call.options, call.recipe
    if recipe is None:
        return call._replace(options=options.bind(graphs=graphs))
    bound = bind_recipes(recipe if isinstance(recipe, list) else [recipe], graphs)
    return call._replace(recipe=bound if isinstance(recipe, list) else bound[0])


def _narrow(reply: BatchReply, brought: IndexFacts) -> BatchReply:
    """Return a reply that knows only the columns that the parts have."""
    if isinstance(reply, JoinedReply):
        replies = tuple(replace(one, facts=brought) for one in reply.replies)
        return replace(reply, facts=brought, replies=replies)
    assert isinstance(reply, Reply)
    return replace(reply, facts=brought)


def _check(request: Request, parts: Sequence[Part], degraded: Sequence[str]) -> None:
    if not isinstance(request, Request):
        raise error(DTypeError, "request", "a Request", repr(request)[:80])
    if not parts:
        raise error(OptionError, "parts", "the part of at least one shard", "none")
    for one in parts:
        if not isinstance(one, Part):
            raise error(
                DTypeError, "parts", "parts, as Index.candidates returns them", repr(one)[:80]
            )
        check_alike(parts[0], one)
        is_like = one.versions == parts[0].versions and one.request == request.id
        if not is_like or one.rows.schema.names != parts[0].rows.schema.names:
            raise error(OptionError, "parts", "those of this request and one sum", "others")
    counted, found = Counter(parts[0].versions), Counter(part.version for part in parts)
    if found - counted or (counted - found and not degraded):
        wish = f"the parts of all {counted.total()} shards that were counted"
        raise error(OptionError, "parts", wish, f"{len(parts)} parts, or other states of theirs")


class _Related(NamedTuple):
    """Finds documents beside the hits, which lie in any shard."""

    request: Request
    ask: Ask | None

    def find(self, reply: Reply, part: SharedTags) -> list[list[Related]]:
        """Return the documents near the hits of each query by their tags."""
        if self.ask is None:
            wish = "no expansion in a merge of parts alone (it asks the shards)"
            raise error(OptionError, "expansion", wish, "SharedTags")
        from hyrecall.parts.sharing import find_related

        return find_related(reply, part, self.request, self.ask)


class _MergedSteps(Steps):
    """The native steps of a recall whose statistics and candidates came from shards."""

    def __init__(
        self,
        call: Call,
        runs: Sequence[dict[str, RunPart]],
        sees: bool | npt.NDArray[np.bool_],
        related: _Related,
    ) -> None:
        self._related = related
        self._runs = runs
        self._n = len(runs)
        self._sees = sees
        self._names = named_runs(call, sees)
        self._at = 0

    def of(self, how: Recipe | CallOptions) -> Steps:
        """Return the steps of the next run that uses this recipe or these options."""
        while self._at < len(self._names):
            name, known = self._names[self._at]
            self._at += 1
            if known == how:
                own = [runs[name] for runs in self._runs if name in runs]
                return _RunSteps(own, self._n, self._related)
        return _RunSteps([], self._n, self._related)

    def sees_threads(
        self, facts: IndexFacts, state: State, request: Asked
    ) -> bool | npt.NDArray[np.bool_]:
        """Say which queries see threads in any shard."""
        del facts, state, request
        return self._sees


class _RunSteps(Steps):
    """The steps of one run: its pools come from the parts and are merged here."""

    def __init__(self, parts: Sequence[RunPart], n_parts: int, related: _Related) -> None:
        self._related = related
        self._parts = list(parts)
        self._n_parts = n_parts
        self._held: dict[tuple[int, int, int], int] = {}

    def find_exact(
        self,
        facts: IndexFacts,
        state: State,
        request: Asked,
        wanted: ExactTexts | None,
        bm25: Mapping[str, BM25],
        n_queries: int,
        depth: int,
    ) -> Exact | None:
        """Return the rows that contain a query as a whole, from the last arms of the parts."""
        del state, request
        asked = asked_whole(facts, wanted, bm25)
        if asked is None:
            return None
        queries, texts = asked
        n_exact = len(texts)
        for part in self._parts:
            is_like = part.n_exact == n_exact and "holds" in part.arrays
            if not is_like or len(part.arrays["doc_ends"]) != n_queries + 1:
                raise error(OptionError, "parts", "those of this request", "others")
        none = np.zeros((n_queries, n_exact), np.int64)  # for a run that only lost shards have
        sizes = sum((list_sizes(one)[:, one.n_arms - n_exact :] for one in self._parts), none)
        is_cut = np.asarray(sizes)[queries] >= depth
        if not np.asarray(sizes).any():
            self._parts = [without_exact(part) for part in self._parts]
            return Exact(queries, texts, depth, {}, is_cut, self._matches)
        self._parts = cut_exact(self._parts, n_exact, depth)
        self._keep_held(queries)
        nothing = {arm: no_candidates(n_queries) for arm in texts}
        return Exact(queries, texts, depth, nothing, is_cut, self._matches)

    def _keep_held(self, queries: npt.NDArray[np.int64]) -> None:
        for part in self._parts:
            arrays = part.arrays
            for own, query in enumerate(queries.tolist()):
                begin, end = int(arrays["doc_ends"][query]), int(arrays["doc_ends"][query + 1])
                for doc in range(begin, end):
                    place = own, int(arrays["segment"][doc]), int(arrays["row"][doc])
                    self._held[place] = int(arrays["holds"][doc])

    def _matches(self, arm: int, query: int, segment: int, row: int) -> bool:
        return bool(self._held.get((query, segment, row), 0) >> arm & 1)

    def run(
        self,
        facts: IndexFacts,
        state: State,
        plan: Plan,
        request: _core.BatchRequest,
        first_query: int,
        known: Mapping[str, FoundDocs] | None,
    ) -> Ran:
        """Merge the pools of some queries of a call."""
        del known
        if len(self._parts) < self._n_parts:  # after the plan, which may refuse a query first
            wish, got = "those of this request", "parts without one of its runs"
            raise error(OptionError, "parts", wish, got)
        began = time.perf_counter()
        n = request.n_queries
        found = plan.complete(request, first_query, nothing_found(plan, n))
        end = first_query + n
        for part in self._parts:
            is_like = part.n_arms == request.n_arms
            is_like &= len(part.arrays["doc_ends"]) == plan.n_queries + 1
            refused = part.arrays.get("refused")
            is_like &= refused is None or len(refused) == plan.n_queries * plan.n_lexical
            if not is_like:
                raise error(OptionError, "parts", "those of this request", "others")
        pieces = [piece(part, first_query, end) for part in self._parts]
        told = [one.pop("refused") for one in pieces if "refused" in one]
        if told and n:  # each part says it of the queries that it was asked
            reasons = np.maximum.reduce(told).reshape(n, -1)
            request.refuse_texts(np.ascontiguousarray(reasons.T).reshape(-1))
        pieces = with_newest(pieces, facts, state, plan, request)
        try:
            pools = [_core.Candidates.from_arrays(one, request) for one in pieces]
        except InternalError as fault:  # the arrays are another process's, not ours
            raise error(OptionError, "parts", "arrays that fit each other", "others") from fault
        reads = _core.Execution(_core.Snapshot([], None), request)
        started = time.perf_counter()
        arrays = with_columns(_core.merge(request, pools), plan.evidence)
        fused = time.perf_counter()
        scope = plan.scope
        own = scope[first_query:end] if isinstance(scope, list) else scope
        execution = _core.Execution(state.snapshot, scope_request(facts, state, own, n))
        seconds = {"candidates": started - began, "fusion": fused - started}
        return Ran(reads, execution, arrays, found, seconds)

    def related(self, reply: Reply, part: SharedTags) -> Sequence[Sequence[Related]]:
        """Return the documents of all shards that are near the hits by their tags."""
        return self._related.find(reply, part)

    def source(
        self,
        plan: Plan,
        state: State,
        results: CallableResults | None,
        looks: Mapping[int, SecondLook],
    ) -> Source:
        """Return a source that only has columns."""
        del plan, results, looks
        return _PartsSource(state)


class _PartsSource:
    """Provides the columns of merged hits; explanations need data that stays in the shards."""

    def __init__(self, state: State) -> None:
        self.state = state

    @property
    def request(self) -> NoReturn:
        """Raise an error: the documents that a query sees stay in the shards."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        wish, got = "hits of one index", "hits of several shards, which keep their postings"
        remedy = "recall from the shard that holds the document"
        raise error(OptionError, "hits", wish, got, remedy)

    def evidence(self, arm: str, query: int, segment: int, row: int) -> Any:
        """Raise an error: shards do not support this."""
        del arm, query, segment, row
        self._refuse()

    def explain(self, reply: Reply, query: int, at: int) -> NoReturn:
        """Raise an error: shards do not support this."""
        del reply, query, at
        self._refuse()

    def explain_dropped(self, reply: Reply, query: int, most: int) -> NoReturn:
        """Raise an error: shards do not support this."""
        del reply, query, most
        self._refuse()
