"""A store's database, which several files open."""

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("apsw", reason="the extra [memory] is not installed")

from seams import Database


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Database]:
    opened = Database.open(tmp_path / "store")
    yield opened
    opened.close()


@pytest.fixture
def database(store: Database) -> Database:
    return store
