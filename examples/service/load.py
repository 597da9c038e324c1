"""A load test for loopback: 64 clients recall in closed loops; prints requests a second and times.

``python load.py http://127.0.0.1:8765 --user ann --seconds 5``. Without a URL it starts a service
of its own with a few memories, which also shows how a program serves a store.
"""

import argparse
import asyncio
import json
import os
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import hyrecall as hr
from hyrecall.memory import Episode, Memory
from hyrecall.serve import ServiceOptions, create_app, run

CLIENTS = 64
TEXTS = ("the replica lags by 40 s", "tea at four", "INV-2026-0042 is due in May")


@contextmanager
def own_service() -> Iterator[str]:
    """Serve a store in memory from a thread of this process."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    memory = Memory.in_memory(recipe=hr.recipes.default, embedder=None)
    app = create_app(memory, ServiceOptions(port=port))
    started, url = threading.Event(), []

    def tell(found: str) -> None:
        url.append(found)
        started.set()

    # A thread cannot take signals, so this one ends with the process.
    threading.Thread(target=run, args=(app,), kwargs={"started": tell}, daemon=True).start()
    if not started.wait(60):
        raise SystemExit("the service did not start")
    episodes = [Episode(user_id="ann", text=text) for text in TEXTS]
    asyncio.run(app.state.memory.remember_batch(episodes))
    yield url[0]


async def drive(url: str, token: str | None, user: str, seconds: float) -> list[float]:
    """Return the seconds that each reply took."""
    where, taken = urlsplit(url), []
    body = json.dumps({"text": "replica lag", "user_id": user, "limit": 5}).encode()
    head = (
        f"POST /v1/recall HTTP/1.1\r\nHost: {where.netloc}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n"
        + ("" if token is None else f"Authorization: Bearer {token}\r\n")
    )
    request = head.encode() + b"\r\n" + body
    stop = time.perf_counter() + seconds

    async def client() -> None:
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        while time.perf_counter() < stop:
            began = time.perf_counter()
            writer.write(request)
            headers = await reader.readuntil(b"\r\n\r\n")
            if not headers.startswith(b"HTTP/1.1 200"):
                raise SystemExit(headers.decode("latin-1").splitlines()[0])
            length = headers.lower().split(b"content-length: ")[1].split(b"\r\n")[0]
            await reader.readexactly(int(length))
            taken.append(time.perf_counter() - began)
        writer.close()

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return taken


def main() -> None:
    """Drive a service, and print what it did."""
    options = argparse.ArgumentParser()
    options.add_argument("url", nargs="?")
    options.add_argument("--user", default="ann")
    options.add_argument("--seconds", type=float, default=1.0)
    asked = options.parse_args()
    token = os.environ.get("HYRECALL_TOKEN")
    if asked.url is not None:
        taken = asyncio.run(drive(asked.url, token, asked.user, asked.seconds))
    else:
        with own_service() as url:
            taken = asyncio.run(drive(url, token, asked.user, asked.seconds))
    rate = len(taken) / asked.seconds
    p99 = statistics.quantiles(taken, n=100)[98]
    print(f"{CLIENTS} clients: {rate:,.0f} requests/s")
    print(f"median {statistics.median(taken) * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms")


if __name__ == "__main__":
    main()
