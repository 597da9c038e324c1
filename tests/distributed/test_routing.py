"""Shards that are asked only what they may hold reply as one index does, bit for bit (L4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from distributed.placed import placed_index, placed_shards, placement_of
from distributed.placement import WireShard
from distributed.planted_routers import ROUTERS
from distributed.subjects import AroundSubject, ExactSubject, WithThreadsSubject
from distributed.worlds import CALLS, Route, same_replies
from hyrecall.distributed import Placement, ShardedIndex
from laws.checks import LawBroken, tied_mix
from laws.effort import Effort
from laws.engine import EngineSubject
from seams import LocalShard, OpenShards, ShardRouter
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


def by(router: type[ShardRouter]) -> Route:
    def make(
        shards: Sequence[hr.Index], placement: Placement, kind: type[LocalShard]
    ) -> ShardedIndex:
        index = placed_index(shards, placement, kind)
        known = router(placement, shards[0]._facts.cell_types)
        index._now = replace(index._now, router=known)
        return index

    return make


@pytest.mark.slow
@pytest.mark.parametrize("bug", ROUTERS)
def test_a_planted_router_is_seen(bug: type[ShardRouter]) -> None:
    with pytest.raises(LawBroken, match="against"):
        same_replies(range(40), route=by(bug))


# ---- a word that one shard of several would cut ----

WIDE = " ".join(f"a{at:04}" for at in range(1_025))  # more terms than a prefix may stand for


@pytest.fixture(scope="module")
def one_and_shards() -> tuple[hr.Index, list[ShardedIndex]]:
    """Only the shard of ann's rows has too many terms with the prefix "a"."""
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
    kinds = (WireShard, LocalShard)
    return build(table, 0), [placed_index(shards, placement, kind) for kind in kinds]


def cut_by_one_shard(index: Any) -> tuple[pa.Table, tuple[str, ...]]:
    both = hr.Scope(["ann", "bob"])
    hits = index.recall(
        text=[hr.Prefix("a"), hr.Prefix("a"), "oak", hr.Any("oak", hr.Prefix("a"))],
        vectors=np.ones((4, 2), np.float32), scope=[both, "bob", both, both],
    )  # fmt: skip
    return hits.to_arrow(), hits.trace.notes


def test_a_word_that_one_shard_would_cut_is_cut_in_all(
    one_and_shards: tuple[hr.Index, list[ShardedIndex]], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, (shards, joined) = one_and_shards
    expected = cut_by_one_shard(one)
    assert [told[:8] for told in expected[1]] == ["text[0] ", "text[3] "]
    assert cut_by_one_shard(shards) == expected
    assert cut_by_one_shard(joined) == expected
    monkeypatch.setattr(Counts, "chosen", lambda *_: [])  # each shard cuts by its own counts
    assert cut_by_one_shard(shards)[0] != expected[0]


def test_a_word_that_no_shard_alone_would_cut_is_cut_by_the_counts_of_all() -> None:
    def text(first: int) -> str:
        return " ".join(f"a{at:04}" for at in range(first, first + 600))

    users = ["ann", "bob", "ann", "bob"]
    texts = [text(0), text(600), text(200), "a1100 a1101 apple"]
    table = pa.table({"id": list(range(4)), "user": users, "text": texts})
    schema = hr.Schema(key="id", cell="user", text="text")

    def build(rows: pa.Table, first_seq: int) -> hr.Index:
        return hr.Index.build(rows, schema, device="cpu", first_seq=first_seq)

    placement = placement_of(table, schema, 2)
    shards = placed_index(placed_shards(table, schema, build, placement, 2), placement, WireShard)
    asked: Any = {"text": [hr.Prefix("a"), hr.Fuzzy("a11", 2)], "scope": hr.Scope(["ann", "bob"])}
    one, several = build(table, 0).recall(**asked), shards.recall(**asked)
    assert several.to_arrow() == one.to_arrow()
    assert several.trace.notes == one.trace.notes
    assert [told[:8] for told in one.trace.notes] == ["text[0] "]


class Asked(LocalShard):
    """A shard that notes what it is asked."""

    seen: list[str]

    def statistics(self, request: Any) -> Any:
        vars(self).setdefault("seen", []).append(request.given["text"])
        return super().statistics(request)


def test_only_shards_that_a_query_needs_are_asked() -> None:
    users = [f"u{at}" for at in range(8)]
    table = pa.table({"id": list(range(8)), "user": users, "text": ["tea"] * 8})
    schema = hr.Schema(key="id", cell="user", text="text")

    def build(rows: pa.Table, first_seq: int) -> hr.Index:
        return hr.Index.build(rows, schema, device="cpu", first_seq=first_seq)

    placement = placement_of(table, schema, 3)
    index = placed_index(placed_shards(table, schema, build, placement, 3), placement, Asked)
    for scope in (
        ["u0"],
        ["u0", "u3"],
        ["nobody"],
        [hr.Scope([])],
        [hr.Scope.matching(user=hr.ANY)],
    ):
        for one in index.shards:
            vars(one)["seen"] = []
        index.recall(text=["tea"] * len(scope), scope=scope)
        asked = {at for at, one in enumerate(index.shards) if vars(one)["seen"]}
        cells = [one for one in scope if isinstance(one, str)]
        want = {shard for cell in cells for shard in placement.shards_of(cell)}
        if not cells:
            want = {0} if scope == [hr.Scope([])] else {0, 1, 2}
        assert asked == want, scope


# ---- shards in this process are asked as one index ----


def after_each_write() -> list[tuple[pa.Table, pa.Table]]:
    """The replies of one index and of its rows in two shards, after each of several writes."""
    schema = hr.Schema(key="id", cell="user", text="text")

    def rows(first: int) -> pa.Table:
        ids = range(first, first + 4)
        texts = [f"tea {'hot ' * (at % 3)}" for at in ids]
        return pa.table({"id": list(ids), "user": ["ann", "bob"] * 2, "text": texts})

    one = hr.Index.build(pa.concat_tables([rows(0), rows(4)]), schema, device="cpu")
    sharded = ShardedIndex.build([rows(0), rows(4)], schema, device="cpu")
    first, second = (one.index for one in sharded.shards if isinstance(one, LocalShard))
    asked: dict[str, Any] = {"text": ["hot tea"] * 2, "scope": ["ann", hr.Scope(["ann", "bob"])]}
    writes: tuple[Callable[[hr.Index, hr.Index], object], ...] = (
        lambda index, _: index.delete([2], scope="ann"),
        lambda _, other: other.add(rows(8), first_seq=8),
        lambda index, _: index.add(rows(12), first_seq=12),
        lambda _, other: other.compact(),
    )
    out = []
    for write in writes:
        write(one, one)
        write(first, second)
        out.append((one.recall(**asked).to_arrow(), sharded.recall(**asked).to_arrow()))
    return out


def test_they_answer_with_what_they_hold_now(monkeypatch: pytest.MonkeyPatch) -> None:
    for own, sharded in after_each_write():
        assert sharded.equals(own)
    joined = OpenShards.joined

    def kept(self: OpenShards, *given: Any) -> Any:
        known = vars(self).setdefault("kept", joined(self, *given))
        return known

    monkeypatch.setattr(OpenShards, "joined", kept)  # planted: the first state is never renewed
    assert not all(sharded.equals(own) for own, sharded in after_each_write())
