"""Shards that are lost after some answers of a recall with tags and graphs."""

from __future__ import annotations

from typing import Any

import pytest

import hyrecall as hr
from distributed.test_tags import built, chain
from hyrecall.arms import Tags
from hyrecall.distributed import Part, Request, ShardedIndex, Statistics
from hyrecall.distributed.shards import LocalShard
from hyrecall.errors import CorruptIndexError, ShardLostError, error
from hyrecall.parts.lookups import Looked, Lookup

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

    def lookup(self, lookup: Lookup) -> Looked:
        self._ask()
        return super().lookup(lookup)


def ending(lefts: list[int], fault: type[ShardLostError | CorruptIndexError]) -> ShardedIndex:
    """Return shards of two documents each, whose tags lead from a shard to the next."""
    table = chain(*["ann"] * 2 * len(lefts))
    shards = []
    for at, left in enumerate(lefts):
        shards.append(Ending(f"shard {at}", built(table.slice(2 * at, 2), 2 * at)))
        shards[-1].left, shards[-1].fault = left, fault
    return ShardedIndex(shards)


GIVEN: dict[str, Any] = {
    "text": {"tags": ["t0"]}, "scope": "ann", "arms": Tags("tags", depth=5),
    "expansion": hr.SharedTags("tags"), "limit": 2,
}  # fmt: skip

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
