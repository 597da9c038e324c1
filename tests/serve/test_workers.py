"""Several processes of the service over one store: the owner is killed, and nothing is lost."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2 as httpx
import pytest

import hyrecall
from hyrecall.errors import OptionError
from hyrecall.memory import MemorySync
from hyrecall.recipes import loom
from hyrecall.serve import ServiceOptions
from seams import Supervisor, read_holder, run_workers
from seams import memory_DATABASE as DATABASE

N_WRITES = 200
MODULE = """
from hyrecall.memory import Memory
from hyrecall.recipes import loom
from hyrecall.serve import create_app

def make():
    return create_app(Memory.open("agent.mem", recipe=loom, embedder=None))
"""
COMMANDS = {
    "uvicorn": ("uvicorn", "--factory", "service:make", "--workers", "4", "--log-level", "warning"),
    "hyrecall": ("hyrecall", "serve", "agent.mem", "--recipe", "loom", "--workers", "4"),
}


@contextmanager
def served(command: tuple[str, ...], folder: Path) -> Iterator[str]:
    """Run a command in a folder; give its URL once a worker answers."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    package = str(Path(hyrecall.__file__).parents[1])
    env = {**os.environ, "PYTHONPATH": package, "HYRECALL_EMBED_DISABLE": "1"}
    env["HYRECALL_CONFIG"] = str(folder / "config.json")
    log = folder / "log"  # a pipe would be full after some hundred requests
    with log.open("w") as told_to:
        process = subprocess.Popen(
            [sys.executable, "-m", *command, "--port", str(port)],
            cwd=folder, env=env, stderr=told_to,
        )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    try:
        until_answered("GET", f"{url}/readyz")
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=90)
        told = log.read_text()
    assert "Traceback" not in told, told
    assert process.returncode == 0, told


CLIENT = httpx.Client(timeout=30, limits=httpx.Limits(max_keepalive_connections=0))
"""Connects for each request, so that every worker is asked."""


def until_answered(method: str, url: str, body: object = None) -> httpx.Response:
    """Repeat a request until a worker that lives answers it."""
    for _ in range(3_000):  # four processes start slowly beside other work
        try:
            reply = CLIENT.request(method, url, json=body)
        except httpx.TransportError:
            pass
        else:
            if reply.status_code != 503:
                return reply
        time.sleep(0.1)
    raise AssertionError(f"{method} {url}: no answer")


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_four_workers_lose_no_acknowledged_write_when_the_owner_is_killed(
    name: str, tmp_path: Path
) -> None:
    folder = tmp_path / "agent.mem"
    (tmp_path / "service.py").write_text(MODULE)
    with served(COMMANDS[name], tmp_path) as url:
        first = read_holder(folder).pid
        for number in range(N_WRITES):
            if number == N_WRITES // 2:
                os.kill(first, signal.SIGKILL)
            body = {"text": f"note number{number}", "id": f"m{number}", "user_id": "ann"}
            kept = until_answered("POST", f"{url}/v1/memories", body)
            assert kept.status_code in (201, 409)  # 409: the killed worker had kept it
            got = until_answered("GET", f"{url}/v1/memories/m{number}?user_id=ann")
            assert got.status_code == 200
            asked = {"text": f"number{number}", "user_id": "ann", "limit": 3}
            found = until_answered("POST", f"{url}/v1/recall", asked).json()["items"]
            assert found[0]["episode"]["id"] == f"m{number}"
        assert read_holder(folder).pid != first
    with MemorySync.open(folder, recipe=loom, embedder=None) as memory:
        kept_ids = {one.id for one in memory.list(user_id="ann", limit=10_000)}
        assert kept_ids == {f"m{number}" for number in range(N_WRITES)}
        with memory._store.database.reading() as connection:  # and nothing is written twice
            counted = connection.execute("SELECT max(version), count(*) FROM versions").get
        assert counted == (1, N_WRITES)
        assert memory.doctor(full=True).ok


def test_workers_do_not_start_at_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        options = ServiceOptions(port=taken.getsockname()[1])
        with pytest.raises(OptionError, match=r"^host, port: expected an address that is free"):
            run_workers("none:none", options, 2)


def test_nobody_else_gets_the_port_while_workers_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "service.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    tried = []

    def run(supervisor: Supervisor) -> bool:
        *_, sock = supervisor._args
        with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
            stranger.bind(sock.getsockname())
        tried.append(sock)
        return True

    monkeypatch.setattr(Supervisor, "run", run)
    run_workers("service:make", ServiceOptions(port=0), 2)
    assert len(tried) == 1


# ---- workers that end ----

SUPERVISED = """
import os, sys
from hyrecall.serve.workers import Supervisor

def work(link, kind):
    if kind == "broken":
        sys.exit(3)
    os.write(1, f"{os.getpid()}\\n".encode())  # at once, beside the other worker's
    while True:
        link.recv()
        link.send(True)

if __name__ == "__main__":
    sys.exit(0 if Supervisor(work, (sys.argv[1],), 2, 1.0).run() else 9)
"""


@contextmanager
def supervised(folder: Path, kind: str) -> Iterator[subprocess.Popen[str]]:
    """Two workers that answer their supervisor, or that do not start."""
    script = folder / "supervised.py"
    script.write_text(SUPERVISED)
    env = {**os.environ, "PYTHONPATH": str(Path(hyrecall.__file__).parents[1])}
    process = subprocess.Popen(
        [sys.executable, str(script), kind], stdout=subprocess.PIPE, text=True, env=env
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def pids(process: subprocess.Popen[str]) -> list[int]:
    assert process.stdout is not None
    return [int(process.stdout.readline()) for _ in range(2)]


@pytest.mark.slow
def test_workers_that_are_stopped_and_killed_are_replaced_and_end_with_the_parent(
    tmp_path: Path,
) -> None:
    with supervised(tmp_path, "well") as process:
        first = pids(process)
        time.sleep(1.5)  # both are asked how they are, and answer
        os.kill(first[0], signal.SIGSTOP)
        time.sleep(1.2)  # the next question is under way
        for pid in first:
            os.kill(pid, signal.SIGKILL)
        began = time.monotonic()
        second = pids(process)
        assert time.monotonic() - began < 30  # a start of the interpreter; STARTUP is 60
        assert not set(first) & set(second)
        os.kill(second[1], signal.SIGSTOP)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        for pid in second:
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)


@pytest.mark.slow
def test_a_service_ends_if_none_of_its_workers_can_start(tmp_path: Path) -> None:
    with supervised(tmp_path, "broken") as process:
        assert process.wait(120) == 9


@contextmanager
def two_workers(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str, list[int]]]:
    """A service, its URL once it is ready, and its workers."""
    command = [sys.executable, "-m", "hyrecall", "serve", "agent.mem", "--recipe", "loom"]
    env = {**os.environ, "PYTHONPATH": str(Path(hyrecall.__file__).parents[1])}
    env |= {"HYRECALL_EMBED_DISABLE": "1", "HYRECALL_CONFIG": str(folder / "config.json")}
    process = subprocess.Popen(
        [*command, "--workers", "2", "--port", "0", "--log-level", "error"],
        cwd=folder, env=env, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    try:
        url = process.stderr.readline().split(" at ")[1].split()[0]
        until_answered("GET", f"{url}/readyz")
        listed = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        commands = {int(pid): Path(f"/proc/{pid}/cmdline").read_text() for pid in listed}
        yield process, url, [pid for pid, one in commands.items() if "spawn_main" in one]
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


@pytest.mark.slow
def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    with two_workers(tmp_path) as (process, url, workers):
        assert len(workers) == 2
        process.kill()
        for _ in range(600):
            if not any(Path(f"/proc/{pid}").exists() for pid in workers):
                break
            time.sleep(0.1)
        with pytest.raises(httpx.TransportError):
            CLIENT.get(f"{url}/healthz")


@pytest.mark.slow
def test_a_store_that_is_damaged_under_workers_that_die_ends_the_service(tmp_path: Path) -> None:
    with two_workers(tmp_path) as (process, _, workers):
        (tmp_path / "agent.mem" / DATABASE).write_bytes(b"no database" * 1_000)
        for pid in workers:
            os.kill(pid, signal.SIGKILL)
        told = process.communicate(timeout=180)[1]
        assert process.returncode == 3, told
        assert "expected an SQLite database" in told
        assert "Traceback" not in told
