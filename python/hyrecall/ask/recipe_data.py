"""Recipes and their parts as plain data for JSON, and as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from hyrecall.errors import DTypeError, HyrecallError, OptionError, error

__all__ = ["from_data", "show", "to_data"]


def _settings(part: Any) -> dict[str, Any]:
    """Return the settings of a part that differ from its defaults."""
    out = {}
    for one in fields(part):
        value = getattr(part, one.name)
        if one.init and value != one.default:
            out[one.name] = value
    return out


def show(part: Any) -> str:
    """Return a part with its settings as one line."""
    given = ", ".join(f"{name}={value!r}" for name, value in _settings(part).items())
    return f"{type(part).__name__}({given})"


def to_data(value: Any) -> Any:
    """Return a part as plain data, in which each part names its kind."""
    if is_dataclass(value) and not isinstance(value, type):
        settings = {name: to_data(one) for name, one in _settings(value).items()}
        return {"kind": type(value).__name__, **settings}
    if isinstance(value, tuple | list):
        return [to_data(one) for one in value]
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise error(DTypeError, "recipe", "plain data (functions cannot be written)", repr(value))


def from_data(data: Any, where: str, known: Mapping[str, type[Any]]) -> Any:
    """Make a part from the result of :func:`to_data`; ``known`` has the kinds by name."""
    if isinstance(data, list):
        return tuple(from_data(one, f"{where}[{at}]", known) for at, one in enumerate(data))
    if not isinstance(data, Mapping):
        return data
    name = data.get("kind")
    kind = known.get(name) if isinstance(name, str) else None
    if kind is None:
        raise error(OptionError, where, f"a kind of {sorted(known)}", repr(data.get("kind")))
    names = {one.name for one in fields(kind) if one.init}
    given = {name: value for name, value in data.items() if name != "kind"}
    for name in given:
        if name not in names:
            raise error(OptionError, where, f"settings of {sorted(names)}", repr(name))
    settings = {name: from_data(value, f"{where}.{name}", known) for name, value in given.items()}
    try:
        return kind(**settings)
    except HyrecallError:
        raise
    except (TypeError, ValueError) as fault:
        raise error(OptionError, where, f"the settings of {kind.__name__}", fault) from None
