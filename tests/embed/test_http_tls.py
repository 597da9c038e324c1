"""The embedder of an endpoint over TLS: certificates checked, the deadline kept."""

import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from embed.lateness import within
from embed.stub_server import StubServer, serving, vector_of
from hyrecall.embed import EmbedError, EmbedFault, HttpEmbedder

OPENSSL = shutil.which("openssl")
pytestmark = pytest.mark.skipif(OPENSSL is None, reason="needs the program openssl")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate of localhost, signed by itself, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        [
            str(OPENSSL), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
            "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
            "-keyout", key, "-out", certificate,
        ],
        check=True,
        capture_output=True,
    )  # fmt: skip
    return certificate, key


@pytest.fixture
def server(certificate: tuple[Path, Path]) -> Iterator[StubServer]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    with serving(context) as one:
        yield one


@pytest.fixture
def trusting(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificate[0]))


def test_texts_go_over_one_connection(server: StubServer, trusting: ssl.SSLContext) -> None:
    embedder = HttpEmbedder(server.url("ok"), key="sk-1", context=trusting)
    for text in ("banana", "tea", "a" * 300_000):
        assert embedder.embed([text]).tolist() == [vector_of(text)]
    assert server.n_connections == 1
    assert server.requests[0].headers["authorization"] == "Bearer sk-1"
    assert server.requests[0].headers["host"] == f"localhost:{server.port}"
    embedder.close()


def test_a_certificate_that_nobody_signed_is_refused_before_the_key_is_sent(
    server: StubServer,
) -> None:
    with pytest.raises(EmbedError, match="SSLCertVerificationError") as caught:
        HttpEmbedder(server.url("ok"), key="sk-1").embed(["tea"])
    assert caught.value.fault is EmbedFault.UNREACHABLE
    assert server.requests == []


def test_a_certificate_of_another_host_is_refused(
    server: StubServer, trusting: ssl.SSLContext
) -> None:
    url = server.url("ok").replace("localhost", "127.0.0.1")
    with pytest.raises(EmbedError, match="SSLCertVerificationError"):
        HttpEmbedder(url, key="sk-1", context=trusting).embed(["tea"])
    assert server.requests == []


@pytest.mark.parametrize("mode", ["hang", "driphead", "dripbody"])
def test_the_deadline_holds_over_tls(
    mode: str, server: StubServer, trusting: ssl.SSLContext
) -> None:
    embedder = HttpEmbedder(server.url(mode), timeout=0.3, context=trusting)
    begun = time.monotonic()
    with pytest.raises(EmbedError) as caught:
        embedder.embed(["tea"])
    assert time.monotonic() - begun < within(1)
    assert caught.value.fault is EmbedFault.TIMEOUT


def test_the_deadline_holds_for_a_handshake_that_never_comes(trusting: ssl.SSLContext) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://localhost:{silent.getsockname()[1]}"
        begun = time.monotonic()
        with pytest.raises(EmbedError) as caught:
            HttpEmbedder(url, timeout=0.3, context=trusting).embed(["tea"])
        assert time.monotonic() - begun < within(1)
    assert caught.value.fault is EmbedFault.TIMEOUT


def test_a_context_that_others_use_too_goes_on_serving_them(
    server: StubServer, trusting: ssl.SSLContext
) -> None:
    embedder = HttpEmbedder(server.url("ok"), context=trusting)
    embedder.embed(["tea"])
    embedder.close()
    with (
        socket.create_connection(("localhost", server.port), timeout=5) as plain,
        trusting.wrap_socket(plain, server_hostname="localhost") as theirs,
    ):
        theirs.sendall(b"GET /redirect/v1 HTTP/1.1\r\n\r\n")
        assert theirs.recv(12) == b"HTTP/1.1 302"
        assert theirs.gettimeout() == 5
