"""A server that speaks Qdrant's HTTP for what an import asks, over qdrant-client's local mode."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from qdrant_client import QdrantClient

KEY = "the key"


def answer(client: QdrantClient, path: str, body: dict[str, Any]) -> Any:
    """Return the result of one request, as JSON."""
    match path.strip("/").split("/"):
        case ["collections"]:
            return client.get_collections().model_dump(mode="json")
        case ["collections", name]:
            return client.get_collection(name).model_dump(mode="json")
        case ["collections", name, "points", "count"]:
            return client.count(name).model_dump(mode="json")
        case ["collections", name, "points", "scroll"]:
            points, at = client.scroll(
                name, limit=body["limit"], offset=body.get("offset"),
                with_payload=body["with_payload"], with_vectors=body["with_vector"],
            )  # fmt: skip
            found = [one.model_dump(mode="json") for one in points]
            return {"points": found, "next_page_offset": at}
    raise AssertionError(f"an import asks nothing else: {path}")


@contextmanager
def serving(
    client: QdrantClient, *, fails_after: int | None = None, status: int = 500
) -> Iterator[str]:
    """Serve until the block ends; yield the URL.

    After ``fails_after`` requests, replies have a status; with 200 they are no JSON.
    """
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.reply({})

        def do_POST(self) -> None:
            n_bytes = int(self.headers["Content-Length"])
            self.reply(json.loads(self.rfile.read(n_bytes)))

        def reply(self, body: dict[str, Any]) -> None:
            asked.append(self.path)
            if self.headers.get("api-key") != KEY:
                self.send(403, {"status": {"error": "the secret of the server"}})
            elif fails_after is not None and len(asked) > fails_after:
                self.send(status, {"status": {"error": "the secret of the server"}})
            else:
                result = answer(client, self.path.partition("?")[0], body)
                self.send(200, {"result": result, "status": "ok", "time": 0.0})

        def send(self, status: int, reply: object) -> None:
            is_failed = fails_after is not None and len(asked) > fails_after
            told = b"<html>" if is_failed and status == 200 else json.dumps(reply).encode()
            self.send_response(status)
            if status == 429:
                self.send_header("Retry-After", "1")
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(told)))
            self.end_headers()
            self.wfile.write(told)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
