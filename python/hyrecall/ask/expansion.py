"""What a reply shows beside its hits: neighbours in a graph, documents with the same tags."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from hyrecall.ask.shaping.checks import column_name, integer
from hyrecall.base.keywords import check_keywords
from hyrecall.errors import DTypeError, error

if TYPE_CHECKING:
    from hyrecall.ask.arms.tags import Related
    from hyrecall.graph.graph import Graph, Neighbour
    from hyrecall.graph.reach import Reaches
    from hyrecall.hits.hits import Hits

__all__ = ["Around", "Context", "Expansion", "SharedTags", "expand", "read_expansion"]

MOST_BESIDE = 1000


@check_keywords
@dataclass(frozen=True)
class Context:
    """The neighbours of the first hits, none of them a hit: ``hit.context``.

    Parameters
    ----------
    graph : Graph or str
        Over the index that is asked, or its name in ``graphs=``.
    top : int, default 5
        Of so many hits.
    n : int, default 3
        At most so many each, in [1, 1000]: by BM25 of the edge between, then key.

    Raises
    ------
    OptionError
        A number out of range.

    Examples
    --------
    >>> Context("graph").n
    3
    """

    graph: Graph | str
    top: int = field(default=5, kw_only=True)
    n: int = field(default=3, kw_only=True)

    def __post_init__(self) -> None:
        """Check the options."""
        object.__setattr__(self, "top", integer("top", self.top, 1))
        object.__setattr__(self, "n", integer("n", self.n, 1, MOST_BESIDE))


@check_keywords
@dataclass(frozen=True)
class SharedTags:
    """Documents that share tags with the hits, none of them a hit: ``hits[q].related``.

    Parameters
    ----------
    column : str
        An attribute column of strings or lists of strings.
    n : int, default 5
        At most so many per query, in [1, 1000]: most shared tags first, then seq.

    Raises
    ------
    OptionError
        A number out of range.
    DTypeError
        A column that is no name.

    Examples
    --------
    >>> SharedTags("tags").n
    5
    """

    column: str
    n: int = field(default=5, kw_only=True)

    def __post_init__(self) -> None:
        """Check the options."""
        column_name("column", self.column)
        object.__setattr__(self, "n", integer("n", self.n, 1, MOST_BESIDE))


Expansion: TypeAlias = Context | SharedTags


@dataclass(frozen=True, eq=False)
class Around:
    """What was found.

    Attributes
    ----------
    context : sequence of sequence
        Per query, of its first hits.
    related : sequence of sequence
        Per query.
    """

    context: Sequence[Sequence[tuple[Neighbour, ...]]]
    related: Sequence[Sequence[Related]]

    def only(self, asked: Iterable[bool]) -> Around:
        """Return what was found beside the hits of some queries."""
        pairs = zip(self.context, self.related, asked, strict=True)
        kept = [(context, found) if is_asked else ((), ()) for context, found, is_asked in pairs]
        return Around([context for context, _ in kept], [found for _, found in kept])


def read_expansion(given: object) -> tuple[Expansion, ...]:
    """Take ``expansion=``: one, several, or none."""
    if given is None:
        return ()
    parts = given if isinstance(given, tuple | list) else (given,)
    for part in parts:
        if not isinstance(part, Context | SharedTags):
            raise error(DTypeError, "expansion", "hr.Context or hr.SharedTags", repr(part))
    kinds = [type(part) for part in parts]
    if len(set(kinds)) < len(kinds):
        raise error(DTypeError, "expansion", "each kind once", kinds)
    return tuple(parts)


def expand(
    parts: Sequence[Expansion], hits: Hits, texts: Sequence[str | None], reaches: Reaches
) -> Around:
    """Look around the hits of a reply, within its scopes and snapshot."""
    from hyrecall.ask.arms.tags import related
    from hyrecall.graph.context import find_neighbours

    context: Sequence[Sequence[tuple[Neighbour, ...]]] = [() for _ in hits]
    near: Sequence[Sequence[Related]] = [[] for _ in hits]
    for part in parts:
        if isinstance(part, SharedTags):
            near = related(hits, part.column, n=part.n)
            continue
        keys = [one.keys for one in hits]
        top = [one[: part.top] for one in keys]
        reach = reaches.of(part.graph, 0, len(hits))
        context = find_neighbours(reach, top, hits._plan.scope, list(texts), keys, part.n)
    return Around(context, near)
