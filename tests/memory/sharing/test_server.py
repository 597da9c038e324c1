"""Server and client of any messages: replies, faults, callbacks, frames, limits, endings."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from hyrecall.errors import (
    OwnerError,
    StoreBusyError,
    StoreMismatchError,
)
from memory.children import fork
from memory.sharing.house import CODEC, FAULTS, OPENED, House
from seams import (
    ConnectionLost,
    Connections,
    Frames,
    Hello,
    Limits,
    OwnerConnection,
    Server,
    Welcome,
    WireError,
    client,
    protocol,
)
from seams import client_state_of as state_of
from seams import memory_frames_module as frames
from seams import memory_server_module as server


def test_values_are_answered_and_the_hello_is_read(house: House) -> None:
    connections = house.connections({"recipe": "loom", "dim": 4})
    assert connections.ask(["echo", {"a": (1, 2.5)}]) == {"a": (1, 2.5)}
    assert connections.pid == os.getpid()
    assert connections.about == {"recipe": "loom"}
    assert house.hello_of == [{"recipe": "loom", "dim": 4}]


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_arrives_with_class_message_and_attributes(house: House, name: str) -> None:
    given = FAULTS[name]
    connections = house.connections()
    is_known = "unknown" not in name
    with pytest.raises(type(given) if is_known else Exception) as caught:
        connections.ask(["raise", name])
    made = caught.value
    assert type(made).__name__ == type(given).__name__
    if is_known:
        assert type(made) is type(given)
    assert vars(made) == vars(given)
    assert made.args == tuple(str(one) if isinstance(one, Path) else one for one in given.args)
    assert getattr(made, "errno", None) == getattr(given, "errno", None)
    assert connections.ask(["echo", "still there"]) == "still there"


def test_threads_share_a_pool_and_no_reply_is_crossed(house: House) -> None:
    connections = house.connections()
    wrong: list[object] = []

    def work(me: int) -> None:
        given = [(me, at) for at in range(200)]
        wrong.extend(one for one in given if connections.ask(["echo", one]) != one)

    threads = [threading.Thread(target=work, args=(me,)) for me in range(24)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert wrong == []
    (state,) = connections.state().clients
    assert (state.pid, state.requests) == (os.getpid(), 24 * 200)


def test_callables_of_a_request_run_in_the_client(house: House) -> None:
    connections = house.connections()
    here = threading.current_thread()
    met = []

    def function(a: int, b: str) -> list[Any]:
        met.append(threading.current_thread() is not here)
        return [a, b]

    assert connections.ask(["call", function, 1, "x"]) == [1, "x"]

    async def later(value: int) -> int:
        return value + 1

    assert connections.ask(["call", later, 1]) == 2
    assert met == [True]


def test_what_a_callable_raises_comes_back_as_the_same_object(house: House) -> None:
    class OwnError(Exception):
        pass

    raised = OwnError("mine")

    def function() -> None:
        raise raised

    connections = house.connections()
    with pytest.raises(OwnError) as caught:
        connections.ask(["call", function])
    assert caught.value is raised


def test_a_call_that_is_left_behind_disturbs_no_later_request(house: House) -> None:
    connections = house.connections()
    going = threading.Event()

    def slow() -> str:
        going.wait(30)
        return "too late"

    assert connections.ask(["call later", slow]) == "left behind"
    assert connections.ask(["echo", 1]) == 1
    going.set()
    assert [connections.ask(["echo", n]) for n in range(20)] == list(range(20))


def test_a_mismatch_is_raised_by_its_class(house: House) -> None:
    with pytest.raises(StoreMismatchError, match=r"recipe: expected loom, got other"):
        house.connections({"recipe": "other"})


@pytest.mark.parametrize("name", ["protocol", "version"])
def test_another_version_is_refused_by_name_and_with_the_pid(house: House, name: str) -> None:
    hello = Hello(os.getpid(), **{name: 99 if name == "protocol" else "0.0.1"})
    with pytest.raises(StoreMismatchError, match=rf"{name}: .*pid {os.getpid()}"):
        Connections(house.connect, CODEC, hello)


def test_a_hello_of_another_program_ends_the_connection(house: House) -> None:
    for first in (b"GET / HTTP/1.1\r\n\r\n", b"\x01\x00\x00\x00\xc1", b"\xff\xff\xff\xff", b""):
        connection = house.connect()
        connection.sendall(first)
        connection.shutdown(socket.SHUT_WR)
        connection.settimeout(20)
        with suppress(ConnectionResetError):  # of bytes that nobody read
            assert connection.recv(1) == b""
        connection.close()
    assert house.connections().ask(["echo", 1]) == 1


def test_bytes_that_are_no_request_end_their_connection_only(house: House) -> None:
    good = house.connections()
    for bad in (b"\xc1", CODEC.encode("echo"), CODEC.encode(["request", 1]), b""):
        link = OwnerConnection(house.connect, CODEC, Hello(os.getpid()))
        link._frames.send(bad)
        with suppress(ConnectionLost):
            assert CODEC.decode(link._frames.receive(timeout=20))[0] == "fault"
        link.close()
        assert good.ask(["echo", 1]) == 1
    good.stop()


def test_a_process_of_another_user_is_refused(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(server, "peer_of", lambda connection: (1, os.geteuid() + 1))
        with pytest.raises(ConnectionLost):
            house.connections()
    with monkeypatch.context() as patched:  # and a client asks no owner of another user
        patched.setattr(client, "peer_of", lambda connection: (1, os.geteuid() + 1))
        with pytest.raises(WireError, match="user"):
            house.connections()
    assert house.connections().ask(["echo", 1]) == 1


def test_frames_that_are_too_long_are_refused(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "MOST_BYTES", 100)
    connections = house.connections()
    with pytest.raises(WireError, match="100 bytes"):
        connections.ask(["echo", "x" * 200])
    assert connections.ask(["echo", "x"]) == "x"


def test_a_large_message_crosses_both_ways(house: House) -> None:
    connections = house.connections()
    large = os.urandom(5_000_000)
    assert connections.ask(["echo", large]) == large


def test_frames_survive_pieces_of_any_size(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    reading = Frames(ours)
    for size in (0, 1, 3, 300_000):
        data = (size).to_bytes(4, "little") + b"x" * size

        def trickle(data: bytes = data) -> None:
            for at in range(0, len(data), 7_001):
                theirs.sendall(data[at : at + 7_001])

        sending = threading.Thread(target=trickle)
        sending.start()
        assert reading.receive(timeout=30) == b"x" * size
        sending.join()
    with pytest.raises(TimeoutError):
        reading.receive(timeout=0.01)
    theirs.sendall(b"\x05\x00\x00\x00ab")
    with pytest.raises(TimeoutError):
        reading.receive(timeout=0.01)
    theirs.sendall(b"cde")
    assert reading.receive(timeout=30) == b"abcde"
    theirs.sendall(b"\x05\x00")
    theirs.close()
    with pytest.raises(ConnectionLost):
        reading.receive()
    reading.close()


def test_hellos_are_plain_maps_that_every_version_can_read() -> None:
    hello = Hello(5, about={"recipe": "loom", "dim": None})
    assert Hello.of_bytes(hello.to_bytes()) == hello
    welcome = Welcome(5, refused="no", kind="OptionError")
    assert Welcome.of_bytes(welcome.to_bytes()) == welcome
    assert protocol.PROTOCOL == 1
    with pytest.raises(WireError):
        Hello.of_bytes(b"\x80")


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
    kept = [OwnerConnection(house.connect, CODEC, Hello(os.getpid())) for _ in range(2)]
    with pytest.raises(StoreBusyError, match="2 connections"):
        OwnerConnection(house.connect, CODEC, Hello(os.getpid()))
    kept.pop().close()
    until = time.monotonic() + 30
    while len(house.server._open) > 1 and time.monotonic() < until:
        time.sleep(0.001)
    kept.append(OwnerConnection(house.connect, CODEC, Hello(os.getpid())))
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
    link = OwnerConnection(house.connect, CODEC, Hello(os.getpid(), is_observer=True))
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
