"""The remote places that tests push to: a folder, memory, and a server that speaks S3."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

PLACES = ("file", "memory", "s3")


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """Start a server in this process; gives its address."""
    pytest.importorskip("obstore", reason="the extra [s3] is not installed")
    server = pytest.importorskip("moto.server", reason="moto[server] is not installed")
    started = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    started.start()
    host, port = started.get_host_and_port()
    yield f"http://{host}:{port}"
    started.stop()


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of an empty place of each kind; those that need a package are skipped by name."""
    if request.param == "file":
        return (tmp_path / "remote").as_uri()
    pytest.importorskip("obstore", reason="the extra [s3] is not installed")
    name = secrets.token_hex(8)
    if request.param == "memory":
        return f"memory://{name}"
    address = request.getfixturevalue("s3_server")
    for variable, value in {
        "AWS_ENDPOINT_URL": address,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
    }.items():
        monkeypatch.setenv(variable, value)
    make_bucket(address, name)
    return f"s3://{name}/copies/notes"


def make_bucket(address: str, name: str) -> None:
    import urllib.request

    asked = urllib.request.Request(f"{address}/{name}", method="PUT")
    with urllib.request.urlopen(asked) as reply:
        assert reply.status == 200
