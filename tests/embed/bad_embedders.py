"""Everything that goes wrong with an embedder, each with the fault that it is told as."""

from __future__ import annotations

import ctypes
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from embed.fakes import Fake
from embed.stub_server import StubServer
from hyrecall.embed import Embedder, EmbedFault, HttpEmbedder

DIM = 4
UNKNOWN_HOST = "embedder.invalid"
SLOW_HOST = "slow.invalid"


@dataclass(frozen=True)
class Bad:
    """One way to go wrong."""

    name: str
    fault: EmbedFault
    make: Callable[[StubServer], Embedder]
    waits: bool = False  # it uses up the budget
    plain: str = "hang"  # what a plain request meets that takes the machine as much work


class _Known(HttpEmbedder):
    """Knows how long its vectors are, as a store that has some does."""

    @property
    def dim(self) -> int | None:
        return DIM


def _at(mode: str) -> Callable[[StubServer], Embedder]:
    return lambda server: _Known(server.url(mode))


def _refused(server: StubServer) -> Embedder:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    return HttpEmbedder(f"http://127.0.0.1:{port}")


def _no_name(server: StubServer) -> Embedder:
    return HttpEmbedder(f"http://{UNKNOWN_HOST}")


def _slow_name(server: StubServer) -> Embedder:
    return HttpEmbedder(f"http://{SLOW_HOST}")


def look_up(host: str, *_: object, **__: object) -> object:
    """Stands in for ``socket.getaddrinfo`` where names are looked up."""
    if host == SLOW_HOST:
        time.sleep(2.5)
    raise socket.gaierror(-2, "Name or service not known")


def patch_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the names of the bad hosts be looked up here and not by the system."""
    real = socket.getaddrinfo

    def looked_up(host: str, *args: object, **kwargs: object) -> object:
        is_ours = host.endswith(".invalid")
        return look_up(host) if is_ours else real(host, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", looked_up)


def _sleeps(server: StubServer) -> Embedder:
    def reply(texts: Sequence[str]) -> object:
        time.sleep(2.5)
        return np.ones((len(texts), DIM))

    return Fake(reply)


def _raises(server: StubServer) -> Embedder:
    def reply(texts: Sequence[str]) -> object:
        raise ValueError("about " + texts[0])

    return Fake(reply)


def _kills(server: StubServer) -> Embedder:
    def reply(texts: Sequence[str]) -> object:
        """End this thread the hard way: an exception from outside, then an exit."""
        me = ctypes.c_ulong(threading.get_ident())
        ctypes.pythonapi.PyThreadState_SetAsyncExc(me, ctypes.py_object(SystemExit))
        sys.exit()

    return Fake(reply)


def _garbage(server: StubServer) -> Embedder:
    return Fake(lambda texts: os.urandom(64))


BAD = (
    Bad("refused", EmbedFault.UNREACHABLE, _refused),
    Bad("unknown name", EmbedFault.UNREACHABLE, _no_name),
    Bad("slow name", EmbedFault.TIMEOUT, _slow_name, waits=True),
    Bad("hangs", EmbedFault.TIMEOUT, _at("hang"), waits=True),
    Bad("drips its head", EmbedFault.TIMEOUT, _at("driphead"), waits=True),
    Bad("drips its body", EmbedFault.TIMEOUT, _at("dripbody"), waits=True),
    Bad("status 500", EmbedFault.UNREACHABLE, _at("status500")),
    Bad("malformed JSON", EmbedFault.MALFORMED, _at("junk")),
    Bad("wrong size", EmbedFault.WRONG_SIZE, _at("wrongsize")),
    Bad("NaN", EmbedFault.MALFORMED, _at("nan")),
    Bad("huge body", EmbedFault.MALFORMED, _at("huge"), plain="huge"),
    Bad("redirect", EmbedFault.MALFORMED, _at("redirect")),
    Bad("closes in the body", EmbedFault.UNREACHABLE, _at("cut")),
    Bad("sleeps in process", EmbedFault.TIMEOUT, _sleeps, waits=True),
    Bad("raises", EmbedFault.CRASHED, _raises),
    Bad("kills its worker", EmbedFault.CRASHED, _kills),
    Bad("garbage", EmbedFault.MALFORMED, _garbage),
)
