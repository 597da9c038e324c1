"""Options that add documents beside the hits: neighbours in a graph, documents with shared tags."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from hyrecall.ask.graphs import GraphLike
from hyrecall.ask.shaping.checks import column_name, integer
from hyrecall.base.arguments import convert_field
from hyrecall.base.keywords import check_keywords
from hyrecall.errors import DTypeError, error

__all__ = ["Context", "Expansion", "SharedTags", "read_expansion"]

MOST_BESIDE = 1000


@check_keywords
@dataclass(frozen=True)
class Context:
    """Adds to the first hits their neighbours in a graph that are not hits: ``hit.context``.

    Parameters
    ----------
    graph : Graph or str
        A graph over the recalled index, or its name in ``graphs=``.
    top : int, default 5
        Number of first hits that get neighbours.
    n : int, default 3
        Most neighbours per hit, in [1, 1000]; those that the query's session has received first,
        ordered by BM25 of the connecting edge, then key.

    Raises
    ------
    OptionError
        A number out of range.

    Examples
    --------
    >>> Context("graph").n
    3
    """

    graph: GraphLike | str
    top: int = field(default=5, kw_only=True)
    n: int = field(default=3, kw_only=True)

    def __post_init__(self) -> None:
        """Check the options."""
        convert_field(self, "top", integer, 1)
        convert_field(self, "n", integer, 1, MOST_BESIDE)


@check_keywords
@dataclass(frozen=True)
class SharedTags:
    """Adds documents near the hits by their tags that are not hits: ``hits[q].related``.

    Parameters
    ----------
    column : str
        An attribute column of strings or lists of strings.
    n : int, default 5
        Most documents per query, in [1, 1000]; ordered by number of shared tags, then seq.
    hops : int, default 0
        0: only documents with a tag of the hits. 1: after them also those with a tag that a
        document of the scope has beside one of the hits', ordered by number of such tags, then seq.

    Raises
    ------
    OptionError
        A number out of range.
    DTypeError
        A column name that is not a str.

    Examples
    --------
    >>> SharedTags("tags").n
    5
    """

    column: str
    n: int = field(default=5, kw_only=True)
    hops: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        """Check the options."""
        column_name("column", self.column)
        convert_field(self, "hops", integer, 0, 1)
        convert_field(self, "n", integer, 1, MOST_BESIDE)


Expansion: TypeAlias = Context | SharedTags


def read_expansion(given: object) -> tuple[Expansion, ...]:
    """Read ``expansion=``: one, several or None."""
    if given is None or (isinstance(given, tuple) and not given):
        return ()
    parts = given if isinstance(given, tuple | list) else (given,)
    for part in parts:
        if not isinstance(part, Context | SharedTags):
            raise error(DTypeError, "expansion", "hr.Context or hr.SharedTags", repr(part))
    kinds = [type(part) for part in parts]
    if len(set(kinds)) < len(kinds):
        raise error(DTypeError, "expansion", "each kind once", kinds)
    return tuple(parts)
