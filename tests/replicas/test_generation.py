"""What a place says is read as data, and two pushers of one place replace nobody in silence."""

import json
import os
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("apsw", reason="the extra [memory] is not installed")

from hyrecall.errors import (
    CorruptRemoteError,
    DTypeError,
    HyrecallError,
    OptionError,
    PushConflictError,
    RemoteNotFoundError,
)
from hyrecall.replicas import follow, held, prune, pull, push
from replicas.world import Meddled, give, index_versions, new_index, next_index, next_store
from seams import FolderRemote, Head, MovedError, generation, hash_of, name_of, open_remote, pushing
from seams import replicas_Generation as Generation

# ---- other fields, and names outside the folder, are refused ----

NOW = timedelta(0)


def published(folder: Path) -> tuple[str, dict[str, Any]]:
    new_index(folder / "source")
    url = (folder / "remote").as_uri()
    push(folder / "source", url)
    path = next((folder / "remote" / "generations").iterdir())
    return url, json.loads(path.read_text())


def publish(url: str, data: Any) -> None:
    """Publish a forged generation, with fitting checksums."""
    remote = open_remote(url)
    text = json.dumps(data).encode()
    found = remote.get_head()
    assert found is not None
    remote.put(name_of(1, hash_of(text)), text)
    remote.replace_head(Head(1, hash_of(text), 0).to_bytes(), found[1])


def renamed(to: str) -> Callable[[dict[str, Any]], None]:
    def forge(data: dict[str, Any]) -> None:
        data["files"][1]["name"] = to

    return forge


def replaced(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda data: data.update(fields)


def in_file(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda data: data["files"][1].update(fields)


FORGED = {
    "above the folder": renamed("../evil.arrow"),
    "an absolute path": renamed("/evil"),
    "the mark": renamed("REMOTE"),
    "the lock": renamed("LOCK"),
    "a file of a store": renamed("memory.db"),
    "a name twice": renamed("MANIFEST"),
    "no name": renamed(""),
    "a name that is a number": in_file(name=3),
    "another kind": replaced(kind="tar"),
    "a store without its state": replaced(kind="store"),
    "no seal": replaced(state={}),
    "no files": replaced(files=[]),
    "files that are none": replaced(files={"a": 1}),
    "a field more": replaced(more=1),
    "a newer format": replaced(format=2),
    "a number that is a bool": replaced(number=True),
    "a time without a zone": replaced(pushed_at="2026-01-01T00:00:00"),
    "a time before the first year": replaced(pushed_at="0001-01-01T00:00:00+14:00"),
    "a time that is none": replaced(pushed_at="yesterday"),
    "a parent that is no hash": replaced(parent="../x"),
    "chunks that are no hashes": in_file(chunks=["../../HEAD"]),
    "a negative size": in_file(size=-1),
    "chunks without bytes": in_file(chunk_bytes=0),
    "too few chunks": in_file(chunks=[]),
    "a size that no chunk has": in_file(size=2**60),
    "a huge chunk": in_file(chunk_bytes=2**40, size=2**40),
}


@pytest.mark.parametrize("what", FORGED)
def test_a_forged_generation_is_refused_and_nothing_is_written(tmp_path: Path, what: str) -> None:
    url, data = published(tmp_path)
    FORGED[what](data)
    publish(url, data)
    with pytest.raises(CorruptRemoteError):
        pull(url, tmp_path / "copy")
    left = {path.name for path in tmp_path.rglob("*")} & {"evil", "evil.arrow", "copy"}
    assert left <= {"copy"}
    assert not list((tmp_path / "copy").iterdir())


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b"null", b"{" * 100_000, b"\xff"])
def test_a_text_that_is_no_generation_is_refused(text: bytes) -> None:
    with pytest.raises(CorruptRemoteError):
        Generation.from_bytes(text, "x")
    with pytest.raises(CorruptRemoteError):
        Head.from_bytes(text + b"\nsha256 " + hash_of(text + b"\n").encode() + b"\n", "x")


def test_files_other_than_the_manifest_names_are_refused(tmp_path: Path) -> None:
    url, data = published(tmp_path)
    del data["files"][-1]
    publish(url, data)
    with pytest.raises(CorruptRemoteError, match="the files that its MANIFEST names"):
        pull(url, tmp_path / "copy")
    assert held(tmp_path / "copy") is None


def test_a_damaged_head_or_generation_is_refused(tmp_path: Path) -> None:
    url, _ = published(tmp_path)
    for path in (tmp_path / "remote" / "HEAD", *(tmp_path / "remote" / "generations").iterdir()):
        whole = path.read_bytes()
        for at in range(0, len(whole), 7):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            with pytest.raises(CorruptRemoteError):
                pull(url, tmp_path / "copy")
            with pytest.raises(CorruptRemoteError):
                push(tmp_path / "source", url)
        path.write_bytes(whole)
    pull(url, tmp_path / "copy")
    assert index_versions(tmp_path / "copy") == [0]


def test_an_object_that_is_lost_is_named(tmp_path: Path) -> None:
    url, _ = published(tmp_path)
    lost = sorted((tmp_path / "remote" / "chunks").rglob("*-*"))[2]
    content = lost.read_bytes()
    lost.unlink()
    with pytest.raises(CorruptRemoteError, match=f"{lost.name}: expected an object of gen"):
        pull(url, tmp_path / "copy")
    lost.write_bytes(content)
    pull(url, tmp_path / "copy")


def test_prune_keeps_the_newest_generations(place: str, tmp_path: Path) -> None:
    new_index(tmp_path / "source")
    push(tmp_path / "source", place)
    for version in range(1, 5):
        next_index(tmp_path / "source", version)
        push(tmp_path / "source", place)
    assert prune(place, keep=2).n_removed == 0, "all is younger than a day"
    done = prune(place, keep=2, older_than=NOW)
    assert done.n_kept == 2
    assert done.n_removed > 6
    remote = open_remote(place)
    assert len(list(remote.listed("generations"))) == 2
    assert prune(place, keep=5, older_than=NOW) == type(done)(2, 0, 0)
    pull(place, tmp_path / "copy")
    assert index_versions(tmp_path / "copy") == [4]
    next_index(tmp_path / "source", 5)
    assert push(tmp_path / "source", place).generation == 6
    pull(place, tmp_path / "copy")
    assert index_versions(tmp_path / "copy") == [5]


def test_a_prune_that_keeps_too_little_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from seams import pruning

    url, _ = published(tmp_path)
    monkeypatch.setattr(pruning, "object_of", lambda _: "nothing")
    prune(url, keep=1, older_than=NOW)
    with pytest.raises(CorruptRemoteError):
        pull(url, tmp_path / "copy")


def test_a_prune_of_everything_else_does_not_ask_a_clock(tmp_path: Path) -> None:
    """The clock of a place may be ahead: erased text would stay there."""
    url, _ = published(tmp_path)
    next_index(tmp_path / "source", 1)
    push(tmp_path / "source", url)
    ahead = (datetime.now(UTC) + timedelta(hours=1)).timestamp()
    for path in (tmp_path / "remote").rglob("*-*"):
        os.utime(path, (ahead, ahead))
    assert prune(url, keep=1, older_than=timedelta(seconds=1)).n_removed == 0
    assert prune(url, keep=1, older_than=timedelta.max).n_removed == 0
    assert prune(url, keep=1, older_than=NOW).n_removed > 0
    pull(url, tmp_path / "copy")
    assert index_versions(tmp_path / "copy") == [1]


def test_a_saved_index_without_its_manifests_is_refused(tmp_path: Path) -> None:
    next_store(tmp_path / "store", 0)
    url = (tmp_path / "remote").as_uri()
    push(tmp_path / "store", url)
    data = json.loads(next((tmp_path / "remote" / "generations").iterdir()).read_text())
    data["files"] = [one for one in data["files"] if one["name"] != "index/edges/MANIFEST"]
    publish(url, data)
    with pytest.raises(CorruptRemoteError, match="no index/edges/MANIFEST"):
        pull(url, tmp_path / "copy")


def test_prune_refuses_to_keep_nothing(tmp_path: Path) -> None:
    url, _ = published(tmp_path)
    for keep in (0, -1, 1.5, None):
        with pytest.raises(OptionError, match=r"^keep: expected an int >= 1"):
            prune(url, keep=keep)  # type: ignore[arg-type]
    with pytest.raises(DTypeError, match=r"^older_than: expected a timedelta"):
        prune(url, older_than=3)  # type: ignore[arg-type]
    with pytest.raises(RemoteNotFoundError):
        prune((tmp_path / "empty").as_uri())


def test_following_goes_on_while_the_place_is_empty_or_gone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = (tmp_path / "remote").as_uri()
    new_index(tmp_path / "source")

    seen = []
    following = follow(url, tmp_path / "copy", every=0.01)
    pushing = threading.Timer(0.1, push, (tmp_path / "source", url))
    pushing.start()
    for pulled in following:
        seen.append(pulled.generation)
        break
    pushing.join()
    assert seen == [1]
    assert "a place to which something was pushed" in caplog.text
    assert index_versions(tmp_path / "copy") == [0]


def test_following_ends_when_it_is_told_to(tmp_path: Path) -> None:
    url, _ = published(tmp_path)
    stop = threading.Event()
    seen = []
    for pulled in follow(url, tmp_path / "copy", every=86_400, stop=stop):
        seen.append(pulled.generation)
        stop.set()
    assert seen == [1]
    with pytest.raises(DTypeError, match=r"^stop: expected a threading.Event"):
        follow(url, tmp_path / "copy", stop=3)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"^every: expected seconds"):
        follow(url, tmp_path / "copy", every=-1)
    (tmp_path / "remote" / "HEAD").write_bytes(b"")
    with pytest.raises(CorruptRemoteError):
        next(follow(url, tmp_path / "copy"))


# ---- two pushers of one place, and a prune beside a push ----


class Once:
    """Does something before the first request of a kind, and lets other requests pass."""

    def __init__(self, kind: str, do: Callable[[], object]) -> None:
        self.kind, self.do, self.is_done = kind, do, False

    def __call__(self, kind: str, name: str) -> None:
        if kind == self.kind and not self.is_done:
            self.is_done = True
            self.do()


def test_another_folder_does_not_replace_what_it_does_not_know(place: str, tmp_path: Path) -> None:
    new_index(tmp_path / "first", 1)
    new_index(tmp_path / "second", 2)
    push(tmp_path / "first", place)
    with pytest.raises(PushConflictError, match="got generation 1 of another folder") as caught:
        push(tmp_path / "second", place)
    assert "overwrite=True" in str(caught.value)
    assert push(tmp_path / "second", place, overwrite=True).generation == 2
    pull(place, tmp_path / "copy")
    assert index_versions(tmp_path / "copy") == [2]
    with pytest.raises(PushConflictError, match="got generation 2 of another folder"):
        push(tmp_path / "first", place)


def race(folder: Path, monkeypatch: pytest.MonkeyPatch, url: str, kind: str) -> list[int]:
    """Push a second folder while the first one's push is at a request; return what is there."""
    new_index(folder / "first", 1)
    new_index(folder / "second", 2)
    with monkeypatch.context() as patched:
        second = Once(kind, lambda: push(folder / "second", url))
        give(patched, lambda plain: Meddled(plain, second) if not second.is_done else plain)
        with pytest.raises(PushConflictError):
            push(folder / "first", url)
    assert second.is_done
    pull(url, folder / "copy")
    return index_versions(folder / "copy")


@pytest.mark.parametrize("kind", ["has", "put", "replace_head"])
def test_of_two_pushes_at_once_the_later_one_loses(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    assert race(tmp_path, monkeypatch, place, kind) == [2]


def test_a_head_without_a_condition_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        FolderRemote, "replace_head", lambda self, content, _: self.put("HEAD", content)
    )
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        race(tmp_path, monkeypatch, (tmp_path / "remote").as_uri(), "replace_head")


def test_a_push_whose_reply_was_lost_is_not_a_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that repeats a conditional request meets the HEAD that it wrote itself."""
    new_index(tmp_path / "source")
    url = (tmp_path / "remote").as_uri()

    class Twice(FolderRemote):
        def replace_head(self, content: bytes, tag: str | None) -> None:
            super().replace_head(content, tag)
            raise MovedError

    with monkeypatch.context() as patched:
        give(patched, lambda plain: Twice(plain._root))
        assert push(tmp_path / "source", url).generation == 1
    next_index(tmp_path / "source", 1)
    assert push(tmp_path / "source", url).generation == 2


def interrupted_push(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Push a version, and the next one until its HEAD; return the place."""
    url = (folder / "remote").as_uri()
    new_index(folder / "source")
    push(folder / "source", url)
    next_index(folder / "source", 1)

    def fail() -> None:
        raise ConnectionError

    with monkeypatch.context() as patched:
        give(patched, lambda plain: Meddled(plain, Once("replace_head", fail)))
        with pytest.raises(ConnectionError):
            push(folder / "source", url)
    return url


def prune_beside_a_push(folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> list[int]:
    """Interrupt a push, repeat it, and prune everything else while it is at a request."""
    url = interrupted_push(folder, monkeypatch)
    with monkeypatch.context() as patched:
        removed = []
        pruning = Once(kind, lambda: removed.append(prune(url, keep=1, older_than=NOW)))
        give(patched, lambda plain: plain if pruning.is_done else Meddled(plain, pruning))
        push(folder / "source", url)
    assert removed[0].n_removed > 0
    pull(url, folder / "copy")
    return index_versions(folder / "copy")


KINDS = ["has", "put", "replace_head"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_prune_beside_a_push_removes_nothing_that_is_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    assert prune_beside_a_push(tmp_path, monkeypatch, kind) == [1]


def test_a_prune_that_leaves_head_as_it_is_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from seams import pruning

    def forget(head: Any, **_: int) -> Any:
        return head

    monkeypatch.setattr(pruning, "replace", forget)
    with pytest.raises(CorruptRemoteError, match="an object of generation 2"):
        prune_beside_a_push(tmp_path, monkeypatch, "replace_head")


def test_chunks_that_are_named_alike_before_and_after_a_prune_are_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the epoch a repeated push counts on a chunk that the prune has listed already."""
    for module in (generation, pushing):
        monkeypatch.setattr(module, "epoch_of", lambda _: "0" * 16)
    url = interrupted_push(tmp_path, monkeypatch)
    plain = FolderRemote(tmp_path / "remote")
    with monkeypatch.context() as patched:
        # The push begins after HEAD was changed and ends before anything is removed.
        between = Once("delete", lambda: push(tmp_path / "source", url))
        give(patched, lambda _: plain if between.is_done else Meddled(plain, between))
        prune(url, keep=1, older_than=NOW)
    with pytest.raises(HyrecallError):
        pull(url, tmp_path / "copy")


def test_a_push_between_the_steps_of_a_prune_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = (tmp_path / "remote").as_uri()
    new_index(tmp_path / "source")
    plain = FolderRemote(tmp_path / "remote")
    for version, kind in ((2, "listed"), (4, "replace_head"), (6, "delete")):
        for before in (version - 2, version - 1):
            next_index(tmp_path / "source", before)
            push(tmp_path / "source", url)
        next_index(tmp_path / "source", version)
        with monkeypatch.context() as patched:
            between = Once(kind, lambda: push(tmp_path / "source", url))
            give(patched, lambda _, one=between: plain if one.is_done else Meddled(plain, one))
            prune(url, keep=1, older_than=NOW)
        assert between.is_done
        pull(url, tmp_path / f"copy-{kind}")
        assert index_versions(tmp_path / f"copy-{kind}") == [version]


def test_a_newest_generation_that_is_lost_is_named_to_a_push(tmp_path: Path) -> None:
    url = (tmp_path / "remote").as_uri()
    new_index(tmp_path / "source")
    push(tmp_path / "source", url)
    lost = next((tmp_path / "remote" / "generations").iterdir())
    content = lost.read_bytes()
    lost.unlink()
    next_index(tmp_path / "source", 1)
    with pytest.raises(CorruptRemoteError, match="expected generation 1, which HEAD names"):
        push(tmp_path / "source", url)
    lost.write_bytes(content)
    assert push(tmp_path / "source", url).generation == 2


def test_a_push_starts_again_if_the_newest_generation_is_replaced_and_pruned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = (tmp_path / "remote").as_uri()
    new_index(tmp_path / "first", 1)
    new_index(tmp_path / "second", 2)
    push(tmp_path / "first", url)
    next_index(tmp_path / "first", 3)

    def replace() -> None:
        push(tmp_path / "second", url, overwrite=True)
        prune(url, keep=1, older_than=NOW)

    with monkeypatch.context() as patched:
        between = Once("get", replace)
        give(patched, lambda plain: plain if between.is_done else Meddled(plain, between))
        with pytest.raises(PushConflictError, match="got generation 2 of another folder"):
            push(tmp_path / "first", url)
    assert between.is_done
