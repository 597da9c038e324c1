"""What a recall gives back: one table of hits with every score component."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall.ask.query_keys import NAME, keys_of
from hyrecall.base.arguments import place_in
from hyrecall.base.keywords import check_methods
from hyrecall.errors import OptionError, error
from hyrecall.hits import hit_tables, rich_tables
from hyrecall.hits.arm_texts import join_texts
from hyrecall.hits.around import Around
from hyrecall.hits.frames import pandas_of, polars_of
from hyrecall.hits.hit import Hit, QueryHits
from hyrecall.hits.reply_arrays import only_queries
from hyrecall.hits.trace import Trace
from hyrecall.recall.plan import Plan
from hyrecall.segments.facts import IndexFacts
from hyrecall.segments.segments import State, gather_column
from hyrecall.table.arrow_values import python_values
from hyrecall.table.schema import STAGE_COLUMNS

__all__ = ["Hit", "Hits", "QueryHits", "Trace"]


def _stage_array(values: npt.NDArray[Any]) -> pa.Array:
    """Return what a stage found out; NaN is null: it was not computed."""
    return pa.array(values, from_pandas=True)


@check_methods
class Hits:
    """The hits of a batch, ordered by (query, rank); ``hits[i]`` are those of query i.

    Attributes
    ----------
    trace : Trace
        How the batch was answered.
    now : datetime
        The time the call was made at, as given by ``now=`` or taken once.
    degraded : bool
        Whether an arm or a stage that was asked did not run; the reasons are in
        ``trace.degraded``.

    Notes
    -----
    Hits keep the snapshot they were read from, and those of the graphs: columns that are read later
    are those of the call, and so is what a hit explains.
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
        state: State | None,
        columns: Sequence[str],
        now: datetime,
        trace: Trace,
    ) -> None:
        """Take the native arrays; made by :meth:`hyrecall.Index.recall`."""
        self._arrays, self._plan, self._facts = arrays, plan, facts
        self._held: State | None = state  # None: the hits were unpickled
        self._query_keys: pa.Array | None = None
        self._columns = tuple(columns)
        self._gathered: dict[str, pa.Array] = {}
        self._lists: dict[tuple[str, str], list[Any]] = {}
        self._around: Around | None = None
        self.now, self.trace = now, trace

    @property
    def _state(self) -> State:
        """The snapshot of the call.

        Raises
        ------
        OptionError
            There is none: the hits were unpickled.
        """
        if self._held is None:
            wish = "hits as a recall gives them"
            got = "unpickled ones, which hold values and no index"
            raise error(OptionError, "hits", wish, got, "recall again where the index is open")
        return self._held

    @property
    def degraded(self) -> bool:
        """Whether an arm or a stage that was asked did not run."""
        return bool(self.trace.degraded)

    def __len__(self) -> int:
        """Return the number of queries."""
        return self._plan.n_queries

    @overload
    def __getitem__(self, index: int) -> QueryHits: ...
    @overload
    def __getitem__(self, index: slice) -> list[QueryHits]: ...
    def __getitem__(self, index: int | slice) -> QueryHits | list[QueryHits]:
        """Return the hits of a query, or of several."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return self._query(index)

    def _query(self, index: int) -> QueryHits:
        query = place_in(len(self), index, "query")
        offsets = self._offsets()
        return QueryHits(self, query, int(offsets[query]), int(offsets[query + 1]))

    def _offsets(self) -> npt.NDArray[np.int64]:
        return self._arrays["offsets"]

    @property
    def parts(self) -> tuple[Hits, ...]:
        """The replies it is made of: several where the queries of a batch had several recipes.

        Returns
        -------
        tuple of Hits
            Each with all queries of the batch; a query has hits in one of them at most.
        """
        return (self,)

    def part_of(self, query: int) -> Hits:
        """Return the part that holds a query's hits.

        Parameters
        ----------
        query : int
            In [0, n_queries).

        Returns
        -------
        Hits
            One of :attr:`parts`.
        """
        return self

    def only(self, asked: npt.NDArray[np.bool_]) -> Hits:
        """Return the reply to some of the queries; the others have no hits and no key in it.

        Parameters
        ----------
        asked : ndarray of bool, shape (n_queries,)
            Which.

        Returns
        -------
        Hits
            With the same queries, snapshot and trace.
        """
        hits = copy(self)
        if self._held is None:  # then what was gathered is all that there is
            kept = pa.array(np.repeat(asked, np.diff(self._arrays["offsets"])))
            hits._gathered = {name: one.filter(kept) for name, one in self._gathered.items()}
        else:
            hits._gathered = {}
        hits._arrays = only_queries(self._arrays, asked)
        hits._lists = {}
        if self._query_keys is not None:
            hits._query_keys = keys_of(self._query_keys, asked)
        if self._around is not None:
            hits._around = self._around.only(asked)
        return hits

    def __copy__(self) -> Hits:
        """Copy the hits, with the snapshot that they hold."""
        hits: Hits = object.__new__(type(self))
        vars(hits).update(vars(self))
        return hits

    def __deepcopy__(self, memo: dict[int, Any]) -> Hits:
        """Copy the hits; the snapshot is immutable, and shared."""
        return self.__copy__()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the values, without the index: what explains a hit stays with the call's own."""
        return _unpickled, (type(self), self._values())

    def _values(self) -> dict[str, Any]:
        """Return what an unpickled copy has: every row column of the hits, and no snapshot."""
        rows = {name: self.column(name) for name in self._facts.schema.row_columns}
        places = ("segment", "row")  # in the snapshot
        arrays = {name: one for name, one in self._arrays.items() if name not in places}
        return vars(self) | {
            "_arrays": arrays,
            "_facts": self._facts.plain(),
            "_gathered": rows,
            "_held": None,
            "_lists": {},
            "_plan": self._plan.plain(),
        }

    def _name_queries(self, keys: pa.Array) -> None:
        """Take the caller's key of each query, for tables and replies: one for each."""
        self._query_keys = keys

    def __iter__(self) -> Iterator[QueryHits]:
        """Return the hits of each query."""
        return (self._query(query) for query in range(len(self)))

    @property
    def n_hits(self) -> int:
        """Hits of all queries together."""
        return len(self._arrays["rank"])

    def column(self, name: str) -> pa.Array:
        """Return a row column (key, cell, attribute or stored) of every hit, in order."""
        if name not in self._facts.schema.row_columns:
            known = list(self._facts.schema.row_columns)
            raise error(OptionError, "columns", f"columns of {known}", repr(name))
        if name not in self._gathered:
            self._gathered[name] = gather_column(
                self._state.segments, self._arrays["segment"], self._arrays["row"], name
            )
        return self._gathered[name]

    def _texts(self, arm: str) -> pa.Array:
        """Return the text of a lexical arm of every hit: its columns, joined."""
        columns = self._facts.schema.text_arms[arm].columns
        return join_texts([self.column(name) for name in columns])

    def arm_scores(self, arm: str) -> pa.Array:
        """Return an arm's score of every hit, float32; null where it was not computed."""
        places = self._places(arm)
        if not places:
            return pa.nulls(self.n_hits, pa.float32())
        scores = self._arrays["arm_scores"].reshape(-1, len(self._plan.arms))
        values = scores[:, places].max(axis=1)  # a row lies in one table
        return pa.array(values, pa.float32(), mask=values == -np.inf)

    def arm_ranks(self, arm: str) -> pa.Array:
        """Return an arm's rank of every hit, int32 from 1; null outside the arm's list."""
        places = self._places(arm)
        if not places:
            return pa.nulls(self.n_hits, pa.int32())
        ranks = self._arrays["arm_ranks"].reshape(-1, len(self._plan.arms))
        values = ranks[:, places].max(axis=1)
        return pa.array(values, pa.int32(), mask=values == 0)

    @cached_property
    def _arms(self) -> tuple[str, ...]:
        return (*self._facts.arms, *self._plan.extra)

    def _places(self, arm: str) -> list[int]:
        """Return the places of an arm among those that ran: one for each table, one, or none."""
        if arm not in self._arms and arm not in self._plan.arms:
            raise error(OptionError, "arm", f"an arm of {list(self._arms)}", repr(arm))
        return self._plan.places(arm)

    def to_arrow(self) -> pa.Table:
        """Return all hits as a table.

        Returns
        -------
        pyarrow.Table
            query int32, query_key if the call named its queries, rank int32, key, the cell columns,
            score float64, and per arm ``<arm>_score`` float32 and ``<arm>_rank`` int32 (null where
            not computed or outside the arm's list), then the columns asked for; ordered by (query,
            rank).
        """
        table = self._results()
        if self._query_keys is not None:
            table = table.add_column(1, NAME, self._query_keys.take(table["query"]))
        for name in self._columns:
            if name not in table.column_names:
                table = table.append_column(name, self.column(name))
        return table

    def _results(self) -> pa.Table:
        """Return what a recall finds out of its hits."""
        offsets = self._arrays["offsets"]
        names = ["query", "rank", "key"]
        arrays: list[pa.Array] = [
            pa.array(np.arange(len(self), dtype=np.int32).repeat(offsets[1:] - offsets[:-1])),
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
        return pa.Table.from_arrays(arrays, names=names)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the table of :meth:`to_arrow` by the Arrow PyCapsule interface."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> Any:
        """Return :meth:`to_arrow` as a pandas DataFrame."""
        return pandas_of(self.to_arrow())

    def to_polars(self) -> Any:
        """Return :meth:`to_arrow` as a polars DataFrame."""
        return polars_of(self.to_arrow())

    def to_list(self) -> list[list[dict[str, Any]]]:
        """Return a list of dicts per query; values as :meth:`Hit.__getitem__` gives them."""
        rows, ends = self._dicts(), self._offsets().tolist()
        return [rows[begin:end] for begin, end in pairwise(ends)]

    def _dicts(self) -> list[dict[str, Any]]:
        """Return the hits of all queries as dicts."""
        table = self.to_arrow()
        values = zip(*map(python_values, table.columns), strict=True)
        return [dict(zip(table.column_names, row, strict=True)) for row in values]

    def plot(self, query: int = 0, *, ax: Any = None) -> Any:
        """Draw what each arm adds to the scores of one query's hits: stacked bars, best on top.

        ``ax`` is the matplotlib Axes to draw on, by default a new one; it is given back. Of a
        :class:`Max` only the arm that gives the score is drawn. MissingExtraError: no matplotlib.
        """
        from hyrecall.hits.plot import plot_hits

        return plot_hits(self.part_of(place_in(len(self), query, "query")), query, ax)

    def cached(self, kind: str, name: str) -> list[Any]:
        """Return a "row" column, or an arm's "text", "score" or "rank", as Python values."""
        if (kind, name) not in self._lists:
            read = {
                "row": self.column,
                "text": self._texts,
                "score": self.arm_scores,
                "rank": self.arm_ranks,
            }[kind]
            self._lists[kind, name] = python_values(read(name))
        return self._lists[kind, name]

    def __repr__(self) -> str:
        """Show the first hits as a table, at most 80 columns wide."""
        return "\n".join(line.text for line in hit_tables.batch_lines(self))

    def _repr_html_(self) -> str:
        """Show the first hits in a notebook."""
        return hit_tables.batch_html(self)

    def __rich__(self) -> Any:
        """Show the hits of the first queries as tables, where rich is installed."""
        return rich_tables.of_batch(self)


def _unpickled(kind: type[Hits], values: dict[str, Any]) -> Hits:
    """Make hits of what was pickled."""
    hits: Hits = object.__new__(kind)
    vars(hits).update(values)
    return hits
