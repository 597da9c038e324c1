"""Finds damaged rows of a store by their checksums, and reads rows whose texts are damaged.

A checksum stands beside each row and covers what never changes of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import apsw
import apsw.ext
import xxhash

from hyrecall.base.warned import warn_caller

__all__ = ["DamageWarning", "checksum", "is_text", "rows", "warn_of_damage"]


class DamageWarning(UserWarning):
    """A call left out damaged rows that its caller may read; ``doctor(full=True)`` names them."""


def checksum(*values: str | bytes | float | None) -> int:
    """Return the checksum of a row's values, as an integer that SQLite can keep."""
    # In one loop, the frequent types first: each row that is read comes by here.
    parts = [
        b"None"
        if value is None
        else b"text " + value.encode("utf-8", "surrogateescape")
        if isinstance(value, str)
        else b"%d" % value
        if isinstance(value, int)
        else b"blob " + value
        if isinstance(value, bytes)
        else ascii(value + 0.0).encode()  # SQLite gives 0.0 for -0.0
        for value in values
    ]
    digest = xxhash.xxh3_64_digest(b"\0".join(parts))
    return int.from_bytes(digest, "big", signed=True)


def is_text(*values: object) -> bool:
    """Say whether each value is a text that UTF-8 can hold."""
    return all(isinstance(one, str) for one in values) and _is_unicode(values)


def _is_unicode(texts: Iterable[Any]) -> bool:
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return False
    return True


def rows(
    connection: apsw.Connection, select: str, given: tuple[Any, ...] = ()
) -> Iterator[tuple[Any, ...]]:
    """Return the rows of a SELECT, also where a text is not UTF-8."""
    # The bytes of such a text come as lone surrogates, so one damaged row stops no other. The order
    # of the rows must be the same each time the SELECT runs.
    n_given = 0
    try:
        for row in connection.execute(select, given):
            yield row
            n_given += 1
    except UnicodeDecodeError:
        yield from islice(_escaped(connection, select, given), n_given, None)


def _escaped(
    connection: apsw.Connection, select: str, given: tuple[Any, ...]
) -> Iterator[tuple[Any, ...]]:
    names = [f"c{at}" for at in range(len(apsw.ext.query_info(connection, select).description))]
    wanted = ", ".join(
        f"typeof({one}), iif(typeof({one}) = 'text', CAST({one} AS BLOB), {one})" for one in names
    )
    wrapped = f"WITH q({', '.join(names)}) AS MATERIALIZED ({select}) SELECT {wanted} FROM q"
    for row in connection.execute(wrapped, given):
        pairs = zip(row[::2], row[1::2], strict=True)
        yield tuple(
            value.decode(errors="surrogateescape") if kind == "text" else value
            for kind, value in pairs
        )


def warn_of_damage(n_rows: int) -> None:
    """Warn that so many damaged rows were left out; of none, say nothing."""
    if n_rows:
        told = f"{n_rows} damaged rows were left out: doctor(full=True) names them"
        warn_caller(told, DamageWarning)
