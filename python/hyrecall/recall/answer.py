"""Answers a call: by its single options, or by recipes, one for all queries or one for each."""

from __future__ import annotations

import time

from hyrecall.ask.request import CallOptions, Search
from hyrecall.base.spans import RECALL, record_trace, span
from hyrecall.hits.reply import Reply, ReplyBase
from hyrecall.hits.trace import NOTHING_TOLD, BatchNotes
from hyrecall.recall.batch import LOCAL, Steps, run_recall
from hyrecall.recall.graph_views import BoundGraphs
from hyrecall.recall.plan import rank_by_options
from hyrecall.segments.segments import IndexFacts, State


def answer(
    facts: IndexFacts,
    state: State,
    device: str,
    request: Search,
    options: CallOptions,
    recipe: object = None,
    graphs: object = None,
    told: BatchNotes = NOTHING_TOLD,
    steps: Steps = LOCAL,
) -> ReplyBase:
    """Answer a batch as its options say, or as a recipe, or a list of one for each query."""
    # The trace has what was ``told`` before, too.
    began = time.time_ns()
    with span(RECALL) as made:
        reply: ReplyBase
        if request.sort is not None:
            from hyrecall.recall.pages import answer_sorted

            ways = (options, recipe, graphs, told)
            reply = answer_sorted(facts, state, device, request, *ways)
        elif recipe is None:
            reply = answer_by_options(facts, state, device, request, options, graphs, told, steps)
        else:
            from hyrecall.recall.recipe_answer import answer_by_recipes

            given = (request, options, recipe, graphs, told, steps)
            reply = answer_by_recipes(facts, state, device, *given)
        record_trace(made, reply.trace, began)
    return reply


def answer_by_options(
    facts: IndexFacts,
    state: State,
    device: str,
    request: Search,
    options: CallOptions,
    graphs: object = None,
    told: BatchNotes = NOTHING_TOLD,
    steps: Steps = LOCAL,
) -> Reply:
    """Answer a batch as its single options say; see :func:`answer`."""
    held: BoundGraphs = {}
    if graphs is not None or options.has_parts:
        from hyrecall.ask.expansion import parts_of
        from hyrecall.recall.recipe_answer import hold_graphs

        options = options.bind(graphs=graphs)
        held = hold_graphs(facts, state, parts_of(options))
        request = request.with_own_scope()
    ranking = rank_by_options(request, options)
    own = steps.of(options)
    return run_recall(facts, state, device, request, ranking, held, told, own)
