"""Raises a helpful error if the package of a framework is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hyrecall.base.arguments import as_int
from hyrecall.errors import MissingExtraError, OptionError, error
from hyrecall.hits.hits import Hit
from hyrecall.index import Index


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


# ---- What retrievers over an ``Index`` share: checks of its arms and of a limit, and a hit's text


def check_arms(index: Index, argument: str, model: object) -> None:
    """Refuse an embedding model whose vectors no arm reads, and none where no text is searched."""
    if model is not None and not index.schema.vector_arms:
        wish = "None (the index has no vector arm)"
        raise error(OptionError, argument, wish, type(model).__name__)
    if model is None and not index.schema.text_arms:
        raise error(OptionError, argument, "one (the index has no text arm)", "None")


def check_limit(limit: object, depth: object, index: Index) -> None:
    """Refuse a limit that each call of a retriever would refuse: several arms go to ``depth``."""
    for name, value in (("limit", limit), ("depth", depth)):
        if (n := as_int(value)) is None or n < 1:
            raise error(OptionError, name, "an int >= 1", repr(value))
    most, asked = as_int(depth), as_int(limit)
    n_arms = len(index.schema.text_arms) + len(index.schema.vector_arms)
    if n_arms > 1 and most is not None and asked is not None and asked > most:
        raise error(OptionError, "limit", f"<= {most} (depth)", repr(limit), f"pass depth={limit}")


def text_of(hit: Hit, index: Index) -> str:
    """Return the text of a hit; an empty one if it has none."""
    return (hit.text or "") if index.schema.text_arms else ""
