"""Errors have one shape and repeat nothing of a request."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, Field

from hyrecall.errors import (
    CorruptStoreError,
    DTypeError,
    InternalError,
    KeyConflictError,
    NotFoundError,
    OptionError,
    ScopeError,
    StoreBusyError,
    StoreError,
    StoreMismatchError,
    WriterBusyError,
    error,
)
from seams import ServiceError, install
from serve_client import calling

SECRET = "canary-of-somebody"


class Body(BaseModel):
    count: int = Field(le=3)


def failing(fault: Exception) -> FastAPI:
    app = FastAPI()
    install(app)

    @app.post("/fail/{what}")
    async def fail(what: str, body: Body | None = None) -> None:
        raise fault

    return app


def reply(fault: Exception, body: Any = None) -> tuple[int, Any, Any]:
    async def ask() -> tuple[int, Any, Any]:
        async with calling(failing(fault)) as client:
            got = await client.post(f"/fail/{SECRET}", json=body)
            return got.status_code, got.json(), got.headers

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("fault", "status", "kind"),
    [
        (error(OptionError, "limit", ">= 1", SECRET, "pass depth="), 422, "OptionError"),
        (error(DTypeError, "query", "a str", SECRET), 422, "DTypeError"),
        (error(ScopeError, "scope", "one", SECRET), 403, "ScopeError"),
        (error(NotFoundError, "id", "a memory", SECRET), 404, "NotFoundError"),
        (error(KeyConflictError, "id", "a new one", SECRET), 409, "KeyConflictError"),
        (error(WriterBusyError, SECRET, "none", "one"), 503, "WriterBusyError"),
        (error(StoreBusyError, SECRET, "a turn", "none"), 503, "StoreBusyError"),
        (error(StoreMismatchError, "recipe", "loom", SECRET), 503, "StoreMismatchError"),
        (error(StoreError, SECRET, "a disk", "none"), 503, "StoreError"),
        (error(CorruptStoreError, SECRET, "rows", "none"), 500, "CorruptStoreError"),
        (InternalError(SECRET), 500, "InternalError"),
        (error(OptionError, "memory", "an open store", "a closed one"), 503, "OptionError"),
        (ServiceError(503, "Busy", "come back", retry_after=2), 503, "Busy"),
        (ValueError(SECRET), 500, "InternalError"),
        (RecursionError(SECRET), 500, "InternalError"),
    ],
)
def test_an_error_has_its_status_and_no_word_of_the_request(
    fault: Exception, status: int, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "hyrecall")
    found, body, headers = reply(fault)
    assert (found, body["error"]["type"]) == (status, kind)
    assert set(body) == {"error"}
    assert set(body["error"]) == {"type", "message"}
    assert SECRET not in str(body)
    assert SECRET not in caplog.text
    assert "pass depth" not in str(body)
    assert (status == 503) == ("retry-after" in headers)


class Strict(Body):
    model_config = ConfigDict(extra="forbid")


@pytest.mark.parametrize(
    ("content", "media_type", "message"),
    [
        (b'{"count": 1}', "text/plain", "Content-Type: expected application/json"),
        (b"{'count': 1}", "application/json", "body: expected JSON"),
        (b'{"count": 1, "size": 2}', "application/json", "size: expected no such field"),
        (b"", "application/json", "body: expected a JSON object with count, got nothing"),
        (b"null", "application/json", "body: expected a JSON object with count, got nothing"),
        (b"[1]", "application/json", "body: expected a JSON object with count, got a list"),
        (b"17", "application/json", "body: expected a JSON object with count, got a number"),
    ],
)  # fmt: skip
def test_a_first_attempt_by_hand_learns_what_is_wrong(
    content: bytes, media_type: str, message: str
) -> None:
    app = FastAPI()
    install(app)

    @app.post("/count")
    async def count(body: Strict) -> None: ...

    async def ask() -> tuple[int, Any]:
        async with calling(app) as client:
            headers = {"Content-Type": media_type}
            got = await client.post("/count", content=content, headers=headers)
            return got.status_code, got.json()

    assert asyncio.run(ask()) == (422, {"error": {"type": "Invalid", "message": message}})
