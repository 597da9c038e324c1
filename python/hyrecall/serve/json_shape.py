"""Checks the depth of JSON before it is parsed, and refuses repeated names.

A parser that meets too many levels gives up or overflows, and of a name that stands twice in an
object it keeps one value.
"""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
from starlette.exceptions import HTTPException

# A string that does not end takes all that follows it, so that no character is read twice.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)


def is_json(media_type: str) -> bool:
    """Say whether a body of this media type may be parsed as JSON; upper case means the same."""
    return "json" in media_type.lower()


def is_deeper(body: bytes, media_type: str, most: int) -> bool:
    """Say whether lists and objects of a body lie more than so deep in each other."""
    # Most bodies open fewer of them than that at all, which is counted in a microsecond.
    n_opened = body.count(b"[") + body.count(b"{")
    return n_opened > most and n_levels(body, media_type) > most


def n_levels(body: bytes, media_type: str) -> int:
    """Return how deep lists and objects of a body lie in each other; 0 of a body that is no
    JSON.
    """
    # The body is UTF-8: in UTF-16 a byte of another character may look like a quote or a bracket.
    if not body or not is_json(media_type):
        return 0
    rest = np.frombuffer(_STRING.sub(b"", body), np.uint8)
    steps = np.zeros(len(rest), np.int8)
    steps[(rest == ord("[")) | (rest == ord("{"))] = 1
    steps[(rest == ord("]")) | (rest == ord("}"))] = -1
    return int(np.cumsum(steps, dtype=np.int32).max(initial=0))


def read_json(body: bytes | str) -> Any:
    """Parse JSON."""
    return json.loads(body, object_pairs_hook=_object)


def check_message(body: bytes) -> None:
    """Refuse a message of MCP in which a name stands twice, or whose id nobody would answer."""
    # Anything but a message is left to the SDK, which takes a request with another id than a string
    # or an integer for a notification.
    try:
        found = read_json(body)
    except (ValueError, RecursionError):
        return
    if not isinstance(found, dict) or "method" not in found or "id" not in found:
        return
    number = found["id"]
    if isinstance(number, bool) or not isinstance(number, str | int):
        raise HTTPException(422, "id: expected a string or an integer")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise HTTPException(422, f"{twice:.80}: expected once")
    return made
