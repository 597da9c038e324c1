"""Options that fuse and cut scores: fusions and floors. Formulas: docs/scoring.md."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from hyrecall.base.arguments import check_keywords, is_one_of, number, set_fields
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.text.bm25 import BM25


@check_keywords
@dataclass(frozen=True)
class Above:
    """A floor that a score must exceed; a floor that is a plain number may be equalled.

    Parameters
    ----------
    value : float
        The floor, in the unit of the score.

    Examples
    --------
    >>> Above(0.35)
    Above(value=0.35)
    """

    value: float

    def __post_init__(self) -> None:
        """Check the floor."""
        set_fields(self, value=number("Above", self.value, -math.inf, math.inf, "a finite number"))


def read_floor(argument: str, floor: object) -> tuple[float, bool] | None:
    """Return (value, strict) of a floor; a number is not strict, :class:`Above` is strict."""
    if floor is None:
        return None
    if isinstance(floor, Above):
        return floor.value, True
    return number(
        argument, floor, -math.inf, math.inf, "a finite number or hr.Above(number)"
    ), False


def _weights(weights: Mapping[str, float] | None) -> tuple[tuple[str, float], ...] | None:
    if weights is None:
        return None
    if not isinstance(weights, Mapping) or not weights:
        raise error(OptionError, "weights", "a mapping {arm: weight}", repr(weights))
    checked = {
        arm: number(f"weights[{arm!r}]", w, 0.0, 1e6, "a number in [0, 1e6]")
        for arm, w in weights.items()
    }
    return tuple(checked.items())


def _complete(complete: object) -> bool:
    if not isinstance(complete, bool):
        raise error(DTypeError, "complete", "a bool", repr(complete))
    return complete


@check_keywords
@dataclass(frozen=True, init=False)
class RRF:
    """Reciprocal rank fusion: each arm adds weight / (rank_constant + rank).

    A rank is 1 + the number of documents in the arm's list with a higher score, so equal scores
    share a rank.

    Parameters
    ----------
    weights : mapping of str to float, optional
        The weight of each arm, in [0, 1e6]; default: 1. A weight of 0 leaves the arm out.
    rank_constant : float, default 60
        In [0, 1e6].
    alpha : float, optional
        Sets the weights of an index with one lexical and one dense arm: 2 alpha for the dense arm,
        2 (1 - alpha) for the lexical arm. 0 and 1 leave one arm out. If only one of the two runs,
        alpha has no effect.
    alpha_mode : {"weights", "votes"}, default "weights"
        "votes" counts whole lists, as Loom does. Both arms have weight 1; if alpha differs from 0.5
        by more than 0.05, the preferred arm has max(1, round(8 |alpha - 0.5|)) more. Ranks are then
        places in the arm's list: equal scores have different ranks, by order of writing.

    Raises
    ------
    OptionError, DTypeError
        A number out of range, or both weights and alpha. At recall: no arm that runs has a weight
        above 0.

    Notes
    -----
    Scores are in (0, sum of weights / (rank_constant + 1)]. Source: Cormack, Clarke, Buettcher,
    "Reciprocal rank fusion outperforms Condorcet and individual rank learning methods", SIGIR 2009.

    Examples
    --------
    >>> RRF(alpha=0.5)
    RRF(weights=None, rank_constant=60.0, alpha=0.5, alpha_mode='weights')
    """

    weights: tuple[tuple[str, float], ...] | None
    rank_constant: float
    alpha: float | None
    alpha_mode: Literal["weights", "votes"]

    def __init__(
        self,
        weights: Mapping[str, float] | None = None,
        *,
        rank_constant: float = 60,
        alpha: float | None = None,
        alpha_mode: Literal["weights", "votes"] = "weights",
    ) -> None:
        """Check the options."""
        is_known = is_one_of(alpha_mode, ("weights", "votes"))
        if not is_known or (alpha is None and alpha_mode != "weights"):
            wish = "'weights', or with alpha= 'votes'"
            raise error(OptionError, "alpha_mode", wish, repr(alpha_mode))
        if weights is not None and alpha is not None:
            raise error(OptionError, "alpha", "weights or alpha, not both", "both")
        wish = "a number in [0, 1e6]"
        set_fields(
            self,
            weights=_weights(weights),
            rank_constant=number("rank_constant", rank_constant, 0.0, 1e6, wish),
        )
        if alpha is not None:
            alpha = number("alpha", alpha, 0.0, 1.0, "a number in [0, 1]")
        set_fields(self, alpha=alpha, alpha_mode=alpha_mode)

    @property
    def shares(self) -> tuple[float, float]:
        """The weights of the lexical and the dense arm that alpha sets."""
        alpha = 0.5 if self.alpha is None else self.alpha
        if self.alpha_mode == "weights" or alpha in (0.0, 1.0):
            return 2 * (1 - alpha), 2 * alpha
        off = abs(alpha - 0.5)
        more = float(max(1, round(8 * off))) if off > 0.05 else 0.0
        return (1.0 + more, 1.0) if alpha < 0.5 else (1.0, 1.0 + more)


Scale: TypeAlias = Literal["minmax", "none", "best", "clip", "unit"]


def _scales(normalize: object) -> Scale | tuple[tuple[str, Scale], ...]:
    known = get_args(Scale)
    given: dict[str, Any] = (
        dict(normalize) if isinstance(normalize, Mapping | tuple) else {"": normalize}
    )
    for scale in given.values():
        if not is_one_of(scale, known):
            raise error(OptionError, "normalize", f"one of {known} or {{arm: one}}", repr(scale))
    if isinstance(normalize, Mapping | tuple):
        return tuple(given.items())
    only: Scale = given[""]
    return only


@check_keywords
@dataclass(frozen=True, init=False)
class _ScoreFusion:
    weights: tuple[tuple[str, float], ...] | None
    normalize: Scale | tuple[tuple[str, Scale], ...]
    complete: bool

    def __init__(
        self,
        weights: Mapping[str, float] | None = None,
        *,
        normalize: Scale | Mapping[str, Scale] = "minmax",
        complete: bool = True,
    ) -> None:
        """Check the options."""
        set_fields(
            self,
            weights=_weights(weights),
            normalize=_scales(normalize),
            complete=_complete(complete),
        )

    def scale_of(self, arm: str) -> Scale:
        """Return the scale of the arm's scores."""
        if isinstance(self.normalize, tuple):
            return dict(self.normalize).get(arm, "minmax")
        return self.normalize


@check_keywords
@dataclass(frozen=True, init=False)
class WeightedSum(_ScoreFusion):
    """Fuses by the weighted sum of the arms' scores.

    Parameters
    ----------
    weights : mapping of str to float, optional
        The weight of each arm, in [0, 1e6]; default: 1. A weight of 0 leaves the arm out.
    normalize : {"minmax", "none", "best", "clip", "unit"} or mapping of arm to those
        How an arm's scores are scaled. "minmax" (the default, also for arms that a mapping does not
        name) scales to [0, 1] over the union of the arms' lists; "best" divides by the best score
        of the union; "clip" takes the positive part of a cosine; "unit" takes (1 + cosine) / 2;
        "none" changes nothing.
    complete : bool, default True
        Score every document of the union in every arm that ran. False: a document outside an arm's
        list gets 0 there. A null component always adds 0.
    balance : float, optional
        In [0, 2], with min-max only. Sets the weights for each query: the dense arms together get
        balance + mean lexical score - mean dense score, limited to [0, 1], and the lexical arms the
        rest; ``weights`` divide it among several arms of a kind. The means are over the scaled
        scores of the union, so an arm whose scores are all near its best, and therefore distinguish
        little, counts less, and an arm without scores does not count. Other arms keep their
        weights.

    Raises
    ------
    OptionError, DTypeError
        A weight or balance out of range, or another ``normalize``. At recall: no arm that runs has
        a weight above 0.

    Notes
    -----
    With min-max, scores are in [0, sum of weights]. Source: Fox and Shaw, "Combination of multiple
    searches", TREC-2, 1994; Lee, "Analyses of multiple evidence combination", SIGIR 1997.

    Examples
    --------
    >>> WeightedSum({"text": 0.7, "embedding": 0.3}).weights
    (('text', 0.7), ('embedding', 0.3))
    """

    balance: float | None

    def __init__(
        self,
        weights: Mapping[str, float] | None = None,
        *,
        normalize: Scale | Mapping[str, Scale] = "minmax",
        complete: bool = True,
        balance: float | None = None,
    ) -> None:
        """Check the options."""
        super().__init__(weights, normalize=normalize, complete=complete)
        if balance is not None:
            balance = number("balance", balance, 0.0, 2.0, "a number in [0, 2]")
            given = self.normalize
            scales = {scale for _, scale in given} if isinstance(given, tuple) else {given}
            if scales != {"minmax"}:
                raise error(OptionError, "balance", "normalize='minmax'", repr(normalize))
        set_fields(self, balance=balance)


@check_keywords
class Max(_ScoreFusion):
    """Fuses by the largest weighted score of an arm; options and errors as :class:`WeightedSum`.

    A null component counts as 0. With min-max, scores are in [0, largest weight].

    Examples
    --------
    >>> Max(normalize="none")
    Max(weights=None, normalize='none', complete=True)
    """


@check_keywords
@dataclass(frozen=True, init=False)
class DBSF:
    """Distribution-based score fusion: the weighted sum of scores in standard deviations.

    A score becomes (score - (mean - 3 std)) / (6 std), with the arm's mean and population standard
    deviation over the union of the arms' lists: 0 is three deviations below the mean, 1 three
    above. Scores outside [0, 1] are not clipped, so the order inside an arm stays. If all scores
    are equal, they become 1.

    Parameters
    ----------
    weights : mapping of str to float, optional
        The weight of each arm, in [0, 1e6]; default: 1. A weight of 0 leaves the arm out.
    complete : bool, default True
        Score every document of the union in every arm that ran. False: mean and deviation are those
        of the arm's own list, and a document outside it gets 0. A null component always adds 0.

    Raises
    ------
    OptionError, DTypeError
        A weight out of range, or no weight above 0.

    Notes
    -----
    An outlier compresses the other scores less than with min-max. Source:
    Mazzeschi, "Distribution-Based Score Fusion (DBSF), a new approach to vector search ranking",
    2023, which does not clip either; the order of summation is in docs/scoring.md.

    Examples
    --------
    >>> DBSF({"text": 0.7, "embedding": 0.3})
    DBSF(weights=(('text', 0.7), ('embedding', 0.3)), complete=True)
    """

    weights: tuple[tuple[str, float], ...] | None
    complete: bool

    def __init__(
        self, weights: Mapping[str, float] | None = None, *, complete: bool = True
    ) -> None:
        """Check the options."""
        set_fields(self, weights=_weights(weights), complete=_complete(complete))


Fusion: TypeAlias = RRF | WeightedSum | Max | DBSF


# ---- The default fusion and BM25 constants of a call with several arms that names neither ----
# ``recipes.default`` uses these two; docs/evaluation.md has the measurements.

DEFAULT_FUSION = WeightedSum(normalize="minmax", balance=0.85)
"""Fuses the lists of two or more arms."""

DEFAULT_BM25 = BM25("lucene", k1=0.75, b=0.25)
"""For text arms that are fused with others; a single arm uses the index's constants."""
