"""The stage that scores hits by a weighted sum of named features: Linear."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import _core
from hyrecall._core import AttributeColumn
from hyrecall.base.arguments import check_keywords, number, set_fields
from hyrecall.base.options import plain_pairs, read_duration
from hyrecall.base.times import microseconds, tick_of
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.stages.evidence import Around, Evidence, Prior
from hyrecall.stages.lists import Floats, FusedLists, is_value, order_codes
from hyrecall.stages.provenance import Provenance
from hyrecall.stages.stage import Factors, Scored, Stage, StageCall, StagePlan, check_time, operand
from hyrecall.table.attributes import attribute_column, attribute_type, tag_attribute

FeatureKind: TypeAlias = Literal[
    "fused",
    "agreement",
    "score",
    "rank",
    "beside",
    "evidence",
    "provenance",
    "value",
    "age",
    "shared",
]

MOST_FEATURES = 64
_EVIDENCE = re.compile(r"neighbour_[1-8]|thread|length|prior")
_BESIDE = re.compile(r"(.+)_(before|after)_([1-3])", re.DOTALL)
_SHARED = re.compile(r"shared\((.+)\)", re.DOTALL)
_AGE = re.compile(r"recency\((.+), *([^,()]+)\)", re.DOTALL)


class Feature(NamedTuple):
    """A feature, parsed from its name."""

    # ``of`` is an arm, a column, or a part of :class:`Around`, or "prior"; ``value`` is compared
    # with a column's values; ``half_life`` is in seconds; ``steps`` are places behind a row.

    kind: FeatureKind
    of: str = ""
    value: str = ""
    half_life: float = 0.0
    steps: int = 0


_PLAIN = {
    "fused": Feature("fused"),
    "agreement": Feature("agreement"),
    "provenance": Feature("provenance"),
}


@check_keywords
@dataclass(frozen=True)
class Linear(Stage):
    """Replaces scores by a weighted sum of features of each hit.

    ``hyrecall learn`` and :func:`hyrecall.evaluate.learn` find the weights from judged queries.

    Parameters
    ----------
    weights : mapping of str to float
        At most 64 weights in [-1e6, 1e6], by feature:

        ``fused``
            The fused score, without what Around and Prior added.
        ``ARM_score``
            The score in an arm, min-max scaled over the query's candidates to [0, 1].
        ``ARM_rank``
            1 / rank in the arm's list.
        ``agreement``
            The least of the row's scaled scores, over the arms that scored any of the query's
            candidates: high if they agree.
        ``neighbour_1`` to ``neighbour_8``, ``thread``, ``length``
            What :class:`Around` added for that part; it must be among the stages, before Linear.
        ``ARM_before_1`` to ``ARM_before_3``, ``ARM_after_1`` to ``ARM_after_3``
            ``ARM_score`` of the candidate so many places before or after the row, among the query's
            candidates of its thread; with Around, these hold the rows beside what the arms found.
        ``prior``
            What :class:`Prior` added; it must be among the stages.
        ``provenance``
            By how much :class:`Provenance` changed the score; it must be among the stages.
        ``COLUMN=VALUE``
            1 for rows with this value in a key, cell, attribute or stored column, such as
            ``role=user``.
        ``recency(COLUMN, HALF_LIFE)``
            0.5 ^ (age / half-life), such as ``recency(created_at, 30d)``; 1 without a time.
        ``shared(COLUMN)``
            How good a candidate has the same tags, such as ``shared(tags)``: the largest product of
            a fused score and the share of tags in common (those that both have / those that either
            has), over the three candidates of the best fused scores, without the row itself.

        A feature that a hit does not have is 0: the score in an arm that did not score the row, the
        rank of a row outside the arm's list, evidence that is null.

    Raises
    ------
    OptionError
        No weight or too many, a weight out of range, a half-life that is no duration. At recall: an
        arm or a column that the index lacks, a feature of a stage that is not there, Prior or
        Provenance without a weight for what it does.
    DTypeError
        A weight that is not a number, a feature that is not a str. At recall: a column of tags that
        holds no strings.

    Notes
    -----
    The products are computed in float64 and added largest first. Weights of 1 for ``fused`` and for
    each part of the stages before Linear give the score that these stages gave, up to rounding.

    Examples
    --------
    >>> Linear({"fused": 1.0, "role=assistant": -0.1}).names
    ('fused', 'role=assistant')
    """

    phase: ClassVar[float] = 0

    weights: Mapping[str, float] | tuple[tuple[str, float], ...]

    def __post_init__(self) -> None:
        """Check the weights and read the features' names."""
        wish = "a number in [-1e6, 1e6]"
        pairs = plain_pairs("weights", self.weights)
        if not 0 < len(pairs) <= MOST_FEATURES:
            raise error(OptionError, "weights", f"1 to {MOST_FEATURES} features", len(pairs))
        for name, _ in pairs:
            if not isinstance(name, str):
                raise error(DTypeError, "weights", "the names of features", repr(name))
        checked = tuple((n, number(f"weights[{n!r}]", w, -1e6, 1e6, wish)) for n, w in pairs)
        set_fields(self, weights=checked)
        for name in self.names:
            _read_feature(name)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features, in the order of the weights."""
        return tuple(dict(self.weights))

    @property
    def features(self) -> tuple[Feature, ...]:
        """The features, in the order of the weights."""
        return tuple(map(_read_feature, self.names))

    @property
    def keeps(self) -> tuple[str, ...]:
        return ("linear_addends",)

    def check(self, plan: StagePlan) -> None:
        for kind in (Prior, Provenance):
            told, is_there = kind.__name__.lower(), kind.among(plan.stages) is not None
            if is_there and told not in self.names:
                wish = f"a weight for {told!r} in Linear, which replaces the score"
                raise error(OptionError, kind.__name__, wish, "none")
            if told in self.names and not is_there:
                argument = f"Linear.weights[{told!r}]"
                raise error(OptionError, argument, f"{kind.__name__} among the stages", "none")
        known = plan.schema.row_columns
        for name, feature in zip(self.names, self.features, strict=True):
            argument = f"Linear.weights[{name!r}]"
            if feature.kind in _OF_ARMS and feature.of not in (*plan.known_arms, *plan.arms):
                wish = f"an arm of {list(plan.known_arms)}"
                raise error(OptionError, argument, wish, repr(feature.of))
            if feature.kind == "beside" or (feature.kind == "evidence" and feature.of != "prior"):
                _check_evidence(argument, feature.of, plan)
            if feature.kind in ("value", "age") and feature.of not in known:
                raise error(OptionError, argument, f"a column of {list(known)}", repr(feature.of))
            if feature.kind == "value":
                _value_of(argument, feature, plan.row_types[feature.of])
            if feature.kind == "shared":
                tag_attribute(argument, feature.of, plan)
            if feature.kind == "age":
                check_time(argument, feature.of, plan)

    def reads(self, plan: StagePlan) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return tuple(one.of for one in self.features if one.kind not in _OF_ARMS), ()

    def run(self, lists: FusedLists, call: StageCall) -> FusedLists:
        """Replace each score by the sum of its addends."""
        addends, score = _weigh(self, lists, call)
        return call.ordered(lists.with_arrays(linear_addends=addends, score=score))

    def explain(self, hit: FusedLists, score: float, call: StageCall) -> Scored:
        addends = hit.arrays["linear_addends"][0].tolist()
        return _core.shaping.sum_addends(addends), dict(zip(self.names, addends, strict=True))

    @staticmethod
    def _told(factors: Factors, before: float, after: float) -> list[str]:
        return [f" = {' + '.join(map(operand, factors.values()))}: {', '.join(factors)}"]


_OF_ARMS = ("score", "beside", "rank")
"""Kinds of features that name an arm, not a column."""

_OF_COLUMNS = ("value", "age", "shared")

_KINDS = {
    "fused": 0, "agreement": 1, "score": 2, "rank": 3, "evidence": 4, "provenance": 4, "value": 5,
    "age": 6, "shared": 7,
}  # fmt: skip
"""Kinds of features, as LinearTerm::Kind; what stages before have added is given."""

_IN_NONE = 2**32 - 1  # the thread of a row that is in none


@lru_cache(maxsize=1024)
def _read_feature(name: str) -> Feature:
    if (plain := _PLAIN.get(name)) is not None:
        return plain
    if _EVIDENCE.fullmatch(name):
        return Feature("evidence", name)
    if beside := _BESIDE.fullmatch(name):
        sign = -1 if beside[2] == "before" else 1
        return Feature("beside", beside[1], steps=sign * int(beside[3]))
    return _read_column(name) or _read_arm(name)


def _read_column(name: str) -> Feature | None:
    """Return the feature of a column's values; None: the name is of no such form."""
    if shared := _SHARED.fullmatch(name):
        return Feature("shared", shared[1])
    if age := _AGE.fullmatch(name):
        return Feature("age", age[1], half_life=read_duration(f"weights[{name!r}]", age[2]))
    column, is_value, value = name.partition("=")
    return Feature("value", column, value) if column and is_value else None


def _read_arm(name: str) -> Feature:
    """Return the feature of an arm's list."""
    for kind in ("score", "rank"):
        arm = name.removesuffix(f"_{kind}")
        if arm and arm != name:
            return Feature("score" if kind == "score" else "rank", arm)
    wish = (
        "fused, agreement, ARM_score, ARM_rank, ARM_before_1 to ARM_after_3, neighbour_1 to "
        "neighbour_8, thread, length, prior, provenance, COLUMN=VALUE, recency(COLUMN, HALF_LIFE) "
        "or shared(COLUMN)"
    )
    raise error(OptionError, "weights", wish, repr(name))


# ---- The features and their weighted sums ----


def _check_evidence(argument: str, part: str, plan: StagePlan) -> None:
    if plan.schema.thread is None:  # Around of a recipe has no effect there
        raise error(OptionError, argument, "a schema with thread=", "one without")
    around = Around.among(plan.stages)
    if around is None:
        raise error(OptionError, argument, "Around among the stages", "none")
    n_distances = len(around.neighbours)
    if part.startswith("neighbour_") and int(part[-1]) > n_distances:
        wish = f"one of the {n_distances} neighbours of Around"
        raise error(OptionError, argument, wish, repr(part))


def _value_of(argument: str, feature: Feature, kind: pa.DataType) -> pa.Scalar:
    """Return the value that a feature names, in its column's type."""
    try:
        return pa.scalar(feature.value).cast(kind)
    except (pa.ArrowException, UnicodeEncodeError):
        raise error(DTypeError, argument, f"a value of {kind}", repr(feature.value)) from None


# A term as _core.shaping.LinearRules takes it: kind, at, steps, tick, half-life, value, weight.
_Term: TypeAlias = tuple[int, int, int, int, float, AttributeColumn | None, float]


def _rules(
    stage: Linear, plan: StagePlan, given: Sequence[str], column: Callable[[Feature], int]
) -> _core.shaping.LinearRules:
    """Return the features as the engine reads them; ``column`` tells where it finds a column."""
    arms = list(dict.fromkeys(plan.bases))
    terms: list[_Term] = [
        _term(feature, name, weight, plan, arms, given, column)
        for feature, (name, weight) in zip(stage.features, dict(stage.weights).items(), strict=True)
    ]
    return _core.shaping.LinearRules(terms, [plan.places(arm) for arm in arms])


def _term(
    feature: Feature,
    name: str,
    weight: float,
    plan: StagePlan,
    arms: list[str],
    given: Sequence[str],
    column: Callable[[Feature], int],
) -> _Term:
    """Return a feature as the engine reads it; an arm that is new comes behind the others."""
    at, tick, wanted = 0, 1, None
    kind = "score" if feature.kind == "beside" else feature.kind
    if kind == "agreement":
        at = len(set(plan.bases))
    elif feature.kind in _OF_ARMS:
        if feature.of not in arms:
            arms.append(feature.of)
        at = arms.index(feature.of)
    elif kind in ("evidence", "provenance"):
        at = given.index(feature.of or "provenance")
    elif kind in _OF_COLUMNS:
        at = column(feature)
    if kind == "value":
        value = _value_of(f"Linear.weights[{name!r}]", feature, plan.row_types[feature.of])
        is_told = attribute_type(value.type) is None
        wanted = attribute_column(pa.array([True]) if is_told else pa.repeat(value, 1))
    elif kind == "age":
        tick = tick_of(plan.row_types[feature.of])
    half_life = feature.half_life or 1.0
    return _KINDS[kind], at, feature.steps, tick, half_life, wanted, weight


def native_rules(
    stages: Sequence[Stage], plan: StagePlan, evidence: Evidence | None
) -> _core.shaping.LinearRules | None:
    """Return a Linear for the engine alone; None: other stages are there, or it reads more."""
    (stage,) = stages if len(stages) == 1 else (None,)
    if type(stage) is not Linear:
        return None
    # The engine has attributes by their codes, and no other columns.
    attributes = plan.schema.attributes
    named = [one for one in stage.features if one.kind in _OF_COLUMNS]
    if not all(one.of in attributes for one in named):
        return None
    n_distances = 0 if evidence is None else evidence.n_distances
    parts = [*(f"neighbour_{at + 1}" for at in range(n_distances)), "thread", "length", "prior"]
    return _rules(stage, plan, parts, lambda feature: attributes.index(feature.of))


def reads_age(stage: Stage) -> bool:
    """Say whether a Linear reads the time of the call."""
    return isinstance(stage, Linear) and any(one.kind == "age" for one in stage.features)


def _weigh(stage: Linear, pool: FusedLists, call: StageCall) -> tuple[Floats, Floats]:
    """Return weight x feature of every entry, [n_entries, n_features], and their sums."""
    columns: dict[tuple[str, str], AttributeColumn] = {}

    def column(feature: Feature) -> int:
        kind = call.row_types[feature.of]
        is_told = attribute_type(kind) is None  # then its rows are compared here
        key = feature.of, feature.value if is_told else ""
        if key not in columns:
            values = call.column(pool, feature.of)
            if is_told:
                values = pa.array(is_value(values, _value_of("weights", feature, kind)))
            columns[key] = attribute_column(values)
        return list(columns).index(key)

    given = {
        one.of or "provenance": pool.arrays[_array_of(one)]
        for one in stage.features
        if one.kind in ("evidence", "provenance")
    }
    rules = _rules(stage, call, list(given), column)
    is_beside = any(one.kind == "beside" for one in stage.features)
    return _core.shaping.weigh(
        rules, pool.offsets, pool.arrays["arm_scores"], pool.arrays["arm_ranks"],
        pool.arrays["fused_score"], pool.arrays["tie_rank"],
        np.column_stack([*given.values()]) if given else np.zeros((len(pool), 0)),
        list(columns.values()), _stands(pool, call) if is_beside else None,
        microseconds(call.now), call.threads,
    )  # fmt: skip


def _array_of(feature: Feature) -> str:
    """Return the array of a reply that has a part of Around, or what Provenance changed."""
    if feature.kind == "provenance":
        return "provenance_change"
    if feature.of.startswith("neighbour_"):
        return f"near_{int(feature.of[-1]) - 1}_addend"
    return f"{feature.of}_evidence"


def _stands(
    pool: FusedLists, call: StageCall
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return each entry's thread, its place there and its insertion number."""
    schema = call.schema
    assert schema.thread is not None
    columns = [call.column(pool, name) for name in (*schema.cell_columns, schema.thread)]
    codes = [one.dictionary_encode(null_encoding="encode").indices.to_numpy() for one in columns]
    threads = np.unique(np.stack(codes), axis=1, return_inverse=True)[1].reshape(-1)
    is_none = columns[-1].is_null().to_numpy(zero_copy_only=False)
    places = np.zeros(len(pool), np.int64)
    if schema.place is not None:
        places = order_codes(call.column(pool, schema.place), descending=False)
    return np.where(is_none, _IN_NONE, threads).astype(np.uint32), places, call.seqs(pool)
