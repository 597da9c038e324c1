"""Checks arguments of arms' constructors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hyrecall.errors import OptionError, error

__all__ = ["read_arm_name", "read_columns"]


def read_arm_name(name: object) -> None:
    """Refuse a name that is not a non-empty str."""
    if not isinstance(name, str) or not name:
        raise error(OptionError, "name", "a name for the arm", repr(name))


def read_columns(argument: str, columns: object) -> tuple[Any, ...]:
    """Convert one column or a sequence of columns to a tuple."""
    if isinstance(columns, str) or not isinstance(columns, Sequence):
        columns = (columns,)
    if not columns:
        raise error(OptionError, argument, "at least one column", "none")
    return tuple(columns)
