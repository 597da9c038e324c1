"""Readers that go on while pulls replace what they read: each look sees one pushed state."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("apsw", reason="the extra [memory] is not installed")

import hyrecall as hr
from hyrecall.replicas import pull, push
from laws.effort import Effort
from replicas.world import N_ROWS, PARTS, new_index, next_index, next_store, open_store


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
