"""Merges segments: rows of several become one segment, without analyzing texts again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hyrecall import _core
from hyrecall.segments.segments import Segment, directory_of, gather, segment_from_parts
from hyrecall.table.attributes import attribute_column
from hyrecall.table.schema import Schema

__all__ = ["merge_order", "merge_segments", "take_rows"]

Rows = npt.NDArray[np.uint32]


def merge_segments(
    segments: Sequence[Segment],
    views: Sequence[_core.SegmentView],
    schema: Schema,
    threads: int = 1,
) -> Segment:
    """Merge the live rows of several segments into one, without analyzing texts again."""
    return take_rows(segments, *merge_order(segments, views, schema), schema, threads)


def merge_order(
    segments: Sequence[Segment],
    views: Sequence[_core.SegmentView],
    schema: Schema,
    part: Sequence[tuple[int, int]] | None = None,
) -> tuple[Rows, Rows]:
    """Return (segment, row) of the live rows of several segments, in the order of one segment."""
    # ``part`` has the first row of each segment that is wanted, and the one behind the last.
    cluster: list[npt.NDArray[np.int64]] = []
    if schema.cluster is not None:
        cluster = [attribute_column(s.column(schema.cluster)).sort_codes for s in segments]
    source, row = _core.rows.merge_order(list(views), cluster, part)
    return source, row


def take_rows(
    segments: Sequence[Segment], source: Rows, source_row: Rows, schema: Schema, threads: int = 1
) -> Segment:
    """Make a segment of the rows (source[i], source_row[i]), which are in the order of one."""
    # Heads of vectors are learnt and made on up to ``threads`` threads.
    for segment in segments:
        for arm in (*schema.text_arms, *schema.vector_arms):
            segment.check_whole(arm)  # damaged rows must not be saved with a new checksum
    rows = gather(segments, source, source_row, schema.row_columns)
    seqs = np.empty(len(source), np.int64)
    for number, segment in enumerate(segments):
        here = source == number
        seqs[here] = segment.core.seqs[source_row[here]]
    directory = directory_of(rows, schema)
    lexical = {
        arm: _core.LexicalColumn.merge([s.lexical[arm] for s in segments], source, source_row)
        for arm in schema.text_arms
    }
    dense = {
        arm: _core.DenseColumn.merge([s.dense[arm] for s in segments], source, source_row, threads)
        for arm in schema.vector_arms
    }
    return segment_from_parts(rows, seqs, schema, lexical, dense, directory)
