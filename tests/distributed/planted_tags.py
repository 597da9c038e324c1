"""Planted bugs: tags over shards with one mistake each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import hyrecall as hr
from seams import generations, shard, sharing, tag_lookups, tag_rounds

Patch = pytest.MonkeyPatch


def each_shard_alone(patch: Patch) -> None:
    """A shard follows the tags of its own documents only."""
    patch.setattr(shard, "with_known_tags", lambda plan, told: plan)


def hop_of_one_shard(patch: Patch) -> None:
    """A hop is asked of one shard."""
    follow = tag_rounds.follow_tags
    patch.setattr(
        generations, "follow_tags",
        lambda request, ask, types: follow(request, lambda lookup: ask(lookup)[:1], types),
    )  # fmt: skip


def _group_by(column: str, wrong: str) -> Callable[[Patch], None]:
    def plant(patch: Patch) -> None:
        grouped = tag_rounds._grouped
        patch.setattr(
            tag_rounds, "_grouped",
            lambda found, own, how: grouped(found, own, wrong if own == column else how),
        )  # fmt: skip

    return plant


def scope_of_all(patch: Patch) -> None:
    """Tags are followed through documents outside of the scope."""
    everyone = hr.Scope.matching(user=hr.ANY)
    _audience(patch, lambda lookup: replace(lookup, scope=everyone))


def filter_forgotten(patch: Patch) -> None:
    """Related documents need not pass the filter."""
    _audience(patch, lambda lookup: replace(lookup, filter=None))


def _audience(patch: Patch, spoil: Callable[[Any], Any]) -> None:
    audience = tag_lookups.audience_of
    patch.setattr(
        tag_lookups, "audience_of",
        lambda facts, state, lookup: audience(facts, state, spoil(lookup)),
    )  # fmt: skip


def related_twice(patch: Patch) -> None:
    """A related document is counted twice."""
    find = sharing.find_related

    def twice(reply: Any, part: Any, request: Any, ask: Any) -> Any:
        return find(reply, part, request, lambda lookup: [*ask(lookup), *ask(lookup)])

    patch.setattr(sharing, "find_related", twice)


def hits_returned(patch: Patch) -> None:
    """A hit is its own related document."""
    seqs = sharing.seqs_of
    patch.setattr(sharing, "seqs_of", lambda *places: np.full_like(seqs(*places), -1))


def beside_of_one_shard(patch: Patch) -> None:
    """The tags beside those of the hits are asked of one shard."""
    beside = sharing._TagLookup.beside
    patch.setattr(
        sharing._TagLookup, "beside",
        lambda self, tags: beside(replace(self, ask=lambda one: self.ask(one)[:1]), tags),
    )  # fmt: skip


def ties_turned(patch: Patch) -> None:
    """Of documents that share as many tags, the last one comes first."""
    order = [*sharing._ORDER[:2], ("seq", "descending")]
    patch.setattr(sharing, "_ORDER", order)


PLANTED: dict[str, Callable[[Patch], None]] = {
    "each shard alone": each_shard_alone,
    "a hop of one shard": hop_of_one_shard,
    "counts of the largest shard": _group_by("documents", "max"),
    "the longest way": _group_by("hops", "max"),
    "the scope of all": scope_of_all,
    "the filter forgotten": filter_forgotten,
    "related documents twice": related_twice,
    "hits as related documents": hits_returned,
    "a hop from hits of one shard": beside_of_one_shard,
    "ties of related documents turned": ties_turned,
}
