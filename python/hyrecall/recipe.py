"""A recipe and the parts of which it is made, to write one or adapt one."""

from hyrecall.ask.recipe import Dense, Fill, Lexical, Recipe, Tables, TieBreak

__all__ = ["Dense", "Fill", "Lexical", "Recipe", "Tables", "TieBreak"]
