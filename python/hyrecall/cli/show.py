"""Prints tables, JSON and texts to stdout, and notes to stderr."""

from __future__ import annotations

import json
import math
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from rich.console import Console

from hyrecall.base.text_tables import Column, Row, Style, TextLine, clean, table, visible
from hyrecall.errors import without_remedy
from hyrecall.hits.dropped import Dropped, dropped_text
from hyrecall.hits.explain_text import Explanation, wrapped_text
from hyrecall.hits.hit_tables import hit_lines, styled
from hyrecall.hits.hits import QueryHits, reply_of
from hyrecall.hits.marks import find_marks, spans_of, window
from hyrecall.table.schema import Schema
from hyrecall.text.analyzer import Analyzer

# ---- Cuts a text to the part with the most words of the query, and marks these words ----

_SHOWN = 220  # characters: three lines of 80 columns, two of 120
_LOOKED_AT = 20_000  # characters at the beginning of a text
_DOTS = "..."


class Snippets:
    """Cuts and marks texts for one query, whose words the analyzer determines."""

    def __init__(self, query: str | None, analyzer: Analyzer) -> None:
        self._query, self._analyzer = query or "", analyzer

    def show(self, text: str) -> TextLine:
        """Return a text, or its best part, on one line with styles."""
        shown = clean(text[:_LOOKED_AT])
        marks = find_marks(self._analyzer, self._query, [shown])[0]
        begin, end = window(shown, marks, _SHOWN)
        spans: list[tuple[int, int, Style]] = [(*span, "mark") for span in spans_of(marks)]
        before = _DOTS if begin else ""
        after = _DOTS if end < len(shown) or len(text) > _LOOKED_AT else ""
        line = TextLine(shown, tuple(spans)).part(begin, end)
        return TextLine(after).after(line.after(TextLine(before)))


# ---- Prints tables, JSON and texts to stdout, and notes to stderr ----

DROPPED_SHOWN = 5
"""Rows that are shown of each stage; ``--json`` has more."""


def say(message: str) -> None:
    """Write a line to stderr; stdout is only for data."""
    print(visible(message), file=sys.stderr, flush=True)


def one_line(fault: BaseException) -> str:
    """Return the message and its notes in one line, without the remedy, which is Python code."""
    notes = (f"({note})" for note in getattr(fault, "__notes__", ()))
    lines = "\n".join((without_remedy(fault), *notes)).splitlines()
    return " ".join(filter(None, map(str.strip, lines)))


def print_stored(text: str) -> None:
    """Write a stored text to stdout; for a terminal, escape its control characters."""
    print(visible(text) if sys.stdout.isatty() else text, end="")


def screen_width() -> int:
    """Return the width for tables in columns: ``COLUMNS``, the terminal's width, or 80."""
    return shutil.get_terminal_size((80, 24)).columns


def print_lines(lines: Iterable[TextLine]) -> None:
    """Write lines to stdout, with styles if it is a terminal."""
    console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        sys.stdout.writelines(f"{line.text}\n" for line in lines)
        return
    for line in lines:
        console.print(styled(line), soft_wrap=True)


def print_json(data: object) -> None:
    """Write JSON to stdout, with floats in full precision.

    NaN and infinity become null; other values that JSON lacks become their str.
    """
    shown = finite(data)
    print(json.dumps(shown, ensure_ascii=False, indent=2, default=str, allow_nan=False))


def finite(data: Any) -> Any:
    """Return plain data with None for NaN and infinity."""
    if isinstance(data, dict):
        return {name: finite(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [finite(value) for value in data]
    is_float = isinstance(data, float | np.floating)
    return None if is_float and not math.isfinite(data) else data


def print_table(columns: Sequence[Column], rows: Sequence[Row]) -> None:
    """Write a table to stdout."""
    print_lines(table(columns, rows, width=screen_width()))


def print_hits(hits: QueryHits, query: str | None, *, explain: bool = False) -> None:
    """Write a query's hits to stdout as a table, with the query's words marked.

    With ``explain``, the parts of each score follow.
    """
    facts, width = reply_of(hits).facts, screen_width()
    first = next(iter(facts.text_arms), None)
    show = None if first is None else Snippets(query, facts.analyzers[first]).show
    print_lines(hit_lines(reply_of(hits), hits.query, width=width, show=show))
    if explain:
        for hit in hits:
            print_explanation(hit.rank, str(hit.key), hit.explain())
        print_dropped(hits.explain_dropped())


MOST_VALUES = 20
"""Values of a facet in a table; JSON has all."""


def print_facet(name: str, counts: Sequence[tuple[Any, int]]) -> None:
    """Write the values of a column to stdout, each with the number of rows that have it."""
    print_lines([TextLine("")])
    rows = [Row([str(count), clean(_value(one))]) for one, count in counts[:MOST_VALUES]]
    print_table((Column("rows", "right"), Column(clean(name), style="key")), rows)
    if len(counts) > MOST_VALUES:
        say(f"note: {name} has {len(counts) - MOST_VALUES} more values: --json has all")


def _value(one: Any) -> str:
    """Show a value, or a range without its end."""
    if not isinstance(one, tuple):
        return str(one)
    low, high = ("" if end is None else str(end) for end in one)
    return f"{low} to {high}".strip()


def print_explanation(rank: int, key: str, made: Explanation) -> None:
    """Write the parts of a score to stdout, under the rank and key of its hit."""
    title = f"{rank}  {clean(key)}"
    print_lines([TextLine(""), TextLine(title, ((0, len(title), "heading"),))])
    for line in wrapped_text(made, screen_width() - 2).splitlines():
        print(f"  {line}")


def print_dropped(dropped: Dropped) -> None:
    """Write to stdout what each stage left out: its first rows, and how many more."""
    title = "Dropped"
    print_lines([TextLine(""), TextLine(title, ((0, len(title), "heading"),))])
    for line in dropped_text(dropped.first(DROPPED_SHOWN), screen_width() - 2).splitlines():
        print(f"  {line}")


def shown_texts(schema: Schema) -> tuple[str, ...]:
    """Return the columns of the first text arm that hits can return."""
    first = next(iter(schema.text_arms.values()), None)
    return () if first is None else tuple(c for c in first.columns if c in schema.row_columns)


def hits_to_dict(
    hits: QueryHits, rows: Sequence[dict[str, Any]], *, explain: bool
) -> list[dict[str, Any]]:
    """Return a query's hits as plain data: the columns of ``to_arrow()`` without ``query``."""
    made = []
    for hit, row in zip(hits, rows, strict=True):
        one = {name: value for name, value in row.items() if name != "query"}
        for name, found in (("surrounding", hit.surrounding), ("thread", hit.thread_rows)):
            if found:
                one[name] = [asdict(row) for row in found]
        if explain:
            one["explanation"] = asdict(hit.explain())
        made.append(one)
    return made
