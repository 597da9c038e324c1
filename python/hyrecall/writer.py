"""When segments are put together. The order of segments never shows in a reply; only cost depends on it."""

from __future__ import annotations

from collections.abc import Sequence

from hyrecall import _core
from hyrecall.schema import Schema
from hyrecall.segments import Segment, merge_segments

__all__ = ["settle"]

TAIL_ROWS = 128
"""Below this a segment is the tail: one row joins it by rebuilding at most this many."""

SEALED_ROWS = 4096
"""From here on segments stand in tiers; below there is the tail and one that collects tails."""

TIER_FACTOR = 8
"""A tier holds fewer than this many segments, each this many times larger than in the tier below."""

DEAD_SHARE = 0.10
"""A segment with more dead rows than this is rewritten: its overlay would outgrow it."""

Pair = tuple[Segment, _core.SegmentView]


def tier(n_rows: int) -> int:
    """Give the tier of a segment: 0 tail, 1 collecting, 2 from 4,096 rows, 3 from 32,768, ..."""
    if n_rows < TAIL_ROWS:
        return 0
    number, bound = 1, SEALED_ROWS
    while n_rows >= bound:
        number, bound = number + 1, bound * TIER_FACTOR
    return number


def settle(pairs: Sequence[Pair], schema: Schema) -> list[Pair]:
    """Merge until every tier is below its number of segments and none carries too many dead.

    At a factor of 8 that is at most 7 segments a tier, the tail and the collecting one: 23 up to
    two million documents.
    """
    held = [pair for pair in pairs if pair[1].n_live > 0]
    while True:
        group = _next_merge(held)
        if not group:
            return held
        merged = merge_segments([s for s, _ in group], [v for _, v in group], schema)
        held = [pair for pair in held if pair not in group]
        held.append((merged, _core.SegmentView(merged.core)))


def _next_merge(pairs: Sequence[Pair]) -> list[Pair]:
    tiers: dict[int, list[Pair]] = {}
    for pair in pairs:
        if pair[1].n_dead > DEAD_SHARE * pair[1].n_rows and pair[1].n_dead > TAIL_ROWS // 2:
            return [pair]
        tiers.setdefault(tier(pair[1].n_live), []).append(pair)
    for number, group in sorted(tiers.items()):
        if len(group) >= (2 if number < 2 else TIER_FACTOR):
            return group
    return []
