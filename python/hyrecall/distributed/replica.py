"""What a sharded index knows of one replica of a shard."""

from __future__ import annotations

from dataclasses import dataclass

from hyrecall.distributed.shards import OpenShard

__all__ = ["Replica"]


@dataclass(eq=False)
class Replica:
    """A replica, and what is known of it."""

    shard: OpenShard
    number: int
    state: str | None = None  # the name of the state that it had last; None: not known
    stamp: str | None = None  # the saved version that it has taken up
    n_asked: int = 0  # questions under way
    last: int = 0  # which question was its last
    refused: str | None = None  # the saved version that it could not read
    is_lost: bool = False
    is_damaged: bool = False  # its last answer was that files are damaged
    is_reloading: bool = False

    @property
    def fails(self) -> bool:
        """Whether it had no answer when it was asked last."""
        return self.is_lost or self.is_damaged

    def is_due(self, stamp: str | None) -> bool:
        """Whether it has to take up a saved version, which it has not found damaged before.

        One that met damage after it was opened tries again: a read may have failed in passing.
        """
        is_behind = self.is_damaged or self.stamp != stamp
        return self.is_lost or (is_behind and (stamp is None or self.refused != stamp))
