"""Reads ``filter=``: a filter, or an Arrow compute expression, which becomes one."""

from __future__ import annotations

from typing import TypeAlias

import pyarrow.compute as pc

from hyrecall.ask.arrow_conditions import translate
from hyrecall.ask.filters import Filter
from hyrecall.errors import OptionError, error

__all__ = ["FilterLike", "read_filter"]

FilterLike: TypeAlias = Filter | pc.Expression
"""What ``filter=`` takes."""


def read_filter(argument: str, given: object) -> Filter | None:
    """Read ``filter=``: a filter or an Arrow compute expression; None: there is none.

    Raises
    ------
    OptionError
        It is none of these, or an expression that no filter can stand for.
    """
    if given is None or isinstance(given, Filter):
        return given
    if isinstance(given, pc.Expression):
        return translate(given, Filter, argument)
    wish = "an hr.Filter, a pyarrow.compute.Expression or None"
    remedy = f"hr.Filter(**{given!r})" if isinstance(given, dict) else ""
    raise error(OptionError, argument, wish, repr(given), remedy)
