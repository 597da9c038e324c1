"""The page's curl commands run as they stand, against a service over the store of its commands."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra [serve] is not installed")
pytest.importorskip("uvicorn", reason="the extra [serve] is not installed")

import uvicorn

from docs.commands import run_commands
from docs.test_pages import SECTIONS, SYSTEMS_PAGE, blocks
from hyrecall import recipes
from hyrecall.memory import Memory
from hyrecall.serve import create_app

MEM0 = re.split(r"^## mem0\n", SYSTEMS_PAGE, flags=re.MULTILINE)[1]
PLACE = "localhost:8765"
WISHES: dict[str, tuple[Callable[[Any], bool], ...]] = {
    "hypergraph": (lambda r: r["results"][0]["key"] == "decision_jwt",),
    "honeycomb": (
        lambda r: r["hits"][0]["id"] == "fact" and r["scope"]["agent"] == "dev",
        lambda r: "disk" in r["hits"][0]["content"],
    ),
    "hebb": (
        lambda r: "deployment" in r["results"][0]["memory"]["content"],
        lambda r: r[0]["id"] == "deploy",
    ),
    "mem0": (
        lambda r: r["results"][0]["event"] == "ADD",
        lambda r: r["results"][0]["memory"] == "I drink green tea",
        lambda r: r["results"][0]["run_id"] == "r1",
    ),
}


@contextmanager
def listening(path: Path, name: str) -> Iterator[str]:
    """Serve a store on a free port of this machine."""
    app = create_app(Memory.open(path, recipe=getattr(recipes, name), embedder=None))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", lifespan="on"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until = time.monotonic() + 60
        while not server.started:
            assert thread.is_alive(), "the service ended"
            assert time.monotonic() < until, "the service did not start"
            time.sleep(0.02)
        (socket,) = server.servers[0].sockets
        yield f"127.0.0.1:{socket.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(60)


def test_each_system_with_a_route_shows_it() -> None:
    shown = {name for name, text in SECTIONS.items() if "```sh" in text}
    assert shown | {"mem0"} == set(WISHES)


@pytest.mark.plain_cases(2)
@pytest.mark.parametrize("name", WISHES)
def test_the_requests_of_a_section_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("curl") is None:
        pytest.skip("there is no curl")
    monkeypatch.setenv("HYRECALL_EMBED_DISABLE", "1")
    text = MEM0 if name == "mem0" else SECTIONS[name]
    for block in blocks(text, "console"):
        run_commands(block, tmp_path, monkeypatch)
    (shown,) = blocks(text, "sh")
    requests = re.split(r"\n(?=curl )", shown.strip())
    recipe = "default" if name == "mem0" else name
    with listening(tmp_path / "agent.mem", recipe) as place:
        for request, wish in zip(requests, WISHES[name], strict=True):
            assert PLACE in request
            done = subprocess.run(
                ["bash", "-c", request.replace(PLACE, place)],
                capture_output=True, text=True, timeout=60, check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            assert wish(json.loads(done.stdout)), done.stdout
