"""Pushing and pulling a store: read-only replicas, their lag, erased text, what travels."""

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("apsw", reason="the extra [memory] is not installed")

from hyrecall.errors import (
    CorruptRemoteError,
    HyrecallError,
    OptionError,
    PushConflictError,
    StoreFormatError,
    WriterBusyError,
)
from hyrecall.memory import Episode, MemorySync
from hyrecall.recipes import loom
from hyrecall.replicas import held, promote, prune, pull, push
from replicas.world import Killed, lagging_store, next_store, open_store, store_versions
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
    sources,
    targets,
)
from seams import memory_FORMAT as FORMAT
from seams import replicas_DATABASE as DATABASE

# ---- replicas ----

NOW = timedelta(0)


def opened(folder: Path, **options: object) -> MemorySync:
    return MemorySync.open(folder, recipe=loom, embedder=None, warm=False, **options)  # type: ignore[arg-type]


def texts(memory: MemorySync, query: str) -> set[str]:
    return {match.episode.text for match in memory.search(query, user_id="ann", limit=50)}


def url_of(folder: Path) -> str:
    return (folder / "remote").as_uri()


def test_a_replica_follows_its_source_while_both_are_open(place: str, tmp_path: Path) -> None:
    with opened(tmp_path / "source") as source:
        source.remember("first tea", user_id="ann")
        push(tmp_path / "source", place)
        pull(place, tmp_path / "copy")
        with opened(tmp_path / "copy") as replica:
            assert texts(replica, "tea") == {"first tea"}
            source.remember("second tea", user_id="ann")
            assert texts(replica, "tea") == {"first tea"}, "a replica lags by its last pull"
            push(tmp_path / "source", place)
            pull(place, tmp_path / "copy")
            assert texts(replica, "tea") == {"first tea", "second tea"}
            source.forget(user_id="ann", everything=True, erase=True)
            push(tmp_path / "source", place)
            pull(place, tmp_path / "copy")
            assert texts(replica, "tea") == set()
    assert store_versions(tmp_path / "copy") == set()


def test_a_replica_is_opened_for_reading_and_refuses_writes(tmp_path: Path) -> None:
    next_store(tmp_path / "source", 0)
    push(tmp_path / "source", url_of(tmp_path))
    pull(url_of(tmp_path), tmp_path / "copy")
    with opened(tmp_path / "copy") as replica:
        with pytest.raises(OptionError, match="a store opened for writing"):
            replica.remember("mine", user_id="ann")
        assert len(texts(replica, "version")) == 3
    with opened(tmp_path / "copy", read_only=True) as replica:
        assert len(texts(replica, "version")) == 3
    with pytest.raises(OptionError, match=r"^read_only: expected True for a replica, got False"):
        opened(tmp_path / "copy", read_only=False)
    with opened(tmp_path / "source", read_only=False) as source:
        source.remember("a source is written as ever", user_id="ann")
    promote(tmp_path / "copy")
    with opened(tmp_path / "copy") as own:
        own.remember("version 9, promoted", user_id="ann")
    assert held(tmp_path / "copy") is None


def test_a_replica_says_by_how_much_it_lags(tmp_path: Path) -> None:
    next_store(tmp_path / "source", 0)
    push(tmp_path / "source", url_of(tmp_path))
    next_store(tmp_path / "source", 1)
    push(tmp_path / "source", url_of(tmp_path))
    pulled = pull(url_of(tmp_path), tmp_path / "copy")
    pushed_at = datetime.fromisoformat(pulled.pushed_at)
    assert abs(datetime.now(UTC) - pushed_at) < timedelta(minutes=5)
    later = pushed_at + timedelta(minutes=3)
    with opened(tmp_path / "copy", clock=lambda: later) as replica:
        told = {check.name: check for check in replica.doctor().checks}["replica"]
    assert told.ok
    assert json.loads(told.detail) == {
        "url": url_of(tmp_path), "generation": 2, "pushed_at": pulled.pushed_at, "age": 180.0,
    }  # fmt: skip
    found = held(tmp_path / "copy")
    assert found is not None
    assert (found.generation, found.pushed_at) == (2, pushed_at)
    with opened(tmp_path / "source") as source:
        assert "replica" not in {check.name for check in source.doctor().checks}


def test_a_pull_that_committed_and_was_cut_short_says_the_new_generation(tmp_path: Path) -> None:
    """REMOTE names the new generation before the database is replaced, and the old one still."""
    url = lagging_store(tmp_path)

    class CutShortError(Exception):
        pass

    from seams import pulling

    def generation() -> int:
        found = held(tmp_path / "copy")
        assert found is not None
        return found.generation

    put = pulling.put_store
    for is_before, expected in ((True, 1), (False, 2)):

        def cut(*arguments: object, is_before: bool = is_before) -> None:
            if not is_before:
                put(*arguments)  # type: ignore[arg-type]
            raise CutShortError

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(pulling, "put_store", cut)
            with pytest.raises(CutShortError):
                pull(url, tmp_path / "copy")
        assert generation() == expected
    assert pull(url, tmp_path / "copy").is_new, "what was cut short is done again"
    assert generation() == 2


def test_the_saved_index_comes_along_where_it_is_of_the_database(tmp_path: Path) -> None:
    next_store(tmp_path / "source", 0)  # closed: its index is saved
    push(tmp_path / "source", url_of(tmp_path))
    pull(url_of(tmp_path), tmp_path / "copy")
    with opened(tmp_path / "copy") as replica:
        report = replica._store.opened
        assert report is not None
        assert report.how == "snapshot"
    # An index with erased rows does not: it is made anew where it is opened.
    with opened(tmp_path / "source") as source:
        saved = tmp_path / "saved"
        shutil.copytree(tmp_path / "source" / "index", saved)
        source.forget(user_id="ann", everything=True, erase=True)
    shutil.rmtree(tmp_path / "source" / "index")
    shutil.copytree(saved, tmp_path / "source" / "index")
    push(tmp_path / "source", url_of(tmp_path))
    pull(url_of(tmp_path), tmp_path / "copy")
    assert not list((tmp_path / "copy" / "index").rglob("*.arrow"))
    assert store_versions(tmp_path / "copy") == set()


def holders(folder: Path, word: bytes) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and word in path.read_bytes()]


def test_erased_text_is_not_in_the_newest_generation_and_a_prune_removes_the_rest(
    place: str, tmp_path: Path
) -> None:
    with opened(tmp_path / "source") as source:
        kept = source.remember("the word is xyzzyplugh", user_id="ann")
        source.remember("something else", user_id="ann")
    push(tmp_path / "source", place)
    pull(place, tmp_path / "copy")
    assert holders(tmp_path / "copy", b"xyzzyplugh")
    with opened(tmp_path / "source") as source:
        source.forget(kept.id, user_id="ann", erase=True)
    push(tmp_path / "source", place)
    pull(place, tmp_path / "copy")
    assert holders(tmp_path / "copy", b"xyzzyplugh") == []
    pull(place, tmp_path / "new")
    assert holders(tmp_path / "new", b"xyzzyplugh") == []

    from seams import open_remote

    def remote_holders() -> list[str]:
        remote = open_remote(place)
        names = [one.name for one in (*remote.listed("chunks"), *remote.listed("generations"))]
        return [name for name in names if b"xyzzyplugh" in remote.get(name)]

    assert remote_holders(), "the generation before still has it"
    assert prune(place, keep=2, older_than=NOW).n_removed == 0
    assert remote_holders()
    assert prune(place, keep=1, older_than=timedelta(hours=1)).n_removed == 0
    assert remote_holders()
    assert prune(place, keep=1, older_than=NOW).n_removed > 0
    assert remote_holders() == []
    pull(place, tmp_path / "last")
    with opened(tmp_path / "last") as replica:
        assert texts(replica, "something word") == {"something else"}


def test_only_changed_chunks_of_a_database_travel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "STORE_CHUNK", 16_384)
    url = url_of(tmp_path)
    with opened(tmp_path / "source", snapshot_every=10**6) as source:
        source.remember_batch(
            [Episode(user_id="ann", text=f"tea {at} " + "x" * 2000) for at in range(1500)]
        )
        first = push(tmp_path / "source", url)
        fetched = pull(url, tmp_path / "copy").bytes_fetched
        source.remember("one more tea", user_id="ann")
        second = push(tmp_path / "source", url)
        pulled = pull(url, tmp_path / "copy")
    assert first.n_bytes - 10 * sources.STORE_CHUNK < fetched <= first.n_bytes  # equal ones go once
    assert fetched == first.bytes_sent
    assert first.bytes_sent > 3_000_000
    assert second.bytes_sent < first.bytes_sent / 4
    # And the first chunk, with the counters that SQLite keeps in each file.
    assert pulled.bytes_fetched <= second.bytes_sent + sources.STORE_CHUNK
    with opened(tmp_path / "copy") as replica:
        assert "one more tea" in texts(replica, "one more")


def test_another_store_and_an_older_copy_are_refused(tmp_path: Path) -> None:
    url = url_of(tmp_path)
    next_store(tmp_path / "source", 0)
    push(tmp_path / "source", url)
    shutil.copytree(tmp_path / "source", tmp_path / "backup")
    next_store(tmp_path / "source", 1)
    push(tmp_path / "source", url)
    pull(url, tmp_path / "copy")
    with pytest.raises(PushConflictError):
        push(tmp_path / "backup", url)
    shutil.copy(tmp_path / "source" / "REMOTE", tmp_path / "backup" / "REMOTE")
    with pytest.raises(PushConflictError, match="this folder ends at"):
        push(tmp_path / "backup", url)
    next_store(tmp_path / "other", 5)
    shutil.copy(tmp_path / "source" / "REMOTE", tmp_path / "other" / "REMOTE")
    with pytest.raises(PushConflictError, match="the generations of another store"):
        push(tmp_path / "other", url)
    push(tmp_path / "other", url, overwrite=True)
    with pytest.raises(OptionError, match="one of another store; pull into a new folder"):
        pull(url, tmp_path / "copy")
    assert store_versions(tmp_path / "copy") == {0, 1}
    push(tmp_path / "backup", url, overwrite=True)
    with pytest.raises(OptionError, match="pull into a new folder"):
        pull(url, tmp_path / "copy")
    assert store_versions(tmp_path / "copy") == {0, 1}


def test_a_store_that_is_being_written_elsewhere_is_not_pulled_into(tmp_path: Path) -> None:
    url = lagging_store(tmp_path)
    from seams import Database

    database = Database.open(tmp_path / "copy")
    with pytest.raises(WriterBusyError):
        pull(url, tmp_path / "copy")
    database.close()
    pull(url, tmp_path / "copy")
    assert store_versions(tmp_path / "copy") == {0, 1}


def test_readings_see_one_state_while_a_pull_replaces_the_database(tmp_path: Path) -> None:
    """A reading that began before sees the old state to its end."""
    url = url_of(tmp_path)
    next_store(tmp_path / "source", 0)
    push(tmp_path / "source", url)
    pull(url, tmp_path / "copy")
    with open_store(tmp_path / "copy", read_only=True) as replica:
        database = replica._store.database
        with database.reading() as connection:
            count = "SELECT count(*) FROM versions"
            before = connection.execute(count).get
            next_store(tmp_path / "source", 1)
            push(tmp_path / "source", url)
            pull(url, tmp_path / "copy")
            assert connection.execute(count).get == before
            assert (tmp_path / "copy" / "memory.db-wal").stat().st_size, "it is still read"
        with database.reading() as connection:
            assert connection.execute(count).get == before + 3
    assert not pull(url, tmp_path / "copy").is_new
    log = tmp_path / "copy" / "memory.db-wal"
    assert not log.exists() or log.stat().st_size == 0


def test_a_store_with_a_damaged_mark_is_read_and_not_written(tmp_path: Path) -> None:
    """Nobody knows any more whether it is a replica."""
    next_store(tmp_path / "source", 0)
    push(tmp_path / "source", url_of(tmp_path))
    pull(url_of(tmp_path), tmp_path / "copy")
    mark = tmp_path / "copy" / "REMOTE"
    mark.write_bytes(mark.read_bytes()[:-1])
    for read_only in (None, False):
        with pytest.raises(CorruptRemoteError, match="REMOTE: expected a body with its checksum"):
            opened(tmp_path / "copy", read_only=read_only)
    with opened(tmp_path / "copy", read_only=True) as replica:
        assert len(texts(replica, "version")) == 3
        told = {check.name: check for check in replica.doctor().checks}["replica"]
    assert not told.ok
    assert "expected a body with its checksum" in told.detail


def test_a_promoted_replica_keeps_nothing_of_an_interrupted_pull(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No pull would remove it any more, and an erase does not know of it."""
    url = url_of(tmp_path)
    with opened(tmp_path / "source") as source:
        kept = source.remember("the word is xyzzyplugh", user_id="ann")
    push(tmp_path / "source", url)
    pull(url, tmp_path / "copy")
    next_store(tmp_path / "source", 0)
    push(tmp_path / "source", url)

    def cut(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(targets, "_check_received", cut)
        with pytest.raises(Killed):
            pull(url, tmp_path / "copy")
    assert list((tmp_path / "copy").rglob("*.part"))
    promote(tmp_path / "copy")
    with opened(tmp_path / "copy") as own:
        own.forget(kept.id, user_id="ann", erase=True)
    assert holders(tmp_path / "copy", b"xyzzyplugh") == []


# ---- a replica takes only what follows the state that it holds ----


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
