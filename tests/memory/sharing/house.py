"""A server of messages for tests, and its fixtures."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from hyrecall.errors import (
    NotFoundError,
    OptionError,
    StoreError,
    StoreMismatchError,
    error,
)
from seams import ClientState, Codec, Connections, Hello, Limits, OwnerState, Server

CODEC = Codec([OwnerState, ClientState])
OPENED: list[Connections] = []


class House:
    """A server in a folder, with the messages that tests send."""

    def __init__(self, folder: Path, limits: Limits | None = None) -> None:
        self.path = str(folder / "s")
        self.gate = threading.Event()
        self.started = threading.Semaphore(0)
        self.hello_of: list[Any] = []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(64)
        self.server = Server(CODEC, self.answer, self.admit, limits)
        self.server.start(self.listener)
        self.server.ready()

    def admit(self, about: Any) -> dict[str, str | int | None]:
        self.hello_of.append(dict(about))
        if about.get("recipe") == "other":
            raise error(StoreMismatchError, "recipe", "loom", "other")
        return {"recipe": "loom"}

    def answer(self, message: Any) -> Any:
        match message:
            case ["echo", value]:
                return value
            case ["wait", value]:
                self.started.release()
                assert self.gate.wait(60)
                return value
            case ["raise", name]:
                raise FAULTS[name]
            case ["call", function, *args]:
                return function(*args)
            case ["call later", function]:
                threading.Thread(target=lambda: suppressed(function)).start()
                time.sleep(0.05)
                return "left behind"
        raise AssertionError(message)

    def connect(self) -> socket.socket:
        made = socket.socket(socket.AF_UNIX)
        try:
            made.connect(self.path)
        except OSError:
            made.close()
            raise
        return made

    def connections(self, about: dict[str, Any] | None = None) -> Connections:
        made = Connections(self.connect, CODEC, Hello(os.getpid(), about=about or {}))
        OPENED.append(made)
        return made


def suppressed(function: Callable[[], object]) -> None:
    with suppress(Exception):
        function()


def stored() -> StoreError:
    fault = error(StoreError, "store", "room", "none", "df")
    fault.errno = 28
    return fault


FAULTS: dict[str, Exception] = {
    "option": error(OptionError, "limit", "an int", "'x'", "limit=1"),
    "not found": error(NotFoundError, "id", "a memory that is there", "'a'"),
    "store": stored(),
    "builtin": KeyError("key", 5),
    "index": IndexError("no such match"),
    "memory": MemoryError(),
    "unknown": type("OwnError", (Exception,), {})("told"),
    "unknown parts": type("OwnError", (Exception,), {})(Path("/x"), 5),
}
