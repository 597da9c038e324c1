"""Writes records of other systems into a saved index of documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from typing import Any

from hyrecall.adapters.documents import Document, DocumentIndex
from hyrecall.base.arguments import read_path
from hyrecall.base.keywords import check_keywords
from hyrecall.base.progress import ProgressFunction, read_progress
from hyrecall.errors import HyrecallError, OptionError, error
from hyrecall.migrate.mapping import Mapped, Mapper, check_source, map_records
from hyrecall.migrate.owners import Owners
from hyrecall.migrate.reading import PAGE
from hyrecall.migrate.records import Source
from hyrecall.migrate.report import Migrated, Tally
from hyrecall.segments.manifest import MANIFEST

__all__ = ["into_index"]

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
    for one in map_records(source, mapper, tally):
        users.setdefault(one.user, []).append(one)
        if progress is not None and tally.n_read % PAGE == 0:
            progress(tally.n_read, max(source.n_records, tally.n_read))
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
            tally.skip()
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
