"""Checks the fields of a memory: ids, texts, times, tags, JSON."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, BeforeValidator, JsonValue, ValidationInfo

from hyrecall.errors import DTypeError, OptionError, error

__all__ = [
    "ANONYMOUS",
    "JsonObject",
    "Label",
    "Name",
    "TagList",
    "Text",
    "Time",
    "User",
    "check_id",
    "check_user",
    "flag",
    "in_utc",
]

ANONYMOUS = "__hyrecall_anonymous__"
"""Stands for ``user_id=None`` where a format has no null; refused as anybody's id."""

_RESERVED = (ANONYMOUS, "__jeeves_anon_user__")
_MOST_ID_BYTES = 512
_MOST_LEVELS = 64  # of metadata: readers of JSON give up at some depth, and this is far from any


def flag(argument: str, value: object) -> bool:
    """Check a bool."""
    if not isinstance(value, bool):
        raise error(DTypeError, argument, "True or False", repr(value))
    return value


def check_id(argument: str, value: object) -> str:
    """Check an id or a name."""
    if not isinstance(value, str):
        raise error(DTypeError, argument, "a str", f"{type(value).__name__} {value!r}")
    n_bytes = len(_check_unicode(argument, value).encode())
    if not value.strip() or "\0" in value or n_bytes > _MOST_ID_BYTES:
        wish = f"1 to {_MOST_ID_BYTES} bytes, not blank, without NUL"
        raise error(OptionError, argument, wish, repr(value[:80]))
    return value


def check_user(argument: str, value: object) -> str | None:
    """Check a user, an org, a workspace or an agent; the empty str is a value of its own."""
    # None is the anonymous bucket, never "all".
    if value is None:
        return None
    if isinstance(value, str) and not value:
        return ""
    user = check_id(argument, value)
    if user in _RESERVED:
        wish = "an id that is not reserved (the anonymous bucket is None)"
        raise error(OptionError, argument, wish, repr(user))
    return user


def in_utc(time: datetime, argument: str = "time") -> datetime:
    """Return a time in UTC; one without a zone is UTC."""
    try:
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except OverflowError:
        raise error(OptionError, argument, "one that UTC has too", time.isoformat()) from None


def _check_unicode(argument: str, value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as fault:
        raise error(OptionError, argument, "valid Unicode", fault.reason) from None
    return value


def _field(info: ValidationInfo) -> str:
    return info.field_name or "field"


def _name(value: object, info: ValidationInfo) -> str:
    return check_id(_field(info), value)


def _label(value: object, info: ValidationInfo) -> str | None:
    return None if value is None else check_id(_field(info), value)


def _user(value: object, info: ValidationInfo) -> str | None:
    return check_user(_field(info), value)


def _text(value: str, info: ValidationInfo) -> str:
    return _check_unicode(_field(info), value)


def _time(value: datetime, info: ValidationInfo) -> datetime:
    return in_utc(value, _field(info))


def _tags(tags: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
    return tuple(dict.fromkeys(check_id(_field(info), tag) for tag in tags))


def _json(value: dict[str, JsonValue], info: ValidationInfo) -> dict[str, JsonValue]:
    """Refuse more than 64 levels, and values that JSON would return as something else."""
    if (levels := _n_levels(value)) > _MOST_LEVELS:
        raise error(OptionError, _field(info), f"at most {_MOST_LEVELS} levels", levels)
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except ValueError as fault:  # a UnicodeEncodeError is one too
        got = "NaN or infinity"
        if isinstance(fault, UnicodeEncodeError):
            got = "a lone surrogate"
        elif "integer string conversion" in str(fault):
            got = f"an int of more than {sys.get_int_max_str_digits():,} digits"
        raise error(OptionError, _field(info), "JSON", got) from None
    return value


def _n_levels(value: JsonValue) -> int:
    """Count the lists and objects that lie in each other."""
    n_levels, level = 0, [value]
    while level := [one for one in level if isinstance(one, dict | list)]:
        n_levels += 1
        level = [
            inner for one in level for inner in (one.values() if isinstance(one, dict) else one)
        ]
    return n_levels


Name: TypeAlias = Annotated[str, BeforeValidator(_name)]
"""1 to 512 bytes, not blank."""

Label: TypeAlias = Annotated[str | None, BeforeValidator(_label)]
"""A :data:`Name`, or None."""

User: TypeAlias = Annotated[str | None, BeforeValidator(_user)]
"""Whose it is, or a part of the partition around: see :func:`check_user`."""

Text: TypeAlias = Annotated[str, AfterValidator(_text)]
"""Any text that UTF-8 can hold."""

Time: TypeAlias = Annotated[datetime, AfterValidator(_time)]
"""A time in UTC; naive ones are."""

TagList: TypeAlias = Annotated[tuple[str, ...], AfterValidator(_tags)]
"""Names, each once, in the order given."""

JsonObject: TypeAlias = Annotated[dict[str, JsonValue], AfterValidator(_json)]
"""What JSON can hold and give back as it was."""
