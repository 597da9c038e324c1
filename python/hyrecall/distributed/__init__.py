"""An index split into shards: the same replies as a single index, bit for bit.

:func:`build_shards` builds the shards of a large table, :func:`rebalance` changes their number.
:class:`ShardedIndex` queries shards in this process, or each in a Ray actor. Any engine can make
the same calls for a :class:`Request`: :meth:`Index.statistics` of each shard,
:meth:`Statistics.sum`, :meth:`Index.candidates` of each shard, and :func:`merge`.

:class:`BatchRecall` is a function from a table of queries to a table of hits, for engines such as
Ray Data and Spark; :func:`recall_dataset` answers files of queries with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hyrecall.base.starting import lazily
from hyrecall.distributed.batch_recall import BatchRecall
from hyrecall.distributed.dataset import DatasetHits, recall_dataset
from hyrecall.distributed.sharded import ShardedIndex
from hyrecall.distributed.shards_file import Placement, ShardEntry, Shards
from hyrecall.parts.merging import merge
from hyrecall.parts.messages import Part, Request, Statistics

if TYPE_CHECKING:
    from hyrecall.distributed.building import build_shards as build_shards
    from hyrecall.distributed.building import rebalance as rebalance
else:
    __getattr__ = lazily(__name__, {"building": ("build_shards", "rebalance")})

__all__ = [
    "BatchRecall",
    "DatasetHits",
    "Part",
    "Placement",
    "Request",
    "ShardEntry",
    "ShardedIndex",
    "Shards",
    "Statistics",
    "build_shards",
    "merge",
    "rebalance",
    "recall_dataset",
]


def __dir__() -> list[str]:
    """Return the public names, also those that are imported when they are asked for."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
