"""Checks the caller's keys for the queries of a batch, a column of its hits."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall.base.arguments import as_list, python_scalar
from hyrecall.errors import DTypeError, OptionError, error

__all__ = ["NAME", "keys_of", "read_query_keys"]

NAME = "query_key"
"""The result column with the keys."""


def read_query_keys(given: Any, columns: tuple[str, ...]) -> pa.Array | None:
    """Check one key per query, all str or all int, and convert them to an Arrow array."""
    # The result is None if the call has no keys.
    if given is None:
        return None
    wish = "a sequence of str or of int keys, one per query"
    values = as_list(given)
    if isinstance(values, np.ndarray) and values.ndim == 1:
        values = values.tolist()
    if not isinstance(values, list | tuple):
        raise error(DTypeError, "query_keys", wish, f"{type(given).__name__} {given!r}")
    keys = [python_scalar(key) for key in values]
    kind = str if keys and isinstance(keys[0], str) else int
    for at, key in enumerate(keys):
        if not isinstance(key, kind) or isinstance(key, bool):
            raise error(DTypeError, f"query_keys[{at}]", wish, f"{type(key).__name__} {key!r}")
    if NAME in columns:
        raise error(OptionError, "query_keys", f"no column of the index named {NAME!r}", "one")
    try:
        return pa.array(keys, pa.string() if kind is str else pa.int64())
    except (OverflowError, pa.ArrowInvalid, UnicodeEncodeError) as fault:
        raise error(OptionError, "query_keys", wish, fault) from None


def keys_of(keys: pa.Array, asked: npt.NDArray[np.bool_]) -> pa.Array:
    """Return the keys with null for all queries that are not `asked`."""
    # if_else would leave the bytes of the other keys in its buffers.
    return keys.take(pa.array(np.arange(len(keys)), mask=~asked))
