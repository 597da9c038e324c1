"""Gathers rows of columns, and finds the rows that have a text."""

from collections.abc import Sequence
from typing import final

import numpy as np
import numpy.typing as npt

from hyrecall._core import LexicalColumn, _ArrowArray

_Rows = npt.NDArray[np.uint32]

@final
class Column:
    """A column of a segment in row order: numbers, times, bools or large strings."""

    def __init__(self, source: _ArrowArray) -> None: ...

@final
class Gathered:
    def __arrow_c_array__(self, schema: object | None = None, /) -> tuple[object, object]: ...

def gather(columns: Sequence[Column], source: _Rows, row: _Rows) -> Gathered:
    """Return the values of the rows (source[i], row[i]), in that order."""

def has_text(columns: Sequence[LexicalColumn], source: _Rows, row: _Rows) -> npt.NDArray[np.uint8]:
    """Return 1 if row[i] of columns[source[i]] has a text, otherwise 0."""
