"""Shards that are lost after some answers of a recall with tags and graphs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

import hyrecall as hr
from distributed.placed import all_in_turn
from distributed.test_tags import built, chain
from hyrecall.arms import Tags
from hyrecall.distributed import Part, Request, ShardedIndex, Statistics
from hyrecall.errors import CorruptIndexError, ShardLostError, error
from laws.engine import ipc_bytes
from seams import LocalShard, Looking, Lookup, LookupAnswer, ShardRouter

MANY = 99  # more questions than a recall has


class Ending(LocalShard):
    """A shard that answers a number of questions, and then none any more."""

    left = MANY
    fault: type[ShardLostError | CorruptIndexError] = ShardLostError

    def _ask(self) -> None:
        if not self.left:
            raise error(self.fault, self.name, "an answer", "none")
        self.left -= 1

    def statistics(self, request: Request) -> Statistics:
        self._ask()
        return self.index.statistics(request)

    def candidates(self, request: Request, statistics: Statistics) -> Part:
        self._ask()
        return self.index.candidates(request, statistics)

    def alone(self, request: Request) -> Part:
        self._ask()
        return self.index.candidates(request, self.index.statistics(request))

    def lookup(self, lookup: Lookup) -> LookupAnswer:
        self._ask()
        return super().lookup(lookup)


@cache  # a recall changes nothing in it
def index_of_rows(owners: tuple[str, ...], first: int, n: int) -> hr.Index:
    return built(chain(*owners).slice(first, n), first)


def ending(lefts: list[int], fault: type[ShardLostError | CorruptIndexError]) -> ShardedIndex:
    """Return shards of two documents each, whose tags lead from a shard to the next."""
    owners = ("ann",) * 2 * len(lefts)
    shards = []
    for at, left in enumerate(lefts):
        shards.append(Ending(f"shard {at}", index_of_rows(owners, 2 * at, 2)))
        shards[-1].left, shards[-1].fault = left, fault
    return ShardedIndex(shards)


GIVEN: dict[str, Any] = {
    "text": {"tags": ["t0"]}, "scope": "ann", "arms": Tags("tags", depth=5),
    "expansion": hr.SharedTags("tags"), "limit": 2,
}  # fmt: skip


def pieces(hits: hr.Hits) -> list[Any]:
    """Return all that a reply says."""
    around = [[hit.context for hit in one] for one in hits]
    related = [one.related for one in hits]
    degraded = [sorted(one.trace.degraded) for one in hits]
    return [ipc_bytes(hits.to_arrow()), around, related, degraded]


N_QUESTIONS = 9  # the named tags, five hops, counts, candidates, the related documents


@pytest.mark.parametrize("left", range(N_QUESTIONS + 1))
def test_the_error_is_the_same_whenever_all_shards_are_damaged(left: int) -> None:
    index = ending([left] * 3, CorruptIndexError)
    if left == N_QUESTIONS:
        assert not index.recall(**GIVEN).degraded
        return
    with pytest.raises(CorruptIndexError, match="expected an answer"):
        index.recall(**GIVEN)


@pytest.mark.parametrize("left", range(N_QUESTIONS))
def test_a_shard_that_is_lost_in_another_way_is_reported_as_lost(left: int) -> None:
    index = ending([left] * 3, CorruptIndexError)
    vars(index.shards[1])["fault"] = ShardLostError
    with pytest.raises(ShardLostError, match="an answer of at least one, got its files are damage"):
        index.recall(**GIVEN)


WORDS: dict[str, Any] = {
    "text": {"tags": ["t0", "t6", None], "text": ["tea", "cake", "rain"], "edges": ["tea"] * 3},
    "scope": [hr.Scope(["ann", "bob"]), "ann", "bob"], "fusion": hr.RRF(), "limit": 20,
}  # fmt: skip
OWNERS = ("ann", "bob", "ann", "bob", "ann", "bob", "ann", "ann", "bob")


GRAPH = hr.GraphSchema(key="id", cell="user", text="label", participants="who")
EDGES = pa.table({
    "id": range(9), "user": OWNERS, "label": ["tea rain"] * 9,
    "who": [[f"d{at}", f"d{(at + 2) % 9}"] for at in range(9)],
})  # fmt: skip


class ByRow(ShardRouter):
    """Knows which shards hold the rows of a user."""

    def _shards(self, scope: object) -> frozenset[int]:
        cells = scope.cells if isinstance(scope, hr.Scope) else [scope]
        return frozenset(at // 3 for at, user in enumerate(OWNERS) if user in str([*cells]))


def reply_of(is_placed: bool, lefts: Sequence[int], *, has_graph: bool) -> hr.Hits:
    """Return the reply of three shards, each of which ends after a number of answers."""
    shards = [Ending(f"shard {at}", index_of_rows(OWNERS, 3 * at, 3)) for at in range(3)]
    index = ShardedIndex(shards)
    if is_placed:
        placement = all_in_turn([("user", "large_string")], 3)
        router = ByRow(placement, shards[0].facts.cell_types)
        index._generations.current.router = router
    arms: list[Any] = [Tags("tags", depth=5)]
    expansion: list[Any] = [hr.SharedTags("tags")]
    given = dict(WORDS)
    if has_graph:
        graph = hr.Graph.build(EDGES, GRAPH, nodes=index)
        arms.append(hr.arms.EdgeLexical(graph))
        expansion.append(hr.Context(graph))
    else:
        given["text"] = {name: one for name, one in given["text"].items() if name != "edges"}
    for shard, left in zip(shards, lefts, strict=True):
        shard.left = left
    return index.recall(**given, arms=arms, expansion=expansion)


def check_lost_shard(which: int, *, is_placed: bool, has_graph: bool) -> None:
    """Compare replies without a shard that ends during a recall, and before it."""

    def reply(left: int) -> hr.Hits:
        lefts = [left if at == which else MANY for at in range(3)]
        return reply_of(is_placed, lefts, has_graph=has_graph)

    want = reply(0)
    assert want.degraded
    assert want.to_arrow().num_rows > 2
    for left in range(1, MANY):
        got = reply(left)
        if not got.degraded:  # it was lost after all questions
            assert left > N_QUESTIONS - 2
            return
        assert pieces(got) == pieces(want), left
    raise AssertionError("a recall that never ends")


@pytest.mark.slow
@pytest.mark.parametrize("has_graph", [False, True])
@pytest.mark.parametrize("is_placed", [False, True])
@pytest.mark.parametrize("which", range(3))
def test_a_reply_has_nothing_of_a_lost_shard(which: int, is_placed: bool, has_graph: bool) -> None:
    check_lost_shard(which, is_placed=is_placed, has_graph=has_graph)


@pytest.mark.parametrize("is_placed", [False, True])
def test_planted_tags_of_a_lost_shard_are_seen(
    monkeypatch: pytest.MonkeyPatch, is_placed: bool
) -> None:
    monkeypatch.setattr(Looking, "has_failed", False)
    with pytest.raises(AssertionError):
        check_lost_shard(1, is_placed=is_placed, has_graph=False)


@pytest.mark.slow
@pytest.mark.parametrize("is_placed", [False, True])
def test_a_recall_that_loses_several_shards_ends(is_placed: bool) -> None:
    chance, n_replies = random.Random(7), 0
    for _ in range(40):
        lefts = [chance.randrange(14) for _ in range(3)]
        try:
            got = reply_of(is_placed, lefts, has_graph=True)
        except ShardLostError:
            continue
        told = " ".join(message for one in got for message in one.trace.degraded)
        n_replies += told.count(":") > 1
        own = [0 if f"shard {at}:" in told else MANY for at in range(3)]
        assert pieces(got) == pieces(reply_of(is_placed, own, has_graph=True)), lefts
    assert n_replies > 3
