"""Hits as rich shows them, in a terminal or a notebook: the tables of ``print``, in full width.

Stored text is data, so every line is a Text: a str would be read as markup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from hyrecall.base.text_tables import Line
from hyrecall.hits import hit_tables
from hyrecall.hits.reply import BatchReply, Reply

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.text import Text


__all__ = ["Lines", "of_batch", "of_query", "styled"]

_STYLES = {"heading": "bold", "key": "cyan", "mark": "bold yellow", "faint": "dim"}


class Lines:
    """Lines that are laid out when rich says how wide they may be."""

    def __init__(self, lay_out: Callable[[int], Iterable[Line]]) -> None:
        """Take what gives the lines for a width."""
        self._lay_out = lay_out

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """Return the lines as texts."""
        for line in self._lay_out(options.max_width):
            yield styled(line)


def styled(line: Line) -> Text:
    """Return a line with its styles as rich has them."""
    from rich.text import Text

    shown = Text(line.text, no_wrap=True, overflow="ignore")
    for begin, end, style in line.spans:
        shown.stylize(_STYLES[style], begin, end)
    return shown


def of_batch(reply: BatchReply) -> Any:
    """Show the first hits of a batch, and how many there are."""
    return Lines(lambda width: hit_tables.batch_lines(reply, width=width))


def of_query(reply: Reply, query: int) -> Any:
    """Show the first hits of a query."""
    return Lines(lambda width: hit_tables.query_lines(reply, query, width=width))
