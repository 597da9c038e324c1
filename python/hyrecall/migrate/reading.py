"""What readers share: their options, the size of a page, and how one of several names is chosen."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hyrecall.errors import OptionError, error

__all__ = ["PAGE", "Reading", "one_of", "read_json"]

PAGE = 500
"""Records that are read, and written, together."""


@dataclass(frozen=True)
class Reading:
    """What a caller says of the records; a reader takes what its system leaves open."""

    collection: str | None = None
    id_field: str | None = None
    text_field: str | None = None
    vector_field: str | None = None


def one_of(argument: str, names: Sequence[str], given: str | None) -> str:
    """Return the name that was given, or the only one."""
    if given is None and len(names) == 1:
        return names[0]
    if given is None or given not in names:
        told = ", ".join(sorted(names)[:10]) + (", ..." if len(names) > 10 else "")
        got = "none" if given is None else repr(given)
        raise error(OptionError, argument, f"one of {told}" if names else "one", got)
    return given


def read_json(path: Path, what: str) -> Any:
    """Return the content of a file of JSON."""
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as fault:
        raise error(OptionError, "path", f"JSON of {what}", type(fault).__name__) from None
