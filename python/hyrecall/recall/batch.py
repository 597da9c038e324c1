"""One batch through the engine: statistics, candidates, merge."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from hyrecall import _core
from hyrecall.ask.request import Search
from hyrecall.hits.reply import Arrays, Reply, join_pieces, only_queries
from hyrecall.hits.trace import NOTHING_TOLD, BatchNotes, Notes, Trace
from hyrecall.recall.graph_views import BoundGraphs
from hyrecall.recall.on_demand import (
    check_shaping,
    expanded,
    find_exact,
    look_twice,
    make_shaper,
    phases_of,
    reaches_of,
    read_expansion,
    shaped,
    with_columns,
    with_groups,
)
from hyrecall.recall.plan import Plan
from hyrecall.recall.planning import make_plan
from hyrecall.recall.ranking import Ranking
from hyrecall.segments.segments import IndexFacts, State

if TYPE_CHECKING:
    from hyrecall.ask.recipe import Recipe
    from hyrecall.ask.request import CallOptions
    from hyrecall.hits.around import SecondLook
    from hyrecall.hits.dropped import Dropped
    from hyrecall.hits.explain_text import Explanation
    from hyrecall.hits.reply import ReplySource
    from hyrecall.recall.arms import FoundDocs
    from hyrecall.recall.exact import Exact, ExactTexts
    from hyrecall.recall.shaper import CallableResults, Shaper
    from hyrecall.text.bm25 import BM25


# ---- The data that a reply keeps to explain hits and dropped rows ----


class RecallSource(NamedTuple):
    """The data that a reply keeps for explanations."""

    # The plan with what its arms found, the snapshot, what callables of its stages returned if
    # there are stages, and what rows added to queries.

    plan: Plan
    state: State
    results: CallableResults | None
    looks: Mapping[int, SecondLook]

    @property
    def request(self) -> _core.BatchRequest:
        """The native request, with the index's own arms."""
        return self.plan.request

    def evidence(self, arm: str, query: int, segment: int, row: int) -> Any:
        """Return why an arm of ``arms=`` found a document; None if it did not find it."""
        found = self.plan.listed.get(arm)
        return None if found is None else found.evidence_of(query, segment, row)

    def explain(self, reply: Reply, query: int, at: int) -> Explanation:
        """Recompute the score of a hit, which is the reply's number ``at``."""
        from hyrecall.recall.explain import explain
        from hyrecall.recall.explain_stages import CallAndReply

        with self.state.reading():
            made = explain(CallAndReply(self.plan, self.state, reply), query, at)
        return replace(made, feedback=self.looks.get(query))

    def explain_dropped(self, reply: Reply, query: int, most: int) -> Dropped:
        """Run the stages of a query again and say what each dropped."""
        from hyrecall.recall.explain_dropped import explain_dropped

        with self.state.reading():
            return explain_dropped(self.plan, self.state, self.results, reply, query, most)


# ---- The native steps of a recall on one index; a recall over parts of an index replaces them ----


class Ran(NamedTuple):
    """The results of the native steps for one piece of a batch."""

    reads: _core.Execution
    execution: _core.Execution
    arrays: Arrays
    found: dict[str, FoundDocs]
    seconds: dict[str, float]


class Steps:
    """Carries out the native steps of a recall: statistics, candidates, merge, on one index."""

    def of(self, how: Recipe | CallOptions) -> Steps:
        """Return the steps of the run that answers by a recipe or by the options of a call."""
        del how
        return self

    def sees_threads(
        self, facts: IndexFacts, state: State, request: Search
    ) -> bool | npt.NDArray[np.bool_]:
        """Say of each query whether its scope holds a row in a thread; a bool if all are alike."""
        from hyrecall.recall.recipe_ranking import sees_threads

        return sees_threads(facts, state, request)

    def find_exact(
        self,
        facts: IndexFacts,
        state: State,
        request: Search,
        wanted: ExactTexts | None,
        bm25: Mapping[str, BM25],
        n_queries: int,
        depth: int,
    ) -> Exact | None:
        """Look up the rows that hold whole what a batch asks for."""
        return find_exact(facts, state, request, wanted, bm25, n_queries, depth)

    def run(
        self,
        facts: IndexFacts,
        state: State,
        plan: Plan,
        request: _core.BatchRequest,
        first_query: int,
        known: Mapping[str, FoundDocs] | None,
    ) -> Ran:
        """Take a piece of a call through its steps; arms that search by themselves go first."""
        del facts
        began = time.perf_counter()
        found = plan.complete(request, first_query, known)
        started = time.perf_counter()
        execution = _core.Execution(state.snapshot, request)
        statistics = execution.statistics()
        counted = time.perf_counter()
        hits, fusion = execution.hits(statistics)
        ranked = time.perf_counter() - fusion
        seconds = {
            "statistics": counted - started,
            "candidates": (started - began) + (ranked - counted),
            "fusion": fusion,
        }
        return Ran(execution, execution, with_columns(hits, plan.evidence), found, seconds)

    def source(
        self,
        plan: Plan,
        state: State,
        results: CallableResults | None,
        looks: Mapping[int, SecondLook],
    ) -> ReplySource:
        """Return what explanations of the hits read."""
        return RecallSource(plan, state, results, looks)


LOCAL = Steps()
"""The steps on one index."""


# ---- One batch through the engine: statistics, candidates, merge ----

REFUSALS = {
    1: "was not searched: it has more than 65,536 distinct terms",
    2: "was not searched: it has a phrase of more than 4,096 tokens",
    3: "was not searched: a prefix stands for more than 1,024 terms of its scope",
}
"""What a text asked too much for, by the engine's number of the reason."""

BATCH_QUERIES = 4096
"""Queries that are in the engine at a time: candidates of more would only take memory."""

DEVICE_QUERIES = 1024
"""The same on a device, which searches the arms of so many queries and fuses them at once."""

SHAPED_QUERIES = 512
"""The same where stages run: they hold the whole pools, with the columns they read."""


def run_recall(
    facts: IndexFacts,
    state: State,
    device: str,
    request: Search,
    ranking: Ranking,
    graphs: BoundGraphs,
    told: BatchNotes = NOTHING_TOLD,
    steps: Steps = LOCAL,
) -> Reply:
    """Answer a batch on one state; what is read later is read from that state too."""
    started = time.perf_counter()
    expansion = read_expansion(ranking.how.expansion)
    with _core.arithmetic.RoundToNearest():  # weights and floors are computed here
        plan = make_plan(facts, state, request, ranking, graphs, steps.find_exact)
    is_shaped = plan.is_shaped
    if is_shaped:
        check_shaping(facts, plan)
    whole = is_shaped or plan.has_leading
    if plan.n_lexical or whole or plan.evidence or plan.feedback:
        state.check_texts(plan.request)  # before they are read
    parts = _parts(plan.n_queries, device, is_shaped=whole)
    plan, known, looks, looking = look_twice(facts, state, plan, parts)
    reaches = reaches_of(plan) if whole or expansion else None
    shaper = make_shaper(facts, state, plan, request, reaches) if whole and reaches else None
    spent = {"plan": time.perf_counter() - started - (looking or 0.0)}
    if looking is not None:
        spent["feedback"] = looking
    pieces = []
    notes = dict.fromkeys(told.notes) | dict(plan.notes)
    refused: dict[str, Mapping[int, str] | None] = {}
    listed: list[dict[str, FoundDocs]] = []
    try:
        for begin, end in parts:
            part = plan.request
            if len(parts) > 1:
                part = part.slice(begin, end)
            made = steps.run(facts, state, plan, part, begin, known.get(begin))
            reads, execution, arrays, found, seconds = made
            listed.append(found)
            if plan.selected is not None:
                arrays = only_queries(arrays, plan.selected[begin : begin + part.n_queries])
            if plan.blank_queries and not is_shaped:
                is_blank = np.isin(np.arange(begin, begin + part.n_queries), plan.blank_queries)
                arrays = only_queries(arrays, ~is_blank)
            if shaper is not None:
                merged = time.perf_counter()
                arrays = shaped(shaper, arrays, execution, part, begin)
                seconds["shaping"] = time.perf_counter() - merged
            pieces.append(arrays)
            refused |= _refused_queries(reads, plan, begin)
            notes |= _empty_queries(reads, plan, begin)
            if device != "cpu":
                notes |= _host_queries(reads, plan, begin)
            for step, more in seconds.items():
                spent[step] = spent.get(step, 0.0) + more
    finally:
        plan.request.release_guests()
    reply = Reply(
        facts=facts,
        arms=(*facts.arms, *plan.extra),
        columns=request.columns,
        now=request.now,
        trace=_trace(device, plan, shaper, spent, refused, notes, told, looks),
        query_keys=request.query_keys,
        arrays=join_pieces(pieces),
        ran=plan.arms,
        bases=plan.bases,
        fusion=plan.fusion,
        normalize=plan.normalize,
        phases=phases_of(plan),
        kept_source=steps.source(
            plan.answered(listed), state, None if shaper is None else shaper.results, looks
        ),
    )
    if expansion and reaches:
        reply = expanded(reply, expansion, plan, request.text, reaches)
    return with_groups(reply, shaper)


def trace_of(device: str, plan: Plan, answer: _core.Answer, spent: Mapping[str, float]) -> Trace:
    """Return how a batch was answered that ran in one piece and has no stages."""
    notes = {**plan.notes, **_empty_queries(answer, plan, 0)}
    if device != "cpu":
        notes |= _host_queries(answer, plan, 0)
    refused = _refused_queries(answer, plan, 0)
    return _trace(device, plan, None, spent, refused, notes, NOTHING_TOLD, {})


def _trace(
    device: str,
    plan: Plan,
    shaper: Shaper | None,
    spent: Mapping[str, float],
    refused: Notes,
    notes: Notes,
    told: BatchNotes,
    looks: Mapping[int, SecondLook],
) -> Trace:
    """Return how a batch was answered."""
    stages = () if shaper is None else shaper.traces
    about = _about({**refused, **notes}, plan.selected) if refused or notes else {}
    about |= {told_of: dict(alone) for told_of, alone in told.about.items()}
    return Trace(
        device=device,
        n_queries=plan.n_queries,
        arms=tuple(dict.fromkeys(plan.bases)),
        depth=plan.depth,
        milliseconds={step: seconds * 1e3 for step, seconds in spent.items()},
        degraded=(*told.degraded, *refused, *chain.from_iterable(one.notes for one in stages)),
        notes=tuple(notes),
        stages=stages,
        exact=plan.unfound if shaper is None else shaper.exact,
        about=about if shaper is None else about | shaper.about,
        feedback=looks,
    )


def _parts(n_queries: int, device: str, *, is_shaped: bool) -> list[tuple[int, int]]:
    """Return the first query and the end of each piece of a batch; of none, one empty piece."""
    most = SHAPED_QUERIES if is_shaped else BATCH_QUERIES
    if device != "cpu":
        most = min(most, DEVICE_QUERIES)
    if n_queries <= most:
        return [(0, n_queries)]
    return [(begin, min(begin + most, n_queries)) for begin in range(0, n_queries, most)]


_Texts: TypeAlias = _core.Execution | _core.Answer
"""What tells about the texts of queries."""


def _host_queries(execution: _Texts, plan: Plan, first_query: int) -> Notes:
    """Say which queries of a part the CPU searched although the index is on a device."""
    told = "has more than 32 terms in a tree of All and Any: searched on the CPU"
    return _of_texts(execution.host_queries, plan, first_query, told)


def _refused_queries(execution: _Texts, plan: Plan, first_query: int) -> Notes:
    """Say which queries of a part have a text that asks for too much, and was not searched."""
    told: dict[str, Mapping[int, str] | None] = {}
    for at, arm in enumerate(plan.bases[: plan.n_lexical]):  # of several tables, once
        for query, why in execution.refused_queries(at):
            note = f"{arm}[{first_query + query}] {REFUSALS[why]}"
            told[note] = {first_query + query: f"{arm} {REFUSALS[why]}"}
    return told


def _empty_queries(execution: _Texts, plan: Plan, first_query: int) -> Notes:
    """Say which queries of a part have a text without an indexable token."""
    return _of_texts(execution.empty_queries, plan, first_query, "has no indexable token")


def _of_texts(find: Callable[[int], list[int]], plan: Plan, first_query: int, told: str) -> Notes:
    """Return a note for each text that is found in a lexical arm of a part."""
    lexical = plan.bases[: plan.n_lexical]
    return {  # of several tables, once
        f"{arm}[{first_query + query}] {told}": {first_query + query: f"{arm} {told}"}
        for at, arm in enumerate(lexical)
        for query in find(at)
    }


def _about(notes: Notes, selected: npt.NDArray[np.bool_] | None) -> dict[str, dict[int, str]]:
    """Return which notes are about single queries; all of a recipe are about those it answers."""
    answered = None
    if selected is not None and not selected.all():
        answered = np.flatnonzero(selected).tolist()
    return {
        note: dict.fromkeys(answered or (), note) if alone is None else dict(alone)
        for note, alone in notes.items()
        if alone is not None or answered is not None
    }
