"""Shards that are lost before, between or after the two questions of a recall."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import hyrecall as hr
from distributed.placement import LocalShard
from hyrecall.distributed import Part, Request, ShardedIndex, Statistics
from hyrecall.errors import CorruptIndexError, ShardLostError, error

SCHEMA = hr.Schema(key="id", cell="user", text="text")
GIVEN: dict[str, Any] = {"text": ["tea"], "scope": "ann"}
N_QUESTIONS = 2


class Ending(LocalShard):
    """A shard that answers a number of questions, and then none any more."""

    left = N_QUESTIONS
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


def ending(lefts: list[int], fault: type[ShardLostError | CorruptIndexError]) -> ShardedIndex:
    """Return shards of two documents each."""
    shards = []
    for at, left in enumerate(lefts):
        rows = {"id": [f"{at}a", f"{at}b"], "user": ["ann"] * 2, "text": ["tea", "hot tea"]}
        index = hr.Index.build(pa.table(rows), SCHEMA, first_seq=2 * at, device="cpu")
        shards.append(Ending(f"shard {at}", index))
        shards[-1].left, shards[-1].fault = left, fault
    return ShardedIndex(shards)


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


@pytest.mark.parametrize("left", range(N_QUESTIONS))
def test_a_reply_has_no_document_of_a_lost_shard_and_names_it(left: int) -> None:
    got = ending([N_QUESTIONS, left, N_QUESTIONS], ShardLostError).recall(**GIVEN)
    assert sorted(got[0].keys) == ["0a", "0b", "2a", "2b"]
    (told,) = got.trace.degraded
    assert told.startswith("shard 1: its documents are missing")
