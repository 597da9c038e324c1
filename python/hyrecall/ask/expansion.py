"""Options that add documents beside the hits: neighbours in a graph, documents with shared tags."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

from hyrecall.arm.arm import SearchArm
from hyrecall.base.arguments import check_keywords, convert_field
from hyrecall.base.options import GraphLike, column_name, integer
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.stages.stage import Stage

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


# ---- Replaces graph names in arms, stages and expansions by the graphs ----

_FIELDS = ("more", "on_no_match", "shaping", "expansion")


class HasParts(Protocol):
    """A recipe, or the options of a call: each field holds one part or a sequence of them."""

    @property
    def more(self) -> object: ...
    @property
    def on_no_match(self) -> object: ...
    @property
    def shaping(self) -> object: ...
    @property
    def expansion(self) -> object: ...


def parts_of(how: HasParts) -> Iterator[object]:
    """Yield the parts that may have a graph, in the order in which they run."""
    for name in _FIELDS:
        parts = getattr(how, name)
        if parts is not None:
            yield from parts if isinstance(parts, tuple | list) else (parts,)


def names_in(how: HasParts) -> Iterator[tuple[str, object]]:
    """Yield each graph name, with the part that has it."""
    for part in parts_of(how):
        for _, graph in graphs_of(part):
            if isinstance(graph, str):
                yield graph, part


def has_graphs(how: HasParts) -> bool:
    """Return whether any part has a graph, or the name of one."""
    return any(True for part in parts_of(how) for _ in graphs_of(part))


def graphs_of(part: object) -> Iterator[tuple[str, object]]:
    """Yield each graph of a part, or the graph's name, after its label for messages."""
    if isinstance(part, SearchArm):
        yield from part._graphs
    elif isinstance(part, Stage | Context) and (graph := getattr(part, "graph", None)) is not None:
        yield f"{getattr(part, 'name', 'Context')}.graph", graph


def check_graphs(graphs: object, named: Iterable[tuple[str, object]]) -> Mapping[str, Any]:
    """Check that there is a graph for each name, and no unused graph."""
    if graphs is not None and not isinstance(graphs, Mapping):
        raise error(DTypeError, "graphs", "{name: hr.Graph}", type(graphs).__name__)
    known: Mapping[str, Any] = graphs or {}
    used = []
    for name, part in named:
        if name not in known:
            wish = f"{{{name!r}: hr.Graph}}, which {type(part).__name__} names"
            raise error(OptionError, "graphs", wish, sorted(known))
        used.append(name)
    for name in known:
        if name not in used:
            raise error(OptionError, "graphs", f"graphs that are named ({used})", repr(name))
    return known


def put_graphs(how: HasParts, graphs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that contain names of graphs, with the graphs instead of the names."""
    out = {}
    for name in _FIELDS:
        parts = getattr(how, name)
        several = parts if isinstance(parts, tuple | list) else (parts,)
        made = tuple(_with_graphs(part, graphs) for part in several)
        if any(new is not old for new, old in zip(made, several, strict=True)):
            out[name] = made
    return out


def _with_graphs(part: Any, graphs: Mapping[str, Any]) -> Any:
    if not any(isinstance(graph, str) for _, graph in graphs_of(part)):
        return part
    if isinstance(part, SearchArm):
        return part._with_graphs(graphs)
    return replace(part, graph=graphs[part.graph])
