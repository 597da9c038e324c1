"""A recall's options as checked plain data: filters, scopes, queries, arms, stages, recipes.

Annotations of calls name the types below as ``ask.Recipe``, so that they can be evaluated, and a
program that does not ask for stages or recipes imports none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hyrecall.base.lazily import lazily

if TYPE_CHECKING:
    from hyrecall.ask.arms import Arm as Arm
    from hyrecall.ask.expansion import Expansion as Expansion
    from hyrecall.ask.filter_json import FilterLike as FilterLike
    from hyrecall.ask.graphs import GraphLike as GraphLike
    from hyrecall.ask.recipe import Recipe as Recipe
    from hyrecall.ask.session import Session as Session
    from hyrecall.ask.shaping import Phase as Phase
    from hyrecall.ask.shaping import Stage as Stage
else:
    __getattr__ = lazily(
        __name__,
        {
            "arms": ("Arm",),
            "expansion": ("Expansion",),
            "filter_json": ("FilterLike",),
            "graphs": ("GraphLike",),
            "recipe": ("Recipe",),
            "session": ("Session",),
            "shaping": ("Phase", "Stage"),
        },
    )
