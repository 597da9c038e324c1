"""One index in several shards: the same replies, to the last bit.

:class:`ShardedIndex` asks shards in this process, or each in a process of its own. What it does is
three plain calls over one :class:`Request`, which any engine can carry: :meth:`Index.statistics` of
each shard, :meth:`Statistics.sum`, :meth:`Index.candidates` of each, and :func:`merge`.

:class:`BatchRecall` is recall as a function from a table of queries to a table of hits, which
engines such as Ray Data and Spark call; :func:`recall_dataset` answers files of queries with it.
"""

from hyrecall.distributed.batch_recall import BatchRecall
from hyrecall.distributed.dataset import DatasetHits, recall_dataset
from hyrecall.distributed.sharded import ShardedIndex
from hyrecall.parts.counts import Statistics
from hyrecall.parts.merging import merge
from hyrecall.parts.part import Part
from hyrecall.parts.request import Request

__all__ = [
    "BatchRecall",
    "DatasetHits",
    "Part",
    "Request",
    "ShardedIndex",
    "Statistics",
    "merge",
    "recall_dataset",
]
