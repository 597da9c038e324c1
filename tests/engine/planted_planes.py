"""Planes and heads with a wrong bound, and an index that holds them in place of its own."""

from collections.abc import Callable

import numpy as np

import hyrecall as hr
from engine.head_definition import REST, Head, Plane, is_narrow
from hyrecall import _core
from seams import segment_from_parts
from seams import segments_State as State

ChangePlane = Callable[[Plane], Plane]
ChangeHead = Callable[[Head], Head]


def with_parts(
    index: hr.Index, change: Callable[[Plane, Head | None], tuple[Plane, Head | None]]
) -> hr.Index:
    """Return the index with other planes in every column that has some."""
    schema = index._facts.schema
    segments = []
    for one in index._state.segments:
        dense = {}
        for arm, column in one.dense.items():
            dense[arm] = column
            if column.int8_plane is None:
                continue
            int8_plane, head = change(tuple(part.copy() for part in column.int8_plane), column.head)
            dense[arm] = _core.DenseColumn.from_parts(
                arm, column.dtype, column.dim, column.rows, column.inverse_norms,
                (int8_plane, head),
            )  # fmt: skip
        segments.append(segment_from_parts(one.rows, one.core.seqs, schema, one.lexical, dense))
    views = [_core.SegmentView(one.core) for one in segments]
    index._state = State.of(segments, views, index._state.next_seq)
    return index


def with_plane(index: hr.Index, change: ChangePlane) -> hr.Index:
    """Return the index with other int8 planes, and without heads, which would keep rows from it."""
    return with_parts(index, lambda plane, _: (change(plane), None))


def with_heads(index: hr.Index, change: ChangeHead) -> hr.Index:
    """Return the index with other heads."""
    return with_parts(index, lambda plane, head: (plane, head and change(head)))


def with_front(index: hr.Index, change: ChangePlane) -> hr.Index:
    """Return the index with other heads, or with another int8 plane where it has no heads."""

    def changed(plane: Plane, head: Head | None) -> tuple[Plane, Head | None]:
        return (change(plane), None) if head is None else (plane, of_heads(change)(head))

    return with_parts(index, changed)


# ---- of planes of codes, heads included ----


def no_residual(plane: Plane) -> Plane:
    """A bound that forgets what the codes leave."""
    codes, scales, residuals = plane
    return codes, scales, np.where(np.isfinite(residuals), -0.01, residuals).astype(np.float32)


def scale_of_the_block(plane: Plane) -> Plane:
    """Each row has the scale of its block's first."""
    codes, scales, residuals = plane
    return codes, np.repeat(scales[::16], 16), residuals


def shifted_rows(plane: Plane) -> Plane:
    """Codes one row off."""
    codes, scales, residuals = plane
    return np.roll(codes, 4), scales, residuals


def lost_rows(plane: Plane) -> Plane:
    """One row of each block never passes."""
    codes, scales, residuals = plane
    kept = residuals.copy()
    kept[5::16] = -np.inf
    return codes, scales, kept


# ---- of heads ----


def of_heads(change: ChangePlane) -> ChangeHead:
    """Return the same bug in the codes of heads."""
    return lambda head: (head[0], change(head[1]))


def no_rest(dim: int) -> ChangeHead:
    """Return a bound without the length of what the directions leave; of 8 directions, 16, ..."""

    def change(head: Head) -> Head:
        directions, (codes, scales, residuals) = head
        n = len(directions) // dim
        assert n % 8 == 0, "the rest has a line of its own"
        if is_narrow(head[1], n + REST):  # 1 and -1 in turns: there is no code for 0
            lines = codes.reshape(-1, n // 8 + 1, 16, 4).copy()
            lines[:, -1] = [8, 7, 8, 7]
        else:
            lines = codes.reshape(-1, n // 4 + 1, 64).copy()
            lines[:, -1] = 128
        return directions, (lines.reshape(-1), scales, residuals)

    return change


def other_directions(dim: int) -> ChangeHead:
    """Return a query turned otherwise than the rows."""

    def change(head: Head) -> Head:
        directions, plane = head
        return np.roll(directions.reshape(-1, dim), 1, axis=0).reshape(-1).copy(), plane

    return change
