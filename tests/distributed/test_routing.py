"""Shards that are asked only what they may hold reply as one index does, bit for bit (L4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from distributed.placed import placed_index, placed_shards, placement_of
from distributed.planted_routers import ROUTERS
from distributed.subjects import AroundSubject, ExactSubject, WithThreadsSubject
from distributed.worlds import CALLS, Route, same_replies
from hyrecall.distributed import Placement, ShardedIndex
from laws.checks import LawBroken, tied_mix
from laws.effort import Effort
from laws.engine import EngineSubject
from seams import LocalShard, ShardGeneration, ShardRouter, joined_alone, routing
from seams import parts_Counts as Counts


@pytest.mark.slow
def test_random_tables_and_calls(effort: Effort) -> None:
    n = effort.cases(quick=24, full=400)
    assert same_replies(range(n), route=placed_index) == n * CALLS


@pytest.mark.slow
def test_after_deletes(effort: Effort) -> None:
    n = effort.cases(quick=8, full=200)
    assert same_replies(range(1000, 1000 + n), deletes=True, route=placed_index) == n * CALLS


@pytest.mark.slow
def test_where_nearly_everything_ties(effort: Effort) -> None:
    n = effort.cases(quick=8, full=200)
    assert same_replies(range(2000, 2000 + n), mix=tied_mix, route=placed_index) == n * CALLS


@pytest.mark.plain_cases(1)
@pytest.mark.parametrize("subject", [AroundSubject, WithThreadsSubject, ExactSubject])
def test_threads_recipes_and_whole_texts(subject: type[EngineSubject], effort: Effort) -> None:
    n = effort.cases(quick=12, full=200)
    assert same_replies(range(4000, 4000 + n), subject, route=placed_index) == n * CALLS


@pytest.mark.plain_cases(2)
@pytest.mark.parametrize(
    "subject", [EngineSubject, AroundSubject, WithThreadsSubject, ExactSubject]
)
def test_only_what_one_index_refuses_is_asked_whole(
    subject: type[EngineSubject], monkeypatch: pytest.MonkeyPatch
) -> None:
    split = whole = 0
    answer_whole, answer_routed = ShardGeneration._answer_whole, ShardGeneration._answer_routed

    def routed(*given: Any) -> Any:
        nonlocal split
        hits = answer_routed(*given)
        split += hits is not None
        return hits

    def asked_whole(self: ShardGeneration, request: Any, *given: Any) -> Any:
        nonlocal whole
        hits = answer_whole(self, request, *given)
        assert self.router is not None
        routes = self.router.routes(request)
        whole += routes is None or routes.is_split
        return hits

    monkeypatch.setattr(ShardGeneration, "_answer_routed", routed)
    monkeypatch.setattr(ShardGeneration, "_answer_whole", asked_whole)
    same_replies(range(12), subject, route=placed_index)
    assert split > 25
    assert whole == 0, "an answer that could have been routed"


def by(router: type[ShardRouter]) -> Route:
    def make(
        shards: Sequence[hr.Index], placement: Placement, kind: type[LocalShard]
    ) -> ShardedIndex:
        index = placed_index(shards, placement, kind)
        index._generations.current.router = router(placement, shards[0]._facts.cell_types)
        return index

    return make


@pytest.mark.slow
@pytest.mark.parametrize("bug", ROUTERS)
def test_a_planted_router_is_seen(bug: type[ShardRouter]) -> None:
    with pytest.raises(LawBroken, match="against"):
        same_replies(range(40), route=by(bug))


def _own_counts(parts: Any) -> Any:
    """Let each shard score with its own counts."""
    summed, shares = routing_sums(parts)
    own = [counted.runs for counted, _ in parts]
    return summed, [replace(one, runs=runs) for one, runs in zip(shares, own, strict=True)]


def _shifted(part: Any, share: Any, sees: Any, likes: Any) -> Any:
    """Give the lists of each query to the next one."""
    queries = (share.queries + 1) % share.n_queries
    order = np.argsort(queries)
    if not np.array_equal(order, np.arange(len(order))):
        return routing_spread(part, share, sees, likes)
    return routing_spread(part, type(share)(queries, share.n_queries, share.recipes), sees, likes)


def _swapped(parts: Any) -> Any:
    """Take the lists of one shard's queries for those of another's."""
    shares = [share for _, share in parts]
    for at in range(1, len(parts)):
        one, other = shares[at - 1], shares[at]
        both = np.sort(np.concatenate([one.queries, other.queries]))
        n = len(other.queries)
        first, last = both[:n], both[n:]
        if np.array_equal(last, one.queries):
            first, last = both[-n:], both[:-n]
        shares[at - 1], shares[at] = replace(one, queries=last), replace(other, queries=first)
    return joined_alone([(part, share) for (part, _), share in zip(parts, shares, strict=True)])


routing_sums, routing_spread = routing.sum_shares, routing.spread_part


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "bug"),
    [("sum_shares", _own_counts), ("spread_part", _shifted), ("joined_alone", _swapped)],
)
def test_a_planted_share_is_seen(name: str, bug: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, name, bug)
    with pytest.raises(LawBroken, match="against"):
        same_replies(range(40), route=placed_index)


# ---- a text that one shard of several refuses ----

WIDE = " ".join(f"a{at:04}" for at in range(1_025))  # more terms than a prefix may stand for


@pytest.fixture(scope="module")
def one_and_shards() -> tuple[hr.Index, ShardedIndex]:
    """Only the shard of ann's rows refuses to search the prefix "a"."""
    table = pa.table({
        "id": [0, 1, 2, 3], "user": ["ann", "bob", "ann", "bob"],
        "text": [WIDE, "apple oak", "oak", "oak oak"],
        "vector": pa.array([[1, 0], [0, 1], [3, 4], [4, 3]], pa.list_(pa.float32(), 2)),
    })  # fmt: skip
    schema = hr.Schema(key="id", cell="user", text="text", vector="vector")

    def build(rows: pa.Table, first_seq: int) -> hr.Index:
        return hr.Index.build(rows, schema, device="cpu", first_seq=first_seq)

    placement = placement_of(table, schema, 2)
    shards = placed_shards(table, schema, build, placement, 2)
    assert [len(one) for one in shards] == [2, 2]
    return build(table, 0), placed_index(shards, placement)


def refused_by_one_shard(index: Any) -> tuple[pa.Table, tuple[str, ...]]:
    both = hr.Scope(["ann", "bob"])
    hits = index.recall(
        text=[hr.Prefix("a"), hr.Prefix("a"), "oak", hr.Any("oak", hr.Prefix("a"))],
        vectors=np.ones((4, 2), np.float32), scope=[both, "bob", both, both],
    )  # fmt: skip
    return hits.to_arrow(), hits.trace.degraded


def test_a_text_that_one_shard_refuses_is_not_searched_in_any(
    one_and_shards: tuple[hr.Index, ShardedIndex], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, shards = one_and_shards
    expected = refused_by_one_shard(one)
    assert [told[:8] for told in expected[1]] == ["text[0] ", "text[3] "]
    monkeypatch.delattr(ShardGeneration, "_answer_whole")  # the batch is split
    assert refused_by_one_shard(shards) == expected
    monkeypatch.setattr(Counts, "without", lambda self, _: self)  # the other shard's counts stay
    with pytest.raises(AttributeError, match="_answer_whole"):
        refused_by_one_shard(shards)
