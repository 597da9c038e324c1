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
    def prefix(text: str) -> TextQuery:
        """Match every term that begins with a text."""
    @staticmethod
    def boosted(factor: float, query: str | TextQuery) -> TextQuery:
        """Multiply a query's weights by a factor."""
    @staticmethod
    def all(queries: list[str | TextQuery]) -> TextQuery:
        """Match documents that match every one of the queries."""
    @staticmethod
    def any(queries: list[str | TextQuery]) -> TextQuery:
        """Match documents that match at least one of the queries."""

def find_marks(
    analyzer: _core.Analyzer, query: str | TextQuery, texts: list[str]
) -> list[list[tuple[int, int, int]]] | None:
    """Return start, end and leaf of each word of each text that the query asks for."""
