"""Notes by key: first words only, then vectors of an endpoint, with a backfill."""

import json
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from hyrecall import recipes
from hyrecall.errors import OptionError
from hyrecall.memory import MemorySync
from hyrecall.systems.l0 import Notes


class Endpoint(BaseHTTPRequestHandler):
    """Stands for Ollama, LM Studio or vLLM: its model knows that "memoria" means memory."""

    models: tuple[str, ...] = ()

    def do_POST(self) -> None:
        """Answer ``/v1/embeddings``."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        Endpoint.models += (asked["model"],)
        texts = [asked["input"]] if isinstance(asked["input"], str) else asked["input"]
        about = [any(word in text.lower() for word in ("memor", "idea", "idee")) for text in texts]
        data = [{"embedding": [1.0, 0.1] if one else [0.1, 1.0]} for one in about]
        reply = json.dumps({"data": data}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_: object) -> None:
        """Write no log to stderr."""


@contextmanager
def serving() -> Iterator[str]:
    """Serve on the loopback interface and yield the URL."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


before = dict(os.environ)
with tempfile.TemporaryDirectory() as temporary, serving() as url:
    os.environ["HYRECALL_CONFIG"] = str(Path(temporary, "config.json"))
    path = Path(temporary, "notes.mem")
    query = "idee per migliorare la memoria"

    # Without an embedder a search uses words only, and no data leaves the machine.
    with MemorySync.open(path, recipe=recipes.l0, embedder=None) as memory:
        notes = Notes(memory)
        notes.save("ideas", "Ideas to improve the memory of agents", tags=("todo",))
        notes.save("deploy", "restart Kubernetes after the update")
        assert [hit.key for hit in notes.search("kube")] == ["deploy"]
        assert notes.search(query) == []
        try:
            memory.reembed()
        except OptionError as refused:
            print("refused:", refused)

    # export LTM_EMBEDDING_URL="http://localhost:11434/v1"
    # export LTM_EMBEDDING_MODEL="nomic-embed-text"
    os.environ |= {"LTM_EMBEDDING_URL": url, "LTM_EMBEDDING_MODEL": "nomic-embed-text"}
    with MemorySync.open(path, recipe=recipes.l0) as memory:
        done = memory.reembed()  # the notes without a vector
        print(f"{done.embedded} of {done.scanned} embedded")
        assert (done.embedded, done.errors) == (2, ())
        notes = Notes(memory)
        hit = notes.search(query)[0]
        print(hit.key, hit.snippet)
        assert hit.key == "ideas"
        value = notes.expand(hit)
        assert value is not None
        assert value.value.startswith("Ideas")
        assert notes.search("kube")[0].key == "deploy"  # the exact token is still first
        notes.save("later", "an idea for memories")  # a new note gets its vector at once
        assert memory.reembed().embedded == 0
        assert set(Endpoint.models) == {"nomic-embed-text"}

    # Another model: embed all notes again.
    os.environ["LTM_EMBEDDING_MODEL"] = "mxbai-embed-large"
    with MemorySync.open(path, recipe=recipes.l0) as memory:
        done = memory.reembed(force=True)
        print(f"{done.embedded} of {done.scanned} embedded again")
        assert done.embedded == done.scanned == 3
        assert Notes(memory).search(query)[0].key in ("ideas", "later")
        assert Endpoint.models[-1] == "mxbai-embed-large"
os.environ.clear()
os.environ |= before
