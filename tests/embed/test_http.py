"""The embedder of an endpoint against a stub on the loopback: its replies, URL and key."""

import contextlib
import copy
import json
import logging
import pickle
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

from embed.connections import n_idle
from embed.lateness import within
from embed.stub_server import StubServer, vector_of
from hyrecall.embed import Embedder, EmbedError, EmbedFault, HttpEmbedder
from hyrecall.errors import DTypeError, MissingExtraError, OptionError

# ---- replies ----

KEY = "sk-0123456789abcdef"


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
    ("unauthorized", EmbedFault.CONFIGURATION, "status 401"),
    ("redirect", EmbedFault.MALFORMED, "302"),
    ("junk", EmbedFault.MALFORMED, "JSON"),
    ("nothttp", EmbedFault.MALFORMED, "an HTTP reply"),
    ("nan", EmbedFault.MALFORMED, "finite"),
    ("huge", EmbedFault.MALFORMED, "at most"),
    ("cut", EmbedFault.UNREACHABLE, "a whole reply"),
    ("cutchunk", EmbedFault.UNREACHABLE, "a whole reply"),
    ("badchunk", EmbedFault.UNREACHABLE, "a whole reply"),
    ("cuthead", EmbedFault.MALFORMED, "an HTTP reply"),
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
    is_kept = n_idle(embedder) > 0
    embedder.close()
    whole = ("junk", "nan", "status500", "busy", "unauthorized")
    assert is_kept == (mode in whole)  # only one that has been read to the end
    assert n_idle(embedder) == 0


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
    monkeypatch.setattr("hyrecall.embed.http_client._PAUSE", (10.0, 10.0))
    with pytest.raises(EmbedError, match="status 500"):
        HttpEmbedder(server.url("status500")).embed(["a"])
    assert len(server.requests) == 1
    server.requests.clear()
    with pytest.raises(EmbedError, match="status 500"):
        HttpEmbedder(server.url("status500"), retries=0).embed(["a"])
    assert len(server.requests) == 1


def test_no_log_has_the_key_a_text_or_the_query_of_the_url(
    server: StubServer, made: list[HttpEmbedder], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for mode in ("ok", "unauthorized", "cut"):
        embedder = HttpEmbedder(server.url(mode) + "?secret=query", key=KEY)
        made.append(embedder)
        with contextlib.suppress(EmbedError):
            embedder.embed(["SECRET text"])
    assert server.requests[0].path == "/ok/v1/embeddings?secret=query"
    for private in (KEY, "SECRET", "secret=query"):
        assert private not in caplog.text


def test_without_its_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpcore2", None)
    monkeypatch.delitem(sys.modules, "hyrecall.embed.http_client", raising=False)
    with pytest.raises(MissingExtraError) as caught:
        HttpEmbedder("http://localhost/v1")
    assert str(caught.value) == (
        "embedder: expected an HTTP client (pip install 'hyrecall[http]'), got no package httpcore2"
    )
    with pytest.raises(OptionError, match="batch: expected"):  # a wrong argument is told first
        HttpEmbedder("http://localhost/v1", batch=0)


def test_the_client_is_imported_only_when_an_endpoint_is_used() -> None:
    code = "import sys, hyrecall, hyrecall.embed; sys.exit('httpcore2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


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


def test_a_copy_and_a_pickle_of_an_embedder_connect_by_themselves(server: StubServer) -> None:
    embedder = HttpEmbedder(server.url("ok"), model="m", key="secret", batch=3, retries=0)
    wanted = embedder.embed(["tea"])
    for other in (pickle.loads(pickle.dumps(embedder)), copy.deepcopy(embedder)):
        assert (repr(other), other.dim, other.timeout) == (repr(embedder), embedder.dim, 5.0)
        assert (other.embed(["tea"]) == wanted).all()
        other.close()
    embedder.close()


@pytest.mark.parametrize(
    ("status", "fault"),
    [
        *((status, EmbedFault.REFUSED) for status in (400, 413, 422)),
        *((status, EmbedFault.CONFIGURATION) for status in (401, 403, 404)),
        *((status, EmbedFault.UNREACHABLE) for status in (408, 429, 500, 503)),
    ],
)
def test_a_status_is_the_fault_of_the_text_the_key_or_the_endpoint_with_its_own_message(
    server: StubServer, made: list[HttpEmbedder], status: int, fault: EmbedFault
) -> None:
    server.status, server.custom = status, b'{"error": {"message": "what is wrong"}}'
    embedder = HttpEmbedder(server.url("status"), retries=0)
    made.append(embedder)
    with pytest.raises(EmbedError) as caught:
        embedder.embed(["tea"])
    assert (caught.value.fault, caught.value.said) == (fault, "what is wrong")
    assert str(caught.value) == (
        f"embedder: expected status 200, got status {status} (what is wrong)"
    )


LETTER = "Dear Ann, the diagnosis that we talked about is the one that you feared."


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (json.dumps({"error": "too long"}), "too long"),
        (json.dumps({"detail": [{"msg": "too long", "input": LETTER}]}), "too long"),
        (json.dumps({"message": f"cannot read: {LETTER}"}), "cannot read: [...]"),
        (json.dumps({"message": f"at '{LETTER[5:40]}...'"}), "at '[...]...'"),
        (json.dumps({"message": f"key {KEY} expired"}), "key [...] expired"),
        (json.dumps({"message": "word " * 1000}), f"{'word ' * 39}wo..."),
        ("plain words\x1b[0m\nof two lines", "plain words [0m of two lines"),
        ("<html>413</html>", ""),
        (json.dumps({"error": {"code": 400}}), ""),
        ("[" * 100_000, ""),
        ("", ""),
    ],
)
def test_the_message_of_an_endpoint_is_short_and_repeats_neither_text_nor_key(
    server: StubServer, made: list[HttpEmbedder], body: str, told: str
) -> None:
    server.custom = body.encode()
    embedder = HttpEmbedder(server.url("status"), key=KEY)
    made.append(embedder)
    with pytest.raises(EmbedError) as caught:
        embedder.embed([LETTER, "tea"])
    assert caught.value.said == told


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"error": "Unexpected endpoint or method. (POST /embeddings)"},
         "an error (Unexpected endpoint or method. (POST /embeddings))"),
        ({"error": {"message": f"key {KEY} has no quota for {LETTER}"}},
         "an error (key [...] has no quota for [...])"),
        ({"error": {"code": 7}}, "KeyError"),
        ({"data": [], "message": "none"}, "another number"),
    ],
)  # fmt: skip
def test_an_error_that_comes_with_status_200_is_shown(
    server: StubServer, made: list[HttpEmbedder], body: object, told: str
) -> None:
    server.custom = json.dumps(body).encode()
    embedder = HttpEmbedder(server.url("custom"), key=KEY)
    made.append(embedder)
    with pytest.raises(EmbedError) as caught:
        embedder.embed([LETTER])
    assert caught.value.fault == EmbedFault.MALFORMED
    assert str(caught.value).endswith(f", got {told}")


# ---- what an endpoint's URL and key may be ----


@pytest.mark.parametrize(
    ("url", "target", "name"),
    [
        ("http://localhost:8080", "/embeddings", "localhost:8080/embeddings"),
        ("http://127.0.0.1/v1", "/v1/embeddings", "127.0.0.1/v1/embeddings"),
        ("http://[::1]:80/v1/", "/v1/embeddings", "[::1]/v1/embeddings"),
        ("https://h/v1/embeddings", "/v1/embeddings", "h/v1/embeddings"),
        ("https://h/v1/embeddings/", "/v1/embeddings", "h/v1/embeddings"),
        ("https://h:444/x?api-version=1", "/x/embeddings?api-version=1", "h:444/x/embeddings"),
    ],
)
def test_the_path_ends_in_embeddings(url: str, target: str, name: str) -> None:
    embedder = HttpEmbedder(url, key=KEY)
    assert (embedder._endpoint.target, embedder.model) == (target, name)
    assert "api-version" not in repr(embedder)


@pytest.mark.parametrize(
    ("url", "wish"),
    [
        ("ftp://h/v1", "scheme 'ftp'"),
        ("h/v1", "scheme ''"),
        ("file:///etc/passwd", "scheme 'file'"),
        ("http://", "without a host"),
        ("http://user:pw@h/v1", "a user in it"),
        ("http://h/v1#part", "fragment"),
        ("http://h:99999/", "[Pp]ort"),
        ("http://h/a b", "another character"),
        ("http://h/a\r\nX: y", "another character"),
        ("http://" + "a" * 64 + ".org", "label"),
        ("http://h.example/v1", "https, so that nobody reads the key, got http to h.example"),
        ("http://127.0.0.1.example.org/v1", "https, so that nobody reads the key"),
        ("http://localhost.example.org/v1", "https, so that nobody reads the key"),
    ],
)
def test_a_url_that_is_no_endpoint_is_refused(url: str, wish: str) -> None:
    with pytest.raises(OptionError, match=f"url: expected .*{wish}") as caught:
        HttpEmbedder(url, key=KEY)
    assert KEY not in str(caught.value)
    assert "pw" not in str(caught.value)


def test_without_a_key_http_goes_anywhere() -> None:
    assert repr(HttpEmbedder("http://h.example/v1", model="m")) == (
        "HttpEmbedder('h.example/v1/embeddings', model='m')"
    )


@pytest.mark.parametrize("key", ["", " ", "a b", "a\r\nX-Evil: 1", "ké"])
def test_a_key_that_no_header_can_carry_is_refused_unseen(key: str) -> None:
    with pytest.raises(OptionError, match="key: expected printable ASCII") as caught:
        HttpEmbedder("http://localhost", key=key)
    assert "Evil" not in str(caught.value)
