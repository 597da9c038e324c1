"""A real server in a process of its own: slow clients, SIGTERM, ports that are taken."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import hyrecall
from hyrecall.errors import OptionError
from hyrecall.memory import Memory, MemorySync
from hyrecall.recipes import loom
from hyrecall.serve import ServiceOptions, create_app, run
from laws.effort import Effort
from seams import listen

SLOW = 0.6
HEAD = b"Host: 127.0.0.1\r\nContent-Type: application/json\r\n"


class Served:
    """A service that runs, with what it wrote to stderr."""

    def __init__(self, folder: Path, *options: str) -> None:
        package = str(Path(hyrecall.__file__).parents[1])
        env = {**os.environ, "PYTHONPATH": package, "HYRECALL_EMBED_DISABLE": "1"}
        env["HYRECALL_CONFIG"] = str(folder.parent / "config.json")
        command = [sys.executable, "-m", "hyrecall", "serve", str(folder), "--port", "0"]
        self.process = subprocess.Popen(
            [*command, "--recipe", "loom", "--log-level", "debug", *options],
            stderr=subprocess.PIPE, text=True, env=env,
        )  # fmt: skip
        self.lines: list[str] = []
        self.port = 0
        self._ready = threading.Event()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        assert self._ready.wait(60), self.lines
        assert self.port, self.lines

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if line.startswith("serving") and " at http://" in line:
                self.port = int(line.rsplit(":", 1)[1])
                self._ready.set()
        self._ready.set()

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def stop(self) -> tuple[int, str]:
        """Send SIGTERM; return the exit code and the log."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(90)
        self._reader.join()
        assert self.process.stderr is not None
        self.process.stderr.close()
        return code, "".join(self.lines)


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[Served]:
    service = Served(folder, *options)
    try:
        yield service
    finally:
        code, _ = service.stop()
    assert code == -signal.SIGTERM


def read_all(link: socket.socket) -> bytes:
    """Read until the server closes."""
    parts = []
    while True:
        try:
            part = link.recv(65_536)
        except ConnectionResetError:
            break
        if not part:
            break
        parts.append(part)
    return b"".join(parts)


def post(link: socket.socket, path: str, body: Any) -> int:
    """Send a request over an open connection; return its status."""
    data = json.dumps(body).encode()
    length = f"Content-Length: {len(data)}\r\n\r\n".encode()
    link.sendall(f"POST {path} HTTP/1.1\r\n".encode() + HEAD + length + data)
    reply = b""
    while b"\r\n\r\n" not in reply:
        part = link.recv(65_536)
        if not part:
            raise ConnectionError
        reply += part
    head, _, rest = reply.partition(b"\r\n\r\n")
    n_bytes = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    while len(rest) < n_bytes:
        rest += link.recv(65_536)
    return int(head.split(b" ")[1])


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served") / "agent.mem"
    with serving(folder, "--option", f"slow={SLOW}") as made:
        yield made


def slow_clients(service: Served, n: int) -> list[bytes]:
    """Open n connections of each kind that stop in the middle; return what they were told."""
    starts = (
        b"",  # says nothing
        b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n",  # headers that do not end
        b"POST /v1/recall HTTP/1.1\r\n" + HEAD + b"Content-Length: 100\r\n\r\n{",  # nor the body
        b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET /h",  # nor the second request
    )
    links = []
    for at in range(n * len(starts)):
        link = service.connect()
        link.sendall(starts[at % len(starts)])
        links.append(link)
    with service.connect() as good:  # they do not hinder others
        for _ in range(5):
            assert post(good, "/v1/recall", {"text": "tea"}) == 200
    told = [read_all(link) for link in links]
    for link in links:
        link.close()
    return told


@pytest.mark.slow
def test_slow_clients_are_closed_and_hinder_nobody(service: Served, effort: Effort) -> None:
    told = slow_clients(service, effort.cases(quick=3, full=125))
    for at, reply in enumerate(told):
        if at % 4 == 2:
            assert reply.startswith(b"HTTP/1.1 408 ")
        elif at % 4 == 3:
            assert reply.startswith(b"HTTP/1.1 200 ")
            assert reply.count(b"HTTP/1.1") == 1
        else:
            assert reply == b""


def test_a_client_that_takes_no_reply_is_closed(service: Served) -> None:
    text = "x" * 100_000
    with service.connect() as link:
        for _ in range(8):
            assert post(link, "/v1/memories", {"text": text, "user_id": "big"}) == 201
    for _ in range(3):  # leaves before there is a reply, or in the middle of it
        with service.connect() as link:
            link.sendall(b"GET /v1/export?user_id=big HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    before = len(service.lines)
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        deaf.connect(("127.0.0.1", service.port))
        one = b"GET /v1/export?user_id=big HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        deaf.sendall(one * 20)
        wait_until(lambda: any("slower than" in line for line in service.lines[before:]))
    with service.connect() as link:  # its thread and its reading of the store have ended
        assert post(link, "/v1/recall", {"text": "tea"}) == 200


def test_an_encoded_slash_reaches_the_routes_of_a_real_server(service: Served) -> None:
    with service.connect() as link:
        for key in ("a", "a/history"):
            assert post(link, "/v1/memories", {"text": f"text of {key}", "id": key}) == 201
    for path in ("a%2Fhistory", "a%2fhistory/history", "a/history"):
        with service.connect() as link:
            head = b"Host: 127.0.0.1\r\nConnection: close\r\n\r\n"
            link.sendall(f"GET /v1/memories/{path} HTTP/1.1\r\n".encode() + head)
            reply = read_all(link)
        wanted = b"text of a" if path == "a/history" else b"text of a/history"
        assert b'"' + wanted + b'"' in reply, (path, service.lines[-20:])
        assert (b'"recorded_at"' in reply) == path.endswith("/history")


def test_a_length_beside_chunks_ends_the_connection_of_a_real_server(service: Served) -> None:
    with service.connect() as link:
        both = b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
        smuggled = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        link.sendall(b"POST /v1/recall HTTP/1.1\r\n" + HEAD + both + b"0\r\n\r\n" + smuggled)
        reply = read_all(link)
    assert reply.startswith(b"HTTP/1.1 400 ")
    assert reply.count(b"HTTP/1.1") == 1


@pytest.mark.slow
def test_an_idle_connection_is_kept_as_long_as_the_option_says(
    service: Served, tmp_path: Path
) -> None:
    def is_closed(made: Served) -> bool:
        with made.connect() as link:
            assert post(link, "/v1/recall", {"text": "tea"}) == 200
            time.sleep(1.2)
            link.settimeout(0.2)
            try:
                return link.recv(1) == b""
            except TimeoutError:
                return False

    assert ServiceOptions().keep_alive > 3
    assert not is_closed(service)
    with serving(tmp_path / "agent.mem", "--option", "keep_alive=0.3") as made:
        assert is_closed(made)


def wait_until(holds: Any) -> None:
    for _ in range(6_000):
        if holds():
            return
        time.sleep(0.01)
    raise AssertionError("it never held")


@pytest.mark.slow
def test_after_sigterm_everything_that_was_acknowledged_is_there(
    tmp_path: Path, effort: Effort
) -> None:
    for round_ in range(effort.cases(quick=1, full=20)):
        folder = tmp_path / f"agent{round_}.mem"
        kept: list[str] = []
        service = Served(folder)

        def write(number: int, service: Served = service, kept: list[str] = kept) -> None:
            try:
                with service.connect() as link:
                    for at in range(10_000):
                        key = f"c{number}-{at}"
                        status = post(link, "/v1/memories", {"text": "canary-text", "id": key})
                        if status == 201:
                            kept.append(key)
            except OSError:
                return  # the service ended

        threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        wait_until(lambda kept=kept: len(kept) >= 20)
        code, log = service.stop()
        for thread in threads:
            thread.join()
        assert code == -signal.SIGTERM
        assert "canary" not in log
        assert "c0-" not in log
        assert "POST /v1/memories 201" in log
        with MemorySync.open(folder, embedder=None) as memory:
            found = {one.id for one in memory.list(limit=100_000)}
        assert found >= set(kept)


@pytest.mark.slow
def test_a_port_that_is_taken_is_named_by_its_options() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        options = ServiceOptions(port=taken.getsockname()[1])
        with pytest.raises(OptionError, match=r"^host, port: expected an address that is free"):
            listen(options)
    with listen(ServiceOptions(port=0)) as free:
        assert free.getsockname()[1] > 0


@pytest.mark.slow
def test_a_store_that_cannot_be_opened_is_an_error_without_a_traceback(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "notes.txt").write_text("no store")
    app = create_app(Memory.open(tmp_path, recipe=loom, embedder=None), ServiceOptions(port=0))
    started: list[str] = []
    with pytest.raises(OptionError, match=r"expected a store, or an empty or new folder"):
        run(app, started=started.append)
    assert started == []
    assert "Traceback" not in caplog.text


# ---- as the first process of a container, of which the kernel drops signals without a handler ----

APART = ["unshare", "--pid", "--fork", "--kill-child"]


@pytest.mark.parametrize("moment", ["imports", "serves"])
def test_sigterm_ends_a_service_that_is_process_1(tmp_path: Path, moment: str) -> None:
    if not shutil.which("unshare") or subprocess.run([*APART, "true"], check=False).returncode:
        pytest.skip("this machine lets nobody unshare process ids")
    env = {**os.environ, "PYTHONPATH": str(Path(hyrecall.__file__).parents[1])}
    env |= {"HYRECALL_EMBED_DISABLE": "1", "HYRECALL_CONFIG": str(tmp_path / "config.json")}
    serve = [sys.executable, "-m", "hyrecall", "serve", str(tmp_path / "a"), "--port", "0"]
    with subprocess.Popen([*APART, *serve], stderr=subprocess.PIPE, text=True, env=env) as command:
        if moment == "serves":
            assert command.stderr is not None
            assert any(" at http://" in line for line in command.stderr)
        children = Path(f"/proc/{command.pid}/task/{command.pid}/children")
        while not (found := children.read_text().split()):
            time.sleep(0.01)
        while "multiarray" not in Path(f"/proc/{found[0]}/maps").read_text():  # numpy is imported
            time.sleep(0.01)
        os.kill(int(found[0]), signal.SIGTERM)
        assert command.wait(60) == 128 + signal.SIGTERM
