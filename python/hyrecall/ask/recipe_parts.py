"""The parts of a recipe: its text and vector arms, what decides ties and what fills gaps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from hyrecall.ask.scoring import Above, Scale
from hyrecall.ask.shaping.checks import boolean, column_name, integer, names, plain_values
from hyrecall.base.arguments import convert_field, number, one_of
from hyrecall.base.keywords import check_keywords
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.text.bm25 import BM25

__all__ = ["Dense", "Fill", "Lexical", "Tables", "TieBreak", "plain_floor"]

OTHER_TABLE = "other"
"""The table of rows whose value names none."""

QueryMode: TypeAlias = Literal["any", "all", "and_prefix"]


def plain_floor(argument: str, floor: object) -> float | Above | None:
    """Check a floor, and give a number as a float."""
    if floor is None or isinstance(floor, Above):
        return floor
    wish = "a finite number or hr.Above(number)"
    return number(argument, floor, -math.inf, math.inf, wish)


@check_keywords
@dataclass(frozen=True, kw_only=True)
class Lexical:
    """The text arms of an index in a recipe.

    Parameters
    ----------
    arms : tuple of str, optional
        Which; default: all.
    mode : {"any", "all", "and_prefix"}, default "any"
        How a query's words join: any of them, all of them, or all of them as beginnings of words
        (a word with punctuation then is a phrase). Only plain text is read so; typed queries stay.
    phrases : bool, default False
        Words in double quotes must be adjacent, and where there are any, documents without are out.
    max_terms : int, optional
        Words after these are cut from a query.
    stopwords : tuple of str, default ()
        Words left out of a query (not out of documents), in any case; a query of nothing else
        keeps them.
    bm25 : BM25, optional
        In place of the index's.
    weight : float, default 1
    min_score : float or Above, optional
        As in :meth:`hyrecall.Index.recall`.
    scale : {"minmax", "none", "best", "clip", "unit"}, optional
        In place of the fusion's ``normalize``, for these arms.
    """

    arms: tuple[str, ...] | None = None
    mode: QueryMode = "any"
    phrases: bool = False
    max_terms: int | None = None
    stopwords: tuple[str, ...] = ()
    bm25: BM25 | None = None
    weight: float = 1.0
    min_score: float | Above | None = None
    scale: Scale | None = None

    def __post_init__(self) -> None:
        """Check the options."""
        one_of("mode", self.mode, ("any", "all", "and_prefix"))
        _check_arm(self)
        convert_field(self, "phrases", boolean)
        if self.max_terms is not None:
            convert_field(self, "max_terms", integer, 1)
        convert_field(self, "stopwords", names, "a tuple of words")
        if self.bm25 is not None and not isinstance(self.bm25, BM25):
            raise error(DTypeError, "bm25", "an hr.BM25", repr(self.bm25))


@check_keywords
@dataclass(frozen=True, kw_only=True)
class Dense:
    """The vector arms of an index in a recipe.

    Parameters
    ----------
    arms : tuple of str, optional
        Which; default: all.
    weight : float, default 1
    min_score : float or Above, optional
        Least raw cosine.
    scale : {"minmax", "none", "best", "clip", "unit"}, optional
        In place of the fusion's ``normalize``, for these arms.
    """

    arms: tuple[str, ...] | None = None
    weight: float = 1.0
    min_score: float | Above | None = None
    scale: Scale | None = None

    def __post_init__(self) -> None:
        """Check the options."""
        _check_arm(self)


def _check_arm(arm: Lexical | Dense) -> None:
    if arm.arms is not None:
        convert_field(arm, "arms", names)
    if arm.scale is not None:
        one_of("scale", arm.scale, get_args(Scale))
    convert_field(arm, "weight", number, 0.0, 1e6, "a number in [0, 1e6]")
    convert_field(arm, "min_score", plain_floor)


@check_keywords
@dataclass(frozen=True)
class TieBreak:
    """A column that decides between equal fused scores.

    Parameters
    ----------
    column : str
    descending : bool, default False
        The largest value first. Nulls come last either way.
    prefer : tuple, optional
        In place of the order of values: these first, in this order; any others are alike.

    Raises
    ------
    OptionError
        Both ``prefer`` and ``descending``.
    DTypeError
        A setting of another type. By recall: a value to prefer that the column cannot hold.
    """

    column: str
    descending: bool = False
    prefer: tuple[object, ...] = ()

    def __post_init__(self) -> None:
        """Check the options."""
        column_name("column", self.column)
        convert_field(self, "descending", boolean)
        convert_field(self, "prefer", plain_values)
        if self.prefer and self.descending:
            raise error(OptionError, "prefer", "prefer or descending, not both", "both")


@check_keywords
@dataclass(frozen=True)
class Tables:
    """Arms for each table: every arm runs once over the rows of each, with ranks of its own.

    Text statistics are those of the table's rows in scope. A row lies in exactly one table, so it
    is fused from the arms of that one.

    Parameters
    ----------
    column : str
        The cell column whose value is the table's name. Where an index has no such cell column, all
        of its rows are one table; the trace says so.
    names : tuple of str
        The tables. Rows with any other value, or none, are the table ``"other"``.

    Raises
    ------
    OptionError
        No name, one given twice, or ``"other"``.
    DTypeError
        A column or a name that is no str.

    Examples
    --------
    >>> Tables("table", ("facts", "dialogue")).all_names
    ('facts', 'dialogue', 'other')
    """

    column: str
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        """Check the options."""
        column_name("column", self.column)
        convert_field(self, "names", names)
        given = self.names
        if not given or len(set(given)) < len(given) or OTHER_TABLE in given:
            wish = f"one name or more, each once, none of them {OTHER_TABLE!r}"
            raise error(OptionError, "names", wish, repr(given))

    @property
    def all_names(self) -> tuple[str, ...]:
        """The tables, with that of all other rows last."""
        return (*self.names, OTHER_TABLE)


@check_keywords
@dataclass(frozen=True)
class Fill:
    """What fills a list below offset + limit: the newest documents of the query's scope.

    They come behind all hits with score 0 and null ranks; ``origin`` says "fill".

    Parameters
    ----------
    column : str
        An attribute of numbers, dates or times; the largest is the newest.
    when : {"one_arm", "no_match", "always"}, default "one_arm"
        Where one arm ran or nothing matched, where nothing matched, or always.

    Raises
    ------
    OptionError
        Another ``when``. By recall: a column that the index lacks.
    DTypeError
        A column that is no name. By recall: one of another type.
    """

    column: str
    when: Literal["one_arm", "no_match", "always"] = "one_arm"

    def __post_init__(self) -> None:
        """Check the options."""
        column_name("column", self.column)
        one_of("when", self.when, ("one_arm", "no_match", "always"))
