"""A headless Chromium and a service for it; whoever lacks one of them skips by name."""

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


@pytest.fixture
def open_page(chromium: Any, service: str) -> Iterator[Open]:
    """Open the page in a fresh browser profile; what it must never do, fails the test.

    It must not ask another host, break its own policy, or throw.
    """
    faults: list[str] = []
    contexts = []

    def ask(route: Any) -> None:
        faults.append(f"asked {route.request.url}")
        route.abort()

    def opened(
        address: str = service,
        path: str = "/",
        *,
        user: str = "alice",
        connects: bool = True,
        **options: Any,
    ) -> Any:
        context = chromium.new_context(**options)
        contexts.append(context)
        context.route(lambda url: not url.startswith(address), ask)
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.on("pageerror", lambda fault: faults.append(str(fault)))
        page.on(
            "console",
            lambda line: faults.append(line.text) if "Security Policy" in line.text else None,
        )
        page.goto(address + path)
        if not connects:
            return page
        page.wait_for_selector("#served:not(:empty)", state="attached")
        if user and page.is_visible("[name=user_id]"):
            page.fill("[name=user_id]", user)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert faults == []
