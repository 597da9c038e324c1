"""Turns a record into what a store or an index keeps, or says why it is left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from hyrecall.errors import DTypeError, HyrecallError, error
from hyrecall.memory.data.fields import check_id
from hyrecall.migrate.owners import Owners, Refused, read_key, read_time, record_text
from hyrecall.migrate.records import Record, Source, Vector, json_fields, vector_fault
from hyrecall.migrate.report import Tally

__all__ = ["Mapped", "Mapper", "check_source", "map_records"]


@dataclass(frozen=True)
class Mapped:
    """A record as it is kept here."""

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
    """How records are mapped: whose they are, and which field has their time."""

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


def check_source(source: object) -> Source:
    """Check that a caller passes an open source."""
    if not isinstance(source, Source):
        wish = "a Source, from open_source() in a with block"
        raise error(DTypeError, "source", wish, type(source).__name__)
    return source


def map_records(source: Source, mapper: Mapper, tally: Tally) -> Iterator[Mapped]:
    """Map the records of a source; those that cannot be kept are counted with their reason."""
    for record in source.records:
        tally.read()
        try:
            yield mapper.of(record)
        except Refused as refusal:
            tally.leave_out(str(refusal), record.id)
