"""Defines the common form of records of other systems, and the result of a reader."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, date, datetime
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias, cast
from uuid import UUID

import numpy as np
import numpy.typing as npt

from hyrecall.base.arguments import check_keywords, read_path
from hyrecall.base.progress import ProgressFunction
from hyrecall.embed.protocol import norms
from hyrecall.errors import (
    DTypeError,
    HyrecallError,
    MissingExtraError,
    OptionError,
    ScopeError,
    error,
)
from hyrecall.memory.data.types import check_id, check_user, in_utc

Vector: TypeAlias = npt.NDArray[np.float32]

_MISSING = object()
MOST_LEVELS = 64
"""Levels of metadata, as in a store."""


@dataclass(frozen=True)
class Record:
    """One record of another system, as it was there.

    Attributes
    ----------
    id : object
        A str or an int; what else a system has is left out with a reason.
    text : object
    vector : ndarray, shape (dim,), float32, or None
    metadata : Mapping
        The other fields. They come along if JSON can hold them.
    names : Mapping, default {}
        Fields beside the metadata that may name a user, and do not come along otherwise.
    created_at : object, default None
        The system's own time of the record, if it has one.
    session_id : object, default None
    dropped : tuple of str, default ()
        Fields that have no place here.
    """

    id: object
    text: object
    vector: Vector | None = None
    metadata: Mapping[str, object] = field(default_factory=dict)
    names: Mapping[str, object] = field(default_factory=dict)
    created_at: object = None
    session_id: object = None
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True)
class Source:
    """An open source of records, which is read once.

    Attributes
    ----------
    system : str
        "chroma", "lancedb", "qdrant", "mem0" or "langchain".
    n_records : int
        How many the system says that there are.
    records : iterator of Record
    dropped : Mapping of str to int, default {}
        What the source has beside records, and how many.
    """

    system: str
    n_records: int
    records: Iterator[Record]
    dropped: Mapping[str, int] = field(default_factory=dict)


def field_of(fields: Mapping[str, object], name: str) -> object:
    """Return a field by its name, or by its path with dots; None if it is not there."""
    if name in fields:
        return fields[name]
    at: object = fields
    for part in name.split("."):
        at = at.get(part, _MISSING) if isinstance(at, Mapping) else _MISSING
        if at is _MISSING:
            return None
    return at


def as_vector(given: object) -> Vector | None:
    """Return numbers as one float32 row; None if they are no row of numbers."""
    if given is None:
        return None
    try:
        with np.errstate(over="ignore"):  # becomes an infinity, which vector_fault names
            row = np.asarray(given, np.float32)
    except (TypeError, ValueError, OverflowError):
        return None
    return row if row.ndim == 1 and row.size else None


def vector_fault(row: Vector) -> str | None:
    """Return why no store and no index takes a vector; None if they do."""
    if not np.isfinite(row).all():
        return "a vector with NaN or infinity"
    found, is_taken = norms(row[None])
    if not found[0]:
        return "a zero vector"
    return None if is_taken[0] else "a vector whose norm is outside [2^-60, 2^60]"


def json_fields(fields: Mapping[str, object]) -> tuple[dict[str, Any], list[str]]:
    """Return the fields that JSON can hold, and the names of the others."""
    # Times and UUIDs become text, numbers of NumPy those of Python.
    kept: dict[str, Any] = {}
    dropped = []
    for name, value in fields.items():
        try:
            kept[name] = _json_value(value, MOST_LEVELS - 1)
        except ValueError:
            dropped.append(name)
    return kept, dropped


def _json_value(value: object, levels: int) -> object:
    """Return a value as JSON has it, or raise ValueError."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, date):  # a datetime is one
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    if value is None or isinstance(value, bool | int | str):
        if isinstance(value, str):
            value.encode()  # a lone surrogate raises a ValueError
        elif isinstance(value, int):
            str(value)  # an int of thousands of digits raises one too
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, list | tuple) and levels:
        return [_json_value(one, levels - 1) for one in value]
    if isinstance(value, Mapping) and levels and all(isinstance(name, str) for name in value):
        return {name: _json_value(one, levels - 1) for name, one in value.items()}
    raise ValueError


@contextmanager
def needs_package(package: str, pip_name: str) -> Iterator[None]:
    """Turn a failed import in the block into an error with the install command."""
    try:
        yield
    except ModuleNotFoundError as fault:
        if (fault.name or "").partition(".")[0] != package:
            raise
        wish = f"the package {pip_name} (pip install {pip_name})"
        raise error(MissingExtraError, "migrate", wish, f"no package {package}") from None


# ---- What readers share: their options, the size of a page, and how one of several names is chosen

PAGE = 500
"""Records that are read, and written, together."""


@dataclass(frozen=True)
class Options:
    """Options of a reader; each system's reader uses those that it needs."""

    collection: str | None = None
    id_field: str | None = None
    text_field: str | None = None
    vector_field: str | None = None


def one_of(argument: str, names: Sequence[str], given: str | None) -> str:
    """Return the name that was given, or the only one."""
    if given is None and len(names) == 1:
        return names[0]
    if given is None or given not in names:
        told = ", ".join(sorted(names)[:10]) + (", ..." if len(names) > 10 else "")
        got = "none" if given is None else repr(given)
        raise error(OptionError, argument, f"one of {told}" if names else "one", got)
    return given


def read_json(path: Path, what: str) -> Any:
    """Return the content of a file of JSON."""
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as fault:
        raise error(OptionError, "path", f"JSON of {what}", type(fault).__name__) from None


# ---- Counts what came of a source and what did not, and why ----


@dataclass(frozen=True)
class LeftOut:
    """Records, or vectors of records, that did not come.

    Attributes
    ----------
    reason : str
    count : int
    example : str
        The id of the first.
    """

    reason: str
    count: int
    example: str


@dataclass(frozen=True)
class Migrated:
    """The report of a migration.

    Attributes
    ----------
    system : str
        The system that the records are from.
    n_read : int
        Records that the source had: imported, skipped, or left out.
    imported : int
    skipped : int
        Records that had come before.
    left_out : tuple of LeftOut
        Records that did not come; they changed nothing.
    dropped : Mapping of str to int
        Fields that have no place here, and how many imported records had them.
    n_vectors : int
        Imported records whose vectors came along.
    n_other_vectors : int
        Those among them that the target cannot search: of another model or length than it has.
    without_vector : tuple of LeftOut
        Imported records whose vectors did not come.
    """

    system: str
    n_read: int
    imported: int
    skipped: int
    left_out: tuple[LeftOut, ...]
    dropped: Mapping[str, int]
    n_vectors: int
    n_other_vectors: int
    without_vector: tuple[LeftOut, ...]

    @property
    def needs_reembed(self) -> bool:
        """Whether imported records have no vector that the target can search."""
        return bool(self.n_other_vectors or self.without_vector)


class Tally:
    """Counts one migration."""

    def __init__(self, system: str, dropped: Mapping[str, int]) -> None:
        self._system = system
        self._dropped = Counter(dropped)
        self._left_out: dict[str, LeftOut] = {}
        self._without_vector: dict[str, LeftOut] = {}
        self.n_read = self.skipped = self._imported = self._n_vectors = self._n_other = 0

    def leave_out(self, reason: str, key: object) -> None:
        """Count a record that does not come."""
        _count(self._left_out, reason, key)

    def keep(
        self, key: str, dropped: Iterable[str], fault: str | None, *, is_searched: bool
    ) -> None:
        """Count an imported record: what it lost, and why its vector did not come, or None."""
        self._imported += 1
        self._dropped.update(dict.fromkeys(dropped, 1))
        if fault is not None:
            _count(self._without_vector, fault, key)
        else:
            self._n_vectors += 1
            self._n_other += not is_searched

    def report(self) -> Migrated:
        """Return the report."""
        return Migrated(
            system=self._system,
            n_read=self.n_read,
            imported=self._imported,
            skipped=self.skipped,
            left_out=tuple(self._left_out.values()),
            dropped=dict(self._dropped),
            n_vectors=self._n_vectors,
            n_other_vectors=self._n_other,
            without_vector=tuple(self._without_vector.values()),
        )


def _count(found: dict[str, LeftOut], reason: str, key: object) -> None:
    known = found.get(reason, LeftOut(reason, 0, str(key)))
    found[reason] = replace(known, count=known.count + 1)


# ---- Decides whose a record is, when it was made, and what its id is here ----

_LAST_SECOND = 4_102_444_800  # the year 2100: a larger number is of milliseconds


class Refused(Exception):  # noqa: N818
    """A record is left out; the text says why, without its content."""


@dataclass(frozen=True)
class Owners:
    """The user of the records: the same for all, or read from a field of each."""

    user: str | None = None
    user_from: str | None = None
    _kinds: dict[str, type] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check that the scope is named."""
        if (self.user is None) == (self.user_from is None):
            got = "neither" if self.user is None else "both"
            raise error(ScopeError, "user", "user= or user_from=, whose the records are", got)
        if self.user is not None:
            check_id("user", check_user("user", self.user))
        else:
            check_id("user_from", self.user_from)

    def of(self, record: Record) -> str:
        """Return the user of a record; an int names the user of that number."""
        if self.user is not None:
            return self.user
        name = self.user_from or ""
        found = field_of(record.names, name)
        found = field_of(record.metadata, name) if found is None else found
        if found is None:
            raise Refused(f"no user: it has no field {name!r}")
        if isinstance(found, bool) or not isinstance(found, str | int):
            raise Refused(f"no user: {name!r} is no text and no int")
        user = str(found)
        try:
            check_id("user", check_user("user", user))
        except HyrecallError:
            raise Refused(f"no user: {name!r} is blank, reserved or no user's name") from None
        if self._kinds.setdefault(user, type(found)) is not type(found):
            raise Refused(f"two users: {name!r} is a text in some records and an int in others")
        return user


def read_key(record: Record) -> str:
    """Return the id of a record as text."""
    if isinstance(record.id, bool) or not isinstance(record.id, str | int):
        raise Refused("no id: it is no text and no int")
    try:
        return check_id("id", str(record.id))
    except HyrecallError:
        raise Refused("id: not 1 to 512 bytes of valid text") from None


def record_text(record: Record) -> str:
    """Return the text of a record."""
    if record.text is None or (isinstance(record.text, str) and not record.text.strip()):
        raise Refused("no text")
    if not isinstance(record.text, str):
        raise Refused("no text: it is of another type")
    try:
        record.text.encode()
    except UnicodeEncodeError:
        raise Refused("text: not valid Unicode") from None
    return record.text


def read_time(record: Record, time_from: str | None) -> datetime | None:
    """Return when a record was made, in UTC; None if nothing says so."""
    # A text is ISO 8601, a number counts seconds from 1970 on; what has no zone is UTC.
    found = record.created_at
    if time_from is not None:
        found = field_of(record.metadata, time_from)
        found = field_of(record.names, time_from) if found is None else found
    if found is None:
        return None
    try:
        if isinstance(found, str):
            found = datetime.fromisoformat(found)
        elif isinstance(found, int | float) and 0 <= found < _LAST_SECOND:
            found = datetime.fromtimestamp(found, UTC)
        if isinstance(found, datetime):
            plain = datetime.combine(found.date(), found.timetz())  # a Timestamp of pandas is more
            return in_utc(plain)
    except (ValueError, OptionError):
        pass
    raise Refused("time: neither ISO 8601 nor seconds from 1970 on")


# ---- Turns a record into what a store or an index keeps, or says why it is left out ----


@dataclass(frozen=True)
class Mapped:
    """A record as a memory: text, user, time, metadata."""

    key: str
    user: str
    text: str
    metadata: dict[str, Any]
    at: datetime | None
    session_id: str | None
    vector: Vector | None
    vector_fault: str | None
    dropped: tuple[str, ...]


@dataclass(frozen=True)
class Mapper:
    """How records become memories: their users, and the field with their time."""

    owners: Owners
    time_from: str | None

    def __post_init__(self) -> None:
        """Check the name of the field."""
        if self.time_from is not None:
            check_id("time_from", self.time_from)

    def of(self, record: Record) -> Mapped:
        """Map a record."""
        key, user = read_key(record), self.owners.of(record)
        text, at = record_text(record), read_time(record, self.time_from)
        metadata, lost = json_fields(record.metadata)
        session = None
        if record.session_id is not None:
            try:
                session = check_id("session", record.session_id)
            except HyrecallError:
                lost.append("session")
        row = record.vector
        fault = "no vector in the source" if row is None else vector_fault(row)
        if fault is not None:
            row = None
        dropped = (*record.dropped, *lost)
        return Mapped(key, user, text, metadata, at, session, row, fault, dropped)


def check_source(source: object) -> None:
    """Check that a caller passes an open source."""
    if not isinstance(source, Source):
        wish = "a Source, from open_source() in a with block"
        raise error(DTypeError, "source", wish, type(source).__name__)


def map_records(
    source: Source, mapper: Mapper, tally: Tally, progress: ProgressFunction | None
) -> Iterator[Mapped]:
    """Map the records of a source; those that cannot be kept are counted with their reason."""
    for record in source.records:
        tally.n_read += 1
        try:
            yield mapper.of(record)
        except Refused as refusal:
            tally.leave_out(str(refusal), record.id)
        if progress is not None and tally.n_read % PAGE == 0:
            progress(tally.n_read, max(source.n_records, tally.n_read))


# ---- Opens a source of records by the name of its system ----

# What each system leaves open; its reader is the module of its name.
_TAKES: dict[str, tuple[str, ...]] = {
    "chroma": ("collection",),
    "lancedb": ("collection", "id_field", "text_field", "vector_field"),
    "qdrant": ("collection", "text_field", "vector_field"),
    "mem0": (),
    "langchain": (),
}
_URLS = ("http://", "https://")
SYSTEMS = tuple(_TAKES)
"""The systems that can be read."""


@check_keywords
def open_source(
    system: str,
    path: str | PathLike[str],
    *,
    collection: str | None = None,
    id_field: str | None = None,
    text_field: str | None = None,
    vector_field: str | None = None,
) -> AbstractContextManager[Source]:
    """Open the records of another system, to be read once within a ``with`` block.

    Parameters
    ----------
    system : {"chroma", "lancedb", "qdrant", "mem0", "langchain"}
    path : path
        A folder of chroma, lancedb or qdrant-client; a file of JSON of mem0 or langchain. Of qdrant
        also the URL of a server, whose key is in ``QDRANT_API_KEY``.
    collection : str, optional
        The collection, or the table of lancedb. Default: the only one.
    id_field : str, default "id"
        Column of the ids; of lancedb.
    text_field : str, default "text"
        Column of the texts of lancedb; field of qdrant's payload, or its path with dots.
    vector_field : str, optional
        Column of lancedb, or named vector of qdrant. Default: the only one.

    Returns
    -------
    context manager of Source

    Raises
    ------
    OptionError, DTypeError
        Another system; an option that it does not take; a path, collection or field that is not
        there.
    MissingExtraError
        The package of the system is not installed; the message has the install command.
    OSError
        The file cannot be read.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> from hyrecall.migrate import open_source
    >>> file = pathlib.Path(tempfile.mkdtemp(), "mem0.json")
    >>> _ = file.write_text(json.dumps([{"id": "m1", "memory": "Tea at four", "user_id": "ann"}]))
    >>> with open_source("mem0", file) as source:
    ...     [(record.id, record.text) for record in source.records]
    [('m1', 'Tea at four')]
    """
    if system not in _TAKES:
        raise error(OptionError, "system", f"one of {', '.join(SYSTEMS)}", repr(system))
    options = Options(collection, id_field, text_field, vector_field)
    for one in fields(Options):
        value = getattr(options, one.name)
        if value is not None and one.name not in _TAKES[system]:
            raise error(OptionError, one.name, f"none for {system}", repr(value))
        if value is not None:
            check_id(one.name, value)
    read = import_module(f"hyrecall.migrate.{system}").read
    opener = cast(Callable[[Any, Options], AbstractContextManager[Source]], read)
    is_url = system == "qdrant" and isinstance(path, str) and path.lower().startswith(_URLS)
    return opener(path if is_url else read_path(path), options)
