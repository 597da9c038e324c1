"""How an index is asked: a batch, or one query, now or off the event loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hyrecall.ask.arms import Arm
from hyrecall.ask.expansion import Expansion
from hyrecall.ask.filter_expression import FilterLike
from hyrecall.ask.queries import TextQuery
from hyrecall.ask.query_keys import read_query_keys
from hyrecall.ask.recipe import Recipe
from hyrecall.ask.scope import check_no_list, scope_entries
from hyrecall.ask.scoring import Above, Fusion
from hyrecall.ask.session import Session
from hyrecall.ask.shaping import Stage
from hyrecall.base.keywords import check_keywords, same_arguments
from hyrecall.base.workers import off_loop
from hyrecall.hits.hit import QueryHits
from hyrecall.hits.hits import Hits
from hyrecall.recall.batch import batch_of_one, run_recall
from hyrecall.recall.plan import Floors, Options, Texts
from hyrecall.recall.recipe_recall import recall_by_recipe
from hyrecall.segments.facts import IndexFacts
from hyrecall.segments.segments import State
from hyrecall.segments.selecting import count_where, read_columns, table_of_keys
from hyrecall.text.bm25 import BM25

if TYPE_CHECKING:
    from hyrecall.graph.graph import Graph

__all__ = ["Asking"]


@check_keywords
class Asking:
    """The reading side of :class:`hyrecall.Index`."""

    _facts: IndexFacts
    _device: str
    _state: State  # what a reader sees, at the moment it asks

    def recall(
        self,
        *,
        text: Texts = None,
        vectors: object = None,
        scope: object = None,
        filter: FilterLike | list[FilterLike | None] | None = None,  # noqa: A002
        limit: int = 10,
        offset: int = 0,
        depth: int = 100,
        fusion: Fusion | None = None,
        min_score: Floors = None,
        min_fused: float | Above | None = None,
        bm25: BM25 | Mapping[str, BM25] | None = None,
        normalize: bool = False,
        arms: Sequence[Arm] | Arm = (),
        candidates: Mapping[str, Sequence[Any]] | None = None,
        shaping: Sequence[Stage] | Stage = (),
        session: Session | list[Session | None] | None = None,
        expansion: Sequence[Expansion] | Expansion = (),
        graphs: Mapping[str, Graph] | None = None,
        recipe: Recipe | list[Recipe] | None = None,
        columns: Sequence[str] = (),
        query_keys: Sequence[str] | Sequence[int] | None = None,
        now: datetime | None = None,
    ) -> Hits:
        """Answer a batch of queries, each within its own scope.

        Parameters
        ----------
        text : sequence or mapping of str to sequence, optional
            A str, typed query or None per query, for every text arm, or ``{arm: ...}``.
        vectors : array or mapping of str to array, shape (n_queries, dim), optional
            NumPy, torch (CPU or CUDA), DLPack, Arrow, or a list with None for a missing one.
        scope : cell or Scope, or list, array or series of those
            What each query may see: a list or column has one entry per query, anything else holds
            for all. With several cell columns the column is of structs, a field for each. A null
            entry is refused. There is no default; an index built with ``cell=None`` takes none.
        filter : Filter or pyarrow.compute.Expression, or list of those or None, optional
            Narrows the reply; statistics stay those of the scope. A list has one per query.
        limit, offset, depth : int, default 10, 0, 100
            Which part of the list to give, and how many documents each arm hands on (100 stands for
            the recipe's, if there is one); with several arms, limit + offset <= depth.
        fusion : RRF or WeightedSum or Max or DBSF, optional
            How two or more arms are joined. Default: as ``recipes.default`` does, by
            ``WeightedSum(balance=0.85)``, with its ``BM25(k1=0.75, b=0.25)`` for text arms whose
            constants neither this call nor the index names. One arm alone is not joined.
        min_score, min_fused : float or Above, or (the first) mapping of str to those, optional
            Least score, inclusive, of an arm in its unit and of the fusion before ``normalize``.
        bm25 : BM25 or mapping of str to BM25, optional
            In place of the constants of the index or of the default ``fusion``.
        normalize : bool, default False
            Divide by the best score possible (with one arm, by the list's best): scores in [0, 1],
            the order unchanged.
        arms, candidates : arm of hyrecall.ask.arms or sequence of them; mapping of str to sequence
            More ways to retrieve, which a list in ``text`` goes to as well; what each
            :class:`hyrecall.arms.Listed` lists, per query.
        shaping : sequence of stages, default ()
            What happens to the whole fused list before it is cut, such as :class:`hyrecall.MMR`.
        session : Session or list of Session or None, optional
            What each conversation met before, for :class:`hyrecall.SessionSignals`.
        expansion : Context or SharedTags or both, default ()
            What to show beside the hits.
        graphs : mapping of str to Graph, optional
            Those that arms, stages and expansion name.
        recipe : Recipe or list of Recipe, optional
            Arms, fusion, floors, bm25, normalize, shaping and expansion as plain data; see
            ``hyrecall.recipes``. A list has one entry per query.
        columns : sequence of str, default ()
            Row columns that ``to_arrow()`` adds.
        query_keys : sequence of str or of int, optional
            The caller's own key of each query, also as an array or series: ``to_arrow()`` has them
            as ``query_key`` beside ``query``, and ``hits[i].query_key`` is one.
        now : datetime, optional
            The time of the call, echoed in ``hits.now``; naive is UTC.

        Returns
        -------
        Hits
            Per query at most ``limit``, by score descending, then seq ascending.

        Raises
        ------
        ScopeError, OptionError, ShapeError, DTypeError
            The argument is named; no scope is a ScopeError, a filter that the attribute columns
            cannot answer an OptionError.
        DeviceMemoryError
            A single query does not fit beside the index on its device; the next call works.

        Notes
        -----
        Exact: every arm's list equals a full sort. Reads the vectors of the rows in scope once a
        block of 16 queries, and each query's posting ranges. Formulas, sources: docs/scoring.md.
        """
        scope = scope_entries(self._facts.cell_types, scope)
        options = Options(
            text=text, vectors=vectors, scope=scope, filter=filter, limit=limit, offset=offset,
            depth=depth, fusion=fusion, min_score=min_score, min_fused=min_fused, bm25=bm25,
            normalize=normalize, arms=arms, candidates=candidates, shaping=shaping,
            session=session, expansion=expansion, graphs=graphs,
        )  # fmt: skip
        if query_keys is None:
            return self._answer(options, recipe, columns, now)
        named = read_columns(self._facts, columns)
        keys = read_query_keys(query_keys, (*self._facts.schema.cell_columns, *named))
        hits = self._answer(options._replace(n_keys=len(keys)), recipe, named, now)
        hits._name_queries(keys)
        return hits

    def _answer(
        self, options: Options, recipe: object, columns: Sequence[str], now: datetime | None
    ) -> Hits:
        facts, state, device = self._facts, self._state, self._device
        if recipe is None:
            return run_recall(facts, state, device, options, columns=columns, now=now)
        return recall_by_recipe(facts, state, device, options, recipe, columns=columns, now=now)

    def recall_one(
        self,
        *,
        text: TextQuery | Mapping[str, TextQuery | None] | None = None,
        vector: object = None,
        scope: object = None,
        filter: FilterLike | None = None,  # noqa: A002
        limit: int = 10,
        offset: int = 0,
        depth: int = 100,
        fusion: Fusion | None = None,
        min_score: Floors = None,
        min_fused: float | Above | None = None,
        bm25: BM25 | Mapping[str, BM25] | None = None,
        normalize: bool = False,
        arms: Sequence[Arm] | Arm = (),
        candidates: Mapping[str, Any] | None = None,
        shaping: Sequence[Stage] | Stage = (),
        session: Session | None = None,
        expansion: Sequence[Expansion] | Expansion = (),
        graphs: Mapping[str, Graph] | None = None,
        recipe: Recipe | None = None,
        columns: Sequence[str] = (),
        now: datetime | None = None,
    ) -> QueryHits:
        """Answer one query.

        Parameters
        ----------
        text : str or typed query or mapping of str to those, optional
        vector : array or mapping of str to array, shape (dim,), optional
        scope : cell or Scope, optional
            One scope, never a list.
        candidates : mapping of str to object, optional
            What each :class:`hyrecall.arms.Listed` lists for the query.
        filter, limit, offset, depth, fusion, min_score, min_fused, bm25, normalize, arms, shaping
            As in :meth:`recall`, errors too.
        session, expansion, graphs, recipe, columns, now
            As in :meth:`recall`, errors too.
        """
        check_no_list(scope)
        # Candidates of another type are refused where they are read.
        lists = batch_of_one(candidates) if isinstance(candidates, Mapping) else candidates
        options = Options(
            text=batch_of_one(text), vectors=batch_of_one(vector), scope=scope, filter=filter,
            limit=limit, offset=offset, depth=depth, fusion=fusion, min_score=min_score,
            min_fused=min_fused, bm25=bm25, normalize=normalize, arms=arms, candidates=lists,
            shaping=shaping, session=session, expansion=expansion, graphs=graphs,
        )  # fmt: skip
        return self._answer(options, recipe, columns, now)[0]

    def get(
        self, keys: Sequence[object], *, scope: object = None, columns: Sequence[str] = ()
    ) -> pa.Table:
        """Return the rows of some keys, as far as their scope holds them.

        Parameters
        ----------
        keys : sequence of str or int
            A key that its scope does not hold has no row, whether or not another cell has it.
        scope
            As in :meth:`recall`, errors too; a list has one entry per key.
        columns : sequence of str, default ()
            Row columns to return beside them: attribute and stored ones.

        Returns
        -------
        pyarrow.Table
            ``key``, the cell columns, then the columns asked for; a row per document in the order
            of the keys. A key that is asked twice comes twice, and one that several cells of its
            scope hold has a row for each, by insertion number.

        Raises
        ------
        ScopeError, OptionError, ShapeError, DTypeError, KeyConflictError
            The argument is named; no scope is a ScopeError.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import hyrecall as hr
        >>> rows = {"id": [1, 2], "user": ["ann", "bob"], "text": ["hot tea", "coffee"]}
        >>> index = hr.Index.build(pa.table(rows), hr.Schema(key="id", cell="user", text="text"))
        >>> index.get([2, 1], scope="ann", columns=["text"]).to_pylist()
        [{'key': 1, 'user': 'ann', 'text': 'hot tea'}]
        """
        return table_of_keys(self._facts, self._state, keys, scope, columns)

    def count(self, *, scope: object = None, filter: FilterLike | None = None) -> int:  # noqa: A002
        """Return how many documents a scope holds, or how many of them pass a filter.

        Parameters
        ----------
        scope
            One scope, as in :meth:`recall`; never a list.
        filter : Filter or pyarrow.compute.Expression, optional

        Returns
        -------
        int
            Live documents. One that several queries may see counts once.

        Raises
        ------
        ScopeError, OptionError, DTypeError
            The argument is named; no scope is a ScopeError.

        Notes
        -----
        Reads a bit per row in scope, and the columns that the filter names.
        """
        return count_where(self._facts, self._state, scope, filter)

    @same_arguments(recall)
    async def arecall(self, **options: Any) -> Hits:
        """Answer as :meth:`recall` does, off the event loop."""
        return await off_loop(self.recall, options)

    @same_arguments(recall_one)
    async def arecall_one(self, **options: Any) -> QueryHits:
        """Answer as :meth:`recall_one` does, off the event loop."""
        return await off_loop(self.recall_one, options)
