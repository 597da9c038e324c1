"""Selects documents of cells by ids, a session or a time."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import apsw

from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.memory.sql.codec import to_json, to_micros
from hyrecall.memory.sql.reading import KEPT_NOW, STORED

__all__ = ["Selection", "check_which", "selected"]

_HEAD = "documents d LEFT JOIN versions v USING (cell, id, version)"
_IS_HIGHEST = (  # no checksum covers the number in documents
    "NOT EXISTS (SELECT 1 FROM versions w WHERE w.cell = d.cell AND w.id = d.id "
    "AND w.version > d.version)"
)
_IS_FACT = (  # also of a tombstone, which itself says nothing
    f"EXISTS (SELECT 1 FROM facts f JOIN versions w USING (row) WHERE {KEPT_NOW})"
)
_LAST_SESSION = (
    "(SELECT s.session_id FROM versions s WHERE s.cell = d.cell AND s.id = d.id "
    "AND s.status <> 'deleted' ORDER BY s.version DESC LIMIT 1)"
)


@dataclass(frozen=True)
class Selection:
    """Which documents: those of cells, narrowed by whatever else is given."""

    cells: Collection[int]
    ids: Collection[str] | None = None
    session_id: str | None = None
    before: datetime | None = None
    owner: tuple[str | None, str | None, str | None] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether all that is in the cells is selected."""
        return self.ids is None and self.session_id is None and self.before is None


def check_which(user: object, *narrower: object, everything: object) -> None:
    """Refuse a removal that nothing but its user narrows, unless the caller says ``everything``."""
    # An id that is missing by mistake must not remove all that a user has.
    if not isinstance(everything, bool):
        raise error(DTypeError, "everything", "True or False", repr(everything))
    is_narrow = any(one is not None for one in narrower)
    if everything and is_narrow:
        wish = "False beside an id, a session_id or a time"
        raise error(OptionError, "everything", wish, "True")
    if everything and user is None:
        raise error(OptionError, "user_id", "a named user beside everything=True", None)
    if not everything and not is_narrow:
        wish = "an id, a session_id, a time, or everything=True for all of a user"
        raise error(OptionError, "id", wish, "none of them")


def selected(
    connection: apsw.Connection, selection: Selection, *, deleted_too: bool = False
) -> list[tuple[int, str]]:
    """Return cell and id of the selected documents; never of documents in other cells."""
    wanted = "d.cell IN (SELECT value FROM json_each(?))"
    if not deleted_too:
        wanted += f" AND v.status <> 'deleted' AND {_IS_HIGHEST}"
    given: list[Any] = [to_json(tuple(selection.cells))]
    if selection.ids is not None:
        wanted += " AND d.id IN (SELECT value FROM json_each(?))"
        given.append(to_json(tuple(selection.ids)))
    if selection.session_id is not None:
        wanted += f" AND {_LAST_SESSION if deleted_too else 'v.session_id'} = ?"
        given.append(selection.session_id)
    if selection.before is not None:
        wanted += f" AND iif({_IS_FACT}, {STORED}, v.occurred_at) < ?"
        given.append(to_micros(selection.before))
    select = f"SELECT d.cell, d.id FROM {_HEAD} WHERE {wanted} ORDER BY d.cell, d.id"
    return list(connection.execute(select, given))
