"""Writes records of other systems into a store."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from os import PathLike
from typing import Any

from hyrecall.adapters.documents import Document, DocumentIndex
from hyrecall.base.arguments import check_keywords, read_path
from hyrecall.base.progress import ProgressFunction, read_progress
from hyrecall.errors import DTypeError, HyrecallError, OptionError, error
from hyrecall.memory import MemorySync
from hyrecall.memory.data.types import Episode, Version, check_id, check_user
from hyrecall.memory.faces.transfer import FORMAT
from hyrecall.memory.sql.codec import Cell, find_cells
from hyrecall.memory.sql.reading import history
from hyrecall.migrate.records import (
    PAGE,
    Mapped,
    Mapper,
    Migrated,
    Owners,
    Source,
    Tally,
    check_source,
    map_records,
)
from hyrecall.segments.manifest import MANIFEST


@check_keywords
def into_store(
    memory: MemorySync,
    source: Source,
    *,
    user: str | None = None,
    user_from: str | None = None,
    org: str | None = None,
    workspace: str | None = None,
    time_from: str | None = None,
    vector_model: str | None = None,
    progress: ProgressFunction | None = None,
) -> Migrated:
    """Write the records of another system into a store; memories of the store stay as they are.

    A record becomes a private memory of its user: its text the memory's, its fields the metadata,
    its time ``occurred_at``, its id the id.

    Parameters
    ----------
    memory : MemorySync
        Open for writing.
    source : Source
        From :func:`open_source`.
    user : str, optional
        The user of all records.
    user_from : str, optional
        The field that names the user of each record, or its path with dots. Exactly one of
        ``user`` and ``user_from`` is given.
    org, workspace : str, optional
        The partition around the users.
    time_from : str, optional
        The field with the time of a record: ISO 8601, or seconds from 1970 on. Default: the time
        that the system itself has, or now.
    vector_model : str, optional
        The model that made the vectors, by the name that the store's embedder has. Without it no
        vector comes along: vectors of unknown models are never compared.
    progress : callable, optional
        ``progress(done, total)``, in records, after each page of them.

    Returns
    -------
    Migrated
        What came, what did not and why. ``needs_reembed`` says whether to call
        :meth:`MemorySync.reembed`.

    Raises
    ------
    ScopeError
        Neither or both of ``user`` and ``user_from``.
    OptionError, DTypeError
        Another argument; the store is closed or read-only.
    StoreError
        The disk or SQLite fails; the pages before are kept.

    Notes
    -----
    A transaction for each 500 records. A second run imports only what is new: a record that came
    before is skipped, also if its memory was changed or deleted since.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> from hyrecall.memory import MemorySync
    >>> from hyrecall.migrate import into_store, open_source
    >>> from hyrecall.recipes import loom
    >>> file = pathlib.Path(tempfile.mkdtemp(), "mem0.json")
    >>> memories = [{"id": "m1", "memory": "Tea at four", "user_id": "ann"}, {"id": "m2"}]
    >>> _ = file.write_text(json.dumps({"results": memories}))
    >>> with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
    ...     with open_source("mem0", file) as source:
    ...         done = into_store(memory, source, user_from="user_id")
    ...     memory.get("m1", user_id="ann").text
    'Tea at four'
    >>> done.imported, done.left_out
    (1, (LeftOut(reason="no user: it has no field 'user_id'", count=1, example='m2'),))
    """
    if not isinstance(memory, MemorySync):
        raise error(DTypeError, "memory", "a MemorySync", type(memory).__name__)
    check_source(source)
    read_progress(progress)
    mapper = Mapper(Owners(user, user_from), time_from)
    if vector_model is not None:
        check_id("vector_model", vector_model)
    place = {"org": check_user("org", org), "workspace": check_user("workspace", workspace)}
    tally = Tally(source.system, source.dropped)
    writer = _Writer(memory, place, vector_model, tally)
    for one in map_records(source, mapper, tally, progress):
        writer.add(one)
    writer.flush()
    if progress is not None:
        progress(tally.n_read, tally.n_read)
    return tally.report()


class _Writer:
    """Collects a page of memories and writes it in one transaction."""

    def __init__(
        self, memory: MemorySync, place: dict[str, str | None], model: str | None, tally: Tally
    ) -> None:
        self._memory, self._place, self._model, self.tally = memory, place, model, tally
        self._now = datetime.now(UTC)
        self._page: dict[tuple[str, str], Mapped] = {}

    def add(self, one: Mapped) -> None:
        """Take a record; write the page if it is full."""
        if (one.user, one.key) in self._page:
            self.flush()  # the first of the two is then in the store
        self._page[one.user, one.key] = one
        if len(self._page) == PAGE:
            self.flush()

    def flush(self) -> None:
        """Write what was taken, except what came before or whose id is taken."""
        taken, self._page = list(self._page.values()), {}
        known = self._known(taken)
        page = [one for one in taken if not known[one.user, one.key]]
        for one in taken:
            versions = known[one.user, one.key]
            if any(_is_same(one, version.episode) for version in versions):
                self.tally.skipped += 1
            elif versions:
                self.tally.leave_out("id: the store has another memory of this id", one.key)
        if not page:
            return
        lines = [json.dumps({"format": FORMAT}), *map(self._line, page)]
        done = self._memory.import_(io.StringIO("\n".join(lines)))
        refused = {fault.line - 2: fault.error for fault in done.errors}
        for at, one in enumerate(page):
            if at in refused:  # without the value that is refused
                self.tally.leave_out(refused[at].partition(", got ")[0], one.key)
                continue
            fault = one.vector_fault
            if fault is None and self._model is None:
                fault = "its model is not named"
            self.tally.keep(one.key, one.dropped, fault, is_searched=self._is_searched(one))

    def _known(self, taken: list[Mapped]) -> dict[tuple[str, str], list[Version]]:
        """Return the versions that the store has of each record's id, also of deleted memories."""
        with self._memory._store.database.reading() as connection:
            cells = {
                user: [
                    number
                    for visibility in ("private", "global")
                    for number in find_cells(connection, self._cell(user, visibility))
                ]
                for user in {one.user for one in taken}
            }
            return {
                (one.user, one.key): [
                    version
                    for number in cells[one.user]
                    for version in history(connection, number, one.key)
                ]
                for one in taken
            }

    def _cell(self, user: str, visibility: str) -> Cell:
        return Cell(self._place["org"], self._place["workspace"], user, visibility)

    def _is_searched(self, one: Mapped) -> bool:
        """Return whether the store's index takes the vector: of its model and length."""
        store = self._memory._store
        is_model = store.guard.model in (None, self._model)
        return one.vector is not None and is_model and len(one.vector) == store.dim

    def _line(self, one: Mapped) -> str:
        content: dict[str, Any] = {
            "text": one.text,
            "occurred_at": (one.at or self._now).isoformat(),
            "session_id": one.session_id,
            "metadata": one.metadata,
        }
        version: dict[str, Any] = {
            "id": one.key,
            "user_id": one.user,
            **self._place,
            "recorded_at": self._now.isoformat(),
            "content": content,
        }
        if one.vector is not None and self._model is not None:
            version["embedding"] = base64.b64encode(one.vector.astype("<f4").tobytes()).decode()
            version["embedding_model"] = self._model
        return json.dumps({"version": version})


def _is_same(one: Mapped, episode: Episode | None) -> bool:
    """Return whether a memory says what a record says."""
    if episode is None:
        return False
    said = (episode.text, episode.metadata, episode.session_id)
    is_said = said == (one.text, one.metadata, one.session_id)
    return is_said and one.at in (None, episode.occurred_at)


# ---- Writes records of other systems into a saved index of documents ----

_LEAST_DIM = 2  # of an index of documents


@check_keywords
def into_index(
    folder: str | PathLike[str],
    source: Source,
    *,
    user: str | None = None,
    user_from: str | None = None,
    attributes: Mapping[str, Any] | None = None,
    progress: ProgressFunction | None = None,
) -> Migrated:
    """Write the records of another system into a saved index of documents.

    A record becomes a document in the cell of its user. :class:`DocumentIndex` opens the folder,
    and so do the adapters of vector stores. A time or session that the system itself has comes
    along in the metadata, as ``created_at`` and ``session_id``.

    Parameters
    ----------
    folder : path
        Of the index, which is made if there is none. Documents that are there stay as they are.
    source : Source
        From :func:`open_source`.
    user, user_from : str, optional
        As in :func:`into_store`.
    attributes : mapping of str to type, optional
        Fields of the metadata to filter by, as :class:`DocumentIndex` takes them; of a new index.
    progress : callable, optional
        ``progress(done, total)``, in records that were read, after each 500 of them.

    Returns
    -------
    Migrated

    Raises
    ------
    ScopeError
        Neither or both of ``user`` and ``user_from``.
    OptionError, DTypeError
        Another argument; attributes for an index that is there.
    CorruptIndexError, OSError
        The folder cannot be read or written; nothing of it is changed.

    Notes
    -----
    All records are in memory, as in every index, and the folder is written once, at the end. A
    second run writes only what is new.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> from hyrecall.adapters.documents import DocumentIndex
    >>> from hyrecall.migrate import into_index, open_source
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> memories = [{"id": "m1", "memory": "Tea at four", "user_id": "ann"}]
    >>> _ = (folder / "mem0.json").write_text(json.dumps(memories))
    >>> with open_source("mem0", folder / "mem0.json") as source:
    ...     done = into_index(folder / "index", source, user_from="user_id")
    >>> DocumentIndex.open(folder / "index").recall(text="tea", scope="ann")[0].document.id
    'm1'
    """
    place = read_path(folder)
    check_source(source)
    read_progress(progress)
    mapper, tally = Mapper(Owners(user, user_from), None), Tally(source.system, source.dropped)
    is_there = (place / MANIFEST).exists()
    if is_there and attributes is not None:
        raise error(OptionError, "attributes", "none: the index is there", repr(attributes))
    index = DocumentIndex.open(place) if is_there else DocumentIndex(attributes=attributes)
    users: dict[str, list[Mapped]] = {}
    for one in map_records(source, mapper, tally, progress):
        users.setdefault(one.user, []).append(one)
    for name, records in users.items():
        _write(index, name, records, tally)
    done = tally.report()
    if done.imported:
        index.save(place)
    if progress is not None:
        progress(tally.n_read, tally.n_read)
    return done


def _write(index: DocumentIndex, user: str, records: list[Mapped], tally: Tally) -> None:
    """Write the documents of one user, except those that are there, and count all."""
    held = {one.id: one for one in index.get([*{one.key for one in records}], scope=user)}
    new: dict[str, Document] = {}
    mapped: dict[str, Mapped] = {}
    for one in records:
        document = _document(one)
        known = held.get(one.key) or new.get(one.key)
        if known is None:
            new[one.key], mapped[one.key] = document, one
        elif (known.text, known.metadata) == (document.text, document.metadata):
            tally.skipped += 1
        else:
            tally.leave_out("id: the index has another document of this id", one.key)
    lengths = (len(one.vector) for one in mapped.values() if one.vector is not None)
    dim = index.dim or next((length for length in lengths if length >= _LEAST_DIM), None)
    faults = {key: _vector_fault(one, dim) for key, one in mapped.items()}
    fitting = [
        one if faults[key] is None else replace(one, vector=None) for key, one in new.items()
    ]
    refused = _refused(index, user, fitting)
    for key, one in mapped.items():
        if key in refused:
            tally.leave_out(refused[key], key)
        else:
            tally.keep(key, one.dropped, faults[key], is_searched=True)


def _refused(index: DocumentIndex, user: str, documents: list[Document]) -> dict[str, str]:
    """Write documents, all at once if that can be; return why some are refused, by their ids."""
    try:
        index.write(documents, cell=user)
    except HyrecallError as fault:
        if len(documents) == 1:  # without the value that is refused
            told = str(fault).partition(", got ")[0].removeprefix("documents[0].")
            return {str(documents[0].id): told}
        half = len(documents) // 2
        first = _refused(index, user, documents[:half])
        return first | _refused(index, user, documents[half:])
    return {}


def _document(one: Mapped) -> Document:
    """Return a record as a document; what its system says of it beside the metadata goes there."""
    at = None if one.at is None else one.at.isoformat()
    beside = {"created_at": at, "session_id": one.session_id}
    said = {name: value for name, value in beside.items() if value is not None}
    return Document(id=one.key, text=one.text, vector=one.vector, metadata={**said, **one.metadata})


def _vector_fault(one: Mapped, dim: int | None) -> str | None:
    """Return why a vector is left behind: an index has vectors of one length."""
    if one.vector is None:
        return one.vector_fault
    if len(one.vector) < _LEAST_DIM:
        return f"a vector of fewer than {_LEAST_DIM} numbers"
    return None if len(one.vector) == dim else "a vector of another length than the first"
