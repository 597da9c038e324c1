"""Shaping stages, which score, order or cut the fused lists: one file each, and a base for more.

A stage starts from the order and the scores of the stage before. Those of this package are names of
:mod:`hyrecall`; a stage of your own is a subclass of :class:`Stage`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hyrecall.base.starting import lazily

if TYPE_CHECKING:
    from hyrecall.stages.lists import FusedLists
    from hyrecall.stages.stage import Stage, StageCall, StagePlan, Why
else:
    __getattr__ = lazily(
        __name__,
        {"lists": ("FusedLists",), "stage": ("Stage", "StageCall", "StagePlan", "Why")},
    )

__all__ = ["FusedLists", "Stage", "StageCall", "StagePlan", "Why"]
