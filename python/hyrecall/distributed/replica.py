"""The state of one replica of a shard, as its sharded index knows it."""

from __future__ import annotations

from dataclasses import dataclass

from hyrecall.distributed.shards import OpenShard

__all__ = ["Replica"]


@dataclass(eq=False)
class Replica:
    """A replica and its last known state."""

    shard: OpenShard
    number: int
    state: str | None = None  # the name of its last state; None: not known
    stamp: str | None = None  # the saved version that it has loaded
    n_asked: int = 0  # outstanding questions
    last: int = 0  # the number of its last question
    refused: str | None = None  # the saved version that it could not read
    is_lost: bool = False
    is_damaged: bool = False  # its last answer said that its files are damaged
    is_reloading: bool = False

    @property
    def fails(self) -> bool:
        """Whether it did not answer its last question."""
        return self.is_lost or self.is_damaged

    def is_due(self, stamp: str | None) -> bool:
        """Whether it should load a saved version, which it has not found damaged before."""
        # A replica that found damage after it opened a version tries again: the read may
        # have failed
        # only once.
        is_behind = self.is_damaged or self.stamp != stamp
        return self.is_lost or (is_behind and (stamp is None or self.refused != stamp))
