"""Gathers rows of columns, finds the rows that have a text, and puts rows in order."""

from collections.abc import Sequence
from typing import final

import numpy as np
import numpy.typing as npt

from hyrecall._core import LexicalColumn, SegmentView, _ArrowArray
from hyrecall._core.files import BlockChecks

_Rows = npt.NDArray[np.uint32]

@final
class Column:
    """A column of a segment in row order: numbers, times, bools or large strings."""

    def __init__(self, source: _ArrowArray, checks: BlockChecks | None = None) -> None: ...

@final
class Gathered:
    def __arrow_c_array__(self, schema: object | None = None, /) -> tuple[object, object]: ...

def gather(columns: Sequence[Column], source: _Rows, row: _Rows) -> Gathered:
    """Return the values of the rows (source[i], row[i]), in that order."""

def has_text(columns: Sequence[LexicalColumn], source: _Rows, row: _Rows) -> npt.NDArray[np.uint8]:
    """Return 1 if row[i] of columns[source[i]] has a text, otherwise 0."""

def merge_order(
    views: Sequence[SegmentView],
    cluster: Sequence[npt.NDArray[np.int64]],
    part: Sequence[tuple[int, int]] | None = None,
) -> tuple[_Rows, _Rows]:
    """Return the live rows of several views as (view, row), in the order of one segment.

    part: the first row of each view that is wanted, and the one behind the last.
    """

def cut_merge(views: Sequence[SegmentView], most_rows: int) -> tuple[_Rows, int]:
    """Cut a merge of views between cells, into parts of so many rows.

    Return the first row of each part in each view, one part after the other, and the number of
    cells.
    """
