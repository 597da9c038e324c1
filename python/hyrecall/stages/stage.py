"""A shaping stage: options, checks, run, explanations; and what an index and a call give to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from math import isfinite
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeAlias

import numpy as np
import pyarrow as pa

from hyrecall import _core
from hyrecall.base.arguments import check_keywords
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.stages.lists import Array, FusedLists, lead
from hyrecall.stages.registry import STAGES
from hyrecall.stages.session import Session
from hyrecall.table.arrow_values import join_texts
from hyrecall.table.attributes import RowTypes
from hyrecall.table.schema import Schema

DONOR = "place_"
"""Begins the names of arrays of a reranked entry that are of its place's first holder."""


class Why(NamedTuple):
    """Why a stage dropped an entry: a word, the number that decided, and what it was compared with.

    Attributes
    ----------
    reason : str
        As :attr:`hyrecall.DroppedRow.reason`; a stage of your own may use a word of its own.
    value : float
    bound : float or None
    kept, via : int or None
        Entries of the list that the stage got, counted over all queries.
    """

    reason: str
    value: float
    bound: float | None = None
    kept: int | None = None
    via: int | None = None


Factors: TypeAlias = Mapping[str, float]
Scored: TypeAlias = tuple[float, dict[str, float]]
"""A score, and the numbers that it is made of."""

WhyOf: TypeAlias = Callable[[int], Why]
"""Says of an entry of a list why it was dropped."""


@dataclass(frozen=True)
class Step:
    """How a shaping stage changed a hit's score."""

    stage: str
    score: float
    factors: dict[str, float]
    keys: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class CallableResults:
    """The values that callables of stages returned, by stage and list."""

    # By number and name, since two modules may have classes of one name.
    _kept: dict[tuple[float, str], list[tuple[int, Array, Array]]] = field(default_factory=dict)

    def keep(self, stage: Stage, first_query: int, offsets: Array, values: Array) -> None:
        """Keep the values of some queries' lists, whose entries begin at ``offsets``."""
        self._kept.setdefault((stage.phase, stage.name), []).append((first_query, offsets, values))

    def of(self, stage: Stage, query: int) -> Array:
        """Return the values of one query's list."""
        for first, offsets, values in self._kept[stage.phase, stage.name]:
            if first <= query < first + len(offsets) - 1:
                at = query - first
                return values[int(offsets[at]) : int(offsets[at + 1])]
        raise KeyError(query)


@check_keywords
@dataclass(frozen=True, eq=False, kw_only=True)
class StagePlan:
    """What a stage may check: the index, and the arms and stages of a call.

    Attributes
    ----------
    schema : Schema
    row_types : mapping of str to pyarrow.DataType
        The key, cell, attribute and stored columns.
    threads : int
        How many threads native code may use.
    stages : tuple of Stage
        All stages of the call that have an effect, in their order.
    known_arms : tuple of str
        The arms of the index and of the call, running or not.
    arms, bases : tuple of str
        The arms that run, in the order of the columns of ``arm_scores``; and the arm of the index
        behind each (an arm runs once for each table of a recipe).
    """

    schema: Schema
    row_types: Mapping[str, pa.DataType]
    threads: int
    stages: tuple[Stage, ...]
    known_arms: tuple[str, ...]
    arms: tuple[str, ...]
    bases: tuple[str, ...]

    def places(self, arm: str) -> list[int]:
        """Return the columns of ``arm_scores`` that an arm has: one, one for each table, or none.

        Parameters
        ----------
        arm : str

        Returns
        -------
        list of int
        """
        pairs = zip(self.arms, self.bases, strict=True)
        return [at for at, names in enumerate(pairs) if arm in names]


@check_keywords
@dataclass(frozen=True, eq=False, kw_only=True)
class StageCall(StagePlan):
    """What a call gives to its stages, for some of its queries.

    Attributes
    ----------
    now : datetime
        The time of the call.
    n_wanted : int
        ``offset + limit``: so many entries of a list become hits.
    is_grouped : bool
        Whether rows are grouped or surrounded after the stages, which need the whole list then.
    first_query : int
        Which query of the batch is the first of the lists.
    texts : sequence of str or None
        The queries of the batch as text; None: a query has none.
    sessions : sequence of Session or None
        Likewise, ``session=``.
    execution : object
        The search in native code, for ``hyrecall._core.shaping``.
    seqs : callable
        ``seqs(lists)`` returns the insertion number of every entry.
    reach : callable
        ``reach(graph, begin, end)`` returns a graph's connections for the queries [begin, end) of
        the batch.
    donor_score : callable
        ``donor_score(stage, hit)`` returns, in an explanation, the score of the document that held
        a hit's place before a rerank.
    """

    now: datetime
    n_wanted: int
    is_grouped: bool
    execution: _core.Execution
    first_query: int
    texts: Sequence[str | None]
    sessions: Sequence[Session | None]
    seqs: Callable[[FusedLists], Array]
    reach: Callable[..., Any]
    donor_score: Callable[[Stage, FusedLists], float] | None = None
    _gather: Callable[[FusedLists, str], pa.Array]
    _results: CallableResults
    _known: CallableResults | None
    _noted: dict[str, dict[int, str]] = field(default_factory=dict)

    def column(self, lists: FusedLists, name: str) -> pa.Array:
        """Return a key, cell, attribute or stored column of every entry.

        Parameters
        ----------
        lists : FusedLists
        name : str

        Returns
        -------
        pyarrow.Array
        """
        return self._gather(lists, name)

    def ordered(self, lists: FusedLists) -> FusedLists:
        """Return each list ordered by its scores.

        Equal scores are ordered as the fused list orders them, or by place where a rerank chose the
        places. Rows that a recipe with ``exact`` puts first stay there.

        Parameters
        ----------
        lists : FusedLists

        Returns
        -------
        FusedLists
        """
        ties = lists.arrays["tie_rank"]
        return lead(lists.take(_core.shaping.order(lists.native, [ties], self.threads)))

    def once(self, stage: Stage, lists: FusedLists, ask: Callable[[], Array]) -> Array:
        """Return what a function of the caller's says of every entry, asked once for all.

        ``explain_dropped`` runs the stages again and gets what the function returned before.

        Parameters
        ----------
        stage : Stage
        lists : FusedLists
        ask : callable
            ``ask()`` returns one value per entry.

        Returns
        -------
        ndarray
        """
        if self._known is not None:
            return self._known.of(stage, self.first_query)
        values = ask()
        self._results.keep(stage, self.first_query, lists.offsets, values)
        return values

    def note(self, told: str, alone: Mapping[int, str] | None = None) -> None:
        """Tell in ``hits.trace`` what the stage could not do.

        Parameters
        ----------
        told : str
        alone : mapping of int to str, optional
            If it is about single queries, what each of them is told, by its number in the batch.
        """
        self._noted.setdefault(told, {}).update(alone or {})


@check_keywords
class Stage:
    """A step of a recall that scores, orders or cuts the fused lists. Subclass it for your own.

    A stage is a frozen object of options. It has a number in the order of stages and a method
    ``run``; all other methods have a default.

    Attributes
    ----------
    phase : float
        Its place among the stages of a call. Those of this package have whole numbers: Feedback -4,
        Around -3, Prior -2, Provenance -1, Linear 0, Rerank and RerankBy 1, Dedup 2, Recency,
        Composite and SessionSignals 3, Budget and MMR 4, Gate 5. A call has at most one stage of a
        number. A stage of your own gets the fused lists, whatever its number.
    over_shards : str or None
        Why shards that are asked apart refuse it; None: it runs where the shards' lists are merged.
    column_options : tuple of str
        Those of its options that name a column. The columns are checked, and shards send them.

    Notes
    -----
    A stage gives the same reply for a query whatever else the batch asks, and a shorter ``limit``
    gives the beginning of a longer one's list. So it looks at no other query's entries, and keeps
    at least ``call.n_wanted`` of the entries that it would keep. Arrays that it adds are always
    added.

    Examples
    --------
    >>> class Half(Stage):
    ...     phase = 3.5
    ...     def run(self, lists, call):
    ...         return call.ordered(lists.with_arrays(score=lists.score / 2))
    >>> Half().name
    'Half'
    """

    phase: ClassVar[float]
    over_shards: ClassVar[str | None] = None
    column_options: ClassVar[tuple[str, ...]] = ()

    _acts: ClassVar[Literal["queries", "fusion", "lists"]] = "lists"
    _beside: ClassVar[tuple[str, ...]] = ()  # stages that may have the same number

    @property
    def name(self) -> str:
        """The name of the class, as traces and explanations show it."""
        return type(self).__name__

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that its options name."""
        named = (getattr(self, one) for one in self.column_options)
        return tuple(one for one in named if one is not None)

    @property
    def keeps(self) -> tuple[str, ...]:
        """Arrays of the lists that :meth:`explain` reads, which a later rerank must keep."""
        return ()

    @classmethod
    def among(cls, stages: Sequence[Stage]) -> Self | None:
        """Return the stage of this kind that is among some stages, or None.

        Parameters
        ----------
        stages : sequence of Stage

        Returns
        -------
        Stage or None
        """
        return next((one for one in stages if isinstance(one, cls)), None)

    def _fuses(self, schema: Schema) -> bool:
        """Say whether a single arm is fused, too, because the stage adds to fused scores."""
        return False

    def check(self, plan: StagePlan) -> None:
        """Raise an error if the index or the call lacks what the stage needs.

        Parameters
        ----------
        plan : StagePlan

        Raises
        ------
        OptionError
            An option names a column that the index does not have.
        """
        known = plan.schema.row_columns
        for option in self.column_options:
            column = getattr(self, option)
            if column is not None and column not in known:
                wish = f"a column of {list(known)}"
                raise error(OptionError, f"{self.name}.{option}", wish, repr(column))

    def reads(self, plan: StagePlan) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the columns and the vector arms whose rows it reads, which shards must send.

        Parameters
        ----------
        plan : StagePlan

        Returns
        -------
        tuple
        """
        return self.columns, ()

    def run(self, lists: FusedLists, call: StageCall) -> FusedLists:
        """Return the lists with new scores, in a new order, or without some entries.

        Parameters
        ----------
        lists : FusedLists
            It is not changed.
        call : StageCall

        Returns
        -------
        FusedLists
        """
        raise NotImplementedError  # each stage has it

    def explain(self, hit: FusedLists, score: float, call: StageCall) -> Scored:
        """Return a hit's score after the stage, recomputed, and the numbers that it is made of.

        Parameters
        ----------
        hit : FusedLists
            One entry: the hit, with the arrays that the stages left.
        score : float
            The hit's score before the stage.
        call : StageCall
            Of the hit's query alone.

        Returns
        -------
        tuple
            Default: the score before and nothing.
        """
        return score, {}

    def why(self, before: FusedLists, after: FusedLists, call: StageCall) -> WhyOf:
        """Return a function that tells why an entry was dropped.

        Parameters
        ----------
        before, after : FusedLists
            One query's list before and after the stage; ``after.arrays["entry"]`` has the entries'
            numbers in ``before``.
        call : StageCall

        Returns
        -------
        callable
        """
        return lambda entry: Why("dropped", float(before.score[entry]))

    @staticmethod
    def _told(factors: Factors, before: float, after: float) -> list[str]:
        """Explain in words: the rest of the line with the score, and lines below it."""
        how = " as before" if before == after else f" after {shown(before)}"
        told = ", ".join(f"{name.replace('_', ' ')} {shown(one)}" for name, one in factors.items())
        return [f"{how}{': ' if told else ''}{told}"]


# ---- What stages share ----


@check_keywords
class TextStage(Stage):
    """A stage that reads texts: those of its option ``column``, or ``hit.text``."""

    column: str | None
    column_options = ("column",)

    def check(self, plan: StagePlan) -> None:
        """Check the column too."""
        super().check(plan)
        text_columns(self, plan)

    def reads(self, plan: StagePlan) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the columns whose texts it reads."""
        return text_columns(self, plan), ()


def text_columns(stage: TextStage, plan: RowTypes) -> tuple[str, ...]:
    """Return the stored columns whose joined text a stage reads: its own, or the first arm's."""
    stored = plan.schema.row_columns
    columns = plan.schema.first_texts if stage.column is None else (stage.column,)
    argument = f"{stage.name}.column"
    for column in columns or (None,):
        if column is None or column not in stored:
            raise error(OptionError, argument, f"a stored column of {list(stored)}", repr(column))
        if not pa.types.is_large_string(plan.row_types[column]):
            raise error(DTypeError, argument, "a text column", plan.row_types[column])
    return columns


def texts_of(stage: TextStage, lists: FusedLists, call: StageCall) -> pa.Array:
    """Return the text of each entry."""
    return join_texts([call.column(lists, name) for name in text_columns(stage, call)])


def vector_arm(stage: Stage, plan: StagePlan, *, many: bool = False) -> str:
    """Return the vector arm that a stage reads: the one it names, or the only one."""
    # ``many``: the stage reads scores of arms, also of those whose rows have many vectors.
    schema = plan.schema
    arms = list(schema.vector_arms if many else schema.one_vector_arms)
    named = getattr(stage, "vector", None)
    argument = f"{stage.name}.vector"
    if named is None and len(arms) != 1:
        wish = f"one of {arms}" if arms else "an index with a vector arm"
        raise error(OptionError, argument, wish, "None" if arms else "one without")
    if named is not None and named not in arms:
        raise error(OptionError, argument, f"one of {arms}", repr(named))
    return named or arms[0]


def vector_number(stage: Stage, plan: StagePlan) -> int:
    """Return the number of that arm among the index's."""
    return list(plan.schema.vector_arms).index(vector_arm(stage, plan))


def check_time(argument: str, column: str, plan: StagePlan) -> None:
    """Refuse a column that has neither timestamps nor dates."""
    kind = plan.row_types[column]
    if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        raise error(DTypeError, argument, "a timestamp or date column", f"{column!r} of {kind}")


def shown(number: float, digits: int = 6) -> str:
    """Show a number with so many digits."""
    return f"{number + 0.0:.{digits}g}"


def operand(number: float, digits: int = 6) -> str:
    """Show a number as part of an equation: a negative one in parentheses."""
    text = shown(number, digits)
    return f"({text})" if text.startswith("-") else text


def weighted_sum(factors: Mapping[str, float], names: Sequence[str]) -> str:
    """Write out a sum of factors, each times its weight."""
    pairs = ((factors[f"{one}_weight"], factors[one]) for one in names)
    return " + ".join(f"{shown(weight)} x {operand(value)}" for weight, value in pairs)


def beyond(lists: FusedLists, entry: int, kept: FusedLists, last: int | None) -> Why:
    """Say that an entry comes after the last that stays, with both scores."""
    # Rows that lead stay whatever their score, so nothing is compared with theirs.
    bound = None if last is None else float(kept.score[last])
    if last is not None and "exact" in kept.arrays:
        leads = bool(kept.arrays["exact"][last]) and not lists.arrays["exact"][entry]
        bound = None if leads else bound
    return Why("limit", float(lists.score[entry]), bound)


def row_cosine(call: StageCall, column: int, lists: FusedLists, one: int, other: int) -> float:
    """Return the cosine of two entries of one query's list, the first as query."""
    segment, row = lists.arrays["segment"], lists.arrays["row"]
    places = [(int(segment[at]), int(row[at])) for at in (one, other)]
    query = int(np.searchsorted(lists.offsets, one, "right")) - 1
    return _core.shaping.row_cosine(call.execution, column, query, *places)


def checked(stage: Stage, made: object) -> FusedLists:
    """Return what a stage made, if that is lists with a score of each entry."""
    if not isinstance(made, FusedLists):
        raise error(DTypeError, f"{stage.name}.run", "FusedLists", type(made).__name__)
    score = made.arrays.get("score")
    if score is None or score.shape != (len(made),) or np.isnan(score).any():
        raise error(OptionError, f"{stage.name}.run", "a score of each entry", "others, or NaN")
    return made


def check_stages(shaping: object) -> tuple[Stage, ...]:
    """Check that stages are in their fixed order and none occurs twice; return a tuple."""
    if shaping is None or (isinstance(shaping, tuple) and not shaping):
        return ()
    if isinstance(shaping, Stage):
        shaping = (shaping,)
    # Checks against an abstract class are slow, so the usual types come first.
    given = shaping if isinstance(shaping, tuple | list | Sequence) else (shaping,)
    stages = (given,) if isinstance(given, str | bytes) else tuple(given)
    for stage in stages:
        if not isinstance(stage, Stage):
            wish = f"a sequence of stages ({', '.join(STAGES)})"
            raise error(OptionError, "shaping", wish, repr(stage))
        phase = getattr(stage, "phase", None)
        if not isinstance(phase, int | float) or isinstance(phase, bool) or not isfinite(phase):
            wish = "a number: the place of the stage among others"
            got = "none" if phase is None else repr(phase)
            raise error(DTypeError, f"{stage.name}.phase", wish, got)
    for earlier, later in pairwise(stages):
        pair = later.name in earlier._beside
        if earlier.phase > later.phase or (earlier.phase == later.phase and not pair):
            wish = f"at most one of each stage, in the order {_ORDER}"
            raise error(OptionError, "shaping", wish, [stage.name for stage in stages])
    return stages


_ORDER = (
    "feedback, around, prior, provenance, linear, rerank, dedup, recency or composite or session "
    "signals, budget and MMR, gate"
)
