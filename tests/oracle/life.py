"""The life of an index, by definition: a list of live documents in ``seq`` order."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from oracle.documents import Key, Row, Scope
from oracle.scope import Predicate, passes


class ConflictError(Exception):
    """A key is already taken in its cell."""


class AbsentError(Exception):
    """A document that is changed is not there."""


def changed(old: Row, new: Row, names: Collection[str]) -> Row:
    """A document whose columns of these names are those of another row."""

    def mixed(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
        return {name: after[name] if name in names else value for name, value in before.items()}

    return replace(
        old,
        texts=mixed(old.texts, new.texts),
        vectors=mixed(old.vectors, new.vectors),
        attributes=mixed(old.attributes, new.attributes),
    )


class Life:
    """Live documents. Their order is their seq: an update is a delete and an add, so it moves to
    the end.
    """

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._live: dict[tuple[object, Key], Row] = {}
        self.add(list(rows))

    @property
    def rows(self) -> list[Row]:
        """Live documents in seq order."""
        return list(self._live.values())

    def add(self, rows: Sequence[Row]) -> None:
        """Add new documents, or none of them if one is there already."""
        if len({row.identity for row in rows} | self._live.keys()) < len(rows) + len(self._live):
            raise ConflictError("a key is already taken in its cell")
        self._live |= {row.identity: row for row in rows}

    def upsert(self, rows: Sequence[Row]) -> None:
        """Add documents, taking away those of the same cell and key first."""
        for row in rows:
            self._live.pop(row.identity, None)
        self.add(rows)

    def update(self, rows: Sequence[Row], names: Collection[str]) -> None:
        """Give documents new values in some columns, or none of them if one is not there."""
        if any(row.identity not in self._live for row in rows):
            raise AbsentError("a document is not there")
        self.upsert([changed(self._live[row.identity], row, names) for row in rows])

    def replace(self, rows: Sequence[Row], cells: Scope, predicate: Predicate | None) -> int:
        """Delete what the cells hold and the predicate passes, and add documents; or neither."""
        other = type(self)(self.rows)
        gone = other.delete_where(cells, predicate)
        other.add(rows)
        self._live = other._live
        return gone

    def delete(self, keys: Sequence[Key], scopes: Sequence[Scope]) -> int:
        """Delete each key from the cells of its own scope; returns how many documents went."""
        gone = 0
        for key, cells in zip(keys, scopes, strict=True):
            for cell in cells:
                gone += self._live.pop((cell, key), None) is not None
        return gone

    def delete_where(self, cells: Scope, predicate: Predicate | None) -> int:
        """Delete what the cells hold and the predicate passes; returns how many documents went."""
        gone = [r for r in self.rows if r.cell in cells and passes(predicate, r.attributes)]
        for row in gone:
            del self._live[row.identity]
        return len(gone)
