"""No pattern and no long text keeps the threads of a service from other callers."""

from __future__ import annotations

import asyncio
import socket
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hyrecall as hr
from hyrecall.errors import OptionError, TooManyScansError
from hyrecall.memory import Memory, MemorySync
from hyrecall.recipes import hypergraph, loom
from hyrecall.serve import ServiceOptions, create_app
from seams import (
    MOST_STATES,
    Frames,
    Opening,
    OwnerRequest,
    browsed_paths,
    open_states,
    pattern_fault,
    regex,
    scans,
)
from serve.conftest import ANN, BOB
from serve_client import calling

GREP = "/v1/browse/grep"
SLOW = "(?:.{0,300}a.{0,300}){3}c"
LARGE = [
    SLOW, "a{257}", "(a{20}){20}", "(?i:a{0,300})", r"\pL{1,300}", r"[^]]{300}x", "(?:a?b?c?){87}",
    "(?:.?){300}", "(?P<n>ab){129}", r"(?:\Qa.b\E){90}", "(a|b|c){100}", "(?:a{2,}b){90}",
]  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "states"),
    [
        ("tea and milk", 0), ("tea.*milk", 1), ("a{3}", 3), ("a{2,5}", 5), ("a{2,}", 2),
        ("(?i)(ab?){4}", 8), (r"\Qa{9}\E", 0), ("[a{9}]", 0), (r"\{9}", 0), ("a{,9}", 0),
        ("(a|bc)+", 3), ("a(b(c*))*", 2), (r"\d{4}-\d{2}", 6), (r"\p{Greek}{3}", 3), ("a.b|c.d", 0),
        ("[[:alpha:]]{4}", 4), ("(?P<x>ab){10}", 20), (SLOW, 1803),
    ],
)  # fmt: skip
def test_states_that_repetitions_hold_are_counted(pattern: str, states: int) -> None:
    assert open_states(pattern) == states


@pytest.mark.slow
def test_a_pattern_that_asks_too_much_is_refused_at_every_door() -> None:
    """By its repetitions, or because it needs backtracking."""
    table = pa.table({"id": [1], "text": ["tea"]})
    index = hr.Index.build(table, hr.Schema(key="id", cell=None, text="text"), device="cpu")
    forced = hr.recipes.hypergraph_regex
    most = f"at most {MOST_STATES} states"
    with MemorySync.in_memory(recipe=hypergraph, embedder=None) as memory:
        memory.remember("tea", user_id="ann")
        files = memory.browse(user_id="ann")
        for pattern in LARGE:
            fault = pattern_fault(pattern)
            assert fault is not None
            assert fault.endswith(" states")
            with pytest.raises(OptionError, match=f"{most}, got .* states$"):
                index.recall(text={"regex": [pattern]}, arms=hr.arms.Regex("text"))
            with pytest.raises(OptionError, match=f"^pattern: .* {most}"):
                files.grep(pattern, regex=True)
            with pytest.raises(OptionError, match="expected a regular expression"):
                memory.search(pattern, user_id="ann", recipe=forced)
            memory.search(pattern, user_id="ann")  # such a query is plain text there
        for pattern in ("(?=a)", "(?<!a)b", r"(a)\1", "(?>a)", "a++", "("):
            with pytest.raises(OptionError, match=r"^pattern: expected a .*\(RE2\) .*, got"):
                files.grep(pattern, regex=True)


def test_slices_find_what_one_pass_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["", "tea", None, "é" * 40, "milk\ntea", "x" * 90, "teas", None]
    column = pa.chunked_array([texts[:3], texts[3:]], pa.large_string())
    whole = pc.match_substring_regex(column, "t.a$").to_pylist()
    seen: list[int] = []
    monkeypatch.setattr(scans, "spend", seen.append)
    monkeypatch.setattr(regex, "SLICE_STEPS", 20)
    assert regex.pattern_matcher("t.a$", ignore_case=False)(column).to_pylist() == whole
    assert len(seen) > 4
    assert sum(seen) == sum(len(text.encode()) for text in texts if text is not None)


def recall_by_pattern() -> Callable[[], object]:
    table = pa.table({"id": range(50), "text": ["tea " * 100] * 50})
    index = hr.Index.build(table, hr.Schema(key="id", cell=None, text="text"), device="cpu")
    return lambda: index.recall(text={"regex": ["t.*x"]}, arms=hr.arms.Regex("text"))


def grep(*, is_regex: bool) -> Callable[[], object]:
    memory = MemorySync.in_memory(recipe=loom, embedder=None)
    memory.remember_batch([hr.memory.Episode(user_id="ann", text="tea " * 100) for _ in range(50)])
    return lambda: memory.browse(user_id="ann").grep("t.*x", regex=is_regex)


@pytest.mark.parametrize(
    "made", [recall_by_pattern, lambda: grep(is_regex=True), lambda: grep(is_regex=False)]
)
def test_a_search_ends_at_the_next_slice_if_its_caller_has_left(
    made: Callable[[], Callable[[], object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    search = made()
    monkeypatch.setattr(regex, "SLICE_STEPS", 1_000)
    looks: list[int] = []

    def has_left() -> bool:
        looks.append(1)
        return len(looks) > 5

    with scans.serving(None, has_left), pytest.raises(scans.CallStopped):
        search()
    assert len(looks) == 6
    search()


class HeldScans:
    """Long searches, which begin and are then held back."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.began, self.go_on = threading.Semaphore(0), threading.Event()
        self.ended: list[type[BaseException] | None] = []
        plain, end = scans.Call.spend, scans.Call.end

        def spend(call: scans.Call, steps: int) -> None:
            try:
                plain(call, steps)
            except BaseException as fault:
                self.ended.append(type(fault))
                raise
            if call.caller is not None:
                self.began.release()
                assert self.go_on.wait(20)

        def ends(call: scans.Call) -> None:
            end(call)
            self.began.release()

        monkeypatch.setattr(scans.Call, "spend", spend)
        monkeypatch.setattr(scans.Call, "end", ends)
        monkeypatch.setattr(scans, "FREE_STEPS", 0)
        monkeypatch.setattr(browsed_paths, "BYTES_AT_A_TIME", 1)

    async def wait(self) -> None:
        assert await asyncio.to_thread(self.began.acquire, timeout=20)


def drain(held: HeldScans) -> None:
    while held.began.acquire(blocking=False):
        pass


async def test_a_client_that_leaves_frees_the_thread_of_its_search(
    store: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with calling(create_app(store)) as client:
        for at in range(9):
            await client.post("/v1/memories", json={"text": f"tea {at}", "user_id": "ann"})
        held = HeldScans(monkeypatch)
        asked = {"pattern": "t.*x", "regex": True, "user_id": "ann"}
        request = asyncio.create_task(client.get(GREP, params=asked))
        await held.wait()
        request.cancel()
        await asyncio.wait([request])
        drain(held)
        held.go_on.set()
        await held.wait()  # its thread is free
        assert held.ended == [scans.CallStopped]


async def test_a_caller_has_two_long_searches_at_a_time_and_others_have_theirs(
    store: Opening, token_of: Callable[..., str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    first, second = token_of(ANN), token_of(BOB)
    app = create_app(store, ServiceOptions(tokens=tmp_path / "tokens.json"))
    async with calling(app, first) as client:
        others = {"authorization": f"Bearer {second}"}
        for who in ({}, others):
            await client.post("/v1/memories", json={"text": "tea"}, headers=who)
        held = HeldScans(monkeypatch)
        asked = {"pattern": "t.a", "regex": True}
        mine = [asyncio.create_task(client.get(GREP, params=asked)) for _ in range(2)]
        for _ in mine:
            await held.wait()
        refused = await client.get(GREP, params=asked)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert refused.json()["error"]["type"] == "TooManyScansError"
        theirs = asyncio.create_task(client.get(GREP, params=asked, headers=others))
        await held.wait()
        held.go_on.set()
        for one in (*mine, theirs):
            assert len((await one).json()["lines"]) == 1
        assert len((await client.get(GREP, params=asked)).json()["lines"]) == 1


async def test_searches_over_mcp_count_for_their_token(
    token_of: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mcp = pytest.importorskip("hyrecall.serve.mcp", reason="the extra [mcp] is not installed")
    world = pytest.importorskip("mcp_world", reason="the extra [mcp] is not installed")
    callers: list[str | None] = []
    plain = scans.Call.spend

    def spend(call: scans.Call, steps: int) -> None:
        callers.append(call.caller)
        plain(call, steps)

    token = token_of(ANN)
    options = ServiceOptions(tokens=tmp_path / "tokens.json")
    async with Memory.in_memory(recipe=loom, embedder=None) as memory:
        await memory.remember("tea", user_id="ann", org="acme", workspace="lab")
        monkeypatch.setattr(scans.Call, "spend", spend)
        async with world.over_http(mcp.http_app(memory, options=options), token) as ann:
            asked = {"pattern": "t.a", "regex": True}
            found = world.data_of(await ann.call_tool("browse_grep", asked))
            assert len(found["lines"]) == 1
    assert set(callers) == {token.split("_")[1]}


def test_a_short_search_is_not_counted_and_a_program_of_its_own_is_not_bounded() -> None:
    with scans.serving("ann") as one, scans.serving("ann") as two, scans.serving("ann") as three:
        for call in (one, two, three):
            call.spend(scans.FREE_STEPS)
        one.spend(1)
        two.spend(1)
        with pytest.raises(TooManyScansError, match=r"^search: expected at most 2 long searches"):
            three.spend(1)
        with scans.serving(None) as own, scans.serving("bob") as other:
            own.spend(1 << 40)
            other.spend(1 << 40)
        one.end()
        three.spend(1)
    assert not +scans._long


def test_the_owner_of_a_shared_store_learns_who_asks_and_that_a_client_has_left() -> None:
    assert OwnerRequest("x").caller is None  # type: ignore[arg-type]
    token = scans.CALLER.set("ann")
    try:
        assert OwnerRequest("x").caller == "ann"  # type: ignore[arg-type]
    finally:
        scans.CALLER.reset(token)
    one, other = socket.socketpair()
    owner, client = Frames(one), Frames(other)
    assert not owner.has_ended()
    client.send(b"an answer to come")
    assert not owner.has_ended()
    assert owner.receive() == b"an answer to come"
    with scans.serving(None, owner.has_ended), scans.serving("ann"):
        scans.check_waiting()
        client.close()
        with pytest.raises(scans.CallStopped):
            scans.check_waiting()
    owner.close()
    assert owner.has_ended()


# ---- lines ----

ENDS = ["\n", "\r\n", "\r", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]


@pytest.mark.parametrize("is_regex", [False, True])
@pytest.mark.parametrize("n_bytes", [1, 40, 1 << 22])
def test_grep_finds_the_lines_that_python_splits(
    is_regex: bool, n_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browsed_paths, "BYTES_AT_A_TIME", n_bytes)
    texts = [("", f"tea{end}milk{end}{end}a TEA{end}") for end in ENDS]
    texts += [("tea\n\nx", "y\nTea"), (" \n", "tea"), ("milk", "tea\r\n"), ("a\nb\n", "tea\n\n\n")]
    texts += [("none", "neither"), ("tea", "\n \n"), ("no\ntea", "no\n")]
    expected = []
    with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
        for at, (given, told) in enumerate(texts):
            memory.remember(hr.memory.Episode(
                user_id="ann", id=f"m{at:02}", input=given, text=told,
                occurred_at=f"2026-01-01T00:00:{59 - at:02}Z",
            ))  # fmt: skip
            lines = [line for text in (given, told) if text.strip() for line in text.splitlines()]
            expected += [
                (f"/memories/episodic/m{at:02}.md", number, line)
                for number, line in enumerate(lines, 1)
                if "tea" in line.lower()
            ]
        pattern = "^.*te.$" if is_regex else "tea"
        found = memory.browse(user_id="ann").grep(pattern, regex=is_regex, limit=1_000)
        assert [(one.path, one.number, one.text) for one in found] == expected
        few = memory.browse(user_id="ann").grep(pattern, regex=is_regex, limit=3)
        assert few == found[:3]


@pytest.mark.plain_cases(1)
@pytest.mark.parametrize("pattern", ["a", "b"])
@pytest.mark.parametrize("is_regex", [False, True])
def test_grep_holds_a_page_of_texts_and_no_python_object_for_a_line(
    pattern: str, is_regex: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browsed_paths, "BYTES_AT_A_TIME", 100_000)
    with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
        memory.remember_batch(
            [hr.memory.Episode(user_id="ann", text="a\n" * 50_000) for _ in range(20)]
        )
        files = memory.browse(user_id="ann")
        files.grep("warm", regex=is_regex)
        tracemalloc.start()
        try:
            found = files.grep(pattern, regex=is_regex)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert len(found) == (50 if pattern == "a" else 0)
    assert peak < 2_500_000  # a text has 100 KB; a tuple for each line of one took 10 MB
