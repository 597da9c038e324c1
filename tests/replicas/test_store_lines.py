"""A replica of a store takes only what follows the state that it holds, and what it can read."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("apsw", reason="the extra [memory] is not installed")

from hyrecall.errors import HyrecallError, OptionError, StoreFormatError
from hyrecall.memory import MemorySync
from hyrecall.replicas import held, promote, pull, push
from replicas.world import lagging_store, next_store, open_store, store_versions
from seams import (
    MIGRATIONS,
    Head,
    Migration,
    hash_of,
    name_of,
    object_of,
    open_remote,
    pulling,
    schema,
    targets,
)
from seams import memory_FORMAT as FORMAT
from seams import replicas_DATABASE as DATABASE


def url_of(folder: Path) -> str:
    return (folder / "remote").as_uri()


def scores(memory: MemorySync) -> dict[str, float]:
    found = memory.search("tea", user_id="ann", limit=50)
    return {match.episode.text: match.score for match in found}


def overwrite_beside_a_reader(folder: Path) -> tuple[dict[str, float], dict[str, float]]:
    """Replace what was pushed by a restored backup that went on; pull under an open handle.

    Returns what the handle replies, and what one that is opened anew does.
    """
    url = url_of(folder)
    with open_store(folder / "source") as source:
        source.remember("tea first", user_id="ann")
    push(folder / "source", url)
    shutil.copytree(folder / "source", folder / "backup")
    with open_store(folder / "source") as source:
        source.remember("tea that is lost", user_id="ann")
    push(folder / "source", url)
    pull(url, folder / "copy")
    with open_store(folder / "copy", read_only=True) as replica:
        assert len(scores(replica)) == 2
        with open_store(folder / "backup") as backup:
            for word in ("coffee", "water", "tea"):
                backup.remember(word, user_id="ann")
        push(folder / "backup", url, overwrite=True)
        try:
            pull(url, folder / "copy")
        finally:
            pull(url, folder / "new")
            with open_store(folder / "new", read_only=True) as new:
                replies = scores(replica), scores(new)
    return replies


def test_what_does_not_follow_the_state_of_a_replica_is_not_pulled(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"of others, up to 2 of .*; pull into a new folder"):
        overwrite_beside_a_reader(tmp_path)
    found = held(tmp_path / "copy")
    assert found is not None
    assert found.generation == 2
    with open_store(tmp_path / "copy", read_only=True) as replica:
        assert set(scores(replica)) == {"tea first", "tea that is lost"}
        assert replica.doctor(full=True).ok
    # The folder that overwrote goes on, and so does a replica of it.
    with open_store(tmp_path / "backup") as backup:
        backup.remember("tea again", user_id="ann")
    assert push(tmp_path / "backup", url_of(tmp_path)).generation == 4
    assert pull(url_of(tmp_path), tmp_path / "new").generation == 4


def test_a_replica_that_takes_what_does_not_follow_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changes have numbers: an open index that applied others under them mixes two stores."""
    monkeypatch.setattr(pulling, "STORE", "none is checked")
    handle, new = overwrite_beside_a_reader(tmp_path)
    assert handle != new


def test_a_promoted_replica_is_followed_by_the_others(tmp_path: Path) -> None:
    url = url_of(tmp_path)
    next_store(tmp_path / "source", 0)
    push(tmp_path / "source", url)
    for name in ("first", "second"):
        pull(url, tmp_path / name)
    promote(tmp_path / "first")
    next_store(tmp_path / "first", 1)
    assert push(tmp_path / "first", url).generation == 2
    pull(url, tmp_path / "second")
    assert store_versions(tmp_path / "second") == {0, 1}


def forged(url: str, content: bytes, number: int) -> None:
    """Publish a generation whose database is other bytes."""
    remote = open_remote(url)
    found = remote.get_head()
    assert found is not None
    head = Head.from_bytes(found[0], url)
    data: dict[str, Any] = json.loads(remote.get(head.object_name))
    chunk = f"{hash_of(content)}-{'0' * 16}"
    remote.put(object_of(chunk), content)
    chunks = [chunk] if content else []
    for one in data["files"]:
        if one["name"] == DATABASE:
            one.update(size=len(content), chunk_bytes=2**28, chunks=chunks)
    text = json.dumps(data | {"number": number}).encode()
    remote.put(name_of(number, hash_of(text)), text)
    remote.replace_head(Head(number, hash_of(text), 0).to_bytes(), found[1])


def pull_forged(folder: Path, make: Callable[[Path], bytes]) -> None:
    url = lagging_store(folder)
    next_store(folder / "other", 5)
    forged(url, make(folder), 3)
    for name in ("copy", "new"):
        try:
            pull(url, folder / name)
        except HyrecallError as refused:
            fault = refused
    assert store_versions(folder / "copy") == {0}, "it holds what it held"
    assert not (folder / "new" / DATABASE).exists()
    raise fault


FORGED: dict[str, Callable[[Path], bytes]] = {
    "another store": lambda folder: (folder / "other" / DATABASE).read_bytes(),
    "an older state": lambda folder: (folder / "copy" / DATABASE).read_bytes(),
    "other bytes": lambda _: b"x" * 8192,
    "no bytes": lambda _: b"",
}


@pytest.mark.parametrize("what", FORGED)
def test_a_database_of_another_state_does_not_replace_one(tmp_path: Path, what: str) -> None:
    with pytest.raises(HyrecallError):
        pull_forged(tmp_path, FORGED[what])


def test_a_pull_that_does_not_look_at_the_state_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(targets, "_check_received", lambda *_: None)
    with pytest.raises((AssertionError, HyrecallError), match=r"of another store|holds what"):
        pull_forged(tmp_path, FORGED["another store"])


def test_a_store_of_a_newer_format_does_not_replace_one_that_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = url_of(tmp_path)
    next_store(tmp_path / "source", 0)
    push(tmp_path / "source", url)
    pull(url, tmp_path / "copy")
    step = Migration(FORMAT + 1, "CREATE TABLE palette (colour TEXT)", FORMAT + 1, FORMAT + 1)
    with monkeypatch.context() as newer:
        newer.setattr(schema, "MIGRATIONS", (*MIGRATIONS, step))
        next_store(tmp_path / "source", 1)
        push(tmp_path / "source", url)
    with pytest.raises(StoreFormatError, match=f"got format {FORMAT + 1}"):
        pull(url, tmp_path / "copy")
    assert store_versions(tmp_path / "copy") == {0}
    monkeypatch.setattr(schema, "MIGRATIONS", (*MIGRATIONS, step))
    pull(url, tmp_path / "copy")
    assert store_versions(tmp_path / "copy") == {0, 1}
