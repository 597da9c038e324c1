"""Options of the stage that raises a hit's score by the rows around it: Around."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from hyrecall.base.arguments import check_keywords, convert_field, number, set_fields
from hyrecall.errors import DTypeError, OptionError, error

MOST_DISTANCES = 8


@check_keywords
@dataclass(frozen=True)
class Around:
    """Raises fused scores by the rows around a hit, by its whole thread and by its length.

    The index needs a schema with ``thread=``. The stage runs right behind the fusion, before
    ``min_fused``. The rows near the candidates in their threads join the candidates. They are
    scored in every arm; their scores are scaled by the other candidates' minima and maxima, and cut
    into [0, 1].

    Parameters
    ----------
    neighbours : sequence of float, default (0.3, 0.15)
        Weights of the rows one place away, two places away, and so on, at most 8. For each
        distance, the better fused score of the two rows there is multiplied by the weight. Deleted
        rows have no place.
    thread : float, default 0.25
        The weight of BM25 of the whole thread as one document, min-max scaled over the candidates'
        threads. Document frequencies and lengths are those of the threads in the scope.
    length : float, default 0.4
        The weight of the row's length, ln(1 + tokens) / 5 cut into [0, 1]. It counts whole where
        the lengths of the scope's rows are alike, and less the more they differ.

    Raises
    ------
    OptionError
        A weight outside [0, 1e6] or too many. At recall: an index without threads, ``normalize``.
    DTypeError
        A weight that is not a number.

    Notes
    -----
    Every row of the query's scope counts, whether or not it passes the filter; only rows that pass
    become hits. ``thread`` and ``length`` have no effect where no text arm runs. Their addends are
    shares of the best possible fused score; with the fusions that scale scores to [0, 1] it is the
    sum of the arms' weights. Hits have ``neighbour_evidence``, ``thread_evidence`` and
    ``length_evidence`` as columns of tables. A single arm is fused, too: by the fusion of the
    recipe or call, or by the default one, which gives scores in [0, 1].

    Examples
    --------
    >>> Around(neighbours=(0.3,), thread=0.25)
    Around(neighbours=(0.3,), thread=0.25, length=0.4)
    """

    phase: ClassVar[int] = -3

    neighbours: Sequence[float] = (0.3, 0.15)
    thread: float = 0.25
    length: float = 0.4

    def __post_init__(self) -> None:
        """Check the weights."""
        wish = "a number in [0, 1e6]"
        given = self.neighbours
        if isinstance(given, str | bytes) or not isinstance(given, Sequence):
            raise error(DTypeError, "neighbours", "a sequence of weights", repr(given))
        if len(given) > MOST_DISTANCES:
            raise error(OptionError, "neighbours", f"at most {MOST_DISTANCES} weights", len(given))
        checked = tuple(
            number(f"neighbours[{at}]", weight, 0.0, 1e6, wish) for at, weight in enumerate(given)
        )
        set_fields(self, neighbours=checked)
        for name in ("thread", "length"):
            convert_field(self, name, number, 0.0, 1e6, wish)
