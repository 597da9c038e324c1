"""One query's hits, and one hit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import pyarrow as pa

from hyrecall.base.arguments import place_in
from hyrecall.base.keywords import check_methods
from hyrecall.hits import hit_tables, rich_tables
from hyrecall.hits.explanation import Explanation
from hyrecall.recall.explain import explain

if TYPE_CHECKING:
    from hyrecall.ask.shaping import Phase
    from hyrecall.hits.around import Neighbour, Related
    from hyrecall.hits.hits import Hits

__all__ = ["Hit", "QueryHits"]


@check_methods
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
        return Hit(self._hits, self.query, self._begin + place_in(len(self), index, "hit"))

    def __iter__(self) -> Iterator[Hit]:
        """Return each hit."""
        return (Hit(self._hits, self.query, at) for at in range(self._begin, self._end))

    @property
    def keys(self) -> list[Any]:
        """The hits' keys, best first."""
        return self._hits.cached("row", self._hits._facts.schema.key)[self._begin : self._end]

    @property
    def query_key(self) -> str | int | None:
        """The caller's key of the query, by ``query_keys=``; None: the call named none."""
        keys = self._hits._query_keys
        return None if keys is None else keys[self.query].as_py()

    @property
    def n_candidates(self) -> dict[str, int]:
        """How many documents each arm put into its list; arms of a table as ``"table.arm"``."""
        arms = self._hits._plan.arms
        sizes = self._hits._arrays["list_sizes"].reshape(-1, len(arms))[self.query]
        return dict(zip(arms, sizes.tolist(), strict=True))

    @property
    def phase(self) -> Phase | None:
        """The weights that ``SessionSignals`` took; None: the stage did not run."""
        return self._hits._plan.phase_of(self.query)

    @property
    def related(self) -> list[Related]:
        """Documents beside the hits: those that ``expansion=SharedTags`` found."""
        around = self._hits._around
        return [] if around is None else list(around.related[self.query])

    def _alone(self) -> Hits:
        """Return the reply to the batch with the hits of this query only."""
        return self._hits.only(np.arange(len(self._hits)) == self.query)

    def to_arrow(self) -> pa.Table:
        """Return the hits as a table, with the columns of :meth:`Hits.to_arrow`."""
        return self._alone().to_arrow()

    def to_pandas(self) -> Any:
        """Return :meth:`to_arrow` as a pandas DataFrame."""
        return self._alone().to_pandas()

    def to_polars(self) -> Any:
        """Return :meth:`to_arrow` as a polars DataFrame."""
        return self._alone().to_polars()

    def to_list(self) -> list[dict[str, Any]]:
        """Return a dict per hit; values as :meth:`Hit.__getitem__` gives them."""
        return self._alone()._dicts()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the hits of this query only, as :class:`Hits` are pickled."""
        return QueryHits, (self._alone(), self.query, 0, len(self))

    def __repr__(self) -> str:
        """Show the first hits as a table, at most 80 columns wide."""
        return "\n".join(line.text for line in hit_tables.query_lines(self))

    def _repr_html_(self) -> str:
        """Show the first hits in a notebook."""
        return hit_tables.query_html(self)

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
    is_exact : bool
        Whether it comes first because it holds the query whole, by ``Recipe(exact=True)``.
    key, cell, text : object
        The document's key, the tuple of its cell, and its text in the first text arm, read when
        asked: the arm's columns with a line break between them, without null and blank ones.
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
    def is_exact(self) -> bool:
        """Whether it comes first because it holds the query whole, by ``Recipe(exact=True)``."""
        arrays = self._hits._arrays
        return "exact" in arrays and bool(arrays["exact"][self._at])

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
        """The text of the first text arm, its columns joined; read when asked."""
        schema = self._hits._facts.schema
        if not schema.first_texts:
            raise AttributeError("the index has no text arm")
        for column in schema.first_texts:
            if column not in schema.row_columns:
                raise AttributeError(f"the text column {column!r} is not stored")
        return self._hits.cached("text", self._hits._facts.text_arms[0])[self._at]

    def __getitem__(self, column: str) -> Any:
        """Return the value of a key, cell, attribute or stored column.

        Times are those of ``datetime``; one that is not exact to the microsecond, or out of its
        range, is a ``numpy.datetime64`` (UTC) or ``numpy.timedelta64``.
        """
        return self._hits.cached("row", column)[self._at]

    def arm_score(self, arm: str) -> float | None:
        """Return the arm's score; None where it was not computed."""
        value: float | None = self._hits.cached("score", arm)[self._at]
        return value

    def arm_rank(self, arm: str) -> int | None:
        """Return the arm's rank, from 1; None outside its list."""
        value: int | None = self._hits.cached("rank", arm)[self._at]
        return value

    @property
    def context(self) -> tuple[Neighbour, ...]:
        """Its neighbours in a graph: those that ``expansion=Context`` found."""
        around = self._hits._around
        place = self._at - int(self._hits._offsets()[self.query])
        shown = () if around is None else around.context[self.query]
        return shown[place] if place < len(shown) else ()

    def evidence(self, arm: str) -> Any:
        """Return what speaks for the document in an arm of ``arms=``; None if nothing does.

        Of ``EdgeLexical`` the key of its best edge, of ``Regex`` the first column that matched.
        """
        _ = self._hits._state  # unpickled hits do not know
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
        return self._only(self._hits._facts.text_arms, "bm25_score")

    @property
    def vector_score(self) -> float | None:
        """The score of the only dense arm (cosine, in [-1, 1])."""
        return self._only(self._hits._facts.vector_arms, "vector_score")

    def explain(self) -> Explanation:
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
        return explain(self._hits, self)

    def __repr__(self) -> str:
        """Show rank, key, score and components."""
        parts = [f"{arm}={self.arm_score(arm)!r}" for arm in self._hits.trace.arms]
        return f"Hit(rank={self.rank}, key={self.key!r}, score={self.score!r}, {', '.join(parts)})"
