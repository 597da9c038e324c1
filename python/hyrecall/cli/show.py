"""What a person sees: tables on stdout, remarks on stderr."""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hyrecall.hits import Hit, QueryHits
from hyrecall.schema import Schema
from hyrecall.text_tables import Line

__all__ = [
    "hits_table",
    "hits_to_dict",
    "print_json",
    "print_lines",
    "print_table",
    "say",
    "screen_width",
    "short",
    "shown_texts",
]

_WIDTH_IN_A_FILE = 120  # columns, where stdout is no terminal
_SHOWN_TEXT = 300  # characters of a text in a table
_STYLES = {"heading": "bold", "key": "cyan", "mark": "bold yellow", "faint": "dim"}


def say(message: str) -> None:
    """Write a line to stderr: stdout is for data only."""
    print(message, file=sys.stderr, flush=True)


def screen_width() -> int:
    """Return how many columns a table may have: those of the terminal, or ``COLUMNS``, else 80."""
    return shutil.get_terminal_size((80, 24)).columns


def print_lines(lines: Iterable[Line]) -> None:
    """Write lines to stdout, with their styles where that is a terminal."""
    console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        sys.stdout.writelines(f"{line.text}\n" for line in lines)
        return
    for line in lines:
        shown = Text(line.text)
        for begin, end, style in line.spans:
            shown.stylize(_STYLES[style], begin, end)
        console.print(shown, soft_wrap=True)


def print_table(table: Table) -> None:
    """Write a table to stdout."""
    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else _WIDTH_IN_A_FILE
    Console(file=sys.stdout, width=width, highlight=False, markup=False, emoji=False).print(table)


def print_json(data: object) -> None:
    """Write JSON to stdout; floats keep every bit, what JSON lacks becomes its str.

    JSON has no NaN and no infinity: they become null.
    """
    shown = _finite(data)
    print(json.dumps(shown, ensure_ascii=False, indent=2, default=str, allow_nan=False))


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {name: _finite(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    is_float = isinstance(data, float | np.floating)
    return None if is_float and not math.isfinite(data) else data


def hits_table(
    hits: QueryHits, arms: Sequence[str], schema: Schema, *, title: str | None = None
) -> Table:
    """Make a table of a query's hits: rank, key, score, each arm's score and rank, the texts."""
    table = Table(title=title, title_justify="left")
    kinds = dict.fromkeys(schema.text_arms, "BM25") | dict.fromkeys(schema.vector_arms, "cosine")
    for name in ("rank", "key", "score", *(f"{kinds[arm]} ({arm})" for arm in arms)):
        table.add_column(name, justify="left" if name == "key" else "right", no_wrap=name != "key")
    texts = shown_texts(schema)
    if texts:
        table.add_column(" | ".join(texts), overflow="fold")
    for hit in hits:
        row = [str(hit.rank), str(hit.key), f"{hit.score:.6f}", *(_part(hit, arm) for arm in arms)]
        if texts:
            row.append(short(" | ".join(str(hit[name]) for name in texts if hit[name])))
        table.add_row(*row)
    return table


def shown_texts(schema: Schema) -> tuple[str, ...]:
    """Name the columns of the first text arm that hits can return."""
    first = next(iter(schema.text_arms.values()), None)
    return () if first is None else tuple(c for c in first.columns if c in schema.row_columns)


def _part(hit: Hit, arm: str) -> str:
    """Show an arm's score and its rank; a dash where it was not computed or not in the list."""
    score, rank = hit.arm_score(arm), hit.arm_rank(arm)
    shown = "-" if score is None else f"{score:.4f}"
    return f"{shown} {'-' if rank is None else f'#{rank}':>4}"


def short(shown: str) -> str:
    """Cut a text that is too long for a table."""
    return shown if len(shown) <= _SHOWN_TEXT else shown[:_SHOWN_TEXT] + "..."


def hits_to_dict(
    hits: QueryHits, rows: Sequence[dict[str, Any]], *, explain: bool
) -> list[dict[str, Any]]:
    """Give a query's hits as plain data: the columns of ``to_arrow()`` without ``query``."""
    made = []
    for hit, row in zip(hits, rows, strict=True):
        one = {name: value for name, value in row.items() if name != "query"}
        if explain:
            one["explain"] = asdict(hit.explain())
        made.append(one)
    return made
