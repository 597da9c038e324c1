"""The answer to a text without an index: rows of the store that hold its words."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

import apsw

from hyrecall.memory.codec import from_json, to_json, to_micros
from hyrecall.memory.layout import Layout

__all__ = ["Wanted", "find"]

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What narrows an answer, as the filters of recall do; None: nothing.

    Attributes
    ----------
    kind : str or None
    since, until : datetime or None
        Of ``occurred_at``, inclusive.
    tags : collection of str or None
        One of them is enough.
    valid_at : datetime or None
        Only facts that hold then.
    """

    kind: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    tags: Collection[str] | None = None
    valid_at: datetime | None = None


def find(
    connection: apsw.Connection,
    layout: Layout,
    text: str,
    cells: Collection[int],
    wanted: Wanted | None = None,
    *,
    limit: int,
) -> list[int]:
    """Give the rows of the live documents in some cells that hold every word of a text.

    A word may stand inside a longer one, in whatever case. A text without words is searched as it
    is, and every document holds a blank one. Nothing is scored.

    Parameters
    ----------
    connection : apsw.Connection
        In a transaction.
    layout : Layout
        Which texts are searched.
    text : str
    cells : collection of int
        Nothing of any other cell is read.
    wanted : Wanted, optional
    limit : int

    Returns
    -------
    list of int
        Version rows, newest first; equal times: the one changed last.
    """
    narrow = wanted or Wanted()
    folded = text.casefold()
    words = set(_WORD.findall(folded)) or {folded.strip()}
    texts = ", ".join(layout.columns[name].sql for name in layout.texts)
    select = f"""SELECT v.row, v.tags, {texts}
      FROM versions v JOIN documents d ON (d.cell, d.id, d.version) = (v.cell, v.id, v.version)
      WHERE v.cell IN (SELECT value FROM json_each(?1)) AND v.status = 'live'
        AND (?2 IS NULL OR v.kind = ?2) AND (?3 IS NULL OR v.occurred_at >= ?3)
        AND (?4 IS NULL OR v.occurred_at <= ?4)
        AND (?5 IS NULL OR EXISTS (SELECT 1 FROM facts f WHERE f.row = v.row
          AND f.valid_from <= ?5 AND (f.valid_to IS NULL OR f.valid_to > ?5)))
      ORDER BY v.occurred_at DESC, d.changed DESC"""
    wanted_times = (narrow.since, narrow.until, narrow.valid_at)
    times = (None if at is None else to_micros(at) for at in wanted_times)
    found: list[int] = []
    rows = connection.execute(select, (to_json(tuple(cells)), narrow.kind, *times))
    for row, tags, *held in rows:
        if len(found) >= limit:
            break
        if narrow.tags is not None and not set(narrow.tags) & set(from_json(tags)):
            continue
        here = "\n".join(held).casefold()
        if all(word in here for word in words):
            found.append(row)
    return found
