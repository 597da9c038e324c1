"""Options of the stage that scores hits by a weighted sum of named features: Linear."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal, NamedTuple, TypeAlias

from hyrecall.ask.shaping.checks import plain_pairs, read_duration
from hyrecall.base.arguments import check_keywords, number, set_fields
from hyrecall.errors import DTypeError, OptionError, error

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
class Linear:
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

    phase: ClassVar[int] = 0

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
