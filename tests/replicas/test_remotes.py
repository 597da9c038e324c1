"""What pushes and pulls need of a place, on each kind of place."""

import sys
import traceback
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hyrecall.errors import DTypeError, MissingExtraError, OptionError, RemoteError
from seams import AbsentError, MovedError, Remote, disk, open_remote


def test_an_object_is_read_as_it_was_written(place: str) -> None:
    remote = open_remote(place)
    for name, content in (("chunks/ab/x", b"one"), ("chunks/cd/y", b""), ("generations/1", b"2")):
        remote.put(name, content)
    remote.settle()
    assert remote.get("chunks/ab/x") == b"one"
    assert remote.get("chunks/cd/y") == b""
    assert remote.has("generations/1")
    assert not remote.has("generations/2")
    with pytest.raises(AbsentError):
        remote.get("chunks/ab/z")


def test_objects_are_listed_by_folder_and_removed(place: str) -> None:
    remote = open_remote(place)
    for name in ("chunks/ab/x", "chunks/cd/y", "generations/1"):
        remote.put(name, b"12345")
    found = {one.name: one for one in remote.listed("chunks")}
    assert found.keys() == {"chunks/ab/x", "chunks/cd/y"}
    assert {one.size for one in found.values()} == {5}
    now = datetime.now(UTC)
    assert all(abs(now - one.modified) < timedelta(minutes=5) for one in found.values())
    remote.delete(["chunks/ab/x", "chunks/ab/never"])
    assert [one.name for one in remote.listed("chunks")] == ["chunks/cd/y"]


def race_of_two(remote: Remote, other: Remote) -> bytes:
    """Replace HEAD from two sides that read the same one; return what is there."""
    assert remote.get_head() is None
    remote.replace_head(b"1", None)
    with pytest.raises(MovedError):
        other.replace_head(b"2", None)
    first = remote.get_head()
    assert first is not None
    remote.replace_head(b"3", first[1])
    with pytest.raises(MovedError):
        other.replace_head(b"4", first[1])
    last = other.get_head()
    assert last is not None
    return last[0]


def test_head_is_replaced_only_by_who_has_seen_it(place: str) -> None:
    assert race_of_two(open_remote(place), open_remote(place)) == b"3"


def test_a_place_that_overlooks_conditions_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from seams import FolderRemote

    def overlook(self: FolderRemote, content: bytes, tag: str | None) -> None:
        self.put("HEAD", content)

    monkeypatch.setattr(FolderRemote, "replace_head", overlook)
    remote = open_remote((tmp_path / "remote").as_uri())
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        race_of_two(remote, remote)


def test_a_server_that_overlooks_conditions_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    obstore = pytest.importorskip("obstore", reason="the extra [s3] is not installed")
    remote = open_remote("memory://overlooks")
    put = obstore.put

    def overlook(store: Any, path: str, file: bytes, **options: Any) -> Any:
        return put(store, path, file, **options | {"mode": "overwrite"})

    monkeypatch.setattr(obstore, "put", overlook)
    with pytest.raises(RemoteError, match="If-Match and If-None-Match of a PUT, got one that"):
        remote.replace_head(b"1", None)
    assert remote.get_head() is None


def test_a_store_of_obstore_is_a_place(tmp_path: Path) -> None:
    stores = pytest.importorskip("obstore.store", reason="the extra [s3] is not installed")
    remote = open_remote(stores.MemoryStore())
    remote.put("x", b"1")
    assert remote.get("x") == b"1"


def test_a_password_in_a_url_is_not_shown() -> None:
    pytest.importorskip("obstore", reason="the extra [s3] is not installed")
    remote = open_remote("https://ann:secret@example.invalid/notes")
    assert remote.url == "https://example.invalid/notes"
    assert open_remote("memory://ann:secret@notes?secret").url == "memory://notes"


@pytest.mark.parametrize(
    "url",
    [
        "gopher://ann:secret@example.invalid/notes",
        "ann:secret@example.invalid/notes",
        "gopher://example.invalid/notes?secret#secret",
        "file://ann:secret@example.invalid/notes",
    ],
)
def test_a_url_that_is_refused_is_told_without_its_password(url: str) -> None:
    pytest.importorskip("obstore", reason="the extra [s3] is not installed")
    with pytest.raises(OptionError) as caught:
        open_remote(url)
    assert "secret" not in "".join(traceback.format_exception(caught.value))
    assert "notes" in str(caught.value)


def test_a_request_that_fails_is_told_without_the_password() -> None:
    obstore = pytest.importorskip("obstore", reason="the extra [s3] is not installed")
    store = obstore.store.from_url(
        "http://ann:secret@127.0.0.1:1/notes", retry_config={"max_retries": 0}
    )
    remote = open_remote(store)
    assert remote.url == 'HTTPStore("http://127.0.0.1:1/notes")'
    with pytest.raises(RemoteError, match="notes") as caught:
        remote.get("HEAD")
    assert "secret" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("notes", "a URL such as file:///srv/notes"),
        ("/srv/notes", "a URL such as file:///srv/notes"),
        ("file://host/notes", "file:// and an absolute path"),
        ("file://", "file:// and an absolute path"),
        (Path("notes"), "a URL such as file:///srv/notes"),
    ],
)
def test_what_is_no_url_is_refused(url: Any, told: str) -> None:
    with pytest.raises(OptionError, match=f"^url: expected {told}"):
        open_remote(url)


def test_another_object_is_refused() -> None:
    with pytest.raises(DTypeError, match=r"^url: expected a URL"):
        open_remote(3)


def test_a_url_that_nobody_knows_is_refused() -> None:
    pytest.importorskip("obstore", reason="the extra [s3] is not installed")
    with pytest.raises(OptionError, match=r"^url: expected a URL that obstore opens"):
        open_remote("gopher://notes")


def test_without_obstore_a_folder_works_and_others_name_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(MissingExtraError, match=r"the extra \[s3\] \(pip install"):
        open_remote("s3://bucket/notes")
    with pytest.raises(MissingExtraError, match=r"the extra \[s3\]"):
        open_remote("memory://notes")
    open_remote(tmp_path.as_uri()).put("x", b"1")


def test_what_an_interrupted_push_left_is_synced_before_it_is_counted_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_remote(tmp_path.as_uri()).put("chunks/ab/x", b"1")  # a process that ends before settle
    synced: list[Path] = []
    monkeypatch.setattr(disk, "sync_folder", synced.append)
    later = open_remote(tmp_path.as_uri())
    assert later.has("chunks/ab/x")
    assert not later.has("chunks/cd/y")
    later.settle()
    assert synced == [tmp_path / "chunks" / "ab"]


def test_a_folder_that_cannot_be_written_is_an_error_of_the_place(tmp_path: Path) -> None:
    (tmp_path / "remote").mkdir()
    (tmp_path / "remote" / "chunks").write_bytes(b"")
    remote = open_remote((tmp_path / "remote").as_uri())
    with pytest.raises((RemoteError, OptionError), match="chunks"):
        remote.put("chunks/ab/x", b"1")
