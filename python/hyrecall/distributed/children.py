"""Renews objects in a forked child, where their processes and threads are those of the parent."""

from __future__ import annotations

import os
import weakref
from typing import Protocol

__all__ = ["renew_in_children"]


class _Renewed(Protocol):
    def renew(self) -> None:
        """Drop the parent's processes and threads. Called first in a forked child."""


_known: weakref.WeakSet[_Renewed] = weakref.WeakSet()


def renew_in_children(one: _Renewed) -> None:
    """Call ``one.renew()`` in every child that this process forks while ``one`` lives."""
    _known.add(one)


def _renew() -> None:
    for one in list(_known):
        one.renew()


os.register_at_fork(after_in_child=_renew)
