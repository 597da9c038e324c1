"""A headless Chromium and a service for it; whoever lacks one of them skips by name.

The plain run tries markup, tokens, scopes, filters and a reload; the browser takes a second of
processor time for each test, so the others are slow. The stage ``page`` runs all of them.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra [serve] is not installed")
pytest.importorskip("uvicorn", reason="the extra [serve] is not installed")
pytest.importorskip("apsw", reason="the extra [memory] is not installed")

import hyrecall as hr
from hyrecall.memory import MemorySync
from serve.page.served import index, serving, store

Open = Callable[..., Any]


@pytest.fixture(scope="package")
def chromium() -> Iterator[Any]:
    """The browser; Debian's, which needs no download."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("Chromium is not installed")
    with api.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def memory() -> Iterator[MemorySync]:
    with store() as memory:
        yield memory


@pytest.fixture(scope="package")
def service(memory: MemorySync) -> Iterator[str]:
    """The address of a service with that store."""
    with serving(memory) as address:
        yield address


@pytest.fixture(scope="package")
def plain_service() -> Iterator[str]:
    """The address of a service with a store of another recipe, whose embedder fails."""
    with (
        store(hr.recipes.hebb, embeds=False) as memory,
        serving(memory) as address,
    ):
        yield address


@pytest.fixture(scope="package")
def index_service() -> Iterator[str]:
    """The address of a service with an index."""
    with serving(index()) as address:
        yield address


class Desk:
    """A page of a browser profile, and what it did that it must never do.

    It must not ask another host, break its own policy, or throw.
    """

    def __init__(self, chromium: Any, **options: Any) -> None:
        self.faults: list[str] = []
        self.address = ""
        self.context = chromium.new_context(**options)
        self.context.route(lambda url: not url.startswith(self.address), self._refuse)
        self.page = self.context.new_page()
        self.page.set_default_timeout(15_000)
        self.page.on("pageerror", lambda fault: self.faults.append(str(fault)))
        self.page.on("console", self._hear)

    def _refuse(self, route: Any) -> None:
        self.faults.append(f"asked {route.request.url}")
        route.abort()

    def _hear(self, line: Any) -> None:
        if "Security Policy" in line.text:
            self.faults.append(line.text)

    def leave(self) -> list[str]:
        """Forget what the page kept, which is the session's alone; give its faults."""
        self.page.unroute_all()
        if self.page.url.startswith("http"):
            self.page.evaluate("sessionStorage.clear()")
            self.page.goto("about:blank")
        faults, self.faults = self.faults, []
        return faults


@pytest.fixture(scope="package")
def desk(chromium: Any) -> Iterator[Desk]:
    """A page for all tests that want no other options: a profile of its own costs seconds."""
    made = Desk(chromium)
    yield made
    made.context.close()


@pytest.fixture
def open_page(chromium: Any, service: str, request: pytest.FixtureRequest) -> Iterator[Open]:
    """Open the page of a service, as if for the first time."""
    desks: list[Desk] = []
    own: list[Desk] = []

    def opened(
        address: str = service, *, user: str = "alice", connects: bool = True, **options: Any
    ) -> Any:
        desk = Desk(chromium, **options) if options else request.getfixturevalue("desk")
        desks.append(desk)
        own.extend([desk] if options else [])
        desk.address, page = address, desk.page
        page.goto(f"{address}/")
        if not connects:
            return page
        page.wait_for_selector("#served:not(:empty)", state="attached")
        if user and page.is_visible("[name=user_id]"):
            page.fill("[name=user_id]", user)
        return page

    yield opened
    faults = [fault for desk in desks for fault in desk.leave()]
    for desk in own:
        desk.context.close()
    assert faults == []
