"""The class of recipes and its parts, for writing or changing recipes."""

from hyrecall.ask.recipe import (
    Coefficients,
    Dense,
    Fill,
    Lexical,
    Recipe,
    Tables,
    TieBreak,
    WithThreads,
)

__all__ = [
    "Coefficients",
    "Dense",
    "Fill",
    "Lexical",
    "Recipe",
    "Tables",
    "TieBreak",
    "WithThreads",
]
