"""What tests of the service share: stores and indexes to serve, and tokens."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hyrecall.memory import Memory
from hyrecall.recipes import loom
from hyrecall.serve import Caller
from seams import Opening, make_token

ANN = Caller(org="acme", workspace="lab", user_id="ann", rights=frozenset(("read", "write")))
BOB = Caller(org="acme", workspace="lab", user_id="bob", rights=frozenset(("read", "write")))


@pytest.fixture
def store() -> Opening:
    """A store in memory that opens when the app starts."""
    return Memory.in_memory(recipe=loom, embedder=None)


@pytest.fixture
def token_of(tmp_path: Path) -> Callable[..., str]:
    """Makes tokens in ``tokens.json`` of the test's folder."""

    def make(who: Caller, **options: Any) -> str:
        return make_token(tmp_path / "tokens.json", who, **options)

    return make


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True
