"""Options of the stage that scores hits by a weighted sum of named features: Linear."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, TypeAlias

from hyrecall.ask.shaping.checks import plain_pairs, read_duration
from hyrecall.base.arguments import number, set_fields
from hyrecall.base.keywords import check_keywords
from hyrecall.errors import DTypeError, OptionError, error

__all__ = ["Feature", "FeatureKind", "Linear"]

FeatureKind: TypeAlias = Literal["fused", "agreement", "score", "rank", "evidence", "value", "age"]

MOST_FEATURES = 64
_EVIDENCE = re.compile(r"neighbour_[1-8]|thread|length")
_AGE = re.compile(r"recency\((.+), *([^,()]+)\)", re.DOTALL)


class Feature(NamedTuple):
    """A feature as its name says it.

    ``of`` is an arm, a column or a part of :class:`Around`; ``value`` is compared with a column's
    values; ``half_life`` is in seconds.
    """

    kind: FeatureKind
    of: str = ""
    value: str = ""
    half_life: float = 0.0


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
            The fused score, without what Around added.
        ``ARM_score``
            The score in an arm, min-max scaled over the query's candidates to [0, 1].
        ``ARM_rank``
            1 / rank in the arm's list.
        ``agreement``
            The least of the scaled scores of all arms that ran: high if they agree.
        ``neighbour_1`` to ``neighbour_8``, ``thread``, ``length``
            What :class:`Around` added for that part; it must be among the stages, before Linear.
        ``COLUMN=VALUE``
            1 for rows with this value in a key, cell, attribute or stored column, such as
            ``role=user``.
        ``recency(COLUMN, HALF_LIFE)``
            0.5 ^ (age / half-life), such as ``recency(created_at, 30d)``; 1 without a time.

        A feature that a hit does not have is 0: the score in an arm that did not score the row, the
        rank of a row outside the arm's list, evidence that is null.

    Raises
    ------
    OptionError
        No weight or too many, a weight out of range, a half-life that is no duration. At recall: an
        arm or a column that the index lacks, evidence without Around.
    DTypeError
        A weight that is not a number, a feature that is not a str.

    Notes
    -----
    The products are computed in float64 and added largest first. The stage does not run together
    with Provenance, whose weights multiply; use ``COLUMN=VALUE`` instead.

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


def _read_feature(name: str) -> Feature:
    if name in ("fused", "agreement"):
        return Feature("fused" if name == "fused" else "agreement")
    if _EVIDENCE.fullmatch(name):
        return Feature("evidence", name)
    if age := _AGE.fullmatch(name):
        return Feature("age", age[1], half_life=read_duration(f"weights[{name!r}]", age[2]))
    column, is_value, value = name.partition("=")
    if column and is_value:
        return Feature("value", column, value)
    for kind in ("score", "rank"):
        arm = name.removesuffix(f"_{kind}")
        if arm and arm != name:
            return Feature("score" if kind == "score" else "rank", arm)
    wish = (
        "fused, agreement, ARM_score, ARM_rank, neighbour_1 to neighbour_8, thread, length, "
        "COLUMN=VALUE or recency(COLUMN, HALF_LIFE)"
    )
    raise error(OptionError, "weights", wish, repr(name))
