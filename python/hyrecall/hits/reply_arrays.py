"""The arrays of a reply: some of them an entry a hit, some an entry a query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = [
    "QUERY_ARRAYS",
    "Arrays",
    "arm_column",
    "arm_values",
    "arrow_column",
    "join_pieces",
    "only_queries",
]

Arrays = dict[str, npt.NDArray[Any]]

QUERY_ARRAYS = ("offsets", "scales", "list_sizes")
"""What the native reply says of queries; the rest is an entry a hit."""

# What stands for no score and no rank of an arm, and the types of columns of them.
_MISSING: Final[dict[str, float]] = {"score": -np.inf, "rank": 0}
_TYPES: Final = {"score": pa.float32(), "rank": pa.int32()}


def only_queries(arrays: Arrays, asked: npt.NDArray[np.bool_]) -> Arrays:
    """Drop the hits of the other queries, which then have none."""
    counts = np.diff(arrays["offsets"])
    if not len(counts):
        return arrays
    kept = np.repeat(asked, counts)
    out = {"offsets": np.concatenate([[0], np.cumsum(np.where(asked, counts, 0))])}
    for name, array in arrays.items():
        if name == "offsets":
            continue
        if name in QUERY_ARRAYS:
            rows = array.reshape(len(counts), -1)
            out[name] = np.where(asked[:, None], rows, 0).reshape(array.shape)
        elif len(kept):
            rows = array.reshape(len(kept), -1)[kept]
            out[name] = rows.reshape(-1, *array.shape[1:])
        else:
            out[name] = array
    return out


def join_pieces(pieces: Sequence[Arrays]) -> Arrays:
    """Put the replies to the pieces of a batch back to back."""
    if len(pieces) == 1:
        return pieces[0]
    joined = {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
    counts = [np.diff(piece["offsets"]) for piece in pieces]
    joined["offsets"] = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
    return joined


def arm_column(arrays: Arrays, kind: str, n_arms: int, places: Sequence[int]) -> pa.Array:
    """Return an arm's "score" or "rank" of every hit, null where it has none."""
    # ``places`` are those of the arm among ``n_arms``: one, one for each table, or none if it
    # did not
    # run.
    values = _of_arm(arrays, kind, n_arms, places)
    if values is None:
        return pa.nulls(len(arrays["rank"]), _TYPES[kind])
    return pa.array(values, _TYPES[kind], mask=values == _MISSING[kind])


def arm_values(arrays: Arrays, kind: str, n_arms: int, places: Sequence[int]) -> list[Any]:
    """Return what :func:`arm_column` has as Python values."""
    values, missing = _of_arm(arrays, kind, n_arms, places), _MISSING[kind]
    if values is None:
        return [None] * len(arrays["rank"])
    return [None if one == missing else one for one in values.tolist()]


def _of_arm(
    arrays: Arrays, kind: str, n_arms: int, places: Sequence[int]
) -> npt.NDArray[Any] | None:
    if not places:
        return None
    rows = arrays[f"arm_{kind}s"].reshape(-1, n_arms)
    # A row lies in one table.
    return rows[:, places[0]] if len(places) == 1 else rows[:, places].max(axis=1)


def arrow_column(array: npt.NDArray[Any]) -> pa.Array:
    """Return an array of a reply as a column of a table; several values a hit become a list."""
    if array.ndim == 1:
        return pa.array(array, from_pandas=True)  # NaN is null
    offsets = np.arange(len(array) + 1, dtype=np.int32) * array.shape[1]
    return pa.ListArray.from_arrays(offsets, array.reshape(-1))
