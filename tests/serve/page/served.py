"""A service for the page's tests: a small store whose texts are hostile, served on a free port."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import uvicorn

import hyrecall as hr
from hyrecall.embed import HashEmbedder
from hyrecall.memory import Memory, MemorySync
from hyrecall.serve import ServiceOptions, create_app
from memory.stores import BrokenEmbedder

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOSTILE = (
    "<script>window.ran=1</script><img src=x onerror='window.ran=2'>"
    "<svg onload='window.ran=3'></svg>\"'><a href='javascript:window.ran=4'>replica</a>"
)
TEXTS = {
    "disk": "Replica pg-eu-2 stopped following the primary because its log volume was full",
    "twin": "Replica pg-eu-2 stopped following the primary since its log volume was full; "
    "a larger disk helped",
    "lag": "The billing database moved last night and the replica lag stayed under two seconds",
    "limits": "Rate limits live in rate_limiter.py",
    "tea": "Tea at four, in the large kitchen, with the people of the second floor",
}


def fill(memory: MemorySync) -> None:
    """Keep the memories of alice, with versions and links, and one of bob."""
    for number, (name, text) in enumerate(TEXTS.items()):
        memory.remember(
            text, id=name, user_id="alice", kind="fact", occurred_at=NOON + timedelta(hours=number)
        )
    memory.remember(
        HOSTILE, id="<b>bold</b>", user_id="alice", kind="<i>kind</i>", tags=["<u>tag</u>"],
        session_id="<s>session</s>",
    )  # fmt: skip
    memory.remember("The replica of bob", id="bobs", user_id="bob")
    memory.update(
        "disk", user_id="alice", text=f"{TEXTS['disk']}; a larger disk helped", reason=HOSTILE
    )
    memory.link(["disk", "lag"], "follows", user_id="alice", description=HOSTILE)
    memory.link(["disk", "twin", "limits"], "on <em>call</em>", user_id="alice")
    memory.link(["disk", "<b>bold</b>"], "near", user_id="alice")


@contextmanager
def serving(served: MemorySync | hr.Index, options: ServiceOptions | None = None) -> Iterator[str]:
    """Serve a store or an index from a thread; gives the address."""
    with ThreadPoolExecutor(4) as pool, socket.socket() as listening:
        app = create_app(
            Memory(served, pool) if isinstance(served, MemorySync) else served, options
        )
        listening.bind(("127.0.0.1", 0))
        listening.listen()  # whoever comes before the service is up waits, and is not refused
        port = listening.getsockname()[1]
        config = uvicorn.Config(app, log_config=None, ws="none", lifespan="on", loop="asyncio")
        server = uvicorn.Server(config)
        thread = threading.Thread(
            target=lambda: asyncio.run(server.serve([listening])), name="page-service"
        )
        thread.start()
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.should_exit = True
            thread.join(20)
            assert not thread.is_alive()


def store(recipe: hr.Recipe = hr.recipes.default, *, embeds: bool = True) -> MemorySync:
    """A store in memory, filled; its embedder works, or fails each time."""
    embedder = HashEmbedder() if embeds else BrokenEmbedder()
    memory = MemorySync.in_memory(recipe=recipe, embedder=embedder)
    fill(memory)
    return memory


def index() -> hr.Index:
    """The same texts as an index of two cells, with vectors."""
    rows = [(name, "alice", text) for name, text in (*TEXTS.items(), ("<b>bold</b>", HOSTILE))]
    rows.append(("bobs", "bob", "The replica of bob"))
    keys, users, texts = zip(*rows, strict=True)
    kinds = ["fact" if key != "tea" else "note" for key in keys]
    return hr.Index.build(
        pa.table({"id": keys, "user": users, "body": texts, "kind": kinds}),
        hr.Schema(key="id", cell=("user",), text="body", vector="meaning", attributes=("kind",)),
        vectors={"meaning": HashEmbedder().embed(texts)},
    )
