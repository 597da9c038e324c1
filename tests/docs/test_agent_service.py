"""``examples/agent_service.py`` turns errors into HTTP codes and passes on what is degraded."""

import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the example needs fastapi")
pytest.importorskip("httpx2", reason="the example needs httpx2")
pytest.importorskip("apsw", reason="the extra [memory] is not installed")

from fastapi.testclient import TestClient

import hyrecall as hr
from hyrecall.errors import error

PATH = Path(__file__).parents[2] / "examples" / "agent_service.py"


class Failing:
    """A store whose calls raise one error."""

    def __init__(self, fault: hr.HyrecallError) -> None:
        self.fault = fault

    def __getattr__(self, name: str) -> Any:
        async def call(*arguments: object, **options: object) -> None:
            raise self.fault

        return call


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.delenv("AGENT_STORE", raising=False)
    monkeypatch.setenv("HYRECALL_EMBED_DISABLE", "1")
    return runpy.run_path(str(PATH))


@pytest.fixture
def client(service: dict[str, Any]) -> Iterator[TestClient]:
    with TestClient(service["app"], headers={"X-User": "ann"}) as client:
        yield client


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (hr.OptionError, 422),
        (hr.DTypeError, 422),
        (hr.NotFoundError, 404),
        (hr.StoreError, 503),
        (hr.WriterBusyError, 503),
        (hr.CorruptStoreError, 503),
        (hr.InternalError, 503),
    ],
)
def test_errors_become_codes_and_troubles_of_the_store_are_not_described(
    service: dict[str, Any], client: TestClient, kind: type[hr.HyrecallError], code: int
) -> None:
    failing = Failing(error(kind, "/srv/store", "this", "that"))
    service["app"].dependency_overrides[service["store_of"]] = lambda: failing
    for reply in (
        client.post("/memories", json={"text": "tea"}),
        client.post("/search", json={"text": "tea"}),
        client.delete("/memories/m1"),
    ):
        assert reply.status_code == code
        assert ("/srv/store" in reply.text) == (code != 503)


def test_a_search_that_is_degraded_says_so_and_why(client: TestClient) -> None:
    assert client.post("/memories", json={"text": "tea"}).status_code == 201
    reply = client.post("/search", json={"text": "tea"}).json()
    assert [match["text"] for match in reply["matches"]] == ["tea"]
    assert reply["degraded"] is True
    assert reply["reasons"] == ["embeddings_off (HYRECALL_EMBED_DISABLE is set)"]


def test_a_request_without_a_user_is_refused(client: TestClient) -> None:
    client.headers.pop("X-User")
    assert client.post("/search", json={"text": "tea"}).status_code == 422
