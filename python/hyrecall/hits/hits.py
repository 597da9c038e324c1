"""What a recall gives back: one table of hits with every score component."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall.base.arguments import position_in
from hyrecall.base.keywords import check_methods
from hyrecall.hits.frames import pandas_of, polars_of
from hyrecall.hits.hit import Hit, QueryHits
from hyrecall.hits.reply import BatchReply, Reply
from hyrecall.hits.tensors import Tensor, key_table, tensors_of, torch_tensors
from hyrecall.hits.trace import Trace

__all__ = ["Hit", "Hits", "QueryHits", "Trace", "reply_of"]


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

    def __init__(self, reply: BatchReply) -> None:
        """Show a reply; made by :meth:`hyrecall.Index.recall`."""
        self._reply = reply
        self.now, self.trace = reply.now, reply.trace
        self._parts: tuple[Hits, ...] = ()  # made when they are asked for

    @property
    def degraded(self) -> bool:
        """Whether an arm or a stage that was asked did not run."""
        return bool(self.trace.degraded)

    def __len__(self) -> int:
        """Return the number of queries."""
        return self.trace.n_queries

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
        query = position_in(self.trace.n_queries, index, "query")
        return QueryHits(self._reply.part_of(query), query)

    @property
    def parts(self) -> tuple[Hits, ...]:
        """The replies it is made of: several where the queries of a batch had several recipes.

        Returns
        -------
        tuple of Hits
            Each with all queries of the batch; a query has hits in one of them at most.
        """
        parts = self._reply.parts
        if len(parts) == 1:
            return (self,)
        if not self._parts:
            self._parts = tuple(Hits(part) for part in parts)
        return self._parts

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
        return self.parts[self._reply.parts.index(self._reply.part_of(query))]

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
        return Hits(self._reply.only(asked))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the values, without the index: what explains a hit stays with the call's own.

        A copy, deep or not, has the same reply, with the snapshot that it holds.
        """
        return Hits, (self._reply,)

    def __iter__(self) -> Iterator[QueryHits]:
        """Return the hits of each query."""
        return (self._query(query) for query in range(len(self)))

    @property
    def n_hits(self) -> int:
        """Hits of all queries together."""
        return self._reply.n_hits

    def column(self, name: str) -> pa.Array:
        """Return a row column (key, cell, attribute or stored) of every hit, in order."""
        return self._reply.column(name)

    def arm_scores(self, arm: str) -> pa.Array:
        """Return an arm's score of every hit, float32; null where it was not computed."""
        return self._reply.arm_scores(arm)

    def arm_ranks(self, arm: str) -> pa.Array:
        """Return an arm's rank of every hit, int32 from 1; null outside the arm's list."""
        return self._reply.arm_ranks(arm)

    def cached(self, kind: str, name: str) -> list[Any]:
        """Return a "row" column, or an arm's "text", "score" or "rank", as Python values."""
        return self._reply.cached(kind, name)

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
        return self._reply.table()

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
        rows, ends = self._reply.rows(), self._reply.offsets.tolist()
        return [rows[begin:end] for begin, end in pairwise(ends)]

    def tensors(self, *, device: str | None = None) -> dict[str, Tensor]:
        """Return the numbers of all hits as arrays that other libraries import by DLPack.

        Parameters
        ----------
        device : {"cpu", "cuda:N"}, optional
            Where they lie; default: the device of the index.

        Returns
        -------
        dict of str to array
            Each has one axis, ``__dlpack__`` and ``__dlpack_device__``; those on the CPU are NumPy
            arrays. ``offsets`` int64 of shape (n_queries + 1,): query q has the hits offsets[q] to
            offsets[q + 1] of the others. ``key`` int64: the key where keys are integers, else the
            row of the hit's document in :attr:`key_table`. ``score`` float64, ``rank`` int32 from
            1. Of each arm ``<arm>_score`` float32, ``<arm>_valid`` bool (False, and a score of NaN:
            not computed) and ``<arm>_rank`` int32 (0: outside the arm's list).

        Raises
        ------
        OptionError
            A device that is no name of one; a stream of ``__dlpack__`` that is none.
        DeviceUnavailableError, DeviceMemoryError
            There is no such device, or no room on it. Also where this process was forked from one
            that had used CUDA.

        Notes
        -----
        Each call makes new arrays, which the caller may write to, and which live as long as any of
        them does, whatever becomes of hits and index. Those of a device lie in one block. Its copy
        from the host is only begun here: the stream that ``__dlpack__`` is given waits for it, and
        no thread of the host does. Costs about 40 bytes a hit and an arm, and 0.1 ms to allocate.

        Examples
        --------
        >>> import hyrecall as hr
        >>> table = pa.table({"id": [7, 8], "text": ["green tea", "tea leaf tea"]})
        >>> index = hr.Index.build(table, hr.Schema(key="id", cell=None, text="text"))
        >>> tensors = index.recall(text=["tea", "coffee"]).tensors()
        >>> np.from_dlpack(tensors["key"]).tolist(), tensors["offsets"].tolist()
        ([8, 7], [0, 2, 2])
        """
        return tensors_of(self._reply, device)

    def to_torch(self, *, device: str | None = None) -> dict[str, Any]:
        """Return :meth:`tensors` as torch tensors, which share their memory.

        Parameters
        ----------
        device : {"cpu", "cuda:N"}, optional
            Where they lie; default: the device of the index.

        Returns
        -------
        dict of str to torch.Tensor

        Raises
        ------
        MissingExtraError
            torch is not installed.
        OptionError, DeviceUnavailableError, DeviceMemoryError
            As :meth:`tensors`.
        """
        return torch_tensors(self._reply, device)

    @property
    def key_table(self) -> pa.Table:
        """The documents that were found, each once: ``key`` and the cell columns, by first hit."""
        return key_table(self._reply)

    def plot(self, query: int = 0, *, ax: Any = None) -> Any:
        """Draw what each arm adds to the scores of one query's hits: stacked bars, best on top.

        ``ax`` is the matplotlib Axes to draw on, by default a new one; it is given back. Of a
        :class:`Max` only the arm that gives the score is drawn. MissingExtraError: no matplotlib.
        """
        from hyrecall.hits.plot import plot_hits

        at = position_in(len(self), query, "query")
        return plot_hits(self._reply.part_of(at), at, ax)

    def __repr__(self) -> str:
        """Show the first hits as a table, at most 80 columns wide."""
        from hyrecall.hits import hit_tables

        return "\n".join(line.text for line in hit_tables.batch_lines(self._reply))

    def _repr_html_(self) -> str:
        """Show the first hits in a notebook."""
        from hyrecall.hits import hit_tables

        return hit_tables.batch_html(self._reply)

    def __rich__(self) -> Any:
        """Show the hits of the first queries as tables, where rich is installed."""
        from hyrecall.hits import rich_tables

        return rich_tables.of_batch(self._reply)


@overload
def reply_of(hits: QueryHits) -> Reply: ...
@overload
def reply_of(hits: Hits) -> BatchReply: ...
def reply_of(hits: Hits | QueryHits) -> BatchReply:
    """Return the reply that hits show, for the package: its state holds documents of every cell."""
    return hits._reply
