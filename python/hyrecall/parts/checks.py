"""Checks arrays that came from another process, before anything of their sizes is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hyrecall.errors import OptionError, error

__all__ = ["Kinds", "are_ends", "check_arrays"]

Kinds = Mapping[str, Any]
"""By name, the dtype that an array must have."""


def check_arrays(argument: str, arrays: Mapping[str, Any], kinds: Kinds) -> None:
    """Refuse arrays of other dtypes or dimensions, or that are missing; there may be others.

    Raises
    ------
    OptionError
        The message has the name.
    """
    for name, kind in kinds.items():
        array = arrays.get(name)
        if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype != kind:
            got = "none" if array is None else str(getattr(array, "dtype", type(array).__name__))
            raise error(OptionError, argument, f"{name} of {np.dtype(kind)}", got)


def are_ends(ends: np.ndarray, n_lists: int, n_entries: int) -> bool:
    """Whether an array says where each of some lists ends among entries that stand back to back."""
    if len(ends) != n_lists + 1 or ends[0] != 0 or ends[-1] != n_entries:
        return False
    return bool((ends[1:] >= ends[:-1]).all())
