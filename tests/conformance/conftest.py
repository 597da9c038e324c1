"""Opens a store, or builds an index, at each face."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal

from conformance.differences import DIFFERENCES
from conformance.faces import Refused
from conformance.index_faces import FACES as INDEXES
from conformance.index_faces import Index, OnDevice, Saved, World
from conformance.index_worlds import TEAS
from conformance.store_doors import CommandLine, Mcp, Rest
from conformance.store_face import Opening, Store
from conformance.store_python import Agent, Async, Python, SecondProcess, Shared

STORES = {one.name: one for one in (Python, Async, Agent, SecondProcess, Rest, Mcp, CommandLine)}
INDEXES_BY_NAME = {one.name: one for one in INDEXES}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Try each scenario at each face."""
    if "store_face" in metafunc.fixturenames:
        metafunc.parametrize("store_face", STORES, scope="function")
    if "index_face" in metafunc.fixturenames:
        faces = [one for one in INDEXES_BY_NAME if one != OnDevice.name or has_device(metafunc)]
        metafunc.parametrize("index_face", faces, scope="function")


def has_device(asked: pytest.Metafunc | pytest.FixtureRequest) -> bool:
    """Say whether there is an emulated device, or this machine's own is asked for."""
    named = asked.config.getoption("--device") or ()
    return "HYRECALL_EMULATED" in os.environ or OnDevice.name in named


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Expect the known differences to fail: a scenario that passes there fails the run."""
    for item in items:
        face = item.name.partition("[")[2].rstrip("]").split("-")[0]
        why = DIFFERENCES.get((getattr(item, "originalname", ""), face))
        if why is not None:
            kinds = (AssertionError, pytest.fail.Exception, Refused)
            item.add_marker(pytest.mark.xfail(reason=why, raises=kinds))


@pytest.fixture(scope="session")
def shared() -> Iterator[Shared]:
    with ExitStack() as stack:
        yield Shared(stack.enter_context(start_blocking_portal()), stack)


@pytest.fixture
def make_store(store_face: str, shared: Shared, tmp_path: Path) -> Iterator[Callable[..., Store]]:
    """Opens a store at the face: by recipe name, with an embedder or without."""
    face = STORES[store_face]
    with ExitStack() as stack:

        def make(recipe: str = "default", *, name: str = "a.mem", **how: Any) -> Store:
            opening = Opening(tmp_path / name, recipe, **how)
            return face.enter(opening, shared, stack)

        yield make


@pytest.fixture
def store(make_store: Callable[..., Store]) -> Store:
    """A store of the default recipe, without an embedder, as ann sees it."""
    return make_store()


@pytest.fixture
def make_index(
    index_face: str,
    shared: Shared,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[Callable[..., Index]]:
    """Builds an index at the face; doors keep those of fixed worlds, which they only read."""
    face = INDEXES_BY_NAME[index_face]
    if face is OnDevice:
        request.getfixturevalue("cuda")
    with ExitStack() as stack:

        def make(world: World = TEAS) -> Index:
            if not (world.is_fixed and issubclass(face, Saved)):
                return face(world, tmp_path, shared, stack)
            if (key := (face, world)) not in shared.kept:
                folder = tmp_path_factory.mktemp("kept")
                shared.kept[key] = face(world, folder, shared, shared.stack)
            return shared.kept[key]

        yield make


@pytest.fixture
def index(make_index: Callable[..., Index]) -> Index:
    """An index of the teas."""
    return make_index()
