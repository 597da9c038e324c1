"""Fixtures of the tests of server and client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memory.sharing.handles import HANDLES
from memory.sharing.house import OPENED, House


@pytest.fixture(autouse=True)
def closing() -> Iterator[None]:
    yield
    while HANDLES:
        HANDLES.pop().close()
    while OPENED:
        OPENED.pop().stop()


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path)
    yield made
    made.gate.set()
    made.server.close()
