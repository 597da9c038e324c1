"""Requests a second over HTTP at 64 clients, with joined batches and without, on one box.

What:   recalls of an index folder and of a store by one service process; clients in another one.
Corpus: 20,000 texts of 12 words in 20 cells, 64-d vectors; seeded. Queries: 2 words and a vector.
Check:  every reply of the two runs is the same, but for times.
Run:    PYTHONPATH=python python bench/bench_service.py [--rows 20000] [--seconds 5]
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import hyrecall as hr

CELLS, DIM, CLIENTS = 20, 64, 64
WORDS = [f"word{at}" for at in range(3_000)]


def corpus(n_rows: int) -> pa.Table:
    """Draw texts, cells and vectors."""
    draw = np.random.default_rng(20260501)
    vectors = draw.normal(size=(n_rows, DIM)).astype(np.float32)
    words = np.array(WORDS)[np.minimum(draw.zipf(1.3, (n_rows, 12)), len(WORDS)) - 1]
    return pa.table(
        {
            "id": [f"d{at}" for at in range(n_rows)],
            "user": [f"u{at % CELLS}" for at in range(n_rows)],
            "text": [" ".join(row) for row in words.tolist()],
            "embedding": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), DIM),
        }
    )


def make_index(table: pa.Table, folder: Path) -> None:
    """Save an index of the corpus."""
    schema = hr.Schema(key="id", cell=("user",), text="text", vector="embedding", stored=())
    hr.Index.build(table, schema).save(folder)


def make_store(table: pa.Table, folder: Path) -> None:
    """Save a store of the corpus."""
    from hyrecall.memory import Episode, MemorySync

    rows = table.to_pylist()
    with MemorySync.open(folder, recipe=hr.recipes.default, embedder=None, dim=DIM) as memory:
        for begin in range(0, len(rows), 5_000):
            part = rows[begin : begin + 5_000]
            memory.remember_batch(
                [Episode(id=row["id"], user_id=row["user"], text=row["text"]) for row in part],
                vectors=np.array([row["embedding"] for row in part], np.float32),
            )


def requests_of(kind: str, n: int) -> list[bytes]:
    """Draw bodies."""
    draw = np.random.default_rng(7)
    made = []
    for at in range(n):
        text = " ".join(draw.choice(WORDS[:300], 2))
        vector = draw.normal(size=DIM).round(4).tolist()
        user = f"u{at % CELLS}"
        one: dict[str, Any] = {"vector": vector, "limit": 10}
        one |= {"text": text, ("scope" if kind == "index" else "user_id"): user}
        made.append(json.dumps(one).encode())
    return made


class Service:
    """A service in a process of its own."""

    def __init__(self, folder: Path, *, join: bool) -> None:
        more = [] if join else ["--no-join"]
        command = [sys.executable, "-m", "hyrecall", "serve", str(folder), "--port", "0"]
        env = {**os.environ, "HYRECALL_EMBED_DISABLE": "1"}
        self.process = subprocess.Popen(
            [*command, "--log-level", "warning", *more], stderr=subprocess.PIPE, text=True, env=env
        )
        assert self.process.stderr is not None
        line = ""
        while " at http://" not in line:
            line = self.process.stderr.readline()
            assert line, "the service did not start"
        self.port = int(line.rsplit(":", 1)[1])

    def close(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait()


async def post(reader: Any, writer: Any, body: bytes) -> bytes:
    """Send a request over a connection that stays open, and return the reply's body."""
    head = f"POST /v1/recall HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n"
    writer.write(head.encode() + b"Content-Type: application/json\r\n\r\n" + body)
    headers = await reader.readuntil(b"\r\n\r\n")
    assert headers.startswith(b"HTTP/1.1 200"), headers
    length = int(headers.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    return bytes(await reader.readexactly(length))


def digest(reply: bytes) -> str:
    """Hash a reply without its times."""
    data = json.loads(reply)
    for name in ("took_ms", "now"):
        data.pop(name)
    data["trace"].pop("milliseconds")
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


async def drive(port: int, bodies: list[bytes], seconds: float) -> tuple[float, float, list[str]]:
    """Return requests a second and the 99th percentile of 64 closed loops, and all replies."""
    replies: dict[int, str] = {}
    taken: list[float] = []
    n_done, stop = 0, time.perf_counter() + seconds

    async def client(number: int) -> None:
        nonlocal n_done
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        at = number
        while time.perf_counter() < stop:
            began = time.perf_counter()
            await post(reader, writer, bodies[at % len(bodies)])
            taken.append(time.perf_counter() - began)
            n_done += 1
            at += CLIENTS
        writer.close()

    began = time.perf_counter()
    await asyncio.gather(*map(client, range(CLIENTS)))
    spent = time.perf_counter() - began
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for at, body in enumerate(bodies):  # alone, so that all replies are compared
        replies[at] = digest(await post(reader, writer, body))
    writer.close()
    return (
        n_done / spent,
        float(np.percentile(taken, 99)),
        [replies[at] for at in range(len(bodies))],
    )


async def same_replies(port: int, bodies: list[bytes]) -> list[str]:
    """Return the replies to all bodies, asked by 64 clients at a time."""
    found: dict[int, str] = {}

    async def client(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for at in range(number, len(bodies), CLIENTS):
            found[at] = digest(await post(reader, writer, bodies[at]))
        writer.close()

    await asyncio.gather(*map(client, range(CLIENTS)))
    return [found[at] for at in range(len(bodies))]


def measure(kind: str, folder: Path, seconds: float) -> None:
    """Time a folder with joined batches and without, in turn, and compare the replies."""
    bodies = requests_of(kind, 256)
    seen: list[list[str]] = []
    for join in (False, True, False, True):
        service = Service(folder, join=join)
        try:
            asyncio.run(drive(service.port, bodies, 1.0))  # warm
            rate, p99, alone = asyncio.run(drive(service.port, bodies, seconds))
            seen += [alone, asyncio.run(same_replies(service.port, bodies))]
        finally:
            service.close()
        how = "joined" if join else "single"
        print(f"{kind:6} {how:7} {rate:8.0f} requests/s   p99 {p99 * 1e3:7.1f} ms", flush=True)
    assert all(one == seen[0] for one in seen), "replies differ"
    print(f"{kind:6} replies of all runs are the same ({len(seen)} x {len(bodies)})", flush=True)


def main() -> None:
    """Measure an index and a store."""
    options = argparse.ArgumentParser()
    options.add_argument("--rows", type=int, default=20_000)
    options.add_argument("--seconds", type=float, default=5.0)
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        table = corpus(asked.rows)
        make_index(table, Path(name, "corpus.index"))
        make_store(table, Path(name, "agent.mem"))
        measure("index", Path(name, "corpus.index"), asked.seconds)
        measure("store", Path(name, "agent.mem"), asked.seconds)


if __name__ == "__main__":
    main()
