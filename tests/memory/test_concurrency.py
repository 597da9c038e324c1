"""H08: readers and writers at the same time see whole rows and states that only go forward."""

import os
import random
import threading
import time
from typing import Any

import pytest

from hyrecall import recipes
from hyrecall.errors import HyrecallError, OptionError
from hyrecall.memory import Episode, MemorySync
from memory.stores import episode, folder, open_store

SECONDS = float(os.environ.get("HYRECALL_STRESS_SECONDS", "2"))
READERS, WRITERS = 8, 2


class Pair:
    """Two memories that are written in one call with one number: a state shows both or neither."""

    @staticmethod
    def write(memory: MemorySync, writer: int, number: int) -> None:
        user = f"w{writer}"
        memory.remember_batch(
            [
                Episode(id=f"{side}{number}", user_id=user, text=f"pair n{number} {side}")
                for side in "ab"
            ]
        )
        if number % 5 == 0:
            memory.update(f"a{number}", user_id=user, text=f"pair n{number} a", tags=("t",))
        if number % 7 == 0 and number:
            memory.forget(f"a{number - 1}", user_id=user)
            memory.forget(f"b{number - 1}", user_id=user)


def check(memory: MemorySync, user: str, rng: random.Random, newest: dict[str, int]) -> None:
    matches = memory.search("pair", user_id=user, limit=80)
    assert not matches.degraded, matches.reasons
    for match in matches:
        side, number = match.episode.id[0], int(match.episode.id[1:])
        assert match.episode.text == f"pair n{number} {side}"
        assert match.episode.user_id == user
    listed = {one.id for one in memory.list(user_id=user, limit=10_000)}
    newest_seen = max((int(one[1:]) for one in listed), default=-1)
    assert newest_seen >= newest[user]
    newest[user] = newest_seen
    numbers = {one[1:] for one in listed}
    torn = [n for n in numbers if (f"a{n}" in listed) != (f"b{n}" in listed)]
    # A pair is forgotten by two calls, so that one of each writer may be half gone.
    assert len(torn) <= 1, torn


@pytest.mark.slow
def test_H08_eight_readers_and_two_writers() -> None:
    path = folder()
    stop = threading.Event()
    faults: list[BaseException] = []
    counts = {"reads": 0, "writes": 0}
    with (
        open_store(path, recipe=recipes.loom) as memory,
        open_store(path, read_only=True, recipe=recipes.loom) as other,
    ):

        def write(writer: int) -> None:
            number = 0
            while not stop.is_set():
                Pair.write(memory, writer, number)
                number += 1
                counts["writes"] += 1

        def read(reader: int) -> None:
            rng = random.Random(reader)
            newest = {f"w{writer}": -1 for writer in range(WRITERS)}
            face = other if reader % 2 else memory
            while not stop.is_set():
                check(face, f"w{rng.randrange(WRITERS)}", rng, newest)
                counts["reads"] += 1

        def guarded(work: Any, at: int) -> None:
            try:
                work(at)
            except BaseException as fault:
                faults.append(fault)
                stop.set()

        threads = [
            threading.Thread(target=guarded, args=(work, at))
            for work, n in ((write, WRITERS), (read, READERS))
            for at in range(n)
        ]
        for one in threads:
            one.start()
        stop.wait(SECONDS)
        stop.set()
        for one in threads:
            one.join(30)
        assert not any(one.is_alive() for one in threads)
        if faults:
            raise faults[0]
        print(f"H08: {READERS} readers, {WRITERS} writers, {SECONDS:g} s: {counts}, 0 torn")
        assert counts["reads"] > 20
        assert counts["writes"] > 5
        assert memory.doctor(full=True).ok
        followed = [(m.episode.id, m.score) for m in memory.search("pair", user_id="w0", limit=90)]
        store = memory._store
        store.follower.relayout(store.layout, model=store.guard.model, dim=store.dim)
        again = [(m.episode.id, m.score) for m in memory.search("pair", user_id="w0", limit=90)]
        assert followed == again


def test_closing_while_others_work_gives_answers_or_typed_errors() -> None:
    for seed in range(6):
        rng = random.Random(seed)
        memory = open_store()
        memory.remember_batch([episode(at) for at in range(20)])
        faults: list[BaseException] = []

        def work(memory: MemorySync = memory, faults: list[BaseException] = faults) -> None:
            for at in range(60):
                try:
                    memory.search("note", user_id="alice")
                    memory.remember(f"note {at}", user_id="alice")
                except HyrecallError:
                    return
                except BaseException as fault:
                    faults.append(fault)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for one in threads:
            one.start()
        time.sleep(rng.random() * 0.05)
        memory.close()
        for one in threads:
            one.join(30)
        assert faults == []
        assert not any(one.is_alive() for one in threads)
        with pytest.raises(OptionError, match="an open store"):
            memory.search("note", user_id="alice")
        with pytest.raises(OptionError, match="an open store"):
            memory.remember("note", user_id="alice")
        memory.close()


def test_a_cancelled_call_reaches_nobody() -> None:
    import asyncio

    from hyrecall.memory import Memory

    async def run() -> None:
        async with Memory.open(folder(), embedder=None) as memory:
            for user in ("alice", "bob"):
                await memory.remember(f"note of {user}", user_id=user)
            for _ in range(20):
                left = asyncio.create_task(memory.search("note", user_id="alice"))
                await asyncio.sleep(0)
                left.cancel()
                right = await memory.search("note", user_id="bob")
                assert [match.episode.user_id for match in right] == ["bob"]
            with pytest.raises(OptionError):
                await memory.search("note", user_id="alice", limit=-1)
        with pytest.raises(OptionError):
            await memory.search("note", user_id="alice")

    asyncio.run(run())
