"""One index in several shards: the same replies, to the last bit.

:class:`ShardedIndex` asks shards in this process, or each in a process of its own. What it does is
three plain calls over one :class:`Request`, which any engine can carry: :meth:`Index.statistics` of
each shard, :meth:`Statistics.sum`, :meth:`Index.candidates` of each, and :func:`merge`.
"""

from hyrecall.distributed.sharded import ShardedIndex
from hyrecall.distributed.upkeep import ShardHealth
from hyrecall.parts.counts import Statistics
from hyrecall.parts.merging import merge
from hyrecall.parts.part import Part
from hyrecall.parts.request import Request

__all__ = ["Part", "Request", "ShardHealth", "ShardedIndex", "Statistics", "merge"]
