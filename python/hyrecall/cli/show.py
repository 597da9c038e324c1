"""Prints tables, JSON and texts to stdout, and notes to stderr.

A command that only asks the owner of a store needs this and loads nothing that searches.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from hyrecall.base.text_tables import Column, Row, TextLine, clean, styled, table, visible

if TYPE_CHECKING:
    from hyrecall.hits.dropped import Dropped
    from hyrecall.hits.explain_text import Explanation
    from hyrecall.hits.hits import QueryHits
    from hyrecall.table.schema import Schema

DROPPED_SHOWN = 5
"""Rows that are shown of each stage; ``--json`` has more."""


def say(message: str) -> None:
    """Write a line to stderr; stdout is only for data."""
    print(visible(message), file=sys.stderr, flush=True)


def one_line(fault: BaseException) -> str:
    """Return the message and its notes in one line, without the remedy, which is Python code."""
    from hyrecall.errors import without_remedy

    notes = (f"({note})" for note in getattr(fault, "__notes__", ()))
    lines = "\n".join((without_remedy(fault), *notes)).splitlines()
    return " ".join(filter(None, map(str.strip, lines)))


def print_stored(text: str) -> None:
    """Write a stored text to stdout; for a terminal, escape its control characters."""
    print(visible(text) if sys.stdout.isatty() else text, end="")


def screen_width() -> int:
    """Return the width for tables in columns: ``COLUMNS``, the terminal's width, or 80."""
    return shutil.get_terminal_size((80, 24)).columns


_FORCES = ("FORCE_COLOR", "TTY_COMPATIBLE")  # with one of them rich looks for itself


def print_lines(lines: Iterable[TextLine]) -> None:
    """Write lines to stdout, with styles if it is a terminal."""
    if not (sys.stdout.isatty() or any(name in os.environ for name in _FORCES)):
        sys.stdout.writelines(f"{line.text}\n" for line in lines)
        return
    from rich.console import Console

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


def show(as_json: bool, data: object, text: object) -> None:
    """Write an answer to stdout: as JSON, or as a line of text."""
    print_json(data) if as_json else print(text)


def finite(data: Any) -> Any:
    """Return plain data with None for NaN and infinity."""
    if isinstance(data, dict):
        return {name: finite(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [finite(value) for value in data]
    is_float = isinstance(data, Real) and not isinstance(data, Integral)  # NumPy's too
    return None if is_float and not math.isfinite(data) else data


def print_table(columns: Sequence[Column], rows: Sequence[Row]) -> None:
    """Write a table to stdout."""
    print_lines(table(columns, rows, width=screen_width()))


def print_hits(hits: QueryHits, query: str | None, *, explain: bool = False) -> None:
    """Write a query's hits to stdout as a table, with the query's words marked.

    With ``explain``, the parts of each score follow.
    """
    from hyrecall.hits.hit_tables import Snippets, hit_lines
    from hyrecall.hits.hits import reply_of

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
    from hyrecall.hits.explain_text import wrapped_text

    _print_under(f"{rank}  {clean(key)}", wrapped_text(made, screen_width() - 2))


def print_dropped(dropped: Dropped) -> None:
    """Write to stdout what each stage left out: its first rows, and how many more."""
    from hyrecall.hits.dropped import dropped_text

    _print_under("Dropped", dropped_text(dropped.first(DROPPED_SHOWN), screen_width() - 2))


def _print_under(title: str, text: str) -> None:
    print_lines([TextLine(""), TextLine(title, ((0, len(title), "heading"),))])
    for line in text.splitlines():
        print(f"  {line}")


def shown_texts(schema: Schema) -> tuple[str, ...]:
    """Return the columns of the first text arm that hits can return."""
    first = next(iter(schema.text_arms.values()), None)
    return () if first is None else tuple(c for c in first.columns if c in schema.row_columns)


def hits_to_dict(
    hits: QueryHits, rows: Sequence[dict[str, Any]], *, explain: bool
) -> list[dict[str, Any]]:
    """Return a query's hits as plain data: the columns of ``to_arrow()`` without ``query``."""
    from dataclasses import asdict

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
