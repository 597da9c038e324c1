"""HyperMemory: nodes and their edges in one reply, its route, command and tool."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hyrecall.base.starting import lazily

if TYPE_CHECKING:
    from hyrecall.systems.hypergraph.graph_recall import ahm_recall as ahm_recall
    from hyrecall.systems.hypergraph.graph_recall import hm_recall as hm_recall
    from hyrecall.systems.hypergraph.redis_sessions import RedisSessions as RedisSessions
else:
    __getattr__ = lazily(
        __name__,
        {
            "graph_recall": (
                "ahm_recall",
                "hm_recall",
            ),
            "redis_sessions": ("RedisSessions",),
        },
    )

__all__ = ["RedisSessions", "ahm_recall", "hm_recall"]
