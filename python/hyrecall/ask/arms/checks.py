"""Checks that the constructors of arms share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hyrecall.errors import OptionError, error

__all__ = ["read_arm_name", "read_columns"]


def read_arm_name(name: object) -> None:
    """Check the name of an arm."""
    if not isinstance(name, str) or not name:
        raise error(OptionError, "name", "a name for the arm", repr(name))


def read_columns(argument: str, columns: object) -> tuple[Any, ...]:
    """Take a column or a sequence of them."""
    if isinstance(columns, str) or not isinstance(columns, Sequence):
        columns = (columns,)
    if not columns:
        raise error(OptionError, argument, "at least one column", "none")
    return tuple(columns)
