"""The stage that scores hits by a weighted sum of named features: Linear."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import _core
from hyrecall.base.arguments import check_keywords, number, set_fields
from hyrecall.base.options import plain_pairs, read_duration
from hyrecall.base.times import age_seconds
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.stages.evidence import Around, Evidence, Prior
from hyrecall.stages.lists import Floats, FusedLists, is_value, order_codes
from hyrecall.stages.provenance import Provenance
from hyrecall.stages.stage import Factors, Scored, Stage, StageCall, StagePlan, check_time, operand
from hyrecall.table.attributes import tag_attribute

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
        addends = _addends(self, lists, call)
        return call.ordered(lists.with_arrays(linear_addends=addends, score=sum_addends(addends)))

    def explain(self, hit: FusedLists, score: float, call: StageCall) -> Scored:
        addends = hit.arrays["linear_addends"]
        factors = dict(zip(self.names, addends[0].tolist(), strict=True))
        return float(sum_addends(addends)[0]), factors

    @staticmethod
    def _told(factors: Factors, before: float, after: float) -> list[str]:
        return [f" = {' + '.join(map(operand, factors.values()))}: {', '.join(factors)}"]


_OF_ARMS = ("score", "beside", "rank")
"""Kinds of features that name an arm, not a column."""

_NATIVE = ("fused", "agreement", "score", "rank", "evidence")  # as LinearTerm::Kind


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


# ---- Features that other candidates of its query give a row: common tags, scores beside it ----

N_NAMESAKES = 3
"""Candidates whose tags are compared with those of each row."""


def best_namesake(pool: FusedLists, tags: pa.Array) -> Floats:
    """Return the best product of fused score and common tags with one of the best other rows."""
    owner, tag, n_tags = _tags(tags)
    n_own = np.bincount(owner, minlength=len(pool))
    fused, query = pool.arrays["fused_score"], pool.query
    place = np.empty(len(pool), np.int64)
    place[np.lexsort((pool.arrays["tie_rank"], -fused, query))] = pool.places
    best = np.zeros(len(pool))
    for at in range(N_NAMESAKES + 1):
        is_head = place == at
        # The last one is heard by the rows that are among the best themselves.
        hears = ~is_head & ((at < N_NAMESAKES) | (place < N_NAMESAKES))
        head = np.zeros(len(pool.offsets) - 1, np.int64)
        head[query[is_head]] = np.flatnonzero(is_head)
        of_heads = is_head[owner]
        known = query[owner[of_heads]] * n_tags + tag[of_heads]
        is_common = np.isin(query[owner] * n_tags + tag, known)
        common = np.bincount(owner, is_common, minlength=len(pool))
        heard = hears & (common > 0)
        other = head[query[heard]]
        either = n_own[heard] + n_own[other] - common[heard]
        best[heard] = np.maximum(best[heard], fused[other] * (common[heard] / either))
    return best


def _tags(column: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], int]:
    """Return each pair of a row and its tag once, and how many tags there are."""
    import pyarrow.compute as pc

    is_list = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
    rows = pc.list_parent_indices(column) if is_list else pa.array(np.arange(len(column)))
    flat = (pc.list_flatten(column) if is_list else column).dictionary_encode()
    n_tags = max(len(flat.dictionary), 1)
    is_tag = flat.is_valid()
    row = rows.filter(is_tag).to_numpy().astype(np.int64)
    tag = flat.indices.filter(is_tag).to_numpy().astype(np.int64)
    row, tag = np.divmod(np.unique(row * n_tags + tag), n_tags)
    return row, tag, n_tags


class Threads:
    """The candidates of each query by thread, each thread in its order."""

    def __init__(self, pool: FusedLists, call: StageCall) -> None:
        schema = call.schema
        assert schema.thread is not None
        encoded = [
            call.column(pool, name).dictionary_encode(null_encoding="encode").indices.to_numpy()
            for name in (*schema.cell_columns, schema.thread)
        ]
        by = [call.seqs(pool)]
        if schema.place is not None:
            by.append(order_codes(call.column(pool, schema.place), descending=False))
        same = (pool.query, *encoded)
        self._order = np.lexsort((*by, *same))
        begins = np.zeros(len(pool), np.bool_)
        for codes in same:
            ordered = codes[self._order]
            begins[1:] |= ordered[1:] != ordered[:-1]
        self._thread = np.cumsum(begins)
        is_none = call.column(pool, schema.thread).is_null().to_numpy(zero_copy_only=False)
        self._is_none = is_none[self._order]

    def beside(self, values: Floats, steps: int) -> Floats:
        """Return the value of the candidate so many places behind each row; 0 if there is none."""
        n, out = len(self._order), np.zeros(len(values))
        at = np.arange(max(0, -steps), max(0, min(n, n - steps)))
        at = at[(self._thread[at] == self._thread[at + steps]) & ~self._is_none[at]]
        out[self._order[at]] = values[self._order[at + steps]]
        return out


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


def _addends(stage: Linear, pool: FusedLists, call: StageCall) -> Floats:
    """Return weight x feature of every entry: [n_entries, n_features]."""

    @cache
    def score(arm: str) -> Floats:
        return _best(scaled, call.places(arm))

    out = np.zeros((len(pool), len(stage.names)))
    scaled = _scaled_scores(pool)
    threads: Threads | None = None
    for at, (feature, (name, weight)) in enumerate(zip(stage.features, stage.weights, strict=True)):
        match feature.kind:
            case "fused":
                values = pool.arrays["fused_score"]
            case "agreement":
                values = _agreement(scaled, pool, call)
            case "score":
                values = score(feature.of)
            case "beside":
                threads = threads or Threads(pool, call)
                values = threads.beside(score(feature.of), feature.steps)
            case "rank":
                ranks = pool.arrays["arm_ranks"]
                inverse = np.where(ranks > 0, 1.0 / np.maximum(ranks, 1), 0.0)
                values = _best(inverse, call.places(feature.of))
            case "evidence":
                values = np.nan_to_num(pool.arrays[_array_of(feature.of)], nan=0.0)
            case "provenance":
                values = pool.arrays["provenance_change"]
            case "shared":
                values = best_namesake(pool, call.column(pool, feature.of))
            case "value":
                given = call.column(pool, feature.of)
                wanted = _value_of(f"Linear.weights[{name!r}]", feature, given.type)
                values = is_value(given, wanted).astype(np.float64)
            case "age":
                age = age_seconds(call.column(pool, feature.of), call.now)
                values = _core.shaping.recency_factors(age, feature.half_life, 1.0)
        out[:, at] = weight * values
    return out


def native_terms(
    stages: Sequence[Stage], bases: Sequence[str], evidence: Evidence | None
) -> list[tuple[int, int, int, float]]:
    """Return a Linear as the engine takes it; empty: there are other stages, or it reads more."""
    (stage,) = stages if len(stages) == 1 else (None,)
    if type(stage) is not Linear:
        return []
    out = []
    for feature, weight in zip(stage.features, dict(stage.weights).values(), strict=True):
        at, kind = 0, "score" if feature.kind == "beside" else feature.kind
        if kind not in _NATIVE or (feature.kind in _OF_ARMS and feature.of not in bases):
            return []
        if feature.kind in _OF_ARMS:
            at = bases.index(feature.of)
        elif kind == "evidence" and evidence is not None:
            last = {"thread": 0, "length": 1, "prior": 2}.get(feature.of)
            at = int(feature.of[-1]) - 1 if last is None else evidence.n_distances + last
        out.append((_NATIVE.index(kind), at, feature.steps, weight))
    return out


def _array_of(part: str) -> str:
    """Return the array of a reply that has a part of Around."""
    if part.startswith("neighbour_"):
        return f"near_{int(part[-1]) - 1}_addend"
    return f"{part}_evidence"


def _best(values: Floats, places: list[int]) -> Floats:
    """Return the best of an arm's values; it has one for each table, or none if it did not run."""
    return values[:, places].max(axis=1) if places else np.zeros(len(values))


def _agreement(scaled: Floats, pool: FusedLists, call: StageCall) -> Floats:
    """Return the least of each row's scaled scores, over the arms that list a row of its query."""
    # Which arms ran for other queries of the batch, and in how many tables, makes no difference.
    least = np.full(len(pool), np.inf)
    query, known = pool.query, pool.arrays["arm_ranks"] > 0
    for arm in dict.fromkeys(call.bases):
        places = call.places(arm)
        heard = np.isin(query, query[known[:, places].any(axis=1)])
        least[heard] = np.minimum(least, _best(scaled, places))[heard]
    return np.where(np.isfinite(least), least, 0.0)


def _scaled_scores(pool: FusedLists) -> Floats:
    """Scale each arm's scores to [0, 1] over the candidates of a query; 0 where there is none."""
    # If all scores of a query are equal, they are 1. An arm that lists none of them has no scores.
    scores = pool.arrays["arm_scores"].astype(np.float64)
    counts = np.diff(pool.offsets)
    begins = pool.offsets[:-1][counts > 0]
    if not len(begins):
        return np.zeros_like(scores)
    lists = np.logical_or.reduceat(pool.arrays["arm_ranks"] > 0, begins)
    missing = ~(np.isfinite(scores) & np.repeat(lists, counts[counts > 0], axis=0))
    lows, highs = (
        np.repeat(f.reduceat(np.where(missing, empty, scores), begins), counts[counts > 0], axis=0)
        for f, empty in ((np.minimum, np.inf), (np.maximum, -np.inf))
    )
    spread = highs - lows
    flat = ~(spread > 0)  # equal scores, or none
    with np.errstate(invalid="ignore"):
        scaled = np.where(flat, 1.0, (scores - lows) / np.where(flat, 1.0, spread))
    return np.where(missing, 0.0, scaled)


def sum_addends(addends: Floats) -> Floats:
    """Add up the addends of each entry, the largest first."""
    total = np.zeros(len(addends))
    for column in np.sort(addends, axis=1).T[::-1]:
        total += column
    return total + 0.0  # no -0
