"""The embedder of an endpoint against a stub on the loopback."""

import json
import os
import socket
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from embed.lateness import within
from embed.stub_server import StubServer, vector_of
from hyrecall.embed import Embedder, EmbedError, EmbedFault, HttpEmbedder
from hyrecall.errors import DTypeError, OptionError

KEY = "sk-0123456789abcdef"


@pytest.fixture
def made() -> Iterator[list[HttpEmbedder]]:
    """Close what a test makes."""
    embedders: list[HttpEmbedder] = []
    yield embedders
    for embedder in embedders:
        embedder.close()


def test_texts_become_the_vectors_of_the_reply(
    server: StubServer, made: list[HttpEmbedder]
) -> None:
    embedder = HttpEmbedder(server.url("ok"), model="small", key=KEY)
    made.append(embedder)
    assert isinstance(embedder, Embedder)
    assert (embedder.model, embedder.dim) == ("small", None)
    rows = embedder.embed(["banana"])
    assert rows.tolist() == [vector_of("banana")]
    assert rows.dtype == np.float32
    assert embedder.dim == 4
    (request,) = server.requests
    assert request.path == "/ok/v1/embeddings"
    assert request.json == {"model": "small", "input": "banana"}
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["host"] == f"127.0.0.1:{server.port}"


def test_many_texts_go_in_batches_over_one_connection(
    server: StubServer, made: list[HttpEmbedder]
) -> None:
    embedder = HttpEmbedder(server.url("ok"), batch=3)
    made.append(embedder)
    texts = ["a" * n for n in range(1, 8)]
    assert embedder.embed(texts).tolist() == [vector_of(text) for text in texts]
    assert [request.json["input"] for request in server.requests] == [
        texts[:3],
        texts[3:6],
        "a" * 7,
    ]
    assert server.n_connections == 1
    assert embedder.embed([]).shape == (0, 4)


def test_a_reply_in_another_order_is_put_in_order(
    server: StubServer, made: list[HttpEmbedder]
) -> None:
    embedder = HttpEmbedder(server.url("shuffled"))
    made.append(embedder)
    texts = ["a", "bb", "ccc"]
    assert embedder.embed(texts).tolist() == [vector_of(text) for text in texts]


FAULTS = [
    ("status500", EmbedFault.UNREACHABLE, "status 500"),
    ("busy", EmbedFault.UNREACHABLE, "status 429"),
    ("unauthorized", EmbedFault.UNREACHABLE, "status 401"),
    ("redirect", EmbedFault.MALFORMED, "302"),
    ("junk", EmbedFault.MALFORMED, "JSON"),
    ("nothttp", EmbedFault.MALFORMED, "an HTTP reply"),
    ("nan", EmbedFault.MALFORMED, "finite"),
    ("huge", EmbedFault.MALFORMED, "at most"),
    ("cut", EmbedFault.UNREACHABLE, "IncompleteRead"),
    ("cutchunk", EmbedFault.UNREACHABLE, "IncompleteRead"),
    ("reset", EmbedFault.UNREACHABLE, "ConnectionResetError"),
    ("hang", EmbedFault.TIMEOUT, "in time"),
    ("dripbody", EmbedFault.TIMEOUT, "in time"),
    ("driphead", EmbedFault.TIMEOUT, "in time"),
]


@pytest.mark.parametrize(("mode", "fault", "detail"), FAULTS, ids=[mode for mode, *_ in FAULTS])
def test_a_bad_endpoint_is_a_fault_of_its_kind_within_the_timeout(
    server: StubServer, mode: str, fault: EmbedFault, detail: str
) -> None:
    embedder = HttpEmbedder(server.url(mode), key=KEY, timeout=0.5)
    begun = time.monotonic()
    with pytest.raises(EmbedError) as caught:
        embedder.embed(["SECRET text"])
    assert time.monotonic() - begun < within(1.5)
    assert caught.value.fault is fault
    assert detail in str(caught.value)
    told = str(caught.value) + repr(caught.value) + repr(embedder)
    assert KEY not in told
    assert "SECRET" not in told
    is_kept = bool(embedder._idle)
    embedder.close()
    assert is_kept == (mode in ("junk", "nan"))  # only one that has been read to the end


def test_a_port_without_a_server_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(EmbedError, match="got ConnectionRefusedError") as caught:
        HttpEmbedder(f"http://127.0.0.1:{port}").embed(["tea"])
    assert caught.value.fault is EmbedFault.UNREACHABLE


def test_a_name_that_nobody_knows_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> object:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(EmbedError, match="got gaierror") as caught:
        HttpEmbedder("https://nobody.invalid/v1").embed(["tea"])
    assert caught.value.fault is EmbedFault.UNREACHABLE


def test_another_address_is_tried_where_one_refuses(
    server: StubServer, made: list[HttpEmbedder], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        dead = listener.getsockname()
    alive = ("127.0.0.1", server.port)
    both = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", at) for at in (dead, alive)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: both)
    embedder = HttpEmbedder("http://localhost/ok")
    made.append(embedder)
    assert embedder.embed(["a"]).shape == (1, 4)


def test_a_server_that_speaks_no_tls_is_unreachable(server: StubServer) -> None:
    url = server.url("ok").replace("http:", "https:")
    with pytest.raises(EmbedError) as caught:
        HttpEmbedder(url, timeout=0.5, key=KEY).embed(["tea"])
    assert caught.value.fault in (EmbedFault.UNREACHABLE, EmbedFault.TIMEOUT)
    assert server.requests == []


def test_it_is_tried_once_more_where_that_may_help(
    server: StubServer, made: list[HttpEmbedder]
) -> None:
    embedder = HttpEmbedder(server.url("flaky"))
    made.append(embedder)
    server.failures_left = 1
    assert embedder.embed(["a"]).shape == (1, 4)
    assert len(server.requests) == 2
    server.failures_left = 2
    with pytest.raises(EmbedError, match="status 503"):
        embedder.embed(["a"])
    assert len(server.requests) == 4
    for mode, n in (("unauthorized", 1), ("redirect", 1), ("junk", 1), ("reset", 2), ("cut", 2)):
        server.requests.clear()
        with pytest.raises(EmbedError):
            HttpEmbedder(server.url(mode)).embed(["a"])
        assert (mode, len(server.requests)) == (mode, n)


def test_without_time_it_is_not_tried_again(
    server: StubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hyrecall.embed.http._PAUSE", (10.0, 10.0))
    with pytest.raises(EmbedError, match="status 500"):
        HttpEmbedder(server.url("status500")).embed(["a"])
    assert len(server.requests) == 1
    server.requests.clear()
    with pytest.raises(EmbedError, match="status 500"):
        HttpEmbedder(server.url("status500"), retries=0).embed(["a"])
    assert len(server.requests) == 1


def test_a_connection_that_was_closed_while_idle_is_no_failure(
    server: StubServer, made: list[HttpEmbedder]
) -> None:
    embedder = HttpEmbedder(server.url("leave"), retries=0)
    made.append(embedder)
    for _ in range(3):
        assert embedder.embed(["a"]).shape == (1, 4)
        time.sleep(0.02)
    assert server.n_connections == 3


def test_a_late_reply_is_never_given_to_the_next_call(
    server: StubServer, made: list[HttpEmbedder]
) -> None:
    embedder = HttpEmbedder(server.url("slow"))
    made.append(embedder)
    for n in range(1, 6):
        server.seconds = 0.1
        with pytest.raises(EmbedError, match="in time"):
            embedder.embed_within(["late" * n], 0.05)
        server.seconds = 0.0
        assert embedder.embed(["a" * n]).tolist() == [vector_of("a" * n)]


def test_threads_get_their_own_replies(server: StubServer, made: list[HttpEmbedder]) -> None:
    embedder = HttpEmbedder(server.url("ok"))
    made.append(embedder)
    wrong: list[str] = []

    def ask(letter: str) -> None:
        texts = [letter * n for n in range(1, 20)]
        wrong.extend(t for t in texts if embedder.embed([t]).tolist() != [vector_of(t)])

    threads = [threading.Thread(target=ask, args=(letter,)) for letter in "abcdef"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_child_process_makes_connections_of_its_own(
    server: StubServer, made: list[HttpEmbedder]
) -> None:
    embedder = HttpEmbedder(server.url("ok"))
    made.append(embedder)
    embedder.embed(["a"])
    pid = os.fork()
    if pid == 0:
        is_right = embedder.embed(["bb"]).tolist() == [vector_of("bb")]
        os._exit(0 if is_right else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert embedder.embed(["ccc"]).tolist() == [vector_of("ccc")]
    assert server.n_connections == 2


def test_a_length_that_changes_is_refused(server: StubServer, made: list[HttpEmbedder]) -> None:
    embedder = HttpEmbedder(server.url("custom"))
    made.append(embedder)
    server.custom = json.dumps({"data": [{"embedding": [1, 2]}]}).encode()
    assert embedder.embed(["a"]).tolist() == [[1, 2]]
    server.custom = json.dumps({"data": [{"embedding": [1, 2, 3]}]}).encode()
    with pytest.raises(EmbedError, match="2 numbers, got 3") as caught:
        embedder.embed(["a"])
    assert caught.value.fault is EmbedFault.WRONG_SIZE


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"data": {}}',
        b'{"data": []}',
        b'{"data": [null]}',
        b'{"data": [{}]}',
        b'{"data": [{"embedding": null}]}',
        b'{"data": [{"embedding": []}]}',
        b'{"data": [{"embedding": "AAAA"}]}',
        b'{"data": [{"embedding": [[1]]}]}',
        b'{"data": [{"embedding": [1, "a"]}]}',
        b'{"data": [{"embedding": [1, true]}, {"embedding": [1, 2]}]}',
        b'{"data": [{"embedding": [1], "index": 1}]}',
        b'{"data": [{"embedding": [1], "index": "0"}]}',
        b'{"data": [{"embedding": [1e999]}]}',
        b'{"data": [{"embedding": [' + b"9" * 5000 + b"]}]}",
        b"[" * 100_000,
        b'\xff\xfe{"data"',
    ],
    ids=lambda body: body[:44].decode(errors="replace"),
)
def test_any_other_reply_is_malformed(server: StubServer, body: bytes) -> None:
    server.custom = body
    embedder = HttpEmbedder(server.url("custom"))
    with pytest.raises(EmbedError) as caught:
        embedder.embed(["tea"])
    embedder.close()
    assert caught.value.fault in (EmbedFault.MALFORMED, EmbedFault.WRONG_SIZE)


def test_texts_that_are_none_are_refused_before_anything_is_sent(server: StubServer) -> None:
    embedder = HttpEmbedder(server.url("ok"))
    with pytest.raises(OptionError, match=r"texts\[1\]: expected a text, got a blank one"):
        embedder.embed(["a", " "])
    with pytest.raises(DTypeError, match=r"texts\[0\]: expected a str"):
        embedder.embed([None])  # type: ignore[list-item]
    with pytest.raises(DTypeError, match="texts: expected a sequence of str"):
        embedder.embed("tea")
    assert server.n_connections == 0
