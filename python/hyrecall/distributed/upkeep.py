"""The methods of a sharded index besides recalls: health checks, new versions and closing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Self

from hyrecall.base.keywords import check_methods
from hyrecall.distributed.generations import Generations, n_replicas
from hyrecall.distributed.replicated import ReplicatedShard
from hyrecall.distributed.shards import LocalShard, OpenShard, Shard
from hyrecall.errors import CorruptIndexError, ShardLostError
from hyrecall.segments.facts import IndexFacts

if TYPE_CHECKING:
    from hyrecall.table.schema import Schema

__all__ = ["ShardHealth", "ShardUpkeep"]


class ShardHealth(NamedTuple):
    """The number of replicas of a shard, and how many of them do not answer."""

    n_replicas: int
    n_lost: int

    @property
    def is_lost(self) -> bool:
        """Whether no replica answers."""
        return self.n_lost == self.n_replicas


@check_methods
class ShardUpkeep:
    """The methods of a sharded index besides recalls."""

    _generations: Generations

    @property
    def shards(self) -> tuple[Shard, ...]:
        """The shards; those in this process have their :class:`hyrecall.Index` as ``index``.

        A :meth:`reload` may replace them.
        """
        return self._generations.current.shards

    @property
    def _facts(self) -> IndexFacts:
        return self._generations.current.facts

    @property
    def schema(self) -> Schema:
        """The schema of all shards."""
        return self._facts.schema

    @property
    def is_stale(self) -> bool:
        """Whether there is a newer version that only :meth:`reload` loads.

        For a folder that :func:`build_shards` wrote: whether ``shards.json`` names another
        generation than the open one, or is gone. For saved indexes: whether a shard in this process
        holds another version than its folder. Shards in other processes, and replicas, load new
        versions of saved indexes by themselves.
        """
        if self._generations.current.placed is not None:
            return self._generations.is_stale
        return any(isinstance(one, LocalShard) and one.index.is_stale for one in self.shards)

    def reload(self) -> None:
        """Load the versions that the folders of the shards hold now.

        The replicas of a shard load the new version one after another, while the others answer. The
        new version answers once at least half of the running replicas have it; all of them have it
        when this returns. Recalls go on meanwhile, and a reply never mixes two versions of a shard.

        For a folder that :func:`build_shards` wrote, this reads ``shards.json`` again. If a
        rebalancing or another build replaced it, the new shards are opened while the old generation
        answers, and then replace it in one step. A recall uses the generation with which it began,
        to its end; shards that only the old generation has are closed after its last recall.

        Raises
        ------
        ShardLostError
            No replica of a shard answers. If the shard belongs to a new generation, the old
            generation stays.
        CorruptIndexError, IndexNotFoundError
            As :meth:`hyrecall.Index.open`; the shard, or the old generation, stays as it was.
        OptionError
            The folder holds shards of another schema; or as :meth:`hyrecall.Index.reload`, for
            shards in this process.
        WriterBusyError
            As :meth:`hyrecall.Index.reload`, for shards in this process.
        """
        self._generations.take_up()
        with self._generations.used() as one:
            one.reload(one.shards)

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

        with self._generations.used() as now:
            names = [one.name for one in now.shards]
            run = map if now.checks is None else now.checks.map
            return dict(zip(names, run(ask, now.shards), strict=True))

    def close(self) -> None:
        """Close every shard. Closing twice is allowed; hits stay usable."""
        self._generations.close()

    def __enter__(self) -> Self:
        """Use the index in a with statement."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Close the index."""
        self.close()

    def __len__(self) -> int:
        """Return the number of shards."""
        return len(self.shards)

    def __repr__(self) -> str:
        """Show the names of the shards."""
        return f"<{type(self).__name__}: {', '.join(one.name for one in self.shards)}>"
