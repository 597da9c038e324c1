"""A collection of a Qdrant server comes as it was; what a server refuses is told by name."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("apsw", reason="the extra [memory] is not installed")
pytest.importorskip("qdrant_client", reason="qdrant-client is not installed")

from qdrant_client import QdrantClient, models

from cli.conftest import runner
from hyrecall.errors import OptionError
from hyrecall.memory import MemorySync
from hyrecall.migrate import into_store, open_source
from migrate.moved import MODEL, in_store, store, vectors
from migrate.qdrant_server import KEY, serving
from migrate.test_qdrant import ROWS, N, expected, params, payload
from seams import API_KEY

pytestmark = pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[QdrantClient]:
    """The points of the tests of folders, in memory; the environment has the key of the server."""
    monkeypatch.setenv(API_KEY, KEY)
    monkeypatch.setenv("NO_PROXY", "*")
    made = QdrantClient(":memory:")
    made.create_collection("notes", vectors_config=params())
    points = [
        models.PointStruct(
            id=at if at % 2 else f"00000000-0000-0000-0000-{at:012x}",
            vector=ROWS[at].tolist(),
            payload={**payload(at), "text": f"text {at} — é"},
        )
        for at in range(N)
    ]
    made.upsert("notes", points)
    yield made
    made.close()


def move(memory: MemorySync, url: str, **options: Any) -> Any:
    with open_source("qdrant", url, **options) as source:
        return into_store(memory, source, user_from="user", vector_model=MODEL)


def test_a_collection_comes_as_it_was_and_once(client: QdrantClient) -> None:
    with serving(client) as url, store() as memory:
        done = move(memory, url, collection="notes")
        assert (done.n_read, done.imported, done.n_vectors) == (N, N, N)
        assert (done.left_out, done.dropped) == ((), {})
        assert in_store(memory) == expected()
        again = move(memory, f"{url}/")
        assert (again.imported, again.skipped) == (0, N)


def test_a_named_vector_is_chosen(client: QdrantClient) -> None:
    client.create_collection("two", vectors_config={"a": params(), "b": params(2)})
    given: Any = {"a": vectors(1)[0].tolist(), "b": [1.0, 2.0]}
    fields = {"text": "tea", "user": "ann"}
    client.upsert("two", [models.PointStruct(id=1, vector=given, payload=fields)])
    with serving(client) as url, store() as memory:
        with pytest.raises(OptionError, match=r"^collection: expected one of notes, two, got none"):
            move(memory, url)
        done = move(memory, url, collection="two", vector_field="a")
        assert (done.n_vectors, done.dropped) == (1, {"vector 'b'": 1})


def test_the_command_takes_a_url(
    client: QdrantClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYRECALL_EMBED_DISABLE", "1")
    folder = tmp_path / "agent.mem"
    with serving(client) as url:
        options = ["--collection", "notes", "--user-from", "user", "--path", folder]
        done = runner(monkeypatch)("import", "--from", "qdrant", url, *options)
    assert done.code == 0
    assert f"{N:,} read, {N:,} imported" in done.out


def test_a_server_that_refuses_is_named_and_its_reply_is_not_told(
    client: QdrantClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(API_KEY, "another key")
    told = r"^path: expected a Qdrant server that answers at http://127.0.0.1:\d+, got status 403 "
    with serving(client) as url, store() as memory, pytest.raises(OptionError, match=told) as fault:
        move(memory, url.replace("://", "://me:password@"))
    assert "secret" not in str(fault.value)
    assert "password" not in str(fault.value)
    assert API_KEY in str(fault.value)


def test_a_server_that_fails_later_ends_the_import_and_another_one_goes_on(
    client: QdrantClient,
) -> None:
    with store() as memory:
        with (
            serving(client, fails_after=4) as url,
            pytest.raises(OptionError, match="got status 500"),
        ):
            move(memory, url)
        assert len(in_store(memory)) == 500  # the first page
        with serving(client) as url:
            done = move(memory, url)
        assert (done.imported, done.skipped) == (N - 500, 500)
        assert in_store(memory) == expected()


def test_a_server_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with store() as memory, pytest.raises(OptionError, match=f"answers at http://127.0.0.1:{port}"):
        move(memory, f"http://127.0.0.1:{port}")


@pytest.mark.parametrize(
    ("status", "got"), [(429, "status 429 "), (503, "status 503 "), (200, "JSONDecodeError")]
)
@pytest.mark.parametrize("after", [0, 4], ids=["at once", "later"])
def test_a_reply_that_is_none_is_named_and_not_told(
    client: QdrantClient, after: int, status: int, got: str
) -> None:
    with (
        serving(client, fails_after=after, status=status) as url,
        store() as memory,
        pytest.raises(OptionError, match=f"^path: expected a Qdrant server .*, got {got}") as fault,
    ):
        move(memory, url)
    assert "secret" not in str(fault.value)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://me:pass/word@127.0.0.1:1", "http://127.0.0.1:1"),
        ("http://me:pass?word@host:port", "http://host:port"),
        ("http://127.0.0.1:99999/?api-key=word", "http://127.0.0.1:99999"),
        ("http://me:pass@word@[::1", "http://[::1"),
        ("HTTP://me:pass@word@127.0.0.1:1", "HTTP://127.0.0.1:1"),
    ],
)
def test_what_is_no_url_is_named_without_its_password(
    url: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    with pytest.raises(OptionError) as fault, open_source("qdrant", url):
        pass
    assert str(fault.value).startswith(
        f"path: expected a Qdrant server that answers at {told}, got "
    )
    assert "pass" not in str(fault.value)
    assert "word" not in str(fault.value)


def test_other_systems_take_no_url() -> None:
    told = "path: expected a path of this machine, got a URL"
    with pytest.raises(OptionError, match=told), open_source("mem0", "http://127.0.0.1:1"):
        pass
