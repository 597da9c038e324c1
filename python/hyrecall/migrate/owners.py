"""Decides whose a record is, when it was made, and what its id is here."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from hyrecall.errors import HyrecallError, OptionError, ScopeError, error
from hyrecall.memory.data.fields import check_id, check_user, in_utc
from hyrecall.migrate.records import Record, field_of

__all__ = ["Owners", "Refused", "read_key", "read_time", "record_text"]

_LAST_SECOND = 4_102_444_800  # the year 2100: a larger number is of milliseconds


class Refused(Exception):  # noqa: N818
    """A record is left out; the text says why, without its content."""


@dataclass(frozen=True)
class Owners:
    """Whose the records are: one user's, or that of a field of each record."""

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
