"""Recall by recipes with ``exact`` as a subject of the laws, and what could be wrong with it."""

from dataclasses import replace
from typing import Any

import numpy as np

import hyrecall as hr
from laws.engine import (
    EngineSubject,
    arguments,
    engine_bm25,
    engine_floor,
    engine_fusion,
    ipc_bytes,
    replies,
)
from oracle.documents import Call, Reply, Shape
from oracle.exact import ExactOracle, quoting
from oracle.fusion import Ranks, Weighted
from oracle.words import Mask, Phrase, leaves
from seams import Dense, Lexical, Recipe


def recipe_of(call: Call, shape: Shape, *, exact: bool = True) -> Recipe:
    """The options of a call as a recipe."""
    weights = {} if call.fusion is None else dict(call.fusion.weights or {})

    def shared(arm: str) -> dict[str, Any]:
        floor = call.min_score.get(arm)
        return {
            "arms": (arm,),
            "weight": weights.get(arm, 1.0),
            "min_score": None if floor is None else engine_floor(floor),
        }

    bm25 = None if call.bm25 is None else engine_bm25(call.bm25)
    fusion = hr.recipes.default.fusion
    if call.fusion is not None:
        fusion = engine_fusion(replace(call.fusion, weights=None))
    elif bm25 is None and len(call.arms) > 1:
        bm25 = hr.BM25("lucene", k1=0.75, b=0.25)
    return Recipe(
        name="exact",
        arms=(
            *(Lexical(**shared(arm), bm25=bm25) for arm in shape.lexical if arm in call.texts),
            *(Dense(**shared(arm)) for arm in shape.dense if arm in call.vectors),
        ),
        fusion=fusion,
        fuse_one_arm=call.fusion is not None,
        min_fused=call.min_fused,
        depth=100 if call.depth is None else call.depth,
        exact=exact,
    )


def meant(call: Call) -> Call:
    """A call that a recipe with ``exact`` takes: the largest of Robertson's scores is refused, and
    a limit beyond the depth of one arm that is fused.
    """
    if call.fusion is not None and call.depth is not None:
        call = replace(call, depth=max(call.depth, call.offset + call.limit))
    largest = isinstance(call.fusion, Weighted) and call.fusion.largest
    if largest and call.bm25 is not None and call.bm25.variant == "robertson":
        call = replace(call, bm25=replace(call.bm25, variant="lucene"))
    return call


class ExactSubject(EngineSubject):
    """The engine by recipes with ``exact``; three of four bags of words are asked in quotes."""

    def hits(self, call: Call) -> hr.Hits:
        call = quoting(meant(call))
        given = arguments(self.shape, call)
        kept = {name: given[name] for name in ("text", "vectors", "scope", "filter", "limit",
                                               "offset") if name in given}  # fmt: skip
        return self.index.recall(**kept, recipe=recipe_of(call, self.shape))

    def recall(self, call: Call) -> list[Reply]:
        return replies(self.shape, self.hits(call).to_arrow(), len(call.scopes))

    def recall_bytes(self, call: Call) -> bytes:
        return ipc_bytes(self.hits(call).to_arrow())

    def reopen(self) -> "ExactSubject":
        again = super().reopen()
        again.__class__ = ExactSubject
        return again


class MeantOracle(ExactOracle):
    """The definition, of calls that a recipe with ``exact`` takes."""

    def recall(self, call: Call, query: int) -> Reply:
        return super().recall(meant(call), query)


class AmongTheListed(MeantOracle):
    """Only rows that an arm listed anyway are looked at."""

    def leading(
        self, call: Call, query: int, seen: tuple[Mask, Mask], ranks: Ranks
    ) -> tuple[set[int], set[int]]:
        _, leading = super().leading(call, query, seen, ranks)
        listed = {doc for docs in ranks.values() for doc in docs}
        return set(), leading & listed


class WordsAnywhere(MeantOracle):
    """All words suffice, wherever they stand."""

    def holds(self, arm: str, phrase: Phrase) -> Mask:
        words = next(leaf.words for leaf, _, _ in leaves(phrase))
        held = [
            [text is not None and any(word in field for field in text) for text in self.texts[arm]]
            for word in words
        ]
        return np.logical_and.reduce(held)


class OnlyBrought(MeantOracle):
    """Rows beyond those that were looked up do not lead, though a list has them."""

    def leading(
        self, call: Call, query: int, seen: tuple[Mask, Mask], ranks: Ranks
    ) -> tuple[set[int], set[int]]:
        brought, _ = super().leading(call, query, seen, ranks)
        return brought, brought


class FollowsTheLimit(MeantOracle):
    """More are looked up where more are asked for."""

    def looked_up(self, call: Call) -> int:
        return max(super().looked_up(call), call.offset + call.limit)


class FilterForgotten(MeantOracle):
    """What is looked up need not pass the filter."""

    def leading(
        self, call: Call, query: int, seen: tuple[Mask, Mask], ranks: Ranks
    ) -> tuple[set[int], set[int]]:
        return super().leading(call, query, (seen[0], seen[0]), ranks)


BUGS = (AmongTheListed, WordsAnywhere, OnlyBrought, FollowsTheLimit, FilterForgotten)
