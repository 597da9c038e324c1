"""H14: whatever is passed to whatever, there is a result or a typed error that shows nothing."""

import contextlib
import inspect
import math
import random
import tempfile
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hyrecall as hr
from hyrecall import recipes
from hyrecall.embed import HashEmbedder
from hyrecall.errors import HyrecallError
from hyrecall.memory import EVERYONE, Browse, Episode, MemorySync, Participant
from memory.stores import DIM, NOON, Clock, episode, folder
from seams import connecting

pytestmark = pytest.mark.filterwarnings("ignore::hyrecall.memory.data.types.IsolationWarning")

TEXTS = ["", " ", "note", "\0", "a\0b", "\ud800", "🐘" * 300, "x" * 1_000, '"', "NEAR(", "%_\\"]
VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2**31, 2**63, 10**30, 10**400, [10**400] * DIM, [[10**400] * DIM],
    0.5, -0.0, math.nan, math.inf, b"bytes", *TEXTS, [], [1], ["a", None], (), (None, None),
    (NOON, "b"), (NOON, NOON), {}, {"a": math.nan}, {"a": 10**400},
    {"a": {"b": object}}, object(), NOON, NOON.replace(tzinfo=None), datetime.max, datetime.min,
    datetime.max.replace(tzinfo=UTC), timedelta(1), np.float32(1), np.int64(3), np.ones(DIM),
    np.ones((2, DIM)), np.array(["a"]), [math.nan] * DIM, [1e300] * DIM, range(3), set("ab"),
    hr.Filter(kind="note"), hr.Filter(nothing=1), hr.recipes.l0, hr.recipes.hebb, len,
    lambda query, texts: [math.nan] * len(texts), lambda: None, EVERYONE, Episode(text="x"),
    Participant(id="e0"), int, ..., NotImplemented, 1j, frozenset(), "private", "global",
    "alice", "e0", "note 1", 3, [NOON], iter([]), memoryview(b"x"),
]  # fmt: skip

SKIPPED = {"open", "close", "agent", "export", "import_"}
"""They take paths and files, which is another matter, or give a view."""


def arguments(kind: type) -> dict[str, list[str]]:
    """The methods of a face, with the names of what they take."""
    methods = {
        name: inspect.signature(getattr(kind, name)).parameters.values()
        for name in dir(kind)
        if not name.startswith("_") and callable(getattr(kind, name)) and name not in SKIPPED
    }
    fields = inspect.Parameter.VAR_KEYWORD
    return {
        name: [one.name for one in parameters if one.kind != fields and one.name != "self"]
        for name, parameters in methods.items()
    }


MEMORY = arguments(MemorySync)
PLAIN: dict[str, Any] = {
    "query": "note", "used": ["e0"], "id": "e0", "episode": "x", "episodes": [], "fact": None,
    "participants": ["a", "b"],
    "relationship": "r", "agent": "ann", "policy": "shared", "text": "t", "reason": "why",
    "changes": {"importance": 1.0},
    "embedder": HashEmbedder(dim=DIM),  # the packaged model takes half a second to load
}  # fmt: skip


@pytest.fixture(scope="module")
def memory() -> Any:
    made = MemorySync.open(
        folder(), embedder=HashEmbedder(dim=DIM), clock=Clock(), recipe=recipes.loom
    )
    made.remember_batch([episode(at) for at in range(5)])
    yield made
    made.close()


def untyped(method: Callable[..., Any], known: Iterable[str], options: dict[str, Any]) -> list[str]:
    """Call it; give what was raised and is none of ours, or says too much."""
    plain = {name: PLAIN[name] for name in known if name in PLAIN}
    try:
        made = method(**plain | options)
        if isinstance(made, MemorySync):
            made.close()
    except hr.HyrecallError as fault:
        text = str(fault)
        is_ours = not isinstance(fault, hr.InternalError)
        return [] if is_ours and len(text) < 4_000 else [f"{options!r:.80}: {text:.200}"]
    except Exception as fault:
        return [f"{options!r:.80}: {type(fault).__name__}: {fault!s:.200}"]
    return []


@pytest.mark.parametrize("name", sorted(MEMORY))
def test_H14_one_odd_value_for_each_argument(memory: MemorySync, name: str) -> None:
    known = MEMORY[name]
    owner = {"user_id": "alice"} if "user_id" in known else {}
    method = getattr(memory, name)
    pairs = [(one, value) for one in known for value in VALUES]
    found = [untyped(method, known, owner | {one: value}) for one, value in pairs]
    assert [one for faults in found for one in faults] == []


@pytest.mark.slow
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip
@given(st.data())
def test_H14_several_odd_values_at_once(memory: MemorySync, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(MEMORY)))
    known = MEMORY[name]
    chosen = data.draw(
        st.lists(st.sampled_from(known), max_size=5, unique=True) if known else st.just([])
    )
    value = st.one_of(st.sampled_from(VALUES), st.text(max_size=20), st.integers(), st.floats())
    assert untyped(getattr(memory, name), known, {one: data.draw(value) for one in chosen}) == []


def test_H14_fields_of_an_episode() -> None:
    rng = random.Random(14)
    with MemorySync.open(folder(), embedder=None, recipe=recipes.loom) as memory:
        named = []
        for _ in range(800):
            names = rng.sample(
                [*sorted(Episode.model_fields.keys() - {"text"}), "unknown"], rng.randrange(4)
            )
            fields = {name: rng.choice(VALUES) for name in names}
            try:
                kept = memory.remember("text", **fields)
            except hr.HyrecallError as fault:
                named.append(fault.argument.split("[")[0] in {*names, "remember"})
                continue
            place = {name: fields.get(name) for name in ("user_id", "org", "workspace")}
            expires = fields.get("expires_at")
            is_there = expires is None or expires.replace(tzinfo=UTC) > datetime.now(UTC)
            assert (memory.get(kept.id, **place) is not None) == is_there
        assert len(named) > 100
        assert all(named)
        assert memory.doctor(full=True).ok


def test_what_is_refused_kept_nothing(memory: MemorySync) -> None:
    """The control beside: after all of it the store is whole, and alice has what she had."""
    assert memory.doctor(full=True).checks[0].ok
    for other in ("bob", "nobody"):
        assert memory.list(user_id=other) == []


def test_a_row_that_is_too_large_is_refused_and_nothing_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connecting, "LARGEST_VALUE", 100_000)
    with MemorySync.open(folder(), embedder=None) as memory:
        memory.remember("kept", user_id="alice", id="first")
        for long in ("a" * 100_001, "\N{CJK UNIFIED IDEOGRAPH-6C34}" * 40_000):
            with pytest.raises(
                hr.OptionError, match=r"^memory: expected at most .* bytes of texts"
            ):
                memory.remember(long, user_id="alice")
            with pytest.raises(
                hr.OptionError, match=r"^memory: expected at most .* bytes of texts"
            ):
                memory.update("first", user_id="alice", text=long)
        memory.remember("after", user_id="alice")
        kept = [one.text for one in memory.list(user_id="alice")]
        assert sorted(kept) == ["after", "kept"]


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
PATHS = st.one_of(
    PLACES,
    st.lists(st.sampled_from(PIECES), max_size=8).map("".join),
    st.lists(st.sampled_from(PIECES), max_size=6).map("/".join),
    st.text(max_size=30),
)
ODD = st.one_of(PATHS, st.none(), st.integers(), st.binary(max_size=3), st.just([]))
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
                    id=key, kind=kind, user_id=owner, visibility=visibility, text="tea",
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
