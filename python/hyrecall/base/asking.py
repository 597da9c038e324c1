"""One question to the owner of a store, and its answer: what a short command can afford to load.

A process that has loaded what a store needs speaks as in :mod:`hyrecall.memory.sharing`. Here a
connection carries one frame of JSON each way: four bytes of length, then an object. A hello of the
others is MessagePack, which never begins with a brace.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from hyrecall.base.version import __version__

SOCKET: Final = "owner.sock"
"""The owner's socket in the folder of a store."""

LENGTH: Final = struct.Struct("<I")
"""The head of a frame."""

MOST_BYTES_OF_HELLO: Final = 2**16
"""Bytes of the first frame, before it is known who speaks."""

LONGEST_PATH: Final = 103 if sys.platform == "darwin" else 107
"""Bytes of the path of a Unix socket."""

_CREDENTIALS = struct.Struct("3i")
_OF_MACOS = struct.Struct("2I68x")  # struct xucred: its version, the user, the groups
_SOL_LOCAL, _PEER_CREDENTIALS, _PEER_PROCESS = 0, 1, 2
_SECONDS = 3.0  # for all of it: whoever waits longer opens the store


def peer_of(connection: socket.socket) -> tuple[int, int]:
    """Return the process and the user at the other end of a Unix socket, as the kernel knows
    them.
    """
    # Of a listening socket's owner it is the process that began to listen.
    if not hasattr(socket, "SO_PEERCRED"):
        given = connection.getsockopt(_SOL_LOCAL, _PEER_CREDENTIALS, _OF_MACOS.size)
        return connection.getsockopt(_SOL_LOCAL, _PEER_PROCESS), int(_OF_MACOS.unpack(given)[1])
    given = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(given)
    return int(pid), int(uid)


@contextmanager
def address_of(folder: str | os.PathLike[str]) -> Iterator[str]:
    """Give the path of a folder's socket in a form that is short enough."""
    path = os.path.join(folder, SOCKET)
    if len(os.fsencode(path)) <= LONGEST_PATH:
        yield path
        return
    if not hasattr(os, "O_PATH"):  # macOS has no names of open files
        from tempfile import TemporaryDirectory

        with TemporaryDirectory(prefix="hyrecall-") as short:
            link = os.path.join(short, "of")
            os.symlink(os.path.abspath(folder), link)
            yield os.path.join(link, SOCKET)
        return
    handle = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{handle}/{SOCKET}"
    finally:
        os.close(handle)


def ask(folder: str, question: dict[str, Any]) -> dict[str, Any] | None:
    """Return the answer of the owner of a store; None: there is none, or it leaves the question."""
    asked = json.dumps({"version": __version__, **question}, ensure_ascii=False)
    told = asked.encode("utf-8", "surrogatepass")
    if len(told) > MOST_BYTES_OF_HELLO:
        return None
    until = time.monotonic() + _SECONDS
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(_SECONDS)
            with address_of(folder) as address:
                connection.connect(address)
            if peer_of(connection)[1] != os.geteuid():
                return None
            connection.sendall(LENGTH.pack(len(told)) + told)
            (length,) = LENGTH.unpack(_received(connection, LENGTH.size, until))
            found = json.loads(_received(connection, length, until))
    except (OSError, ValueError, struct.error):
        return None
    return found if isinstance(found, dict) and "refused" not in found else None


def _received(connection: socket.socket, length: int, until: float) -> bytes:
    """Return so many bytes, or fewer if the other end stops."""
    found = bytearray()
    while len(found) < length:
        connection.settimeout(max(until - time.monotonic(), 1e-6))
        if not (part := connection.recv(length - len(found))):
            break
        found += part
    return bytes(found)


def read_question(hello: bytes) -> dict[str, Any] | None:
    """Return the question in a first frame of this version; None: it is another hello."""
    if not hello.startswith(b"{"):
        return None
    try:
        asked = json.loads(hello)
    except (ValueError, RecursionError):
        return None
    return asked if asked.pop("version", None) == __version__ else {}


def answer_bytes(answer: dict[str, Any]) -> bytes:
    """Return the payload of the frame with an answer."""
    return json.dumps(answer, ensure_ascii=False, default=str).encode("utf-8", "replace")
