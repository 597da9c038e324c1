"""What every framework's module needs: its package, awaited methods, and a search of an index."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Concatenate, ParamSpec, TypeVar

from hyrecall.adapters.degraded import warn_if_degraded
from hyrecall.ask.scope import Scope
from hyrecall.base.arguments import as_int
from hyrecall.errors import DTypeError, MissingExtraError, OptionError, error
from hyrecall.hits.hits import Hit
from hyrecall.index import Index

P_ = ParamSpec("P_")
T_ = TypeVar("T_")


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


def awaiting(
    method: Callable[Concatenate[Any, P_], T_],
) -> Callable[Concatenate[Any, P_], Coroutine[Any, Any, T_]]:
    """Return the async twin of a method: it calls the object's method on a thread."""

    @functools.wraps(method)
    async def call(self: Any, /, *args: P_.args, **options: P_.kwargs) -> T_:
        blocking: Callable[P_, T_] = getattr(self, method.__name__)
        return await asyncio.to_thread(blocking, *args, **options)

    call.__doc__ = f"{method.__doc__}\n\nIt runs on a thread, off the event loop."
    return call


def check_page(limit: object, offset: object) -> None:
    """Refuse a limit or an offset that is not an int of at least 0."""
    for name, value in (("limit", limit), ("offset", offset)):
        count = as_int(value)
        if count is None or count < 0:
            raise error(OptionError, name, "an int >= 0", repr(value))


# ---- What retrievers over an ``Index`` share: checks when one is made, and a search ----


def check_arms(index: Index, argument: str, model: object) -> None:
    """Refuse an embedding model whose vectors no arm reads, and none where no text is searched."""
    if model is not None and not index.schema.vector_arms:
        wish = "None (the index has no vector arm)"
        raise error(OptionError, argument, wish, type(model).__name__)
    if model is None and not index.schema.text_arms:
        raise error(OptionError, argument, "one (the index has no text arm)", "None")


def check_limit(limit: object, depth: object, index: Index) -> None:
    """Refuse a limit that each call of a retriever would refuse: several arms go to ``depth``."""
    most, asked = at_least_1("depth", depth), at_least_1("limit", limit)
    n_arms = len(index.schema.text_arms) + len(index.schema.vector_arms)
    if n_arms > 1 and asked > most:
        raise error(OptionError, "limit", f"<= {most} (depth)", repr(limit), f"pass depth={limit}")


def at_least_1(name: str, value: object) -> int:
    """Return a limit or a depth."""
    if (n := as_int(value)) is None or n < 1:
        raise error(OptionError, name, "an int >= 1", repr(value))
    return n


def check_index(index: object) -> Index:
    """Return the index; refuse anything else."""
    if not isinstance(index, Index):
        raise error(DTypeError, "index", "an hr.Index", type(index).__name__)
    return index


def column_types(index: Index, names: Sequence[str]) -> Any:
    """Return the Arrow schema of columns of an index; refuse names that it does not have."""
    return index.get([], scope=nowhere(index), columns=names).schema


def nowhere(index: Index) -> Scope | None:
    """Return a scope that sees nothing, as an index takes it."""
    return Scope([]) if index.schema.cell_columns else None


def search(index: Index, words: str | None, vector: object, **options: Any) -> list[Hit]:
    """Return the hits of one query; words that no arm reads are left out."""
    text = words if index.schema.text_arms else None
    hits = index.recall_one(text=text, vector=vector, **options)
    warn_if_degraded(hits.trace.degraded)
    return list(hits)


def text_of(hit: Hit, index: Index) -> str:
    """Return the text of a hit; an empty one if it has none."""
    return (hit.text or "") if index.schema.text_arms else ""
