"""The options with which a store is opened."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from hyrecall.ask.recipe import Recipe
from hyrecall.base.arguments import as_int, number, read_path
from hyrecall.base.progress import ProgressFunction
from hyrecall.base.remote_mark import replica_mark
from hyrecall.base.runtime import check_device
from hyrecall.embed.choose import AUTO, Given
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.memory.data.fields import flag
from hyrecall.memory.data.sessions import SessionTracker
from hyrecall.text.analyzer import Analyzer

__all__ = ["SECONDS", "Clock", "StoreOptions"]

MOST_DIM = 65_536

SECONDS = "seconds in [0, 86400]"

Clock = Callable[[], datetime]


@dataclass(frozen=True, kw_only=True)
class StoreOptions:
    """How a store is opened; see :meth:`hyrecall.memory.Memory.open`."""

    recipe: Recipe | None = None
    analyzer: Analyzer | str | None = None
    embedder: Given = AUTO
    dim: int | None = None
    read_only: bool | None = None
    shared: bool = True
    wait: float = 0.0
    owner_timeout: float = 10.0
    accept_loss: bool = False
    recall_timeout: float | None = None
    write_timeout: float | None = None
    sessions: SessionTracker | None = None
    snapshot_every: int = 10_000
    device: str = "cpu"
    threads: int | None = None
    progress: ProgressFunction | None = None
    warm: bool = True
    clock: Clock | None = None

    def __post_init__(self) -> None:
        """Check the options that no other module checks."""
        if self.recipe is not None and not isinstance(self.recipe, Recipe):
            raise error(DTypeError, "recipe", "an hr.Recipe", type(self.recipe).__name__)
        if self.sessions is not None and not isinstance(self.sessions, SessionTracker):
            wish = "an object with session and record"
            raise error(DTypeError, "sessions", wish, type(self.sessions).__name__)
        if self.clock is not None and not callable(self.clock):
            wish = "a function that returns a datetime"
            raise error(DTypeError, "clock", wish, type(self.clock).__name__)
        flag("warm", self.warm)
        if self.read_only is not None:
            flag("read_only", self.read_only)
        flag("shared", self.shared)
        for name in ("wait", "owner_timeout", "recall_timeout", "write_timeout"):
            value = getattr(self, name)
            if value is not None or name in ("wait", "owner_timeout"):
                number(name, value, 0.0, 86_400.0, SECONDS)
        dim = as_int(self.dim)
        if self.dim is not None and (dim is None or not 1 <= dim <= MOST_DIM):
            raise error(OptionError, "dim", f"an int from 1 to {MOST_DIM}", repr(self.dim))
        every = as_int(self.snapshot_every)
        if every is None or every < 1:
            raise error(OptionError, "snapshot_every", "an int >= 1", repr(self.snapshot_every))
        check_device(self.device)

    def at(self, path: str | os.PathLike[str]) -> StoreOptions:
        """Return the options for a folder: a replica is opened for reading, if nothing is said."""
        if self.read_only:
            return self  # whatever the folder is, and whatever became of its file REMOTE
        mark = replica_mark(read_path(path))
        if mark is not None and self.read_only is False:
            got = f"False, and the folder is a replica of {mark.noted[-1].url}"
            remedy = "read_only=True, or hyrecall.replicas.promote(path)"
            raise error(OptionError, "read_only", "True for a replica", got, remedy)
        return replace(self, read_only=mark is not None or bool(self.read_only))
