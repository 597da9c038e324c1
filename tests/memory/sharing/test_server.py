"""Server and client of any messages: replies, faults, callbacks, hellos, frames."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from hyrecall.errors import (
    StoreMismatchError,
)
from memory.sharing.house import CODEC, FAULTS, House
from seams import (
    ConnectionLost,
    Connections,
    Frames,
    Hello,
    OwnerConnection,
    Welcome,
    WireError,
    client,
    protocol,
)
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
