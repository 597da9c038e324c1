"""What a place says is read as data: other fields, and names outside the folder, are refused."""

import json
import os
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("apsw", reason="the extra [memory] is not installed")

from hyrecall.errors import CorruptRemoteError, DTypeError, OptionError, RemoteNotFoundError
from hyrecall.replicas import follow, held, prune, pull, push
from replicas.world import index_versions, new_index, next_index, next_store
from seams import Head, hash_of, name_of, open_remote
from seams import replicas_Generation as Generation

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
