"""BM25 variants and their constants. Formulas and sources: docs/scoring.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from hyrecall.base.arguments import check_keywords, convert_field, number, one_of, set_fields
from hyrecall.errors import OptionError, error

Variant: TypeAlias = Literal["lucene", "okapi", "fts5", "robertson", "atire", "bm25+", "bm25l"]
_DEFAULT_K1 = dict.fromkeys(get_args(Variant), 1.2) | {"okapi": 1.5}
_DEFAULT_DELTA = {"bm25+": 1.0, "bm25l": 0.5}


@check_keywords
@dataclass(frozen=True)
class BM25:
    """A BM25 variant and its constants.

    Parameters
    ----------
    variant : {"lucene", "okapi", "fts5", "robertson", "atire", "bm25+", "bm25l"}
        ``lucene`` (the default) and ``okapi`` have idf = ln(1 + (N - df + .5) / (df + .5));
        ``fts5`` has no 1 + and floors idf at 1e-6, as SQLite FTS5 does; ``robertson`` has neither,
        so a term that more than half of the documents hold counts against them. ``atire`` has
        ln(N / df), ``bm25+`` ln((N + 1) / df), ``bm25l`` ln((N + 1) / (df + .5)). All but
        ``lucene`` and ``robertson`` multiply by k1 + 1.
    k1 : float, optional
        Saturation of term frequency, in [0, 1000]; default 1.2, for ``okapi`` 1.5.
    b : float or (float, float), default 0.75
        Weight of document length, in [0, 1]. Of two numbers, the first holds where the documents
        of a query's scope have lengths alike (variance up to 1/2 of their squared mean), and the
        second where long and short ones are mixed (from 3/4 on); between, the weight goes from one
        to the other in a straight line.
    delta : float, optional
        Addend of ``bm25+`` (default 1.0) and ``bm25l`` (default 0.5) per matching term, so that
        long documents are not penalised too much; in [0, 1000]. Other variants have none.

    Raises
    ------
    OptionError, DTypeError
        An unknown variant, a constant out of range, or a delta for a variant without one.

    Notes
    -----
    Scores are >= 0 and unbounded; those of ``robertson`` may be negative, and a matching document
    is listed even then. Only terms that a document holds add to its score. Sources:
    Robertson et al., "Okapi at TREC-3", 1994; Lv and Zhai, "Lower-bounding term frequency
    normalization", CIKM 2011 (``bm25+``), "When documents are very long, BM25 fails!", SIGIR 2011
    (``bm25l``); Kamphuis et al., "Which BM25 do you mean?", ECIR 2020 (the other names). Every
    rounding is in docs/scoring.md.

    Examples
    --------
    >>> BM25("okapi").k1
    1.5
    >>> BM25("bm25+", k1=0.9, b=0.4)
    BM25(variant='bm25+', k1=0.9, b=0.4, delta=1.0)
    >>> BM25(b=(0.25, 0.75)).b
    (0.25, 0.75)
    """

    variant: Variant = "lucene"
    k1: float | None = None
    b: float | tuple[float, float] = 0.75
    delta: float | None = None

    def __post_init__(self) -> None:
        """Check the options and fill in k1 and delta."""
        one_of("variant", self.variant, get_args(Variant))
        k1 = _DEFAULT_K1[self.variant] if self.k1 is None else self.k1
        set_fields(self, k1=number("k1", k1, 0.0, 1000.0, "a number in [0, 1000]"))
        convert_field(self, "b", _read_b)
        if self.variant in _DEFAULT_DELTA:
            delta = _DEFAULT_DELTA[self.variant] if self.delta is None else self.delta
            delta = number("delta", delta, 0.0, 1000.0, "a number in [0, 1000]")
            set_fields(self, delta=delta)
        elif self.delta is not None:
            raise error(OptionError, "delta", f"None ({self.variant} has none)", repr(self.delta))

    def __repr__(self) -> str:
        """Show the variant and its constants."""
        shown = f"BM25(variant={self.variant!r}, k1={self.k1!r}, b={self.b!r}"
        return f"{shown})" if self.delta is None else f"{shown}, delta={self.delta!r})"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain data, so that ``BM25(**data)`` equals this object."""
        made = {"variant": self.variant, "k1": self.k1, "b": self.b}
        return made if self.delta is None else made | {"delta": self.delta}

    @property
    def numbers(self) -> tuple[str, float, float, float, float]:
        """The engine's arguments: variant, k1, b, delta or 0, and b where lengths are mixed."""
        assert self.k1 is not None
        alike, mixed = self.b if isinstance(self.b, tuple) else (self.b, self.b)
        return self.variant, self.k1, alike, self.delta or 0.0, mixed


def _read_b(argument: str, value: Any) -> float | tuple[float, float]:
    """Read one weight of document length, or two; JSON has a list for a tuple."""
    if not isinstance(value, tuple | list):
        return number(argument, value, 0.0, 1.0, "a number in [0, 1], or two")
    if len(value) != 2:
        raise error(OptionError, argument, "a number in [0, 1], or two", repr(value))
    alike, mixed = (number(argument, one, 0.0, 1.0, "two numbers in [0, 1]") for one in value)
    return alike, mixed
