"""Recipes by name, or from a file in JSON that ``hyrecall learn`` has written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hyrecall import recipes
from hyrecall.ask.recipe import Recipe
from hyrecall.base.arguments import home_path
from hyrecall.errors import OptionError, error

__all__ = ["read_recipe"]


def read_recipe(argument: str, name: str, allowed: Sequence[str]) -> Recipe:
    """Return the recipe of a name, or of a file whose name ends in ``.json``.

    Raises
    ------
    OptionError
        Neither a name that is allowed nor such a file, or a file that holds no recipe.
    """
    if name in allowed:
        recipe: Recipe = getattr(recipes, name)
        return recipe
    if not name.endswith(".json"):
        wish = f"one of {', '.join(allowed)}, or a file that ends in .json"
        raise error(OptionError, argument, wish, repr(name))
    try:
        return Recipe.from_json(Path(home_path(argument, name)).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as fault:
        raise error(OptionError, argument, "a file with a recipe in JSON", fault) from None
