"""Numbers the distinct scopes of a batch."""

from __future__ import annotations

import json
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hyrecall.parts.plain import encode

__all__ = ["Scopes", "distinct_scopes"]


class Scopes(NamedTuple):
    """The distinct scopes of a batch.

    Attributes
    ----------
    scopes : list
    number : ndarray of int64, shape (n_queries,)
        The scope of each query: a place in ``scopes``.
    """

    scopes: list[object]
    number: npt.NDArray[np.int64]


def distinct_scopes(scope: object, n_queries: int) -> Scopes:
    """Return each scope of a batch once; they are compared by value and type."""
    if not isinstance(scope, list):
        return Scopes([scope], np.zeros(n_queries, np.int64))
    numbers: dict[str, int] = {}
    scopes: list[object] = []
    number = np.zeros(n_queries, np.int64)
    for query, one in enumerate(scope[:n_queries]):
        name = json.dumps(encode("scope", one))
        if name not in numbers:
            numbers[name] = len(scopes)
            scopes.append(one)
        number[query] = numbers[name]
    return Scopes(scopes, number)
