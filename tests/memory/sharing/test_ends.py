"""Limits of a server, and the end of either side."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from pathlib import Path

import pytest

from hyrecall.errors import (
    OwnerError,
    StoreBusyError,
)
from memory.children import fork
from memory.sharing.house import CODEC, OPENED, House
from seams import (
    ConnectionLost,
    Connections,
    Frames,
    Hello,
    Limits,
    Link,
    Server,
    Welcome,
    WireError,
    client,
)
from seams import client_state_of as state_of
from seams import memory_server_module as server


def test_requests_beyond_the_limits_are_told_so(tmp_path: Path) -> None:
    house = House(tmp_path, Limits(at_work=2, waiting=1, seconds=30))
    connections = house.connections()
    replies: list[object] = []
    working = [
        threading.Thread(target=lambda: replies.append(connections.ask(["wait", "done"])))
        for _ in range(3)
    ]
    for one in working:
        one.start()
    house.started.acquire()
    house.started.acquire()
    until = time.monotonic() + 30
    while not house.server._turns.n_waiting and time.monotonic() < until:
        time.sleep(0.001)
    with pytest.raises(StoreBusyError, match="1 that wait") as caught:
        connections.ask(["echo", 1])
    assert caught.value.retry_after > 0
    house.gate.set()
    for one in working:
        one.join()
    assert replies == ["done"] * 3
    assert connections.ask(["echo", 1]) == 1
    connections.stop()
    house.server.close()


def test_one_connection_too_many_is_told_so(tmp_path: Path) -> None:
    house = House(tmp_path, Limits(connections=2))
    kept = [Link(house.connect, CODEC, Hello(os.getpid())) for _ in range(2)]
    with pytest.raises(StoreBusyError, match="2 connections"):
        Link(house.connect, CODEC, Hello(os.getpid()))
    kept.pop().close()
    until = time.monotonic() + 30
    while len(house.server._open) > 1 and time.monotonic() < until:
        time.sleep(0.001)
    kept.append(Link(house.connect, CODEC, Hello(os.getpid())))
    for one in kept:
        one.close()
    house.server.close()


def test_closing_answers_what_is_at_work_and_loses_what_comes_later(house: House) -> None:
    connections = house.connections()
    replies: list[object] = []
    working = threading.Thread(target=lambda: replies.append(connections.ask(["wait", "done"])))
    working.start()
    house.started.acquire()
    closing = threading.Thread(target=house.server.close)
    closing.start()
    until = time.monotonic() + 30
    while not house.server._is_closing and time.monotonic() < until:
        time.sleep(0.001)
    with pytest.raises(ConnectionLost):
        connections.ask(["echo", 1])
    house.gate.set()
    working.join()
    closing.join()
    assert replies == ["done"]
    with pytest.raises(ConnectionLost):
        connections.ask(["echo", 1])


def test_a_client_that_dies_leaves_nothing_behind(house: House) -> None:
    child = fork()
    if child == 0:
        try:
            mine = house.connections()
            threading.Thread(target=lambda: mine.ask(["wait", 1])).start()
            mine.ask(["echo", 1])
            signal.pause()
        finally:
            os._exit(9)
    house.started.acquire()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    house.gate.set()
    until = time.monotonic() + 30
    while house.server._open and time.monotonic() < until:
        time.sleep(0.001)
    assert house.server._open == set()
    assert house.server.state().clients == ()


def test_an_owner_that_is_stopped_is_an_error_with_its_pid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, write = os.pipe()
    child = fork()
    if child == 0:
        try:
            house = House(tmp_path)
            os.write(write, b"x")
            house.gate.wait(60)
        finally:
            os._exit(9)
    try:
        os.read(read, 1)
        path = str(tmp_path / "s")

        def connect() -> socket.socket:
            made = socket.socket(socket.AF_UNIX)
            made.connect(path)
            return made

        connections = Connections(connect, CODEC, Hello(os.getpid()))
        OPENED.append(connections)
        assert connections.ask(["echo", 1]) == 1
        os.kill(child, signal.SIGSTOP)
        os.waitpid(child, os.WUNTRACED)  # only now every thread of it stands
        monkeypatch.setattr(client, "HUNG_SECONDS", 0.2)
        monkeypatch.setattr(client, "LOOK_SECONDS", 0.2)
        with pytest.raises(OwnerError, match=rf"pid {child}\b"):
            connections.ask(["echo", 1])
        with pytest.raises(OwnerError, match=rf"pid {child}\b"):  # its hello is not answered either
            Connections(connect, CODEC, Hello(os.getpid()))
        with pytest.raises(OwnerError, match=rf"pid {child}\b"):
            connections.ask(["echo", b"x" * 10_000_000])
        monkeypatch.undo()
        os.kill(child, signal.SIGCONT)
        assert connections.ask(["echo", 1]) == 1
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_hello_waits_while_the_store_is_being_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_OPENING_SECONDS", 0.01)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "s"))
    listener.listen()
    made = Server(CODEC, lambda message: message, lambda about: {"recipe": "loom"})
    made.start(listener)
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(tmp_path / "s"))
    frames = Frames(connection)
    frames.send(Hello(os.getpid()).to_bytes())
    signs = [Welcome.of_bytes(frames.receive(timeout=60)) for _ in range(3)]
    assert [one.is_opening for one in signs] == [True] * 3
    made.ready()
    while (welcome := Welcome.of_bytes(frames.receive(timeout=60))).is_opening:
        pass
    assert welcome.about == {"recipe": "loom"}
    frames.close()
    made.close()


def test_an_observer_sees_owner_and_clients_and_may_ask_nothing_else(house: House) -> None:
    connections = house.connections()
    for _ in range(3):
        connections.ask(["echo", 1])
    state = state_of(house.connect, CODEC)
    assert state.pid == os.getpid()
    assert [(one.pid, one.requests) for one in state.clients] == [(os.getpid(), 3)]
    link = Link(house.connect, CODEC, Hello(os.getpid(), is_observer=True))
    with pytest.raises(WireError, match="owner"):
        link.ask(["echo", 1])
    link.close()


def test_a_forked_child_holds_no_connection_of_its_parent(house: House) -> None:
    connections = house.connections()
    connections.ask(["echo", 1])
    child = fork()
    if child == 0:
        signal.pause()
        os._exit(0)
    try:
        house.server.close()
        with pytest.raises(ConnectionLost):
            connections.ask(["echo", 1])
        with pytest.raises((FileNotFoundError, ConnectionRefusedError)):
            house.connect()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
