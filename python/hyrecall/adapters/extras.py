"""The check for the package of a framework, which an extra brings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hyrecall.errors import MissingExtraError, error


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Turn a failed import of a framework in the block into an error with the install command."""
    try:
        yield
    except ModuleNotFoundError as fault:
        if (fault.name or "").partition(".")[0] == "hyrecall":
            raise
        wish = f"the extra [{extra}] (pip install 'hyrecall[{extra}]')"
        raise error(MissingExtraError, "adapters", wish, f"no package {fault.name}") from None
