"""Which shards a recall asks, what a lost one costs, and which wrong folders are refused."""

from __future__ import annotations

import json
import random
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash

import hyrecall as hr
from distributed.building_worlds import built, write_files
from distributed.placed import CountedShard, placed_index, placed_shards
from hyrecall.distributed import Placement, Request, ShardedIndex, Shards, Statistics
from hyrecall.errors import (
    CorruptIndexError,
    IndexNotFoundError,
    OptionError,
    ShardLostError,
    error,
)
from hyrecall.recipe import Lexical
from seams import AskedShard, IndexAnswerer, ShardEntry, ShardGeneration, ShardOpening, slot_of

SCHEMA = hr.Schema(key="id", cell=("org", "user"), text="text")
USERS = [("x", f"u{at}") for at in range(24)]
N_SHARDS = 4


def documents() -> pa.Table:
    n = 4 * len(USERS)
    return pa.table(
        {
            "id": list(range(n)),
            "org": [USERS[at % len(USERS)][0] for at in range(n)],
            "user": [USERS[at % len(USERS)][1] for at in range(n)],
            "text": ["oak tea" if at % 3 else "tea ash oak" for at in range(n)],
        }
    )


def build(table: pa.Table, first_seq: int) -> hr.Index:
    return hr.Index.build(table, SCHEMA, first_seq=first_seq, device="cpu")


PLACEMENT = Placement(
    {"org": "large_string", "user": "large_string"}, [at % N_SHARDS for at in range(4096)]
)


def home(cell: tuple[str, str]) -> int:
    (shard,) = PLACEMENT.shards_of(cell)
    return shard


class Lost(CountedShard):
    """A shard that does not answer."""

    def statistics(self, request: Request) -> Statistics:
        raise error(ShardLostError, self.name, "an answer", "none")


class ByBytes(AskedShard):
    """A shard that is asked as a process is, and notes by which verbs."""

    def __init__(self, name: str, index: hr.Index) -> None:
        self.name, self.facts = name, index._facts
        self.verbs: list[bytes] = []
        self._answering = IndexAnswerer(name, ShardOpening("cpu"))
        self._answering._index = index

    def _ask(self, *frames: bytes) -> bytes:
        self.verbs.append(frames[0])
        kind, answer = self._answering.ask(*frames)
        assert kind == b"answer", answer
        return answer

    def close(self) -> None:
        """Leave the index open."""


@pytest.fixture
def index() -> ShardedIndex:
    shards = placed_shards(documents(), SCHEMA, build, PLACEMENT, N_SHARDS)
    return placed_index(shards, PLACEMENT, CountedShard)


@pytest.fixture(scope="module")
def one() -> hr.Index:
    return build(documents(), 0)


def calls(index: ShardedIndex) -> list[int]:
    return [one.calls for one in index.shards]  # type: ignore[attr-defined]


def test_queries_of_one_shard_each_are_one_trip(one: hr.Index) -> None:
    shards = placed_shards(documents(), SCHEMA, build, PLACEMENT, N_SHARDS)
    index = placed_index(shards, PLACEMENT, ByBytes)  # type: ignore[arg-type]

    def verbs(**asked: Any) -> list[list[bytes]]:
        for shard in index.shards:
            shard.verbs.clear()  # type: ignore[attr-defined]
        scope = asked["scope"]
        asked["text"] = ["tea"] * (len(scope) if isinstance(scope, list) else 1)
        assert index.recall(**asked).to_arrow().equals(one.recall(**asked).to_arrow())
        return [shard.verbs for shard in index.shards]  # type: ignore[attr-defined]

    first = home(USERS[0])
    assert verbs(scope=USERS[0]) == [[b"alone"] if at == first else [] for at in range(N_SHARDS)]
    index_of = {home(cell): cell for cell in USERS}
    assert verbs(scope=[index_of[at] for at in range(N_SHARDS)]) == [[b"alone"]] * N_SHARDS
    both = [index_of[0], hr.Scope([index_of[0], index_of[1]])]
    assert verbs(scope=both) == [[b"statistics", b"candidates"]] * 2 + [[], []]


def test_a_batch_shares_out_its_queries(index: ShardedIndex, one: hr.Index) -> None:
    scope: list[Any] = [*USERS[:6], hr.Scope(USERS[:2]), hr.Scope([]), USERS[3]]
    scope.append(hr.Scope.matching(org="x", user="u1"))
    asked = {"text": ["tea"] * len(scope), "scope": scope}
    got = index.recall(**asked)
    assert got.to_arrow().equals(one.recall(**asked).to_arrow())
    homes = [{home(cell)} for cell in USERS[:6]]
    homes += [{home(cell) for cell in USERS[:2]}, set(), {home(USERS[3])}, {home(USERS[1])}]
    for number, shard in enumerate(index.shards):
        assert isinstance(shard, CountedShard)
        n_own = sum(number in one for one in homes)
        seen = sum(size * n for size, n in shard.asked.items())
        assert n_own <= seen <= n_own + 1, "the query that sees nothing is asked somewhere"


def test_no_query_at_all(index: ShardedIndex, one: hr.Index) -> None:
    for asked in ({"text": [], "scope": []}, {"text": [], "scope": hr.Scope([])}):
        assert index.recall(**asked).to_arrow().equals(one.recall(**asked).to_arrow())
    assert sum(calls(index)) == 2


def test_a_pattern_with_any_asks_every_shard(index: ShardedIndex, one: hr.Index) -> None:
    scope = hr.Scope.matching(org="x", user=hr.ANY)
    got = index.recall(text=["tea"], scope=scope, limit=100)
    assert got.to_arrow().equals(one.recall(text=["tea"], scope=scope, limit=100).to_arrow())
    assert calls(index) == [1] * N_SHARDS


def test_a_shard_that_is_not_asked_may_be_lost(index: ShardedIndex, one: hr.Index) -> None:
    gone = 2
    shards = list(index.shards)
    shards[gone] = Lost("shard 2", shards[gone].index)  # type: ignore[attr-defined]
    index._generations.current.shards = tuple(shards)
    here = [cell for cell in USERS if home(cell) != gone]
    there = [cell for cell in USERS if home(cell) == gone]
    asked = {"text": ["tea"] * len(here), "scope": here}
    assert not index.recall(**asked).degraded
    assert index.recall(**asked).to_arrow().equals(one.recall(**asked).to_arrow())

    both = [here[0], there[0], hr.Scope([here[1], there[0]])]
    got = index.recall(text=["tea"] * 3, scope=both)
    assert [hits.degraded for hits in got] == [False, True, True]
    (told,) = got.trace.degraded
    assert told.startswith("shard 2: its documents are missing")
    assert got[1].trace.degraded == (told,)
    assert len(got[1]) == 0
    want = one.recall(text=["tea"] * 2, scope=[here[0], here[1]])
    assert got[0].keys == want[0].keys
    assert got[2].keys == want[1].keys, "documents of the shard that answers"
    nothing = hr.Scope([])
    behind, alone = (next(cell for cell in here if home(cell) == at) for at in (3, 1))
    got = index.recall(text=["tea"] * 3, scope=[nothing, there[0], behind])
    assert [hits.degraded for hits in got] == [False, True, False], "that needs no shard at all"
    before = calls(index)
    assert not index.recall(text=["tea"] * 2, scope=[nothing, alone]).degraded
    assert [now - then for now, then in zip(calls(index), before, strict=True)] == [0, 1, 0, 0]
    with pytest.raises(ShardLostError, match="shard 2"):
        index.recall_one(text="tea", scope=there[0])


def test_a_batch_that_is_asked_whole_tells_each_query_of_its_own_shards(
    index: ShardedIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where something is refused for some of the queries alone."""
    monkeypatch.setattr(ShardGeneration, "_answer_routed", lambda *given: None)
    shards = list(index.shards)
    shards[2] = Lost("shard 2", shards[2].index)  # type: ignore[attr-defined]
    index._generations.current.shards = tuple(shards)
    got = index.recall(text=["tea"] * len(USERS), scope=USERS)
    assert [hits.degraded for hits in got] == [home(cell) == 2 for cell in USERS]
    assert got.degraded


def test_a_recipe_that_only_a_lost_shard_is_asked(index: ShardedIndex, one: hr.Index) -> None:
    shards = list(index.shards)
    shards[2] = Lost("shard 2", shards[2].index)  # type: ignore[attr-defined]
    index._generations.current.shards = tuple(shards)
    there, here = ([cell for cell in USERS if (home(cell) == 2) is gone] for gone in (True, False))
    whole = hr.Recipe(name="whole", arms=(Lexical(),), fusion=hr.RRF(), exact=True)
    for lists in (([whole, hr.recipes.default], [there[0], here[0]]), ([whole] * 2, there[:2])):
        recipes, scope = lists
        try:
            got = index.recall(text=['"tea"', "tea"], scope=scope, recipe=recipes)
        except ShardLostError:
            assert scope == there[:2]
            continue
        assert [hits.degraded for hits in got] == [True, False]
        assert got[0].keys == []
        assert got[1].keys == one.recall_one(text="tea", scope=here[0], recipe=recipes[1]).keys


class Lazy:
    """A matrix whose values are made when they are asked for, by another recall."""

    shape, ndim, dtype = (1, 2), 2, np.dtype(np.float32)

    def __init__(self, make: Callable[[], object]) -> None:
        self._make = make

    def __len__(self) -> int:
        return 1

    def __array__(self, dtype: object = None, copy: object = None) -> Any:
        self._make()
        return np.ones((1, 2), np.float32)


def test_arrays_may_recall_while_they_are_packed() -> None:
    schema = hr.Schema(key="id", cell=None, text="text", vector="v")
    vectors = pa.array([[1, 0], [0, 1]], pa.list_(pa.float32(), 2))
    table = pa.table({"id": [0, 1], "text": ["tea", "tea"], "v": vectors})
    shards = [
        ByBytes(str(at), hr.Index.build(table.slice(at, 1), schema, first_seq=at, device="cpu"))
        for at in range(2)
    ]
    index = ShardedIndex(shards)
    found: list[Any] = []

    def ask(vectors: object) -> None:
        found.append(index.recall(text=["tea"], vectors=vectors)[0].keys)

    plain = np.ones((1, 2), np.float32)
    asking = threading.Thread(target=ask, args=(Lazy(lambda: ask(plain)),), daemon=True)
    asking.start()
    asking.join(30)
    assert not asking.is_alive(), "a recall waits for the one that asked it"
    assert found
    assert set(map(tuple, found)) == {(0, 1)}


def test_series_of_pandas_are_read_by_position(index: ShardedIndex, one: hr.Index) -> None:
    pandas = pytest.importorskip("pandas")
    labels = list(range(len(USERS)))[::-1]
    texts = pandas.Series([("oak", "tea ash", "ash")[at % 3] for at in labels], index=labels)
    for asked in ({"text": texts}, {"text": {"text": texts}}, {"text": texts.set_axis(USERS)}):
        got = index.recall(**asked, scope=USERS, limit=50)
        assert got.to_arrow().equals(one.recall(**asked, scope=USERS, limit=50).to_arrow())


def test_queries_that_are_refused_are_refused_in_the_words_of_one_index(
    index: ShardedIndex, one: hr.Index
) -> None:
    wrong: list[dict[str, Any]] = [
        {"text": ["tea", 7, "oak"]},
        {"scope": [USERS[0], "alone", USERS[1]]},
        {"scope": [USERS[0], None, USERS[1]]},
        {"scope": [USERS[0], USERS[1]]},
        {"scope": [USERS[0], ("x", 3), USERS[1]]},
        {"scope": [USERS[0], hr.Scope.matching(org="x"), USERS[1]]},
        {"scope": [USERS[0], hr.Scope.matching(org="x", user="u1", more=1), USERS[1]]},
        {"filter": [None, hr.Filter(nothing=1), None]},
        {"query_keys": ["a", "b"]},
    ]
    for more in wrong:
        asked = {"text": ["tea"] * 3, "scope": USERS[:3], **more}
        with pytest.raises(hr.HyrecallError) as want:
            one.recall(**asked)
        with pytest.raises(type(want.value)) as got:
            index.recall(**asked)
        assert str(got.value) == str(want.value)


# ---- wrong folders ----


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    source = write_files(tmp_path / "in", documents(), random.Random(1))
    built(monkeypatch, source, SCHEMA, tmp_path / "out", shards=N_SHARDS)
    return tmp_path / "out"


def rewritten(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change ``shards.json``, with the checksum that the change has."""
    data = json.loads((folder / "shards.json").read_text())
    data.pop("xxh3_64")
    change(data)
    text = json.dumps(data, sort_keys=True, separators=(",", ":")) + "\n"
    data["xxh3_64"] = xxhash.xxh3_64_hexdigest(text.encode())
    (folder / "shards.json").write_text(json.dumps(data))


def refused(folder: Path, words: str) -> None:
    for processes in (False, True):
        with pytest.raises(CorruptIndexError, match=words) as caught:
            ShardedIndex.open(folder, processes=processes, device="cpu")
        assert str(folder) in str(caught.value)


def test_a_damaged_file_is_refused(folder: Path) -> None:
    path = folder / "shards.json"
    whole = path.read_bytes()
    chance = random.Random(0)
    for _ in range(200):
        at = chance.randrange(len(whole))
        cut = bytes([whole[at] ^ 1 << chance.randrange(7)])
        path.write_bytes(whole[:at] + cut + whole[at + 1 :])
        try:
            found = Shards.read(folder)
        except CorruptIndexError:
            continue
        assert found == Shards.from_bytes(whole, path), "white space, at most"
    for content in (b"", b"{}", b"[]", b"null", whole[:-40], b"\xff" * 9, b"[" * 100_000):
        path.write_bytes(content)
        refused(folder, r"shards\.json")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda data: data.update(format=2), "expected format 1"),
        (lambda data: data["shards"][1].update(folder="../out"), "fields of shards.json"),
        (lambda data: data["shards"].pop(), "fields of shards.json"),
        (lambda data: data["shards"][1].update(rows=-1), "fields of shards.json"),
        (lambda data: data["shards"][1].update(more=1), "fields of shards.json"),
        (lambda data: data["placement"].update(slots=[0]), "fields of shards.json"),
        (lambda data: data["placement"].update(hash="md5"), "fields of shards.json"),
        (lambda data: data["shards"][1].update(manifest="0" * 16), "the version 0000000000000000"),
        (lambda data: data["shards"][1].update(rows=1), "rows in shard-0001"),
        (lambda data: data.update(index="0" * 32), "the schema, analyzers and types"),
        (lambda data: data["placement"].update(slots=[0] * 4096), "a placement that puts each"),
        (
            lambda data: data["placement"].update(columns=[["user", "large_string"]]),
            "the schema, analyzers and types",
        ),
    ],
)
def test_a_wrong_file_with_a_right_checksum_is_refused(
    folder: Path, change: Callable[[dict[str, Any]], None], words: str
) -> None:
    rewritten(folder, change)
    refused(folder, words)


def test_shards_that_are_missing_or_saved_again_are_refused(folder: Path) -> None:
    entry: ShardEntry = Shards.read(folder).shards[1]
    index = hr.Index.open(folder / entry.folder)
    index.delete(
        [index.recall_one(text="tea", scope=hr.Scope(USERS))[0].key], scope=hr.Scope(USERS)
    )
    index.save(folder / entry.folder)
    refused(folder, f"the version {entry.manifest}")
    shutil.rmtree(folder / entry.folder)
    refused(folder, "no such file")


def test_a_folder_without_shards(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(IndexNotFoundError, match=r"with shards\.json, got none in"):
            ShardedIndex.open(path)


def test_slots_are_stable() -> None:
    """A saved placement is read by later versions: cells keep their slots."""
    placement = Placement({"a": "large_string", "b": "int64", "c": "bool"}, [0] * 4096)
    cells: list[tuple[object, ...]] = [("ann", 1, True), ("", None, False), (None, -1, None)]
    assert [slot_of(placement.encode(cell)) for cell in cells] == [208, 3491, 2891]


def test_some_shards_of_a_folder_are_refused(folder: Path, one: hr.Index) -> None:
    paths = [folder / entry.folder for entry in Shards.read(folder).shards]
    wish = "paths: expected all 4 shards of .*out, got 3 of them; open the folder of the shards"
    for processes in (False, True):
        with pytest.raises(OptionError, match=wish):
            ShardedIndex.open(paths[1:], processes=processes)
    asked = {"text": ["tea"], "scope": hr.Scope(USERS), "limit": 99}
    with ShardedIndex.open(paths[::-1], device="cpu") as index:
        assert index.recall(**asked).to_arrow().equals(one.recall(**asked).to_arrow())


def test_a_folder_of_shards_is_no_store(folder: Path) -> None:
    memory = pytest.importorskip("hyrecall.memory", reason="the extra [memory] is not installed")
    pytest.importorskip("apsw", reason="the extra [memory] is not installed")
    before = sorted(path.name for path in folder.iterdir())
    with pytest.raises(OptionError, match="got a folder of shards; hyrecall shards serve"):
        memory.MemorySync.open(folder)
    assert sorted(path.name for path in folder.iterdir()) == before
