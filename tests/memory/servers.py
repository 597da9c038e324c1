"""Servers that tests start for themselves, or skip by name."""

import atexit
import functools
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
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


def _of_postgres(name: str) -> str | None:
    """A program of PostgreSQL; Debian keeps them beside each other, out of the path."""
    kept = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return shutil.which(name) or (str(kept[-1]) if kept else None)


@functools.cache
def _postgres() -> str | None:
    """Where a PostgreSQL server of the tests' own listens; None: there is none here."""
    initdb, postgres = _of_postgres("initdb"), _of_postgres("postgres")
    if initdb is None or postgres is None:
        return None
    where = tempfile.mkdtemp(prefix="pg-", dir="/tmp")  # the path of a socket is short
    as_user: dict[str, Any] = {}
    if os.geteuid() == 0:  # it refuses root
        try:
            owner = pwd.getpwnam("postgres")
        except KeyError:
            return None
        os.chown(where, owner.pw_uid, owner.pw_gid)
        as_user = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    data = f"{where}/data"
    made = [initdb, "-D", data, "-U", "tests", "--auth=trust", "--no-sync", "-E", "UTF8"]
    subprocess.run(made, check=True, cwd=where, **quiet, **as_user)
    options = ["-k", where, "-c", "listen_addresses=", "-c", "fsync=off"]
    server = subprocess.Popen([postgres, "-D", data, *options], cwd=where, **quiet, **as_user)

    def stop() -> None:
        server.terminate()
        server.wait(10)
        shutil.rmtree(where, ignore_errors=True)

    atexit.register(stop)
    for _ in range(500):
        with socket.socket(socket.AF_UNIX) as probe:
            if probe.connect_ex(f"{where}/.s.PGSQL.5432") == 0:
                return f"host={where} user=tests dbname=postgres"
        time.sleep(0.02)
    raise AssertionError("the PostgreSQL server did not start")


@functools.cache
def _connection() -> Any:
    psycopg = pytest.importorskip("psycopg")
    where = os.environ.get("HYRECALL_TEST_POSTGRES") or _postgres()
    if where is None:
        pytest.skip("no PostgreSQL server, and HYRECALL_TEST_POSTGRES names none")
    for left in reversed(range(250)):
        try:
            connection = psycopg.connect(where)
            break
        except psycopg.OperationalError:  # it listens, and is still starting up
            if not left:
                raise
            time.sleep(0.02)
    atexit.register(connection.close)
    return connection


def postgres_connection() -> Any:
    """A connection to the server that HYRECALL_TEST_POSTGRES names, or to the tests' own."""
    connection = _connection()
    connection.rollback()  # what a test before left behind
    return connection
