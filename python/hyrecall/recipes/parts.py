"""The parts of which a :class:`hyrecall.Recipe` is made, to write or adapt one."""

from hyrecall.ask.recipe_parts import Dense, Fill, Lexical, Tables, TieBreak

__all__ = ["Dense", "Fill", "Lexical", "Tables", "TieBreak"]
