"""Modules whose names are imported when they are first asked for (PEP 562)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["lazily"]


def lazily(
    package: str, homes: Mapping[str, tuple[str, ...]], modules: tuple[str, ...] = ()
) -> Callable[[str], Any]:
    """Return the function ``__getattr__`` of a package.

    A type checker must know the same names by imports of its own, under ``TYPE_CHECKING``.

    Parameters
    ----------
    package : str
        Its ``__name__``.
    homes : mapping of str to tuple of str
        Modules of the package, with the names that are found there.
    modules : tuple of str, default ()
        Modules of the package that are found as its attributes.
    """
    home_of = {name: f"{package}.{home}" for home, names in homes.items() for name in names}

    def give(name: str) -> Any:
        if name in modules:
            return import_module(f"{package}.{name}")
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(home_of[name]), name)
        setattr(sys.modules[package], name, found)  # found there from now on
        return found

    return give
