"""Why shards are lost: the messages of replies without them, and the error if no shard answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from hyrecall.errors import CorruptIndexError, ShardLostError, error

__all__ = ["Fault", "all_lost", "told_of"]

Fault: TypeAlias = ShardLostError | CorruptIndexError
"""Why a shard has no answer; the reply then comes from the other shards."""


def told_of(lost: Mapping[str, Fault]) -> list[str]:
    """Return the messages about lost shards for ``degraded``."""
    told = {name: _why_lost(fault) for name, fault in lost.items()}
    return [f"{name}: its documents are missing ({why})" for name, why in told.items()]


def all_lost(faults: Iterable[Fault]) -> Fault:
    """Return the error of a call that no shard answers: CorruptIndexError if all are damaged."""
    faults = list(faults)
    if faults and all(isinstance(one, CorruptIndexError) for one in faults):
        return faults[0]
    got = "; ".join(map(_why_lost, faults))
    return error(ShardLostError, "shards", "an answer of at least one", got)


def _why_lost(fault: Fault) -> str:
    """Return why the documents of a shard are missing."""
    return f"its files are damaged: {fault}" if isinstance(fault, CorruptIndexError) else str(fault)
