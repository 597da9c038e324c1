"""Hits as tables of plain text, for ``print`` and the command, and of HTML, for notebooks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from math import isnan
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hyrecall.base.text_tables import Column, Row, Style, TextLine, clean, cut, styled, table, wrap
from hyrecall.hits.marks import find_marks, spans_of, window
from hyrecall.hits.reply import Reply, ReplyBase
from hyrecall.hits.trace import Trace
from hyrecall.table.schema import Schema, form_of
from hyrecall.text.analyzer import Analyzer

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.text import Text


_WIDTH = 80  # of what print() shows, whatever the terminal, so that it is the same everywhere
_SHOWN_HITS = 20
_SHOWN_REASONS = 3

EXACT = TextLine("exact  ", ((0, 5, "faint"),))
"""Stands before the text of a row that comes first because it holds the query whole."""

Show = Callable[[str], TextLine]


class _Hit(NamedTuple):
    """A hit of a reply, by its number."""

    reply: Reply
    query: int
    at: int

    @property
    def key(self) -> Any:
        return self.reply.cached("row", self.reply.facts.schema.key)[self.at]

    @property
    def text(self) -> str:
        """What is stored of the first text arm, on one line."""
        schema = self.reply.facts.schema
        shown = [name for name in schema.first_texts if name in schema.row_columns]
        values = [self.reply.cached("row", name)[self.at] for name in shown]
        return " | ".join(clean(str(value)) for value in values if value)

    @property
    def heading(self) -> str:
        """The headings above a chunk of a file, which stand on a line of their own."""
        if self.reply.facts.folder is None:
            return ""
        return clean(self.reply.cached("row", "heading")[self.at])

    def beside(self, width: int) -> list[TextLine]:
        """Show the rows around the hit in its thread, and the best other rows of the thread."""
        where = self.query, self.at - self.reply.span(self.query)[0]
        around = self.reply.around
        if around is None:
            return []
        texts = [
            f"{row.step:+d}  {clean(str(row.key))}  {'' if row.text is None else clean(row.text)}"
            for row in around.beside("near", *where)
        ]
        others = around.beside("threads", *where)[1:]
        if others:
            named = ", ".join(f"{clean(str(row.key))} {row.score:.6f}" for row in others)
            texts.append(f"thread: {named}")
        lines = [cut(text.rstrip(), width) for text in texts]
        return [TextLine(line, ((0, len(line), "faint"),)) for line in lines]

    def of_arm(self, kind: str, arm: str) -> Any:
        """Return an arm's "score" or "rank"; None where there is none."""
        return self.reply.cached(kind, arm)[self.at] if arm in self.reply.arms else None


def batch_lines(
    reply: ReplyBase, *, width: int = _WIDTH, show: Show | None = None
) -> list[TextLine]:
    """Show the first hits of a batch in one table, how many there are, and what did not run."""
    hits, degraded = _first(reply), reply.trace.degraded
    lines = [TextLine(_title(reply.n_hits, degraded, reply.n_queries))]
    if hits:
        lines += _table_of(hits, reply.trace.arms, width=width, show=show, with_query=True)
    return lines + _rest(reply.n_hits - len(hits)) + _reasons(degraded, width)


def _first(reply: ReplyBase) -> list[_Hit]:
    """Return the hits of a batch that are shown."""
    counts = np.diff(reply.offsets)
    found = np.flatnonzero(counts)
    shown = found[: np.searchsorted(np.cumsum(counts[found]), _SHOWN_HITS) + 1]
    first = reply.only(
        np.isin(np.arange(reply.n_queries), shown)
    )  # so that no column is read whole
    hits = [hit for query in shown.tolist() for hit in _hits(first.part_of(query), query)]
    return hits[:_SHOWN_HITS]


def _hits(reply: Reply, query: int, most: int | None = None) -> list[_Hit]:
    """Return the first hits of a query, or all."""
    begin, end = reply.span(query)
    end = end if most is None else min(end, begin + most)
    return [_Hit(reply, query, at) for at in range(begin, end)]


def query_lines(
    reply: Reply, query: int, *, width: int = _WIDTH, show: Show | None = None
) -> list[TextLine]:
    """Show the first hits of a query in a table, how many there are, and what did not run."""
    begin, end = reply.span(query)
    degraded = reply.trace.of_query(query).degraded
    lines = [TextLine(_title(end - begin, degraded))]
    if begin < end:
        hits = _hits(reply, query, _SHOWN_HITS)
        lines += _table_of(hits, reply.trace.arms, width=width, show=show)
        lines += _rest(end - begin - len(hits))
    return lines + _reasons(degraded, width)


def batch_html(reply: ReplyBase) -> str:
    """Show the first hits of a batch as an HTML table."""
    return _html(reply.n_hits, _first(reply), reply.trace, reply.n_queries)


def query_html(reply: Reply, query: int) -> str:
    """Show the first hits of a query as an HTML table."""
    begin, end = reply.span(query)
    return _html(end - begin, _hits(reply, query, _SHOWN_HITS), reply.trace.of_query(query))


def _html(n_hits: int, rows: Sequence[_Hit], trace: Trace, n_queries: int | None = None) -> str:
    title, notes = _title(n_hits, trace.degraded, n_queries), _told(trace.degraded)
    if not rows:
        return _html_table(title, [], [], notes)
    columns, cells = _laid_out(rows, trace.arms, with_query=n_queries is not None)
    shown = [
        [*(cell.strip() for cell in line), cut(hit.text, _WIDTH)]
        for line, hit in zip(cells, rows, strict=True)
    ]
    rest = [line.text for line in _rest(n_hits - len(rows))]
    return _html_table(
        title, [*(column.name for column in columns), "text"], shown, [*rest, *notes]
    )


def _title(n_hits: int, degraded: Sequence[str], n_queries: int | None = None) -> str:
    """Say how many hits there are, and whether an arm or a stage did not run."""
    title = _count(n_hits, "hit", "hits")
    if n_queries is not None:
        title = f"{_count(n_queries, 'query', 'queries')}, {title}"
    elif not n_hits:
        title = "no hits"
    return f"{title}, degraded" if degraded else title


def _told(degraded: Sequence[str]) -> list[str]:
    """Return the first reasons why an arm or a stage did not run, and how many more there are."""
    told = [f"degraded: {clean(reason)}" for reason in degraded[:_SHOWN_REASONS]]
    more = len(degraded) - len(told)
    return told + ([f"... {_count(more, 'more reason', 'more reasons')}"] if more else [])


def _reasons(degraded: Sequence[str], width: int) -> list[TextLine]:
    lines = []
    for told in _told(degraded):
        first, *more = wrap(TextLine(told), width, hang=2)
        lines += [first, *(line.indented(2) for line in more)]
    return lines


def _count(n: int, one: str, several: str) -> str:
    return f"{n:,} {one if n == 1 else several}"


def _rest(n_hits: int) -> list[TextLine]:
    return [TextLine(f"... {_count(n_hits, 'more hit', 'more hits')}")] if n_hits > 0 else []


def hit_lines(reply: Reply, query: int, *, width: int, show: Show | None = None) -> list[TextLine]:
    """Lay out all hits of a query as a table: rank, key, score, arms, cell; text beneath."""
    return _table_of(_hits(reply, query), reply.trace.arms, width=width, show=show)


def _table_of(
    hits: Sequence[_Hit],
    arms: Sequence[str],
    *,
    width: int,
    show: Show | None,
    with_query: bool = False,
) -> list[TextLine]:
    """Lay out hits as a table, with the query of the batch that each is of, or without."""
    show = (lambda text: TextLine(cut(text, width - 10))) if show is None else show
    columns, cells = _laid_out(hits, arms, with_query=with_query)
    rows = []
    for hit, line in zip(hits, cells, strict=True):
        text, heading = hit.text, cut(hit.heading, width - 10)
        text = text.removeprefix(f"{hit.heading} | ") if heading else text
        below = [show(text)] if text else []
        if hit.reply.is_exact(hit.at):
            below = [EXACT] if not below else [below[0].after(EXACT)]
        if heading:
            below.insert(0, TextLine(heading, ((0, len(heading), "faint"),)))
        below += hit.beside(width - 10)
        rows.append(Row(line, below))
    return table(columns, rows, width=width, keep=3 if with_query else 2)


def _laid_out(
    hits: Sequence[_Hit], arms: Sequence[str], *, with_query: bool
) -> tuple[list[Column], list[list[str]]]:
    """Return the columns of a table of hits, and the cells of each hit."""
    schema = hits[0].reply.facts.schema
    columns = [
        *([Column("query", "right")] if with_query else []),
        Column("rank", "right"),
        Column("key", style="key"),
        Column("score", "right"),
        *(Column(name, "right") for name in _headings(schema, arms)),
        *(Column(name) for name in schema.cell_columns),
    ]
    digits = max(
        [len(str(rank)) for hit in hits for arm in arms if (rank := hit.of_arm("rank", arm))] + [1]
    )
    rows = []
    for hit in hits:
        cells = [str(hit.query)] if with_query else []
        arrays = hit.reply.arrays
        value = float(arrays["score"][hit.at])
        score = "fill" if hit.reply.is_fill(hit.at) else "-" if isnan(value) else f"{value:.6f}"
        cells += [str(arrays["rank"][hit.at]), clean(str(hit.key)), score]
        cells += [_part(hit, arm, digits) for arm in arms]
        cells += [clean(str(value)) for value in hit.reply.cell(hit.at)]
        rows.append(cells)
    return columns, rows


def _headings(schema: Schema, arms: Sequence[str]) -> list[str]:
    """Name the arms: by their kind where only one is of it."""
    kinds = dict.fromkeys(schema.text_arms, "BM25")
    for name, one in schema.vector_arms.items():
        kinds[name] = form_of(one)
    given = [kinds.get(arm.rpartition(".")[2], "") for arm in arms]
    return [
        kind if kind and given.count(kind) == 1 else f"{kind} ({arm})" if kind else arm
        for arm, kind in zip(arms, given, strict=True)
    ]


def _part(hit: _Hit, arm: str, digits: int) -> str:
    """Show an arm's score and its rank; a dash where it was not computed or not in the list."""
    score, rank = hit.of_arm("score", arm), hit.of_arm("rank", arm)
    if score is None:
        return "-" + " " * (digits + 2)
    return f"{score:.4f} {'-' if rank is None else f'#{rank}':<{digits + 1}}"


def _html_table(
    title: str, headings: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str]
) -> str:
    """Return an HTML table of texts; all of them are escaped, since stored text is data."""
    head = "".join(f"<th>{escape(name)}</th>" for name in headings)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if rows else ""
    end = "".join(f"<p>{escape(note)}</p>" for note in notes)
    return f"<div><p>{escape(title)}</p>{table}{end}</div>"


# ---- Hits as rich shows them, in a terminal or a notebook: the tables of ``print``, in full width
# Stored text is data, so every line is a Text: a str would be read as markup.


class RichLines:
    """A table that is laid out when rich tells the width of the screen."""

    def __init__(self, lay_out: Callable[[int], Iterable[TextLine]]) -> None:
        self._lay_out = lay_out

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        for line in self._lay_out(options.max_width):
            yield styled(line)


def of_batch(reply: ReplyBase) -> Any:
    """Show the first hits of a batch, and how many there are."""
    return RichLines(lambda width: batch_lines(reply, width=width))


def of_query(reply: Reply, query: int) -> Any:
    """Show the first hits of a query."""
    return RichLines(lambda width: query_lines(reply, query, width=width))


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
