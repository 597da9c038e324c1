"""Sizes and settings of an index, as :meth:`Index.stats` shows them."""

from __future__ import annotations

from typing import Any

from hyrecall import _core
from hyrecall.segments.facts import IndexFacts
from hyrecall.segments.segments import Segment, State

__all__ = ["describe"]


def describe(facts: IndexFacts, state: State, device: str) -> dict[str, Any]:
    """Return sizes and settings, without any content of documents."""
    return {
        "device": device,
        "threads": facts.threads,
        "isa": _core.arithmetic.isa(),
        "n_docs": state.n_docs,
        "n_dead": sum(view.n_dead for view in state.views),
        "n_segments": len(state.segments),
        "next_seq": state.next_seq,
        "device_bytes": state.snapshot.device_bytes,
        "host_rates": None if facts.host_rates is None else facts.host_rates.as_dict(),
        "dims": dict(facts.dims),
        "embedded_by": {arm: one.model for arm, one in facts.embedded.items()},
        "analyzers": {arm: analyzer.hash for arm, analyzer in facts.analyzers.items()},
        "segments": [
            {
                "n_rows": view.n_rows,
                "n_dead": view.n_dead,
                "n_cells": segment.core.n_cells,
                "nbytes": _nbytes(segment),
                "plane": {arm: _plane(column) for arm, column in segment.dense.items()},
            }
            for segment, view in zip(state.segments, state.views, strict=True)
        ],
    }


def _plane(column: _core.DenseColumn) -> dict[str, int]:
    """Return how often queries read a window of 4,096 rows and how often they scored all of it."""
    windows, plain = column.plane_use
    return {"windows": windows, "plain": plain}


def _nbytes(segment: Segment) -> dict[str, Any]:
    return {
        **segment.core.nbytes,
        "lexical": {arm: column.nbytes for arm, column in segment.lexical.items()},
        "dense": {arm: column.nbytes for arm, column in segment.dense.items()},
        "rows": segment.rows.nbytes,
    }
