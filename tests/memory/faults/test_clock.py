"""A clock that jumps changes no order of versions, no state of the index and no age below none."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from hyrecall import recipes
from hyrecall.memory import MemorySync
from memory.stores import HOUR, NOON, Clock, episode, folder, open_store

START = datetime(1970, 1, 1, tzinfo=UTC)
JUMPS = (NOON, NOON - HOUR, START, NOON + 900 * HOUR, NOON - timedelta(milliseconds=3), START)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def memory(clock: Clock) -> Iterator[MemorySync]:
    with open_store(clock=clock) as made:
        yield made


def test_versions_keep_their_order(memory: MemorySync, clock: Clock) -> None:
    memory.remember(episode(0, "text 0"))
    for step, time in enumerate(JUMPS, 1):
        clock.now = time
        memory.update("e0", user_id="alice", text=f"text {step}")
        found = memory.search("text", user_id="alice")
        assert [match.episode.text for match in found] == [f"text {step}"]
        assert memory.list(user_id="alice")[0].text == f"text {step}"
    versions = memory.history("e0", user_id="alice")
    assert [one.episode.text for one in versions if one.episode] == [
        f"text {step}" for step in range(len(JUMPS) + 1)
    ]
    recorded = [one.recorded_at for one in versions]
    assert recorded[1:] == list(JUMPS)
    assert recorded != sorted(recorded)  # the control: by this order the wrong one would count
    print(f"clock: {len(JUMPS)} jumps, {len(versions)} versions in their order")


def test_what_is_written_before_now_is_followed(clock: Clock) -> None:
    path = folder()
    with open_store(path, clock=clock) as writer, open_store(path, read_only=True) as reader:
        for at, time in enumerate(JUMPS):
            clock.now = time
            writer.remember(episode(at, "note"))
            for memory in (writer, reader):
                found = {m.episode.id for m in memory.search("note", user_id="alice")}
                assert found == {f"e{n}" for n in range(at + 1)}
        print(f"clock: {len(JUMPS)} jumps, a reader followed each")
        writer.forget("e0", user_id="alice")
        assert "e0" not in {m.episode.id for m in reader.search("note", user_id="alice")}


def test_the_index_that_followed_is_the_one_that_is_built(memory: MemorySync, clock: Clock) -> None:
    for at, time in enumerate(JUMPS * 3):
        clock.now = time
        memory.remember(episode(at, f"note {'oak ' * (at % 4)}", occurred_at=time))
        if at % 4 == 3:
            memory.forget(f"e{at - 2}", user_id="alice")

    def show() -> list[tuple[str, float]]:
        found = memory.search("note oak", user_id="alice", limit=40, now=NOON)
        return [(match.episode.id, match.score) for match in found]

    followed, store = show(), memory._store
    store.follower.relayout(store.layout, model=store.guard.model, dim=store.dim)
    assert show() == followed
    print(f"clock: {len(JUMPS) * 3} rows at jumping times, index as anew, {len(followed)} found")


def test_ages_are_never_below_none(clock: Clock) -> None:
    with open_store(recipe=recipes.hebb, embedder=None, clock=clock) as memory:
        memory.remember(episode(0, "note", occurred_at=NOON + 500 * HOUR))
        memory.remember(episode(1, "note", occurred_at=NOON))
        scores = {m.episode.id: m.score for m in memory.search("note", user_id="alice")}
        assert scores["e0"] == scores["e1"] <= 1.0
        clock.now = START
        again = {m.episode.id: m.score for m in memory.search("note", user_id="alice")}
        assert again == scores
