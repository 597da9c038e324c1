"""Answers one part of a dataset of queries and writes its hits to a file, once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet as pq

from hyrecall.base.output_files import open_replacement
from hyrecall.distributed.batch_recall import ERROR, BatchRecall
from hyrecall.distributed.query_parts import QueryPart, read_part
from hyrecall.distributed.saved import DEGRADED, reasons_in
from hyrecall.distributed.slices import MAX_QUERIES
from hyrecall.errors import HyrecallError

__all__ = ["COUNTS", "Answer", "Counts", "answer_part", "counts_of", "write_answer"]

COUNTS = b"hyrecall.counts"
"""The key of a part's counts, as JSON, in the footer of its file."""

Counts = Mapping[str, int]
"""Numbers of queries, hits and refused queries of a part."""

Answer = tuple[int, Counts | None, HyrecallError | None]
"""A part's number, with its counts, or the error if it was not answered."""


def answer_part(recall: BatchRecall, part: QueryPart, folder: Path) -> Answer:
    """Answer a part and write its file unless it exists; return its counts or its error."""
    # Errors of other classes, such as a full disk, are raised: the part does not cause them.
    try:
        return part.number, write_answer(recall, part, folder / part.output), None
    except HyrecallError as fault:
        return part.number, None, fault


def write_answer(recall: BatchRecall, part: QueryPart, path: Path) -> Counts:
    """Answer a part slice by slice; its file appears when it is complete. Return its counts."""
    if path.exists():  # an earlier try wrote it before it ended
        return counts_of(path)
    counts = {"queries": 0, "hits": 0, "refused": 0}
    reasons: dict[str, list[str]] = {}
    writer: pq.ParquetWriter | None = None
    with open_replacement("output", path) as file:
        for queries in read_part(part, recall.columns, MAX_QUERIES):
            hits = recall(queries)
            if writer is None:
                schema = hits.schema.remove_metadata()
                writer = pq.ParquetWriter(file, schema, compression="zstd")
            writer.write_table(hits.replace_schema_metadata(None))
            n_refused = 0
            if ERROR in hits.column_names:
                n_refused = hits.num_rows - hits.column(ERROR).null_count
            counts["queries"] += queries.num_rows
            counts["hits"] += hits.num_rows - n_refused
            counts["refused"] += n_refused
            reasons |= reasons_in([hits])
        assert writer is not None  # a part has rows
        told = {DEGRADED: json.dumps(reasons)} if reasons else {}
        writer.add_key_value_metadata({COUNTS: json.dumps(counts).encode(), **told})
        writer.close()
    return counts


def counts_of(path: Path) -> Counts:
    """Return the counts of a part's file."""
    counts: Counts = json.loads(pq.read_metadata(path).metadata[COUNTS])
    return counts
