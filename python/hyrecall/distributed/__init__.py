"""One index in several shards: the same replies, to the last bit.

:func:`build_shards` makes the shards of a large table, :func:`rebalance` changes their number.
:class:`ShardedIndex` asks shards in this process, or each in a process of its own. What it does is
three plain calls over one :class:`Request`, which any engine can carry: :meth:`Index.statistics` of
each shard, :meth:`Statistics.sum`, :meth:`Index.candidates` of each, and :func:`merge`.

:class:`BatchRecall` is recall as a function from a table of queries to a table of hits, which
engines such as Ray Data and Spark call; :func:`recall_dataset` answers files of queries with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hyrecall.base.lazily import lazily
from hyrecall.distributed.batch_recall import BatchRecall
from hyrecall.distributed.dataset import DatasetHits, recall_dataset
from hyrecall.distributed.placement import Placement
from hyrecall.distributed.sharded import ShardedIndex
from hyrecall.distributed.shards_file import ShardEntry, Shards
from hyrecall.distributed.upkeep import ShardHealth
from hyrecall.parts.counts import Statistics
from hyrecall.parts.merging import merge
from hyrecall.parts.part import Part
from hyrecall.parts.request import Request

if TYPE_CHECKING:
    from hyrecall.distributed.building import build_shards as build_shards
    from hyrecall.distributed.rebalancing import rebalance as rebalance
else:
    __getattr__ = lazily(__name__, {"building": ("build_shards",), "rebalancing": ("rebalance",)})

__all__ = [
    "BatchRecall",
    "DatasetHits",
    "Part",
    "Placement",
    "Request",
    "ShardEntry",
    "ShardHealth",
    "ShardedIndex",
    "Shards",
    "Statistics",
    "build_shards",
    "merge",
    "rebalance",
    "recall_dataset",
]
