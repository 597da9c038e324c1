"""The hits that a recall returns: one table with every score component."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import ask, hits
from hyrecall.base.arguments import as_int, check_methods, position_in
from hyrecall.errors import DTypeError, MissingExtraError, OptionError, error
from hyrecall.hits.reply import MOST_DROPPED, QUERY_ARRAYS, Reply, ReplyBase
from hyrecall.hits.tensors import Tensor, key_table, tensors_of, torch_tensors
from hyrecall.hits.trace import Trace

__all__ = [
    "Hit",
    "Hits",
    "QueryHits",
    "Trace",
    "pandas_of",
    "polars_of",
    "reply_of",
    "single_query",
]


# ---- Arrow tables as data frames of other libraries, which are imported when they are asked for


def pandas_of(table: pa.Table) -> Any:
    """Return an Arrow table as a pandas DataFrame."""
    try:
        import pandas  # noqa: F401 - Arrow imports it too, and says less where it is missing
    except ImportError:
        raise _missing("to_pandas", "pandas") from None
    return table.to_pandas()


def polars_of(table: pa.Table) -> Any:
    """Return an Arrow table as a polars DataFrame."""
    try:
        import polars
    except ImportError:
        raise _missing("to_polars", "polars") from None
    return polars.from_arrow(table)


def _missing(call: str, name: str) -> MissingExtraError:
    wish = f"{name} (pip install {name})"
    return error(MissingExtraError, call, wish, f"no package {name}")


# ---- One query's hits, and one hit ----


@check_methods
class QueryHits(Sequence["Hit"]):
    """The hits of one query, best first: a sequence of :class:`Hit`.

    Attributes
    ----------
    query : int
        Which query of the batch.
    """

    def __init__(self, reply: Reply, query: int) -> None:
        """Show the hits of a query; made by :class:`hyrecall.Hits`."""
        self._reply = reply
        self.query = query
        self._begin, self._end = reply.span(query)

    def __len__(self) -> int:
        """Return the number of hits."""
        return self._end - self._begin

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> list[Hit]: ...
    def __getitem__(self, index: int | slice) -> Hit | list[Hit]:
        """Return a hit, or several."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return Hit(self._reply, self.query, self._begin + position_in(len(self), index, "hit"))

    def __iter__(self) -> Iterator[Hit]:
        """Return each hit."""
        return (Hit(self._reply, self.query, at) for at in range(self._begin, self._end))

    @property
    def keys(self) -> list[Any]:
        """The hits' keys, best first."""
        return self._reply.cached("row", self._reply.facts.schema.key)[self._begin : self._end]

    @property
    def query_key(self) -> str | int | None:
        """The caller's key of the query, by ``query_keys=``; None: the call named none."""
        keys = self._reply.query_keys
        return None if keys is None else keys[self.query].as_py()

    @property
    def trace(self) -> Trace:
        """How the query was answered, as if it had been asked alone."""
        return self._reply.trace.of_query(self.query)

    @property
    def degraded(self) -> bool:
        """Whether an arm or a stage that was asked did not run; ``trace.degraded`` says why."""
        return bool(self.trace.degraded)

    @property
    def n_candidates(self) -> dict[str, int]:
        """How many documents each arm put into its list; arms of a table as ``"table.arm"``."""
        return self._reply.n_candidates(self.query)

    @property
    def total(self) -> int:
        """How many rows match, whatever ``limit``, ``depth``, floors and stages leave out.

        Rows of the scope that pass the filter and that an arm of the call matches: a text arm those
        that its query matches, a vector arm those that have a vector, an arm of ``arms=`` those
        that it listed. Without an arm all that pass. Counted when it is read, on the snapshot of
        the call; OptionError: the hits were unpickled, or are those of shards apart.
        """
        return self._reply.totals(self.query, self.query + 1)[0]

    @property
    def facets(self) -> dict[str, list[tuple[Any, int]]]:
        """What ``facets=`` asked for: by column, (value, rows) of those that :attr:`total` counts.

        Values stand most frequent first, equal counts by rising value; null and NaN are no value,
        and a row counts once for each distinct value of a list. Ranges stand in their order.
        """
        return dict(self._reply.facets_of(self.query))

    @property
    def confidence(self) -> float | None:
        """The probability that the reply holds an answer, in [0, 1]; docs/confidence.md.

        From absolute signals, where the scores compare documents only with each other: it is no
        score and changes no order. The same whatever ``limit``, ``offset``, stages and floors show
        of what was found. None: nothing to judge by, as with vectors alone of an unknown embedder.
        Computed when it is read, by a second search of the query on the snapshot of the call;
        OptionError: the hits were unpickled, are those of shards apart, or stand in the order of
        columns.

        Examples
        --------
        >>> import hyrecall as hr
        >>> table = pa.table({"id": [1, 2], "text": ["Ann drinks green tea", "rain in May"]})
        >>> index = hr.Index.build(table, hr.Schema(key="id", cell=None, text="text"))
        >>> known, unknown = index.recall(text=["who drinks green tea", "Bob's car"])
        >>> known.confidence > unknown.confidence == 0
        True
        """
        made = self._reply.judged(self.query).query
        return None if made is None else float(made.value)

    @property
    def phase(self) -> ask.Phase | None:
        """The weights that ``SessionSignals`` took; None: the stage did not run."""
        phases = self._reply.phases
        return None if phases is None else phases[self.query]

    @property
    def related(self) -> list[hits.Related]:
        """Documents beside the hits: those that ``expansion=SharedTags`` found."""
        around = self._reply.around
        return [] if around is None else list(around.related[self.query])

    def explain_dropped(self, most: int = MOST_DROPPED) -> hits.Dropped:
        """Say which documents each stage left out, and why, by running the stages again.

        Parameters
        ----------
        most : int, default 100
            How many documents are described, at least 0: those of the first stages first, each
            stage's by their place. All are counted.

        Returns
        -------
        Dropped
            A :class:`StageDrops` for the floor ``min_fused`` if there is one, for each stage of
            ``hits.trace.stages``, and for the page that ``limit`` and ``offset`` cut.

        Raises
        ------
        OptionError
            The hits were unpickled: they hold no index.

        Notes
        -----
        The same for any batch that the query was in: it runs alone, on the snapshot of the call.
        Callables of stages are not called again. Cost: a recall of the query with its whole list,
        and a cosine for each described document and document of its cluster (``Dedup``) or chosen
        document (``MMR``). A recall that nobody asks does not pay for it.

        Examples
        --------
        >>> import hyrecall as hr
        >>> table = pa.table({"id": [1, 2, 3], "text": ["tea", "tea tea", "green tea"]})
        >>> index = hr.Index.build(table, hr.Schema(key="id", cell=None, text="text"))
        >>> hits = index.recall_one(text="tea", limit=2)
        >>> print(hits.explain_dropped())
        limit: 1 of 3 dropped
          3  3: beyond the limit, score 0.0561056, the last that stayed has 0.0725714
        """
        number = as_int(most)
        if number is None or number < 0:
            raise error(OptionError, "most", "an int >= 0", repr(most))
        return self._reply.source.explain_dropped(self._reply, self.query, number)

    def _alone(self) -> Reply:
        """Return the reply to the batch with the hits of this query only."""
        return self._reply.only(np.arange(self._reply.n_queries) == self.query)

    def to_arrow(self) -> pa.Table:
        """Return the hits as a table, with the columns of :meth:`Hits.to_arrow`."""
        return self._alone().table()

    def to_pandas(self) -> Any:
        """Return :meth:`to_arrow` as a pandas DataFrame."""
        return pandas_of(self.to_arrow())

    def to_polars(self) -> Any:
        """Return :meth:`to_arrow` as a polars DataFrame."""
        return polars_of(self.to_arrow())

    def to_list(self) -> list[dict[str, Any]]:
        """Return a dict per hit; values as :meth:`Hit.__getitem__` gives them."""
        return self._alone().rows()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the hits of this query only, as :class:`Hits` are pickled."""
        return QueryHits, (self._alone(), self.query)

    def __repr__(self) -> str:
        """Show the first hits as a table, at most 80 columns wide."""
        from hyrecall.hits import hit_tables

        return "\n".join(line.text for line in hit_tables.query_lines(self._reply, self.query))

    def _repr_html_(self) -> str:
        """Show the first hits in a notebook."""
        from hyrecall.hits import hit_tables

        return hit_tables.query_html(self._reply, self.query)

    def __rich__(self) -> Any:
        """Show the hits as a table, where rich is installed."""
        from hyrecall.hits import hit_tables

        return hit_tables.of_query(self._reply, self.query)


@dataclass(frozen=True, repr=False)
class Hit:
    """One document of a query's reply.

    Attributes
    ----------
    rank : int
        Place in the whole list, from 1.
    score : float or None
        What the list is ordered by: the fused score, or the only arm's; None: columns order it.
    is_exact : bool
        Whether it comes first because it holds the query whole, by ``Recipe(exact=)``.
    key, cell, text : object
        The document's key, the tuple of its cell, and its text in the first text arm, read when
        asked: the arm's columns with a line break between them, without null and blank ones.
    bm25_score, vector_score : float or None
        Of the only lexical arm (BM25) and the only dense one (cosine); None: not computed.
    """

    _reply: Reply
    query: int
    _at: int

    @property
    def rank(self) -> int:
        """Place in the whole list, from 1."""
        return int(self._reply.arrays["rank"][self._at])

    @property
    def score(self) -> Any:
        """What the list is ordered by; None: columns order it."""
        value = float(self._reply.arrays["score"][self._at])
        return value if value == value else None  # noqa: PLR0124 - NaN

    @property
    def is_exact(self) -> bool:
        """Whether it comes first because it holds the query whole, by ``Recipe(exact=)``."""
        return self._reply.is_exact(self._at)

    @property
    def key(self) -> Any:
        """The document's key."""
        return self[self._reply.facts.schema.key]

    @property
    def cell(self) -> tuple[Any, ...]:
        """The document's cell, a value per cell column."""
        return self._reply.cell(self._at)

    @property
    def text(self) -> Any:
        """The text of the first text arm, its columns joined; read when asked."""
        schema = self._reply.facts.schema
        if not schema.first_texts:
            raise AttributeError("the index has no text arm")
        for column in schema.first_texts:
            if column not in schema.row_columns:
                raise AttributeError(f"the text column {column!r} is not stored")
        return self._reply.cached("text", self._reply.facts.text_arms[0])[self._at]

    def __getitem__(self, column: str) -> Any:
        """Return the value of a key, cell, attribute or stored column, or the vector of an arm.

        Times are those of ``datetime``; one that is not exact to the microsecond, or out of its
        range, is a ``numpy.datetime64`` (UTC) or ``numpy.timedelta64``.
        """
        return self._reply.cached("row", column)[self._at]

    def arm_score(self, arm: str) -> float | None:
        """Return the arm's score; None where it was not computed."""
        value: float | None = self._reply.cached("score", arm)[self._at]
        return value

    def arm_rank(self, arm: str) -> int | None:
        """Return the rank in the arm's list, from 1, shared by equal scores; None outside it."""
        value: int | None = self._reply.cached("rank", arm)[self._at]
        return value

    @property
    def context(self) -> tuple[hits.Neighbour, ...]:
        """Its neighbours in a graph: those that ``expansion=Context`` found."""
        return self._beside("context")

    @property
    def surrounding(self) -> tuple[hits.NearRow, ...]:
        """The rows around it in its thread, by place: those that ``surrounding=`` asked for."""
        return self._beside("near")

    @property
    def thread_rows(self) -> tuple[hits.ThreadRow, ...]:
        """The best rows of its group, itself first, at most ``per_group``: by ``group=``."""
        return self._beside("threads")

    def _beside(self, name: str) -> tuple[Any, ...]:
        """Return what was found around the hit; () if the call did not ask for it."""
        around = self._reply.around
        if around is None:
            return ()
        return around.beside(name, self.query, self._at - self._reply.span(self.query)[0])

    def evidence(self, arm: str) -> Any:
        """Return why an arm of ``arms=`` found the document; None if it did not find it.

        Of ``EdgeLexical`` the key of its best edge, of ``Regex`` the first column that matched.
        """
        source, arrays, at = self._reply.source, self._reply.arrays, self._at
        segment, row = int(arrays["segment"][at]), int(arrays["row"][at])
        found = source.evidence(arm, self.query, segment, row)
        return None if found is None or self.arm_score(arm) is None else found

    def _only(self, arms: Sequence[str], name: str) -> float | None:
        if len(arms) != 1:
            raise AttributeError(
                f"{name} needs exactly one such arm, the index has {len(arms)}; use arm_score(arm)"
            )
        return self.arm_score(arms[0])

    @property
    def bm25_score(self) -> float | None:
        """The score of the only lexical arm (BM25; >= 0 but for ``robertson``)."""
        return self._only(self._reply.facts.text_arms, "bm25_score")

    @property
    def vector_score(self) -> float | None:
        """The score of the only dense arm (cosine, in [-1, 1])."""
        return self._only(self._reply.facts.vector_arms, "vector_score")

    @property
    def confidence(self) -> float | None:
        """The probability that the hit is an answer, as :attr:`QueryHits.confidence`.

        None also for a row that fills the list.
        """
        made = self._reply.judged(self.query).hits[self._at - self._reply.span(self.query)[0]]
        return None if made is None else float(made.value)

    def explain(self) -> hits.Explanation:
        """Recompute the score from the integers and vectors it was made of.

        Returns
        -------
        Explanation
            Its ``score`` equals ``hit.score`` to the last bit.

        Raises
        ------
        OptionError
            The hits were unpickled: they hold no index.
        """
        return self._reply.source.explain(self._reply, self.query, self._at)

    def highlights(self, column: str | None = None) -> list[tuple[int, int]]:
        """Return where the words stand that the text query asks for.

        Parameters
        ----------
        column : str, optional
            A stored column of a text arm; default: the places are of :attr:`text`.

        Returns
        -------
        list of (int, int)
            ``text[start:end]`` is a marked word; in order, and those that touch are one. Empty
            where no arm of the column had a text query, as of a hit by vectors alone.

        Raises
        ------
        OptionError
            The column is of no text arm or not stored; the analyzer is a function of the caller's,
            which does not tell where its terms stand; or the hits were unpickled: they hold no
            index.

        Notes
        -----
        Marked are the words of every term that a column's arms were asked for: stems as they are
        written, of ``Phrase`` the words where the phrase is, of ``Prefix`` the whole words that
        begin so. It does not matter whether the document meets all of an ``All``.

        Examples
        --------
        >>> import hyrecall as hr
        >>> table = pa.table({"id": [1], "text": ["Teas: black tea & green tea"]})
        >>> schema = hr.Schema(key="id", cell=None, text="text")
        >>> index = hr.Index.build(table, schema, analyzer=hr.Analyzer("unicode:english"))
        >>> hit = index.recall_one(text=hr.Any(hr.Phrase("green tea"), "black"))[0]
        >>> [hit.text[start:end] for start, end in hit.highlights()]
        ['black', 'green', 'tea']
        >>> hit.snippet(width=20)
        '…<mark>black</mark> tea &amp; <mark>green</mark>…'
        """
        from hyrecall.hits import marks

        return marks.spans_of(marks.marked_text(self._reply, self.query, self._at, column)[1])

    def snippet(
        self,
        width: int = 200,
        before: str = "<mark>",
        after: str = "</mark>",
        column: str | None = None,
        *,
        escape: bool = True,
    ) -> str:
        """Return the part of the text that has most of the words of :meth:`highlights`.

        Parameters
        ----------
        width : int, default 200
            How many characters of the text to show at most, at least 1.
        before, after : str
            What to put around each marked word.
        column : str, optional
            As in :meth:`highlights`.
        escape : bool, default True
            Whether the text is escaped for HTML; ``before`` and ``after`` are not. Switch it off
            for a terminal.

        Returns
        -------
        str
            With an ellipsis where the text is cut: between words, or, if a word does not fit,
            between characters with their marks. "" where the text is null.

        Raises
        ------
        OptionError, DTypeError
            As :meth:`highlights`, or a wrong argument.

        Notes
        -----
        The part is the one with most distinct terms of the query, then with most marked words,
        then the earliest; without any it is the beginning.
        """
        from hyrecall.hits import marks

        width = marks.check_snippet(width, before, after, escape)
        text, found = marks.marked_text(self._reply, self.query, self._at, column)
        return marks.snippet(text, found, width, before, after, escape=escape)

    def __repr__(self) -> str:
        """Show rank, key, score and components."""
        parts = [f"{arm}_score={self.arm_score(arm)!r}" for arm in self._reply.trace.arms]
        return f"Hit(rank={self.rank}, key={self.key!r}, score={self.score!r}, {', '.join(parts)})"


# ---- What a recall gives back: one table of hits with every score component ----


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

    def __init__(self, reply: ReplyBase) -> None:
        """Show a reply; made by :meth:`hyrecall.Index.recall`."""
        self._reply = reply
        self.now = reply.now
        self._parts: tuple[Hits, ...] = ()  # made when they are asked for

    @property
    def trace(self) -> Trace:
        """How the batch was answered."""
        return self._reply.trace

    @property
    def degraded(self) -> bool:
        """Whether an arm or a stage that was asked did not run."""
        return bool(self.trace.degraded)

    def __len__(self) -> int:
        """Return the number of queries."""
        return self._reply.n_queries

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
        query = position_in(self._reply.n_queries, index, "query")
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
        if np.shape(asked) != (len(self),) or np.asarray(asked).dtype != bool:
            raise error(DTypeError, "asked", "a bool for each query", repr(asked))
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

    @property
    def total(self) -> list[int]:
        """How many rows match each query, as :attr:`QueryHits.total` says."""
        parts = self._reply.parts
        counts = [one.totals(0, len(self)) for one in parts]
        if len(parts) == 1:
            return counts[0]
        of = [parts.index(self._reply.part_of(query)) for query in range(len(self))]
        return [counts[part][query] for query, part in enumerate(of)]

    @property
    def confidence(self) -> list[float | None]:
        """The confidence of the reply to each query; see :attr:`QueryHits.confidence`."""
        parts = {id(one): one.all_judged() for one in self._reply.parts}
        judged = [parts[id(self._reply.part_of(at))][at].query for at in range(len(self))]
        return [None if one is None else float(one.value) for one in judged]

    @property
    def facets(self) -> list[dict[str, list[tuple[Any, int]]]]:
        """What ``facets=`` asked for, of each query; see :attr:`QueryHits.facets`."""
        return [self._query(query).facets for query in range(len(self))]

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
            score float64 (null where columns order the rows), and per arm ``<arm>_score`` float32
            and ``<arm>_rank`` int32 (null where not computed or outside the arm's list), then the
            columns asked for; ordered by (query, rank).
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
        from hyrecall.hits.fused_score import plot_hits

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
        from hyrecall.hits import hit_tables

        return hit_tables.of_batch(self._reply)


@overload
def reply_of(hits: QueryHits) -> Reply: ...
@overload
def reply_of(hits: Hits) -> ReplyBase: ...
def reply_of(hits: Hits | QueryHits) -> ReplyBase:
    """Return the reply that hits show, for the package: its state holds documents of every cell."""
    return hits._reply


# ---- Takes the hits of one query out of a batch whose other queries are those of other callers

_PLACES = ("segment", "row")  # in the snapshot


def single_query(hits: QueryHits) -> QueryHits:
    """Return the hits of a query as values, as if it had been asked alone; like unpickled ones."""
    # Nothing says how many other queries there were, which number this one had, or what they ask.
    n, at = hits._reply.n_queries, hits.query
    reply = hits._alone()
    arrays = {name: one for name, one in reply.arrays.items() if name not in _PLACES}
    for name in QUERY_ARRAYS:
        if name in arrays:
            rows = arrays[name].reshape(n, -1) if name != "offsets" else None
            arrays[name] = np.array([0, reply.n_hits]) if rows is None else rows[at]
    alone = replace(
        reply,
        facts=reply.facts.plain(),
        trace=reply.trace.of_query(at),
        query_keys=None,
        arrays=arrays,
        phases=None if reply.phases is None else [reply.phases[at]],
        facets=None if reply.facets is None else (reply.facets[at],),
        kept_source=None,
        _gathered=reply.values(),
        _values={},
    )
    return QueryHits(alone, 0)
