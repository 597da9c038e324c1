"""The native steps of a recall on one index; a recall over parts of an index replaces them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from hyrecall import _core
from hyrecall.hits.reply_arrays import Arrays
from hyrecall.recall.on_demand import find_exact, with_columns
from hyrecall.recall.source import RecallSource

if TYPE_CHECKING:
    from hyrecall.ask.expansion import SharedTags
    from hyrecall.ask.recipe import Recipe
    from hyrecall.ask.request import CallOptions, Request
    from hyrecall.hits.around import Related
    from hyrecall.hits.reply import Reply, Source
    from hyrecall.hits.second_look import SecondLook
    from hyrecall.recall.arms.batch import FoundDocs
    from hyrecall.recall.callables import CallableResults
    from hyrecall.recall.exact import Exact, ExactTexts
    from hyrecall.recall.plan import Plan
    from hyrecall.segments.facts import IndexFacts
    from hyrecall.segments.segments import State
    from hyrecall.text.bm25 import BM25

__all__ = ["LOCAL", "Ran", "Steps"]


class Ran(NamedTuple):
    """What the native steps of one piece of a batch came to."""

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
        self, facts: IndexFacts, state: State, request: Request
    ) -> bool | npt.NDArray[np.bool_]:
        """Say of each query whether its scope holds a row in a thread; a bool if all are alike."""
        from hyrecall.recall.thread_scopes import sees_threads

        return sees_threads(facts, state, request)

    def find_exact(
        self,
        facts: IndexFacts,
        state: State,
        request: Request,
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

    def related(self, reply: Reply, part: SharedTags) -> Sequence[Sequence[Related]]:
        """Return the documents near the hits of each query by their tags."""
        from hyrecall.recall.related import related_documents

        return related_documents(reply, part.column, part.n, hops=part.hops)

    def source(
        self,
        plan: Plan,
        state: State,
        results: CallableResults | None,
        looks: Mapping[int, SecondLook],
    ) -> Source:
        """Return what explanations of the hits read."""
        return RecallSource(plan, state, results, looks)


LOCAL = Steps()
"""The steps on one index."""
