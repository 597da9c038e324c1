"""Turns plain data into bytes and back, exactly: MessagePack with an allow-list of classes.

None, bool, int, float, str, bytes, list, tuple, dict, set, dates and times, numpy arrays and
scalars, and instances of the listed classes cross; nothing else does. A listed class is made by its
own constructor, so that whatever it checks is checked again. A callable crosses as a number: the
other side gets a function that calls back over the same connection.

Every list, and every value that MessagePack has no type for, is an array of a number, which says
what it is, and its parts; bytes are an extension type. MessagePack's maps are refused before one is
made: their keys may be arrays, and thousands of them could be chosen to have the same hash.
"""

from __future__ import annotations

import builtins
import contextlib
import contextvars
import dataclasses
import datetime as dt
import enum
import inspect
import itertools
import math
import os
import queue
import select
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, Self, TypeAlias
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
from msgspec.msgpack import Ext

from hyrecall import errors
from hyrecall.base import threads
from hyrecall.base.arguments import MOST_ALIKE, check_hashes
from hyrecall.base.asking import LENGTH
from hyrecall.base.forks import renew_in_children
from hyrecall.base.version import __version__
from hyrecall.errors import HyrecallError, error
from hyrecall.memory.data.matches import DegradedReason
from hyrecall.memory.derived.layout import IndexNotReadyError

Naming: TypeAlias = "Callable[[Callable[..., Any]], int]"
"""Gives a callable the number under which the other side calls it."""

Calling: TypeAlias = "Callable[[int], Callable[..., Any]]"
"""Returns the function that calls the callable of a number on the other side."""

_LIST, _TUPLE, _MAP, _SET, _FROZEN_SET, _BIG_INT = 0, 1, 2, 3, 4, 5
_DATETIME, _UTC, _DATE, _TIME, _DELTA = 6, 7, 8, 9, 10
_ARRAY, _SCALAR, _OBJECT, _MEMBER, _CALLABLE, _KEPT = 11, 12, 13, 14, 15, 16
_BYTES: Final = 0  # the only extension type

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
_LEAST_INT, _MOST_INT = -(2**63), 2**63 - 1
_MOST_KEPT = 256
_LARGEST_KEPT = 2**16  # bytes
_ELEMENTS: Final = "biufmMUS"  # kinds of numpy dtypes whose elements are plain bytes


class _Tagged(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """A value of a type that its number names."""

    tag: int
    parts: list[_Value] | int | str | Ext


_Value: TypeAlias = bool | int | float | str | Ext | _Tagged | None
_decoder = msgspec.msgpack.Decoder(_Value)
_kept_decoder = msgspec.msgpack.Decoder(list[_Value])


class WireError(HyrecallError, ValueError):
    """Bytes that are no message, or a value that cannot be sent."""


@dataclasses.dataclass(frozen=True)
class ClassCodec:
    """How instances of a class are encoded and made again."""

    of: type
    parts: Callable[[Any], Iterable[Any]]
    make: Callable[..., Any]
    is_kept: bool = False

    @classmethod
    def read(cls, of: type) -> ClassCodec:
        """Return the kind of a dataclass, a named tuple or a pydantic model."""
        if dataclasses.is_dataclass(of):
            names = tuple(field.name for field in dataclasses.fields(of))
            is_made = vars(of)["__dataclass_params__"].init
            if not is_made or not all(field.init for field in dataclasses.fields(of)):
                raise TypeError(f"{of.__name__} has fields that its constructor does not take")
        elif issubclass(of, tuple) and hasattr(of, "_fields"):
            return cls(of, tuple, of)
        elif hasattr(of, "model_fields"):
            names = tuple(of.model_fields)
        else:
            raise TypeError(f"{of.__name__} is no dataclass, named tuple or model")

        def parts(value: Any) -> Iterable[Any]:
            return (getattr(value, name) for name in names)

        def make(*values: Any) -> Any:
            return of(**dict(zip(names, values, strict=True)))

        return cls(of, parts, make)


class Codec:
    """Encodes and decodes messages. Threads may share it."""

    def __init__(self, classes: Iterable[type | ClassCodec]) -> None:
        """Read the classes; two of one name are refused."""
        self._kinds: dict[str, ClassCodec] = {}
        self._enums: dict[str, type[enum.Enum]] = {}
        self._names: dict[type, str] = {}
        self._kept_bytes = lru_cache(_MOST_KEPT)(self._bytes_of_kept)
        self._kept_values = lru_cache(_MOST_KEPT)(self._value_of_kept)
        for one in classes:
            of = one.of if isinstance(one, ClassCodec) else one
            if of.__name__ in self._kinds or of.__name__ in self._enums:
                raise TypeError(f"two classes have the name {of.__name__}")
            if isinstance(one, ClassCodec):
                self._kinds[of.__name__] = one
            elif issubclass(of, enum.Enum):
                self._enums[of.__name__] = of
            else:
                self._kinds[of.__name__] = ClassCodec.read(of)
            self._names[of] = of.__name__

    def encode(self, value: object, name: Naming | None = None) -> bytes:
        """Return the bytes of a value."""
        try:
            return msgspec.msgpack.encode(self._lower(value, name))
        except RecursionError:
            raise error(WireError, "message", "less nesting", "too much") from None
        except UnicodeEncodeError:
            raise error(WireError, "message", "texts of Unicode", "a lone surrogate") from None

    def decode(self, data: bytes | bytearray, call: Calling | None = None) -> Any:
        """Return the value of bytes."""
        try:
            return self._raise(_decoder.decode(data), call)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as fault:
            raise error(WireError, "message", "MessagePack", str(fault)) from None

    # ---- to plain MessagePack ----

    def _lower(self, value: Any, name: Naming | None) -> Any:
        kind = type(value)
        if kind in _AS_IS:
            return value
        if kind in self._names:
            return self._lower_named(value, self._names[kind], name)
        if kind is list:
            return [_LIST, [self._lower(one, name) for one in value]]
        if kind in _LOWERED:
            return _LOWERED[kind](value)
        return self._lower_collection(value, name)

    def _lower_collection(self, value: Any, name: Naming | None) -> Any:
        if isinstance(value, Mapping):
            pairs = ((self._lower(key, name), self._lower(one, name)) for key, one in value.items())
            return [_MAP, [part for pair in pairs for part in pair]]
        if isinstance(value, np.ndarray | np.generic):
            return _lower_array(value)
        tag = _COLLECTIONS.get(type(value))
        if tag is not None:
            return [tag, [self._lower(one, name) for one in value]]
        if callable(value) and name is not None:
            return [_CALLABLE, name(value)]
        raise error(WireError, "message", "plain data", type(value).__name__)

    def _lower_named(self, value: Any, named: str, name: Naming | None) -> Any:
        if named in self._enums:
            return [_MEMBER, [named, value.name]]
        kind = self._kinds[named]
        if kind.is_kept:
            with contextlib.suppress(TypeError, WireError):  # no hash, or a callable in it
                return [_KEPT, Ext(_BYTES, self._kept_bytes(value))]
        parts = [self._lower(one, name) for one in kind.parts(value)]
        return [_OBJECT, [named, *parts]]

    def _bytes_of_kept(self, value: Any) -> bytes:
        named = self._names[type(value)]
        parts = [self._lower(one, None) for one in self._kinds[named].parts(value)]
        return msgspec.msgpack.encode([named, *parts])

    # ---- and back ----

    def _raise(self, value: Any, call: Calling | None) -> Any:
        if type(value) is Ext:
            return _checked(_bytes, value)
        if type(value) is not _Tagged:
            return value
        of, read = _READERS.get(value.tag, (None, None))
        if of is None or type(value.parts) is not of:
            raise error(WireError, "message", "a known type", f"number {value.tag}")
        if read is not None:
            return _checked(read, value.parts)
        return self._raise_collection(value.tag, value.parts, call)

    def _raise_collection(self, tag: int, parts: Any, call: Calling | None) -> Any:
        if tag == _OBJECT:
            return self._raise_object(parts, call)
        if tag == _MEMBER:
            return self._raise_member(parts)
        if tag == _KEPT:
            parts = _checked(_bytes, parts)
            is_small = len(parts) <= _LARGEST_KEPT
            return self._kept_values(parts) if is_small else self._value_of_kept(parts)
        if tag == _CALLABLE:
            if call is None:
                raise error(WireError, "message", "no callable here", "one")
            return call(parts)
        given = [self._raise(one, call) for one in parts]
        return _checked(_GATHERED[tag], given)

    def _value_of_kept(self, data: bytes) -> Any:
        return self._raise_object(_kept_decoder.decode(data), None)

    def _raise_object(self, parts: list[Any], call: Calling | None) -> Any:
        named = parts[0] if parts else None
        kind = self._kinds.get(named) if type(named) is str else None
        if kind is None:
            raise error(WireError, "message", "a class that crosses", repr(named)[:80])
        given = [self._raise(one, call) for one in parts[1:]]
        try:
            return kind.make(*given)
        except HyrecallError:
            raise
        except Exception as fault:  # pydantic's, or for instance of a wrong number of parts
            # Its text may quote what was sent.
            got = type(fault).__name__
            raise error(WireError, "message", f"the fields of {named}", got) from None

    def _raise_member(self, parts: list[Any]) -> enum.Enum:
        if len(parts) == 2 and all(type(part) is str for part in parts):
            members = self._enums.get(parts[0])
            if members is not None and parts[1] in members.__members__:
                return members[parts[1]]
        raise error(WireError, "message", "a member of an enumeration", repr(parts)[:80])


_AS_IS = {type(None), bool, float, str}


def _lower_int(value: int) -> Any:
    return value if _LEAST_INT <= value <= _MOST_INT else [_BIG_INT, hex(value)]


def _lower_bytes(value: bytes | bytearray | memoryview) -> Ext:
    return Ext(_BYTES, bytes(value))


def _lower_datetime(value: dt.datetime) -> Any:
    zone = value.tzinfo
    if zone is dt.UTC:
        return [_UTC, (value - _EPOCH) // _MICROSECOND]
    told: Any = None
    if isinstance(zone, ZoneInfo) and zone.key is not None:
        told = zone.key
    elif zone is not None:
        offset = value.utcoffset()
        told = None if offset is None else offset // _MICROSECOND
    day = [value.year, value.month, value.day]
    parts = [value.hour, value.minute, value.second, value.microsecond, value.fold]
    return [_DATETIME, [*day, *parts, told]]


def _lower_time(value: dt.time) -> Any:
    if value.tzinfo is not None:
        raise error(WireError, "message", "a time of day without a zone", "one with a zone")
    return [_TIME, [value.hour, value.minute, value.second, value.microsecond, value.fold]]


def _lower_array(value: np.ndarray[Any, Any] | np.generic) -> Any:
    if value.dtype.kind not in _ELEMENTS:
        raise error(WireError, "message", "numbers or texts in an array", str(value.dtype))
    tag = _ARRAY if isinstance(value, np.ndarray) else _SCALAR
    return [tag, [value.dtype.str, *np.shape(value), Ext(_BYTES, value.tobytes())]]


_LOWERED: dict[type, Callable[[Any], Any]] = {
    int: _lower_int,
    dt.datetime: _lower_datetime,
    dt.date: lambda value: [_DATE, [value.year, value.month, value.day]],
    dt.time: _lower_time,
    dt.timedelta: lambda value: [_DELTA, [value.days, value.seconds, value.microseconds]],
    bytes: _lower_bytes,
    bytearray: _lower_bytes,
    memoryview: _lower_bytes,
}
_COLLECTIONS: dict[type, int] = {tuple: _TUPLE, set: _SET, frozenset: _FROZEN_SET}


def _bytes(value: Ext) -> bytes:
    if value.code != _BYTES:
        raise ValueError("extension")
    return bytes(value.data)


def _datetime(parts: list[Any]) -> dt.datetime:
    *numbers, fold, told = parts
    return dt.datetime(*numbers).replace(tzinfo=_zone(told), fold=fold)


def _zone(told: Any) -> dt.tzinfo | None:
    if isinstance(told, str):
        return ZoneInfo(told)
    return None if told is None else dt.timezone(dt.timedelta(microseconds=told))


def _array(parts: list[Any]) -> np.ndarray[Any, Any]:
    name, *shape, data = parts
    dtype = np.dtype(name)
    # Elements without a byte would let no bytes at all say any shape.
    if type(name) is not str or dtype.kind not in _ELEMENTS or not dtype.itemsize:
        raise ValueError("dtype")
    if not all(type(extent) is int and extent >= 0 for extent in shape):
        raise ValueError("shape")
    data = _bytes(data)
    if math.prod(shape) * dtype.itemsize != len(data):
        raise ValueError("size")
    if not data:
        return np.zeros(shape, dtype)
    return np.frombuffer(data, dtype).reshape(shape).copy()


def _scalar(parts: list[Any]) -> Any:
    return _array(parts)[()]


def _mapping(parts: list[Any]) -> dict[Any, Any]:
    return dict(zip(_spread(parts[::2]), parts[1::2], strict=True))


def _spread(given: list[Any]) -> list[Any]:
    """Refuse values chosen to collide, as multiples of 2^61 - 1, or pairs that begin with them."""
    # A set or a dict of them takes quadratic time; constructors of classes make some of lists.
    if len(given) > MOST_ALIKE and not set(map(type, given)) <= _AS_IS:
        check_hashes(given)
        check_hashes([one[0] for one in given if type(one) in (tuple, list) and one])
    return given


# What a collection of decoded parts becomes.
_GATHERED: dict[int, Callable[[list[Any]], Any]] = {
    _LIST: _spread,
    _TUPLE: lambda parts: tuple(_spread(parts)),
    _MAP: _mapping,
    _SET: lambda parts: set(_spread(parts)),
    _FROZEN_SET: lambda parts: frozenset(_spread(parts)),
}

# For each tag: the type of what it marks, and the function that reads that, if nothing is inside.
_READERS: dict[int, tuple[type, Callable[[Any], Any] | None]] = {
    **dict.fromkeys((_LIST, _TUPLE, _MAP, _SET, _FROZEN_SET, _OBJECT, _MEMBER), (list, None)),
    _CALLABLE: (int, None),
    _KEPT: (Ext, None),
    _BIG_INT: (str, lambda parts: int(parts, 16)),
    _UTC: (int, lambda parts: _EPOCH + parts * _MICROSECOND),
    _DATETIME: (list, _datetime),
    _DATE: (list, lambda parts: dt.date(*parts)),
    _TIME: (list, lambda parts: dt.time(*parts[:-1], fold=parts[-1])),
    _DELTA: (list, lambda parts: dt.timedelta(*parts)),
    _ARRAY: (list, _array),
    _SCALAR: (list, _scalar),
}


def _checked(make: Callable[[Any], Any], parts: Any) -> Any:
    """Return what a function makes; whatever it raises means that the bytes are no message."""
    try:
        return make(parts)
    except Exception as fault:  # also ZoneInfoNotFoundError, OverflowError, numpy's
        got = type(fault).__name__
        raise error(WireError, "message", "a value of its type", got) from None


# ---- Sends and receives whole frames over a connection: four bytes of length, then as many bytes

MOST_BYTES = 2**30
"""Bytes of a frame at most: a batch of some 250,000 memories with vectors of 768 numbers."""

# A send to a peer that has gone is no signal, also in a program that would not ignore it.
_QUIET: Final[int] = getattr(socket, "MSG_NOSIGNAL", 0)
_NO_SIGNAL: Final = 0x1022  # SO_NOSIGPIPE of macOS, where a send may have no such flag

_PIECE = 2**18  # bytes received at a time: memory grows with what has come, not with a claim


class ConnectionLost(Exception):  # noqa: N818
    """The other process closed the connection. Raised inside the package only."""


class Frames:
    """A connection that carries frames. One thread receives at a time; any thread may send."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        if not _QUIET:
            connection.setsockopt(socket.SOL_SOCKET, _NO_SIGNAL, 1)
        self._connection = connection
        self._sending = threading.Lock()
        self._received = bytearray()
        renew_in_children(self)

    def send(self, payload: bytes, *, patience: float | None = None) -> None:
        """Send a frame. After any error the connection is of no use: half a frame may be sent."""
        if len(payload) > MOST_BYTES:
            raise error(WireError, "message", f"at most {MOST_BYTES} bytes", len(payload))
        head = LENGTH.pack(len(payload))
        with self._sending:
            try:
                if len(payload) < _PIECE:
                    self._send(head + payload, patience)
                else:
                    self._send(head, patience)
                    self._send(payload, patience)
            except BaseException as fault:
                self.end()
                if isinstance(fault, OSError) and not isinstance(fault, TimeoutError):
                    raise ConnectionLost(str(fault)) from None
                raise

    def _send(self, data: bytes, patience: float | None) -> None:
        left = memoryview(data)
        while left:
            try:
                left = left[self._connection.send(left, _QUIET) :]
            except BlockingIOError:
                self._wait(select.POLLOUT, patience)

    def receive(self, *, most: int = MOST_BYTES, timeout: float | None = None) -> bytes:
        """Return the next frame."""
        until = None if timeout is None else time.monotonic() + timeout
        try:
            self._fill(LENGTH.size, until)
            (length,) = LENGTH.unpack_from(self._received)
            if length > most:
                raise error(WireError, "message", f"at most {most} bytes", length)
            self._fill(LENGTH.size + length, until)
        except TimeoutError:
            raise
        except OSError as fault:
            raise ConnectionLost(str(fault)) from None
        payload = bytes(memoryview(self._received)[LENGTH.size : LENGTH.size + length])
        del self._received[: LENGTH.size + length]
        return payload

    def _fill(self, n_bytes: int, until: float | None) -> None:
        while (missing := n_bytes - len(self._received)) > 0:
            try:
                piece = self._connection.recv(min(missing, _PIECE))
            except BlockingIOError:
                left = None if until is None else max(until - time.monotonic(), 0.0)
                self._wait(select.POLLIN, left)
                continue
            if not piece:
                raise ConnectionLost("closed")
            self._received += piece

    def _wait(self, event: int, seconds: float | None) -> None:
        poll = select.poll()
        try:
            poll.register(self._connection, event)
        except ValueError:
            raise ConnectionLost("closed") from None
        if not poll.poll(None if seconds is None else seconds * 1000):
            raise TimeoutError

    def has_ended(self) -> bool:
        """Return whether the other side has closed the connection; does not wait."""
        try:
            return not self._connection.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def end(self) -> None:
        """Let every thread that receives or sends find the connection lost; for another thread."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection. Closing twice is fine."""
        self.end()
        self._connection.close()

    def renew(self) -> None:
        """Close the connection in a forked child; left open, it would not end with the parent."""
        self._connection.close()  # not shut down: the parent goes on


# ---- Errors that cross between processes, with their class, message and attributes ----

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


class UnknownClassError(Exception):
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
    """Make an error of its plain data again."""
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
        kind = type(name if is_name else "RemoteError", (UnknownClassError,), {})
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


# ---- The protocol between the owner of a store and a client: hello, requests, replies, callbacks
# A frame is a list that begins with a word. After the hello, the client sends one request at a time
# on a connection. Before the reply the owner may call the callables that the request named; the
# client answers each call.

PROTOCOL: Final = 1
"""Of frames and messages; both sides must have the same."""

REQUEST: Final = "request"  # number, seconds to wait for a turn, message
REPLY: Final = "reply"  # number of the request, value
FAULT: Final = "fault"  # number of the request, what was raised
CALL: Final = "call"  # number of the call, of the callable, arguments, keywords
ANSWER: Final = "answer"  # number of the call, value, what was raised
STATUS: Final = "status"  # a message that every owner answers


class _Greeting:
    """The first frame of a side, before both know that they speak the same protocol."""

    def to_bytes(self) -> bytes:
        """Return the frame."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def of_bytes(cls, data: bytes) -> Self:
        """Read the frame."""
        try:
            return msgspec.msgpack.decode(data, type=cls)
        except (msgspec.MsgspecError, UnicodeDecodeError) as fault:
            raise error(WireError, cls.__name__.lower(), "one of hyrecall", str(fault)) from None


@dataclass(frozen=True)
class Hello(_Greeting):
    """The first frame of a client. Its form outlives protocols: a map of plain values."""

    pid: int
    is_observer: bool = False
    about: Mapping[str, str | int | None] = field(default_factory=dict)
    protocol: int = PROTOCOL
    version: str = __version__


@dataclass(frozen=True)
class Welcome(_Greeting):
    """The reply to a hello."""

    pid: int
    is_opening: bool = False
    refused: str | None = None
    kind: str = ""
    about: Mapping[str, str | int | None] = field(default_factory=dict)
    protocol: int = PROTOCOL
    version: str = __version__


@dataclass(frozen=True)
class ClientState:
    """A process that uses a store through its owner."""

    pid: int
    since: datetime
    requests: int


@dataclass(frozen=True)
class OwnerState:
    """The process that owns a store, and those that use it through the owner."""

    pid: int
    since: datetime
    clients: tuple[ClientState, ...] = ()


def check_peer(uid: int) -> None:
    """Refuse a process of another user."""
    if uid != os.geteuid():
        raise error(WireError, "peer", f"a process of user {os.geteuid()}", f"one of user {uid}")


# ---- Lets the owner call functions of a client, such as rerankers, during that client's request


class Callbacks:
    """The callables that one request names, as functions of the owner."""

    # A function may be called on any thread, also on one that the request left behind: then it
    # raises. Calls of one request take turns.

    def __init__(self, frames: Frames, codec: Codec) -> None:
        self._frames, self._codec = frames, codec
        self._turn = threading.Lock()
        self._numbers = itertools.count()
        self._is_over = False

    def function(self, number: int) -> Callable[..., Any]:
        """Return the function that calls the callable of a number."""

        def call(*args: Any, **keywords: Any) -> Any:
            return self._call(number, args, keywords)

        return call

    def _call(self, number: int, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        with self._turn:
            if self._is_over:
                raise ConnectionLost("the request is over")
            at = next(self._numbers)
            self._frames.send(self._codec.encode([CALL, at, number, args, keywords]))
            told = self._codec.decode(self._frames.receive())
        if not isinstance(told, list) or len(told) != 4 or told[:2] != [ANSWER, at]:
            self._frames.end()
            raise error(WireError, "message", f"the answer to call {at}", "another")
        if told[3] is not None:
            raise raise_fault(told[3])
        return told[2]

    def end(self) -> bool:
        """Refuse further calls; return whether one is still under way, on a thread left behind."""
        # The connection then carries no further request: an answer may come that nobody awaits.
        self._is_over = True
        is_free = self._turn.acquire(blocking=False)
        if is_free:
            self._turn.release()
        return not is_free


class CallbackCaller:
    """Calls the callables of a request for the owner, on one thread and in the order of calls."""

    def __init__(self, frames: Frames, codec: Codec, mine: list[Callable[..., Any]]) -> None:
        self._frames, self._codec, self._mine = frames, codec, mine
        self._calls: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._n_left = 0
        self._counting = threading.Lock()
        self._raised: list[BaseException] = []
        self._context = contextvars.copy_context()
        self._is_started = False

    def __enter__(self) -> CallbackCaller:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._is_started:
            self._calls.put(None)

    @property
    def is_idle(self) -> bool:
        """Whether every call was answered."""
        return not self._n_left

    def put(self, told: Any) -> None:
        """Let the thread make a call."""
        with self._counting:
            self._n_left += 1
        self._calls.put(told)
        if not self._is_started:
            self._is_started = True
            threads.start(self._run, name="hyrecall-callback", stop=lambda: self._calls.put(None))

    def original(self, fault: Exception) -> BaseException:
        """Return the exception of a callable of this process, if the error stands for one."""
        number = vars(fault).get("callback")
        if isinstance(number, int) and 0 <= number < len(self._raised):
            return self._raised[number]
        return fault

    def _run(self) -> None:
        while (told := self._calls.get()) is not None:
            answer = self._context.run(self._answer, told)
            with self._counting:
                self._n_left -= 1
            try:
                self._frames.send(answer)
            except (ConnectionLost, TimeoutError):
                return

    def _answer(self, told: Any) -> bytes:
        _, at, number, args, keywords = told
        try:
            value = self._mine[number](*args, **keywords)
            return self._encoded(at, value)
        except BaseException as fault:
            self._raised.append(fault)
            lowered = lower_fault(fault, self._codec)
            lowered["more"]["callback"] = len(self._raised) - 1
            return self._codec.encode([ANSWER, at, None, lowered])

    def _encoded(self, at: int, value: Any) -> bytes:
        if inspect.isawaitable(value):
            import asyncio

            value = asyncio.run(_result(value))
        try:
            return self._codec.encode([ANSWER, at, value, None])
        except WireError:  # an array of another library
            return self._codec.encode([ANSWER, at, np.asarray(value, np.float64), None])


async def _result(value: Awaitable[Any]) -> Any:
    return await value
