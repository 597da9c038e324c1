"""Lays out plain-text tables within a given width, for ``print(hits)`` and the command line.

A table has a heading, a rule and a line per row. Columns that do not fit are shown beneath their
row as ``name value``, then the row's texts. Lines carry styles, which only a terminal shows.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.text import Text

Style = Literal["heading", "key", "mark", "faint"]

_GAP = "  "
_SHORT = 8  # columns: after a first column of at most this width, texts are indented by it
_LEAST_WRAPPED = 30  # columns: a last column with less room than this goes beneath its row


@dataclass(frozen=True)
class TextLine:
    """A text with styles."""

    text: str
    spans: tuple[tuple[int, int, Style], ...] = ()

    def part(self, begin: int, end: int) -> TextLine:
        """Return the characters in [begin, end) with their styles."""
        kept = (
            (max(start, begin) - begin, min(stop, end) - begin, style)
            for start, stop, style in self.spans
            if start < end and stop > begin
        )
        return TextLine(self.text[begin:end], tuple(kept))

    def after(self, first: TextLine) -> TextLine:
        """Return the line with another line before it."""
        n = len(first.text)
        moved = tuple((start + n, stop + n, style) for start, stop, style in self.spans)
        return TextLine(first.text + self.text, first.spans + moved)

    def indented(self, n_columns: int) -> TextLine:
        """Return the line with spaces before it."""
        return self.after(TextLine(" " * n_columns))


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    name: str
    align: Literal["left", "right"] = "left"
    style: Style | None = None
    wraps: bool = False


@dataclass(frozen=True)
class Row:
    """A row of a table."""

    cells: Sequence[str]
    below: Sequence[TextLine] = ()


def clean(text: str) -> str:
    r"""Return a stored text as one line with its control characters escaped."""
    return visible(" ".join(text.split()))


def visible(text: str) -> str:
    r"""Return a text with its control characters escaped; line breaks and tabs stay."""
    # Marks that change the writing direction are escaped too: they could affect text after this
    # one.
    if text.isprintable():
        return text
    return "".join(repr(one)[1:-1] if _acts(one) else one for one in text)


_DIRECTIONS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


def _acts(character: str) -> bool:
    """Return whether a character makes a terminal do more than show it."""
    is_control = unicodedata.category(character) in ("Cc", "Cs") and character not in "\n\t"
    return is_control or unicodedata.bidirectional(character) in _DIRECTIONS


def width_of(text: str) -> int:
    """Return the width of a text in terminal columns."""
    return len(text) if text.isascii() else sum(map(_width, text))


def _width(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, width: int) -> str:
    """Cut a text to a width; a cut text ends in an ellipsis."""
    if width_of(text) <= width:
        return text
    end = _fitting(text, 0, max(width - 3, 0))
    return text[:end] + "..."


def _fitting(text: str, begin: int, width: int) -> int:
    """Return the end of the longest part from ``begin`` that fits."""
    end = begin
    while end < len(text) and (width := width - _width(text[end])) >= 0:
        end += 1
    return end


def wrap(line: TextLine, width: int, *, hang: int = 0) -> list[TextLine]:
    """Break a text into lines, at spaces where possible; a word longer than a line is split."""
    # Lines after the first are shorter by ``hang`` columns.
    breaks = _breaks(line.text, max(width, 2), max(width - hang, 2))
    return [line.part(begin, begin + len(line.text[begin:end].rstrip())) for begin, end in breaks]


def _breaks(text: str, width: int, later: int) -> Iterator[tuple[int, int]]:
    begin = 0
    while begin < len(text):
        end = _fitting(text, begin, width)
        following = end
        if end < len(text):
            blank = text.rfind(" ", begin, end + 1)
            is_between_wide = _width(text[end - 1]) == 2 and _width(text[end]) == 2
            if blank > begin and not (is_between_wide and text[end] != " "):
                end, following = blank, blank + 1
            elif text[end] == " ":
                following = end + 1
        yield begin, end
        begin, width = following, later


def table(
    columns: Sequence[Column], rows: Sequence[Row], *, width: int, keep: int = 2
) -> list[TextLine]:
    """Lay out rows in columns."""
    widths = [
        max(width_of(one) for one in (column.name, *(row.cells[at] for row in rows)))
        for at, column in enumerate(columns)
    ]
    n_shown = min(keep, len(columns))
    while n_shown < len(columns) and _total(widths[: n_shown + 1]) <= width:
        n_shown += 1
    if columns[-1].wraps and len(columns) - n_shown <= (1 if len(columns) > 2 else 0):
        left = width - _total(widths[:-1]) - len(_GAP)
        if left >= min(widths[-1], _LEAST_WRAPPED):
            n_shown, widths[-1] = len(columns), min(widths[-1], left)
        elif len(columns) == 2:
            n_shown = 1
    shown, widths = columns[:n_shown], widths[:n_shown]
    indent = widths[0] + len(_GAP) if widths[0] <= _SHORT else 4
    made = [
        _joined(shown, widths, [column.name for column in shown], heading=True),
        TextLine(_GAP.join("-" * one for one in widths)[:width]),
    ]
    for row in rows:
        made += _row(shown, widths, row.cells)
        beneath = zip(columns[n_shown:], row.cells[n_shown:], strict=True)
        pairs = ", ".join(f"{column.name} {cell}".strip() for column, cell in beneath if cell)
        for text in ([TextLine(pairs)] if pairs else []) + list(row.below):
            made += [one.indented(indent) for one in wrap(text, width - indent)]
    return made


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _row(columns: Sequence[Column], widths: Sequence[int], cells: Sequence[str]) -> list[TextLine]:
    """Return a row's lines: several if its last cell is wrapped."""
    *others, last = cells[: len(columns)]
    lines = [last]
    if columns[-1].wraps:
        lines = [one.text for one in wrap(TextLine(last), widths[-1])] or [""]
    first = _joined(columns, widths, [*others, lines[0]])
    start = _total(widths) - widths[-1]
    return [first, *(TextLine(" " * start + one) for one in lines[1:])]


def _joined(
    columns: Sequence[Column], widths: Sequence[int], cells: Sequence[str], *, heading: bool = False
) -> TextLine:
    text, spans = "", []
    for column, width, cell in zip(columns, widths, cells, strict=True):
        text += _GAP if text else ""
        blanks = " " * (width - width_of(cell))
        text += blanks if column.align == "right" else ""
        style = "heading" if heading else column.style
        if style is not None and cell:
            spans.append((len(text), len(text) + len(cell), style))
        text += cell if column.align == "right" else cell + blanks
    return TextLine(text.rstrip(), tuple(spans))


def fields(pairs: Sequence[tuple[str, str]], *, width: int) -> list[TextLine]:
    """Lay out pairs of name and value, one per line; long values wrap in their own column."""
    columns = Column("", style="heading"), Column("", wraps=True)
    return table(columns, [Row(pair) for pair in pairs], width=width)[2:]


def table_text(headings: Sequence[str], rows: Sequence[Sequence[str]], *, width: int = 80) -> str:
    """Lay out rows in columns as one string; all columns but the first are right-aligned."""
    columns = [Column(name, "right" if at else "left") for at, name in enumerate(headings)]
    made = table(columns, [Row(row) for row in rows], width=width)
    return "\n".join(line.text for line in made)


# ---- Lines as rich shows them: a Text, since rich would read a str as markup ----

_STYLES = {"heading": "bold", "key": "cyan", "mark": "bold yellow", "faint": "dim"}


def styled(line: TextLine) -> Text:
    """Return a line with its styles as rich has them."""
    from rich.text import Text

    shown = Text(line.text, no_wrap=True, overflow="ignore")
    for begin, end, style in line.spans:
        shown.stylize(_STYLES[style], begin, end)
    return shown
