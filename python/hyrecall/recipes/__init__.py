"""Recipes that reproduce five published memory systems, and our own defaults.

The index must have the columns that a recipe reads, as attributes or stored columns of the same
names; ``recipe.replace(...)`` changes them.
"""

from hyrecall.recipes.conversation import conversation
from hyrecall.recipes.default import default
from hyrecall.recipes.hebb import hebb
from hyrecall.recipes.honeycomb import honeycomb
from hyrecall.recipes.hypergraph import hypergraph, hypergraph_regex
from hyrecall.recipes.l0 import l0
from hyrecall.recipes.loom import loom

__all__ = [
    "conversation", "default", "hebb", "honeycomb", "hypergraph", "hypergraph_regex", "l0", "loom",
]  # fmt: skip
