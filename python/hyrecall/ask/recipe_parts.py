"""The parts of a recipe: text and vector arms, tables, tie-breaks, fill, and threads."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from hyrecall.ask.scoring import Above, Scale
from hyrecall.ask.shaping.around import Around
from hyrecall.ask.shaping.checks import boolean, column_name, integer, names, plain_values
from hyrecall.base.arguments import convert_field, number, one_of
from hyrecall.base.keywords import check_keywords
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.text.bm25 import BM25

__all__ = ["Dense", "Fill", "Lexical", "Tables", "TieBreak", "WithThreads", "plain_floor"]

OTHER_TABLE = "other"
"""The table of all rows whose value is not the name of a table."""

QueryMode: TypeAlias = Literal["any", "all", "and_prefix"]


def plain_floor(argument: str, floor: object) -> float | Above | None:
    """Check a floor; return a number as a float."""
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
        Names of the arms; default: all.
    mode : {"any", "all", "and_prefix"}, default "any"
        Which words of a plain-text query must match: any, all, or all as prefixes (then a word with
        punctuation is a phrase). Typed queries do not change.
    phrases : bool, default False
        Words in double quotes are a phrase, which every hit must contain.
    max_terms : int, optional
        Keep only so many first words of a query.
    stopwords : tuple of str, default ()
        Words removed from queries (not from documents), in any case; kept if a query has no others.
    bm25 : BM25, optional
        Replaces the index's constants.
    weight : float, default 1
    min_score : float or Above, optional
        As in :meth:`hyrecall.Index.recall`.
    scale : {"minmax", "none", "best", "clip", "unit"}, optional
        Replaces the fusion's ``normalize`` for these arms.
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
        Names of the arms; default: all.
    weight : float, default 1
    min_score : float or Above, optional
        The lowest raw cosine.
    scale : {"minmax", "none", "best", "clip", "unit"}, optional
        Replaces the fusion's ``normalize`` for these arms.
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
    """A column that orders equal fused scores.

    Parameters
    ----------
    column : str
    descending : bool, default False
        The largest value first. Nulls always come last.
    prefer : tuple, optional
        These values first, in this order; all other values are equal. Replaces the order by value.

    Raises
    ------
    OptionError
        Both ``prefer`` and ``descending``.
    DTypeError
        A setting of another type. At recall: a preferred value that the column cannot hold.
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
    """Runs every arm once per table, over its rows only, with separate ranks.

    Text statistics are those of the table's rows in scope. A row is in exactly one table, and is
    fused from the arms of that table.

    Parameters
    ----------
    column : str
        The cell column with the table's name. If an index has no such cell column, all of its rows
        are one table, and the trace notes it.
    names : tuple of str
        The tables. Rows with another value or null form the table ``"other"``.

    Raises
    ------
    OptionError
        No name, a name given twice, or ``"other"``.
    DTypeError
        A column or a name that is not a str.

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
            wish = f"one or more distinct names other than {OTHER_TABLE!r}"
            raise error(OptionError, "names", wish, repr(given))

    @property
    def all_names(self) -> tuple[str, ...]:
        """The names of all tables; that of other rows is last."""
        return (*self.names, OTHER_TABLE)


@check_keywords
@dataclass(frozen=True)
class Fill:
    """Fills a list shorter than offset + limit with the newest documents of the query's scope.

    They follow all hits, with score 0, null ranks and ``origin`` "fill". With ``group`` or
    ``surrounding``, a list is filled to the depth before its rows are grouped.

    Parameters
    ----------
    column : str
        An attribute of numbers, dates or times; the largest value is the newest.
    when : {"one_arm", "no_match", "always"}, default "one_arm"
        Only if one arm ran or nothing matched, only if nothing matched, or always.

    Raises
    ------
    OptionError
        Another ``when``. At recall: a column that the index does not have.
    DTypeError
        A column that is not a str. At recall: a column of another type.
    """

    column: str
    when: Literal["one_arm", "no_match", "always"] = "one_arm"

    def __post_init__(self) -> None:
        """Check the options."""
        column_name("column", self.column)
        one_of("when", self.when, ("one_arm", "no_match", "always"))


@check_keywords
@dataclass(frozen=True)
class WithThreads:
    """What a recipe does where a query's scope holds threads: it hears the rows around a hit.

    A query is answered so if at least one live row of its scope is in a thread, whether or not the
    row passes the filter. Queries of other scopes are answered as if the recipe lacked this part,
    to the last bit. So a reply depends on the scope's rows alone.

    Parameters
    ----------
    around : Around
        The stage right behind the fusion.
    bm25 : BM25, optional
        Replaces the constants of the recipe's text arms.

    Raises
    ------
    DTypeError
        A setting of another type.

    Examples
    --------
    >>> import hyrecall as hr
    >>> WithThreads(hr.Around(thread=0.5)).around.thread
    0.5
    """

    around: Around
    bm25: BM25 | None = None

    def __post_init__(self) -> None:
        """Check the options."""
        if not isinstance(self.around, Around):
            raise error(DTypeError, "around", "an hr.Around", repr(self.around))
        if self.bm25 is not None and not isinstance(self.bm25, BM25):
            raise error(DTypeError, "bm25", "an hr.BM25, or None", repr(self.bm25))
