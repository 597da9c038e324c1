"""Imports the names of a module when they are first used (PEP 562)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

is_brief = False
"""Whether this process makes one search and ends: models of pydantic are then built when used."""


def lazily(
    package: str, homes: Mapping[str, tuple[str, ...]], modules: tuple[str, ...] = ()
) -> Callable[[str], Any]:
    """Return the function ``__getattr__`` of a package."""
    # A type checker must know the same names by imports of its own, under ``TYPE_CHECKING``.
    # A home is a module of the package, or any by its full name.
    full = {home: home if home.startswith("hyrecall.") else f"{package}.{home}" for home in homes}
    home_of = {name: full[home] for home, names in homes.items() for name in names}

    def give(name: str) -> Any:
        if name in modules:
            return import_module(f"{package}.{name}")
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(home_of[name]), name)
        setattr(sys.modules[package], name, found)  # found there from now on
        return found

    return give
