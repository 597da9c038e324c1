"""CrewAI's storage backend for its unified memory: records of one cell, by exact cosine.

CrewAI's own *scopes* are paths such as ``/company/team`` inside a cell; they group records and give
or deny nobody access. For CrewAI since 1.10.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from crewai.memory.types import MemoryRecord, ScopeInfo

from hyrecall.adapters.documents import (
    AttributeType,
    Collection,
    Document,
    DocumentIndex,
    all_of,
)
from hyrecall.adapters.extras import awaiting, check_page
from hyrecall.ask.filters import Filter
from hyrecall.base.times import utc
from hyrecall.errors import OptionError, error

__all__ = ["HyrecallStorage"]

_ALWAYS: dict[str, Any] = {"scope": str, "categories": list[str], "created_at": datetime}


class HyrecallStorage:
    """Keeps CrewAI's memory records in one cell, such as a user or a tenant.

    Parameters
    ----------
    cell : str or tuple of str
        Whose records. There is no default.
    path, attributes, documents
        As of :class:`hyrecall.adapters.documents.Collection`, errors too; ``attributes`` are the
        keys of the records' metadata that a ``metadata_filter`` may name.

    Examples
    --------
    >>> from crewai.memory.types import MemoryRecord
    >>> storage = HyrecallStorage(cell="ann")
    >>> storage.save([MemoryRecord(content="hot tea", scope="/food", embedding=[1.0, 0.0])])
    >>> [(record.content, score) for record, score in storage.search([1.0, 0.0])]
    [('hot tea', 1.0)]
    """

    def __init__(
        self, *, cell: str | tuple[str, ...], path: str | Path | None = None,
        attributes: Mapping[str, AttributeType] | None = None,
        documents: DocumentIndex | None = None,
    ) -> None:  # fmt: skip
        """Open the records, or make an empty index for them."""
        keys = None if attributes is None else {f"metadata.{k}": v for k, v in attributes.items()}
        self._collection = Collection(
            cell, path=path, attributes=keys, documents=documents, always=_ALWAYS, keep_vectors=True
        )

    def save(self, records: list[MemoryRecord]) -> None:
        """Keep records; one whose id the cell holds is replaced."""
        self._collection.write(map(_document, records))

    def update(self, record: MemoryRecord) -> None:
        """Replace the record of the same id."""
        self.save([record])

    def search(
        self, query_embedding: list[float], scope_prefix: str | None = None,
        categories: list[str] | None = None, metadata_filter: dict[str, Any] | None = None,
        limit: int = 10, min_score: float = 0.0,
    ) -> list[tuple[MemoryRecord, float]]:  # fmt: skip
        """Return the nearest records with their cosines, of at least ``min_score``."""
        chosen = self._filter(scope_prefix, categories, metadata_filter)
        found = self._collection.recall(
            vector=query_embedding, limit=limit, filter=chosen, min_score={"vector": min_score}
        )
        return [(_record(one.document), one.score) for one in found]

    def delete(
        self, scope_prefix: str | None = None, categories: list[str] | None = None,
        record_ids: list[str] | None = None, older_than: datetime | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> int:  # fmt: skip
        """Delete the records that meet every criterion; return how many. One has to be given."""
        chosen = self._filter(scope_prefix, categories, metadata_filter, older_than)
        if chosen is None and record_ids is None:
            raise error(OptionError, "delete", "a criterion", "none", "reset() deletes all records")
        return self._collection.delete(record_ids, filter=chosen)

    def reset(self, scope_prefix: str | None = None) -> None:
        """Delete all records at and below a path, or all of the cell."""
        chosen = self._filter(scope_prefix)
        self._collection.delete(filter=chosen, everything=chosen is None)

    def get_record(self, record_id: str) -> MemoryRecord | None:
        """Return a record with its embedding, or None if the cell has none of this id."""
        return next(map(_record, self._collection.get([record_id])), None)

    def list_records(
        self, scope_prefix: str | None = None, limit: int = 200, offset: int = 0
    ) -> list[MemoryRecord]:
        """Return records at and below a path, newest first; a time without a zone is UTC."""
        check_page(limit, offset)
        return self._below(scope_prefix)[offset : offset + limit]

    def count(self, scope_prefix: str | None = None) -> int:
        """Return how many records lie at and below a path."""
        return self._collection.count(self._filter(scope_prefix))

    def list_categories(self, scope_prefix: str | None = None) -> dict[str, int]:
        """Return how many records at and below a path each category has."""
        return Counter(name for one in self._below(scope_prefix) for name in one.categories)

    def list_scopes(self, parent: str = "/") -> list[str]:
        """Return the paths right below a path that hold records."""
        above = _path(parent).rstrip("/") + "/"
        below = {one.scope for one in self._below(parent) if one.scope.startswith(above)}
        names = {path.removeprefix(above).split("/")[0] for path in below - {above}}
        return sorted(above + name for name in names)

    def get_scope_info(self, scope: str) -> ScopeInfo:
        """Return what lies at and below a path: number, categories, times, paths right below."""
        records, path = self._below(scope), _path(scope)
        times = [one.created_at for one in records]  # newest first
        return ScopeInfo(
            path=path, record_count=len(records), categories=sorted(self.list_categories(scope)),
            oldest_record=times[-1] if times else None, newest_record=times[0] if times else None,
            child_scopes=self.list_scopes(path),
        )  # fmt: skip

    asave = awaiting(save)
    asearch = awaiting(search)
    adelete = awaiting(delete)

    def _below(self, scope_prefix: str | None) -> list[MemoryRecord]:
        records = map(_record, self._collection.find(self._filter(scope_prefix))[::-1])
        return sorted(records, key=lambda one: utc("created_at", one.created_at), reverse=True)

    def _filter(
        self, prefix: str | None = None, categories: list[str] | None = None,
        metadata: dict[str, Any] | None = None, older_than: datetime | None = None,
    ) -> Filter | None:  # fmt: skip
        for key in metadata or {}:
            if f"metadata.{key}" not in self._collection.documents.attributes:
                name = f"metadata.{key}" if self._collection.is_shared else key
                how = f"declare it: attributes={{{name!r}: str}}"
                raise error(OptionError, "metadata_filter", "declared keys", repr(key), how)
        path, equal, ordered = _path(prefix), self._collection.equal, self._collection.ordered
        parts = [equal(f"metadata.{key}", [value]) for key, value in (metadata or {}).items()]
        if path != "/":  # below it are the paths from "path/" up to "path0", which comes next
            below = ordered("scope", ">=", f"{path}/") & ordered("scope", "<", f"{path}0")
            parts.append(Filter(scope=path) | below)
        if categories:
            parts.append(Filter(categories=categories))
        if older_than is not None:
            parts.append(ordered("created_at", "<", older_than))
        return all_of(*parts)


def _path(scope: str | None) -> str:
    return "/" + (scope or "").strip("/")


def _document(record: MemoryRecord) -> Document:
    fields = record.model_dump(mode="json", exclude={"id", "content", "embedding"})
    fields["scope"] = _path(record.scope)
    vector = record.embedding or None
    return Document(id=record.id, text=record.content, vector=vector, metadata=fields)


def _record(document: Document) -> MemoryRecord:
    vector = None if document.vector is None else list(document.vector)
    return MemoryRecord(
        **{"id": document.id, "content": document.text, **document.metadata}, embedding=vector
    )
