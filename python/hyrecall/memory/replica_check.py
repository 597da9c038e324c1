"""The check of ``doctor`` that says how old a replica is."""

from __future__ import annotations

import json
from collections.abc import Iterator

from hyrecall.base.remote_mark import MARK, replica_mark
from hyrecall.errors import CorruptRemoteError
from hyrecall.memory.sql.doctor import Check
from hyrecall.memory.store import Store

__all__ = ["replica_checks"]


def replica_checks(store: Store) -> Iterator[Check]:
    """Tell which pushed generation a replica holds, and how many seconds ago it was published."""
    folder = store.database.folder
    try:
        mark = None if folder is None else replica_mark(folder)
    except CorruptRemoteError as fault:
        yield Check("replica", False, str(fault))
        return
    if mark is None:
        return
    noted = mark.holds(str(store.database.sequence()))
    if noted is None:
        yield Check("replica", False, f"{MARK} does not name the state that the database has")
        return
    age = (store.now() - noted.pushed).total_seconds()
    told = {"url": noted.url, "generation": noted.number, "pushed_at": noted.pushed_at, "age": age}
    yield Check("replica", True, json.dumps(told))
