"""Hits as tables of rich: what a notebook or a terminal shows of them.

Stored text is data, so every cell is a Text: a str would be read as markup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hyrecall.hits import Hits, QueryHits

__all__ = ["of_batch", "of_query"]

_SHOWN_QUERIES = 3
_SHOWN_TEXT = 160  # characters


def of_batch(hits: Hits) -> Any:
    """Show the first queries of a batch, and how many there are."""
    from rich.console import Group
    from rich.text import Text

    shown = [of_query(one) for one in hits[:_SHOWN_QUERIES]]
    rest = [Text("...")] if len(hits) > _SHOWN_QUERIES else []
    return Group(Text(f"{len(hits)} queries, {hits.n_hits} hits"), *shown, *rest)


def of_query(hits: QueryHits) -> Any:
    """Show the hits of a query: rank, key, scores, and the first text where it is stored."""
    from rich.table import Table
    from rich.text import Text

    arms, schema = hits._hits.trace.arms, hits._hits._facts.schema
    text = next(iter(schema.text_columns), None)
    table = Table(title=Text(f"query {hits.query}"))
    for name in ("rank", "key", "score", *(f"{arm}_score" for arm in arms)):
        table.add_column(Text(name), justify="left" if name == "key" else "right")
    if text in schema.row_columns:
        table.add_column(Text("text"), overflow="fold")
    for hit in hits:
        parts = [hit.arm_score(arm) for arm in arms]
        shown = ["" if part is None else f"{part:.4f}" for part in parts]
        cells = [str(hit.rank), str(hit.key), f"{hit.score:.6f}", *shown]
        if text in schema.row_columns:
            cells.append("" if hit[text] is None else hit[text][:_SHOWN_TEXT])
        table.add_row(*map(Text, cells))
    return table
