"""A pushed generation as data: its files in chunks, and HEAD, which names the newest generation.

Chunks are named by their SHA-256, and a generation by the SHA-256 of its own text. So everything
that is read is compared with its name first. docs/replicas.md describes the objects.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from hyrecall.base.disk import (
    FILE_NAME,
    RemoteVersion,
    check_int,
    check_text,
    read_fields,
    read_utc,
    sealed,
    unsealed,
)
from hyrecall.errors import CorruptRemoteError, error
from hyrecall.replicas.remote import HEAD, Remote

FORMAT = 1
INDEX, STORE = "index", "store"
CHUNKS, GENERATIONS = "chunks", "generations"
DATABASE, HEADER = "memory.db", "index/HEADER"
INDEX_PARTS = ("nodes", "edges")

_MOST_CHUNK = 2**28
_SHA256 = re.compile(r"[0-9a-f]{64}")
_LINE = re.compile(r"[0-9a-f]{16}")
_CHUNK = re.compile(r"([0-9a-f]{64})-[0-9a-f]{16}")
_PART = re.compile(rf"index/({'|'.join(INDEX_PARTS)})/(.+)")


def hash_of(content: bytes | memoryview) -> str:
    """Return the SHA-256 of some bytes."""
    return hashlib.sha256(content).hexdigest()


def epoch_of(head: bytes | None) -> str:
    """Return the end of the names of the chunks that a push on top of this HEAD writes."""
    # A prune changes HEAD before it removes anything. So it never removes a name that is used by a
    # push that can still be published.
    return hash_of(head or b"")[:16]


def now() -> str:
    """Return the time, ISO 8601 in UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True)
class PushedFile:
    """One file of a generation."""

    name: str
    size: int
    mark: str
    chunk_bytes: int
    chunks: tuple[str, ...]

    def __post_init__(self) -> None:
        check_text("file name", self.name)
        check_int(f"size of {self.name}", self.size, 0, 2**63 - 1)
        check_text("mark", self.mark)
        check_int("chunk_bytes", self.chunk_bytes, 1, _MOST_CHUNK)
        for chunk in self.chunks:
            check_text(f"chunk of {self.name}", chunk, _CHUNK)
        if len(self.chunks) != -(-self.size // self.chunk_bytes):
            raise ValueError(f"{len(self.chunks)} chunks of {self.size} bytes")

    def length_of(self, number: int) -> int:
        """Return the size of a chunk."""
        return min(self.chunk_bytes, self.size - number * self.chunk_bytes)


def object_of(chunk: str) -> str:
    """Return the name of a chunk's object."""
    return f"{CHUNKS}/{chunk[:2]}/{chunk}"


@dataclass(frozen=True)
class Generation:
    """One published state of a folder."""

    kind: str
    number: int
    parent: str | None
    line: str
    pushed_at: str
    generator: str
    state: Mapping[str, str | int]
    files: tuple[PushedFile, ...]

    def __post_init__(self) -> None:
        """Refuse values that no push can have written, above all names outside the folder."""
        check_int("generation", self.number, 1, 2**63 - 1)
        if self.parent is not None:
            check_text("parent", self.parent, _SHA256)
        check_text("line", self.line, _LINE)
        read_utc(self.pushed_at)
        check_text("generator", self.generator)
        names = [file.name for file in self.files]
        twice = next((name for name, count in Counter(names).items() if count > 1), None)
        if twice is not None:
            raise ValueError(f"{twice} listed twice")
        needed: tuple[str, ...]
        if self.kind == INDEX:
            check_text("seal", self.state["seal"])
            needed, known = ("MANIFEST",), _is_of_index
        elif self.kind == STORE:
            check_text("store_id", self.state["store_id"])
            for name in ("sequence", "erasures"):
                check_int(name, self.state[name], 0, 2**63 - 1)
            needed, known = (DATABASE,), _is_of_store
        else:
            raise ValueError(f"kind {self.kind!r}")
        if HEADER in names:
            needed += tuple(f"index/{part}/MANIFEST" for part in INDEX_PARTS)
        for name in needed:
            if name not in names:
                raise ValueError(f"no {name}")
        for name in names:
            if not known(name):
                raise ValueError(f"file {name!r}")

    @property
    def version(self) -> str:
        """The state of the folder as one string; see :class:`hyrecall.base.disk.RemoteVersion`."""
        return str(self.state["seal" if self.kind == INDEX else "sequence"])

    @property
    def n_bytes(self) -> int:
        """Size of all files."""
        return sum(file.size for file in self.files)

    @property
    def chunks(self) -> set[str]:
        """The chunks of all files."""
        return {chunk for file in self.files for chunk in file.chunks}

    def to_bytes(self) -> bytes:
        """Return the generation as JSON."""
        return json.dumps({"format": FORMAT, **asdict(self)}, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, text: bytes, where: str) -> Generation:
        """Make a generation from its JSON; ``where`` is for messages."""

        def make(data: dict[str, Any]) -> Generation:
            named = [{**one, "chunks": tuple(one["chunks"])} for one in data.pop("files")]
            return cls(files=tuple(PushedFile(**one) for one in named), **data)

        return read_fields(text, where, "a generation", FORMAT, make)

    def noted(self, url: str, manifest: str) -> RemoteVersion:
        """Return the note about this generation for the REMOTE file of a folder."""
        return RemoteVersion(url, self.number, manifest, self.version, self.pushed_at, self.line)


def _is_of_index(name: str) -> bool:
    return name == "MANIFEST" or FILE_NAME.fullmatch(name) is not None


def _is_of_store(name: str) -> bool:
    part = _PART.fullmatch(name)
    return name in (DATABASE, HEADER) or (part is not None and _is_of_index(part[2]))


@dataclass(frozen=True)
class Head:
    """The content of HEAD: the newest generation, and how often the place was pruned."""

    number: int
    manifest: str
    prunes: int

    def __post_init__(self) -> None:
        check_int("generation", self.number, 1, 2**63 - 1)
        check_text("manifest", self.manifest, _SHA256)
        check_int("prunes", self.prunes, 0, 2**63 - 1)

    @property
    def object_name(self) -> str:
        """The name of the generation's object."""
        return name_of(self.number, self.manifest)

    def to_bytes(self) -> bytes:
        """Return a line of JSON and a line with its checksum."""
        text = json.dumps({"format": FORMAT, **asdict(self)}, separators=(",", ":")) + "\n"
        return sealed(text.encode(), "sha256")

    @classmethod
    def from_bytes(cls, text: bytes, where: str) -> Head:
        """Make a HEAD from the bytes of :meth:`to_bytes`; ``where`` is for messages."""
        body = unsealed(text, "sha256")
        if body is None:
            raise error(CorruptRemoteError, where, "a body with its checksum", "another body")
        return read_fields(body, where, HEAD, FORMAT, lambda data: cls(**data))


def name_of(number: int, manifest: str) -> str:
    """Return the name of a generation's object."""
    return f"{GENERATIONS}/{number:010}-{manifest}"


def read_head(remote: Remote) -> tuple[Head, bytes, str] | None:
    """Return HEAD, its bytes and its tag; None: nothing was pushed yet."""
    found = remote.get_head()
    return None if found is None else (Head.from_bytes(found[0], f"{remote.url}/{HEAD}"), *found)


def read_generation(remote: Remote, number: int, manifest: str) -> Generation:
    """Read a generation and compare it with its name."""
    name = name_of(number, manifest)
    text = remote.get(name)
    where = f"{remote.url}/{name}"
    if hash_of(text) != manifest:
        raise error(CorruptRemoteError, where, f"SHA-256 {manifest}", hash_of(text))
    found = Generation.from_bytes(text, where)
    if found.number != number:
        raise error(CorruptRemoteError, where, f"generation {number}", found.number)
    return found
