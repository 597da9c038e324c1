"""Checks sizes of a call's arguments against the service's options, and shows them in schemas.

The same options hold for messages over stdio, which no guard stands before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from hyrecall.errors import OptionError, error
from hyrecall.serve.options import ServiceOptions

__all__ = ["LIMITS", "check_page", "check_shape", "kinds_of", "show_sizes", "with_defaults"]

Arguments_ = TypeVar("Arguments_", bound=BaseModel)

LIMITS: Final = ("limit", "max_results", "top_k")
"""How tools name the number of memories that they return at most."""

_AROUND: Final = 2
"""Levels of JSON around the arguments of a call: the message and its parameters."""


def check_shape(options: ServiceOptions, given: Mapping[str, Any]) -> None:
    """Refuse arguments with too many levels, or a list with too many entries.

    Raises
    ------
    OptionError
        The argument is named.
    """
    for name, value in given.items():
        most = options.max_levels - _AROUND - 1
        rest = [(value, 1)]
        while rest:
            one, level = rest.pop()
            if not isinstance(one, dict | list):
                continue
            if level > most:
                wish = f"a message of at most {options.max_levels} levels of JSON"
                raise error(OptionError, name, wish, "more")
            if len(one) > options.max_ids:
                wish = f"at most {options.max_ids} entries in a list"
                raise error(OptionError, name, wish, len(one))
            inner = one.values() if isinstance(one, dict) else one
            rest.extend((part, level + 1) for part in inner)


def check_page(options: ServiceOptions, given: object) -> None:
    """Refuse a query that is too long, or a page that is too large or too far down.

    Raises
    ------
    OptionError
        The argument is named.
    """
    query = getattr(given, "query", "")
    n_bytes = len(query.encode("utf-8", "surrogatepass"))
    if n_bytes > options.max_query:
        raise error(OptionError, "query", f"at most {options.max_query} bytes", n_bytes)
    offset = getattr(given, "offset", 0)
    for name in LIMITS:
        limit = getattr(given, name, 0)
        if limit > options.max_limit:
            raise error(OptionError, name, f"<= {options.max_limit}", limit)
        if limit + offset > options.max_limit:
            wish = f"{name} + offset <= {options.max_limit}"
            raise error(OptionError, "offset", wish, limit + offset)


def with_defaults(options: ServiceOptions, given: Arguments_) -> Arguments_:
    """Return arguments whose page is not larger than the options allow where nobody named one."""
    room = max(1, options.max_limit - getattr(given, "offset", 0))
    lowered = {
        name: room
        for name in LIMITS
        if name not in given.model_fields_set and getattr(given, name, 0) > room
    }
    return given.model_copy(update=lowered) if lowered else given


def show_sizes(options: ServiceOptions, schema: dict[str, Any]) -> None:
    """Add to the schema of a tool's arguments what the options allow."""
    for name, one in schema["properties"].items():
        for kind in kinds_of(one):
            if name == "query":
                kind["maxLength"] = options.max_query
            if name in LIMITS:
                _lower(kind, "maximum", options.max_limit)
                _lower(one, "default", options.max_limit)
            if name == "offset":
                kind["maximum"] = options.max_limit - 1
            if kind.get("type") == "array":
                _lower(kind, "maxItems", options.max_ids)


def kinds_of(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the schemas that a value may have: those of ``anyOf``, or the one."""
    found: list[dict[str, Any]] = schema.get("anyOf", [schema])
    return found


def _lower(schema: dict[str, Any], name: str, most: int) -> None:
    schema[name] = min(schema.get(name, most), most)
