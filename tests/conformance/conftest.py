"""Opens a store, or builds an index, at each face."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal

from conformance.store_doors import CommandLine, Mcp, Rest
from conformance.store_face import Opening, Store
from conformance.store_python import Agent, Async, Python, SecondProcess, Shared

STORES = (Python, Async, Agent, SecondProcess, Rest, Mcp, CommandLine)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Try each scenario at each face."""
    if {"store", "make_store"} & set(metafunc.fixturenames):
        metafunc.parametrize("store_face", STORES, ids=[one.name for one in STORES])


@pytest.fixture(scope="session")
def shared() -> Iterator[Shared]:
    with ExitStack() as stack:
        yield Shared(stack.enter_context(start_blocking_portal()), stack)


@pytest.fixture
def make_store(
    store_face: type, shared: Shared, tmp_path: Path
) -> Iterator[Callable[..., Store]]:
    """Opens a store at the face: by recipe name, with an embedder or without."""
    with ExitStack() as stack:

        def make(recipe: str = "default", *, embeds: bool = False, name: str = "a.mem") -> Store:
            opening = Opening(tmp_path / name, recipe, embeds)
            made: Store = store_face.enter(opening, shared, stack)
            return made

        yield make


@pytest.fixture
def store(make_store: Callable[..., Store]) -> Store:
    """A store of the default recipe, without an embedder, as ann sees it."""
    return make_store()
