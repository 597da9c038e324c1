"""CrewAI's storage backend for its unified memory: records of one cell, by exact cosine.

CrewAI's own *scopes* are paths such as ``/company/team`` inside a cell; they group records and give
or deny nobody access. For CrewAI since 1.10.
"""

from __future__ import annotations

from asyncio import to_thread
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any, TypeVar

from crewai.memory.types import MemoryRecord, ScopeInfo

from hyrecall.adapters.documents import (
    AttributeType,
    Document,
    DocumentIndex,
    open_documents,
    read_cell,
    saved,
)
from hyrecall.adapters.items import check_page
from hyrecall.ask.filters import Between, Filter, NoneOf
from hyrecall.base.times import utc
from hyrecall.errors import OptionError, error

__all__ = ["HyrecallStorage"]

T_ = TypeVar("T_")
_ALWAYS: dict[str, Any] = {"scope": str, "categories": list[str], "created_at": datetime}


class HyrecallStorage:
    """Keeps CrewAI's memory records in one cell, such as a user or a tenant.

    Parameters
    ----------
    cell : str or tuple of str
        Whose records. There is no default.
    path : path-like, optional
        A folder: opened if it holds records, and saved to after every write.
    attributes : mapping of str to type, optional
        The keys of the records' metadata that a ``metadata_filter`` may name.
    documents : DocumentIndex, optional
        An index to share with storages of other cells, in place of ``path`` and ``attributes``.

    Raises
    ------
    ScopeError
        No cell.

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
        attributes: Mapping[str, AttributeType | str] | None = None,
        documents: DocumentIndex | None = None,
    ) -> None:  # fmt: skip
        """Open the records, or make an empty index for them."""
        keys = None if attributes is None else {f"metadata.{k}": v for k, v in attributes.items()}
        self._documents = open_documents(documents, path, keys, keep_vectors=True, always=_ALWAYS)
        for name in _ALWAYS:
            self._documents.value(name, None)  # refuses an index without it
        self._path, self._is_shared = path, documents is not None
        self._cell = read_cell(cell, self._documents.cell_columns)

    def save(self, records: list[MemoryRecord]) -> None:
        """Keep records; one whose id the cell holds is replaced."""
        self._saved(self._documents.write(map(_document, records), cell=self._cell))

    def update(self, record: MemoryRecord) -> None:
        """Replace the record of the same id."""
        self.save([record])

    def search(
        self, query_embedding: list[float], scope_prefix: str | None = None,
        categories: list[str] | None = None, metadata_filter: dict[str, Any] | None = None,
        limit: int = 10, min_score: float = 0.0,
    ) -> list[tuple[MemoryRecord, float]]:  # fmt: skip
        """Return the nearest records with their cosines, of at least ``min_score``."""
        found = self._documents.recall(
            vector=query_embedding, scope=self._cell, limit=limit,
            filter=self._filter(scope_prefix, categories, metadata_filter),
            min_score={"vector": min_score},
        )  # fmt: skip
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
        return self._saved(self._documents.delete(record_ids, cell=self._cell, filter=chosen))

    def reset(self, scope_prefix: str | None = None) -> None:
        """Delete all records at and below a path, or all of the cell."""
        chosen = self._filter(scope_prefix)
        self._saved(
            self._documents.delete(cell=self._cell, filter=chosen, everything=chosen is None)
        )

    def get_record(self, record_id: str) -> MemoryRecord | None:
        """Return a record with its embedding, or None if the cell has none of this id."""
        return next(map(_record, self._documents.get([record_id], scope=self._cell)), None)

    def list_records(
        self, scope_prefix: str | None = None, limit: int = 200, offset: int = 0
    ) -> list[MemoryRecord]:
        """Return records at and below a path, newest first; a time without a zone is UTC."""
        check_page(limit, offset)
        return self._below(scope_prefix)[offset : offset + limit]

    def count(self, scope_prefix: str | None = None) -> int:
        """Return how many records lie at and below a path."""
        return self._documents.count(scope=self._cell, filter=self._filter(scope_prefix))

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

    async def asave(self, records: list[MemoryRecord]) -> None:
        """Keep records, off the event loop."""
        await to_thread(self.save, records)

    async def asearch(self, *args: Any, **options: Any) -> list[tuple[MemoryRecord, float]]:
        """Return the nearest records as ``search`` does, off the event loop."""
        return await to_thread(self.search, *args, **options)

    async def adelete(self, *args: Any, **options: Any) -> int:
        """Delete records as ``delete`` does, off the event loop."""
        return await to_thread(self.delete, *args, **options)

    def _below(self, scope_prefix: str | None) -> list[MemoryRecord]:
        found = self._documents.find(scope=self._cell, filter=self._filter(scope_prefix))
        records = map(_record, found[::-1])
        return sorted(records, key=lambda one: utc("created_at", one.created_at), reverse=True)

    def _filter(
        self, prefix: str | None = None, categories: list[str] | None = None,
        metadata: dict[str, Any] | None = None, older_than: datetime | None = None,
    ) -> Filter | None:  # fmt: skip
        for key in metadata or {}:
            if f"metadata.{key}" not in self._documents.attributes:
                name = f"metadata.{key}" if self._is_shared else key
                how = f"declare it: attributes={{{name!r}: str}}"
                raise error(OptionError, "metadata_filter", "declared keys", repr(key), how)
        path, value = _path(prefix), self._documents.value
        parts = [Filter(**{f"metadata.{k}": value(f"metadata.{k}", v)})
                 for k, v in (metadata or {}).items()]  # fmt: skip
        if path != "/":  # below it are the paths from "path/" up to "path0", which comes next
            below = Filter(scope=Between(f"{path}/", f"{path}0")) & Filter(scope=NoneOf(f"{path}0"))
            parts.append(Filter(scope=path) | below)
        if categories:
            parts.append(Filter(categories=categories))
        if older_than is not None:
            before = Filter(created_at=(None, older_than))
            parts.append(before & Filter(created_at=NoneOf(older_than)))
        return reduce(and_, parts) if parts else None

    def _saved(self, changed: T_) -> T_:
        return saved(self._documents, self._path, changed)


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
