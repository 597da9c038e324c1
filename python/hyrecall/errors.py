"""Defines every error class that hyrecall raises, and makes their messages.

Each is a :class:`HyrecallError` *and* the built-in error that a caller would expect
(``ValueError``, ...); docs/using-an-index.md lists those that any call may raise. A message has the
form ``argument: expected X, got Y``; ``error.argument`` names the argument. If a line of code fixes
the problem, the message ends in ``; <that line>`` and ``error.remedy`` is the line.
"""

from typing import NamedTuple, TypeVar

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
    "CorruptRemoteError",
    "CorruptStoreError",
    "DTypeError",
    "DeviceMemoryError",
    "DeviceUnavailableError",
    "HyrecallError",
    "IndexMismatchError",
    "IndexNotFoundError",
    "InternalError",
    "KeyConflictError",
    "MissingExtraError",
    "NotFoundError",
    "NotOpenError",
    "OptionError",
    "OwnerError",
    "PushConflictError",
    "RemoteError",
    "RemoteNotFoundError",
    "SaveConflictError",
    "ScopeError",
    "ShapeError",
    "ShardLostError",
    "StaleStatisticsError",
    "StoreBusyError",
    "StoreError",
    "StoreFormatError",
    "StoreMismatchError",
    "StoreNotFoundError",
    "TooManyScansError",
    "UnknownOptionError",
    "VersionConflictError",
    "WriterBusyError",
    "error",
]


class UnknownOptionError(OptionError, TypeError):
    """A call has no option of this name; the message suggests the right one.

    Also a TypeError, which Python raises for an unexpected keyword.
    """


class NotOpenError(OptionError, AttributeError):
    """A store that was not awaited is used; the message says how it is opened.

    Also an AttributeError, which Python raises for a method that an object lacks.
    """

    # Also an AttributeError, which Python raises for a method that an object lacks.


class WriterBusyError(HyrecallError, RuntimeError):
    """Another writer holds this index or store."""


class SaveConflictError(HyrecallError, RuntimeError):
    """The folder holds a version that the index to be saved does not contain, and would lose it."""


class PushConflictError(HyrecallError, RuntimeError):
    """The remote place holds a generation that this push would replace without knowing it."""


class MissingExtraError(HyrecallError, ImportError):
    """An optional dependency is not installed; the message has the install command."""


class IndexNotFoundError(CorruptIndexError, FileNotFoundError):
    """There is no saved index at the path."""


class IndexMismatchError(OptionError):
    """A saved index has vectors of another embedder; the message names both."""


class ShardLostError(HyrecallError, RuntimeError):
    """A shard of an index does not answer: its process ended, or took too long."""


class StaleStatisticsError(OptionError):
    """The documents of a shard have changed since its statistics were counted; count again."""


class NotFoundError(HyrecallError, LookupError):
    """The caller has no memory of this id; another user may or may not have one."""


class VersionConflictError(HyrecallError, ValueError):
    """A memory has another version than the one that a change was made for; nothing is changed."""


class StoreError(HyrecallError, OSError):
    """The disk or SQLite failed, and nothing was written. ``errno`` is set if the cause is known.

    One exception: if only the last sync of a commit failed, the whole commit may be present when
    the store is reopened.
    """


class StoreNotFoundError(StoreError, FileNotFoundError):
    """There is no store at the path."""


class CorruptStoreError(StoreError):
    """The database of a store is damaged."""


class StoreFormatError(StoreError):
    """The file is not a hyrecall store, or has a newer format than this version supports."""


class StoreMismatchError(OptionError):
    """A store is open in another process with other settings; the message names what differs."""


class StoreBusyError(HyrecallError, RuntimeError):
    """The process that owns the store has too much to do.

    ``retry_after`` is a number of seconds after which to try again.
    """

    retry_after: float = 1.0


class TooManyScansError(HyrecallError, RuntimeError):
    """One caller of a service has too many long searches of texts under way; try again."""


class OwnerError(StoreError):
    """The process that owns the store cannot be asked; the message has its pid.

    A change that was under way may have been made.
    """


class RemoteError(HyrecallError, OSError):
    """A remote place that holds pushed generations cannot be reached, or refuses a request."""


class RemoteNotFoundError(RemoteError, FileNotFoundError):
    """Nothing was pushed to the remote place yet."""


class CorruptRemoteError(RemoteError):
    """What a remote place holds, or the file REMOTE of a folder, is damaged or incomplete."""


E_ = TypeVar("E_", bound=HyrecallError)


def error(kind: type[E_], argument: str, expected: str, got: object, remedy: str = "") -> E_:
    """Make an error with the message ``argument: expected X, got Y`` and the field ``argument``.

    `remedy` is Python code; the command line leaves it out of the message. Lone surrogates are
    escaped in all parts, so that the message can always be printed.
    """
    argument, remedy = _printable(argument), _printable(remedy)
    told = _printable(f"{argument}: expected {expected}, got {got}")
    made = kind(told + (f"; {remedy}" if remedy else ""))
    made.argument = argument
    vars(made)["remedy"] = remedy
    return made


def _printable(text: object) -> str:
    return str(text).encode("utf-8", "backslashreplace").decode()


# ---- What an error is to a caller: over HTTP, over MCP, and on the command line ----

REFUSED, USAGE, CORRUPT, INTERNAL = 1, 2, 3, 4  # exit codes


class ErrorOutcome(NamedTuple):
    """The status of HTTP and the exit code of an error. From 500 on, the server is at fault."""

    status: int
    code: int = REFUSED


_OUTCOMES = {
    HyrecallError: ErrorOutcome(500),
    InternalError: ErrorOutcome(500, INTERNAL),
    OptionError: ErrorOutcome(422),
    DTypeError: ErrorOutcome(422),
    ShapeError: ErrorOutcome(422),
    ScopeError: ErrorOutcome(403),
    NotFoundError: ErrorOutcome(404),
    KeyConflictError: ErrorOutcome(409),
    VersionConflictError: ErrorOutcome(412),
    TooManyScansError: ErrorOutcome(429),
    MissingExtraError: ErrorOutcome(501, USAGE),
    CorruptIndexError: ErrorOutcome(500, CORRUPT),
    IndexNotFoundError: ErrorOutcome(503),
    CorruptStoreError: ErrorOutcome(500, CORRUPT),
    StoreFormatError: ErrorOutcome(503, CORRUPT),
    CorruptRemoteError: ErrorOutcome(500, CORRUPT),
    **dict.fromkeys(
        (StoreError, StoreBusyError, StoreMismatchError, WriterBusyError, ShardLostError,
         StaleStatisticsError),
        ErrorOutcome(503),
    ),
}  # fmt: skip


def outcome_of(fault: HyrecallError) -> ErrorOutcome:
    """Return what stands in the table for the class of an error, or for the nearest above it."""
    return next(_OUTCOMES[kind] for kind in type(fault).__mro__ if kind in _OUTCOMES)


def without_remedy(fault: BaseException) -> str:
    """Return an error's message without the remedy, which is Python code."""
    text, remedy = str(fault), getattr(fault, "remedy", "")
    return text.replace(f"; {remedy}", "") if remedy else text


def type_and_place(fault: BaseException) -> str:
    """Return what a log may say of any error, whose message and locals may hold texts."""
    trace, place = fault.__traceback__, "?"
    while trace is not None:
        place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    return f"{type(fault).__name__} at {place}"
