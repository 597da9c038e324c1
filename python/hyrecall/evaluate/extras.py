"""Checks for the packages of the extra ``[eval]``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from hyrecall.errors import MissingExtraError, error

__all__ = ["needs_extra", "require_extra"]

_PACKAGES = ("ir_measures", "pytrec_eval", "scipy", "matplotlib")


def require_extra() -> None:
    """Raise at once if a package of the extra is missing, before a long task."""
    for package in _PACKAGES:
        if find_spec(package) is None:
            raise _missing(package)


@contextmanager
def needs_extra() -> Iterator[None]:
    """Turn a failed import in the block into an error with the install command."""
    try:
        yield
    except ModuleNotFoundError as fault:
        raise _missing(fault.name) from None


def _missing(package: str | None) -> MissingExtraError:
    wish = "the extra [eval] (pip install 'hyrecall[eval]')"
    return error(MissingExtraError, "evaluate", wish, f"no package {package}")
