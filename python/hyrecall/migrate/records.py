"""Defines the one form that records of other systems are read as, and what a reader hands over."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from typing import Any, TypeAlias
from uuid import UUID

import numpy as np
import numpy.typing as npt

from hyrecall.embed.protocol import norms
from hyrecall.errors import MissingExtraError, error

__all__ = [
    "MOST_LEVELS",
    "Record",
    "Source",
    "Vector",
    "as_vector",
    "field_of",
    "json_fields",
    "needs_package",
    "vector_fault",
]

Vector: TypeAlias = npt.NDArray[np.float32]

_MISSING = object()
MOST_LEVELS = 64
"""Levels of metadata, as in a store."""


@dataclass(frozen=True)
class Record:
    """One record of another system, as it was there.

    Attributes
    ----------
    id : object
        A str or an int; what else a system has is left out with a reason.
    text : object
    vector : ndarray, shape (dim,), float32, or None
    metadata : Mapping
        The other fields. They come along if JSON can hold them.
    names : Mapping, default {}
        Fields beside the metadata that may name a user, and do not come along otherwise.
    created_at : object, default None
        The system's own time of the record, if it has one.
    session_id : object, default None
    dropped : tuple of str, default ()
        Fields that have no place here.
    """

    id: object
    text: object
    vector: Vector | None = None
    metadata: Mapping[str, object] = field(default_factory=dict)
    names: Mapping[str, object] = field(default_factory=dict)
    created_at: object = None
    session_id: object = None
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True)
class Source:
    """An open source of records, which is read once.

    Attributes
    ----------
    system : str
        "chroma", "lancedb", "qdrant", "mem0" or "langchain".
    n_records : int
        How many the system says that there are.
    records : iterator of Record
    dropped : Mapping of str to int, default {}
        What the source has beside records, and how many.
    """

    system: str
    n_records: int
    records: Iterator[Record]
    dropped: Mapping[str, int] = field(default_factory=dict)


def field_of(fields: Mapping[str, object], name: str) -> object:
    """Return a field by its name, or by its path with dots; None if it is not there."""
    if name in fields:
        return fields[name]
    at: object = fields
    for part in name.split("."):
        at = at.get(part, _MISSING) if isinstance(at, Mapping) else _MISSING
        if at is _MISSING:
            return None
    return at


def as_vector(given: object) -> Vector | None:
    """Return numbers as one float32 row; None if they are no row of numbers."""
    if given is None:
        return None
    try:
        with np.errstate(over="ignore"):  # becomes an infinity, which vector_fault names
            row = np.asarray(given, np.float32)
    except (TypeError, ValueError, OverflowError):
        return None
    return row if row.ndim == 1 and row.size else None


def vector_fault(row: Vector) -> str | None:
    """Return why no store and no index takes a vector; None if they do."""
    if not np.isfinite(row).all():
        return "a vector with NaN or infinity"
    found, is_taken = norms(row[None])
    if not found[0]:
        return "a zero vector"
    return None if is_taken[0] else "a vector whose norm is outside [2^-60, 2^60]"


def json_fields(fields: Mapping[str, object]) -> tuple[dict[str, Any], list[str]]:
    """Return the fields that JSON can hold, and the names of the others."""
    # Times and UUIDs become text, numbers of NumPy those of Python.
    kept: dict[str, Any] = {}
    dropped = []
    for name, value in fields.items():
        try:
            kept[name] = _json_value(value, MOST_LEVELS - 1)
        except ValueError:
            dropped.append(name)
    return kept, dropped


def _json_value(value: object, levels: int) -> object:
    """Return a value as JSON has it, or raise ValueError."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, date):  # a datetime is one
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    if value is None or isinstance(value, bool | int | str):
        if isinstance(value, str):
            value.encode()  # a lone surrogate raises a ValueError
        elif isinstance(value, int):
            str(value)  # an int of thousands of digits raises one too
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, list | tuple) and levels:
        return [_json_value(one, levels - 1) for one in value]
    if isinstance(value, Mapping) and levels and all(isinstance(name, str) for name in value):
        return {name: _json_value(one, levels - 1) for name, one in value.items()}
    raise ValueError


@contextmanager
def needs_package(package: str, pip_name: str) -> Iterator[None]:
    """Turn a failed import in the block into an error with the install command."""
    try:
        yield
    except ModuleNotFoundError as fault:
        if (fault.name or "").partition(".")[0] != package:
            raise
        wish = f"the package {pip_name} (pip install {pip_name})"
        raise error(MissingExtraError, "migrate", wish, f"no package {package}") from None
