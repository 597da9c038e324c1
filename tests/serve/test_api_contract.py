"""Generated requests to every route: no error of the server, and nothing of another tenant.

The requests are Bob's; Ann's memories hold a canary, which no reply may contain.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, Phase, settings

from hyrecall.memory import Memory
from hyrecall.recipes import loom
from hyrecall.serve import ServiceOptions, create_app
from hyrecall.serve.tokens import make_token
from laws.effort import Effort
from serve.conftest import ANN, BOB

CANARY = "canaryofann"


@pytest.fixture(scope="module")
def world() -> Iterator[tuple[Any, TestClient, dict[str, str]]]:
    """A service with memories of Ann, a client of it, and the headers of Bob."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "tokens.json")
        ann, bob = make_token(path, ANN), make_token(path, BOB)
        app = create_app(Memory.in_memory(recipe=loom, embedder=None), ServiceOptions(tokens=path))
        with TestClient(app, base_url="http://127.0.0.1:8765") as client:
            head = {"Authorization": f"Bearer {ann}"}
            for at in range(3):
                kept = {"text": f"{CANARY} {at}", "id": f"m{at}", "tags": [CANARY]}
                assert client.post("/v1/memories", json=kept, headers=head).status_code == 201
            edge = {"nodes": ["m0", "m1"], "relationship": CANARY}
            assert client.post("/v1/links", json=edge, headers=head).status_code == 201
            assert CANARY in client.get("/v1/export", headers=head).text
            yield app, client, {"Authorization": f"Bearer {bob}"}
            assert client.get("/v1/export", headers=head).text.count(CANARY) > 3


def test_generated_requests_meet_no_fault_and_no_foreign_memory(
    world: tuple[Any, TestClient, dict[str, str]], effort: Effort
) -> None:
    app, client, head = world
    schema = schemathesis.openapi.from_dict(app.openapi())
    n_examples = effort.cases(quick=2, full=300)
    told: dict[str, set[int]] = {}
    for result in schema.get_all_operations():
        operation = result.ok()
        # The doors of other systems have tests of their own.
        if operation.path.startswith(("/v1/", "/healthz", "/readyz", "/metrics")):
            name = f"{operation.method.upper()} {operation.path}"
            told[name] = statuses(operation, name, client, head, n_examples)
    assert len(told) >= 20
    assert sum(200 in seen or 201 in seen for seen in told.values()) >= 8, told


def statuses(
    operation: Any, name: str, client: TestClient, head: dict[str, str], n_examples: int
) -> set[int]:
    """Send generated requests of one operation; return the statuses of the replies."""
    seen: set[int] = set()

    @hypothesis.seed(20260501)
    @settings(
        max_examples=n_examples,
        deadline=None,
        database=None,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(case=operation.as_strategy())
    def check(case: Any) -> None:
        sent = case.as_transport_kwargs(base_url="http://127.0.0.1:8765")
        sent = {
            key: value for key, value in sent.items() if key not in ("timeout", "verify", "cookies")
        }
        reply = client.request(**{**sent, "headers": {**dict(sent["headers"]), **head}})
        seen.add(reply.status_code)
        assert reply.status_code < 500, (name, reply.text)
        assert CANARY not in reply.text, name
        if reply.status_code >= 400:
            assert set(reply.json()) == {"error"}, name

    check()
    return seen
