"""Filters of a built index do not follow arrays that its caller writes to later."""

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr

N = 2_000
WANTED = hr.Filter(at=(0, 4))


def table_of(at: np.ndarray, first: int) -> pa.Table:
    times = at.view("datetime64[us]") if at.dtype.kind == "i" else at
    keys = np.arange(first, first + len(at))
    return pa.table({"id": keys, "user": ["ann"] * len(at), "at": at, "time": pa.array(times)})


def found(index: hr.Index, vector: np.ndarray) -> list[list[object]]:
    times = hr.Filter(time=(np.datetime64(0, "us"), np.datetime64(4, "us")))
    return [
        sorted(index.recall(vectors=vector, scope="ann", filter=one, limit=20)[0].keys)
        for one in (WANTED, times)
    ]


@pytest.mark.parametrize("is_added", [False, True], ids=["build", "add"])
def test_a_filter_does_not_follow_an_array_that_is_written_to_later(is_added: bool) -> None:
    schema = hr.Schema(key="id", cell="user", vector="v", attributes=("at", "time"), stored=())
    rng = np.random.default_rng(1)
    vectors = rng.standard_normal((2 * N, 8)).astype(np.float32)
    before, at = np.arange(N) + 100, np.arange(N)
    if is_added:
        index = hr.Index.build(table_of(before, N), schema, vectors={"v": vectors[N:]})
        index.add(table_of(at, 0), vectors={"v": vectors[:N]})
    else:
        index = hr.Index.build(table_of(at, 0), schema, vectors={"v": vectors[:N]})
    at[:] = 7  # before and after the first filter, which makes zone maps
    assert found(index, vectors[:1]) == [[0, 1, 2, 3, 4]] * 2
    at[:] = 9
    assert found(index, vectors[:1]) == [[0, 1, 2, 3, 4]] * 2
