"""An index on a CUDA device replies as one on the CPU, whatever becomes of it and whoever asks."""

import gc
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from emulated import Emulator
from laws.engine import ipc_bytes

NOW = datetime(2026, 6, 1, tzinfo=UTC)
USERS = ("ana", "bob", "eve")
EVERYONE = hr.Scope([*USERS, None])
WORDS = np.array(["tea", "milk", "cup", "pot", "jug", "hot"])
DIMS = {"near": 24, "far": 40}
DTYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def schema() -> hr.Schema:
    return hr.Schema(
        key="id",
        cell="user",
        text="text",
        vector=tuple(DIMS),
        attributes=("n", "at", "tags"),
        cluster="n",
    )


def rows(first: int, n: int, types: tuple[str, str] = ("float32", "bfloat16")) -> dict[str, Any]:
    """Arguments of build, add or upsert: documents with ties, clones, and rows without vector."""
    rng = np.random.default_rng([first, n])
    picks = rng.integers(0, len(USERS) + 1, n)
    tags = [["red", "blue", "green"][: int(k)] for k in rng.integers(0, 4, n)]
    table = pa.table(
        {
            "id": np.arange(first, first + n),
            "user": pa.array([[*USERS, None][i] for i in picks], pa.string()),
            "text": [" ".join(row) for row in WORDS[rng.integers(0, len(WORDS), (n, 5))]],
            "n": pa.array(rng.integers(0, 10, n), mask=rng.random(n) < 0.1),
            "at": [NOW - timedelta(hours=int(h)) for h in rng.integers(0, 5000, n)],
            "tags": pa.array(tags, pa.list_(pa.string())),
        }
    )
    vectors = {}
    for (arm, dim), dtype in zip(DIMS.items(), types, strict=True):
        made = rng.standard_normal((n, dim)).astype(np.float32)
        made[rng.random(n) < 0.1] = 0
        made[n // 2 : n // 2 + 20] = made[0]  # a tie
        vectors[arm] = made.astype(DTYPES[dtype])
    return {"table": table, "vectors": vectors}


def built(device: str, n: int = 330, types: tuple[str, str] = ("float32", "bfloat16")) -> hr.Index:
    given = rows(0, n, types)
    return hr.Index.build(given["table"], schema(), vectors=given["vectors"], device=device)


def queries(n: int, seed: int = 1) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {a: rng.standard_normal((n, dim)).astype(np.float32) for a, dim in DIMS.items()}


def calls() -> Iterator[dict[str, Any]]:
    """Batches of all kinds: arms alone and together, filters, floors, depths, shaping."""
    n = 9
    vectors = queries(n)
    texts = ["tea", "hot milk", None, "pot cup", hr.Prefix("j"), "tea tea", "cup", None, "jug"]
    scopes = [
        *USERS,
        hr.Scope([None]),
        EVERYONE,
        hr.Scope(["ana", "eve"]),
        hr.Scope([]),
        EVERYONE,
        "nobody",
    ]
    recent = hr.Filter(at=(NOW - timedelta(hours=2000), None))
    filters = [
        None,
        hr.Filter(n=(2, 7)),
        recent,
        ~hr.Filter(n=[1, 2, 3]),
        hr.Filter(tags=hr.AllOf("red", "blue")),
        hr.Filter(n=hr.IsNull()) | recent,
        None,
        hr.Filter(n=99),
        recent,
    ]
    yield {"vectors": {"near": vectors["near"]}, "scope": EVERYONE, "limit": 500}
    yield {"vectors": {"far": vectors["far"]}, "scope": scopes, "filter": filters, "limit": 7}
    gaps = [None if i % 4 == 1 else row for i, row in enumerate(vectors["near"])]
    yield {
        "vectors": {"near": gaps},
        "scope": scopes,
        "min_score": hr.Above(0.1),
        "limit": 20,
        "offset": 3,
    }
    yield {
        "text": texts,
        "vectors": vectors,
        "scope": scopes,
        "filter": filters,
        "limit": 15,
        "depth": 30,
        "columns": ("n", "tags"),
    }
    yield {
        "text": texts,
        "vectors": vectors,
        "scope": EVERYONE,
        "fusion": hr.WeightedSum({"far": 2.0}),
        "limit": 12,
        "depth": 50,
        "now": NOW,
        "shaping": [
            hr.Dedup(0.9, vector="near"),
            hr.Recency("at", half_life="30d"),
            hr.MMR(0.7, vector="near"),
        ],
    }


def replies(index: hr.Index) -> list[bytes]:
    return [ipc_bytes(index.recall(**asked).to_arrow()) for asked in calls()]


def live(device: str, types: tuple[str, str], folder: Path) -> Iterator[tuple[str, hr.Index]]:
    """An index through all that may become of it, the same on any device."""
    index = built(device, types=types)
    yield "built", index
    index.add(**rows(330, 140, types))
    yield "added to", index
    index.upsert(**rows(300, 60, types))
    yield "upserted", index
    index.delete(list(range(0, 470, 3)), scope=EVERYONE)
    yield "deleted from", index
    index.save(folder / device)
    yield "opened", hr.Index.open(folder / device, device=device)
    index.compact()
    yield "compacted", index
    index.delete(list(range(470)), scope=EVERYONE)
    index.compact()
    yield "emptied", index
    index.add(**rows(500, 20, types))
    yield "filled again", index


@pytest.mark.parametrize(
    ("types", "plane"),
    [
        (("float32", "bfloat16"), None),  # as the device chooses
        (("float16", "float32"), "rows"),
        (("bfloat16", "float16"), "rows"),
    ],
    ids=str,
)
def test_a_life_on_a_device_shows_the_cpus_bytes(
    cuda: str,
    types: tuple[str, str],
    plane: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if plane is not None:
        monkeypatch.setenv("HYRECALL_FRONT_PLANE", plane)
    pairs = zip(live(cuda, types, tmp_path), live("cpu", types, tmp_path), strict=True)
    for (moment, mine), (_, expected) in pairs:
        assert mine.device == cuda
        assert repr(mine).endswith(f"on {cuda}>")
        assert mine.stats()["device"] == cuda
        assert (mine.stats()["device_bytes"] > 1000) == (len(mine) > 0), moment
        assert expected.stats()["device_bytes"] == 0
        for number, pair in enumerate(zip(replies(mine), replies(expected), strict=True)):
            assert pair[0] == pair[1], f"call {number}, once {moment}"


def test_the_calls_find_something_by_every_arm() -> None:
    index = built("cpu")
    found = [index.recall(**asked).to_arrow() for asked in calls()]
    assert [len(hits) > 20 for hits in found] == [True] * len(found)
    assert len({bytes(ipc_bytes(hits)) for hits in found}) == len(found)


# ---- what is held ----


def test_device_bytes_fall_when_rows_are_compacted_away(cuda: str) -> None:
    index = built(cuda)
    whole = index.stats()["device_bytes"]
    index.delete(list(range(0, 330, 30)), scope=EVERYONE)
    assert index.stats()["device_bytes"] == whole  # dead rows stay with their segment
    index.delete(list(range(0, 330, 2)), scope=EVERYONE)
    index.compact()
    assert 0 < index.stats()["device_bytes"] < 0.7 * whole
    fresh = hr.Index.build(
        rows(0, 330)["table"].take(pa.array(range(1, 330, 2))),
        schema(),
        vectors={arm: given[1::2] for arm, given in rows(0, 330)["vectors"].items()},
        device=cuda,
    )
    assert index.stats()["device_bytes"] == fresh.stats()["device_bytes"]


def test_memory_comes_back_with_the_last_reader(emulated: Emulator) -> None:
    asked = {"vectors": queries(3), "scope": EVERYONE}
    built("cuda:0").recall(**asked)  # what an idle search keeps is taken once
    gc.collect()
    nothing = emulated.allocated_bytes()
    index = built("cuda:0")
    whole = emulated.allocated_bytes() - nothing
    assert whole >= index.stats()["device_bytes"]
    hits = index.recall(**asked)
    shown = ipc_bytes(hits.to_arrow())
    index.delete(list(range(0, 330, 2)), scope=EVERYONE)
    index.compact()
    assert emulated.allocated_bytes() - nothing > 1.3 * whole  # the hits keep theirs
    assert ipc_bytes(hits.to_arrow()) == shown
    del hits
    gc.collect()
    assert emulated.allocated_bytes() - nothing < 0.7 * whole
    index.close()
    gc.collect()
    assert emulated.allocated_bytes() == nothing


def test_an_add_uploads_its_own_rows_alone(emulated: Emulator) -> None:
    index = built("cuda:0", n=2000)
    with emulated.memory(emulated.allocated_bytes() + index.stats()["device_bytes"] // 4):
        index.add(**rows(5000, 20))
        index.delete([5003], scope=EVERYONE)
    assert len(index) == 2000 + 20 - 1


# ---- many at once ----


def test_sixteen_threads_get_what_one_gets(cuda: str) -> None:
    index = built(cuda)
    batches = [
        {"vectors": queries(8, seed), "scope": EVERYONE, "limit": 20, "filter": hr.Filter(n=(0, 8))}
        for seed in range(16)
    ]

    def reply(asked: dict[str, Any]) -> bytes:
        return ipc_bytes(index.recall(**asked).to_arrow())

    alone = [reply(asked) for asked in batches]
    assert len(set(alone)) == len(batches)
    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(reply, batches)) == alone


def change(index: hr.Index, step: int) -> None:
    """The next of many changes, each of which the replies show."""
    if step % 4 == 3:
        index.compact()  # which they do not
    elif step % 4 == 2:
        index.delete(list(range(step, 330, 7)), scope=EVERYONE)
    else:
        index.upsert(**rows(50 * step, 40))


def test_readers_beside_a_writer_see_one_version_each(cuda: str) -> None:
    n_steps = 12
    asked = {"vectors": {"near": queries(4)["near"]}, "scope": EVERYONE, "limit": 400}
    version_of: dict[bytes, int] = {}
    model = built("cpu")
    for step in range(n_steps + 1):
        version_of.setdefault(ipc_bytes(model.recall(**asked).to_arrow()), step)
        change(model, step)
    index, is_over = built(cuda), threading.Event()

    def read() -> list[int]:
        seen = []
        while not is_over.is_set():
            seen.append(version_of.get(ipc_bytes(index.recall(**asked).to_arrow()), -1))
        return seen

    with ThreadPoolExecutor(3) as pool:
        readers = [pool.submit(read) for _ in range(3)]
        try:
            for step in range(n_steps):
                change(index, step)
        finally:
            is_over.set()
        for reader in readers:
            seen = reader.result()
            assert -1 not in seen
            assert seen == sorted(seen)
    assert ipc_bytes(index.recall(**asked).to_arrow()) == max(
        version_of, key=version_of.__getitem__
    )
