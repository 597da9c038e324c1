"""Look-ups: what a shard answers about some documents, and what it is told with a request."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from distributed.placed import all_in_turn
from distributed.placement import WireShard
from hyrecall.distributed import Request, ShardedIndex
from hyrecall.errors import (
    HyrecallError,
    OptionError,
    ScopeError,
    StaleStatisticsError,
)
from seams import (
    QUERY,
    LocalShard,
    Looking,
    Lookup,
    LookupAnswer,
    Shard,
    ShardRouter,
    ShardThreads,
    ToldLists,
    cell_column,
    pack_table,
    question_of,
    told_to,
)
from seams import parts_pack as pack

SCHEMA = hr.Schema(key="id", cell=("user", "part"), text="text", attributes="n")
ROWS: dict[str, list[Any]] = {
    "id": ["a", "b", "c", "a", "b", "a"],
    "user": ["ann", "ann", "ann", "bob", "bob", "ann"],
    "part": [1, 1, 1, 1, 1, 2],
    "text": ["tea"] * 6,
    "n": [0, 1, 2, 3, 4, 5],
}


def shards_of(n: int) -> list[hr.Index]:
    table = pa.table(ROWS)
    made = []
    for at in range(n):
        index = hr.Index.build(table.slice(0, 0), SCHEMA, device="cpu")
        for row in range(at, table.num_rows, n):
            index.add(table.slice(row, 1), first_seq=row)
        made.append(index)
    return made


def keys(asked: list[list[str]], scope: object, **more: Any) -> Lookup:
    query = pa.array([at for at, own in enumerate(asked) for _ in own], pa.int64())
    flat = pa.array([key for own in asked for key in own], pa.large_string())
    rows = pa.table({QUERY: query, "key": flat})
    return Lookup("keys", "r", len(asked), scope, rows, **more)


def found(tables: list[pa.Table]) -> set[tuple[Any, ...]]:
    named = [QUERY, "key", cell_column(0), cell_column(1)]
    return {tuple(row[name] for name in named) for one in tables for row in one.to_pylist()}


def looking(shards: list[Shard], router: ShardRouter | None = None) -> Looking:
    return Looking(shards, router, None)


ASKED = [["a", "b", "nobody"], ["a", "a"], [], ["c", "a"]]
SCOPES = [
    hr.Scope.matching(user="ann", part=hr.ANY),
    ("bob", 1),
    ("ann", 1),
    hr.Scope([("ann", 2), ("bob", 1)]),
]
EXPECTED = {
    (0, "a", "ann", 1), (0, "a", "ann", 2), (0, "b", "ann", 1), (1, "a", "bob", 1),
    (3, "a", "ann", 2), (3, "a", "bob", 1),
}  # fmt: skip


@pytest.mark.parametrize("n", [1, 2, 3, 7])
@pytest.mark.parametrize("kind", [LocalShard, WireShard])
def test_keys_are_found_where_each_query_may_look(n: int, kind: Callable[..., Shard]) -> None:
    shards = [kind(f"shard {at}", one) for at, one in enumerate(shards_of(n))]
    look = looking(shards)
    assert found(look.ask(keys(ASKED, SCOPES))) == EXPECTED
    assert look.versions.keys() == {one.name for one in shards}
    assert found(look.ask(keys([["a", "c"]], ("ann", 1)))) == {
        (0, "a", "ann", 1),
        (0, "c", "ann", 1),
    }


def test_a_placement_asks_each_shard_only_for_queries_of_its_cells() -> None:
    placement = all_in_turn([("user", "large_string"), ("part", "int64")], 3)
    table, shards = pa.table(ROWS), []
    seen: dict[int, list[int]] = {}

    class Counted(WireShard):
        def lookup(self, lookup: Lookup) -> LookupAnswer:
            seen[int(self.name)] = lookup.query.tolist()
            assert isinstance(lookup.scope, list)
            assert lookup.n_queries == len(lookup.scope)
            return super().lookup(lookup)

    for at in range(3):
        index = hr.Index.build(table.slice(0, 0), SCHEMA, device="cpu")
        for row in range(table.num_rows):
            if at in placement.shards_of((ROWS["user"][row], ROWS["part"][row])):
                index.add(table.slice(row, 1), first_seq=row)
        shards.append(Counted(str(at), index))
    router = ShardRouter(placement, shards[0].facts.cell_types)
    cells = [("ann", 1), ("bob", 1), ("ann", 2), ("eve", 9)]
    assert len({tuple(placement.shards_of(cell)) for cell in cells[:3]}) > 1
    asked = [["a", "b"], ["b"], ["a"], ["a"]]
    want = {(0, "a", "ann", 1), (0, "b", "ann", 1), (1, "b", "bob", 1), (2, "a", "ann", 2)}
    assert found(looking([*shards], router).ask(keys(asked, cells))) == want
    assert sum(map(len, seen.values())) == sum(map(len, asked))


def test_a_version_that_changes_within_a_call_is_refused() -> None:
    (index,) = shards_of(1)
    shard = WireShard("only", index)
    look = looking([shard])
    look.ask(keys([["a"]], ("ann", 1)))
    (old,) = look.versions.values()
    assert shard.lookup(keys([["a"]], ("ann", 1), versions=old)).version == old[0]
    look.note("only", old)
    index.delete(["c"], scope=("ann", 1))
    with pytest.raises(StaleStatisticsError, match="count again"):
        look.ask(keys([["a"]], ("ann", 1)))
    with pytest.raises(StaleStatisticsError, match="one version of each shard"):
        look.note("only", (index._version,))
    with pytest.raises(StaleStatisticsError, match="count again"):
        shard.lookup(keys([["a"]], ("ann", 1), versions=old))


def test_a_question_that_a_shard_cannot_answer_is_refused_by_name() -> None:
    (index,) = shards_of(1)
    shard = WireShard("only", index)
    with pytest.raises(OptionError, match="kind: expected one of"):
        shard.lookup(Lookup("secrets", "r", 1, ("ann", 1), keys([["a"]], None).rows))
    with pytest.raises(ScopeError):
        shard.lookup(keys([["a"]], None))
    rows = pa.table({QUERY: pa.array([0]), "key": pa.array([7])})
    with pytest.raises(OptionError, match="keys of large_string"):
        shard.lookup(Lookup("keys", "r", 1, ("ann", 1), rows))

    class Plain:
        name = "plain"
        statistics = candidates = close = None

    with pytest.raises(OptionError, match=r"lookup\(\), which graphs and tags need"):
        looking([Plain()]).ask(keys([["a"]], ("ann", 1)))  # type: ignore[list-item]


@pytest.mark.slow
def test_replicas_in_processes_answer_look_ups(tmp_path: Path) -> None:
    for at, one in enumerate(shards_of(2)):
        one.save(tmp_path / f"s{at}")
    with ShardedIndex.open(tmp_path, processes=True, replicas=2, device="cpu") as index:
        threads = ShardThreads(4)
        look = Looking(index.shards, None, threads)
        assert found(look.ask(keys(ASKED, SCOPES))) == EXPECTED
        assert found(look.ask(keys(ASKED, SCOPES))) == EXPECTED
        look.versions[index.shards[0].name] = ("another",)
        with pytest.raises(StaleStatisticsError):
            look.ask(keys(ASKED, SCOPES))
        threads.close(waits=True)


def forged(change: Callable[[dict[str, Any]], None], rows: pa.Table) -> bytes:
    header: dict[str, Any] = {
        "kind": "keys", "request": "r", "n_queries": 2, "scope": None, "filter": None,
        "settings": {}, "versions": [],
    }  # fmt: skip
    change(header)
    return pack("hyrecall lookup", header, {"rows": pack_table(rows)})


GOOD = pa.table({QUERY: [0, 1]})
FORGED: dict[str, bytes] = {
    "no scope": forged(lambda header: header.pop("scope"), GOOD),
    "no query": forged(lambda header: None, pa.table({"key": [1]})),
    "two of them": forged(lambda header: None, pa.table([[0], [0]], names=[QUERY, QUERY])),
    "falling": forged(lambda header: None, pa.table({QUERY: [1, 0]})),
    "too high": forged(lambda header: None, pa.table({QUERY: [0, 2]})),
    "negative": forged(lambda header: None, pa.table({QUERY: [-1]})),
    "null": forged(lambda header: None, pa.table({QUERY: pa.array([None], pa.int64())})),
    "text": forged(lambda header: header.update(n_queries="x"), GOOD),
    "an answer": LookupAnswer("r", "i", "v", GOOD).to_bytes(),
    "cut": forged(lambda header: None, GOOD)[:-1],
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_questions_are_refused(name: str) -> None:
    with pytest.raises(OptionError, match="data"):
        Lookup.from_bytes(FORGED[name])
    with pytest.raises(HyrecallError):
        LookupAnswer.from_bytes(FORGED["too high"])


# ---- what a request tells ----


def told(n: int) -> dict[str, ToldLists]:
    query = np.array([0, 0, 2])
    return {"edges": ToldLists.of(n, query, pa.table({"key": ["a", "b", "c"]}))}


def test_what_a_request_tells_crosses_the_wire_and_follows_its_queries() -> None:
    given = {"text": ["x", "y", "z"], "scope": ["ann"] * 3, "arms": hr.arms.EdgeLexical("graph")}
    request = Request._asking(given)._with_told(told(3))
    again = Request.from_bytes(request.to_bytes())
    assert again.id == request.id
    for one in (request, again):
        assert one._told is not None
        lists = one._told["edges"]
        assert [lists.list_of(at).to_pydict()["key"] for at in range(3)] == [["a", "b"], [], ["c"]]
        assert lists.query.tolist() == [0, 0, 2]
        some = one.of_queries(dict(one.given), np.array([1, 2]))
        assert some._told is not None
        assert some._told["edges"].offsets.tolist() == [0, 0, 1]
        assert some._told["edges"].list_of(1).to_pydict() == {"key": ["c"]}


def test_queries_that_ask_the_same_share_a_list_of_the_told() -> None:
    rows = pa.table({"key": ["a", "b", "c", "d"]})
    lists = ToldLists(np.array([0, 1, 3, 4]), rows, np.array([1, 0, 1, 2, 1]))

    def keys(some: ToldLists) -> list[list[str]]:
        return [some.list_of(at)["key"].to_pylist() for at in range(some.n_queries)]

    assert keys(lists) == [["b", "c"], ["a"], ["b", "c"], ["d"], ["b", "c"]]
    for queries in ([4, 1, 2], [3], [], [1, 0, 4, 3, 2]):
        some = lists.of_queries(np.array(queries, np.int64))
        assert keys(some) == [keys(lists)[at] for at in queries]
        assert some.rows.num_rows == len({key for own in keys(some) for key in own})
    request = Request._asking({"text": ["x"] * 5})._with_told({"edges": lists})
    again = Request.from_bytes(request.to_bytes())._told
    assert again is not None
    assert keys(again["edges"]) == keys(lists)
    with pytest.raises(OptionError, match="a list of answers for each query"):
        _ = lists.query
    own = lists.of_queries(np.array([3, 1, 4]))
    assert own.query.tolist() == [0, 1, 2, 2]
    for wrong in ([-1], [3], [0, 1, 2**40]):
        forged = ToldLists(lists.offsets, rows, np.array(wrong, np.int64))
        with pytest.raises(OptionError, match="numbers of lists"):
            Request.from_bytes(request._with_told({"edges": forged}).to_bytes())


def test_what_is_missing_or_forged_among_the_told_is_refused() -> None:
    with pytest.raises(OptionError, match="got none"):
        told_to(None, "edges", 3)
    with pytest.raises(OptionError, match="got none"):
        told_to(told(3), "tags", 3)
    with pytest.raises(OptionError, match="those of 3 queries"):
        told_to(told(3), "edges", 2)
    request = Request._asking({"text": ["x"]})
    wrong = ToldLists(np.array([0, 5]), pa.table({"key": ["a"]}), np.array([0]))
    with pytest.raises(OptionError, match="offsets that fit"):
        Request.from_bytes(request._with_told({"edges": wrong}).to_bytes())


def test_a_request_that_nothing_is_told_to_has_no_graphs() -> None:
    arm = hr.arms.EdgeLexical("graph")
    with pytest.raises(OptionError, match="no graph in a recall over parts"):
        Request(text=["x"], arms=arm)
    with pytest.raises(OptionError, match="the bytes of a request"):
        Request.from_bytes(Request._asking({"text": ["x"], "arms": arm}).to_bytes())


FORGED_ANSWERS: dict[str, tuple[dict[str, Any], str]] = {
    "keys of another type": ({"key": [1], "score": pa.array([1.0], pa.float32())}, "answers of"),
    "scores of another type": ({"key": ["a"], "score": [1.0]}, "answers of"),
    "no score": ({"key": ["a"]}, "answers of"),
    "a null": ({"key": [None], "score": pa.array([1.0], pa.float32())}, "answers of"),
    "not finite": ({"key": ["a"], "score": pa.array([np.nan], pa.float32())}, "finite scores"),
}


@pytest.mark.parametrize("name", FORGED_ANSWERS)
def test_a_shard_refuses_forged_answers_of_a_graph(name: str) -> None:
    columns, message = FORGED_ANSWERS[name]
    columns = columns if name == "keys of another type" else {
        **columns, "key": pa.array(columns["key"], pa.large_string())
    }  # fmt: skip
    arm = hr.arms.EdgeLexical("graph")
    asked = Request._asking({"text": {"edges": ["x"]}, "scope": "ann", "arms": arm})
    lists = ToldLists(np.array([0, 1]), pa.table(columns), np.array([0]))
    request = asked._with_told({question_of(arm, 100): lists})
    schema = hr.Schema(key="id", cell="user", text="text")
    index = hr.Index.build(pa.table(ROWS).slice(0, 3), schema, device="cpu")
    counted = index.statistics(request)
    with pytest.raises(OptionError, match=message):
        index.candidates(Request.from_bytes(request.to_bytes()), counted)
    sound = {"key": pa.array(["a"], pa.large_string()), "score": pa.array([1.0], pa.float32())}
    lists = ToldLists(np.array([0, 1]), pa.table(sound), np.array([0]))
    good = asked._with_told({question_of(arm, 100): lists})
    assert index.candidates(good, counted).n_rows == 1
