"""Row H14 for files: any path and any pattern is an answer or a typed refusal, never a crash."""

import contextlib
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyrecall import recipes
from hyrecall.errors import HyrecallError
from hyrecall.memory import Browse, Episode, MemorySync

PIECES = [
    *("/", "memories", "shared", "sessions", "facts", "graph", "pinned", "index.md", "memory/"),
    *(".md", "%", "%00", "%2F", "..", ".", "episodic", "tea", "*", "[", "\0", "\ud800", "é"),
]
FILES = [
    *("/memories/episodic/{}.md", "/memories/{}", "/shared/{}/", "/shared/{}/{}/{}.md"),
    *("/sessions/{}.md", "/facts/{}.md", "/graph/{}.md"),
]
PLACES = st.builds(
    lambda file, piece: file.replace("{}", piece), st.sampled_from(FILES), st.sampled_from(PIECES)
)
TEXTS = st.one_of(
    PLACES,
    st.lists(st.sampled_from(PIECES), max_size=8).map("".join),
    st.lists(st.sampled_from(PIECES), max_size=6).map("/".join),
    st.text(max_size=30),
)
ODD = st.one_of(TEXTS, st.none(), st.integers(), st.binary(max_size=3), st.just([]))
LIMITS = st.one_of(st.integers(-2, 60), st.sampled_from([None, 1.5, "3", True, 2**70]))


@pytest.fixture(scope="module")
def files() -> Iterator[Browse]:
    folder = Path(tempfile.mkdtemp()) / "agent.mem"
    with MemorySync.open(folder, embedder=None, recipe=recipes.loom) as memory:
        memory.remember("tea at four", id="tea", user_id="ann", session_id="s", pinned=True)
        memory.link(["tea", "cup"], "goes with", user_id="ann")
        yield memory.browse(user_id="ann")


@given(path=ODD, pattern=ODD, limit=LIMITS, regex=st.booleans())
def test_H14_any_path_and_pattern(
    files: Browse, path: Any, pattern: Any, limit: Any, regex: bool
) -> None:
    for call in (
        lambda: files.ls(path, limit=limit),
        lambda: files.cat(path),
        lambda: files.find(pattern, path, limit=limit),
        lambda: files.grep(pattern, path, regex=regex, limit=limit),
        lambda: files.classify(path),
        lambda: files.rm(path),
    ):
        with contextlib.suppress(HyrecallError, PermissionError):
            call()


NAMES = st.one_of(
    st.sampled_from(
        [
            *("memory", "memories", "shared", "index.md", "index", ".md", "..", ".", "a/b", "%"),
            *("%00", "%6Demory", "/memory/", "memory/x", "a/memory/b", "facts", "é", "*", "[a]"),
        ]
    ),
    st.text(min_size=1, max_size=8).filter(lambda text: bool(text.strip()) and "\0" not in text),
)
KEPT = st.lists(
    st.tuples(NAMES, NAMES, NAMES, st.booleans(), st.none() | NAMES, st.booleans()),
    min_size=1,
    max_size=6,
)


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[MemorySync, Iterator[int]]]:
    """A store, and numbers of orgs that nothing was kept in yet."""
    with MemorySync.open(
        Path(tempfile.mkdtemp()) / "agent.mem", embedder=None, recipe=recipes.loom
    ) as memory:
        yield memory, count()


@given(kept=KEPT)
def test_whatever_is_listed_can_be_read(
    shared: tuple[MemorySync, Iterator[int]], kept: list[Any]
) -> None:
    """Of oneself, and of an agent that sees what others share."""
    memory, orgs = shared
    place: dict[str, Any] = {"org": f"org {next(orgs)}", "workspace": "lab"}
    n_kept = 0
    for key, kind, user, is_shared, session, pinned in kept:
        owner = user if is_shared else "ann"
        visibility: Any = "global" if is_shared else "private"
        if memory.get(key, user_id=owner, visibility=visibility, **place) is None:
            memory.remember(
                Episode(
                    id=key, kind=kind, user_id=owner, visibility=visibility, output="tea",
                    session_id=session, pinned=pinned, **place,
                )
            )  # fmt: skip
            n_kept += 1
    memory.set_policy("ann", policy="shared", **place)
    files = memory.agent("ann", **place).browse()
    found = files.find("*")
    assert len(found) == len(set(found)) == n_kept
    for path in found:
        assert "tea" in files.cat(path), path
        assert files.find("*", path) == [path]
        assert files.ls(path) == [path]
    left = ["/"]
    while left:
        for path in files.ls(left.pop()):
            if path.endswith("/"):
                left.append(path)
            else:
                assert files.cat(path), path
