"""Text queries, as the engine reads them."""

from typing import final

from hyrecall import _core

@final
class TextQuery:
    """A typed text query. A str among queries is plain text."""

    @staticmethod
    def phrase(text: str, slop: int) -> TextQuery:
        """Match the tokens of a text at consecutive positions."""
    @staticmethod
    def prefix(text: str, slop: int) -> TextQuery:
        """Match the words of a text like a phrase, where the last stands for every term that begins
        so.
        """
    @staticmethod
    def fuzzy(text: str, edits: int) -> TextQuery:
        """Match the words of a text in a row, where the last stands for every term within so many
        edits, at most two.
        """
    @staticmethod
    def boosted(factor: float, query: str | TextQuery) -> TextQuery:
        """Multiply a query's weights by a factor."""
    @staticmethod
    def all(queries: list[str | TextQuery]) -> TextQuery:
        """Match documents that match every one of the queries."""
    @staticmethod
    def any(queries: list[str | TextQuery]) -> TextQuery:
        """Match documents that match at least one of the queries."""
    @staticmethod
    def excluded(query: str | TextQuery) -> TextQuery:
        """Match, in a group, no document that matches the query."""
    @property
    def text(self) -> str:
        """Its own text as given; of a group, empty."""

def find_marks(
    analyzer: _core.Analyzer, query: str | TextQuery, texts: list[str]
) -> list[list[tuple[int, int, int]]] | None:
    """Return start, end and leaf of each word of each text that the query asks for."""
