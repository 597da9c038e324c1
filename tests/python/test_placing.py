"""An index on a CUDA device replies as one on the CPU, whatever becomes of it and whoever asks."""

import gc
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from emulated import Emulator
from hyrecall import _core
from laws.engine import ipc_bytes
from seams import HostRates, cuda_library_folder, device_placement, ordinal_of

# ---- the same replies ----

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


# ---- rows of many vectors ----


def late_rows(seed: int, n: int) -> dict[str, Any]:
    """Arguments of build or upsert: rows of a text, a vector, and none to eight other vectors."""
    rng = np.random.default_rng([seed, n])
    tokens = [rng.normal(size=(count, 24)).astype(np.float32) for count in rng.integers(0, 9, n)]
    columns = {
        "id": np.arange(n),
        "user": [USERS[i % 3] for i in range(n)],
        "text": [" ".join(row) for row in WORDS[rng.integers(0, len(WORDS), (n, 3))]],
    }
    whole = rng.normal(size=(n, 8)).astype(np.float32)
    return {"table": pa.table(columns), "vectors": {"tokens": tokens, "whole": whole}}


def late_index(device: str, n: int) -> hr.Index:
    vector = (hr.MaxSim("tokens"), "whole")
    schema = hr.Schema(key="id", cell="user", text="text", vector=vector)
    given = late_rows(1, n)
    return hr.Index.build(given["table"], schema, vectors=given["vectors"], device=device)


def late_queries(n: int) -> list[np.ndarray]:
    rng = np.random.default_rng(7)
    return [rng.normal(size=(count, 24)).astype(np.float32) for count in rng.integers(1, 9, n)]


def late_life(device: str, folder: Path) -> Iterator[hr.Index]:
    index = late_index(device, 400)
    yield index
    index.upsert(**late_rows(2, 150))
    index.delete(list(range(0, 400, 5)), scope=EVERYONE)
    yield index
    index.save(folder / device)
    yield hr.Index.open(folder / device, device=device)
    index.compact()
    yield index
    index.delete(list(range(400)), scope=EVERYONE)
    index.compact()
    yield index


def test_rows_of_many_vectors_show_the_cpus_bytes(cuda: str, tmp_path: Path) -> None:
    tokens = late_queries(4)
    both = {"tokens": [*tokens[:3], None], "whole": np.eye(8, dtype=np.float32)[:4]}
    call = {"text": ["tea", "milk", "cup pot", "hot"], "scope": EVERYONE, "limit": 30}
    asked: list[dict[str, Any]] = [
        {"vectors": {"tokens": tokens}, "scope": EVERYONE, "limit": 300},
        {"vectors": {"tokens": tokens}, "scope": "bob", "min_score": hr.Above(1.0)},
        call | {"vectors": both, "fusion": hr.WeightedSum(), "depth": 60},
        call | {"vectors": both, "fusion": hr.RRF(), "shaping": hr.MMR(0.5, vector="whole")},
        call
        | {"vectors": both, "fusion": hr.RRF(weights={"tokens": 0})}
        | {"shaping": hr.Rerank(window=40, vector="tokens")},
    ]
    pairs = zip(late_life(cuda, tmp_path), late_life("cpu", tmp_path), strict=True)
    for moment, (mine, other) in enumerate(pairs):
        assert (mine.device, other.device) == (cuda, "cpu")
        for number, one in enumerate(asked):
            found = [index.recall(**one).to_arrow() for index in (mine, other)]
            assert ipc_bytes(found[0]) == ipc_bytes(found[1]), f"call {number}, moment {moment}"
            assert (len(found[0]) > 0) == (moment < 4)


def test_a_batch_of_many_vectors_that_does_not_fit_runs_in_parts(emulated: Emulator) -> None:
    index = late_index("cuda:0", 90)
    call = {"vectors": {"tokens": late_queries(55)}, "scope": EVERYONE, "limit": 20}
    large = {"tokens": [np.ones((400, 24), np.float32)] * 1_000}
    with emulated.memory(1), pytest.raises(hr.DeviceMemoryError):
        index.recall(vectors=large, scope=EVERYONE)  # idle searches give way
    held, replies, launches = emulated.allocated_bytes(), set(), []
    for kilobytes in (40, 160, 4000):
        before = emulated.n_launches()
        with emulated.memory(held + 1024 * kilobytes):
            replies.add(ipc_bytes(index.recall(**call).to_arrow()))
        launches.append(emulated.n_launches() - before)
    assert len(replies) == 1
    assert launches[0] > launches[1] > launches[2]


# ---- HYRECALL_CUDA_KERNELS leaves out scanning kernels by name ----

VARIABLE = "HYRECALL_CUDA_KERNELS"
N_ROWS, DIM = 130, 70  # a tile and a little, in two chunks of 16-bit rows


def scans(device: str) -> list[str]:
    return _core.device.scans(cuda_library_folder(), ordinal_of(device))


def reply(device: str, dtype: str, n_queries: int) -> pa.Table:
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((N_ROWS, DIM)).astype(getattr(ml_dtypes, dtype, dtype))
    queries = rng.standard_normal((n_queries, DIM)).astype(np.float32)
    schema = hr.Schema(key="id", cell=None, vector="v")
    table = pa.table({"id": np.arange(N_ROWS)})
    with hr.Index.build(table, schema, vectors={"v": rows}, device=device) as index:
        return index.recall(vectors=queries, limit=5).to_arrow()


def test_a_kernel_that_is_named_is_left_out(cuda: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    found = scans(cuda)
    assert {"int8:32:generic", "bfloat16:32:generic"} <= set(found)
    monkeypatch.setenv(VARIABLE, "-bfloat16:32:generic")
    assert set(found) - set(scans(cuda)) == {"bfloat16:32:generic"}


def test_any_kernel_alone_gives_the_cpus_bits(cuda: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    found = scans(cuda)
    monkeypatch.setenv("HYRECALL_FRONT_PLANE", "rows")
    for name in found:
        plane, width, _ = name.split(":")
        if int(width) > 64:
            continue  # as long again, and the laws take them
        dtype = "float32" if plane == "int8" else plane
        monkeypatch.delenv(VARIABLE, raising=False)
        expected = reply("cpu", dtype, int(width) + 1)
        monkeypatch.setenv(VARIABLE, ",".join(f"-{other}" for other in found if other != name))
        assert reply(cuda, dtype, int(width) + 1).equals(expected), name


def test_rows_are_read_where_no_kernel_for_their_int8_plane_is_left(
    cuda: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    expected = reply("cpu", "bfloat16", 3)
    without = ",".join(f"-{name}" for name in scans(cuda) if name.startswith("int8:"))
    monkeypatch.setenv(VARIABLE, without)
    assert reply(cuda, "bfloat16", 3).equals(expected)


@pytest.mark.parametrize("front_plane", ["", "int8", "rows"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_rows_of_float32_and_float16_are_read_by_their_int8_plane_alone(
    cuda: str, dtype: str, front_plane: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("HYRECALL_FRONT_PLANE", front_plane)
    expected = reply("cpu", dtype, 3)
    by_plane = {
        plane: ",".join(f"-{name}" for name in scans(cuda) if name.startswith(f"{plane}:"))
        for plane in ("int8", "bfloat16")
    }
    monkeypatch.setenv(VARIABLE, by_plane["bfloat16"])
    assert reply(cuda, dtype, 3).equals(expected)
    monkeypatch.setenv(VARIABLE, by_plane["int8"])
    with pytest.raises(hr.OptionError) as caught:
        reply(cuda, dtype, 3)
    assert str(caught.value) == (
        f"{VARIABLE}: expected at least one kernel for int8, got a value that excludes all of them"
    )


@pytest.mark.parametrize(
    "value", ["-int8:8", "int8:8:generic", "-int8:9:generic", "generic,-", "-x"]
)
@pytest.mark.usefixtures("cuda")
def test_a_kernel_of_no_such_name_is_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, value)
    with pytest.raises(hr.OptionError, match=f"^{VARIABLE}: expected generic, -PLANE:WIDTH:ARCH"):
        scans("cuda:0")


# ---- postings on a device: which bytes they take, and which searches run there ----

SCHEMA = hr.Schema(key="id", cell="user", text=("title", "body"), vector="near")

AS_ON_THE_HOST = (
    "doc_lengths",
    "posting_offsets",
    "run_offsets",
    "runs",
    "escape_offsets",
    "escapes",
)


def postings_rows(first: int, n: int) -> pa.Table:
    """Documents whose bodies are short, or (every fifth) long enough for an escape."""
    ids = range(first, first + n)
    return pa.table(
        {
            "id": list(ids),
            "user": ["ana" if i % 3 else "bob" for i in ids],
            "title": [f"number {i % 7}" for i in ids],
            "body": [None if i % 11 == 0 else f"tea {i} " * (20 if i % 5 == 0 else 2) for i in ids],
            "near": pa.array([[float(i), 1.0] for i in ids], pa.list_(pa.float32(), 2)),
        }
    )


def postings_bytes(index: hr.Index) -> int:
    """What the lexical columns take on a device: four bytes a posting, the rest as on the host."""
    total = 0
    for segment in index._state.segments:
        for column in segment.lexical.values():
            parts = column.parts()
            total += (column.n_postings + 3) // 4 * 16
            total += sum(parts[name].nbytes for name in AS_ON_THE_HOST)
    return total


def check(index: hr.Index) -> int:
    """Check the bytes of an index on the device, and return them."""
    snapshot = index._state.snapshot
    bare = snapshot.placed(cuda_library_folder(), 0, None, [], postings=False)
    assert snapshot.device_bytes == bare.device_bytes + postings_bytes(index)
    assert snapshot.device_bytes == index.stats()["device_bytes"]
    return snapshot.device_bytes


def test_usage_tells_the_bytes_of_postings_through_the_life_of_an_index(
    cuda: str, tmp_path: Path
) -> None:
    index = hr.Index.build(postings_rows(0, 300), SCHEMA, device=cuda)
    assert postings_bytes(index) > 4 * 300
    first = check(index)
    index.add(postings_rows(300, 40))
    second = check(index)
    assert second > first
    index.delete(list(range(60)), scope=hr.Scope(["ana", "bob"]))
    assert check(index) == second  # dead rows stay
    index.compact()
    compacted = check(index)
    assert compacted < second
    index.save(tmp_path / "saved")
    for memory in ("mmap", "ram"):
        with hr.Index.open(tmp_path / "saved", device=cuda, memory=memory) as again:
            assert check(again) == compacted


def test_a_change_uploads_the_postings_of_new_segments_only(emulated: Emulator) -> None:
    index = hr.Index.build(postings_rows(0, 300), SCHEMA, device="cuda:0")
    first = index.stats()["device_bytes"]
    before = emulated.allocated_bytes()
    index.add(postings_rows(300, 40))
    grown = emulated.allocated_bytes() - before
    # views and tables beside them
    assert grown < index.stats()["device_bytes"] - first + 4096


def text_only() -> hr.Schema:
    return hr.Schema(key="id", cell="user", text="body")


def test_an_index_of_texts_alone_is_on_the_device_that_is_named(emulated: Emulator) -> None:
    on_device = hr.Index.build(postings_rows(0, 300), text_only(), device="cuda:0")
    on_host = hr.Index.build(postings_rows(0, 300), text_only(), device="cpu")
    assert on_device.stats()["device_bytes"] == check(on_device) > 4 * 300
    assert hr.Index.build(postings_rows(0, 300), text_only(), device="auto").device == "cpu"
    built = emulated.n_launches()
    call = {"text": ["tea", "12 tea", None], "scope": ["ana", "bob", "ana"], "limit": 20}
    assert ipc_bytes(on_device.recall(**call).to_arrow()) == ipc_bytes(
        on_host.recall(**call).to_arrow()
    )
    assert emulated.n_launches() > built


def test_a_tree_of_more_terms_than_a_device_keeps_runs_on_the_cpu_and_the_trace_says_so(
    emulated: Emulator,
) -> None:
    words = [str(i) for i in range(33)]
    tree = hr.Any(*words, hr.All("tea", "7"))
    small = hr.Any(*words[:20], hr.All("tea", "7"))
    replies = {}
    for device in ("cuda:0", "cpu"):
        index = hr.Index.build(postings_rows(0, 300), text_only(), device=device)
        texts = [small, tree, "tea", hr.Any("tea", hr.Not("7")), hr.Fuzzy("tae")]
        replies[device] = index.recall(text=texts, scope="ana", limit=50)
    on_device, on_host = replies["cuda:0"], replies["cpu"]
    assert ipc_bytes(on_device.to_arrow()) == ipc_bytes(on_host.to_arrow())
    assert len(on_device[1]) > 10
    note, of_not = on_device.trace.notes
    assert note.startswith("body[1] has more than 32 terms in a tree")
    assert of_not == "body[3] has hr.Not: searched on the CPU"
    assert on_host.trace.notes == ()
    assert on_device.trace.of_query(0).notes == ()
    assert on_device.trace.of_query(1).notes == (note.replace("[1]", ""),)


# ---- where an index that chose its device searches a batch of texts ----

TEXTS_SCHEMA = hr.Schema(key="id", cell=None, text="text", vector="v")
LIMIT = "HYRECALL_AUTO_POSTINGS"
TREE = hr.Any(hr.All(*[f"w{i}" for i in range(33)]), "tea")
ASKED: dict[str, Any] = {"text": ["tea", "hot milk", None, "cup jug", TREE, hr.Prefix("m")]}


def texts_built(device: str, n: int = 5000) -> hr.Index:
    rng = np.random.default_rng(7)
    texts = [" ".join(row) for row in WORDS[rng.integers(0, len(WORDS), (n, 3))]]
    table = pa.table({"id": np.arange(n), "text": texts})
    vectors = {"v": rng.standard_normal((n, 4)).astype(np.float32)}
    return hr.Index.build(table, TEXTS_SCHEMA, vectors=vectors, device=device)


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """No index is too small for "auto"."""
    monkeypatch.setattr(device_placement, "AUTO_BYTES", 1)


def launches(emulated: Emulator, run: Callable[[], object]) -> int:
    before = emulated.n_launches()
    run()
    return emulated.n_launches() - before


@pytest.mark.usefixtures("eager")
def test_a_limit_sends_texts_to_the_cpu_or_to_the_device_with_the_same_bytes(
    emulated: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, model = texts_built("auto"), texts_built("cpu")
    assert index.device == "cuda:0"
    expected = model.recall(**ASKED)
    told = {}
    for limit, is_launched in (("0", True), ("1000000000", False), ("2048", True)):
        monkeypatch.setenv(LIMIT, limit)
        found: list[hr.Hits] = []
        n = launches(emulated, lambda: found.append(index.recall(**ASKED)))  # noqa: B023
        assert (n > 0) == is_launched, limit
        assert ipc_bytes(found[0].to_arrow()) == ipc_bytes(expected.to_arrow())
        told[limit] = (found[0].trace.device, found[0].trace.notes, found[0].trace.about)
    assert set(map(str, told.values())) == {str(told["0"])}  # the trace does not tell
    assert told["0"][1] == (
        "text[4] has more than 32 terms in a tree of All and Any: searched on the CPU",
    )


@pytest.mark.usefixtures("eager")
def test_only_a_batch_of_texts_alone_leaves_the_device(
    emulated: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = texts_built("auto")
    monkeypatch.setenv(LIMIT, "1000000000")
    vectors = np.ones((6, 4), np.float32)
    assert launches(emulated, lambda: index.recall(vectors=vectors)) > 0
    assert launches(emulated, lambda: index.recall(**ASKED, vectors=vectors)) > 0
    assert launches(emulated, lambda: index.recall(**ASKED)) == 0


def test_a_named_device_searches_whatever_the_limit_says(
    emulated: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = texts_built("cuda:0")
    assert index.stats()["host_rates"] is None
    monkeypatch.setenv(LIMIT, "1000000000")
    assert launches(emulated, lambda: index.recall(**ASKED)) > 0


@pytest.mark.usefixtures("eager")
def test_stats_tell_the_rates_that_were_measured_and_they_decide(
    emulated: Emulator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    index = texts_built("auto")
    rates = index.stats()["host_rates"]
    assert rates["launch_ms"] > 0
    assert rates["postings_per_second"] > 0
    assert rates["most_postings"] == int(rates["launch_ms"] / 1e3 * rates["postings_per_second"])
    assert texts_built("cpu").stats()["host_rates"] is None
    measure = partial(HostRates, postings_per_second=1e9)
    index.save(tmp_path / "index")
    for launch_seconds, is_launched in ((1.0, False), (1e-9, True)):
        monkeypatch.setattr(
            device_placement,
            "measure_rates",
            lambda device, threads: measure(launch_seconds),  # noqa: B023
        )
        for opened in (texts_built("auto"), hr.Index.open(tmp_path / "index")):
            assert opened.device == "cuda:0"
            assert (launches(emulated, lambda: opened.recall(**ASKED)) > 0) == is_launched  # noqa: B023
            opened.add(
                pa.table({"id": [9000], "text": ["tea"]}),
                vectors={"v": np.ones((1, 4), np.float32)},
            )
            assert (launches(emulated, lambda: opened.recall(**ASKED)) > 0) == is_launched  # noqa: B023


def test_rates_are_measured_on_the_device_and_leave_nothing_there(emulated: Emulator) -> None:
    held = device_placement.measure_rates("cuda:0", 1)  # what an idle search keeps is taken once
    before = emulated.allocated_bytes()
    n = emulated.n_launches()
    again = device_placement.measure_rates("cuda:0", 1)
    assert emulated.n_launches() > n
    assert emulated.allocated_bytes() == before
    assert again.launch_seconds > 0
    assert held.postings_per_second > 0
