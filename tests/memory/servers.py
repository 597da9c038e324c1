"""Servers that tests start for themselves, or skip by name."""

import atexit
import functools
import shutil
import socket
import subprocess
import tempfile
import time
from typing import Any

import pytest


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@functools.cache
def _redis() -> int | None:
    """The port of a Redis server that keeps nothing; None: there is none here."""
    binary = shutil.which("redis-server")
    if binary is None:
        return None
    port = free_port()
    where = tempfile.mkdtemp(prefix="redis-")
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", where]
    server = subprocess.Popen([binary, *options], stdout=subprocess.DEVNULL)
    atexit.register(server.kill)
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return port
        time.sleep(0.02)
    raise AssertionError("the Redis server did not start")


def redis_client() -> Any:
    """A client of the tests' own server."""
    redis = pytest.importorskip("redis")
    port = _redis()
    if port is None:
        pytest.skip("no redis-server")
    return redis.Redis(port=port, socket_timeout=5)
