"""Errors that cross between processes, with their class, message and attributes."""

from __future__ import annotations

import builtins
from typing import Any, Final

import msgspec

from hyrecall import errors
from hyrecall.errors import HyrecallError, error
from hyrecall.memory.data.degradation import DegradedReason
from hyrecall.memory.derived.readiness import IndexNotReadyError
from hyrecall.memory.sharing.wire import Codec, WireError

__all__ = ["RemoteError", "lower_fault", "raise_fault"]

_OURS: Final = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, HyrecallError)
} | {WireError.__name__: WireError}
_BUILT_IN: Final = {
    name: kind
    for name, kind in vars(builtins).items()
    if isinstance(kind, type)
    and issubclass(kind, Exception)
    and not issubclass(kind, Warning | ExceptionGroup | UnicodeError)
}
_LONGEST_NAME = 200


class RemoteError(Exception):
    """Base of an error whose class the other process does not have; its subclass has its name."""


def lower_fault(fault: BaseException, codec: Codec) -> dict[str, Any]:
    """Return an error as plain data."""
    if isinstance(fault, IndexNotReadyError):
        return {"kind": "IndexNotReadyError", "args": [str(fault.reason), fault.detail], "more": {}}
    more = {
        name: value
        for name, value in vars(fault).items()
        if not name.startswith("_") and _crosses(value, codec)
    }
    if isinstance(fault, OSError) and fault.errno is not None:
        more["errno"] = fault.errno
    args = [one if _crosses(one, codec) else str(one) for one in fault.args]
    return {"kind": type(fault).__name__, "args": args, "more": more}


def raise_fault(told: object) -> Exception:
    """Return the error that plain data tells of."""
    if not isinstance(told, dict) or set(told) != {"kind", "args", "more"}:
        return error(WireError, "fault", "one of hyrecall", type(told).__name__)
    name, args, more = told["kind"], told["args"], told["more"]
    if not isinstance(name, str) or not isinstance(args, list) or not isinstance(more, dict):
        return error(WireError, "fault", "one of hyrecall", "another")
    if name == "IndexNotReadyError" and len(args) == 2:
        return IndexNotReadyError(DegradedReason(args[0]), str(args[1]))
    kind = _OURS.get(name) or _BUILT_IN.get(name)
    if kind is None:
        is_name = name.isidentifier() and len(name) <= _LONGEST_NAME
        kind = type(name if is_name else "RemoteError", (RemoteError,), {})
    made: Exception = kind(*args)
    for attribute, value in more.items():
        if isinstance(attribute, str) and not attribute.startswith("_"):
            setattr(made, attribute, value)
    return made


def _crosses(value: object, codec: Codec) -> bool:
    try:
        codec.encode(value)
    except (WireError, msgspec.MsgspecError):
        return False
    return True
