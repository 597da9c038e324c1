"""Options of the stage that searches again with terms and vectors of the best rows: Feedback."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hyrecall.ask.shaping.checks import integer
from hyrecall.base.arguments import check_keywords, convert_field, number
from hyrecall.errors import OptionError, error

MOST_ROWS = 100
MOST_TERMS = 100


@check_keywords
@dataclass(frozen=True)
class Feedback:
    """Searches twice: terms and vectors of the best first rows extend the second query.

    The first search ends with the fusion. Its best rows move the query vector towards their mean
    (Rocchio), and their most telling terms join the query's own (a relevance model, RM3). The
    second search asks the new query; all other stages run on its answer alone.

    Parameters
    ----------
    rows : int, default 3
        How many rows of the first answer are heard, in [1, 100].
    dense : float, default 0.4
        The weight of the rows' mean unit vector beside the unit query, in [0, 100].
    terms : int, default 0
        At most so many terms are added, in [0, 100].
    lexical : float, default 0.2
        The boosts of all added terms together, for each token of the query, in [2^-20, 10].

    Raises
    ------
    OptionError
        A number out of range; ``dense`` and ``terms`` that are both 0.
    DTypeError
        A number of another type.

    Notes
    -----
    Only rows that could be hits are heard: rows of the query's scope that pass the filter and the
    floors. Each counts alike. A row without a vector moves no vector, a row without a text adds no
    term. Document frequencies are those of the scope. Terms are added to plain texts; a typed query
    such as ``hr.Phrase`` says itself what matches and stays as it is. An arm that does not run is
    left out. A recall takes about twice as long. ``hits[i].trace.feedback`` and ``hit.explain()``
    say which rows were heard, and which terms they added.

    Feedback helps where questions and documents share a subject but few words. It does little for
    short turns of a chat, where terms cost more than they bring.

    Examples
    --------
    >>> Feedback(rows=5, terms=10)
    Feedback(rows=5, dense=0.4, terms=10, lexical=0.2)
    """

    phase: ClassVar[int] = -4

    rows: int = 3
    dense: float = 0.4
    terms: int = 0
    lexical: float = 0.2

    def __post_init__(self) -> None:
        """Check the options."""
        convert_field(self, "rows", integer, 1, MOST_ROWS)
        convert_field(self, "dense", number, 0.0, 100.0, "a number in [0, 100]")
        convert_field(self, "terms", integer, 0, MOST_TERMS)
        convert_field(self, "lexical", number, 2.0**-20, 10.0, "a number in [2^-20, 10]")
        if self.dense == 0 and self.terms == 0:
            raise error(OptionError, "Feedback", "dense or terms above 0", "both 0")
