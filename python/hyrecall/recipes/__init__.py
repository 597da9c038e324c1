"""Recipes: the ways to recall of five published memory systems, and our own default, as data.

Columns that a recipe reads must be attributes or stored columns of the index, by the names here;
``recipe.replace(...)`` adapts it.
"""

from hyrecall.recipes.default import default
from hyrecall.recipes.hebb import hebb
from hyrecall.recipes.honeycomb import honeycomb
from hyrecall.recipes.hypergraph import hypergraph, hypergraph_regex
from hyrecall.recipes.l0 import l0
from hyrecall.recipes.loom import loom

__all__ = ["default", "hebb", "honeycomb", "hypergraph", "hypergraph_regex", "l0", "loom"]
