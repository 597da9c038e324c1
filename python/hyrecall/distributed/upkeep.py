"""The methods of a sharded index besides recalls: health checks, new versions and closing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Self, TypeVar

from hyrecall.base.keywords import check_methods
from hyrecall.distributed.asking import ShardThreads
from hyrecall.distributed.replicated import ReplicatedShard
from hyrecall.distributed.shards import LocalShard, OpenShard, Shard, closed
from hyrecall.errors import CorruptIndexError, OptionError, ShardLostError, error
from hyrecall.segments.facts import IndexFacts

if TYPE_CHECKING:
    from hyrecall.table.schema import Schema

T_ = TypeVar("T_")

__all__ = ["ShardHealth", "ShardUpkeep", "n_replicas"]


class ShardHealth(NamedTuple):
    """The number of replicas of a shard, and how many of them do not answer."""

    n_replicas: int
    n_lost: int

    @property
    def is_lost(self) -> bool:
        """Whether no replica answers."""
        return self.n_lost == self.n_replicas


def n_replicas(shard: Shard) -> int:
    """Return the number of replicas of a shard."""
    return len(shard.replicas) if isinstance(shard, ReplicatedShard) else 1


@check_methods
class ShardUpkeep:
    """The methods of a sharded index besides recalls."""

    _shards: tuple[Shard, ...]
    _pool: ShardThreads | None
    _checks: ShardThreads | None
    _is_closed: bool

    @property
    def _facts(self) -> IndexFacts:
        for one in self._shards:
            if isinstance(one, OpenShard):
                return one.facts
        raise error(OptionError, "shards", "one that this package opened", "others")

    @property
    def schema(self) -> Schema:
        """The schema of all shards."""
        return self._facts.schema

    @property
    def is_stale(self) -> bool:
        """Whether a shard in this process holds another version than its folder.

        Shards in other processes, and replicas, load new versions by themselves.
        """
        return any(isinstance(one, LocalShard) and one.index.is_stale for one in self._shards)

    def reload(self) -> None:
        """Load the versions that the folders of the shards hold now.

        The replicas of a shard load the new version one after another, while the others answer. The
        new version answers once at least half of the replicas have it; all have it when this
        returns. Recalls go on meanwhile, and a reply never mixes two versions of a shard. Shards
        that ``shards.json`` places keep the version that it named: open their folder again for a
        newer one.

        Raises
        ------
        ShardLostError
            No replica of a shard answers.
        CorruptIndexError, IndexNotFoundError
            As :meth:`hyrecall.Index.open`; the shard stays as it was.
        OptionError, WriterBusyError
            As :meth:`hyrecall.Index.reload`, for shards in this process.
        """
        self._of_all(self._pool, lambda one: one.reload() if isinstance(one, OpenShard) else None)

    def health(self) -> Mapping[str, ShardHealth]:
        """Return how many replicas each shard has, and how many of them do not answer.

        A replica that is answering a question counts as one that answers.

        Returns
        -------
        mapping of str to ShardHealth
            By the names of shards in ``degraded``: ``(n_replicas, n_lost)``, and ``is_lost``.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import hyrecall as hr
        >>> from hyrecall.distributed import ShardedIndex
        >>> table = pa.table({"id": ["a"], "text": ["tea"]})
        >>> index = ShardedIndex.build([table], hr.Schema(key="id", cell=None, text="text"))
        >>> index.health()
        {'shard 0': ShardHealth(n_replicas=1, n_lost=0)}
        """

        def ask(one: Shard) -> ShardHealth:
            is_lost = False
            try:
                if isinstance(one, OpenShard):
                    one.check()
            except (ShardLostError, CorruptIndexError):
                is_lost = True
            n = n_replicas(one)
            return ShardHealth(n, one.n_lost if isinstance(one, ReplicatedShard) else int(is_lost))

        names = [one.name for one in self._shards]
        return dict(zip(names, self._of_all(self._checks, ask), strict=True))

    def _of_all(self, pool: ShardThreads | None, call: Callable[[Shard], T_]) -> list[T_]:
        """Return the results of a call for each shard; with a pool, calls run in parallel."""
        if self._is_closed:
            raise closed()
        run = map if pool is None else pool.map
        return list(run(call, self._shards))

    def close(self) -> None:
        """Close every shard. Closing twice is allowed; hits stay usable."""
        self._is_closed = True
        for one in self._shards:
            one.close()
        for pool in (self._pool, self._checks):
            if pool is not None:
                pool.close()

    def __enter__(self) -> Self:
        """Use the index in a with statement."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Close the index."""
        self.close()

    def __len__(self) -> int:
        """Return the number of shards."""
        return len(self._shards)

    def __repr__(self) -> str:
        """Show the names of the shards."""
        return f"<{type(self).__name__}: {', '.join(one.name for one in self._shards)}>"
