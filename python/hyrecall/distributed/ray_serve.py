"""Serves an index with Ray Serve (extra ``[ray]``, and ``ray[serve]``).

Queries that arrive while others are searched become the next batch, each with its own scope. Every
reply has the same bits as without a batch (law L4).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from hyrecall.ask.recipe import is_joinable
from hyrecall.ask.request import batch_of_one
from hyrecall.ask.scope import check_no_list
from hyrecall.base.arguments import check_keywords, same_options
from hyrecall.base.joining import Joiner
from hyrecall.distributed.batch_recall import encode
from hyrecall.distributed.sharded import NewerVersions, ShardedIndex
from hyrecall.errors import HyrecallError, MissingExtraError, OptionError, ShardLostError, error
from hyrecall.hits.hits import Hits, QueryHits, single_query
from hyrecall.index import Index

if TYPE_CHECKING:
    from ray.serve import Application

__all__ = ["IndexReplica", "recall_app"]

_log = logging.getLogger("hyrecall.distributed")

_OF_A_QUERY = ("text", "vector", "scope", "filter")
_JOINED = frozenset(
    ("limit", "offset", "depth", "fusion", "min_score", "min_fused", "bm25", "normalize", "recipe",
     "group", "columns")
)  # fmt: skip
"""Options that the queries of a batch may share; a query with any other option runs alone."""


@check_keywords
class IndexReplica:
    """An index in a replica of a Ray Serve deployment; :func:`recall_app` deploys it.

    It loads newer versions of its folder while it answers, as ``hyrecall serve`` does.

    Parameters
    ----------
    open_index : callable
        Returns the :class:`hyrecall.Index` or :class:`ShardedIndex`; called in the replica.
    max_joined : int, default 64
        Largest number of queries in a batch.

    Examples
    --------
    >>> import asyncio
    >>> import pyarrow as pa
    >>> import hyrecall as hr
    >>> table = pa.table({"id": ["a", "b"], "user": ["ann", "bob"], "text": ["tea", "hot tea"]})
    >>> schema = hr.Schema(key="id", cell="user", text="text")
    >>> replica = IndexReplica(lambda: hr.Index.build(table, schema))
    >>> asyncio.run(replica.recall_one(text="tea", scope="bob")).keys
    ['b']
    """

    def __init__(
        self, open_index: Callable[[], Index | ShardedIndex], max_joined: int = 64
    ) -> None:
        """Open the index."""
        self._index = open_index()
        self._pool = ThreadPoolExecutor(2, "hyrecall-ray-serve")
        self._joiner: Joiner[dict[str, Any], QueryHits] = Joiner(
            self._answer, self._pool, max_joined=max_joined,
            fails_all=lambda fault: isinstance(fault, ShardLostError),
        )  # fmt: skip
        self._versions = NewerVersions(self._index, self._pool, _log)

    @same_options(Index.recall_one)
    async def recall_one(self, **options: Any) -> QueryHits:
        """Answer one query as :meth:`hyrecall.Index.recall_one` does, in a batch with others.

        The hits are plain values: ``hit.text`` works only if its columns are in ``columns``, and
        ``explain()`` is refused.
        """
        check_no_list(options.get("scope"))
        await self._versions.look_again()
        return await self._joiner.call(options, _key(options))

    @same_options(Index.recall)
    async def recall(self, **options: Any) -> Hits:
        """Answer the caller's batch as :meth:`hyrecall.Index.recall` does."""
        await self._versions.look_again()
        return await self._index.arecall(**options)

    def counts(self) -> dict[str, int]:
        """Return the number of single queries and the number of batches that answered them."""
        return {"queries": self._joiner.n_calls, "batches": self._joiner.n_batches}

    def _answer(self, queries: Sequence[dict[str, Any]]) -> list[QueryHits]:
        """Answer queries with equal keys as a batch."""
        if len(queries) == 1:
            return [self._index.recall_one(**queries[0])]
        first = queries[0]
        given = {name: value for name, value in first.items() if name not in _OF_A_QUERY}
        given["text"] = _together([one.get("text") for one in queries])
        given["vectors"] = _together([one.get("vector") for one in queries])
        given["filter"] = [one.get("filter") for one in queries]
        if first.get("scope") is not None:
            given["scope"] = [one["scope"] for one in queries]
        hits = self._index.recall(**given)
        return [single_query(hits[at]) for at in range(len(queries))]


def _key(options: Mapping[str, Any]) -> object:
    """Return a key that is equal for queries of one batch; a new object: answer it alone."""
    shared = {name: value for name, value in options.items() if name not in _OF_A_QUERY}
    recipe = shared.get("recipe")
    if not _JOINED.issuperset(shared) or (recipe is not None and not is_joinable(recipe)):
        return object()
    try:
        # As JSON: 1, 1.0 and True are equal in Python, but one of them may be refused.
        plain = json.dumps({name: encode(name, shared[name]) for name in sorted(shared)})
    except (HyrecallError, TypeError, ValueError):
        return object()
    arms = (_form(options.get("text")), _form(options.get("vector")))
    return plain, arms, options.get("scope") is None


def _form(given: Any) -> object:
    """Return the arms for which a query has a text or a vector."""
    return tuple(sorted(given)) if isinstance(given, Mapping) else given is not None


def _together(given: Sequence[Any]) -> Any:
    """Return texts or vectors of single queries, all of one form, joined to those of a batch."""
    batches = [batch_of_one(one) for one in given]
    first = batches[0]
    if isinstance(first, Mapping):
        return {arm: [one[arm][0] for one in batches] for arm in first}
    return None if first is None else [one[0] for one in batches]


@check_keywords
def recall_app(
    open_index: Callable[[], Index | ShardedIndex],
    *,
    max_joined: int = 64,
    deployment: Mapping[str, Any] | None = None,
) -> Application:
    """Make a Ray Serve application of an index, for ``ray.serve.run``.

    The handle that ``ray.serve.run`` returns has ``recall_one`` and ``recall``, with the options of
    :class:`hyrecall.Index`. Each names its scope.

    Parameters
    ----------
    open_index : callable
        Returns the index: ``lambda: ShardedIndex.open(paths)``, for instance. It is called in each
        replica, where the paths must be readable.
    max_joined : int, default 64
        Largest number of single queries in a batch.
    deployment : mapping, optional
        Options of ``ray.serve.deployment``, such as ``num_replicas`` and ``ray_actor_options``.

    Returns
    -------
    ray.serve.Application

    Examples
    --------
    >>> from functools import partial
    >>> from ray import serve  # doctest: +SKIP
    >>> app = recall_app(partial(Index.open, "corpus.index"))  # doctest: +SKIP
    >>> handle = serve.run(app)  # doctest: +SKIP
    >>> handle.recall_one.remote(text="tea", scope="ann").result().keys  # doctest: +SKIP
    ['a']
    """
    if max_joined < 1:
        raise error(OptionError, "max_joined", ">= 1", max_joined)
    try:
        from ray import serve
    except ImportError as fault:
        wish = "Ray Serve (pip install 'hyrecall[ray]' 'ray[serve]')"
        raise error(MissingExtraError, "recall_app", wish, "none") from fault
    # By default Ray Serve gives a replica only 5 queries at a time; others could not be joined.
    how = {"max_ongoing_requests": 4 * max_joined, **(deployment or {})}
    made: Application = serve.deployment(**how)(IndexReplica).bind(open_index, max_joined)
    return made
