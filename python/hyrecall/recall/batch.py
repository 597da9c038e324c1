"""One batch through the engine: statistics, candidates, merge."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from hyrecall import _core
from hyrecall.ask.queries import first_words
from hyrecall.ask.request import Search, is_empty
from hyrecall.hits.reply import Arrays, Reply, join_pieces, only_queries
from hyrecall.hits.trace import NOTHING_TOLD, BatchNotes, Notes, StageTrace, Trace
from hyrecall.recall.graph_views import BoundGraphs
from hyrecall.recall.plan import Plan, Ranking
from hyrecall.recall.planning import make_plan
from hyrecall.segments.segments import IndexFacts, State

if TYPE_CHECKING:
    from hyrecall.arm.arm import FoundDocs
    from hyrecall.ask.expansion import Expansion
    from hyrecall.ask.recipe import Recipe
    from hyrecall.ask.request import CallOptions
    from hyrecall.hits.confidence import Judged
    from hyrecall.hits.dropped import Dropped
    from hyrecall.hits.explain_text import Explanation
    from hyrecall.hits.reply import ReplySource
    from hyrecall.recall.exact import Exact, ExactTexts
    from hyrecall.recall.reach import Reaches
    from hyrecall.recall.shaper import Shaper
    from hyrecall.stages.feedback import SecondLook
    from hyrecall.stages.stage import CallableResults
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

    def text_query(self, place: int, query: int) -> _core.queries.TextQuery | None:
        """Return what a text arm was asked, by its place among the arms that ran."""
        return self.plan.request.text_query(place, query)

    def evidence(self, arm: str, query: int, segment: int, row: int) -> Any:
        """Return why an arm of ``arms=`` found a document; None if it did not find it."""
        found = self.plan.listed.get(arm)
        return None if found is None else found.evidence_of(query, segment, row)

    def totals(self, begin: int, end: int) -> list[int]:
        """Count the rows that the queries [begin, end) match."""
        from hyrecall.recall.matched import totals

        return totals(self.plan, self.state, begin, end, BATCH_QUERIES)

    def judge(
        self, reply: Reply, begin: int, end: int, models: Mapping[str, str] | None = None
    ) -> list[Judged]:
        """Return how sure the replies to the queries [begin, end) are."""
        from hyrecall.recall.confidence import judge

        with self.state.reading():
            self.state.check_texts(self.plan.request)
            return judge(self.plan, self.state, reply, begin, end, models)

    def explain(self, reply: Reply, query: int, at: int) -> Explanation:
        """Recompute the score of a hit, which is the reply's number ``at``."""
        from hyrecall.recall.explain import CallAndReply, explain

        with self.state.reading():
            made = explain(CallAndReply(self.plan, self.state, reply), query, at)
        judged, place = reply.judged(query), at - reply.span(query)[0]
        return replace(
            made, feedback=self.looks.get(query),
            confidence=judged.hits[place], reply_confidence=judged.query,
        )  # fmt: skip

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
        if not wanted:
            return None
        from hyrecall.recall.exact import find_exact

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
        hits = hits if plan.evidence is None else plan.evidence.with_columns(hits)
        return Ran(execution, execution, hits, found, seconds)

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
}
"""What a text asked too much for, by the engine's number of the reason."""

CUT = 3
"""The number of a text that was searched, but with the most frequent terms of a word alone."""

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
    expansion = _expansion(ranking.how.expansion)
    with _core.arithmetic.RoundToNearest():  # weights and floors are computed here
        plan = make_plan(facts, state, request, ranking, graphs, steps.find_exact)
    is_shaped = plan.is_shaped
    if is_shaped:
        _check_shaping(facts, plan)
    whole = is_shaped or plan.has_leading
    if plan.n_lexical or whole or plan.evidence or plan.feedback:
        state.check_texts(plan.request)  # before they are read
    parts = _parts(plan.n_queries, device, is_shaped=whole)
    plan, known, looks, looking = _look_twice(facts, state, plan, parts)
    reaches, shaper = _shaper(facts, state, plan, request, expands=bool(expansion), shapes=whole)
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
                arrays = shaper.run(arrays, execution, part, begin)
                seconds["shaping"] = time.perf_counter() - merged
            pieces.append(arrays)
            refused |= _refused_queries(reads, plan, begin)
            notes |= _noted_queries(reads, plan, begin)
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
        phases=None if shaper is None else shaper.phases,
        kept_source=steps.source(
            plan.answered(listed), state, None if shaper is None else shaper.results, looks
        ),
    )
    if expansion and reaches:
        reply = _expanded(reply, expansion, plan, request.text, reaches)
    return reply if shaper is None or shaper.grouper is None else shaper.grouper.shown(reply)


# ---- Parts that few calls have, imported by these calls ----


def _expansion(given: object) -> tuple[Expansion, ...]:
    if is_empty(given):
        return ()
    from hyrecall.ask.expansion import read_expansion

    return read_expansion(given)


def _check_shaping(facts: IndexFacts, plan: Plan) -> None:
    from hyrecall.recall.shaper import check_shaping

    check_shaping(facts, plan)


def _look_twice(
    facts: IndexFacts, state: State, plan: Plan, parts: Sequence[tuple[int, int]]
) -> tuple[Plan, Mapping[int, Mapping[str, FoundDocs]], Mapping[int, SecondLook], float | None]:
    """Search with each part of a batch first, if a stage acts on its queries."""
    if plan.feedback is None:
        return plan, {}, {}, None
    from hyrecall.recall.shaper import look_twice

    return look_twice(facts, state, plan, plan.feedback, parts)


def _expanded(
    reply: Reply,
    parts: Sequence[Expansion],
    plan: Plan,
    text: object,
    reaches: Reaches,
) -> Reply:
    """Return the reply with neighbours and related documents, and the time that it took."""
    from hyrecall.recall.reach import expand

    began, texts = time.perf_counter(), _texts(reply.facts, plan, text)
    around = expand(parts, reply, plan.scope, texts, reaches, plan.sessions)
    reply.trace.milliseconds["expansion"] = (time.perf_counter() - began) * 1e3
    return replace(reply, around=around)


def _shaper(
    facts: IndexFacts, state: State, plan: Plan, request: Search, *, expands: bool, shapes: bool
) -> tuple[Reaches | None, Shaper | None]:
    """Return the graphs' connections for a call, and what shapes its lists."""
    if not (expands or shapes):
        return None, None
    from hyrecall.recall.reach import Reaches

    reaches = Reaches(plan.graphs, plan.scope)
    if not shapes:
        return reaches, None
    from hyrecall.recall.grouping import make_grouper
    from hyrecall.recall.shaper import Shaper

    return reaches, Shaper(
        facts, state, plan, now=request.now, reaches=reaches,
        texts=_texts(facts, plan, request.text),
        grouper=make_grouper(facts, state, plan, request.columns),
    )  # fmt: skip


def _texts(facts: IndexFacts, plan: Plan, text: object) -> list[str | None]:
    """Return the queries' own words, for rerankers; None where there are none to hand over."""
    words = None if text is None else first_words(facts.text_arms, text)
    return words if words is not None else [None] * plan.n_queries


def trace_of(
    device: str,
    plan: Plan,
    answer: _core.Answer,
    spent: dict[str, float],
    stages: tuple[StageTrace, ...] = (),
    told: dict[str, dict[int, str]] | None = None,
) -> Trace:
    """Return how a batch was answered by options that are known."""
    alone: dict[str, Mapping[int, str] | None] = {}
    refused: Notes = {}
    for at in range(plan.n_lexical):  # seldom any: one look instead of three calls
        told_of = answer.refused_queries(at)
        if told_of or answer.empty_queries(at):
            alone |= _noted_queries(answer, plan, 0)
        if told_of:
            refused = _refused_queries(answer, plan, 0)
    if device != "cpu":
        alone |= _host_queries(answer, plan, 0)
    kept = chain.from_iterable([one.notes for one in stages]) if stages else ()
    return Trace(
        device=device,
        n_queries=answer.n_queries,
        arms=tuple(dict.fromkeys(plan.bases)),
        depth=plan.depth,
        milliseconds=spent,
        degraded=(*refused, *kept),
        notes=(*plan.notes, *alone),
        stages=stages,
        about=_about({**refused, **alone}, None) | (told or {}) if refused or alone or told else {},
    )


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


_Texts: TypeAlias = _core.Execution | _core.Answer | _core.Matches
"""What tells about the texts of queries."""


def text_notes(reads: _Texts, plan: Plan, first_query: int) -> tuple[Notes, Notes]:
    """Return what is said of the texts of a part: of those refused, and of others."""
    return _refused_queries(reads, plan, first_query), _noted_queries(reads, plan, first_query)


def _host_queries(execution: _core.Execution | _core.Answer, plan: Plan, first_query: int) -> Notes:
    """Say which queries of a part the CPU searched although the index is on a device."""
    notes: dict[str, Mapping[int, str] | None] = {}
    for excludes, why in enumerate(("more than 32 terms in a tree of All and Any", "hr.Not")):

        def find(arm: int, excludes: int = excludes) -> list[int]:
            return [at for at, has_not in execution.host_queries(arm) if has_not == excludes]

        notes |= _of_texts(find, plan, first_query, f"has {why}: searched on the CPU")
    return notes


def _refused_queries(execution: _Texts, plan: Plan, first_query: int) -> Notes:
    """Say which queries of a part have a text that asks for too much, and was not searched."""
    told: dict[str, Mapping[int, str] | None] = {}
    for at, arm in enumerate(plan.bases[: plan.n_lexical]):  # of several tables, once
        for query, why in execution.refused_queries(at):
            if why == CUT:
                continue
            note = f"{arm}[{first_query + query}] {REFUSALS[why]}"
            told[note] = {first_query + query: f"{arm} {REFUSALS[why]}"}
    return told


def _noted_queries(execution: _Texts, plan: Plan, first_query: int) -> Notes:
    """Say which queries of a part have a text without an indexable token, or one that was cut."""

    def cut(arm: int) -> list[int]:
        return [query for query, why in execution.refused_queries(arm) if why == CUT]

    told = "has a word that stands for more than 1,024 terms of its scope: the most frequent count"
    empty = _of_texts(execution.empty_queries, plan, first_query, "has no indexable token")
    return {**empty, **_of_texts(cut, plan, first_query, told)}


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
