"""Planted bugs of stages, groups and recipes, by the name of their entry in the registry."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from laws.planted import mutation, mutations
from oracle import shaping
from oracle.arithmetic import F32
from oracle.around import Threads
from oracle.documents import Call
from oracle.fusion import running_sum
from oracle.recall import Oracle, Ranked, Search
from oracle.words import Mask, Phrase, Query, Words, leaves


def any_thread(self: Any, was: Any, threads: Threads, doc: int, distance: int) -> list[int]:
    """The rows before and behind, whatever their thread."""
    rows = sorted((one for docs in threads.values() for one in docs), key=self.place)
    rows = [row for row in rows if self.rows[row].cell == self.rows[doc].cell]
    if doc not in rows:
        return []
    at = rows.index(doc)
    return [rows[n] for n in (at - distance, at + distance) if 0 <= n < len(rows)]


def all_threads(self: Any, was: Any, arm: str, query: Query, threads: Threads, bm25: Any) -> Any:
    """Scores by the statistics of the whole index."""
    found = was(arm, query, self.threads(range(len(self.rows))), bm25)
    return {thread: score for thread, score in found.items() if thread in threads}


def without_cell(self: Any, was: Any, doc: int) -> Any:
    """A thread that reaches over cells."""
    found = was(doc)
    return None if found is None else ((), found[1])


BY_INSERTION = {"place": lambda self, was, doc: (False, 0, doc)}
AROUND = {
    "a thread reaches over cells": {
        "thread": without_cell,
        "speaking": lambda self, was, allowed, visible: list(range(len(self.rows))),
    },
    "rows of other threads are neighbours": {"near": any_thread},
    "rows that the filter keeps out become hits": {"becomes_hit": lambda *_: True},
    "rows that the filter keeps out are silent": {
        "speaking": lambda self, was, allowed, visible: np.flatnonzero(visible).tolist()
    },
    "threads are weighed in the whole index": {"thread_scores": all_threads},
    "threads without a text count": {
        "thread_statistics": lambda self, was, arm, threads: list(threads)
    },
    "the place is ignored": BY_INSERTION,
    "rows without a place come first": {
        "place": lambda self, was, doc: (not was(doc)[0], *was(doc)[1:])
    },
    "addends are added in the order of parts": {
        "total": lambda self, was, fused, addends: running_sum([fused, *addends]) + 0.0
    },
    "only the row before speaks": {
        "near": lambda self, was, threads, doc, distance: [
            near for near in was(threads, doc, distance) if self.place(near) < self.place(doc)
        ]
    },
    "lengths count whole": {"length_share": lambda *_: 1.0},
    "thread and length have no unit": {"unit": lambda *_: 1.0},
}


def spoken(self: Any, was: Any, search: Search, how: Any, fused: Any, unit: float) -> Any:
    """The neighbours speak with what their own values add."""
    prior = search.call.stage("Prior")
    raised = {doc: score + unit * self.worth(prior, doc) for doc, score in fused.items()}
    return was(search, how, raised, unit)


PRIOR = {
    "a prior has no unit": {"prior_unit": lambda *_: 1.0},
    "a prior raises the row's own score": {
        "total": lambda self, was, fused, addends: was(fused, [*addends[:-1], fused * addends[-1]])
    },
    "another value is the worst": {
        "worth": lambda self, was, prior, doc: dict(prior.values).get(
            self.value(doc, prior.column), min(worth for _, worth in prior.values)
        )
    },
    "null is the first value": {
        "worth": lambda self, was, prior, doc: (
            was(prior, doc) if self.value(doc, prior.column) is not None else prior.values[0][1]
        )
    },
    "neighbours speak with their priors": {"addends": spoken},
    "a prior is added last": {
        "total": lambda self, was, fused, addends: (
            running_sum([was(fused, addends[:-1]), addends[-1]]) + 0.0
        )
    },
}


def everywhere(self: Any, was: Any, call: Call, query: int) -> list[int]:
    """Rows of other cells are heard."""
    cells = frozenset(row.cell for row in self.rows)
    return was(replace(call, scopes=(cells,) * len(call.scopes)), query)


def one_more(self: Any, was: Any, call: Call, query: int) -> list[int]:
    """One row more than the stage says is heard."""
    how, self.how = self.how, replace(self.how, rows=min(self.how.rows + 1, 100))
    found = was(call, query)
    self.how = how
    return found


def raw_query(self: Any, was: Any, arm: str, vector: F32, rows: Sequence[int]) -> F32:
    """The query is added as it was given, not as a unit vector."""
    made = was(arm, vector, rows)
    if made is vector:
        return vector
    unit = was(arm, vector, [])
    own = np.float32(1.0) / np.sqrt((vector.astype(np.float64) ** 2).sum())
    return (made + unit - (unit * own).astype(np.float32)).astype(np.float32)


def of_the_filter(self: Any, was: Any, call: Call, query: int) -> Call:
    """Keeps which rows pass the filter."""
    self.narrow = self.visible(self.authorised(call.scopes[query]), call.filter(query))
    return was(call, query)


def not_its_own(self: Any, was: Any, arm: str, text: Words, *rest: Any) -> Any:
    """Keeps the terms of the query."""
    self.own = {leaf.words[0] for leaf, _, _ in leaves(text)}
    return was(arm, text, *rest)


def once(self: Any, was: Any, arm: str, rows: Sequence[int]) -> dict[str, float]:
    """Shares of distinct terms."""
    out: dict[str, float] = {}
    for row in rows:
        for term in {token for field in self.texts[arm][row] or () for token in field}:
            out[term] = out.get(term, 0.0) + 1.0 / self.lengths[arm][row]
    return out


def as_of_one_word(self: Any, was: Any, *given: Any) -> Any:
    """The boosts together are the same for every query."""
    self.is_counting = True
    found = was(*given)
    self.is_counting = False
    return found


FEEDBACK = {
    "rows of other cells are heard": {"heard": everywhere},
    "one row more is heard": {"heard": one_more},
    "rows that the filter keeps out are heard": {
        "heard": lambda self, was, call, query: was(replace(call, filters=None), query)
    },
    "rows below the floors are heard": {
        "heard": lambda self, was, call, query: was(
            replace(call, min_score={}, min_fused=None), query
        )
    },
    "sums are divided by what the stage says": {
        "counted_rows": lambda self, was, rows: float(self.how.rows)
    },
    "the query is no unit vector": {"moved": raw_query},
    "terms are weighed in the whole index": {
        "added": lambda self, was, arm, text, rows, counted, call: was(
            arm, text, rows, self.has_text(arm), call
        )
    },
    "terms are weighed in the filter": {
        "second": of_the_filter,
        "doc_freq": lambda self, was, arm, term, counted: was(arm, term, counted & self.narrow),
    },
    "terms join that no other row holds": {"least_docs": 1},
    "the query's own terms get no boost": {
        "own": (),
        "added": not_its_own,
        "shares": lambda self, was, arm, rows: {
            term: share for term, share in was(arm, rows).items() if term not in self.own
        },
    },
    "a term counts once in a row": {"shares": once},
    "the length of the query is ignored": {
        "is_counting": False,
        "added": as_of_one_word,
        "multiplicities": lambda self, was, query: (
            was(query)[:1] if self.is_counting and isinstance(query, Words) else was(query)
        ),
    },
}
SUMMED = mutations(
    {
        "rows are added up worst first": {"summed": lambda self, was, rows: rows[::-1]},
        "rows are added up by insertion": {"summed": lambda self, was, rows: sorted(rows)},
    }
)
"""Bugs of which a table must be made to show the last bits (test_feedback.py)."""


def among_the_listed(self: Any, was: Any, *given: Any) -> tuple[set[int], set[int]]:
    """Only rows that an arm listed anyway are looked at."""
    *_, ranks = given
    return set(), was(*given)[1] & {doc for docs in ranks.values() for doc in docs}


def anywhere(self: Oracle, was: Any, arm: str, phrase: Phrase) -> Mask:
    """All words suffice, wherever they stand."""
    words = next(leaf.words for leaf, _, _ in leaves(phrase))
    texts = self.texts[arm]
    return np.array([all(any(w in f for f in text or ()) for w in words) for text in texts], bool)


EXACT = {
    "only listed rows are looked at": {"leading": among_the_listed},
    "words may stand anywhere": {"holds": anywhere},
    "only rows that were looked up lead": {
        "leading": lambda self, was, *given: (was(*given)[0],) * 2,
        "near_union": lambda self, was, search: was(replace(search, leading=set())),
    },
    "what is looked up need not pass the filter": {
        "leading": lambda self, was, call, query, seen, ranks: was(
            call, query, (seen[0], seen[0]), ranks
        )
    },
}
FOLLOWS_THE_LIMIT = mutation(
    {"looked_up": lambda self, was, call: max(was(call), call.offset + call.limit)}
)
"""More are looked up where more are asked for, which one arm shows (test_exact.py)."""
THREADS = {
    "anybody's threads decide": {
        "sees_threads": lambda self, was, call, query: self.is_threaded(
            frozenset(row.cell for row in self.rows)
        )
    },
    "threads of the batch decide": {
        "sees_threads": lambda self, was, call, query: any(map(self.is_threaded, call.scopes))
    },
    "threads that pass the filter decide": {
        "sees_threads": lambda self, was, call, query: any(
            shown and row.attributes["kind"] is not None
            for row, shown in zip(
                self.rows,
                self.visible(self.authorised(call.scopes[query]), call.filter(query)),
                strict=True,
            )
        )
    },
    "the schema decides": {"sees_threads": lambda *_: True},
}
GROUPING = {
    "a thread reaches over cells": {"thread": without_cell},
    "rows that the filter keeps out stand nowhere": {
        "standing": lambda self, was, allowed, visible: np.flatnonzero(visible).tolist()
    },
    "a row stands wherever it fits": {"is_new": lambda *_: True},
    "rows without a thread are one": {
        "thread": lambda self, was, doc: was(doc) or (self.rows[doc].cell, None)
    },
    "the place is ignored": BY_INSERTION,
    "a group of a column lies within a cell": {
        "group": lambda self, was, call, doc: (
            None if (found := was(call, doc)) is None else (self.rows[doc].cell, found)
        )
    },
    "only rows before a hit stand there": {
        "beside": lambda self, was, *given: [one for one in was(*given) if one[0] < 0]
    },
}


def note_page(self: Any, was: Any, search: Search, ranked: Ranked) -> Any:
    """Keeps what is a hit without groups."""
    self.on_page = {doc for doc, _ in ranked[: search.call.offset + search.call.limit]}
    return was(search, ranked)


HITS_STAND_NOWHERE = mutation(
    {
        "page": note_page,
        "beside": lambda self, was, *given: [
            one for one in was(*given) if one[1] not in self.on_page
        ],
    }
)
"""A hit of the same page does not stand around a better one: what L6 must see."""


def by_last_place(self: Any, was: Any, search: Search, ranked: Ranked) -> Ranked:
    """Ties stay where they were."""
    return shaping.lead(shaping.by_score(ranked, by_place=True), search.leading.__contains__)


def window_of(change: int) -> dict[str, Any]:
    """A window of another length."""
    return {
        "reranked": lambda self, was, search, stage, ranked, score: was(
            search, replace(stage, window=max(stage.window + change, 1)), ranked, score
        )
    }


def scores_move(self: Any, was: Any, search: Search, stage: Any, ranked: Ranked, of: Any) -> Any:
    """A document takes its score with it."""
    own = dict(ranked)
    return [(doc, own[doc]) for doc, _ in was(search, stage, ranked, of)]


def with_cosine(change: Any) -> dict[str, Any]:
    """Cosines of two documents by another definition, of the right one."""

    def similar(self: Any, was: Any, stage: Any, missing: float = 0.0) -> Any:
        right = was(stage, missing)
        return lambda one, other: change(right, one, other)

    return {"similar": similar}


STAGES = {
    "Provenance": {
        "a value without a weight keeps its score": {
            "weight": lambda self, was, stage, value: dict(stage.weights).get(value, 1.0)
        },
        "ties keep their places": {"rescored": by_last_place},
    },
    "Linear": {
        "products are added as they come": {
            "sum_of": lambda self, was, products: running_sum(products)
        },
        "arms that list nothing are heard": {
            "hearing": lambda self, was, search, docs: list(search.ranks)
        },
        "scores are scaled over what is listed": {
            "scaled": lambda self, was, search, arm, docs: (
                dict.fromkeys(docs, 0.0)
                | was(search, arm, [doc for doc in docs if doc in search.ranks.get(arm, {})])
            )
        },
        "before is after": {
            "beside_in_thread": lambda self, was, scores, docs, steps: was(scores, docs, -steps)
        },
        "a row is its own namesake": {
            "namesake": lambda self, was, search, column, doc, docs: max(
                was(search, column, doc, docs), search.fused[doc]
            )
        },
    },
    "Rerank": {"the window is longer": window_of(1), "scores move": {"reranked": scores_move}},
    "RerankBy": {"the window is shorter": window_of(-1), "scores move": {"reranked": scores_move}},
    "Dedup": {
        "what equals the threshold exceeds it": with_cosine(
            lambda right, one, other: right(one, other) + 1e-9
        ),
        "rows without a vector are alike": with_cosine(
            lambda right, one, other: max(right(one, other), 0.0)
        ),
        "the first of a cluster stays": {
            "Dedup": lambda self, was, search, stage, ranked: was(
                search, replace(stage, keep=None, prefer=()), ranked
            )
        },
    },
    "Recency": {
        "the future is old": {"age": lambda self, was, doc, column: abs(was(doc, column))},
        "what has no time is old": {
            "age": lambda self, was, doc, column: (
                1.0 if self.value(doc, column) is None else was(doc, column)
            )
        },
        "ties forget a rerank": {
            "Recency": lambda self, was, search, stage, ranked: shaping.lead(
                shaping.by_score(was(search, stage, ranked)), search.leading.__contains__
            )
        },
    },
    "Composite": {
        "a missing rating is the least": {
            "importance": lambda self, was, stage, rating: was(stage, rating or 0)
        },
        "importance is not cut": {
            "importance": lambda self, was, stage, rating: (
                was(stage, rating) if rating is None else rating / stage.scale
            )
        },
    },
    "Budget": {
        "bytes are counted": {
            "tokens": lambda self, was, doc: max(
                1, -(-len(self.text_of(doc).strip().encode()) // 4)
            )
        },
        "an empty text is free": {
            "tokens": lambda self, was, doc: was(doc) if self.text_of(doc).strip() else 0
        },
    },
    "MMR": {
        "the later document is the query": with_cosine(lambda right, one, other: right(other, one)),
        "what has no vector is near": {
            "similar": lambda self, was, stage, missing=0.0: was(stage, 1.0)
        },
    },
    "Gate": {
        "the floor cuts what equals it": {
            "Gate": lambda self, was, search, stage, ranked: [
                pair for pair in ranked if pair[1] > stage.min_score
            ]
        }
    },
}
ARMS = {
    "Newest": {
        "hidden values are numbered": {
            "compared": lambda self, was, allowed, visible: np.flatnonzero(allowed).tolist()
        },
        "the arm is completed": {
            "component": lambda self, was, arm, doc, scores, listed: was(arm, doc, scores, True)
        },
    },
    "Listed": {
        "keys are numbered from 0": {
            "Listed": lambda self, was, arm, given, *seen: was(arm, ["", *given], *seen)
        },
    },
    "Regex": {
        "case is heard": {
            "Regex": lambda self, was, arm, given, *seen: was(arm, f"(?-i:{given})", *seen)
        },
        "the last column counts": {
            "Regex": lambda self, was, arm, given, *seen: was(
                replace(arm, columns=arm.columns[::-1]), given, *seen
            )
        },
    },
    "Tags": {
        "tags are counted in the filter": {
            "counted_tags": lambda self, was, allowed, visible: was(visible, visible)
        },
        "tags are counted in the whole index": {
            "counted_tags": lambda self, was, allowed, visible: range(len(self.rows))
        },
        "one hop more is gone": {
            "Tags": lambda self, was, arm, *given: was(replace(arm, depth=arm.depth + 1), *given)
        },
    },
}
BY_ENTRY = {
    **ARMS,
    "exact": EXACT,
    "threads": THREADS,
    "Feedback": FEEDBACK,
    "Around": AROUND,
    "Prior": PRIOR,
    "grouping": GROUPING,
    **STAGES,
}
PLANTS = {name: mutations(bugs) for name, bugs in BY_ENTRY.items()}
