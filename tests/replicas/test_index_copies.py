"""Pushing and pulling a saved index: what travels, what readers see, what is refused."""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

pytest.importorskip("apsw", reason="the extra [memory] is not installed")

import hyrecall as hr
from hyrecall.errors import (
    CorruptIndexError,
    CorruptRemoteError,
    IndexNotFoundError,
    OptionError,
    PushConflictError,
    RemoteNotFoundError,
    WriterBusyError,
)
from hyrecall.replicas import held, promote, pull, push
from laws.effort import Effort
from replicas.world import (
    N_ROWS,
    PARTS,
    index_versions,
    lagging_index,
    new_index,
    next_index,
    next_store,
    open_store,
    rows,
)
from seams import SOURCE, Mark, folder_lock, pulling, read_mark, write_mark

# ---- what travels, and what is refused ----


def url_of(folder: Path) -> str:
    return (folder / "remote").as_uri()


def test_a_replica_replies_as_the_index_does(place: str, tmp_path: Path) -> None:
    source = new_index(tmp_path / "source", 7)
    pushed = push(tmp_path / "source", place)
    pulled = pull(place, tmp_path / "copy")
    assert (pushed.generation, pushed.is_new) == (pulled.generation, pulled.is_new) == (1, True)
    assert pushed.bytes_sent == pushed.n_bytes == pulled.n_bytes == pulled.bytes_fetched
    copy = hr.Index.open(tmp_path / "copy", verify="full")
    asked = {"text": ["version"], "vectors": [[1.0, 2.0]], "scope": "ann", "fusion": hr.RRF()}
    assert copy.recall(**asked).to_arrow() == source.recall(**asked).to_arrow()
    seals = [(tmp_path / name / "MANIFEST").read_bytes() for name in ("source", "copy")]
    assert seals[0] == seals[1]
    again = push(tmp_path / "source", place)
    assert (again.generation, again.is_new, again.n_sent) == (1, False, 0)
    pulled_again = pull(place, tmp_path / "copy")
    assert (pulled_again.is_new, pulled_again.n_fetched) == (False, 0)
    assert held(tmp_path / "source") is None
    assert held(tmp_path) is None


def test_only_what_changed_travels_and_readers_take_it_up(place: str, tmp_path: Path) -> None:
    source = new_index(tmp_path / "source")
    push(tmp_path / "source", place)
    pull(place, tmp_path / "copy")
    reader = hr.Index.open(tmp_path / "copy")
    source.add(rows(1))
    source.save(tmp_path / "source")
    old = {path.name for path in (tmp_path / "copy").glob("*.arrow")}
    pushed = push(tmp_path / "source", place)
    new = {path.name for path in (tmp_path / "source").glob("*.arrow")} - old
    sizes = [(tmp_path / "source" / name).stat().st_size for name in (*new, "MANIFEST")]
    # Not all of it: the tokens of both segments are the same bytes.
    assert sum(sizes) / 2 < pushed.bytes_sent < sum(sizes) < pushed.n_bytes
    assert not reader.is_stale
    pulled = pull(place, tmp_path / "copy")
    assert (pulled.n_fetched, pulled.bytes_fetched) == (len(sizes), sum(sizes))
    assert reader.is_stale
    assert reader.reload()
    assert len(reader) == len(source)


def test_a_large_file_travels_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from seams import disk, sources

    # Both by the same factor: a chunk is compared with the checksums of whole blocks.
    monkeypatch.setattr(disk, "BLOCK_BYTES", 256)
    monkeypatch.setattr(sources, "BLOCK_BYTES", 256)
    monkeypatch.setattr(sources, "INDEX_CHUNK", 512)
    new_index(tmp_path / "source")
    told: list[tuple[int, int]] = []
    pushed = push(tmp_path / "source", url_of(tmp_path), progress=lambda *at: told.append(at))
    assert pushed.n_sent > 12
    assert told == sorted(told)
    assert told[-1] == (pushed.n_bytes, pushed.n_bytes)
    told.clear()
    pulled = pull(url_of(tmp_path), tmp_path / "copy", progress=lambda *at: told.append(at))
    assert told == sorted(told)
    assert told[-1] == (pulled.n_bytes, pulled.n_bytes)
    for path in (tmp_path / "source").glob("*.arrow"):
        assert (tmp_path / "copy" / path.name).read_bytes() == path.read_bytes()


def test_a_chunk_that_comes_again_travels_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from replicas.world import next_store, store_versions
    from seams import copying_state_of as state_of
    from seams import sources

    monkeypatch.setattr(sources, "STORE_CHUNK", 512)  # SQLite's empty pages are alike
    next_store(tmp_path / "source", 0)
    pushed = push(tmp_path / "source", url_of(tmp_path))
    assert pushed.bytes_sent < pushed.n_bytes / 2
    pulled = pull(url_of(tmp_path), tmp_path / "copy")
    assert pulled.bytes_fetched <= pushed.bytes_sent * 1.1  # a chunk of two files goes twice
    assert state_of(tmp_path / "copy") == state_of(tmp_path / "source")
    assert store_versions(tmp_path / "copy") == {0}


def test_a_damaged_index_is_not_published(tmp_path: Path) -> None:
    new_index(tmp_path / "source")
    path = next((tmp_path / "source").glob("*-rows.arrow"))
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    with pytest.raises(CorruptIndexError, match=r"-rows\.arrow: expected checksum"):
        push(tmp_path / "source", url_of(tmp_path))
    path.write_bytes(content[:-1])
    with pytest.raises(CorruptIndexError, match=r"-rows\.arrow: expected \d+ bytes"):
        push(tmp_path / "source", url_of(tmp_path))
    with pytest.raises(RemoteNotFoundError):
        pull(url_of(tmp_path), tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_an_index_that_was_saved_in_a_replica_is_not_lost_in_silence(tmp_path: Path) -> None:
    url = lagging_index(tmp_path)
    next_index(tmp_path / "copy", 5)
    with pytest.raises(OptionError, match=r"^path: expected a replica as it was pulled"):
        pull(url, tmp_path / "copy")
    assert index_versions(tmp_path / "copy") == [5]
    assert held(tmp_path / "copy") is None
    pull(url, tmp_path / "copy", discard_changes=True)
    assert index_versions(tmp_path / "copy") == [2]


@pytest.mark.parametrize("name", ["notes.txt", "MANIFEST", "memory.db"])
def test_a_folder_with_other_things_is_not_pulled_into(tmp_path: Path, name: str) -> None:
    new_index(tmp_path / "source")
    push(tmp_path / "source", url_of(tmp_path))
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / name).write_bytes(b"mine")
    with pytest.raises(OptionError, match=r"^path: expected a new or empty folder, or a replica"):
        pull(url_of(tmp_path), tmp_path / "copy")
    assert [one.name for one in (tmp_path / "copy").iterdir()] == [name]


def test_neither_a_source_nor_a_file_is_pulled_into(tmp_path: Path) -> None:
    new_index(tmp_path / "source")
    push(tmp_path / "source", url_of(tmp_path))
    with pytest.raises(OptionError, match="got a folder that is pushed to file://"):
        pull(url_of(tmp_path), tmp_path / "source")
    (tmp_path / "copy").write_bytes(b"")
    with pytest.raises(OptionError, match="got the file"):
        pull(url_of(tmp_path), tmp_path / "copy")


def test_a_folder_without_an_index_is_not_pushed(tmp_path: Path) -> None:
    with pytest.raises(IndexNotFoundError, match=r"^path: expected the folder of a saved index"):
        push(tmp_path / "none", url_of(tmp_path))
    (tmp_path / "empty").mkdir()
    with pytest.raises(IndexNotFoundError, match="got another folder"):
        push(tmp_path / "empty", url_of(tmp_path))
    (tmp_path / "empty" / "shards.json").write_text("{}")
    with pytest.raises(IndexNotFoundError, match="got a folder of shards, which is not pushed"):
        push(tmp_path / "empty", url_of(tmp_path))


def test_one_push_or_pull_of_a_folder_runs_at_a_time(tmp_path: Path) -> None:
    new_index(tmp_path / "source")
    with folder_lock(tmp_path / "source"), pytest.raises(WriterBusyError, match="no other push"):
        push(tmp_path / "source", url_of(tmp_path))
    push(tmp_path / "source", url_of(tmp_path))


def test_a_save_may_run_beside_a_push(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pushed files are those of one version, although a save removes them meanwhile."""
    from seams import pushing

    new_index(tmp_path / "source")
    send = pushing.send_files

    def save_first(*arguments: object) -> object:
        next_index(tmp_path / "source", 3)  # compacted: every file is another one
        return send(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(pushing, "send_files", save_first)
        push(tmp_path / "source", url_of(tmp_path))
    pull(url_of(tmp_path), tmp_path / "copy")
    assert index_versions(tmp_path / "copy") == [0]
    push(tmp_path / "source", url_of(tmp_path))
    pull(url_of(tmp_path), tmp_path / "copy")
    assert index_versions(tmp_path / "copy") == [3]


def test_a_promoted_replica_pushes_where_the_source_did(tmp_path: Path) -> None:
    url = url_of(tmp_path)
    new_index(tmp_path / "source")
    push(tmp_path / "source", url)
    pull(url, tmp_path / "copy")
    with pytest.raises(OptionError, match="got a replica of file://"):
        push(tmp_path / "copy", url)
    promote(tmp_path / "copy")
    next_index(tmp_path / "copy", 4)
    assert push(tmp_path / "copy", url).generation == 2
    pull(url, tmp_path / "other")
    assert index_versions(tmp_path / "other") == [4]
    for path in (tmp_path / "copy", tmp_path):
        with pytest.raises(OptionError, match=r"^path: expected a replica"):
            promote(path)


def test_a_damaged_mark_is_found(tmp_path: Path) -> None:
    new_index(tmp_path / "source")
    push(tmp_path / "source", url_of(tmp_path))
    path = tmp_path / "source" / "REMOTE"
    mark = read_mark(tmp_path / "source")
    assert mark is not None
    whole = path.read_bytes()
    for damaged in (b"", whole[:-1], whole.replace(b"source", b"sources")):
        path.write_bytes(damaged)
        with pytest.raises(CorruptRemoteError, match="REMOTE: expected a body with its checksum"):
            push(tmp_path / "source", url_of(tmp_path))
    write_mark(tmp_path / "source", Mark(mark.role, mark.noted))
    assert path.read_bytes() == whole


class CutShortError(Exception):
    """What a test raises in place of an interruption."""


@pytest.mark.parametrize("is_saved_before", [False, True])
def test_a_promoted_index_does_not_replace_what_an_interrupted_pull_has_not_brought(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_saved_before: bool
) -> None:
    url = lagging_index(tmp_path)

    def cut(*_: object, **__: object) -> None:
        raise CutShortError

    if is_saved_before:
        next_index(tmp_path / "copy", 7)
    with monkeypatch.context() as patched:
        patched.setattr(pulling, "put_index", cut)
        with pytest.raises(CutShortError):
            pull(url, tmp_path / "copy", discard_changes=is_saved_before)
    if not is_saved_before:
        next_index(tmp_path / "copy", 7)
    promote(tmp_path / "copy")
    with pytest.raises(PushConflictError, match="got generation 2 of another folder"):
        push(tmp_path / "copy", url)


def test_a_replica_that_is_promoted_while_a_pull_begins_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = lagging_index(tmp_path)

    def promoted(folder: Path) -> AbstractContextManager[None]:
        monkeypatch.setattr(pulling, "folder_lock", folder_lock)
        promote(folder)
        return folder_lock(folder)

    monkeypatch.setattr(pulling, "folder_lock", promoted)
    with pytest.raises(OptionError, match="got a folder that is pushed to"):
        pull(url, tmp_path / "copy")
    mark = read_mark(tmp_path / "copy")
    assert mark is not None
    assert mark.role == SOURCE
    assert index_versions(tmp_path / "copy") == [1]


def test_an_index_that_is_saved_as_a_pull_begins_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = lagging_index(tmp_path)

    def saved(folder: Path, mark: Mark) -> None:
        write_mark(folder, mark)
        next_index(folder, 7)

    with monkeypatch.context() as patched:
        patched.setattr(pulling, "write_mark", saved)
        with pytest.raises(WriterBusyError, match="no save beside a pull"):
            pull(url, tmp_path / "copy")
    assert index_versions(tmp_path / "copy") == [7]
    with pytest.raises(OptionError, match="an index that was saved here since"):
        pull(url, tmp_path / "copy")
    pull(url, tmp_path / "copy", discard_changes=True)
    assert index_versions(tmp_path / "copy") == [2]


# ---- readers that go on while pulls replace what they read ----


def looks_during(work: Callable[[], None], look: Callable[[], object]) -> list[object]:
    """Look again and again on a thread while something is done; returns what was seen."""
    seen: list[object] = []
    faults: list[BaseException] = []
    is_over = threading.Event()

    def watch() -> None:
        try:
            while not is_over.is_set():
                seen.append(look())
        except BaseException as fault:
            faults.append(fault)

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        work()
    finally:
        is_over.set()
        watching.join()
    assert faults == []
    return seen


def test_a_handle_of_a_store_sees_whole_versions_while_pulls_go_on(
    tmp_path: Path, effort: Effort
) -> None:
    url = (tmp_path / "remote").as_uri()
    next_store(tmp_path / "source", 0)
    push(tmp_path / "source", url)
    pull(url, tmp_path / "copy")
    n_pulls = effort.cases(quick=4, full=60)

    def pulls() -> None:
        for version in range(1, n_pulls + 1):
            next_store(tmp_path / "source", version)
            push(tmp_path / "source", url)
            pull(url, tmp_path / "copy")

    with open_store(tmp_path / "copy", read_only=True) as replica:

        def look() -> int:
            found = replica.search("version", user_id="ann", limit=100)
            assert not found.degraded, found.reasons
            listed = [one.text for one in replica.list(user_id="ann", limit=10_000)]
            told = [int(text.split()[1].strip(",")) for text in listed]
            assert all(told.count(version) == PARTS for version in told), told
            return max(told)

        seen = looks_during(pulls, look)
        assert look() == n_pulls
    assert seen == sorted(seen)
    assert len(set(seen)) > 1


def test_an_index_that_reloads_sees_whole_versions_while_pulls_go_on(
    tmp_path: Path, effort: Effort
) -> None:
    url = (tmp_path / "remote").as_uri()
    new_index(tmp_path / "source")
    push(tmp_path / "source", url)
    pull(url, tmp_path / "copy")
    n_pulls = effort.cases(quick=10, full=200)

    def pulls() -> None:
        for version in range(1, n_pulls + 1):
            next_index(tmp_path / "source", version)
            push(tmp_path / "source", url)
            pull(url, tmp_path / "copy")

    replica = hr.Index.open(tmp_path / "copy")

    def look() -> int:
        replica.reload()
        hits = replica.recall_one(text="version", scope="ann", limit=100, columns=("text",))
        (version,) = {int(hit.text.split()[1]) for hit in hits}
        assert len(hits) == N_ROWS
        return version

    seen = looks_during(pulls, look)
    assert look() == n_pulls
    assert seen == sorted(seen)
    assert len(set(seen)) > 1
