"""Converts ``filter=``, a filter or an Arrow compute expression, to a filter."""

from __future__ import annotations

from hyrecall.ask.filters import Filter
from hyrecall.errors import OptionError, error

__all__ = ["read_filter"]


def read_filter(argument: str, given: object) -> Filter | None:
    """Convert ``filter=``, a filter, an Arrow compute expression or None, to a filter or None."""
    if given is None or isinstance(given, Filter):
        return given
    import pyarrow.compute as pc

    if isinstance(given, pc.Expression):
        from hyrecall.ask.arrow_conditions import translate

        return translate(given, Filter, argument)
    wish = "an hr.Filter, a pyarrow.compute.Expression or None"
    remedy = f"hr.Filter(**{given!r})" if isinstance(given, dict) else ""
    raise error(OptionError, argument, wish, repr(given), remedy)
