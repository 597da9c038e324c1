"""Planted bugs of plain recall, and of the life of an index: one decision made wrongly.

Each is a mistake that search engines have made. A law test that cannot tell one of its bugs from
the truth is no evidence, so every bug is run against the same cases as the law, and the difference
must be seen. A bug is a mutation of the definition: a name, and the methods that it changes, each a
function of the oracle, the right method and its arguments.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from oracle.arithmetic import F32, inverse_norms
from oracle.bm25 import for_lengths, shift
from oracle.documents import Above, Call, Hit, Reply, Row
from oracle.fusion import Dbsf, Rrf, Weighted, moments
from oracle.recall import DEFAULT_BM25, Oracle
from oracle.scope import And, Equal, Not, Or, Predicate, Range
from oracle.words import Leaf, Mask

Mutation = type
Changes = Mapping[str, Any]


def mutation(changes: Changes) -> Mutation:
    """The changes as a class to put before an oracle; what is no function replaces a value."""
    made = type("Mutation", (), {})
    for name, change in changes.items():
        is_method = callable(change) and not isinstance(change, type)
        setattr(made, name, _method(made, name, change) if is_method else change)
    return made


def _method(made: type, name: str, change: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **named: Any) -> Any:
        return change(self, getattr(super(made, self), name), *args, **named)

    return method


def mutations(of: Mapping[str, Changes]) -> dict[str, Mutation]:
    """Each by its name."""
    return {name: mutation(changes) for name, changes in of.items()}


@cache
def mutant(oracle: type, one: Mutation) -> type:
    """An oracle or a life with a mutation."""
    return type("Planted", (one, oracle), {})


# Scope and filter


def cut_first(oracle: Oracle, found: dict[str, Any], call: Call, visible: Mask) -> dict[str, Any]:
    """The lists cut, then what is seen of them: replies starve."""
    out = {}
    for arm, (scores, candidates) in found.items():
        kept = np.zeros(len(oracle.rows), bool)
        kept[oracle.cut(scores, candidates, oracle.depth(call))] = True
        out[arm] = scores, kept & visible
    return out


def everything(oracle: Oracle) -> Mask:
    """All documents of the index."""
    return np.ones(len(oracle.rows), bool)


def is_known(predicate: Predicate | None, row: Row) -> bool:
    """Whether SQL would say true or false of a row."""
    match predicate:
        case Not(inner):
            value = row.attributes.get(getattr(inner, "column", ""), 0)
            return is_known(inner, row) and value is not None
        case And(left, right) | Or(left, right):
            return is_known(left, row) and is_known(right, row)
    return True


def exclusive(predicate: Predicate | None) -> Predicate | None:
    """A filter whose ranges lack their upper ends."""
    match predicate:
        case Range(column, _, high) if high is not None:
            return And(predicate, Not(Equal(column, high)))
        case Not(inner):
            return Not(exclusive(inner))
        case And(left, right) | Or(left, right):
            return type(predicate)(exclusive(left), exclusive(right))
    return predicate


SCOPE = {
    "the empty scope opens everything": {
        "authorised": lambda self, was, cells: was(cells) if cells else everything(self)
    },
    "the first word of the mask is lost": {
        "authorised": lambda self, was, cells: was(cells) | (np.arange(len(self.rows)) < 8)
    },
    "a null in a cell matches anything": {
        "authorised": lambda self, was, cells: was(
            cells | {row.cell for row in self.rows if None in row.cell}
        )
    },
    "the scope is applied to lists that were cut": {
        "arm_scores": lambda self, was, call, query, allowed, visible: cut_first(
            self,
            was(call, query, allowed, self.visible(everything(self), call.filter(query))),
            call,
            visible,
        )
    },
    "the filter is applied to lists that were cut": {
        "arm_scores": lambda self, was, call, query, allowed, visible: cut_first(
            self, was(call, query, allowed, allowed), call, visible
        )
    },
    "a null is neither in nor out of a complement": {
        "visible": lambda self, was, allowed, predicate: (
            was(allowed, predicate)
            & np.array([is_known(predicate, row) for row in self.rows], bool)
        )
    },
    "the upper end of a range is left out": {
        "visible": lambda self, was, allowed, predicate: was(allowed, exclusive(predicate))
    },
}


# Statistics


def halves(self: Oracle, was: Any, arm: str, query: Any, counted: Mask, bm25: Any) -> Any:
    """Each half of the documents as a segment that knows no other."""
    half = np.arange(len(self.rows)) < len(self.rows) // 2
    (first, matched), (second, _) = (was(arm, query, counted & s, bm25) for s in (half, ~half))
    return np.where(half, first, second), matched


STATISTICS = {
    "N, doc_freq and mean length are those of the whole index": {
        "counted": lambda self, was, arm, allowed, visible: self.has_text(arm)
    },
    "the mean length is that of the whole index": {
        "mean_doc_length": lambda self, was, arm, counted: was(arm, self.has_text(arm))
    },
    "the filter narrows the statistics": {
        "counted": lambda self, was, arm, allowed, visible: visible & self.has_text(arm)
    },
    "a null text counts in N": {"counted": lambda self, was, arm, allowed, visible: allowed},
    "a text without tokens counts as none": {
        "counted": lambda self, was, arm, allowed, visible: allowed & (self.lengths[arm] > 0)
    },
    "each half has statistics of its own": {"lexical": halves},
}


# Weights of columns

WEIGHTS = {
    "lengths go without weights": {
        "length": lambda self, was, arm, text: sum(map(len, text or ()))
    },
    "frequencies go without weights": {
        "count": lambda self, was, arm, leaf, text: leaf.occurrences(text or ())
    },
    "a phrase counts once for each of its places": {
        "count": lambda self, was, arm, leaf, text: (
            was(arm, leaf, text) if leaf.kind == "term" else leaf.occurrences(text or ())
        )
    },
}

LEAKS = (
    "l1 the empty scope opens everything",
    "l1 the first word of the mask is lost",
    "l1 a null in a cell matches anything",
    "l1 the scope is applied to lists that were cut",
    "l2 N, doc_freq and mean length are those of the whole index",
    "l2 the mean length is that of the whole index",
    "l2 each half has statistics of its own",
)
"""What two worlds must tell that share the authorised rows alone."""


# Order


def by_value(oracle: Oracle, key: Callable[[int], Any]) -> Any:
    """What orders documents of equal score: their places by a key."""
    order = sorted(range(len(oracle.rows)), key=key)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank


ORDER = {
    "ties are in the order of memory": {
        "ties": lambda self, was: by_value(self, lambda doc: repr(self.rows[doc].cell))
    },
    "ties put the latest first": {"ties": lambda self, was: -np.arange(len(self.rows))},
    "ties are in the order of keys": {
        "ties": lambda self, was: by_value(self, lambda doc: (self.rows[doc].key, doc))
    },
}


# Honest replies


def padded(self: Oracle, was: Any, call: Call, query: int) -> Reply:
    """The reply, filled with documents that were not found."""
    reply = was(call, query)
    found = {(hit.cell, hit.key) for hit in reply}
    rest = [r for r in self.rows if r.cell in call.scopes[query] and r.identity not in found]
    first, nothing = call.offset + len(reply) + 1, (None,) * len(self.shape.arms)
    padding = [Hit(first + i, r.key, r.cell, 0.0, nothing, nothing) for i, r in enumerate(rest)]
    return (*reply, *padding)[: call.limit]


def in_float64(self: Oracle, was: Any, scores: F32, floor: float | Above) -> Mask:
    """A floor that was not rounded to float32."""
    wide = scores.astype(np.float64)
    return wide > floor.value if isinstance(floor, Above) else wide >= floor


HONESTY = {
    "a component that was not computed is 0": {
        "recall": lambda self, was, call, query: tuple(
            hit._replace(arm_scores=tuple(score or 0.0 for score in hit.arm_scores))
            for hit in was(call, query)
        )
    },
    "the union is not completed": {
        "component": lambda self, was, arm, doc, scores, listed: (
            was(arm, doc, scores, listed) if listed else None
        )
    },
    "ranks start at 0": {"first_rank": 0},
    "short replies are padded": {"recall": padded},
    "a zero vector has cosine 0": {
        "dense": lambda self, was, arm, query: np.nan_to_num(was(arm, query))
    },
    "a floor cuts what equals it": {
        "clears": lambda self, was, scores, floor: was(
            scores, floor if isinstance(floor, Above) else Above(floor)
        )
    },
    "a floor is compared in float64": {"clears": in_float64},
}


# Exact lists and exact bits


def lost_ties(self: Oracle, was: Any, scores: F32, candidates: Mask, depth: int) -> Any:
    """The cut compares with a threshold: the later of equal documents stay."""
    kept = was(scores, candidates, len(scores))
    if len(kept) <= depth:
        return kept
    threshold = scores[kept[depth - 1]]
    above, tied = kept[scores[kept] > threshold], kept[scores[kept] == threshold]
    return np.concatenate([above, tied[len(tied) - (depth - len(above)) :]])


def from_left_to_right(self: Oracle, was: Any, arm: str, query: F32) -> F32:
    """Cosines by dot products in one lane, without fma."""
    rows = self.matrices[arm]
    total = np.zeros(len(rows), np.float32)
    for i in range(rows.shape[1]):
        total = total + rows[:, i] * query[i]
    inverse = inverse_norms(rows)
    found = np.clip(total * inverse * inverse_norms(query[None, :])[0], F32_1 * -1, F32_1)
    return np.where(inverse == 0, np.float32(np.nan), found + np.float32(0))


def unclamped(self: Oracle, was: Any, arm: str, query: F32) -> F32:
    """Cosines that exceed 1 by a rounding."""
    found = was(arm, query)
    return np.where(found == 1, np.nextafter(F32_1, np.float32(2)), found)


F32_1 = np.float32(1)
DEPTH_IS_LIMIT = {"depth": lambda self, was, call: call.offset + call.limit}
LEFT_TO_RIGHT = {"dense": from_left_to_right}
LISTS = {
    "each arm hands on as many as the reply may hold": DEPTH_IS_LIMIT,
    "the cut loses its ties": {"cut": lost_ties},
    "the last of each tile is overlooked": {
        "cut": lambda self, was, scores, candidates, depth: was(
            scores, candidates & (np.arange(len(scores)) % 16 != 15), depth
        )
    },
    "a repeated word counts once": {
        "multiplicities": lambda self, was, query: [
            (leaf, min(count, 1.0)) for leaf, count in was(query)
        ]
    },
    "impacts are summed in reverse": {"multiplicities": lambda self, was, query: was(query)[::-1]},
    "dot products run from left to right": LEFT_TO_RIGHT,
    "cosines are not cut at 1": {"dense": unclamped},
}


# BM25 and fusion: what others compute instead


def with_bm25(change: Callable[..., Any]) -> Changes:
    """BM25 with other constants: a function of the oracle, the arm, what counts and the right."""
    return {
        "lexical": lambda self, was, arm, query, counted, bm25: was(
            arm, query, counted, change(self, arm, bm25)
        )
    }


def absent_count(self: Oracle, was: Any, arm: str, query: Any, counted: Mask, bm25: Any) -> Any:
    """BM25+ grants its delta to the terms that a document does not hold, too."""
    scores, found = was(arm, query, counted, bm25)
    for leaf, multiplicity in self.multiplicities(query):
        held = self.occurrences(arm, leaf) > 0
        doc_freq = int((held & counted).sum())
        if doc_freq > 0:
            grant = shift(bm25, int(counted.sum()), doc_freq, multiplicity)
            scores = np.where(held | ~found, scores, scores + grant)
    return scores, found


def positive(self: Oracle, was: Any, *given: Any) -> tuple[F32, Mask]:
    """Matches by their scores alone."""
    scores, found = was(*given)
    return scores, found & (scores > 0)


def floored(x: float) -> float:
    """A logarithm that is not let below 0."""
    return max(math.log(x), 0.0)


class WithoutSwaps(Leaf):
    """A fuzzy word that knows no swap: Levenshtein's distance."""

    def means(self, place: int, token: str) -> bool:
        if place < len(self.words) - 1:
            return token == self.words[place]
        row = [*range(len(token) + 1)]
        for i, a in enumerate(self.words[place], start=1):
            before, row = row, [i]
            for j, b in enumerate(token, start=1):
                row.append(min(before[j] + 1, row[-1] + 1, before[j - 1] + (a != b)))
        return row[-1] <= self.edits


def with_leaves(change: Callable[[Leaf], Leaf]) -> Changes:
    """Other leaves than those that were asked."""
    return {"occurrences": lambda self, was, arm, leaf: was(arm, change(leaf))}


def with_fusion(kind: type[Weighted], changes: Changes, only: Any = None) -> Changes:
    """Fusions of a kind with another definition in their place."""
    made: dict[type, type] = {}

    def fused(self: Oracle, was: Any, fusion: Any, *rest: Any) -> Any:
        if isinstance(fusion, kind) and (only is None or only(fusion)):
            other = made.setdefault(type(fusion), mutant(type(fusion), mutation(changes)))
            fusion = other(**vars(fusion))
        return was(fusion, *rest)

    return {"fused": fused}


def sample(self: Dbsf, was: Any, scores: Any, listed: Any) -> dict[int, float]:
    """Scaling by a deviation that divides by n - 1."""
    found, order = was(scores, listed), self.rank_order(scores, listed)
    if len(order) < 2 or len({scores[doc] for doc in order}) == 1:
        return found
    mean, deviation = moments([scores[doc] for doc in order])
    deviation *= math.sqrt(len(order) / (len(order) - 1))
    low = mean - 3.0 * deviation
    return found | {doc: (scores[doc] - low) / (6.0 * deviation) for doc in order}


def is_balanced(fusion: Weighted) -> bool:
    """Whether the weights of a sum follow what its arms tell apart."""
    return fusion.balance is not None


OWN_LIST = {"rank_order": lambda self, was, scores, listed: sorted(listed, key=listed.get)}
SCORING = {
    "a match is what scores above 0": {"lexical": positive},
    "what a query excludes matches": {
        "matched": lambda self, was, query, held, excludes: was(query, held, excludes=False)
    },
    "what a query excludes scores 0": {
        "lexical": lambda self, was, *given: (np.nan_to_num(was(*given)[0]), was(*given)[1])
    },
    "what excludes scores": {
        "multiplicities": lambda self, was, query: [
            (leaf, count or 1.0) for leaf, count in was(query)
        ]
    },
    "a swap of neighbours is two edits": with_leaves(
        lambda leaf: WithoutSwaps(**vars(leaf)) if leaf.kind == "fuzzy" else leaf
    ),
    "a word may be one edit less away": with_leaves(
        lambda leaf: replace(leaf, edits=max(leaf.edits - 1, 0))
    ),
    "the words before an open one do not count": with_leaves(
        lambda leaf: leaf if leaf.kind == "phrase" else replace(leaf, words=leaf.words[-1:])
    ),
    "the last word of a phrase is finished": with_leaves(
        lambda leaf: replace(leaf, kind="phrase") if leaf.slop and leaf.kind == "prefix" else leaf
    ),
    "the slop of an unfinished phrase is lost": with_leaves(
        lambda leaf: replace(leaf, slop=0) if leaf.kind == "prefix" else leaf
    ),
    "Robertson's idf is not let below 0": with_bm25(
        lambda self, arm, bm25: replace(bm25, log=floored) if bm25.variant == "robertson" else bm25
    ),
    "absent terms have BM25+'s delta": {"lexical": absent_count},
    "delta is forgotten": with_bm25(
        lambda self, arm, bm25: bm25 if bm25.delta is None else replace(bm25, delta=0.0)
    ),
    "lengths of the whole index choose b": with_bm25(
        lambda self, arm, bm25: for_lengths(bm25, self.lengths[arm][self.has_text(arm)])
    ),
    "lengths do not choose b": with_bm25(lambda self, arm, bm25: replace(bm25, b_mixed=None)),
    "DBSF is clipped": with_fusion(
        Dbsf,
        {
            "normalised": lambda self, was, scores, listed: {
                doc: min(max(score, 0.0), 1.0) for doc, score in was(scores, listed).items()
            }
        },
    ),
    "DBSF has a sample's deviation": with_fusion(Dbsf, {"normalised": sample}),
    "DBSF sums in the order of the pool": with_fusion(
        Dbsf, {"rank_order": lambda self, was, scores, listed: sorted(was(scores, listed))}
    ),
    "DBSF has the moments of the list": with_fusion(Dbsf, OWN_LIST),
    "the balance is turned round": with_fusion(
        Weighted,
        {"share": lambda self, was, means: was(means if None in means else means[::-1])},
        is_balanced,
    ),
    "the balance is that of the lists": with_fusion(Weighted, OWN_LIST, is_balanced),
    "the balance is not cut": with_fusion(
        Weighted,
        {
            "share": lambda self, was, means: (
                was(means) if None in means else (self.balance + means[0]) - means[1]
            )
        },
        is_balanced,
    ),
    "an arm that lists nothing counts": with_fusion(
        Weighted, {"speaks": lambda self, was, listed: True}
    ),
    "equal scores have ranks of their own": {
        "ranks": lambda self, was, scores, listed: {
            int(doc): 1 + at for at, doc in enumerate(listed)
        }
    },
    "ranks join several arms by default": {
        "fusion": lambda self, was, call: call.fusion or (Rrf() if len(call.arms) > 1 else None)
    },
    "joined arms have the constants of an arm alone": {
        "constants": lambda self, was, call: call.bm25 or self.bm25
    },
    "an arm alone has the constants of joined arms": {
        "constants": lambda self, was, call: (
            call.bm25 or (DEFAULT_BM25 if call.fusion is None else self.bm25)
        )
    },
}

LAWS = {"l1": SCOPE, "l2": STATISTICS, "l5": ORDER, "l7": HONESTY, "l8": LISTS | SCORING | WEIGHTS}
PLANTS = mutations(
    {f"{law} {name}": bug for law, bugs in LAWS.items() for name, bug in bugs.items()}
)
