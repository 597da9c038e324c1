"""One flipped byte in the table of cells or in its index: nobody reads or erases another's rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from hyrecall.errors import CorruptStoreError
from hyrecall.memory import EVERYONE, DamageWarning, MemorySync
from seams import memory_DATABASE as DATABASE

SECRET = "the secret of user1"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "store"
    with opened(folder) as memory:
        memory.remember(SECRET, id="a", user_id="user1", visibility="global")
        memory.remember("a note of alice", id="a", user_id="alice")
    return folder


def opened(folder: Path) -> MemorySync:
    return MemorySync.open(folder, embedder=None)


def flip(folder: Path, tree: str, before: bytes, after: bytes) -> None:
    """Change bytes in the root page of a table or an index; they must occur there once."""
    connection = apsw.Connection(str(folder / DATABASE))
    root = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (tree,)).get
    size = connection.pragma("page_size")
    connection.close()
    content = bytearray((folder / DATABASE).read_bytes())
    page = slice((root - 1) * size, root * size)
    assert content[page].count(before) == 1
    content[page] = content[page].replace(before, after)
    (folder / DATABASE).write_bytes(content)


OF_USER3: dict[str, Callable[[MemorySync], Any]] = {
    "search": lambda memory: memory.search("secret", user_id="user3"),
    "list": lambda memory: memory.list(user_id="user3"),
    "get": lambda memory: memory.get("a", user_id="user3"),
    "remember": lambda memory: memory.remember("b", user_id="user3", visibility="global"),
    "forget": lambda memory: memory.forget("a", user_id="user3"),
    "erase": lambda memory: memory.forget(user_id="user3", everything=True, erase=True),
    "export": lambda memory: memory.export(user_id="user3"),
}


@pytest.mark.parametrize("call", OF_USER3)
def test_a_damaged_index_of_cells_gives_nobody_another_users_cell(path: Path, call: str) -> None:
    flip(path, "cells_identity", b"user1", b"user3")
    with opened(path) as memory:
        with pytest.raises(CorruptStoreError, match="cells: expected"):
            OF_USER3[call](memory)
        assert memory.get("a", user_id="alice") is not None
        (check,) = [one for one in memory.doctor(full=True).checks if one.name == "database"]
        assert not check.ok
    assert SECRET.encode() in (path / DATABASE).read_bytes()


def test_a_damaged_index_of_cells_gives_no_agent_a_cell_of_another_org(path: Path) -> None:
    with opened(path) as memory:
        for user, seen in (("ops", "global"), ("ops", "private")):
            memory.remember(seen, id=seen, user_id=user, org="o", workspace="w", visibility=seen)
        memory.remember("elsewhere", id="x", user_id="ops", org="p", workspace="w",
                        visibility="global")  # fmt: skip
        memory.set_policy("planner", org="o", workspace="w", policy="shared")
    # Of org p, the index says o.
    flip(path, "cells_identity", b"pwopsglobal", b"owopsglobal")
    with opened(path) as memory:
        planner = memory.agent("planner", org="o", workspace="w")
        assert {one.id for one in planner.list()} == {"global"}
        with pytest.warns(DamageWarning, match="1 damaged rows"):
            found = memory.list(user_id=EVERYONE, org="o", workspace="w")
        assert {one.id for one in found} == {"global", "private"}


def test_everyone_is_told_of_a_damaged_cell_that_hides_a_user(path: Path) -> None:
    flip(path, "cells", b"user1", b"user3")
    with opened(path) as memory:
        with pytest.warns(DamageWarning, match="1 damaged rows"):
            assert len(memory.export(user_id=EVERYONE)) == 2  # the format, and alice's
        with pytest.warns(DamageWarning, match="1 damaged rows"):
            assert [one.user_id for one in memory.list(user_id=EVERYONE)] == ["alice"]
        (check,) = [one for one in memory.doctor().checks if one.name == "rows"]
        assert check.detail == "1 of cells are damaged (their cell: 1)"
        assert len(memory.list(user_id="alice")) == 1
        with pytest.raises(CorruptStoreError):
            memory.list(user_id="user1")
