"""An index that is served: read-only, the newest version of its folder, in joined batches."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from hyrecall import recipes
from hyrecall.ask.filters import Filter
from hyrecall.ask.joinable import is_joinable
from hyrecall.ask.recipe import Recipe
from hyrecall.ask.scope import Scope
from hyrecall.base.joining import Joiner
from hyrecall.base.scans import off_thread
from hyrecall.distributed import ShardedIndex
from hyrecall.distributed.generations import n_replicas
from hyrecall.distributed.newer_versions import NewerVersions
from hyrecall.errors import OptionError, ShardLostError, error
from hyrecall.hits.hits import Hits
from hyrecall.index import Index
from hyrecall.serve.errors import naming_query
from hyrecall.serve.limits import check_size
from hyrecall.serve.metrics import index_numbers
from hyrecall.serve.replies import encode_within, index_data

__all__ = ["AnyIndex", "IndexQuery", "ServedIndex"]

AnyIndex: TypeAlias = Index | ShardedIndex

_log = logging.getLogger("hyrecall.serve")


@dataclass(frozen=True)
class IndexQuery:
    """One query, read and checked; what must be equal to join others is in ``shared``."""

    text: dict[str, str]
    vector: dict[str, list[float]]
    scope: Scope | None
    filter: Filter | None
    shared: tuple[tuple[str, Any], ...]
    columns: tuple[str, ...] = ()
    explain: bool = False
    began: float = field(default_factory=time.perf_counter, compare=False)

    @property
    def key(self) -> object:
        """What queries of one batch have in common: options, and which arms are asked.

        A recipe whose trace tells of a whole batch is answered alone.
        """
        recipe = dict(self.shared).get("recipe")
        if recipe is not None and not is_joinable(recipe):
            return object()
        return (*self.shared, tuple(sorted(self.text)), tuple(sorted(self.vector)))


class ServedIndex:
    """Answers queries of an index."""

    def __init__(self, index: AnyIndex, *, join: bool, max_joined: int, max_reply: int) -> None:
        """Answer nothing yet."""
        self.index, self._max_reply = index, max_reply
        # Replicas of shards answer several batches at a time.
        at_once = 1
        if isinstance(index, ShardedIndex):
            at_once = max(map(n_replicas, index.shards))
        self._pool = ThreadPoolExecutor(at_once + 3, thread_name_prefix="hyrecall-serve")
        self._joiner: Joiner[IndexQuery, bytes] = Joiner(
            self._answer, self._pool, max_joined=max_joined if join else 1, at_once=at_once,
            fails_all=lambda fault: isinstance(fault, ShardLostError),
        )  # fmt: skip
        self._versions = NewerVersions(index, self._pool, _log)

    async def recall(self, query: IndexQuery) -> bytes:
        """Return the reply to one query as JSON."""
        await self._versions.look_again()
        return await self._joiner.call(query, query.key)

    async def recall_batch(self, queries: Sequence[IndexQuery], *, most_bytes: int) -> list[bytes]:
        """Return the replies to a batch of a caller's own, as if each were alone."""
        await self._versions.look_again()
        n_bytes = 0

        async def reply(at: int, one: IndexQuery) -> bytes:
            nonlocal n_bytes
            with naming_query(at):
                made = await self._joiner.call(one, one.key)
            n_bytes += len(made)
            check_size("reply", n_bytes, most_bytes, "bytes")
            return made

        return list(await asyncio.gather(*map(reply, range(len(queries)), queries)))

    async def run(self, options: dict[str, Any]) -> Hits:
        """Answer a batch with arguments of :meth:`hyrecall.Index.recall`."""
        await self._versions.look_again()
        return await off_thread(self._pool, lambda: self.index.recall(**options))

    def counts(self) -> dict[str, float]:
        """Return how many queries and batches there were."""
        return {"queries": self._joiner.n_calls, "batches": self._joiner.n_batches}

    def lost_shards(self) -> list[str]:
        """Return the names of shards of which no replica answers; blocks. An index has none."""
        if not isinstance(self.index, ShardedIndex):
            return []
        health = self.index.health()
        lost = [name for name, one in health.items() if one.is_lost]
        if len(lost) == len(health):
            raise error(ShardLostError, "shards", "an answer of at least one", "none")
        return lost

    def unembedded(self) -> str:
        """Say which arms lack the embedder that the files name; empty: none."""
        own = getattr(self.index, "_embedders", None)  # shards have none
        had = () if own is None else own.embedded
        return "; ".join(
            f"texts are not embedded for {arm}, whose vectors are of {one.model!r}"
            for arm, one in self.index._facts.embedded.items()
            if arm not in had
        )

    def numbers(self) -> dict[str, float]:
        """Return the numbers of the index: those of its stats, or those of its shards; blocks."""
        if not isinstance(self.index, ShardedIndex):
            return index_numbers(self.index.stats())
        health = self.index.health().values()
        return {
            "n_shards": float(len(health)),
            "n_lost_shards": float(sum(one.is_lost for one in health)),
            "n_replicas": float(sum(one.n_replicas for one in health)),
            "n_lost_replicas": float(sum(one.n_lost for one in health)),
        }

    def close(self) -> None:
        """End the threads; the index is its owner's to close."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _answer(self, queries: Sequence[IndexQuery]) -> list[bytes]:
        """Answer a batch of queries with one key."""
        first = queries[0]
        hits = self.index.recall(
            text={arm: [one.text[arm] for one in queries] for arm in first.text} or None,
            vectors={arm: [one.vector[arm] for one in queries] for arm in first.vector} or None,
            scope=None if first.scope is None else [one.scope for one in queries],
            filter=[one.filter for one in queries],
            **dict(first.shared),
        )
        return [
            encode_within(
                index_data(hits, hits[at], one.columns, explain=one.explain, began=one.began),
                self._max_reply,
            )
            for at, one in enumerate(queries)
        ]


def recipe_named(name: str) -> Recipe:
    """Return a recipe by its name."""
    if name not in recipes.__all__:
        raise error(OptionError, "recipe", f"one of {', '.join(recipes.__all__)}", "another")
    found: Recipe = getattr(recipes, name)
    return found
