"""Two pushers of one place, and a prune beside a push: nobody replaces another in silence."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("apsw", reason="the extra [memory] is not installed")

from hyrecall.errors import CorruptRemoteError, HyrecallError, PushConflictError
from hyrecall.replicas import prune, pull, push
from replicas.world import Meddled, give, index_versions, new_index, next_index
from seams import FolderRemote, MovedError, generation, pushing

NOW = timedelta(0)


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
