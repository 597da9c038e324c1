"""What is said between the owner of a store and a client: hello, requests, replies, callbacks.

A frame is a list that begins with a word. After the hello, the client sends one request at a time
on a connection. Before the reply the owner may call the callables that the request named; the
client answers each call.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Self

import msgspec

from hyrecall.base.version import __version__
from hyrecall.errors import error
from hyrecall.memory.sharing.wire import WireError

__all__ = [
    "ANSWER",
    "CALL",
    "FAULT",
    "PROTOCOL",
    "REPLY",
    "REQUEST",
    "STATUS",
    "ClientState",
    "Hello",
    "OwnerState",
    "Welcome",
    "check_peer",
    "peer_of",
]

PROTOCOL: Final = 1
"""Of frames and messages; both sides must have the same."""

REQUEST: Final = "request"  # number, seconds to wait for a turn, message
REPLY: Final = "reply"  # number of the request, value
FAULT: Final = "fault"  # number of the request, what was raised
CALL: Final = "call"  # number of the call, of the callable, arguments, keywords
ANSWER: Final = "answer"  # number of the call, value, what was raised
STATUS: Final = "status"  # a message that every owner answers

_CREDENTIALS = struct.Struct("3i")


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


def peer_of(connection: socket.socket) -> tuple[int, int]:
    """Return the process and the user at the other end of a Unix socket, as the kernel knows
    them.
    """
    # Of a listening socket's owner it is the process that began to listen.
    given = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(given)
    return int(pid), int(uid)


def check_peer(uid: int) -> None:
    """Refuse a process of another user."""
    if uid != os.geteuid():
        raise error(WireError, "peer", f"a process of user {os.geteuid()}", f"one of user {uid}")
