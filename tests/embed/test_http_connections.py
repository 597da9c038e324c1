"""Which connections the embedder of an endpoint makes, keeps and closes."""

import contextlib
import os
import socket
import threading
import time

import pytest

from embed.connections import n_idle
from embed.lateness import within
from embed.stub_server import StubServer, vector_of
from hyrecall.embed import EmbedError, EmbedFault, HttpEmbedder

KEY = "sk-0123456789abcdef"


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


def test_addresses_that_do_not_answer_share_one_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, contextlib.ExitStack() as held:
        for _ in range(8):  # fills the queue: later ones get no answer
            one = held.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        silent = (socket.AF_INET, socket.SOCK_STREAM, 6, "", full.getsockname())
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [silent] * 5)
        begun = time.monotonic()
        with pytest.raises(EmbedError, match="in time") as caught:
            HttpEmbedder("http://localhost/v1", timeout=0.4).embed(["tea"])
        assert time.monotonic() - begun < within(1)
    assert caught.value.fault is EmbedFault.TIMEOUT


def test_a_server_that_does_not_read_the_request_is_left_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        begun = time.monotonic()
        with pytest.raises(EmbedError, match="in time") as caught:
            HttpEmbedder(url, timeout=0.4).embed(["a" * 2**24])
        assert time.monotonic() - begun < within(1)
    assert caught.value.fault is EmbedFault.TIMEOUT


def test_an_ipv6_address_stands_in_brackets_in_the_host_header(
    server: StubServer, made: list[HttpEmbedder], monkeypatch: pytest.MonkeyPatch
) -> None:
    at = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", server.port))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [at])
    embedder = HttpEmbedder("http://[::1]/ok", key=KEY)
    made.append(embedder)
    embedder.embed(["a"])
    assert server.requests[0].headers["host"] == "[::1]"


def test_a_connection_that_was_closed_while_idle_is_no_failure(
    server: StubServer, made: list[HttpEmbedder]
) -> None:
    embedder = HttpEmbedder(server.url("leave"), retries=0)
    made.append(embedder)
    for _ in range(3):
        assert embedder.embed(["a"]).shape == (1, 4)
        time.sleep(0.02)
    assert server.n_connections == 3


def test_a_connection_that_is_closed_just_as_it_is_used_again_is_no_failure(
    server: StubServer, made: list[HttpEmbedder]
) -> None:
    embedder = HttpEmbedder(server.url("once"), retries=0)
    made.append(embedder)
    for _ in range(3):
        assert embedder.embed(["a"]).shape == (1, 4)
    assert server.n_connections == 3


def test_four_connections_are_kept(server: StubServer, made: list[HttpEmbedder]) -> None:
    embedder = HttpEmbedder(server.url("slow"))
    made.append(embedder)
    threads = [threading.Thread(target=embedder.embed, args=(["a"],)) for _ in range(7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert server.n_connections == 7
    assert n_idle(embedder) == 4


def test_calls_under_way_end_well_when_the_embedder_is_closed(
    server: StubServer, made: list[HttpEmbedder]
) -> None:
    embedder = HttpEmbedder(server.url("slow"), retries=0)
    made.append(embedder)
    rows: list[list[float]] = []
    thread = threading.Thread(target=lambda: rows.extend(embedder.embed(["aa"]).tolist()))
    thread.start()
    while not server.requests:
        time.sleep(0.001)
    embedder.close()
    thread.join()
    assert rows == [vector_of("aa")]
    assert embedder.embed(["a"]).tolist() == [vector_of("a")]


def test_proxies_of_the_environment_are_not_used(
    server: StubServer, made: list[HttpEmbedder], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    embedder = HttpEmbedder(server.url("ok"))
    made.append(embedder)
    assert embedder.embed(["a"]).shape == (1, 4)


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
