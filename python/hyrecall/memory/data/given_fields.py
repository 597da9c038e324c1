"""Fields of memories as keywords of a call: their types, and errors that name the wrong one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, TypedDict, TypeVar

from pydantic import BaseModel, ValidationError

from hyrecall.base.keywords import unknown_option
from hyrecall.errors import DTypeError, HyrecallError, OptionError, error
from hyrecall.memory.data.types import Visibility

__all__ = ["Changes", "EpisodeFields", "OwnFields", "checked"]

Model_ = TypeVar("Model_", bound=BaseModel)

_WISHES = {"recursion_loop": "JSON of at most 64 levels", "tuple_type": "a list of strings"}
"""What is expected where pydantic's own words would mislead, by its name of the fault."""


class _Fields(TypedDict, total=False):
    input: str
    kind: str
    source: str | None
    session_id: str | None
    occurred_at: datetime
    created_at: datetime
    importance: float | None
    pinned: bool
    tags: Iterable[str]
    metadata: Mapping[str, Any]


class OwnFields(_Fields, total=False):
    """Fields of an episode beside its text, but for those that say whose it is."""

    id: str


class EpisodeFields(OwnFields, total=False):
    """Fields of an :class:`hyrecall.memory.Episode` beside its ``output``."""

    user_id: str | None
    org: str | None
    workspace: str | None
    visibility: Visibility


class Changes(_Fields, total=False):
    """Fields that an update may change; ``valid_to`` is that of a fact."""

    output: str
    valid_to: datetime | None
    visibility: Visibility


def checked(kind: type[Model_], fields: Mapping[str, Any]) -> Model_:
    """Make a model of fields, with errors that name the wrong field."""
    try:
        return kind.model_validate(dict(fields))
    except ValidationError as fault:
        raise _named(fault, kind, fields) from None


def _named(
    fault: ValidationError, kind: type[BaseModel], fields: Mapping[str, Any]
) -> HyrecallError:
    """Return the first fault as an error of this package."""
    first = fault.errors(include_url=False)[0]
    own = first.get("ctx", {}).get("error")
    if isinstance(own, HyrecallError):
        return own
    place, what = first["loc"], first["type"]
    if what == "extra_forbidden":
        return unknown_option(kind.__name__, [str(place[0])], list(kind.model_fields))
    argument = str(place[0]) if place else "fields"
    if argument == "occurred_at" and argument not in fields:
        argument = "created_at"  # two names of one time
    argument += f"[{place[1]}]" if len(place) > 1 and isinstance(place[1], int) else ""
    if what == "missing":
        return error(OptionError, argument, "a value", "none")
    is_json = "JSON" in first["msg"]
    told = "JSON" if is_json else first["msg"].removeprefix("Input should be ")
    wish = _WISHES.get(what, told)
    value = first["input"]
    is_plain = value is None or isinstance(value, bool | int | float) or what == "literal_error"
    got = f"{value!r:.80}" if is_plain else type(value).__name__
    return error(
        DTypeError if is_json or what.endswith("_type") else OptionError, argument, wish, got
    )
