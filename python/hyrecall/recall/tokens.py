"""Counts the tokens of texts for the stage Budget."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall.ask.shaping import Budget
from hyrecall.errors import DTypeError, ShapeError, error


def token_counts(budget: Budget, texts: pa.Array) -> npt.NDArray[np.int64]:
    """Return the tokens of each text, by the budget's own estimate if it has one."""
    import pyarrow.compute as pc

    if budget.estimate is None:
        lengths = pc.utf8_length(pc.utf8_trim_whitespace(texts)).fill_null(0).to_numpy()
        return np.asarray(np.maximum(1, -(-lengths.astype(np.int64) // 4)), np.int64)
    if not len(texts):
        return np.zeros(0, np.int64)
    counts = np.asarray(budget.estimate([text or "" for text in texts.to_pylist()]))
    if counts.shape != (len(texts),):
        raise error(ShapeError, "Budget.estimate", f"{len(texts)} numbers", counts.shape)
    if not np.issubdtype(counts.dtype, np.integer) or (counts < 0).any():
        raise error(DTypeError, "Budget.estimate", "ints >= 0", counts.dtype)
    return counts.astype(np.int64)
