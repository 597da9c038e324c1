"""An index behind Ray Serve: joined queries have the replies that they would have alone."""

from __future__ import annotations

import asyncio
import logging
import pickle
import random
import runpy
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from distributed.generation_worlds import ASKED, SECONDS, USERS, make
from distributed.generation_worlds import SCHEMA as TEA
from distributed.generation_worlds import documents as rows
from distributed.saved import VECTORS, whole
from hyrecall.distributed import ShardedIndex
from hyrecall.distributed.ray_serve import IndexReplica, recall_app
from hyrecall.errors import MissingExtraError
from laws.engine import ipc_bytes

EXAMPLE = Path(__file__).parents[2] / "examples" / "frameworks" / "ray_serve.py"
N_QUERIES = 60


def queries(n: int) -> list[dict[str, Any]]:
    """Queries of several users, of which some have options, arms or recipes of their own."""
    chance = random.Random(5)
    made = []
    for _ in range(n):
        both = hr.Scope(["ann", "bob"])
        one: dict[str, Any] = {"scope": chance.choice(["ann", "bob", both, hr.Scope([])])}
        text = chance.choice(["oak ash", "elm", "fir oak", hr.Any("oak", "elm")])
        one["text"] = chance.choice([text, {"text": text}])
        if chance.random() < 0.5:
            row = VECTORS[chance.randrange(len(VECTORS))]
            one["vector"] = chance.choice([row, row.tolist(), {"v": row}])
        if chance.random() < 0.3:
            one["filter"] = hr.Filter(year=(2002, None))
        one |= chance.choice(
            [{}, {}, {"limit": 3}, {"columns": ["text"]}, {"fusion": hr.RRF()},
             {"min_score": {"text": 0.1}}, {"recipe": hr.recipes.default},
             {"shaping": (hr.Dedup(0.9),)} if "vector" in one else {}]
        )  # fmt: skip
        made.append(one)
    return made


def replies(
    replica: IndexReplica, asked: Sequence[dict[str, Any]]
) -> list[hr.QueryHits | BaseException]:
    async def all_at_once() -> list[Any]:
        calls = (replica.recall_one(**one) for one in asked)
        return list(await asyncio.gather(*calls, return_exceptions=True))

    return asyncio.run(all_at_once())


def told(hits: hr.QueryHits) -> list[object]:
    """Return what hits say beside their table, without times."""
    trace = asdict(hits.trace)
    trace["stages"] = [{**one, "milliseconds": 0} for one in trace["stages"]]
    return [trace | {"milliseconds": 0, "device": 0}, hits.keys, hits.n_candidates, hits.query]


def check(index: hr.Index, replica: IndexReplica, asked: Sequence[dict[str, Any]]) -> None:
    for one, got in zip(asked, replies(replica, asked), strict=True):
        want = index.recall_one(**one)
        assert not isinstance(got, BaseException), got
        assert ipc_bytes(got.to_arrow()) == ipc_bytes(want.to_arrow())
        assert told(pickle.loads(pickle.dumps(got))) == told(want)


@pytest.mark.parametrize("kind", ["index", "shards"])
def test_joined_replies_are_those_of_single_calls(paths: list[Path], kind: str) -> None:
    one = whole()
    replica = IndexReplica(whole if kind == "index" else partial(ShardedIndex.open, paths))
    check(one, replica, queries(N_QUERIES))
    counts = replica.counts()
    assert counts["queries"] == N_QUERIES
    assert counts["batches"] < N_QUERIES * 2 / 3  # what cannot be joined is alone


def test_the_oracle_sees_the_scope_of_another_query() -> None:
    class OneScope(IndexReplica):
        """A planted bug: a batch is searched in the scope of its first query."""

        def _answer(self, queries: Sequence[dict[str, Any]]) -> list[hr.QueryHits]:
            return super()._answer([{**one, "scope": queries[0]["scope"]} for one in queries])

    with pytest.raises(AssertionError):
        check(whole(), OneScope(whole), queries(N_QUERIES))


def test_the_oracle_sees_options_of_another_query(monkeypatch: pytest.MonkeyPatch) -> None:
    def only_arms(options: dict[str, Any]) -> object:
        """A planted bug: all queries that ask the same arms are joined."""
        return [bool(options.get(name)) for name in ("text", "vector", "scope")]

    monkeypatch.setattr("hyrecall.distributed.ray_serve._key", only_arms)
    plain = [{**one, "text": "oak elm", "vector": VECTORS[0]} for one in queries(N_QUERIES)]
    with pytest.raises(AssertionError):
        check(whole(), IndexReplica(whole), plain)


def test_a_wrong_query_fails_alone_and_none_is_answered_without_a_scope() -> None:
    good = queries(20)
    wrong: list[tuple[dict[str, Any], type[BaseException], str]] = [
        ({"text": "oak"}, hr.ScopeError, "scope: expected"),
        ({"text": "oak", "scope": None}, hr.ScopeError, "scope: expected"),
        ({"text": "oak", "scope": ["ann"]}, hr.OptionError, "scope: expected"),
        ({"text": "oak", "scope": "ann", "filter": hr.Filter(no=1)}, hr.OptionError, "no"),
        ({"vector": np.ones(3, np.float32), "scope": "ann"}, hr.ShapeError, "vector"),
    ]
    asked = [one for pair in zip(good, [one for one, *_ in wrong] * 4, strict=True) for one in pair]
    one, found = whole(), replies(IndexReplica(whole), asked)
    for given, got in zip(asked[::2], found[::2], strict=True):
        assert isinstance(got, hr.QueryHits)
        assert got.to_arrow().equals(one.recall_one(**given).to_arrow())
    for (_, kind, match), got in zip(wrong * 4, found[1::2], strict=True):
        assert type(got) is kind
        assert match in str(got)


def test_options_that_only_look_equal_or_cannot_be_compared_are_not_joined() -> None:
    one = whole()
    plain: dict[str, Any] = {"text": "oak", "scope": "ann"}
    odd: list[Any] = [True, 1.0, "1"]
    asked = [plain | {"limit": limit} for limit in (1, *odd, 1, *odd)]
    asked += [plain | {"columns": np.array(["text", "year"])} for _ in range(4)]
    asked += [plain | {"limit": np.array([1, 2])} for _ in range(4)] + [plain]

    async def all_at_once() -> list[Any]:
        replica = IndexReplica(whole)
        calls = [asyncio.create_task(replica.recall_one(**each)) for each in asked]
        _, waiting = await asyncio.wait(calls, timeout=SECONDS)
        assert not waiting, f"{len(waiting)} of {len(calls)} have no answer"
        return [call.exception() or call.result() for call in calls]

    def alone(each: dict[str, Any]) -> object:
        try:
            return ipc_bytes(one.recall_one(**each).to_arrow())
        except hr.HyrecallError as fault:
            return type(fault), str(fault)

    n_answered = 0
    for each, got in zip(asked, asyncio.run(all_at_once()), strict=True):
        if isinstance(got, hr.QueryHits):
            assert ipc_bytes(got.to_arrow()) == alone(each)
            n_answered += 1
        else:
            assert (type(got), str(got)) == alone(each)
    assert n_answered == 7


def look_again(replica: IndexReplica) -> None:
    """Let the next query look at the folder, as if the last look were long ago."""
    replica._versions._looked = -1e9
    replies(replica, [{"text": "tea", "scope": USERS[0]}])
    assert replica._versions.loading is not None
    replica._versions.loading.result(SECONDS)


def single_and_batch(replica: IndexReplica) -> list[pa.Table]:
    """The replies to single queries, and that to the batch of them."""
    made: list[pa.Table] = []
    for got in replies(replica, [{"text": "tea", "scope": one, "limit": 100} for one in USERS]):
        assert isinstance(got, hr.QueryHits), got
        assert not got.degraded
        made.append(got.to_arrow())
    return [*made, asyncio.run(replica.recall(**ASKED)).to_arrow()]


@pytest.mark.parametrize("kind", ["index", "shards"])
def test_a_newer_version_is_taken_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    def built_anew(seed: int) -> hr.Index:
        """Write documents into the folder, and return an index of them."""
        one = hr.Index.build(rows(seed), TEA, device="cpu")
        if kind == "index":
            one.save(folder)
        else:
            make(tmp_path, seed)
        return one

    caplog.set_level(logging.INFO, "hyrecall.distributed")
    folder = tmp_path / "out"
    first = single_and_batch(IndexReplica(partial(built_anew, 1)))
    open_index = hr.Index.open if kind == "index" else ShardedIndex.open
    replica = IndexReplica(partial(open_index, folder, device="cpu", threads=1))
    assert single_and_batch(replica) == first
    shutil.rmtree(folder)
    look_again(replica)
    assert single_and_batch(replica) == first
    second = single_and_batch(IndexReplica(partial(built_anew, 2)))
    assert second != first
    replica._versions._looked = float("inf")
    assert single_and_batch(replica) == first
    look_again(replica)
    assert single_and_batch(replica) == second
    assert [one.message for one in caplog.records] == [
        "index: the new version cannot be read (IndexNotFoundError)",
        "index: took up the version that was saved anew",
    ]


def test_arguments_and_the_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(hr.OptionError, match="max_joined: expected >= 1, got 0"):
        recall_app(whole, max_joined=0)
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(MissingExtraError, match="recall_app: expected Ray Serve"):
        recall_app(whole)


@pytest.mark.filterwarnings("ignore")  # of Ray, at its start
def test_the_example_runs_behind_ray_serve(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ray.serve", reason="ray[serve] is not installed")
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    printed = capsys.readouterr().out
    assert "ann: ['a0', 'a2']" in printed
    assert "bob: ['b0', 'b2']" in printed
    assert "without a scope: scope: expected" in printed
