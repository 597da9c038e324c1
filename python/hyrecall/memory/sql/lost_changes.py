"""Detects lost changes of a database by two files beside it that name its last change.

SQLite reads a damaged log up to the damage, and treats an empty file as a new database, without an
error. Two files beside the database name a change that the store has made: LOCK, in which the
writer notes each commit, and the header of the saved index. A database that is missing, or ends
before that change, has lost changes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import apsw
import xxhash

from hyrecall.base import disk
from hyrecall.base.malformed import MALFORMED
from hyrecall.errors import CorruptStoreError, error
from hyrecall.memory.sql.lock import read_note
from hyrecall.segments.manifest import MANIFEST

# ---- Reads and writes the HEADER of a saved index: the store and the change that it is of ----
# It is written last, after index and graph are saved. A crash before that leaves a HEADER that does
# not fit their manifests, and such a snapshot is not used.

INDEX = "index"
"""The folder of a snapshot, in that of the store."""

HEADER = "HEADER"
PARTS = ("nodes", "edges")
"""The folders of a snapshot."""

FORMAT = 1


class StaleError(Exception):
    """A snapshot that cannot be used, and why. Raised inside the package only."""


@dataclass(frozen=True)
class Header:
    """The store, change, layout and model that a snapshot is of."""

    store_id: str
    sequence: int
    erasures: int
    layout: str
    model: str | None
    dim: int

    def reason_against(self, now: Header) -> str | None:
        """Return why the snapshot does not fit a store in this state, or None."""
        if self.store_id != now.store_id:
            return "of another store"
        if (self.layout, self.model, self.dim) != (now.layout, now.model, now.dim):
            return "of another layout or model"
        if self.sequence > now.sequence:
            return f"of a later state ({self.sequence}) than the store's ({now.sequence})"
        if self.erasures != now.erasures:
            return "from before an erasure"
        return None


def write_header(folder: Path, header: Header) -> None:
    """Write the header of the two indexes in a folder, durably."""
    body = {"format": FORMAT, **asdict(header), "manifests": _manifests(folder)}
    text = json.dumps(body, separators=(",", ":")) + "\n"
    disk.put(folder, HEADER, disk.sealed(text.encode()))


def read_header(folder: Path) -> Header:
    """Read the header of the two indexes in a folder, and compare it with their manifests."""
    header, manifests = _read(folder)
    if manifests != _manifests(folder):
        raise StaleError("HEADER is of other manifests")
    return header


def read_sealed(folder: Path) -> Header:
    """Read the header alone, without comparing manifests."""
    return _read(folder)[0]


def _read(folder: Path) -> tuple[Header, object]:
    try:
        body = disk.unsealed(disk.read_bytes(folder / HEADER))
    except FileNotFoundError:
        raise StaleError("none there") from None
    except OSError as fault:
        raise StaleError(f"HEADER cannot be read ({fault.strerror or fault})") from None
    if body is None:
        raise StaleError("HEADER is damaged")
    try:
        fields = json.loads(body)
        found = fields.pop("format")
        if found != FORMAT:
            raise StaleError(f"HEADER is of format {found}")
        manifests = fields.pop("manifests")
        return Header(**fields), manifests
    except MALFORMED as fault:
        raise StaleError(f"HEADER has other fields ({fault})") from None


def _manifests(folder: Path) -> dict[str, str | None]:
    return {part: _hash_of(folder / part / MANIFEST) for part in PARTS}


def _hash_of(path: Path) -> str | None:
    try:
        return xxhash.xxh3_64_hexdigest(disk.read_bytes(path))
    except OSError:
        return None


# ---- Detects lost changes of a database by two files beside it that name its last change ----

_NOTE = re.compile(rb"(store ([0-9a-f]{32}) change (\d{19}) )xxh3_64 ([0-9a-f]{16})\n")

_RESCUE = (
    "`hyrecall doctor --rescue FILE` writes the rows that the saved index still holds, "
    "`hyrecall doctor --accept-loss` goes on without what is lost"
)
_REMEDY = "accept_loss=True"

# One statement, because each commit runs it.
_LAST_CHANGE = "SELECT {}, {}, {}".format(
    *(f"(SELECT value FROM meta WHERE name = '{n}')" for n in ("store_id", "sequence", "erasures"))
)


@dataclass(frozen=True)
class Witness:
    """A change that a store is known to have made: its number, and the id of the store."""

    store_id: str
    sequence: int

    def to_note(self) -> bytes:
        """Return the line that LOCK holds; all are of one length."""
        text = f"store {self.store_id} change {self.sequence:019} ".encode()
        return text + f"xxh3_64 {xxhash.xxh3_64_hexdigest(text)}\n".encode()

    @classmethod
    def of_note(cls, note: bytes) -> Witness | None:
        """Read the line of LOCK; None: it is damaged or empty."""
        found = _NOTE.fullmatch(note)
        if found is None or xxhash.xxh3_64_hexdigest(found[1]).encode() != found[4]:
            return None
        return cls(found[2].decode(), int(found[3]))


def witnesses(folder: Path) -> list[Witness]:
    """Read the changes that LOCK and the saved index name. Read them before the database."""
    # A store that has made no change has nothing to lose: it is not among them.
    found = [Witness.of_note(read_note(folder))]
    try:
        header = read_sealed(folder / INDEX)
        found.append(Witness(header.store_id, header.sequence))
    except StaleError:
        pass
    return [one for one in found if one is not None and one.sequence > 0]


def check_is_there(
    database: Path, log: Path, known: Iterable[Witness], *, remedy: str = _REMEDY
) -> None:
    """Refuse a folder with a missing or empty database if the files beside it name one."""
    # A store that was never completely made has neither: SQLite writes the database before the log.
    if _size(database):
        return
    left = ["the log"] if _size(log) else []
    left += ["what LOCK and the index tell of it"] if any(known) else []
    if left:
        wish = "the database of the store, which was here"
        got = "an empty file" if database.exists() else "none"
        told = f"{got} beside {' and '.join(left)}. Put a copy of it back; {_RESCUE}"
        raise error(CorruptStoreError, str(database), wish, told, remedy)


def check_is_whole(path: str, found: Witness | None, known: Iterable[Witness]) -> None:
    """Refuse a database that lacks changes which the files beside it name."""
    named = list(known)
    own = [one.sequence for one in named if found is not None and one.store_id == found.store_id]
    last = max((one.sequence for one in named), default=0) if not own else max(own)
    if found is not None and own and last <= found.sequence:
        return  # a saved index of another store is merely not taken
    if not named:
        return
    wish = f"every change up to {last}, which LOCK or the saved index names"
    if found is None:
        got = "a database with nothing in it: its log is lost"
    elif not own:
        got = "the database of another store"
    else:
        got = f"a database that ends at change {found.sequence}"
    got = f"{got}. Either its log is damaged or cut, or another memory.db was put here; {_RESCUE}"
    raise error(CorruptStoreError, path, wish, got, _REMEDY)


def last_change(connection: apsw.Connection, path: str) -> Witness:
    """Read which store a database is and its last change. It must have tables."""
    store_id, *counts = connection.execute(_LAST_CHANGE).get
    if not isinstance(store_id, str) or not all(isinstance(one, int) for one in counts):
        raise error(CorruptStoreError, path, "an id and counts in the table meta", "other values")
    return Witness(store_id, counts[0])


def forget_losses(connection: apsw.Connection, path: str, known: Iterable[Witness]) -> None:
    """Continue after the last known change, so that no number is used twice."""
    # It counts as an erasure: indexes that hold what is lost are not taken any more.
    found = last_change(connection, path)
    last = max((one.sequence for one in known if one.store_id == found.store_id), default=0)
    if last > found.sequence:
        with connection:  # a transaction
            connection.execute("UPDATE meta SET value = ? WHERE name = 'sequence'", (last + 1,))
            connection.execute("UPDATE meta SET value = value + 1 WHERE name = 'erasures'")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
