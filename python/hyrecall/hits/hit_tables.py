"""Hits as tables of plain text, for ``print`` and the command, and of HTML, for notebooks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from hyrecall.base.text_tables import Column, Line, Row, clean, cut, table

if TYPE_CHECKING:
    from hyrecall.hits.hits import Hit, Hits, QueryHits
    from hyrecall.table.schema import Schema

__all__ = [
    "EXACT",
    "batch_html",
    "batch_lines",
    "hit_lines",
    "query_html",
    "query_lines",
    "text_of",
]

_WIDTH = 80  # of what print() shows, whatever the terminal, so that it is the same everywhere
_SHOWN_HITS = 20

EXACT = Line("exact  ", ((0, 5, "faint"),))
"""Stands before the text of a row that comes first because it holds the query whole."""

Show = Callable[[str], Line]


def batch_lines(hits: Hits, *, width: int = _WIDTH, show: Show | None = None) -> list[Line]:
    """Show the first hits of a batch in one table, and how many there are."""
    rows = _first(hits)
    arms = hits.trace.arms
    lines = [Line(f"{_count(len(hits), 'query', 'queries')}, {_count(hits.n_hits, 'hit', 'hits')}")]
    if rows:
        lines += hit_lines(rows, arms, width=width, show=show, with_query=True)
    return lines + _rest(hits.n_hits - len(rows))


def _first(hits: Hits) -> list[Hit]:
    """Return the hits of a batch that are shown."""
    counts = np.diff(hits._offsets())
    found = np.flatnonzero(counts)
    shown = found[: np.searchsorted(np.cumsum(counts[found]), _SHOWN_HITS) + 1]
    first = hits.only(np.isin(np.arange(len(hits)), shown))  # so that no column is read whole
    return [hit for query in shown for hit in first[query]][:_SHOWN_HITS]


def query_lines(hits: QueryHits, *, width: int = _WIDTH, show: Show | None = None) -> list[Line]:
    """Show the first hits of a query in a table, and how many there are."""
    if not len(hits):
        return [Line("no hits")]
    made = hit_lines(hits[:_SHOWN_HITS], hits._hits.trace.arms, width=width, show=show)
    return [Line(_count(len(hits), "hit", "hits")), *made, *_rest(len(hits) - _SHOWN_HITS)]


def batch_html(hits: Hits) -> str:
    """Show the first hits of a batch as an HTML table."""
    return _html(hits.n_hits, _first(hits), hits.trace.arms, len(hits))


def query_html(hits: QueryHits) -> str:
    """Show the first hits of a query as an HTML table."""
    return _html(len(hits), hits[:_SHOWN_HITS], hits._hits.trace.arms)


def _html(
    n_hits: int, rows: Sequence[Hit], arms: Sequence[str], n_queries: int | None = None
) -> str:
    title = _count(n_hits, "hit", "hits")
    if n_queries is not None:
        title = f"{_count(n_queries, 'query', 'queries')}, {title}"
    if not rows:
        return _html_table(title, [], [])
    columns, cells = _laid_out(rows, arms, with_query=n_queries is not None)
    shown = [
        [*(cell.strip() for cell in line), cut(text_of(hit), _WIDTH)]
        for line, hit in zip(cells, rows, strict=True)
    ]
    rest = [line.text for line in _rest(n_hits - len(rows))]
    return _html_table(title, [*(column.name for column in columns), "text"], shown, *rest)


def _count(n: int, one: str, several: str) -> str:
    return f"{n:,} {one if n == 1 else several}"


def _rest(n_hits: int) -> list[Line]:
    return [Line(f"... {_count(n_hits, 'more hit', 'more hits')}")] if n_hits > 0 else []


def hit_lines(
    hits: Sequence[Hit],
    arms: Sequence[str],
    *,
    width: int,
    show: Show | None = None,
    with_query: bool = False,
) -> list[Line]:
    """Lay out hits as a table: rank, key, score, each arm's score and rank, cell; text beneath.

    Parameters
    ----------
    hits : sequence of Hit
        At least one.
    arms : sequence of str
        Those that ran.
    width : int
        Columns of the terminal.
    show : callable, optional
        Gives a text as a styled line; default: its beginning, on one line.
    with_query : bool
        Whether to show which query of the batch a hit is of.
    """
    show = (lambda text: Line(cut(text, width - 10))) if show is None else show
    columns, cells = _laid_out(hits, arms, with_query=with_query)
    rows = []
    for hit, line in zip(hits, cells, strict=True):
        text = text_of(hit)
        below = [show(text)] if text else []
        if hit.is_exact:
            below = [EXACT] if not below else [below[0].after(EXACT)]
        rows.append(Row(line, below))
    return table(columns, rows, width=width, keep=3 if with_query else 2)


def _laid_out(
    hits: Sequence[Hit], arms: Sequence[str], *, with_query: bool
) -> tuple[list[Column], list[list[str]]]:
    """Return the columns of a table of hits, and the cells of each hit."""
    schema = hits[0]._hits._facts.schema
    columns = [
        *([Column("query", "right")] if with_query else []),
        Column("rank", "right"),
        Column("key", style="key"),
        Column("score", "right"),
        *(Column(name, "right") for name in _headings(schema, arms)),
        *(Column(name) for name in schema.cell_columns),
    ]
    digits = max(
        [len(str(rank)) for hit in hits for arm in arms if (rank := _rank(hit, arm))] + [1]
    )
    rows = []
    for hit in hits:
        cells = [str(hit.query)] if with_query else []
        cells += [str(hit.rank), clean(str(hit.key)), _score(hit)]
        cells += [_part(hit, arm, digits) for arm in arms]
        cells += [clean(str(value)) for value in hit.cell]
        rows.append(cells)
    return columns, rows


def _headings(schema: Schema, arms: Sequence[str]) -> list[str]:
    """Name the arms: by their kind where only one is of it."""
    kinds = dict.fromkeys(schema.text_arms, "BM25") | dict.fromkeys(schema.vector_arms, "cosine")
    given = [kinds.get(arm.rpartition(".")[2], "") for arm in arms]
    return [
        kind if kind and given.count(kind) == 1 else f"{kind} ({arm})" if kind else arm
        for arm, kind in zip(arms, given, strict=True)
    ]


def _score(hit: Hit) -> str:
    arrays = hit._hits._arrays
    is_fill = "from_fill" in arrays and arrays["from_fill"][hit._at]
    return "fill" if is_fill else f"{hit.score:.6f}"


def _rank(hit: Hit, arm: str) -> int | None:
    return hit.arm_rank(arm) if arm in hit._hits._arms else None


def _part(hit: Hit, arm: str, digits: int) -> str:
    """Show an arm's score and its rank; a dash where it was not computed or not in the list."""
    score, rank = hit.arm_score(arm) if arm in hit._hits._arms else None, _rank(hit, arm)
    if score is None:
        return "-" + " " * (digits + 2)
    return f"{score:.4f} {'-' if rank is None else f'#{rank}':<{digits + 1}}"


def text_of(hit: Hit) -> str:
    """Return what is stored of the first text arm, on one line."""
    schema = hit._hits._facts.schema
    shown = [name for name in schema.first_texts if name in schema.row_columns]
    return " | ".join(clean(str(hit[name])) for name in shown if hit[name])


def _html_table(
    title: str, headings: Sequence[str], rows: Sequence[Sequence[str]], note: str = ""
) -> str:
    """Return an HTML table of texts; all of them are escaped, since stored text is data."""
    head = "".join(f"<th>{escape(name)}</th>" for name in headings)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if rows else ""
    end = f"<p>{escape(note)}</p>" if note else ""
    return f"<div><p>{escape(title)}</p>{table}{end}</div>"
