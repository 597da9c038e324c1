"""The tags of documents as a graph, and the documents that share tags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hyrecall import _core
from hyrecall.ask.arms.batch import Asked, Batch, Candidates, plain_texts, read_arm_name
from hyrecall.ask.shaping.checks import integer
from hyrecall.base.arguments import one_of
from hyrecall.base.keywords import check_keywords
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.segments.segments import gather_column
from hyrecall.text.analyzer import Analyzer

if TYPE_CHECKING:
    from hyrecall.hits.hits import Hits
    from hyrecall.segments.facts import IndexFacts

__all__ = ["Related", "Tags", "related"]

_PRESETS = ("unicode", "word", "unicode61", "porter")
MOST_HOPS = 5


@check_keywords
@dataclass(frozen=True)
class Tags:
    """Documents by the tags that a query names, and by the tags near those.

    A tag is named when one of its tokens is a token of the query. Tags of one document are
    neighbours. A document scores ``base x 0.5^hops`` by its nearest tag, where base rises from 0.6
    to 0.9 with the number of documents of the largest tag named (docs/scoring.md). Tags, counts and
    neighbours are those of the query's scope; a filter narrows what is listed.

    Parameters
    ----------
    column : str
        An attribute column of strings or lists of strings.
    name : str, default "tags"
        The arm's name.
    depth : int, default 1
        Hops from a named tag, in [0, 5].
    partial : bool, default False
        Tokens also match where one contains the other and the shorter has three letters or more.
    analyzer : {"unicode", "word", "unicode61", "porter"}, default "unicode"
        How query and tags become tokens.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import hyrecall as hr
    >>> tags = [["tea", "kettle"], ["kettle"], ["milk"]]
    >>> table = pa.table({"id": ["a", "b", "c"], "text": ["x", "y", "z"], "tags": tags})
    >>> schema = hr.Schema(key="id", cell=None, text="text", attributes="tags")
    >>> index = hr.Index.build(table, schema)
    >>> found = index.recall(text={"tags": ["more tea"]}, arms=hr.arms.Tags("tags"))
    >>> [(hit.key, round(hit.score, 3)) for hit in found[0]]
    [('a', 0.6), ('b', 0.3)]
    """

    column: str
    name: str = field(default="tags", kw_only=True)
    depth: int = field(default=1, kw_only=True)
    partial: bool = field(default=False, kw_only=True)
    analyzer: str = field(default="unicode", kw_only=True)

    def __post_init__(self) -> None:
        """Check the options."""
        read_arm_name(self.name)
        object.__setattr__(self, "depth", integer("depth", self.depth, 0, MOST_HOPS))
        if not isinstance(self.partial, bool):
            raise error(OptionError, "partial", "a bool", repr(self.partial))
        one_of("analyzer", self.analyzer, _PRESETS)

    def read(self, facts: IndexFacts, texts: Sequence[object]) -> Asked:
        """Check the column, and the queries: plain texts."""
        self._attribute(facts)
        return Asked(plain_texts(self.name, texts))

    def candidates(self, batch: Batch, asked: Asked) -> Candidates:
        """Find the documents near each query's tags."""
        return Candidates(
            *batch.audience.tags(
                self._attribute(batch.facts),
                Analyzer(self.analyzer).native,
                [
                    None if text is None else text.encode("utf-8", "surrogatepass")
                    for text in asked.entries
                ],
                self.depth,
                self.partial,
                batch.depth,
            )
        )

    def _attribute(self, facts: IndexFacts) -> int:
        return tag_attribute(f"{self.name}.column", self.column, facts)


@dataclass(frozen=True)
class Related:
    """A document that shares tags with the results.

    Attributes
    ----------
    key, cell : object, tuple
        Of the document.
    shared : int
        How many of the results' tags it has.
    values : dict of str to object
        The columns asked for.
    """

    key: Any
    cell: tuple[Any, ...]
    shared: int
    values: dict[str, Any]


@check_keywords
def related(
    hits: Hits, column: str, *, n: int = 5, columns: Sequence[str] = ()
) -> list[list[Related]]:
    """Follow the tags of the results one step, to other documents that each query may see.

    Parameters
    ----------
    hits : Hits
        The results; their scopes, filters and snapshot hold here too.
    column : str
        An attribute column of strings or lists of strings.
    n : int, default 5
        At most so many per query, in [1, 1000].
    columns : sequence of str, default ()
        Row columns to give with each.

    Returns
    -------
    list of list of Related
        Per query documents that are none of its results: most shared tags first, then seq.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import hyrecall as hr
    >>> tags = [["tea", "kettle"], ["kettle"], ["milk"]]
    >>> table = pa.table({"id": ["a", "b", "c"], "text": ["x", "y", "z"], "tags": tags})
    >>> schema = hr.Schema(key="id", cell=None, text="text", attributes="tags")
    >>> found = hr.Index.build(table, schema).recall(text=["x"])
    >>> [one.key for one in related(found, "tags")[0]]
    ['b']
    """
    if len(hits.parts) > 1:
        given = {id(part): related(part, column, n=n, columns=columns) for part in hits.parts}
        return [given[id(hits.part_of(query))][query] for query in range(len(hits))]
    facts, state = hits._facts, hits._state
    attribute = tag_attribute("column", column, facts)
    n = integer("n", n, 1, 1000)
    named = [facts.schema.key, *facts.schema.cell_columns, *columns]
    for name in columns:
        if name not in facts.schema.row_columns:
            known = list(facts.schema.row_columns)
            raise error(OptionError, "columns", f"columns of {known}", repr(name))
    arrays = hits._arrays
    audience = _core.arms.Audience(state.snapshot, hits._plan.request)
    offsets, segment, row, shared = audience.related(
        attribute, arrays["offsets"].astype(np.int64), arrays["segment"], arrays["row"], n
    )
    values = {
        name: gather_column(state.segments, segment, row, name).to_pylist()
        for name in dict.fromkeys(named)
    }
    made = [
        Related(
            values[facts.schema.key][at],
            tuple(values[name][at] for name in facts.schema.cell_columns),
            int(shared[at]),
            {name: values[name][at] for name in columns},
        )
        for at in range(len(row))
    ]
    return [made[offsets[q] : offsets[q + 1]] for q in range(len(hits))]


def tag_attribute(argument: str, column: str, facts: IndexFacts) -> int:
    """Return the number of an attribute column of strings or lists of strings."""
    known = list(facts.schema.attributes)
    if column not in known:
        raise error(OptionError, argument, f"an attribute column of {known}", repr(column))
    kind = facts.row_types[column]
    types = pa.types
    inner = kind.value_type if types.is_list(kind) or types.is_large_list(kind) else kind
    if not (types.is_string(inner) or types.is_large_string(inner)):
        raise error(DTypeError, argument, "a column of strings or lists of strings", kind)
    return known.index(column)
