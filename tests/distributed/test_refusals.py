"""What a recall over shards refuses, by an error that names it; and bytes that are none of ours."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from distributed.placement import ApartShard
from hyrecall.arms import Newest, related
from hyrecall.distributed import Part, Request, ShardedIndex, Statistics, merge
from hyrecall.errors import StaleStatisticsError
from laws.engine import ipc_bytes
from seams import LocalShard

SCHEMA = hr.Schema(
    key="id", cell="user", text="text", vector="v", attributes=("year", "tags"), thread="thread"
)


def documents(first: int, n: int = 6, user: str = "ann") -> pa.Table:
    vectors = np.random.default_rng(first).standard_normal(4 * n).astype(np.float32)
    return pa.table(
        {
            "id": [f"k{first + at}" for at in range(n)],
            "user": [user] * n,
            "text": ["oak ash", "oak", "elm", None, "", "ash elm oak"][:n],
            "v": pa.FixedSizeListArray.from_arrays(pa.array(vectors), 4),
            "year": pa.array([2000 + at for at in range(n)], pa.int64()),
            "tags": pa.array([["a"]] * n, pa.list_(pa.string())),
            "thread": [f"t{first}-{at // 2}" for at in range(n)],
        }
    )


def built(first: int, **options: Any) -> hr.Index:
    return hr.Index.build(documents(first), SCHEMA, first_seq=first, device="cpu", **options)


ASKED: dict[str, Any] = {"text": ["oak elm"], "vectors": np.ones((1, 4), "f4"), "scope": "ann"}


@pytest.fixture
def shards() -> list[hr.Index]:
    return [built(0), built(6)]


def said(call: Callable[[], object]) -> str:
    with pytest.raises(hr.HyrecallError) as caught:
        call()
    return str(caught.value)


def test_an_explanation_and_a_text_that_was_not_asked_for(shards: list[hr.Index]) -> None:
    index = ShardedIndex([ApartShard(str(at), one) for at, one in enumerate(shards)])
    hits = index.recall(**ASKED)
    assert said(hits[0][0].explain).startswith("hits: expected hits of one index, got")
    assert said(hits[0].explain_dropped).startswith("hits: expected hits of one index")
    assert said(lambda: related(hits, "tags")).startswith("hits: expected hits of one index")
    with pytest.raises(AttributeError, match="the text column 'text' is not stored"):
        _ = hits[0][0].text
    one = hr.Index.build(pa.concat_tables([documents(0), documents(6)]), SCHEMA, device="cpu")
    for more in ({"columns": ["text"]}, {"shaping": (hr.Budget(25),)}):  # a stage reads it, too
        asked = ASKED | more
        texts = [[hit.text for hit in every.recall(**asked)[0]] for every in (index, one)]
        assert texts[0] == texts[1]


def test_statistics_and_parts_of_something_else(shards: list[hr.Index]) -> None:
    request, other = Request(**ASKED), Request(**ASKED)
    counted = [one.statistics(request) for one in shards]
    summed = Statistics.sum(counted)
    parts = [one.candidates(request, summed) for one in shards]
    foreign = other, Statistics.sum([one.statistics(other) for one in shards])
    assert "parts: expected the statistics of at least" in said(lambda: Statistics.sum([]))
    assert "those of one request" in said(lambda: Statistics.sum([counted[0], foreign[1]]))
    assert "those of this request" in said(lambda: shards[0].candidates(other, summed))
    assert "at least one shard" in said(lambda: merge(request, []))
    assert "those of this request" in said(lambda: merge(other, parts))
    assert "all 2 shards that were counted" in said(lambda: merge(request, parts[:1]))
    assert "all 2 shards" in said(lambda: merge(request, [parts[0], parts[0]]))
    assert merge(request, parts[:1], degraded=["shard 1"]).trace.degraded == ("shard 1",)
    twice = [parts[0], parts[0]]  # its documents would come twice
    assert "all 2 shards" in said(lambda: merge(request, twice, degraded=["shard 1"]))
    plain = hr.Schema(key="id", cell="user", text="text")
    alien = hr.Index.build(documents(6), plain, first_seq=6, device="cpu")
    given = Request(text=["oak"], scope="ann")
    pair = [one.statistics(given) for one in (shards[0], alien)]
    assert "shards with the same schema" in said(lambda: Statistics.sum(pair))
    mixed = ShardedIndex([LocalShard("a", shards[0]), LocalShard("b", alien)])
    assert "shards with the same schema" in said(lambda: mixed.recall(text=["oak"], scope="ann"))
    for wrong in (None, "request", object()):
        assert "request: expected a Request" in said(lambda one=wrong: merge(one, parts))
        assert "a Request" in said(lambda one=wrong: shards[0].statistics(one))
        assert "a Statistics" in said(lambda one=wrong: shards[0].candidates(request, one))
        assert "parts: expected parts" in said(lambda one=wrong: merge(request, [one]))


def test_documents_that_change_between_the_two_questions(shards: list[hr.Index]) -> None:
    request = Request(**ASKED)
    summed = Statistics.sum([one.statistics(request) for one in shards])
    shards[1].delete(["k7"], scope="ann")
    with pytest.raises(StaleStatisticsError, match="the index changed: count again"):
        shards[1].candidates(request, summed)
    shards[0].compact()  # changes no document
    assert shards[0].candidates(request, summed).n_rows > 0


def test_a_folder_that_gets_an_index_with_as_many_documents(tmp_path: Any) -> None:
    built(0).save(tmp_path / "a")
    index = hr.Index.open(tmp_path / "a", device="cpu")
    request = Request(**ASKED)
    summed = Statistics.sum([index.statistics(request)])
    other = documents(0).set_column(2, "text", pa.array(["elm"] * 6))
    hr.Index.build(other, SCHEMA, device="cpu").save(tmp_path / "a", overwrite=True)
    assert index.reload()
    with pytest.raises(StaleStatisticsError, match="the index changed: count again"):
        index.candidates(request, summed)


def test_no_number_of_documents_of_other_cells_crosses_the_wire() -> None:
    request = Request(**ASKED)
    crossing = []
    for n in (1, 5):
        index = built(0)
        index.add(documents(6, n, user="bob"), first_seq=6)
        counted = index.statistics(request)
        part = index.candidates(request, counted)
        assert not any(character in counted.versions[0] for character in ":; ")
        same = replace(counted, versions=("",)), replace(part, version="", versions=("",))
        crossing.append(list(map(pickle.dumps, same)))
    assert crossing[0] == crossing[1]


def test_a_call_begins_again_while_documents_change(shards: list[hr.Index]) -> None:
    class Restless(LocalShard):
        left = 3

        def candidates(self, request: Request, statistics: Statistics) -> Part:
            if self.left:
                self.left -= 1
                self.index.delete([f"k{6 + self.left}"], scope="ann")
            return super().candidates(request, statistics)

    restless = Restless("b", shards[1])
    got = ShardedIndex([LocalShard("a", shards[0]), restless]).recall(**ASKED)
    rows = pa.concat_tables([documents(0), documents(6)])
    one = hr.Index.build(rows, SCHEMA, device="cpu")
    one.delete(["k6", "k7", "k8"], scope="ann")
    assert ipc_bytes(got.to_arrow()) == ipc_bytes(one.recall(**ASKED).to_arrow())
    restless.index, restless.left = built(6), 6
    with pytest.raises(StaleStatisticsError):
        ShardedIndex([restless]).recall(**ASKED)


def test_where_documents_may_lie() -> None:
    def build(*tables: pa.Table) -> Callable[[], ShardedIndex]:
        return lambda: ShardedIndex.build(tables, SCHEMA, device="cpu")

    twice = build(documents(0), documents(6), documents(0))
    assert said(twice).startswith("id: expected keys that no other shard has in that cell, got 'k")
    torn = documents(6).set_column(6, "thread", pa.array(["t0-0"] * 6))
    assert said(build(documents(0), torn)).startswith(
        "thread: expected all rows of a thread in one shard, got those of 't0-0' in two"
    )
    assert len(build(documents(0), documents(6, user="bob"))()) == 2
    assert "tables: expected a sequence of tables" in said(build())
    other = documents(6).set_column(4, "year", pa.array([1.5] * 6))
    assert "expected the schema, analyzers" in said(build(documents(0), other))


def test_shards_of_one_name_are_refused() -> None:
    index = built(0)
    with pytest.raises(hr.OptionError, match=r"^shards: expected a name .* got 'x' 2 times"):
        ShardedIndex([LocalShard("x", index), LocalShard("y", index), LocalShard("x", index)])


def test_one_query_is_refused_as_one_index_refuses_it() -> None:
    index = ShardedIndex.build([documents(0), documents(6)], SCHEMA, device="cpu")
    one = hr.Index.build(pa.concat_tables([documents(0), documents(6)]), SCHEMA, device="cpu")
    asked = {"text": "oak", "scope": "ann"}
    wrong: list[dict[str, Any]] = [
        {"candidates": 3}, {"text": ["oak"]}, {"scope": ["ann"]}, {"limit": -1},
        {"filter": [None, None]}, {"recipe": [hr.recipes.default] * 2},
    ]  # fmt: skip
    for more in wrong:
        given = asked | more
        told = [said(lambda i=i, given=given: i.recall_one(**given)) for i in (one, index)]
        assert told[0] == told[1]


def test_saved_shards_with_the_same_numbers(tmp_path: Any) -> None:
    for at in range(2):
        made = hr.Index.build(documents(6 * at), SCHEMA, device="cpu")
        made.save(tmp_path / str(at))
    paths = [tmp_path / "0", tmp_path / "1"]
    told = said(lambda: ShardedIndex.open(paths, device="cpu"))
    assert told.startswith("first_seq: expected insertion numbers that no other shard has")
    assert "paths: expected a sequence" in said(lambda: ShardedIndex.open([]))


def test_a_thread_that_was_torn_later_is_refused_where_it_counts(shards: list[hr.Index]) -> None:
    torn = documents(12).set_column(6, "thread", pa.array(["t0-0"] * 6))
    shards[1].add(torn, first_seq=12)
    index, joined = (
        ShardedIndex([kind(str(at), one) for at, one in enumerate(shards)])
        for kind in (ApartShard, LocalShard)
    )
    around = (hr.Around((0.2,), thread=0.3),)
    assert "all rows of a thread in one shard" in said(
        lambda: index.recall(**ASKED, shaping=around)
    )
    assert index.recall(**ASKED)[0].keys
    one = hr.Index.build(pa.concat_tables([documents(0), documents(6), torn]), SCHEMA, device="cpu")
    got, own = (every.recall(**ASKED, shaping=around) for every in (joined, one))
    assert ipc_bytes(got.to_arrow()) == ipc_bytes(own.to_arrow())  # in one process it is whole


def test_a_failing_add_of_numbers_that_were_given_out(shards: list[hr.Index]) -> None:
    told = said(lambda: shards[1].add(documents(20), first_seq=3))
    assert told == "first_seq: expected at least 12 (the next), got 3"
    for wrong in (-1, 2**62, 1.5, True, "1"):
        assert "an int in [0, 2^62)" in said(
            lambda one=wrong: shards[1].add(documents(20), first_seq=one)
        )
    shards[1].add(documents(20), first_seq=40)
    assert shards[1].stats()["next_seq"] == 46


def test_lists_of_the_newest_that_do_not_begin_with_them_are_refused(
    shards: list[hr.Index],
) -> None:
    request = Request(arms=Newest("year"), scope=["ann"], depth=3, limit=3)
    summed = Statistics.sum([one.statistics(request) for one in shards])
    parts = [one.candidates(request, summed) for one in shards]
    assert merge(request, parts)[0].keys == ["k5", "k11", "k4"]
    run = parts[0].runs["0"]
    for forged in (run.arrays["listed"][::-1].copy(), run.arrays["listed"][[0, 0, 0]]):
        spoiled = run._replace(arrays={**run.arrays, "listed": forged})
        told = said(
            lambda one=spoiled: merge(request, [replace(parts[0], runs={"0": one}), *parts[1:]])
        )
        assert told == "parts: expected the newest documents of each shard, got others"


def test_a_request_is_frozen_and_shows_what_it_asks() -> None:
    texts = ["oak"]
    request = Request(text=texts, scope="ann", recipe=hr.recipes.l0)
    texts.append("elm")
    assert request.given["text"] == ["oak"]
    assert repr(request).startswith("Request(text=['oak'], scope='ann', limit=10, recipe=Recipe(")
    for name in ("id", "given", "text"):
        with pytest.raises(FrozenInstanceError):
            setattr(request, name, None)
    again = pickle.loads(pickle.dumps(request))
    assert again.given["recipe"] == hr.recipes.l0
    assert again.given["now"] == request.given["now"]
