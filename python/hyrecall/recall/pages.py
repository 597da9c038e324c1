"""Pages of results: all rows that match in the order of columns, and counts of their values."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from hyrecall import _core
from hyrecall.ask.pages import Facet, read_facets, read_sort
from hyrecall.ask.request import CallOptions, Search, is_empty
from hyrecall.errors import OptionError, error
from hyrecall.hits.joined_reply import JoinedReply
from hyrecall.hits.reply import Arrays, Facets, Reply, ReplyBase
from hyrecall.hits.trace import BatchNotes, Trace
from hyrecall.recall.batch import BATCH_QUERIES, RecallSource, text_notes
from hyrecall.recall.matched import is_asked, matches, totals
from hyrecall.recall.plan import rank_by_options
from hyrecall.recall.planning import make_plan, read_page
from hyrecall.segments.segments import IndexFacts, State
from hyrecall.table.arrow_values import python_values
from hyrecall.table.attributes import values_of_codes

# ---- ``facets=`` ----


def with_facets(reply: ReplyBase, given: object) -> ReplyBase:
    """Return a reply that has what ``facets=`` counts, too."""
    facets = read_facets(given, reply.facts.attribute_types)
    if isinstance(reply, JoinedReply):
        parts = [_with_facets(one, facets) for one in reply.replies]
        return replace(reply, replies=tuple(parts))
    assert isinstance(reply, Reply)
    return _with_facets(reply, facets)


def _with_facets(reply: Reply, facets: Sequence[Facet]) -> Reply:
    source = reply.source
    assert isinstance(source, RecallSource)
    plan, state = source.plan, source.state
    nothing: Facets = {one.name: [(ends, 0) for ends in one.ranges] for one in facets}
    made = []
    for begin in range(0, reply.n_queries, BATCH_QUERIES):
        end = min(begin + BATCH_QUERIES, reply.n_queries)
        found = matches(plan, state, begin, end)
        with state.reading():
            for query in range(begin, end):
                if not is_asked(plan, query):
                    made.append(nothing)
                    continue
                rows = found.rows(query - begin)
                made.append({one.name: _counts(rows, one) for one in facets})
    return replace(reply, facets=tuple(made))


def _counts(rows: _core.MatchedRows, facet: Facet) -> list[tuple[Any, int]]:
    if facet.ranges:
        counts = rows.between(facet.number, facet.edges).tolist()[facet.first :]
        counts += [0] * (len(facet.ranges) - len(counts))
        return list(zip(facet.ranges, counts, strict=False))
    codes, texts, found = rows.values(facet.number)
    values = [text.decode(errors="replace") for text in texts]
    if not pa.types.is_large_string(facet.arrow):
        values = python_values(values_of_codes(facet.arrow, codes))
    return list(zip(values, found.tolist(), strict=True))


# ---- ``sort=``: rows by columns, whatever their scores ----


class SortedSource(RecallSource):
    """The data that a reply in the order of columns keeps: its hits have no scores to explain."""

    def explain(self, reply: Reply, query: int, at: int) -> NoReturn:
        """Raise an error: columns order the hits."""
        raise error(OptionError, "hits", "hits by score", "hits in the order of columns")

    def judge(self, reply: Reply, begin: int, end: int, models: object = None) -> NoReturn:
        """Refuse: no arm ranked the rows."""
        self.explain(reply, begin, end)

    def explain_dropped(self, reply: Reply, query: int, most: int) -> NoReturn:
        """Raise an error: columns order the hits."""
        self.explain(reply, query, most)


def answer_sorted(
    facts: IndexFacts,
    state: State,
    device: str,
    request: Search,
    options: CallOptions,
    recipe: object,
    graphs: object,
    told: BatchNotes,
) -> Reply:
    """Answer a batch with all rows that match, in the order of columns."""
    started = time.perf_counter()
    _check_options(request, options, recipe, graphs)
    keys = read_sort(request.sort, facts.attribute_types)
    limit, offset = read_page(request)
    request = request.with_own_scope()._replace(limit=0, offset=0)
    with _core.arithmetic.RoundToNearest():
        plan = make_plan(facts, state, request, rank_by_options(request, options), {}, _no_rows)
    plan = plan._replace(limit=limit, offset=offset)
    planned = time.perf_counter()
    pages, counts, about = [], [], dict[str, dict[int, str]]()
    degraded, notes = dict.fromkeys(told.degraded), dict.fromkeys((*told.notes, *plan.notes))
    try:
        for begin in range(0, plan.n_queries, BATCH_QUERIES):
            end = min(begin + BATCH_QUERIES, plan.n_queries)
            found = matches(plan, state, begin, end)
            refused, empty = text_notes(found, plan, begin)
            degraded |= dict.fromkeys(refused)
            notes |= dict.fromkeys(empty)
            about |= {note: dict(alone or {}) for note, alone in {**refused, **empty}.items()}
            for query in range(end - begin):
                rows = found.rows(query)
                counts.append(rows.count())
                pages.append([one[offset:] for one in rows.ordered(keys, offset + limit)])
    finally:
        plan.request.release_guests()
    milliseconds = {"plan": planned - started, "candidates": time.perf_counter() - planned}
    trace = Trace(
        device=device,
        n_queries=plan.n_queries,
        arms=tuple(dict.fromkeys(plan.bases)),
        depth=0,
        milliseconds={step: seconds * 1e3 for step, seconds in milliseconds.items()},
        degraded=tuple(degraded),
        notes=tuple(notes),
        about=about | {note: dict(alone) for note, alone in told.about.items()},
    )
    return Reply(
        facts=facts,
        arms=facts.arms,
        columns=request.columns,
        now=request.now,
        trace=trace,
        query_keys=request.query_keys,
        arrays=_arrays(pages, counts, offset),
        ran=(),
        bases=(),
        fusion=None,
        normalize=False,
        kept_source=SortedSource(plan, state, None, {}),
    )


def _arrays(pages: Sequence[Any], counts: Sequence[int], offset: int) -> Arrays:
    sizes = [len(rows) for _, rows in pages]
    n_hits = sum(sizes)
    segment, row = (
        np.concatenate([np.zeros(0, np.uint32), *(page[at] for page in pages)]) for at in (0, 1)
    )
    ranks = [np.arange(offset + 1, offset + 1 + size, dtype=np.int32) for size in sizes]
    return {
        "offsets": np.cumsum([0, *sizes], dtype=np.int64),
        "segment": segment,
        "row": row,
        "rank": np.concatenate([np.zeros(0, np.int32), *ranks]),
        "score": np.full(n_hits, np.nan),
        "arm_scores": np.zeros(0, np.float32),
        "arm_ranks": np.zeros(0, np.int32),
        "totals": np.array(counts, np.int64),
    }


def _no_rows(*_: object) -> None:
    """Look up no rows that hold a query whole: only recipes ask for them."""


_RANKING: Mapping[str, str] = {"more": "arms"}
"""Fields of options that a call names otherwise."""


def _check_options(request: Search, options: CallOptions, recipe: object, graphs: object) -> None:
    """Refuse what only a ranked list has."""
    given: dict[str, tuple[object, object]] = {
        _RANKING.get(name, name): (getattr(options, name), default)
        for name, default in CallOptions._field_defaults.items()
    }
    of_call = {"recipe": recipe, "graphs": graphs}
    of_call |= {
        name: getattr(request, name) for name in ("candidates", "session", "group", "per_group")
    }
    given |= {name: (value, None) for name, value in of_call.items()}
    given["surrounding"] = request.surrounding, 0
    for name, (value, default) in given.items():
        is_default = is_empty(value) if default is None else _is(value, default)
        if not is_default and not (isinstance(value, list | dict) and not value):
            wish = f"{default!r} where columns order the rows (sort=, or no text and no vectors)"
            raise error(OptionError, name, wish, repr(value)[:80])


def _is(value: object, default: object) -> bool:
    return type(value) is type(default) and value == default


# ---- ``Index.count`` ----


def count_matched(facts: IndexFacts, state: State, request: Search) -> int:
    """Count the rows that the only query of a request matches."""
    with _core.arithmetic.RoundToNearest():
        ranking = rank_by_options(request, CallOptions())
        plan = make_plan(facts, state, request, ranking, {}, _no_rows)
    return totals(plan, state, 0, 1, BATCH_QUERIES)[0]
