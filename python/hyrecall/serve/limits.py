"""Checks sizes of what a body says against the options, before any of it is used."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest
from typing import Any

from fastapi import Request

from hyrecall.serve.errors import ServiceError
from hyrecall.serve.options import ServiceOptions

__all__ = ["check_hits", "check_lists", "check_page", "check_query", "check_size", "options_of"]


def options_of(request: Request) -> ServiceOptions:
    """Return the options of the app that a request came to."""
    options: ServiceOptions = request.app.state.options
    return options


def check_query(options: ServiceOptions, query: str, name: str = "query") -> None:
    """Refuse a query of too many bytes."""
    n_bytes = len(query) if query.isascii() else len(query.encode("utf-8", "surrogatepass"))
    check_size(name, n_bytes, options.max_query, "bytes")


def check_page(options: ServiceOptions, limit: int, offset: int = 0) -> None:
    """Refuse a page that is too large, or too far down."""
    check_size("limit", limit, options.max_limit, "")
    if limit + offset > options.max_limit:
        check_size("limit + offset", limit + offset, options.max_limit, "")


def check_hits(most: int, limits: Iterable[int], around: Iterable[int] = ()) -> None:
    """Refuse queries that ask for too many hits in all, each with the rows around it."""
    shown = zip_longest(limits, around, fillvalue=0)
    n_hits = sum(limit * (1 + 2 * beside) for limit, beside in shown)
    check_size("queries x limit", n_hits, most, "hits, those around each included")


def check_lists(options: ServiceOptions, **fields: Any) -> None:
    """Refuse a list or object with too many entries, however deep in a field it lies."""
    for name, value in fields.items():
        rest = [value]
        while rest:
            one = rest.pop()
            if isinstance(one, list | tuple | dict):
                check_size(name, len(one), options.max_ids, "entries")
                rest.extend(one.values() if isinstance(one, dict) else one)


def check_size(name: str, size: int, most: int, unit: str) -> None:
    """Refuse a number above the most; the message does not repeat what a request says."""
    if size > most:
        wish = f"<= {most}{f' {unit}' if unit else ''}"
        raise ServiceError(422, "Invalid", f"{name}: expected {wish}")
