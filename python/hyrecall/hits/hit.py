"""One query's hits, and one hit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import pyarrow as pa

from hyrecall import ask, hits
from hyrecall.base.arguments import as_int, position_in
from hyrecall.base.keywords import check_methods
from hyrecall.errors import OptionError, error
from hyrecall.hits.frames import pandas_of, polars_of
from hyrecall.hits.reply import MOST_DROPPED, Reply
from hyrecall.hits.trace import Trace

__all__ = ["Hit", "QueryHits"]


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
        offsets = reply.arrays["offsets"]
        self._begin, self._end = int(offsets[query]), int(offsets[query + 1])

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
        from hyrecall.hits import rich_tables

        return rich_tables.of_query(self._reply, self.query)


@dataclass(frozen=True, repr=False)
class Hit:
    """One document of a query's reply.

    Attributes
    ----------
    rank : int
        Place in the whole list, from 1.
    score : float
        What the list is ordered by: the fused score, or the only arm's.
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
    def score(self) -> float:
        """What the list is ordered by."""
        return float(self._reply.arrays["score"][self._at])

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
        """Return the value of a key, cell, attribute or stored column.

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
        """The best rows of its thread, itself first, at most 5: by ``group="thread"``."""
        return self._beside("threads")

    def _beside(self, name: str) -> tuple[Any, ...]:
        """Return what stands around the hit; nothing if the call did not ask for it."""
        around = self._reply.around
        if around is None:
            return ()
        return around.beside(name, self.query, self._at - self._reply.span(self.query)[0])

    def evidence(self, arm: str) -> Any:
        """Return what speaks for the document in an arm of ``arms=``; None if nothing does.

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

    def __repr__(self) -> str:
        """Show rank, key, score and components."""
        parts = [f"{arm}_score={self.arm_score(arm)!r}" for arm in self._reply.trace.arms]
        return f"Hit(rank={self.rank}, key={self.key!r}, score={self.score!r}, {', '.join(parts)})"
