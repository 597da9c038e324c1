"""Shaping stages, which score, order or cut the fused lists: one file each, and a base for more.

A stage starts from the order and the scores of the stage before. Those of this package are also
names of :mod:`hyrecall`; a stage of your own is a subclass of :class:`Stage`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hyrecall.base.lazily import lazily
from hyrecall.stages.registry import HOMES

if TYPE_CHECKING:
    from hyrecall.stages.age import Composite as Composite
    from hyrecall.stages.age import Recency as Recency
    from hyrecall.stages.choice import MMR as MMR
    from hyrecall.stages.choice import Budget as Budget
    from hyrecall.stages.dedup import Dedup as Dedup
    from hyrecall.stages.evidence import Around as Around
    from hyrecall.stages.evidence import Prior as Prior
    from hyrecall.stages.feedback import Feedback as Feedback
    from hyrecall.stages.gate import Gate as Gate
    from hyrecall.stages.linear import Linear as Linear
    from hyrecall.stages.lists import FusedLists
    from hyrecall.stages.provenance import Provenance as Provenance
    from hyrecall.stages.rerank import Rerank as Rerank
    from hyrecall.stages.rerank import RerankBy as RerankBy
    from hyrecall.stages.session_signals import Phase as Phase
    from hyrecall.stages.session_signals import SessionSignals as SessionSignals
    from hyrecall.stages.stage import Stage, StageCall, StagePlan, Why

__all__ = ["FusedLists", "Stage", "StageCall", "StagePlan", "Why"]

if not TYPE_CHECKING:
    __getattr__ = lazily(
        __name__,
        {
            **HOMES,
            "lists": ("FusedLists",),
            "stage": ("Stage", "StageCall", "StagePlan", "Why"),
        },
    )
