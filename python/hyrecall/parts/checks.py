"""Checks arrays that came from another process, before their sizes are used for allocations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hyrecall.errors import OptionError, error

__all__ = ["Kinds", "are_ends", "check_arrays"]

Kinds = Mapping[str, Any]
"""The dtype of each array, by its name."""


def check_arrays(argument: str, arrays: Mapping[str, Any], kinds: Kinds) -> None:
    """Refuse missing arrays and wrong dtypes or dimensions; further arrays are allowed."""
    for name, kind in kinds.items():
        array = arrays.get(name)
        if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype != kind:
            got = "none" if array is None else str(getattr(array, "dtype", type(array).__name__))
            raise error(OptionError, argument, f"{name} of {np.dtype(kind)}", got)


def are_ends(ends: np.ndarray, n_lists: int, n_entries: int) -> bool:
    """Whether an array has valid end offsets of ``n_lists`` lists in ``n_entries`` entries."""
    if n_lists < 0 or len(ends) != n_lists + 1 or ends[0] != 0 or ends[-1] != n_entries:
        return False
    return bool((ends[1:] >= ends[:-1]).all())
