"""Reads an export of mem0: the JSON of ``get_all``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hyrecall.errors import OptionError, error
from hyrecall.migrate.records import Options, Record, Source, read_json

_OWNERS = ("user_id", "agent_id", "run_id")
# Fields beside the metadata that come along in it.
_KEPT = (
    *("agent_id", "actor_id", "role", "attributed_to", "categories", "updated_at"),
    "expiration_date",
)
_KNOWN = {"id", "memory", "metadata", "created_at", "user_id", "run_id", *_KEPT}


@contextmanager
def read(path: Path, options: Options) -> Iterator[Source]:
    """Read a list of memories, or the object with ``results`` that ``get_all`` returns."""
    # ``memory`` is the text, ``created_at`` the time and ``run_id`` the session. An export has no
    # vectors. The user is named by the field user_id, agent_id or run_id. ``get_all`` returns 20
    # memories unless its ``top_k`` says more.
    del options  # it has no fields to choose from
    found = read_json(path, "get_all of mem0")
    whole = found if isinstance(found, Mapping) else {"results": found}
    results = whole.get("results")
    if not isinstance(results, list) or not all(isinstance(one, Mapping) for one in results):
        raise error(OptionError, "path", "a list of memories of mem0, or its results", "others")
    relations = whole.get("relations")
    others = {"relations": len(relations) if isinstance(relations, list) else 0}
    if whole.get("next"):
        others["further pages of the export (next)"] = 1
    dropped = {name: n for name, n in others.items() if n}
    yield Source("mem0", len(results), iter([_record(one) for one in results]), dropped)


def _record(one: Mapping[str, Any]) -> Record:
    given = one.get("metadata") or {}
    own = given if isinstance(given, Mapping) else {}
    beside = {name: one[name] for name in _KEPT if one.get(name) is not None and name not in own}
    lost = [name for name in one if name not in _KNOWN and one[name] is not None]
    lost += [name for name in _KEPT if one.get(name) is not None and name in own]
    lost += ["metadata"] if own is not given else []
    return Record(
        id=one.get("id"),
        text=one.get("memory"),
        metadata={**own, **beside},
        names={name: one[name] for name in _OWNERS if one.get(name) is not None},
        created_at=one.get("created_at"),
        session_id=one.get("run_id"),
        dropped=tuple(lost),
    )
