"""Typed text queries. Text is never parsed for operators: only these objects express them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from hyrecall import _core
from hyrecall.base.arguments import as_int, as_list, check_keywords, python_scalar, set_fields
from hyrecall.errors import DTypeError, OptionError, error

_MAX_SLOP = 1000
MAX_EDITS = 2
_MAX_BOOST = 2.0**20
_MAX_NESTING = 32  # queries are lowered, compiled and matched by recursion


@check_keywords
@dataclass(frozen=True, repr=False)
class Phrase:
    """Matches documents with the tokens of a text at consecutive positions.

    A phrase counts as one term: its term frequency is the number of its occurrences, its document
    frequency the number of documents that contain it.

    Parameters
    ----------
    text : str
        Analyzed like every query text; at most 4,096 tokens.
    slop : int, default 0
        How far tokens may be from their exact positions: the displacements of all tokens of an
        occurrence differ by at most ``slop`` positions. In [0, 1000].
    prefix_last : bool, default False
        The last word is the beginning of a word, as in :class:`Prefix`, which this is without
        ``slop``.

    Raises
    ------
    OptionError, DTypeError
        A slop out of range, or a text that is not a str.

    Notes
    -----
    The cost is one pass over the terms of each document in scope with the rarest token.

    Examples
    --------
    >>> Phrase("blue green deploy")
    Phrase(text='blue green deploy', slop=0)
    """

    text: str
    slop: int = 0
    prefix_last: bool = False

    def __post_init__(self) -> None:
        """Check the options."""
        _check_text("Phrase", self.text)
        slop = as_int(self.slop)
        if slop is None or not 0 <= slop <= _MAX_SLOP:
            raise error(OptionError, "slop", f"an int in [0, {_MAX_SLOP}]", repr(self.slop))
        if not isinstance(self.prefix_last, bool):
            raise error(DTypeError, "prefix_last", "a bool", repr(self.prefix_last))
        set_fields(self, slop=slop)

    def __repr__(self) -> str:
        """Show ``prefix_last`` only where it is set."""
        last = ", prefix_last=True" if self.prefix_last else ""
        return f"Phrase(text={self.text!r}, slop={self.slop}{last})"


@check_keywords
@dataclass(frozen=True)
class Prefix:
    """Matches documents with a word that starts like the last word of a text, as it is typed.

    The words before the last must stand right before such a word. The last word is neither dropped
    as a stop word nor stemmed; with a stemming analyzer it also finds the stems of words that begin
    so, by a list of the endings of words that has most, but not all. If the stemmer removes the
    beginning of a word (``ge`` in Dutch, ``al`` in Arabic), two more letters must be typed. A text
    without a word finds nothing.

    A prefix counts as one term: its term frequency is the number of places that match, its document
    frequency the number of documents with one. It expands to terms of the authorised cells only. If
    a single word expands to more than 1,024 terms, it finds the 1,024 that the most documents of
    these cells hold, and ``trace.notes`` says so.

    Parameters
    ----------
    text : str
        Any text. One of more than 4,096 words is not searched, and ``degraded`` says so.

    Examples
    --------
    >>> Prefix("postg")
    Prefix(text='postg')
    """

    text: str

    def __post_init__(self) -> None:
        """Check the text."""
        _check_text("Prefix", self.text)


@check_keywords
@dataclass(frozen=True)
class Fuzzy:
    """Matches documents with a word that the last word of a text may have been meant for.

    An edit inserts, deletes or replaces a character (a Unicode code point), or swaps two
    neighbours. The words before the last must stand right before such a word. The last word is
    neither dropped as a stop word nor stemmed; with a stemming analyzer terms are stems, and those
    near the word or near its stem are found. A text without a word finds nothing.

    A fuzzy word counts as one term, as a :class:`Prefix` does, and has the same bound of terms.

    Parameters
    ----------
    text : str
        Any text, of one word as a rule.
    edits : int, default 1
        How many edits a word may be away: 1 or 2.

    Raises
    ------
    OptionError, DTypeError
        Other edits, or a text that is not a str.

    Examples
    --------
    >>> Fuzzy("mosue")
    Fuzzy(text='mosue', edits=1)
    """

    text: str
    edits: int = 1

    def __post_init__(self) -> None:
        """Check the options."""
        _check_text("Fuzzy", self.text)
        edits = as_int(self.edits)
        if edits is None or not 1 <= edits <= MAX_EDITS:
            raise error(OptionError, "edits", "1 or 2", repr(self.edits))
        set_fields(self, edits=edits)


@dataclass(frozen=True, init=False, repr=False)
class _QueryGroup:
    queries: tuple[TextQuery | Not, ...]

    def __init__(self, *queries: TextQuery | Not) -> None:
        """Check the parts."""
        if not queries:
            raise error(OptionError, type(self).__name__, "at least one query", "none")
        only: object = queries[0] if len(queries) == 1 else None
        if isinstance(only, list | tuple) and only:
            remedy = f"hr.{type(self).__name__}({', '.join(map(repr, only))})"
            raise _not_a_query(type(self).__name__, only, remedy)
        for query in queries:
            if not isinstance(query, Not):
                _check_query(type(self).__name__, query)
        if all(isinstance(query, Not) for query in queries):
            raise _only_not(type(self).__name__)
        set_fields(self, queries=queries)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.queries))})"


@check_keywords
class All(_QueryGroup):
    """Matches documents that match every part; each word of a str is a part.

    Parameters
    ----------
    *queries : str or typed query
        The parts. One without a token after analysis requires nothing.

    Notes
    -----
    A matching document is scored by every leaf of the query that it holds. FTS5, in contrast,
    ignores the leaves of a failed AND under an OR.

    Examples
    --------
    >>> All("postgres replication", Phrase("hot standby"))
    All('postgres replication', Phrase(text='hot standby', slop=0))
    """


@check_keywords
class Any(_QueryGroup):
    """Matches documents that match at least one part; a plain str is the same for its words.

    Parameters
    ----------
    *queries : str or typed query
        The parts.

    Examples
    --------
    >>> Any("postgres", Prefix("replic"))
    Any('postgres', Prefix(text='replic'))
    """


@check_keywords
@dataclass(frozen=True)
class Boost:
    """Multiplies the scores of a query's terms by ``factor``.

    Parameters
    ----------
    query : str or typed query
        The weighted query; it matches the same documents.
    factor : float
        In [2^-20, 2^20].

    Raises
    ------
    OptionError
        A factor out of range.

    Examples
    --------
    >>> Boost("postgres", 2.0)
    Boost(query='postgres', factor=2.0)
    """

    query: TextQuery
    factor: float

    def __post_init__(self) -> None:
        """Check the options."""
        _check_query("Boost", self.query)
        factor = python_scalar(self.factor)
        is_number = isinstance(factor, int | float) and not isinstance(factor, bool)
        if not is_number or not 1 / _MAX_BOOST <= factor <= _MAX_BOOST:
            raise error(OptionError, "factor", "a number in [2^-20, 2^20]", repr(self.factor))
        set_fields(self, factor=factor)


@check_keywords
@dataclass(frozen=True)
class Not:
    """In :class:`All` or :class:`Any`: documents that match a query do not match the group.

    It adds nothing to scores and changes no statistics. A document that only a ``Not`` keeps from
    matching has no score in the arm (null). Other arms may still find it.

    Parameters
    ----------
    query : str or typed query
        A document that matches it is left out: one with any word of a str, say. A text without a
        token leaves out nothing.

    Raises
    ------
    OptionError
        A query with a :class:`Boost`. A group of nothing but ``Not``, and a ``Not`` that stands
        alone, are refused too: they have nothing that matches.

    Examples
    --------
    >>> All("jaguar", Not(Any("car", "engine")))
    All('jaguar', Not(query=Any('car', 'engine')))
    """

    query: TextQuery

    def __post_init__(self) -> None:
        """Check the query."""
        _check_query("Not", self.query)
        if any(isinstance(one, Boost) for one in _within(self.query)):
            raise error(OptionError, "Not", "a query without hr.Boost (it scores nothing)", "one")


TextQuery: TypeAlias = str | Phrase | Prefix | Fuzzy | All | Any | Boost
"""What a query may be alone; :class:`Not` stands only in a group."""


def lower(  # noqa: PLR0911 - a case each
    query: object, argument: str, depth: int = 0
) -> str | _core.queries.TextQuery | None:
    """Convert a query to the engine's form."""
    if depth > _MAX_NESTING:
        raise error(OptionError, argument, f"queries nested at most {_MAX_NESTING} deep", "more")
    if query is None or isinstance(query, str):
        return query
    native = _core.queries.TextQuery
    if isinstance(query, Not):
        if not depth:
            raise _only_not(argument)
        return native.excluded(_lower_part(query.query, argument, depth + 1))
    if isinstance(query, Phrase):
        return (native.prefix if query.prefix_last else native.phrase)(query.text, query.slop)
    if isinstance(query, Prefix):
        return native.prefix(query.text, 0)
    if isinstance(query, Fuzzy):
        return native.fuzzy(query.text, query.edits)
    if isinstance(query, All | Any):
        parts = [_lower_part(part, argument, depth + 1) for part in query.queries]
        return native.all(parts) if isinstance(query, All) else native.any(parts)
    if isinstance(query, Boost):
        part = _lower_part(query.query, argument, depth + 1)
        return native.boosted(float(query.factor), part)
    raise _not_a_query(argument, query)


def _lower_part(query: TextQuery | Not, argument: str, depth: int) -> str | _core.queries.TextQuery:
    """Convert a query within another, which is never None."""
    lowered = lower(query, argument, depth)
    assert lowered is not None
    return lowered


def words_of(query: object) -> str | None:
    """Return the words of a query as plain text, without those of a Not; None: no query."""
    if isinstance(query, str):
        return query
    if not isinstance(query, Phrase | Prefix | Fuzzy | Boost | _QueryGroup):
        return None
    parts = (one if isinstance(one, str) else getattr(one, "text", None) for one in _within(query))
    return " ".join(part for part in parts if part is not None)


def _within(query: object) -> Iterator[object]:
    """Yield a query and those within it in order, without what a Not leaves out."""
    left = [query]  # a stack: how deep queries may be nested is checked later
    while left:
        one = left.pop()
        yield one
        if isinstance(one, Boost):
            left.append(one.query)
        elif isinstance(one, _QueryGroup):
            left.extend(reversed(one.queries))


def first_words(arms: Sequence[str], text: object) -> list[str | None] | None:
    """Return the words of each query: of its first text that is not None, in the arms' order."""
    # None for what is not a batch of texts.
    parts = [text[arm] for arm in arms if arm in text] if isinstance(text, Mapping) else [text]
    given = [as_list(part) for part in parts]
    if not given or not all(isinstance(one, list | tuple | np.ndarray) for one in given):
        return None
    return [
        next((words for one in some if (words := words_of(one)) is not None), None)
        for some in zip(*given, strict=False)  # lengths that differ are refused later
    ]


def check_texts(queries: Sequence[object]) -> None:
    """Refuse queries whose words hold a lone surrogate, which no document and no model has."""
    # What is too long for a batch is not read; it is refused later.
    for at, query in enumerate(queries if len(queries) < 2**31 else ()):
        words = words_of(query)
        if words is None or words.isascii():
            continue
        try:
            words.encode()
        except UnicodeEncodeError:
            raise error(OptionError, f"text[{at}]", "valid Unicode", "a lone surrogate") from None


def _check_text(argument: str, text: object) -> None:
    if not isinstance(text, str):
        raise error(DTypeError, argument, "a str", type(text).__name__)


def _check_query(argument: str, query: object) -> None:
    if not isinstance(query, str | Phrase | Prefix | Fuzzy | _QueryGroup | Boost):
        raise _not_a_query(argument, query)


def _only_not(argument: str) -> OptionError:
    return error(OptionError, argument, "at least one part that matches", "only hr.Not")


def _not_a_query(argument: str, query: object, remedy: str = "") -> DTypeError:
    wish = "a str, hr.Phrase, hr.Prefix, hr.Fuzzy, hr.All, hr.Any or hr.Boost"
    return error(DTypeError, argument, wish, f"{type(query).__name__} {query!r}", remedy)
