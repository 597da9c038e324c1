"""Learns a recipe's weights from what one user of a store said that helped.

Only the memories that the user may see are searched, and only the user's own feedback is read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall.ask.filters import Filter
from hyrecall.ask.predicates import NotNull
from hyrecall.ask.scope import Scope
from hyrecall.base.keywords import check_keywords
from hyrecall.embed import EmbedError, NoVectors
from hyrecall.errors import OptionError, error
from hyrecall.evaluate.data import VECTOR, Dataset
from hyrecall.evaluate.learn import LEAST_QUERIES, Learnt, learn
from hyrecall.evaluate.run import Indexes
from hyrecall.evaluate.settings import Setting
from hyrecall.hits.hits import Hits
from hyrecall.index import Index

if TYPE_CHECKING:
    from hyrecall.memory import MemorySync
    from hyrecall.memory.store import Store

__all__ = ["learn_from_feedback"]

_TEXTS_AT_ONCE = 64
_SECONDS_PER_CALL = 60.0
_THREAD, _PLACE = "session_id", "occurred_at"  # of every layout of a store


@check_keywords
def learn_from_feedback(
    memory: MemorySync,
    *,
    user_id: str | None = None,
    org: str | None = None,
    workspace: str | None = None,
    features: Sequence[str] = (),
    measure: str = "nDCG@10",
    threads: int | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Learnt:
    """Learn the weights of a store's recipe from what one user said that helped.

    Parameters
    ----------
    memory : MemorySync
        Opened with the recipe to start from.
    user_id, org, workspace : str, optional
        The user and its partition. Nothing of other users is read.
    features, measure, tell
        As in :func:`learn`.
    threads : int, optional
        For the index of the user's memories.

    Returns
    -------
    Learnt
        Learnt on the queries whose text has an even hash, compared with the base on the others.

    Raises
    ------
    OptionError
        Fewer than 20 queries, or as :func:`learn`; a recipe with a graph.
    EmbedError
        The store's embedder fails.
    MissingExtraError
        The extra ``[eval]`` is not installed.

    Notes
    -----
    The user's memories are indexed once more, in this process, as the store's own index has them.
    The embedder is called for 64 queries at a time; with ``embedder=None`` words alone are learnt.
    """
    from hyrecall.memory.feedback import named_by
    from hyrecall.memory.own_index import own_index
    from hyrecall.memory.recall.audience import read_partition
    from hyrecall.memory.view import View

    store = memory._store
    recipe = store.recipe
    if recipe != recipe.without_graphs():
        raise error(OptionError, "recipe", "a recipe without a graph", recipe.name)
    view = View(store, read_partition(org, workspace, user_id))
    judgements: dict[str, dict[str, int]] = {}
    for query, cell, key in named_by(view):
        judgements.setdefault(query, {})[_name((*cell, key))] = 1
    if len(judgements) < 2 * LEAST_QUERIES:
        wish = f"at least {2 * LEAST_QUERIES} queries with a memory that helped"
        raise error(OptionError, "feedback", wish, len(judgements))
    tell(f"{len(judgements):,} queries with feedback")
    queries = list(judgements)
    vectors = _vectors(store, queries)
    index, scope = own_index(view, threads=threads)
    dataset = _dataset(queries, vectors, judgements)
    has_threads = index.count(scope=scope, filter=Filter(session_id=NotNull())) > 0
    base = Setting(
        recipe.name,
        {"recipe": recipe},
        arms=("text",) if vectors is None else ("text", "vectors"),
        analyzer=store.layout.analyzer,
        thread=_THREAD if has_threads else None,
        place=_PLACE if has_threads else None,
    )
    return learn(
        _OwnIndex(index, scope), dataset, base=base, features=features, measure=measure, tell=tell
    )


def _vectors(store: Store, texts: Sequence[str]) -> npt.NDArray[np.float32] | None:
    """Embed the queries; None: the store has no embedder."""
    if store.guard.off is not None:
        return None
    made = []
    for begin in range(0, len(texts), _TEXTS_AT_ONCE):
        part = store.guard.embed(
            texts[begin : begin + _TEXTS_AT_ONCE], budget=_SECONDS_PER_CALL, waits=True
        )
        if isinstance(part, NoVectors):
            raise EmbedError.of(part.fault, "vectors of the queries", part.detail)
        made.append(part)
    store.settle()
    return np.concatenate(made)


def _dataset(
    queries: list[str],
    vectors: npt.NDArray[np.float32] | None,
    judgements: dict[str, dict[str, int]],
) -> Dataset:
    """Return the queries as a set; its corpus is only what the judgements name."""
    names = sorted({name for grades in judgements.values() for name in grades})
    corpus = pa.table({"id": names, "text": names})
    asked = pa.table({"id": queries, "text": queries})
    if vectors is not None:
        column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
        asked = asked.append_column(VECTOR, column)
        corpus = corpus.append_column(VECTOR, pa.nulls(len(names), column.type))
    return Dataset("feedback", corpus, asked, judgements)


def _name(parts: Sequence[Any]) -> str:
    """Name a memory by its cell and id: an id may stand in several cells."""
    return json.dumps(parts)


class _OwnIndex(Indexes):
    """Asks one index for every setting, within one scope, with memories named by cell and id."""

    def __init__(self, index: Index, scope: Scope) -> None:
        self._index, self._scope = index, scope

    def get(self, setting: Setting) -> Any:
        """Return what is asked: the index has one form."""
        del setting
        return self

    def recall(self, **options: Any) -> _NamedHits:
        """Recall within the scope."""
        return _NamedHits(self._index.recall(scope=self._scope, **options), self._index)


class _NamedHits:
    """Hits whose keys name the cell too."""

    def __init__(self, hits: Hits, index: Index) -> None:
        self._hits, self._cell = hits, index.schema.cell_columns

    def to_arrow(self) -> pa.Table:
        """Return the hits as a table."""
        table = self._hits.to_arrow()
        parts = [table[name].to_pylist() for name in (*self._cell, "key")]
        names = pa.array(map(_name, zip(*parts, strict=True)), pa.string())
        return table.set_column(table.column_names.index("key"), "key", names)
