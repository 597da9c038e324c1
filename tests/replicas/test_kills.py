"""Pushes and pulls that are killed at random: a follower never sees a mixture."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("apsw", reason="the extra [memory] is not installed")

from hyrecall.errors import RemoteNotFoundError
from hyrecall.replicas import pull
from laws.effort import Effort
from replicas.world import index_versions, new_index, next_index, next_store, store_versions

Kill = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def kill() -> Iterator[Kill]:
    path = os.pathsep.join(one for one in sys.path if one)
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "replicas.kill_child"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    asked, answers = process.stdin, process.stdout

    def order(**options: Any) -> dict[str, Any]:
        asked.write(json.dumps(options) + "\n")
        asked.flush()
        answer: dict[str, Any] = json.loads(answers.readline())
        assert answer["fault"] == ""
        assert answer["ended"] == -9
        return answer

    yield order
    asked.close()
    process.wait()
    answers.close()


def follow_killed_pushes(kill: Kill, folder: Path, kind: str, n_kills: int) -> int:
    """Kill pushes; after each, pull and look. Return how many versions the follower saw."""
    draw = random.Random(kind)
    url = (folder / "remote").as_uri()
    versions = index_versions if kind == "index" else store_versions
    source, copy, version, seen = folder / "source", folder / "copy", 1, {0}
    if kind == "index":
        new_index(source)
    else:
        next_store(source, 0)
    told = newest = 0  # the last one that a child told of, and that the follower saw
    for _ in range(n_kills):
        answer = kill(
            folder=str(source), url=url, kind=kind, version=version, is_pull=False,
            wait_for=draw.randrange(2), after=draw.uniform(0.0, 0.1),
        )  # fmt: skip
        if answer["told"]:
            told = version + answer["told"] - 1
        version += answer["told"] + 1  # what was not told of may be there
        try:
            pull(url, copy)
        except RemoteNotFoundError:
            assert told == 0, "what was told of is there"
            continue
        found = versions(copy)
        if kind == "index":
            assert len(found) == 1
        assert max(found) >= max(told, newest)
        assert max(found) < version
        newest = max(found)
        seen.add(newest)
    return len(seen)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["index", "store"])
def test_a_follower_of_killed_pushes_never_sees_a_mixture(
    kill: Kill, tmp_path: Path, kind: str, effort: Effort
) -> None:
    n_kills = effort.cases(quick=3, full=200)
    n_seen = follow_killed_pushes(kill, tmp_path, kind, n_kills)
    assert n_seen > n_kills / 3, "the children got to work"
    print(f"{n_kills} killed pushes, {kind}: {n_seen} versions seen, 0 of them mixed")


@pytest.mark.parametrize("kind", ["index", "store"])
def test_a_replica_whose_pulls_are_killed_holds_one_state(
    kill: Kill, tmp_path: Path, kind: str, effort: Effort
) -> None:
    from hyrecall.replicas import push

    draw = random.Random(f"pulls of a {kind}")
    url = (tmp_path / "remote").as_uri()
    source, copy = tmp_path / "source", tmp_path / "copy"
    step = next_index if kind == "index" else next_store
    versions = index_versions if kind == "index" else store_versions
    if kind == "index":
        new_index(source)
    n_kills = effort.cases(quick=2, full=100)
    n_old = 0
    for version in range(1, n_kills + 1):
        step(source, version)
        push(source, url)
        if version == 1:
            pull(url, copy)
        kill(
            folder=str(copy), url=url, kind=kind, version=0, is_pull=True,
            wait_for=0, after=draw.uniform(0.0, 0.02 if kind == "index" else 0.2),
        )  # fmt: skip
        found = index_versions(copy) if kind == "index" else store_versions(copy, is_cut=True)
        assert max(found) <= version
        n_old += max(found) < version
        pull(url, copy)
        assert versions(copy) == versions(source)
    print(f"{n_kills} killed pulls, {kind}: {n_old} left the state before, 0 a mixture")
