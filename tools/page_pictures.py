"""Takes the pictures of docs/images: the page in a headless Chromium, on the packaged demo.

``PYTHONPATH=python:tests python tools/page_pictures.py docs/images``, with the extras [serve] and
[local], playwright and pillow, and Debian's chromium; fonts-inter and fonts-jetbrains-mono give the
letters of the committed pictures. Look at what it made before you commit it.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from datetime import datetime
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

import hyrecall as hr
from hyrecall.embed import StaticEmbedder
from hyrecall.memory import MemorySync
from serve.page.driving import goto, recall
from serve.page.served import serving

DESK = {"width": 1280, "height": 820}
PHONE = {"width": 360, "height": 740}
MOST_BYTES = 150_000
QUERY = "why did the database replica stop?"


def demo() -> MemorySync:
    """Return a store with the packaged memories, one changed and some linked."""
    memory = MemorySync.in_memory(recipe=hr.recipes.default, embedder=StaticEmbedder())
    lines = files("hyrecall").joinpath("data/demo.jsonl").read_text("utf-8").splitlines()
    for one in map(json.loads, lines):
        memory.remember(
            one["text"], id=one["id"], user_id=one["user"], kind=one["kind"],
            occurred_at=datetime.fromisoformat(one["day"]),
            tags=["postgres"] if "repl" in one["text"] else [],
        )  # fmt: skip
    alice = {"user_id": "alice"}
    found = memory.get("a02", **alice)
    assert found is not None
    longer = found.text.replace("was full.", "was full; a larger disk was mounted at 04:40.")
    memory.update("a02", text=longer, reason="the repair was added", **alice)
    memory.link(["a02", "a03"], "same outage", **alice)
    memory.link(["a02", "a01"], "follows", description="Four hours later", **alice)
    memory.link(["a02", "a13", "a09"], "on call", **alice)
    memory.link(["a02", "a04"], "said twice", **alice)
    return memory


def main(folder: Path) -> None:
    """Take all pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    with demo() as memory, serving(memory) as address, sync_playwright() as play:
        browser = play.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )

        def take(name: str, steps: Callable[[Page], None], **options: Any) -> None:
            _take(browser, address, folder / f"{name}.png", steps, options)

        take("page-light", _recall, viewport=DESK, color_scheme="light")
        take("page-dark", _explained, viewport=DESK, color_scheme="dark")
        take("page-two-recipes", _two, viewport=DESK, color_scheme="light")
        take("page-memory", _memory, viewport={**DESK, "height": 740}, color_scheme="light")
        take("page-phone", _recall, viewport=PHONE, color_scheme="dark", device_scale_factor=1.5)
        browser.close()


def _take(
    browser: Browser,
    address: str,
    path: Path,
    steps: Callable[[Page], None],
    options: dict[str, Any],
) -> None:
    context = browser.new_context(**options)
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector("#served:not(:empty)", state="attached")
    page.fill("[name=user_id]", "alice")
    steps(page)
    page.wait_for_timeout(300)
    # 128 colours are enough for text and bars, and halve the file.
    picture = Image.open(BytesIO(page.screenshot())).convert("RGB").quantize(128, dither=0)
    picture.save(path, optimize=True)
    context.close()
    size = path.stat().st_size
    print(f"{path}: {size:,} bytes")
    assert size < MOST_BYTES


def _recall(page: Page) -> None:
    recall(page, QUERY)
    page.keyboard.press("Escape")


def _explained(page: Page) -> None:
    page.select_option("#recipe", "honeycomb")
    _recall(page)
    page.keyboard.press("j")
    page.keyboard.press("e")


def _two(page: Page) -> None:
    page.select_option("#beside", "honeycomb")
    _recall(page)


def _memory(page: Page) -> None:
    goto(page, "#/memory/a02", "svg.graph")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
