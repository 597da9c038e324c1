"""Makes a small state of the rows of all parts, which the stages of the merge read.

The state has no postings: scores come with the parts. Each part is a segment, with its rows in the
order of a segment. Texts are only marked as present; vectors exist only if a stage compares them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import _core
from hyrecall.errors import OptionError, error
from hyrecall.parts.part import Array, Part, RunPart
from hyrecall.segments.facts import IndexFacts
from hyrecall.segments.segments import Segment, State, one_array, segment_from_parts
from hyrecall.table.attributes import attribute_column

__all__ = ["Pools", "pools_of"]


class Pools(NamedTuple):
    """The content of the parts of a request, as the merge reads it."""

    facts: IndexFacts
    brought: IndexFacts
    state: State
    runs: Sequence[dict[str, RunPart]]


def pools_of(parts: Sequence[Part]) -> Pools:
    """Make the state from the rows of parts, in the order of the parts."""
    facts = _narrowed(parts[0])
    segments = []
    runs = []
    for number, part in enumerate(parts):
        check_part(part, facts)
        order = _order(part, facts)
        segments.append(_segment(part, facts, order))
        place = np.empty(len(order), np.uint32)
        place[order] = np.arange(len(order), dtype=np.uint32)
        runs.append({name: _placed(run, number, place) for name, run in part.runs.items()})
    views = [_core.SegmentView(segment.core) for segment in segments]
    return Pools(parts[0].facts, facts, State.of(segments, views, 0), runs)


def check_part(part: Part, facts: IndexFacts) -> None:
    """Refuse a part whose columns and arrays do not fit together."""
    n = part.n_rows
    fits = part.rows.num_rows == n
    fits &= [*part.rows.schema.names] == [*facts.schema.row_columns]
    fits &= (
        all(
            part.rows.schema.field(name).type == facts.row_types[name]
            for name in part.rows.schema.names
        )
        if fits
        else False
    )
    fits &= [*part.has_text] == [*facts.text_arms]
    fits &= all(len(one) == n for one in part.has_text.values())
    for arm, own in part.vectors.items():
        fits &= facts.dims.get(arm) == own.dim and len(own.inverse_norms) == n
        fits &= len(own.rows) == n
    for run in part.runs.values():
        fits &= "doc" in run.arrays and bool((run.arrays["doc"] < max(n, 1)).all())
    if not fits:
        wish = "columns and arrays that fit each other and the index"
        raise error(OptionError, "parts", wish, "others")


def _narrowed(part: Part) -> IndexFacts:
    """Return the facts with only those stored columns that the part has."""
    schema, names = part.facts.schema, part.rows.schema.names
    stored = tuple(name for name in schema.stored_columns if name in names)
    kinds = {name: part.rows.schema.field(name).type for name in names}
    return replace(part.facts, schema=replace(schema, stored=stored), row_types=kinds)


def _order(part: Part, facts: IndexFacts) -> npt.NDArray[np.uint32]:
    """Return the order of the rows in a segment: by cell, cluster and insertion number."""
    schema = facts.schema
    cells = [one_array(part.rows.column(name)) for name in schema.cell_columns]
    cluster = np.zeros(0, np.int64)
    if schema.cluster is not None:
        cluster = attribute_column(part.rows.column(schema.cluster)).sort_codes
    seqs = np.ascontiguousarray(part.seqs, np.int64)
    return np.asarray(_core.sort_rows(cells, part.n_rows, cluster, seqs), np.uint32)


def _segment(part: Part, facts: IndexFacts, order: npt.NDArray[np.uint32]) -> Segment:
    schema, n = facts.schema, part.n_rows
    rows = part.rows.take(pa.array(order)).combine_chunks()
    lexical = {}
    for arm, has_text in part.has_text.items():
        texts = pa.array([""] * n, pa.large_string(), mask=~np.asarray(has_text, np.bool_))
        lexical[arm] = _core.LexicalColumn.build(
            arm, [[texts]], order, facts.analyzers[arm].native, facts.threads, None
        )
    dense = {}
    for arm in facts.vector_arms:
        own = part.vectors.get(arm)
        if own is None:
            parts = "float32", 1, np.zeros(4 * n, np.uint8), np.zeros(n, np.float32)
        else:
            kept = np.ascontiguousarray(own.rows[order]).reshape(-1) if n else np.zeros(0, np.uint8)
            parts = own.dtype, own.dim, kept, np.ascontiguousarray(own.inverse_norms[order])
        dense[arm] = _core.DenseColumn.from_parts(arm, *parts)
    return segment_from_parts(rows, part.seqs[order], schema, lexical, dense)


def _placed(run: RunPart, segment: int, place: Array) -> RunPart:
    """Return a run whose documents are named by rows of the state."""
    arrays = dict(run.arrays)
    docs = arrays.pop("doc")
    arrays["row"] = place[docs] if len(docs) else np.zeros(0, np.uint32)
    arrays["segment"] = np.full(len(docs), segment, np.uint32)
    return run._replace(arrays=arrays)
