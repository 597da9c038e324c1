"""Erasing a user whose rows are damaged: no byte of the user's texts stays in any file."""

from __future__ import annotations

import warnings
from pathlib import Path

import apsw
import pytest

from hyrecall.errors import CorruptStoreError
from hyrecall.memory import DamageWarning, Fact, MemorySync
from memory.copies import copy_store
from seams import memory_DATABASE as DATABASE

SECRET = b"secret"


def opened(folder: Path) -> MemorySync:
    return MemorySync.open(folder, embedder=None)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "store"
    with opened(folder) as memory:
        for at in range(3):
            memory.remember(f"a note {at}", id=f"note {at}", user_id="alice")
            memory.remember(f"secret {at}", id=f"doc {at}", user_id="bob")
        memory.update("doc 1", user_id="bob", text="secret again")
        fact = {"subject": "secret", "predicate": "is", "object": "secret"}
        memory.remember_fact(Fact(id="fact", user_id="bob", **fact))
        memory.link(["doc 0", "doc 1"], "secret", id="edge", user_id="bob")
    return folder


@pytest.fixture
def path(made: Path, tmp_path: Path) -> Path:
    return copy_store(made, tmp_path / "store")


def left_in(folder: Path) -> set[str]:
    """The files that hold the text of a user."""
    return {one.name for one in folder.rglob("*") if one.is_file() and SECRET in one.read_bytes()}


# As SQLite keeps them, so that each index has the damaged value too.
DAMAGES = [
    "UPDATE documents SET id = 'dox 1' WHERE id = 'doc 1'",
    "UPDATE documents SET version = 66 WHERE id = 'doc 1'",
    "UPDATE documents SET version = 1 WHERE id = 'doc 1'",
    "UPDATE versions SET id = 'dox 1' WHERE id = 'doc 1' AND version = 2",
    "UPDATE versions SET id = 'dox 1' WHERE id = 'doc 1'",
    "UPDATE versions SET version = 66 WHERE id = 'doc 1' AND version = 2",
    "UPDATE facts SET cell = 66",
    "UPDATE facts SET row = 66",
    "UPDATE edges SET id = 'edgf'",
]


def damage(folder: Path, sql: str) -> None:
    connection = apsw.Connection(str(folder / DATABASE))
    connection.execute(sql)
    assert connection.changes()
    connection.close()


@pytest.mark.parametrize("sql", DAMAGES)
def test_all_of_a_user_is_erased_whatever_is_damaged(path: Path, sql: str) -> None:
    damage(path, sql)
    with opened(path) as memory, warnings.catch_warnings():
        warnings.simplefilter("ignore", DamageWarning)
        assert memory.forget(user_id="bob", everything=True, erase=True) == 4
        assert left_in(path) == set()
        assert len(memory.list(user_id="alice")) == 3
        assert memory.doctor(full=True).ok
    assert left_in(path) == set()


@pytest.mark.parametrize("sql", [one for one in DAMAGES if one.startswith("UPDATE documents")])
def test_an_id_is_erased_though_its_document_is_damaged(path: Path, sql: str) -> None:
    damage(path, sql)
    with opened(path) as memory, warnings.catch_warnings():
        warnings.simplefilter("ignore", DamageWarning)
        assert memory.forget("doc 1", user_id="bob", erase=True) == 1
        assert memory.history("doc 1", user_id="bob") == []
        for key in ("doc 0", "doc 2", "fact"):
            assert memory.forget(key, user_id="bob", erase=True) == 1
        assert left_in(path) == set()


def flip(folder: Path, tree: str, text: bytes, nth: int) -> bool:
    """Flip a bit in the nth occurrence of a text in the root page of a table or an index."""
    connection = apsw.Connection(str(folder / DATABASE))
    root = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (tree,)).get
    size = connection.pragma("page_size")
    connection.close()
    content = bytearray((folder / DATABASE).read_bytes())
    at = (root - 1) * size
    for _ in range(nth + 1):
        at = content.find(text, at + 1, root * size)
        if at < 0:
            return False
    content[at + len(text) - 1] ^= 8
    (folder / DATABASE).write_bytes(content)
    return True


TREES = [
    "documents", "documents_changed", "versions", "sqlite_autoindex_versions_1",
    "participants", "participants_node",
]  # fmt: skip


@pytest.mark.parametrize("nth", [0, 1])
@pytest.mark.parametrize("tree", TREES)
def test_a_flipped_bit_in_an_id_keeps_no_text_of_an_erased_user(
    path: Path, tree: str, nth: int
) -> None:
    assert flip(path, tree, b"doc 1", nth) or nth
    with opened(path) as memory:
        assert memory.forget(user_id="bob", everything=True, erase=True) == 4
        assert left_in(path) == set()
        assert len(memory.list(user_id="alice")) == 3
        assert memory.doctor(full=True).ok
    assert left_in(path) == set()


@pytest.mark.parametrize("tree", ["documents", "documents_changed", "versions"])
def test_a_flipped_bit_in_an_id_that_is_erased_is_an_error_or_leaves_nothing(
    path: Path, tree: str
) -> None:
    with opened(path) as memory:
        for key in ("doc 0", "doc 2", "fact"):
            memory.forget(key, user_id="bob", erase=True)
    assert flip(path, tree, b"doc 1", 0)
    with opened(path) as memory:
        try:
            memory.forget("doc 1", user_id="bob", erase=True)
        except CorruptStoreError:
            assert memory.forget(user_id="bob", everything=True, erase=True) == 1
        assert left_in(path) == set()


def test_a_version_that_its_index_entry_hides_is_erased_with_the_user(path: Path) -> None:
    with opened(path) as memory:
        for key in ("doc 0", "doc 2", "fact"):
            assert memory.forget(key, user_id="bob", erase=True) == 1
    assert flip(path, "sqlite_autoindex_versions_1", b"doc 1", 0)
    with opened(path) as memory:
        assert memory.forget("doc 1", user_id="bob", erase=True) == 1
        (check,) = [one for one in memory.doctor(full=True).checks if one.name == "database"]
        assert not check.ok
        memory.forget(user_id="bob", everything=True, erase=True)
        assert left_in(path) == set()
        assert memory.doctor(full=True).ok


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE edges SET id = CAST(x'ff' AS TEXT) WHERE id = 'edge'",
        "UPDATE cells SET user = CAST(x'ff' AS TEXT) WHERE user = 'bob'",
    ],
)
def test_doctor_looks_for_erased_rows_beside_texts_that_are_no_utf8(path: Path, sql: str) -> None:
    with opened(path) as memory:
        memory.forget("note 1", user_id="alice", erase=True)
    damage(path, sql)
    with opened(path) as memory, warnings.catch_warnings():
        warnings.simplefilter("ignore", DamageWarning)
        assert not memory.doctor(full=True).ok
        assert len(memory.list(user_id="alice")) == 2
