"""The stages that choose how many documents stay, together: Budget and MMR."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import _core
from hyrecall.base.arguments import check_keywords, convert_field, number, one_of
from hyrecall.base.options import arm_name, column_name, integer
from hyrecall.errors import DTypeError, ShapeError, error
from hyrecall.stages.lists import Floats, FusedLists
from hyrecall.stages.stage import (
    Factors,
    Scored,
    Stage,
    StageCall,
    StagePlan,
    TextStage,
    Why,
    WhyOf,
    beyond,
    operand,
    row_cosine,
    shown,
    texts_of,
    vector_arm,
    vector_number,
)

Estimate: TypeAlias = "Callable[[list[str]], Sequence[int]]"


@check_keywords
@dataclass(frozen=True)
class Budget(TextStage):
    """Keeps the first document, then each next one whose tokens still fit into a token budget.

    With :class:`MMR`, that stage chooses among the documents that fit. A recipe's ``fill`` does
    nothing if there is a budget, and ``hits.trace.notes`` says so. With ``group`` or
    ``surrounding``, hits and the rows around them are kept while they fit, in the order of the
    list, which MMR then orders as a whole.

    Parameters
    ----------
    tokens : int or None
        The budget; None, 0 or less means no budget.
    column : str, optional
        The stored text whose tokens count; default: ``hit.text``, all columns of the first text arm
        with a line break between them.
    estimate : callable, optional
        ``estimate(texts) -> ints`` returns token counts. Default: the number of characters without
        outer white space / 4, rounded up, at least 1.

    Examples
    --------
    >>> Budget(2000).tokens
    2000
    """

    phase: ClassVar[float] = 4
    _beside = ("MMR",)

    tokens: int | None
    column: str | None = field(default=None, kw_only=True)
    estimate: Estimate | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        """Check the options."""
        if self.tokens is not None:
            convert_field(self, "tokens", integer, -(2**31))
        if self.column is not None:
            column_name("column", self.column)
        if self.estimate is not None and not callable(self.estimate):
            raise error(DTypeError, "estimate", "a callable", type(self.estimate).__name__)

    @property
    def bounds(self) -> bool:
        """Whether there is a budget: more than 0 tokens."""
        return self.tokens is not None and self.tokens > 0

    def run(self, lists: FusedLists, call: StageCall) -> FusedLists:
        """Keep what fits; with MMR, that stage does."""
        return lists if MMR.among(call.stages) else _choose(lists, call, self, None)

    def explain(self, hit: FusedLists, score: float, call: StageCall) -> Scored:
        tokens = hit.arrays.get("token_estimate")
        return score, {} if tokens is None else {"tokens": float(tokens[0])}

    def why(self, before: FusedLists, after: FusedLists, call: StageCall) -> WhyOf:
        return _not_chosen(self, None, before, after, call)


@check_keywords
@dataclass(frozen=True)
class MMR(Stage):
    """Chooses by maximal marginal relevance: w x relevance - (1 - w) x similarity to chosen ones.

    The first document of the list is chosen first. Similarity is the largest cosine to a document
    that is already chosen, at least 0. The value at the time of choice is the new score.

    Parameters
    ----------
    relevance_weight : float
        w, in [0, 1]; 1 keeps the order.
    relevance : {"max", "minmax", "raw"}, default "max"
        "max" divides the score by the list's best score, "minmax" scales it to [0, 1], "raw" does
        not change it.
    vector : str, optional
        The vector arm whose rows are compared; required if there are several.

    Notes
    -----
    Cost: (offset + limit) x pool cosines; with ``group`` or ``surrounding`` pool x pool. Source:
    Carbonell and Goldstein, SIGIR 1998.

    Examples
    --------
    >>> MMR(0.7)
    MMR(relevance_weight=0.7, relevance='max', vector=None)
    """

    phase: ClassVar[float] = 4
    _beside = ("Budget",)

    relevance_weight: float
    relevance: Literal["max", "minmax", "raw"] = field(default="max", kw_only=True)
    vector: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        """Check the options."""
        convert_field(self, "relevance_weight", number, 0.0, 1.0, "a number in [0, 1]")
        one_of("relevance", self.relevance, ("max", "minmax", "raw"))
        arm_name(self.vector)

    def check(self, plan: StagePlan) -> None:
        vector_arm(self, plan)

    def reads(self, plan: StagePlan) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return (), (vector_arm(self, plan),)

    def run(self, lists: FusedLists, call: StageCall) -> FusedLists:
        """Choose among the documents, within the budget if there is one."""
        return _choose(lists, call, Budget.among(call.stages), self)

    def explain(self, hit: FusedLists, score: float, call: StageCall) -> Scored:
        arrays = hit.arrays
        high, low = float(arrays["mmr_high"][0]), float(arrays["mmr_low"][0])
        relevance = scaled_relevance(self.relevance, score, high, low)
        similarity = 0.0
        if arrays["mmr_has_nearest"][0]:
            places = [
                (int(arrays[f"{of}segment"][0]), int(arrays[f"{of}row"][0]))
                for of in ("mmr_nearest_", "")
            ]
            similarity = _core.shaping.row_cosine(
                call.execution, vector_number(self, call), 0, *places
            )
        factors = {"relevance_weight": self.relevance_weight, "relevance": relevance}
        factors |= {} if self.relevance == "raw" else {"high": high}
        factors |= {"low": low} if self.relevance == "minmax" else {}
        factors["similarity"] = similarity
        return _core.shaping.mmr_value(self.relevance_weight, relevance, similarity), factors

    def why(self, before: FusedLists, after: FusedLists, call: StageCall) -> WhyOf:
        return _not_chosen(Budget.among(call.stages), self, before, after, call)

    @staticmethod
    def _told(factors: Factors, before: float, after: float) -> list[str]:
        weight, relevance = shown(factors["relevance_weight"]), factors["relevance"]
        similarity, high, low = factors["similarity"], factors.get("high"), factors.get("low")
        lines = [
            f" = {weight} x {operand(relevance)} - (1 - {weight}) x {operand(similarity)}: "
            "relevance, likeness to a hit above"
        ]
        how = f"relevance {shown(relevance)}"
        if high is not None and low is not None and high > low:
            given, least, most = (operand(one, 9) for one in (before, low, high))
            lines.append(f"{how} = ({given} - {least}) / ({most} - {least}): min-max of the list")
        elif high is not None and low is None and high > 0:
            lines.append(f"{how} = {operand(before)} / {shown(high)}, the list's best score")
        return lines


# ---- One choice for both: within the tokens, by MMR, or in the order of the list ----


def token_counts(budget: Budget, texts: pa.Array) -> npt.NDArray[np.int64]:
    """Return the tokens of each text, by the budget's own estimate if it has one."""
    if budget.estimate is None:
        # Not by pyarrow.compute and to_numpy(), which import pandas for this.
        from pyarrow._compute import call_function

        lengths = call_function("utf8_length", [call_function("utf8_trim_whitespace", [texts])])
        if lengths.null_count:
            lengths = lengths.fill_null(0)
        found = np.from_dlpack(lengths).astype(np.int64)
        return np.asarray(np.maximum(1, -(-found // 4)), np.int64)
    if not len(texts):
        return np.zeros(0, np.int64)
    counts = np.asarray(budget.estimate([text or "" for text in texts.to_pylist()]))
    if counts.shape != (len(texts),):
        raise error(ShapeError, "Budget.estimate", f"{len(texts)} numbers", counts.shape)
    if not np.issubdtype(counts.dtype, np.integer) or (counts < 0).any():
        raise error(DTypeError, "Budget.estimate", "ints >= 0", counts.dtype)
    return counts.astype(np.int64)


def _tokens(budget: Budget, lists: FusedLists, call: StageCall) -> npt.NDArray[np.int64]:
    """Return the tokens of each entry's text."""
    if budget.estimate is None:
        return token_counts(budget, texts_of(budget, lists, call))
    return call.once(budget, lists, lambda: token_counts(budget, texts_of(budget, lists, call)))


def _choose(
    lists: FusedLists, call: StageCall, budget: Budget | None, mmr: MMR | None
) -> FusedLists:
    n_wanted, most = call.n_wanted, None
    if budget is not None and budget.bounds:
        most = budget.tokens
        lists = lists.with_arrays(token_estimate=_tokens(budget, lists, call))
    if call.is_grouped:  # the grouper says later what is a hit, and what fits
        n_wanted, most = len(lists), None
    if mmr is None and most is None:
        return lists
    tokens = np.zeros(0, np.int64) if most is None else lists.arrays["token_estimate"]
    found = _core.shaping.diversify(
        lists.native,
        call.execution,
        None if mmr is None else vector_number(mmr, call),
        1.0 if mmr is None else mmr.relevance_weight,
        "raw" if mmr is None else mmr.relevance,
        n_wanted,
        tokens,
        np.full(0 if most is None else len(lists.offsets) - 1, most or 0, np.int64),
    )
    found = _choose_leading(lists, found, call, mmr, n_wanted, tokens, most)
    if mmr is None:
        return lists.take(found["chosen"])
    high, low = lists.extremes
    lists = lists.with_arrays(mmr_high=high, mmr_low=low)
    nearest = found["nearest"]
    near = {
        f"mmr_nearest_{name}": np.where(nearest < 0, 0, lists.arrays[name][nearest])
        for name in ("segment", "row")
    }
    return lists.take(found["chosen"]).with_arrays(
        mmr_relevance=found["relevance"],
        mmr_similarity=found["similarity"],
        mmr_has_nearest=nearest >= 0,
        score=found["value"],
        **near,
    )


def _not_chosen(
    budget: Budget | None, mmr: MMR | None, before: FusedLists, after: FusedLists, call: StageCall
) -> Callable[[int], Why]:
    """Say of entries of one query's list why they were not chosen."""
    chosen = after.arrays["entry"].tolist()
    is_full = len(chosen) == call.n_wanted
    tokens: Sequence[int] = ()
    left = [0]  # before each choice
    if budget is not None and budget.bounds:
        assert budget.tokens is not None
        tokens = _tokens(budget, before, call).tolist()
        left = [budget.tokens]
        for one in chosen:
            left.append(left[-1] - tokens[one])

    def why(entry: int) -> Why:
        if tokens and chosen:
            steps = left[1:-1] if is_full else left[1:]  # after which a choice was to be made
            if mmr is None:  # its turn came after what stands before it
                turn = sum(one < entry for one in chosen)
                steps = [] if is_full and turn == len(chosen) else [left[turn]]
            too_few = [one for one in steps if tokens[entry] > one]
            if too_few:
                return Why("budget", float(tokens[entry]), float(too_few[0]))
        if mmr is None:
            return beyond(before, entry, before, chosen[-1] if chosen else None)
        return _outranked(mmr, before, after, entry, call)

    return why


def _outranked(mmr: MMR, before: FusedLists, after: FusedLists, entry: int, call: StageCall) -> Why:
    """Say what the value of an entry was when the last one was chosen."""
    chosen = after.arrays["entry"].tolist()
    column = vector_number(mmr, call)
    similarity = 0.0
    for one in chosen[:-1]:
        similarity = max(similarity, row_cosine(call, column, before, one, entry))
    relevance = scaled_relevance(
        mmr.relevance, float(before.score[entry]),
        float(before.score.max()), float(before.score.min()),
    )  # fmt: skip
    value = _core.shaping.mmr_value(mmr.relevance_weight, relevance, similarity)
    why = beyond(before, entry, after, len(chosen) - 1 if chosen else None)
    # With one choice there was nothing to compare: the first of the list is chosen.
    return why._replace(value=value, bound=None if len(chosen) < 2 else why.bound)


def scaled_relevance(how: str, score: float, high: float, low: float) -> float:
    """Return what a score counts in MMR, beside the list's highest and lowest."""
    if how == "max":
        return score / high if high > 0 else 0.0
    return score if how == "raw" else _core.arithmetic.minmax_scale(score, low, high)


def _choose_leading(
    pool: FusedLists,
    found: Any,
    call: StageCall,
    mmr: MMR | None,
    n_wanted: int,
    tokens: npt.NDArray[np.int64],
    tokens_fit: int | None,
) -> Any:
    """Choose again where some rows of a list lead: among them first, then among the others."""
    if "exact" not in pool.arrays:
        return found
    offsets, entries = found["chosen"]
    names = ("value", "relevance", "similarity", "nearest")
    counts, parts = [], []
    for query, (begin, end) in enumerate(zip(pool.offsets[:-1], pool.offsets[1:], strict=True)):
        if pool.arrays["exact"][begin:end].all() or not pool.arrays["exact"][begin:end].any():
            own = slice(int(offsets[query]), int(offsets[query + 1]))
            parts.append((entries[own], *(found[name][own] for name in names)))
        else:
            choice = _Choice(pool, call, query, mmr)
            parts.append(choice.run(n_wanted, tokens, tokens_fit))
        counts.append(len(parts[-1][0]))
    kinds = (np.int64, np.float64, np.float64, np.float64, np.int64)
    joined = [
        np.concatenate([np.zeros(0, kind), *one]).astype(kind)
        for kind, one in zip(kinds, zip(*parts, strict=True), strict=True)
    ]
    chosen = (np.concatenate([[0], np.cumsum(counts)]), joined[0])
    return {"chosen": chosen, **dict(zip(names, joined[1:], strict=True))}


class _Choice:
    """The greedy choice from one list, by definition; few queries need it."""

    def __init__(self, pool: FusedLists, call: StageCall, query: int, mmr: MMR | None) -> None:
        self._pool, self._call = pool, call
        self._column = None if mmr is None else vector_number(mmr, call)
        self._begin, self._end = (int(at) for at in pool.offsets[query : query + 2])
        self._weight = 1.0 if mmr is None else mmr.relevance_weight
        scores: Floats = pool.score[self._begin : self._end]
        how = "raw" if mmr is None else mmr.relevance
        high, low = float(scores.max()), float(scores.min())
        self._relevance = [scaled_relevance(how, float(one), high, low) for one in scores]
        n = len(scores)
        self._nearest = [(0.0, -1)] * n  # similarity, and to which entry of the pool
        self._compared = [0] * n  # to how many of the chosen
        self._chosen: list[int] = []

    def run(
        self, n_wanted: int, tokens: npt.NDArray[np.int64], tokens_fit: int | None
    ) -> tuple[Any, ...]:
        """Return the chosen entries, and value, relevance, similarity and nearest of each."""
        leads = self._pool.arrays["exact"][self._begin : self._end]
        waiting = list(range(self._end - self._begin))
        values = []
        left = tokens_fit
        while waiting and len(self._chosen) < n_wanted:
            fitting = waiting[:1]  # the first of the list, whatever it costs
            if self._chosen:
                fitting = [at for at in waiting if left is None or tokens[self._begin + at] <= left]
                fitting = [at for at in fitting if leads[at]] or fitting
            if not fitting:
                break
            value, best = max((self._value(at), -at) for at in fitting)
            self._chosen.append(-best)
            waiting.remove(-best)
            values.append(value)
            if left is not None:
                left -= int(tokens[self._begin - best])
        near = [self._nearest[at] for at in self._chosen]
        return (
            np.array(self._chosen, np.int64) + self._begin,
            values,
            [self._relevance[at] for at in self._chosen],
            [similarity for similarity, _ in near],
            [nearest for _, nearest in near],
        )

    def _value(self, at: int) -> float:
        """Return an entry's value beside those that were chosen so far."""
        for chosen in self._chosen[self._compared[at] :]:
            cosine = self._cosine(chosen, at)
            if cosine > self._nearest[at][0]:
                self._nearest[at] = (cosine, self._begin + chosen)
        self._compared[at] = len(self._chosen)
        similarity = self._nearest[at][0]
        return _core.shaping.mmr_value(self._weight, self._relevance[at], similarity)

    def _cosine(self, one: int, other: int) -> float:
        if self._column is None:
            return 0.0
        places = self._begin + one, self._begin + other
        return row_cosine(self._call, self._column, self._pool, *places)
