"""Imports the modules of optional parts of a recall when a call uses them.

Stages, expansions, other arms, groups, sessions and exact matches are half of the modules of a
recall. ``import hyrecall`` and a recall of texts and vectors need none of them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hyrecall import _core
from hyrecall.ask.queries import first_words
from hyrecall.ask.request import Search, is_empty
from hyrecall.hits.reply import Arrays, Reply
from hyrecall.recall.plan import Plan
from hyrecall.recall.ranking import Ranking
from hyrecall.segments.segments import IndexFacts, State

if TYPE_CHECKING:
    from hyrecall.ask.expansion import Expansion
    from hyrecall.ask.session import Session
    from hyrecall.ask.shaping import Feedback, Phase, Stage
    from hyrecall.hits.around import SecondLook
    from hyrecall.recall.arms import Asked, CallArms, FoundDocs, Searches
    from hyrecall.recall.evidence import Evidence
    from hyrecall.recall.exact import Exact, ExactTexts
    from hyrecall.recall.graph_views import BoundGraphs
    from hyrecall.recall.reach import Reaches
    from hyrecall.recall.shaper import Shaper
    from hyrecall.text.bm25 import BM25


# ---- of a plan ----


def split_feedback(shaping: object) -> tuple[tuple[Stage, ...], Feedback | None]:
    """Check the stages of a call; return them, and the one that searches twice."""
    if is_empty(shaping):
        return (), None
    from hyrecall.ask.shaping import Feedback, check_stages

    stages = check_stages(shaping)
    return stages, next((stage for stage in stages if isinstance(stage, Feedback)), None)


def read_stages(
    facts: IndexFacts, ranking: Ranking, stages: tuple[Stage, ...]
) -> tuple[Evidence | None, tuple[Stage, ...], tuple[str, ...]]:
    """Return what comes right behind the fusion, the other stages, and notes for the trace."""
    if not stages:
        return None, (), ()
    from hyrecall.recall.evidence import read_stages

    return read_stages(facts, ranking, stages)


def evidence_notes(evidence: Evidence | None, lexical: Sequence[str]) -> tuple[str, ...]:
    """Say which parts of Around have no effect where no text arm runs."""
    if evidence is None:
        return ()
    from hyrecall.recall.evidence import evidence_notes

    return evidence_notes(evidence, lexical)


def read_call_arms(facts: IndexFacts, given: object, candidates: object) -> CallArms | None:
    """Read ``arms=`` and ``candidates=``; None: there are none."""
    if candidates is None and is_empty(given):
        return None
    from hyrecall.recall.arms import CallArms, read_arms

    return CallArms(read_arms(facts, given, candidates))


def searches_of(
    asked: Asked,
    facts: IndexFacts,
    state: State,
    floors: Mapping[str, tuple[float, bool] | None],
    scope: object,
    graphs: BoundGraphs,
    depth: int,
) -> Searches | None:
    """Return what searches for other arms; None: none is asked."""
    if not asked:
        return None
    from hyrecall.recall.arms import Searches

    return Searches(facts, state, asked, floors, scope, graphs, depth)


def find_exact(
    facts: IndexFacts,
    state: State,
    request: Search,
    wanted: ExactTexts | None,
    bm25: Mapping[str, BM25],
    n_queries: int,
    depth: int,
) -> Exact | None:
    """Look up the rows that hold whole what a batch asks for; None: it asks for no such thing."""
    if not wanted:
        return None
    from hyrecall.recall.exact import find_exact

    return find_exact(facts, state, request, wanted, bm25, n_queries, depth)


def read_sessions(
    facts: IndexFacts, given: object, stages: Sequence[Stage], n_queries: int
) -> tuple[Session | None, ...]:
    """Read ``session=``: one for all queries, or a list with one entry per query."""
    if given is None:
        return (None,) * n_queries
    from hyrecall.recall.session_signals import read_sessions

    return read_sessions(facts, given, stages, n_queries)


# ---- of an answer ----


def read_expansion(given: object) -> tuple[Expansion, ...]:
    """Read ``expansion=``."""
    if is_empty(given):
        return ()
    from hyrecall.ask.expansion import read_expansion

    return read_expansion(given)


def check_shaping(facts: IndexFacts, plan: Plan) -> None:
    """Check that an index and a plan can answer the stages; before anything is computed."""
    from hyrecall.recall.session_signals import check_shaping

    check_shaping(facts, plan)


def look_twice(
    facts: IndexFacts, state: State, plan: Plan, parts: Sequence[tuple[int, int]]
) -> tuple[Plan, Mapping[int, Mapping[str, FoundDocs]], Mapping[int, SecondLook], float | None]:
    """Search with each part of a batch first, if the stage ``Feedback`` is among the stages."""
    # Returns what :class:`hyrecall.recall.second_look.Looked` has.
    if plan.feedback is None:
        return plan, {}, {}, None
    from hyrecall.recall.second_look import look_twice

    return look_twice(facts, state, plan, plan.feedback, parts)


def reaches_of(plan: Plan) -> Reaches:
    """Return who is connected with whom in the graphs of a call."""
    from hyrecall.recall.reach import Reaches

    return Reaches(plan.graphs, plan.scope)


def make_shaper(
    facts: IndexFacts, state: State, plan: Plan, request: Search, reaches: Reaches
) -> Shaper:
    """Return what shapes the lists of a call; ``reaches`` are those of the call."""
    from hyrecall.ask.shaping import RerankBy
    from hyrecall.recall.grouping import make_grouper
    from hyrecall.recall.shaper import Shaper

    reads_texts = any(isinstance(stage, RerankBy) for stage in plan.stages)
    texts = _texts(facts, plan, request.text) if reads_texts else []
    grouper = make_grouper(facts, state, plan, request.columns)
    return Shaper(
        facts, state, plan, now=request.now, texts=texts, reaches=reaches, grouper=grouper
    )


def shaped(
    shaper: Shaper,
    arrays: Arrays,
    execution: _core.Execution,
    request: _core.BatchRequest,
    first_query: int,
) -> Arrays:
    """Return the native hits of a piece of a batch, shaped and cut."""
    from hyrecall.recall.fused_lists import Piece

    return shaper.run(arrays, Piece(execution, request, first_query))


def phases_of(plan: Plan) -> Sequence[Phase] | None:
    """Return the weights that ``SessionSignals`` takes for each query; None: no such stage."""
    if not plan.stages:
        return None
    from hyrecall.recall.session_signals import phases_of

    return phases_of(plan.stages, plan.sessions)


def with_columns(hits: Arrays, evidence: Evidence | None) -> Arrays:
    """Return native hits without the arrays of a stage that the call does not have."""
    if evidence is None:
        return hits
    from hyrecall.recall.evidence import with_columns

    return with_columns(hits, evidence)


def expanded(
    reply: Reply,
    parts: Sequence[Expansion],
    plan: Plan,
    text: object,
    reaches: Reaches,
) -> Reply:
    """Return the reply with neighbours and related documents, and the time that it took."""
    from hyrecall.recall.reach import expand

    began = time.perf_counter()
    texts = _texts(reply.facts, plan, text)
    around = expand(parts, reply, plan.scope, texts, reaches, plan.sessions)
    reply.trace.milliseconds["expansion"] = (time.perf_counter() - began) * 1e3
    return replace(reply, around=around)


def with_groups(reply: Reply, shaper: Shaper | None) -> Reply:
    """Return the reply with the rows of each hit's thread, if the call asks for them."""
    if shaper is None or shaper.grouper is None:
        return reply
    from hyrecall.recall.grouping import with_groups

    return with_groups(reply, shaper.grouper)


def _texts(facts: IndexFacts, plan: Plan, text: object) -> list[str | None]:
    """Return the queries' own words, for rerankers; None where there are none to hand over."""
    words = None if text is None else first_words(facts.text_arms, text)
    return words if words is not None else [None] * plan.n_queries
