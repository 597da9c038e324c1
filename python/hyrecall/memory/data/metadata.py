"""Metadata as tokens that an index compares: each value of a JSON object with its path.

``{"project": "x", "run": {"year": 2024}}`` has tokens for ``project``, ``run`` and ``run.year``. A
token is the path, a letter for the kind of the value, and the value, written so that the tokens of
one path and kind are in the order of their values. A filter on a key of the metadata thus becomes a
filter on the column of tokens.

A long path stands as its hash, or an object with a long key and many values would repeat the key in
every token.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, TypeAlias

from hyrecall.ask.filters import Filter
from hyrecall.ask.predicates import AllOf, Between, IsNull, NoneOf, NotNull, Predicate
from hyrecall.base.arguments import check_unicode, python_scalar
from hyrecall.errors import OptionError, error
from hyrecall.table.attributes import float_code

COLUMN: Final = "metadata"
"""The column of tokens."""

PREFIX: Final = f"{COLUMN}."
"""What the name of a key begins with in a filter."""

_LONGEST_PATH = 128  # characters
_HASHED = "#"  # before the hash of a longer path; other tokens begin with a quote
_HASH_BYTES = 16

_Path: TypeAlias = str | blake2b

_BOOL, _CONTAINER, _NUMBER, _TEXT = "b", "c", "n", "s"
_KINDS = {bool: _BOOL, int: _NUMBER, float: _NUMBER, str: _TEXT, dict: _CONTAINER, list: _CONTAINER}
_DECODER = json.JSONDecoder()
_LOW, _HIGH = "a", "z"  # around the kinds
_COMPLEMENT = str.maketrans("0123456789abcdef", "fedcba9876543210")


def metadata_tokens(kept: str, paths: Collection[str] | None = None) -> list[str]:
    """Return the tokens of metadata as it is kept: a JSON object."""
    # A list has the tokens of its elements, at any depth; a null has none, as a key that is
    # missing.
    if kept == "{}":
        return []
    found = []
    left = [(_path(key), value) for key, value in json.loads(kept).items()]
    while left:
        path, value = left.pop()
        if value is None or (paths is not None and path not in paths):
            continue
        kind = _KINDS[type(value)]
        start = _start(path, kind)
        if kind == _TEXT:
            found.append(start + value)
        elif kind == _NUMBER and value == value:  # noqa: PLR0124 (NaN)
            found.append(start + _number_code(value))
        elif kind == _BOOL:
            found.append(f"{start}{value:d}")
        else:
            found.append(_start(path, _CONTAINER))
        if type(value) is dict:
            left += [(_longer(path, key), one) for key, one in value.items()]
        elif type(value) is list:
            left += [(path, one) for one in value]
    return list(dict.fromkeys(found))


def paths_of(tokens: Iterable[str]) -> set[str] | None:
    """Return the paths of tokens, and all that lead to them; None where one stands as its hash."""
    found = set()
    for token in tokens:
        if token.startswith(_HASHED):
            return None
        parts = _DECODER.raw_decode(token)[0].split(".")
        found |= {".".join(parts[:n]) for n in range(1, len(parts) + 1)}
    return found


def filter_on_key(name: str, test: Predicate) -> Filter:
    """Return the filter on the column of tokens that asks a key of the metadata."""
    check_unicode(name, name)
    path = _path(name.removeprefix(PREFIX))
    if isinstance(test, IsNull | NotNull):
        return ~_is_there(path) if isinstance(test, IsNull) else _is_there(path)
    if isinstance(test, Between):
        return _in_range(name, path, *map(python_scalar, test.values))
    constants = [python_scalar(one) for one in test.values]
    tokens = [_constant(name, path, one) for one in constants if one == one]  # noqa: PLR0124
    if isinstance(test, NoneOf):
        return Filter(**{COLUMN: NoneOf(*tokens)})
    if not isinstance(test, AllOf) or len(tokens) < len(constants):  # nothing equals NaN
        return Filter(**{COLUMN: [] if isinstance(test, AllOf) else tokens})
    return Filter(**{COLUMN: AllOf(*tokens)}) if tokens else _is_there(path)


def _is_there(path: _Path) -> Filter:
    return _between(_start(path, _LOW), _start(path, _HIGH))


def _in_range(name: str, path: _Path, start: Any, end: Any) -> Filter:
    ends = [one for one in (start, end) if one is not None]
    if not ends:
        return _is_there(path)
    tokens = [_constant(name, path, one) for one in ends if one == one]  # noqa: PLR0124
    kinds = {_kind(name, one) for one in ends}
    if len(kinds) > 1 or not kinds <= {_NUMBER, _TEXT}:
        raise error(OptionError, name, "a range of numbers, or of strings", repr((start, end)))
    if len(tokens) < len(ends):  # NaN
        return Filter(**{COLUMN: []})
    kind = kinds.pop()
    low = _start(path, kind) if start is None else tokens[0]
    # No token is this one: it ends where the next kind could begin.
    high = _start(path, chr(ord(kind) + 1)) if end is None else tokens[-1]
    return _between(low, high)


def _between(low: str, high: str) -> Filter:
    return Filter(**{COLUMN: Between(low, high)})


def _kind(name: str, value: Any) -> str:
    for kind in (bool, str, int, float):
        if isinstance(value, kind):
            return _KINDS[kind]
    wish = "a str, bool, int or float (metadata is JSON)"
    raise error(OptionError, name, wish, f"{value!r} ({type(value).__name__})")


def _constant(name: str, path: _Path, value: Any) -> str:
    kind = _kind(name, value)
    if kind == _TEXT:
        check_unicode(name, value)
        return _start(path, kind) + str(value)
    return _start(path, kind) + (f"{value:d}" if kind == _BOOL else _number_code(value))


def _path(text: str) -> _Path:
    """Return a path as it stands in tokens: a long one as the state of its hash."""
    if len(text) <= _LONGEST_PATH:
        return text
    return blake2b(text.encode(), digest_size=_HASH_BYTES)


def _longer(path: _Path, key: str) -> _Path:
    """Return the path of a key in the object at a path."""
    if isinstance(path, str):
        return _path(f"{path}.{key}")
    longer = path.copy()  # reads the key only, however long the path is
    longer.update(f".{key}".encode())
    return longer


def _start(path: _Path, kind: str) -> str:
    return (_quoted(path) if isinstance(path, str) else _HASHED + path.hexdigest()) + kind


@lru_cache(maxsize=4_096)
def _quoted(path: str) -> str:
    # A JSON string says where it ends, so no path is the beginning of another.
    return json.dumps(path, ensure_ascii=False)


@lru_cache(maxsize=4_096)
def _number_code(value: float) -> str:
    """Write a number so that texts are in the order of numbers, ints and floats compared
    exactly.
    """
    # 16 hex digits are the float at or below it; what an int has above that follows, if anything.
    below = _float_below(value)
    if isinstance(value, float) or value == below:
        return _float_text(below)
    if below == -math.inf:
        return _float_text(below) + _magnitude(-value).translate(_COMPLEMENT)
    return _float_text(below) + _magnitude(value - int(below))


def _float_below(value: float) -> float:
    """Return the greatest float that is not above a number."""
    try:
        near = float(value)
    except OverflowError:
        near = math.inf if value > 0 else -math.inf
    # Python compares int with float exactly.
    return near if near <= value else math.nextafter(near, -math.inf)


def _float_text(value: float) -> str:
    return f"{float_code(value) + 2**63:016x}"


def _magnitude(value: int) -> str:
    digits = f"{value:x}"
    return f"{len(digits):08x}{digits}"
