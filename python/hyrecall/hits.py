"""What a recall gives back: one table of hits with every score component."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import rich_tables
from hyrecall.arguments import place_in
from hyrecall.arrow_values import python_values
from hyrecall.errors import OptionError, error
from hyrecall.explain import Explanation, explain
from hyrecall.request import IndexFacts, Plan
from hyrecall.schema import STAGE_COLUMNS
from hyrecall.segments import State, gather
from hyrecall.trace import Trace

__all__ = ["Hit", "Hits", "QueryHits", "Trace"]


def _stage_array(values: npt.NDArray[Any]) -> pa.Array:
    """Give what a stage found out; NaN is null: it was not computed."""
    return pa.array(values, from_pandas=True)


class Hits:
    """The hits of a batch, ordered by (query, rank); ``hits[i]`` are those of query i.

    Attributes
    ----------
    trace : Trace
        How the batch was answered.
    now : datetime
        The time the call was made at, as given by ``now=`` or taken once.
    degraded : bool
        Whether an arm that was asked did not run; the reasons are in ``trace.degraded``.

    Notes
    -----
    Hits keep the snapshot they were read from: columns that are read later are those of the call.
    They have length, items, slices and iteration as a sequence has, but are none by name: polars
    would take a ``Sequence`` item by item and not see the table.

    Examples
    --------
    >>> import hyrecall as hr
    >>> table = pa.table({"id": [7, 8], "text": ["green tea", "tea leaf tea"]})
    >>> index = hr.Index.build(table, hr.Schema(key="id", cell=None, text="text"))
    >>> hits = index.recall(text=["tea", "coffee"])
    >>> [[hit.key for hit in one] for one in hits]
    [[8, 7], []]
    >>> hits[0][0].explain().score == hits[0][0].score
    True
    """

    def __init__(
        self,
        arrays: dict[str, npt.NDArray[Any]],
        *,
        plan: Plan,
        facts: IndexFacts,
        state: State,
        columns: Sequence[str],
        now: datetime,
        trace: Trace,
    ) -> None:
        """Take the native arrays; made by :meth:`hyrecall.Index.recall`."""
        self._arrays, self._plan, self._facts, self._state = arrays, plan, facts, state
        self._columns = tuple(columns)
        self._gathered: dict[str, pa.Array] = {}
        self._lists: dict[tuple[str, str], list[Any]] = {}
        self.now, self.trace = now, trace

    @property
    def degraded(self) -> bool:
        """Whether an arm that was asked did not run."""
        return bool(self.trace.degraded)

    def __len__(self) -> int:
        """Give the number of queries."""
        return self._plan.n_queries

    @overload
    def __getitem__(self, index: int) -> QueryHits: ...
    @overload
    def __getitem__(self, index: slice) -> list[QueryHits]: ...
    def __getitem__(self, index: int | slice) -> QueryHits | list[QueryHits]:
        """Give the hits of a query, or of several."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        query = place_in(len(self), index, "query")
        offsets = self._arrays["offsets"]
        return QueryHits(self, query, int(offsets[query]), int(offsets[query + 1]))

    def __iter__(self) -> Iterator[QueryHits]:
        """Give the hits of each query."""
        return (self[query] for query in range(len(self)))

    @property
    def n_hits(self) -> int:
        """Hits of all queries together."""
        return len(self._arrays["rank"])

    def column(self, name: str) -> pa.Array:
        """Give a row column (key, cell, attribute or stored) of every hit, in order."""
        if name not in self._facts.schema.row_columns:
            known = list(self._facts.schema.row_columns)
            raise error(OptionError, "columns", f"columns of {known}", repr(name))
        if name not in self._gathered:
            table = gather(
                self._state.segments, self._arrays["segment"], self._arrays["row"], [name]
            )
            empty = pa.chunked_array([], self._facts.row_types[name])
            column = table.column(0) if table.num_columns else empty
            self._gathered[name] = (
                column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
            )
        return self._gathered[name]

    def arm_scores(self, arm: str) -> pa.Array:
        """Give an arm's score of every hit, float32; null where it was not computed."""
        at = self._arm(arm)
        if at is None:
            return pa.nulls(self.n_hits, pa.float32())
        values = self._arrays["arm_scores"].reshape(-1, len(self._plan.arms))[:, at]
        return pa.array(values, pa.float32(), mask=np.isneginf(values))

    def arm_ranks(self, arm: str) -> pa.Array:
        """Give an arm's rank of every hit, int32 from 1; null outside the arm's list."""
        at = self._arm(arm)
        if at is None:
            return pa.nulls(self.n_hits, pa.int32())
        values = self._arrays["arm_ranks"].reshape(-1, len(self._plan.arms))[:, at]
        return pa.array(values, pa.int32(), mask=values == 0)

    @property
    def _arms(self) -> tuple[str, ...]:
        return (*self._facts.arms, *self._plan.extra)

    def _arm(self, arm: str) -> int | None:
        if arm not in self._arms:
            raise error(OptionError, "arm", f"an arm of {list(self._arms)}", repr(arm))
        return self._plan.arms.index(arm) if arm in self._plan.arms else None

    def to_arrow(self) -> pa.Table:
        """Give all hits as a table.

        Returns
        -------
        pyarrow.Table
            query int32, rank int32, key, the cell columns, score float64, and per arm
            ``<arm>_score`` float32 and ``<arm>_rank`` int32 (null where not computed or outside the
            arm's list), then the columns asked for; ordered by (query, rank).
        """
        counts = np.diff(self._arrays["offsets"])
        names = ["query", "rank", "key"]
        arrays: list[pa.Array] = [
            pa.array(np.repeat(np.arange(len(self), dtype=np.int32), counts)),
            pa.array(self._arrays["rank"]),
            self.column(self._facts.schema.key),
        ]
        for name in self._facts.schema.cell_columns:
            names.append(name)
            arrays.append(self.column(name))
        names.append("score")
        arrays.append(pa.array(self._arrays["score"]))
        for arm in self._arms:
            names += [f"{arm}_score", f"{arm}_rank"]
            arrays += [self.arm_scores(arm), self.arm_ranks(arm)]
        if "from_fill" in self._arrays:
            names.append("origin")
            arrays.append(pa.array(np.where(self._arrays["from_fill"], "fill", "hit")))
        for name in STAGE_COLUMNS:
            if name in self._arrays:
                names.append(name)
                arrays.append(_stage_array(self._arrays[name]))
        for name in self._columns:
            if name not in names:
                names.append(name)
                arrays.append(self.column(name))
        return pa.table(dict(zip(names, arrays, strict=True)))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the table of :meth:`to_arrow` by the Arrow PyCapsule interface."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> Any:
        """Give :meth:`to_arrow` as a pandas DataFrame."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """Give :meth:`to_arrow` as a polars DataFrame."""
        import polars

        return polars.from_arrow(self.to_arrow())

    def to_list(self) -> list[list[dict[str, Any]]]:
        """Give a list of dicts per query; values as :meth:`Hit.__getitem__` gives them."""
        table = self.to_arrow()
        values = zip(*map(python_values, table.columns), strict=True)
        rows = [dict(zip(table.column_names, row, strict=True)) for row in values]
        offsets = self._arrays["offsets"]
        return [rows[offsets[q] : offsets[q + 1]] for q in range(len(self))]

    def plot(self, query: int = 0, *, ax: Any = None) -> Any:
        """Draw what each arm adds to the scores of one query's hits: stacked bars, best on top.

        ``ax`` is the matplotlib Axes to draw on, by default a new one; it is given back. Of a
        :class:`Max` only the arm that gives the score is drawn. MissingExtraError: no matplotlib.
        """
        from hyrecall.plot import plot_hits

        return plot_hits(self, query, ax)

    def cached(self, kind: str, name: str) -> list[Any]:
        """Give a "row" column, or an arm's "score" or "rank", as Python values, converted once."""
        if (kind, name) not in self._lists:
            read = {"row": self.column, "score": self.arm_scores, "rank": self.arm_ranks}[kind]
            self._lists[kind, name] = python_values(read(name))
        return self._lists[kind, name]

    def __repr__(self) -> str:
        """Show the first hits of the first queries."""
        arms = ", ".join(self.trace.arms)
        lines = [f"<Hits: {len(self)} queries, {self.n_hits} hits, arms {arms}>"]
        lines += [f"[{q}] {self[q]!r}" for q in range(min(len(self), 3))]
        return "\n".join(lines + (["..."] if len(self) > 3 else []))

    def __rich__(self) -> Any:
        """Show the hits of the first queries as tables, where rich is installed."""
        return rich_tables.of_batch(self)


class QueryHits(Sequence["Hit"]):
    """The hits of one query, best first: a sequence of :class:`Hit`.

    Attributes
    ----------
    query : int
        Which query of the batch.
    """

    def __init__(self, hits: Hits, query: int, begin: int, end: int) -> None:
        """Take the rows [begin, end) of the batch's hits."""
        self._hits = hits
        self.query = query
        self._begin = begin
        self._end = end

    def __len__(self) -> int:
        """Give the number of hits."""
        return self._end - self._begin

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> list[Hit]: ...
    def __getitem__(self, index: int | slice) -> Hit | list[Hit]:
        """Give a hit, or several."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return Hit(self._hits, self.query, self._begin + place_in(len(self), index, "hit"))

    def __iter__(self) -> Iterator[Hit]:
        """Give each hit."""
        return (Hit(self._hits, self.query, at) for at in range(self._begin, self._end))

    @property
    def keys(self) -> list[Any]:
        """The hits' keys, best first."""
        return self._hits.cached("row", self._hits._facts.schema.key)[self._begin : self._end]

    def __repr__(self) -> str:
        """Show the hits, a line each."""
        return "\n".join(repr(hit) for hit in self[:10]) or "no hits"

    def __rich__(self) -> Any:
        """Show the hits as a table, where rich is installed."""
        return rich_tables.of_query(self)


@dataclass(frozen=True, repr=False)
class Hit:
    """One document of a query's reply.

    Attributes
    ----------
    rank : int
        Place in the whole list, from 1.
    score : float
        What the list is ordered by: the fused score, or the only arm's.
    key, cell, text : object
        The document's key, the tuple of its cell, and its first text column, read when asked.
    bm25_score, vector_score : float or None
        Of the only lexical arm (BM25) and the only dense one (cosine); None: not computed.
    """

    _hits: Hits
    query: int
    _at: int

    @property
    def rank(self) -> int:
        """Place in the whole list, from 1."""
        return int(self._hits._arrays["rank"][self._at])

    @property
    def score(self) -> float:
        """What the list is ordered by."""
        return float(self._hits._arrays["score"][self._at])

    @property
    def key(self) -> Any:
        """The document's key."""
        return self[self._hits._facts.schema.key]

    @property
    def cell(self) -> tuple[Any, ...]:
        """The document's cell, a value per cell column."""
        return tuple(self[name] for name in self._hits._facts.schema.cell_columns)

    @property
    def text(self) -> Any:
        """The first text column, read when asked."""
        columns = self._hits._facts.schema.text_columns
        if not columns:
            raise AttributeError("the index has no text arm")
        if columns[0] not in self._hits._facts.schema.row_columns:
            raise AttributeError(f"the text column {columns[0]!r} is not stored")
        return self[columns[0]]

    def __getitem__(self, column: str) -> Any:
        """Give the value of a key, cell, attribute or stored column.

        Times are those of ``datetime``; one that is not exact to the microsecond, or out of its
        range, is a ``numpy.datetime64`` (UTC) or ``numpy.timedelta64``.
        """
        return self._hits.cached("row", column)[self._at]

    def arm_score(self, arm: str) -> float | None:
        """Give the arm's score; None where it was not computed."""
        value: float | None = self._hits.cached("score", arm)[self._at]
        return value

    def arm_rank(self, arm: str) -> int | None:
        """Give the arm's rank, from 1; None outside its list."""
        value: int | None = self._hits.cached("rank", arm)[self._at]
        return value

    def evidence(self, arm: str) -> Any:
        """Give what speaks for the document in an arm of ``arms=``; None if nothing does.

        Of ``EdgeLexical`` the key of its best edge, of ``Regex`` the first column that matched.
        """
        found = self._hits._plan.listed.get(arm)
        if found is None or self.arm_score(arm) is None:
            return None
        arrays = self._hits._arrays
        at = self._at
        return found.evidence_of(self.query, int(arrays["segment"][at]), int(arrays["row"][at]))

    def _only(self, arms: Sequence[str], name: str) -> float | None:
        if len(arms) != 1:
            raise AttributeError(
                f"{name} needs exactly one such arm, the index has {len(arms)}; use arm_score(arm)"
            )
        return self.arm_score(arms[0])

    @property
    def bm25_score(self) -> float | None:
        """The score of the only lexical arm (BM25; >= 0 but for ``robertson``)."""
        return self._only(tuple(self._hits._facts.schema.text_arms), "bm25_score")

    @property
    def vector_score(self) -> float | None:
        """The score of the only dense arm (cosine, in [-1, 1])."""
        return self._only(tuple(self._hits._facts.schema.vector_arms), "vector_score")

    def explain(self) -> Explanation:
        """Recompute the score from the integers and vectors it was made of.

        Returns
        -------
        Explanation
            Its ``score`` equals ``hit.score`` to the last bit.
        """
        return explain(self._hits, self)

    def __repr__(self) -> str:
        """Show rank, key, score and components."""
        parts = [f"{arm}={self.arm_score(arm)!r}" for arm in self._hits.trace.arms]
        return f"Hit(rank={self.rank}, key={self.key!r}, score={self.score!r}, {', '.join(parts)})"
