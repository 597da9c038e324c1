"""The packages of the extra ``[eval]``, asked for where they are used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hyrecall.errors import MissingExtraError, error

__all__ = ["needs_extra"]


@contextmanager
def needs_extra() -> Iterator[None]:
    """Turn an import that fails inside into an error with the install line."""
    try:
        yield
    except ModuleNotFoundError as fault:
        wish = "the extra [eval] (pip install 'hyrecall[eval]')"
        raise error(MissingExtraError, "evaluate", wish, f"no package {fault.name}") from None
