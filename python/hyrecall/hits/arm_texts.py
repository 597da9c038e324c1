"""The text of a lexical arm as people read it: its columns, joined."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

__all__ = ["SEPARATOR", "join_texts"]

SEPARATOR = "\n"
"""Stands between the columns of an arm where hits, rerankers and budgets read its text."""


def join_texts(columns: Sequence[pa.Array]) -> pa.Array:
    """Join the text columns of an arm, row by row."""
    import pyarrow.compute as pc

    if len(columns) == 1:
        return columns[0]
    kind = columns[0].type
    blank = [pc.equal(pc.utf8_trim_whitespace(one), "") for one in columns]
    said = [
        pc.if_else(is_blank, pa.scalar(None, kind), one)
        for is_blank, one in zip(blank, columns, strict=True)
    ]
    joined = said[0]
    for one in said[1:]:
        both = pc.binary_join_element_wise(joined, one, pa.scalar(SEPARATOR, kind))
        joined = pc.coalesce(both, joined, one)  # both is null where one of them is
    return pc.coalesce(joined, *columns)
