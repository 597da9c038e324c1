"""Every error that hyrecall raises.

All are subclasses of :class:`HyrecallError` *and* of the built-in class a caller would expect
(``ValueError``, ``TypeError``, ...). The message has the form ``argument: expected X, got Y``;
``error.argument`` names the argument.
"""

from typing import TypeVar

from hyrecall._core import (
    CorruptIndexError,
    DeviceMemoryError,
    DeviceUnavailableError,
    DTypeError,
    HyrecallError,
    InternalError,
    KeyConflictError,
    OptionError,
    ScopeError,
    ShapeError,
)

__all__ = [
    "CorruptIndexError",
    "DTypeError",
    "DeviceMemoryError",
    "DeviceUnavailableError",
    "HyrecallError",
    "IndexNotFoundError",
    "InternalError",
    "KeyConflictError",
    "MissingExtraError",
    "OptionError",
    "ScopeError",
    "ShapeError",
    "WriterBusyError",
    "error",
]


class WriterBusyError(HyrecallError, RuntimeError):
    """Another writer holds this index."""


class MissingExtraError(HyrecallError, ImportError):
    """An optional part is asked for that is not installed; the message has the install line."""


class IndexNotFoundError(CorruptIndexError, FileNotFoundError):
    """There is nothing at the path of a saved index."""


E_ = TypeVar("E_", bound=HyrecallError)


def error(kind: type[E_], argument: str, expected: str, got: object) -> E_:
    """Make an error that says ``argument: expected X, got Y`` and carries ``.argument``."""
    made = kind(f"{argument}: expected {expected}, got {got}")
    made.argument = argument
    return made
