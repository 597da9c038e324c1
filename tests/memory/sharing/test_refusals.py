"""Processes that cannot share a store, and what they are told."""

from __future__ import annotations

import os
import socket
import stat
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hyrecall.embed import HashEmbedder
from hyrecall.errors import (
    OptionError,
    OwnerError,
    StoreMismatchError,
    WriterBusyError,
)
from hyrecall.recipes import loom
from memory.sharing.handles import ids, is_owner, opened
from memory.sharing.peer import DIM, USER
from seams import LONGEST_PATH, SOCKET, Owner, election, read_holder
from seams import memory_server_module as server
from seams import memory_SHARED as SHARED


def test_a_recipe_of_the_same_index_differs_in_nothing(tmp_path: Path) -> None:
    opened(tmp_path / "s").remember("note", id="a", user_id=USER)
    other = loom.replace(name="mine", depth=50)
    second = opened(tmp_path / "s", recipe=other, analyzer="word")
    assert [one.episode.id for one in second.search("note", user_id=USER)] == ["a"]


def test_a_side_without_an_embedder_differs_in_nothing(tmp_path: Path) -> None:
    owner = opened(tmp_path / "s", embedder=None)
    second = opened(tmp_path / "s", embedder=HashEmbedder(DIM))
    kept = second.remember("a note about tea", id="a", user_id=USER)
    assert kept.embedded
    (match,) = second.search("a note about tea", user_id=USER)
    assert match.vector_score == pytest.approx(1.0)
    (match,) = owner.search("tea", user_id=USER)
    assert match.vector_score is None
    assert owner._store.follower.model == HashEmbedder(DIM).model
    with pytest.raises(StoreMismatchError, match="model"):
        opened(tmp_path / "s", embedder=HashEmbedder(DIM + 1))


def test_a_store_at_a_path_of_150_bytes_is_shared(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * max(150 - len(str(tmp_path)) - 1, 60))
    assert len(str(folder / SOCKET)) > LONGEST_PATH
    opened(folder)
    second = opened(folder)
    second.remember("note", id="a", user_id=USER)
    assert ids(second) == ["a"]
    assert not is_owner(second)


def test_a_file_system_without_sockets_is_told_to_the_second_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(folder: Path) -> socket.socket:
        raise OSError(95, "Operation not supported")

    with monkeypatch.context() as patched:
        patched.setattr("hyrecall.memory.sharing.shared_keeper.listen_in", refused)
        alone = opened(tmp_path / "s")
    alone.remember("note", id="a", user_id=USER)  # one process needs no socket
    with pytest.raises(OwnerError, match=r"Operation not supported.*pid \d+") as caught:
        opened(tmp_path / "s")
    for word in ("sockets", "shared=False", "hyrecall serve"):
        assert word in str(caught.value)


def test_the_socket_is_for_its_owner_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "umask", os.umask)
    before = os.umask(0)
    try:
        memory = opened(tmp_path / "s")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "s" / SOCKET).stat().st_mode) == 0o600
    memory.close()
    assert not (tmp_path / "s" / SOCKET).exists()


def test_a_process_of_another_user_gets_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(election, "HUNG_SECONDS", 0.3)
    opened(tmp_path / "s")
    monkeypatch.setattr(server, "peer_of", lambda connection: (1, os.geteuid() + 1))
    with pytest.raises(OwnerError):
        opened(tmp_path / "s")


def test_shared_false_is_strict_in_both_orders(tmp_path: Path) -> None:
    with opened(tmp_path / "s", shared=False) as alone:
        alone.remember("note", id="a", user_id=USER)
        assert not (tmp_path / "s" / SOCKET).exists()
        for shared in (True, False):
            with pytest.raises(WriterBusyError, match=f"pid {os.getpid()}"):
                opened(tmp_path / "s", shared=shared)
    with opened(tmp_path / "s"):
        assert read_holder(tmp_path / "s").terms == SHARED
        with pytest.raises(WriterBusyError, match=f"pid {os.getpid()}"):
            opened(tmp_path / "s", shared=False)
    opened(tmp_path / "s", shared=False)


def test_opening_waits_for_a_writer_that_is_alone(tmp_path: Path) -> None:
    alone = opened(tmp_path / "s", shared=False)
    timer = threading.Timer(0.5, alone.close)
    timer.start()
    assert is_owner(opened(tmp_path / "s", wait=60))
    timer.join()


def test_a_closed_client_is_closed_and_its_owner_is_not(tmp_path: Path) -> None:
    owner, second = opened(tmp_path / "s"), opened(tmp_path / "s")
    second.close()
    second.close()
    for call in (
        lambda: second.remember("note", user_id=USER),
        lambda: second.search("note", user_id=USER),
        second.compact,
    ):
        with pytest.raises(OptionError, match="a closed one"):
            call()
    owner.remember("note", id="a", user_id=USER)


@pytest.mark.parametrize(
    ("rows", "scores"), [((2, 1), (0.5, 0.4)), ((1, 2), (0.5, 0.3)), ((1,), (0.5,))]
)
def test_what_was_dropped_is_told_only_while_the_same_rows_are_found(
    rows: tuple[int, ...], scores: tuple[float, ...]
) -> None:
    ranked = SimpleNamespace(explain_dropped=lambda most: ("dropped", most))
    found = SimpleNamespace(rows=(1, 2), scores=(0.5, 0.4), ranked=ranked)
    parts: Any = SimpleNamespace(search_index=lambda question: found)
    question: Any = None
    told = Owner.explain_dropped(parts, question, found.rows, found.scores, 7)
    assert told == ("dropped", 7)
    with pytest.raises(OptionError, match=r"^matches: expected matches that are still found"):
        Owner.explain_dropped(parts, question, rows, scores, 7)
