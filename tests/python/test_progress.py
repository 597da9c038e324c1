"""What a build tells of its progress, and that ending it there loses nothing."""

import threading
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr

ROWS = 5000  # several batches of the builder
SCHEMA = hr.Schema(key="id", cell="user", text={"a": "text", "b": "note"}, vector="v")


class StoppedError(Exception):
    """What a caller raises to end a build."""


def rows(n: int, first: int = 0) -> pa.Table:
    number = np.arange(first, first + n)
    return pa.table(
        {
            "id": number,
            "user": number % 3,
            "text": [f"tea w{i % 97} w{i % 89}" for i in number],
            "note": [f"n{i % 7}" for i in number],
        }
    )


def vectors(n: int) -> dict[str, np.ndarray]:
    return {"v": np.ones((n, 4), np.float32)}


def stop_at(done: int) -> Callable[[int, int], None]:
    def tell(reached: int, total: int) -> None:
        assert reached <= total
        if reached >= done:
            raise StoppedError

    return tell


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_progress_rises_from_row_to_row_and_ends_at_the_total(threads: int) -> None:
    told: list[tuple[int, int, int]] = []

    def tell(done: int, total: int) -> None:
        told.append((done, total, threading.get_ident()))

    hr.Index.build(rows(ROWS), SCHEMA, vectors=vectors(ROWS), threads=threads, progress=tell)
    done = [one[0] for one in told]
    assert done == sorted(done)
    assert {one[1:] for one in told} == {(3 * ROWS, threading.get_ident())}
    assert {ROWS, 2 * ROWS, 3 * ROWS} <= set(done), "an arm did not tell that it is done"
    assert done[-1] == 3 * ROWS


def test_one_thread_tells_of_every_batch() -> None:
    told: list[int] = []
    hr.Index.build(
        rows(ROWS),
        SCHEMA,
        vectors=vectors(ROWS),
        threads=1,
        progress=lambda done, _: told.append(done),
    )
    assert [done for done in told if done <= ROWS] == [1024, 2048, 3072, 4096, ROWS]


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("at", [1, ROWS, ROWS + 1, 3 * ROWS])
def test_what_progress_raises_ends_the_build(threads: int, at: int) -> None:
    with pytest.raises(StoppedError):
        hr.Index.build(
            rows(ROWS), SCHEMA, vectors=vectors(ROWS), threads=threads, progress=stop_at(at)
        )


@pytest.mark.parametrize("change", ["add", "upsert"])
def test_an_add_that_is_ended_leaves_the_index_as_it_was(change: str) -> None:
    index = hr.Index.build(rows(10), SCHEMA, vectors=vectors(10), threads=2)

    def reply() -> object:
        hits = index.recall_one(text="tea w1", scope=1, limit=10)
        return [(hit.key, hit.score) for hit in hits]

    before = reply()
    with pytest.raises(StoppedError):
        getattr(index, change)(rows(ROWS, 5000), vectors=vectors(ROWS), progress=stop_at(ROWS))
    assert len(index) == 10
    assert reply() == before
    told: list[tuple[int, int]] = []
    getattr(index, change)(
        rows(ROWS, 5000), vectors=vectors(ROWS), progress=lambda *at: told.append(at)
    )
    assert len(index) == 10 + ROWS
    assert told[-1] == (3 * ROWS, 3 * ROWS)
