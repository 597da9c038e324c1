"""Every error that hyrecall raises.

All are subclasses of :class:`HyrecallError` *and* of the built-in class a caller would expect
(``ValueError``, ``TypeError``, ...). The message has the form ``argument: expected X, got Y``;
``error.argument`` names the argument. Where a line of code would mend it, the message ends in
``; <that line>`` and ``error.remedy`` is the line.
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
    "CorruptStoreError",
    "DTypeError",
    "DeviceMemoryError",
    "DeviceUnavailableError",
    "HyrecallError",
    "IndexNotFoundError",
    "InternalError",
    "KeyConflictError",
    "MissingExtraError",
    "NotFoundError",
    "OptionError",
    "SaveConflictError",
    "ScopeError",
    "ShapeError",
    "StoreError",
    "StoreFormatError",
    "StoreNotFoundError",
    "UnknownOptionError",
    "WriterBusyError",
    "error",
]


class UnknownOptionError(OptionError, TypeError):
    """A call has no option of this name; the message says which one is meant.

    A TypeError too, as Python raises it for an unexpected keyword.
    """


class WriterBusyError(HyrecallError, RuntimeError):
    """Another writer holds this index or store."""


class SaveConflictError(HyrecallError, RuntimeError):
    """The folder holds a version of an index that the one to be saved does not contain."""


class MissingExtraError(HyrecallError, ImportError):
    """An optional part is asked for that is not installed; the message has the install line."""


class IndexNotFoundError(CorruptIndexError, FileNotFoundError):
    """There is nothing at the path of a saved index."""


class NotFoundError(HyrecallError, LookupError):
    """A change names a memory that the caller has not, whether or not somebody else has it."""


class StoreError(HyrecallError, OSError):
    """The disk or SQLite refused; nothing of the call was kept. ``errno`` says why if it is known.

    Only a commit whose last sync failed may turn out to be kept, whole, when the store is reopened.
    """


class StoreNotFoundError(StoreError, FileNotFoundError):
    """There is no store at the path."""


class CorruptStoreError(StoreError):
    """The database of a store is damaged."""


class StoreFormatError(StoreError):
    """The store is of a newer format than this version reads or writes, or is none of ours."""


E_ = TypeVar("E_", bound=HyrecallError)


def error(kind: type[E_], argument: str, expected: str, got: object, remedy: str = "") -> E_:
    """Make an error that says ``argument: expected X, got Y`` and carries ``.argument``.

    A remedy is Python: whoever shows the message to somebody who writes none can leave it out. A
    lone surrogate is shown as its escape, in all parts: the error can be printed anywhere.
    """
    argument, remedy = _printable(argument), _printable(remedy)
    told = _printable(f"{argument}: expected {expected}, got {got}")
    made = kind(told + (f"; {remedy}" if remedy else ""))
    made.argument = argument
    vars(made)["remedy"] = remedy
    return made


def _printable(text: object) -> str:
    return str(text).encode("utf-8", "backslashreplace").decode()
