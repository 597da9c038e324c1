"""A recall's options as checked plain data: filters, scopes, queries, arms, stages, recipes.

Annotations of calls name the types below as ``ask.Recipe``, so that they can be evaluated, and a
program that does not ask for stages or recipes imports none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hyrecall.base.starting import lazily

if TYPE_CHECKING:
    from hyrecall.arm.kinds import Arm as Arm
    from hyrecall.ask.expansion import Expansion as Expansion
    from hyrecall.ask.filter_json import FilterLike as FilterLike
    from hyrecall.ask.pages import Facets as Facets
    from hyrecall.ask.pages import Sort as Sort
    from hyrecall.ask.recipe import Recipe as Recipe
    from hyrecall.base.options import GraphLike as GraphLike
    from hyrecall.stages.session import Session as Session
    from hyrecall.stages.session_signals import Phase as Phase
    from hyrecall.stages.stage import Stage as Stage
else:
    __getattr__ = lazily(
        __name__,
        {
            "hyrecall.arm.kinds": ("Arm",),
            "expansion": ("Expansion",),
            "filter_json": ("FilterLike",),
            "pages": ("Facets", "Sort"),
            "hyrecall.base.options": ("GraphLike",),
            "recipe": ("Recipe",),
            "hyrecall.stages.session": ("Session",),
            "hyrecall.stages.session_signals": ("Phase",),
            "hyrecall.stages.stage": ("Stage",),
        },
    )
