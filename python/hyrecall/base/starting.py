"""What ``import hyrecall`` itself runs: names are imported at their first use (PEP 562).

And SIGTERM ends the ``hyrecall`` command where it is the first process of a container.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
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


def end_at_sigterm() -> None:
    """End process 1 at SIGTERM as any other process ends, if it is the command."""
    # The kernel drops a signal of process 1 that has no handler. So there is one from the first
    # line of ``hyrecall/__init__.py``, before the packages are imported.
    if os.getpid() != 1 or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return
    name = sys.argv[0] if sys.argv else ""
    # While ``python -m hyrecall`` imports the package, "-m" stands for the module's path.
    of_module = name == "-m" and {"hyrecall", "hyrecall.cli"} & set(sys.orig_argv)
    if of_module or Path(name).name == "hyrecall":
        signal.signal(signal.SIGTERM, lambda number, _: os._exit(128 + number))
