"""Warns at the line of the program that called the library, however many calls lie between."""

from __future__ import annotations

import contextlib
import contextvars
import os
import sys
import warnings
from types import FrameType
from typing import Any, NamedTuple

__all__ = ["awaited_call", "warn_caller"]

_HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_OURS = (_HOME, contextlib.__file__)  # which stands between calls of the package


class _Place(NamedTuple):
    path: str
    line: int
    namespace: dict[str, Any]


_awaited: contextvars.ContextVar[_Place | None] = contextvars.ContextVar("awaited", default=None)


def awaited_call() -> contextvars.Context:
    """Return a copy of the context for a call on a thread, which knows the line that awaits it."""
    context, place = contextvars.copy_context(), _outside(sys._getframe(1))
    context.run(_awaited.set, place)
    return context


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn at the nearest line outside of the package."""
    place = _awaited.get() or _outside(sys._getframe(1))
    if place is None:
        warnings.warn(message, category, stacklevel=2)
        return
    module = place.namespace.get("__name__", "<unknown>")
    registry = place.namespace.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, category, place.path, place.line, module, registry)


def _outside(frame: FrameType | None) -> _Place | None:
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    if frame is None:
        return None
    return _Place(frame.f_code.co_filename, frame.f_lineno, frame.f_globals)
