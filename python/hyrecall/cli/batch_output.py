"""Where a batch's hits and refused queries go: to a stream, or to a folder that outlives the run.

A run to a file keeps what it has written in a folder beside the output until the output is whole:
the hits in segments one after another, the refused queries, and a state that says how far both are
and what was asked. A later run with the same question goes on from there.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import pyarrow as pa

from hyrecall.base import disk, output
from hyrecall.cli.batch_formats import TableWriter, check_types, finish, writer
from hyrecall.cli.batch_state import State
from hyrecall.cli.show import say
from hyrecall.errors import OptionError, WriterBusyError, error

__all__ = ["Output", "Refused", "Stream", "Unfinished"]

_SEGMENT_SECONDS = 30.0  # at most so much work is lost when the process is killed
_HITS, _REJECTS, _STATE = "hits", "rejects.jsonl", "state.json"


@dataclass(frozen=True)
class Refused:
    """A query that was not answered.

    Attributes
    ----------
    query : int
        Its number in the file.
    key : object
        None without ``--query-key``, or where it could not be read.
    fault : Exception
    """

    query: int
    key: Any
    fault: Exception

    def line(self) -> bytes:
        """Return what stands in the file of refused queries."""
        row = {"query": self.query, "key": self.key, "error": " ".join(str(self.fault).split())}
        return json.dumps(row, ensure_ascii=True, default=str).encode() + b"\n"


class Output(Protocol):
    """Takes what the slices of a run give, in order."""

    @property
    def n_queries(self) -> int:
        """How many queries are done."""

    @property
    def n_refused(self) -> int:
        """How many of them were refused."""

    @property
    def schema(self) -> pa.Schema | None:
        """The columns of the hits; None before the first."""

    def write(self, hits: pa.Table | None, refused: Sequence[Refused], n_queries: int) -> None:
        """Take the hits of some queries, None where all were refused, and the refused ones."""


class Stream:
    """Hits to a file or pipe that is written in one go.

    Parameters
    ----------
    kind : str
        Of ``OUTPUT_KINDS``.
    file : binary file
    rejects : binary file, optional
        Takes the refused queries.
    """

    def __init__(self, kind: str, file: BinaryIO, rejects: BinaryIO | None) -> None:
        """Write nothing yet."""
        self._kind = kind
        self._file = file
        self._rejects = rejects
        self._writer: TableWriter | None = None
        self.n_queries = self.n_refused = 0
        self.schema: pa.Schema | None = None

    def write(self, hits: pa.Table | None, refused: Sequence[Refused], n_queries: int) -> None:
        """Write at once."""
        if hits is not None:
            if self._writer is None:
                check_types(self._kind, hits.schema)
                self.schema = hits.schema
                self._writer = writer(self._kind, self._file, hits.schema)
            self._writer.write_table(hits)
        if self._rejects is not None:
            self._rejects.writelines(one.line() for one in refused)
        self.n_queries += n_queries
        self.n_refused += len(refused)

    def close(self) -> None:
        """End the file."""
        if self._writer is not None:
            self._writer.close()
        self._file.flush()


class Unfinished:
    """The folder of a run to a file.

    Parameters
    ----------
    path : Path
        The output, as the user names it.
    kind : str
        Of ``OUTPUT_KINDS``.
    job : dict
        What is asked, as JSON: only a run with the same may go on.
    resume : bool
        Go on where the earlier run stopped.
    skips : bool
        Refused queries are listed.

    Attributes
    ----------
    shown : Path
        The folder, as messages call it.

    Raises
    ------
    OptionError
        The earlier run asked something else, or listed queries that this one would not; there is an
        earlier run, and nobody says to go on; the folder is not one of a run.
    WriterBusyError
        Another run writes this output.
    """

    def __init__(
        self, path: Path, kind: str, job: dict[str, Any], *, resume: bool, skips: bool
    ) -> None:
        """Take or make the folder."""
        self._target = output.resolved("--output", path)
        self._kind = kind
        self._path = _folder_of(self._target)
        self.shown = self._path if path.is_symlink() else _folder_of(path)
        self._writer: TableWriter | None = None
        self._is_sound = True
        self._is_whole = False
        with ExitStack() as opened:
            self._take_folder(opened)
            self._state = self._begin(job, resume=resume, skips=skips)
            self._hits, self._rejects = (
                opened.enter_context(self._open(name)) for name in (_HITS, _REJECTS)
            )
            self._cut()
            self._opened = opened.pop_all()
        self._since = time.monotonic()

    @property
    def began(self) -> datetime:
        """When the run began that this one goes on with, or is."""
        return datetime.fromisoformat(self._state.began)

    @property
    def n_queries(self) -> int:
        """How many queries are done."""
        return self._state.queries

    @property
    def n_refused(self) -> int:
        """How many of them were refused."""
        return self._state.refused

    @property
    def schema(self) -> pa.Schema | None:
        """The columns of the hits; None before the first."""
        kept = self._state.schema
        return None if kept is None else pa.ipc.read_schema(pa.py_buffer(base64.b64decode(kept)))

    def write(self, hits: pa.Table | None, refused: Sequence[Refused], n_queries: int) -> None:
        """Write into the segment at work; now and then it is ended and the state kept."""
        with _without_interrupts():
            self._is_sound = False
            if hits is not None:
                self._write_hits(hits)
            self._rejects.writelines(one.line() for one in refused)
            self._state.queries += n_queries
            self._state.refused += len(refused)
            self._is_sound = True
            if time.monotonic() - self._since > _SEGMENT_SECONDS:
                self._keep()

    def close(self, rejects: Path | None) -> None:
        """Make the output of the segments, give it its name, and remove the folder."""
        with _without_interrupts():
            self._keep()
            finish(self._kind, self._hits, self._state.ends)
            _to_disk(self._hits)
            if rejects is not None:
                self._rejects.seek(0)
                with output.replaced("--rejects", rejects) as file:
                    file.writelines(self._rejects)
            output.moved(self._path / _HITS, self._target)
            self._is_whole = True
            self._remove()

    def leave(self) -> int:
        """End without an output. Return how many queries a later run need not answer again."""
        if self._is_whole:  # what failed was to remove the folder
            return 0
        with _without_interrupts():
            if self._is_sound:
                with suppress(OSError):  # a full disk, say: then the last state counts
                    self._keep()
            elif self._writer is not None:
                with suppress(Exception):  # what failed once may fail again
                    self._writer.close()
            kept = State.read(self._path / _STATE)
            if kept is None or not kept.queries:
                self._remove()
                return 0
            self._opened.close()
        return kept.queries

    def _write_hits(self, hits: pa.Table) -> None:
        if self._state.schema is None:
            check_types(self._kind, hits.schema)
            kept = hits.schema.serialize().to_pybytes()
            self._state.schema = base64.b64encode(kept).decode()
        if self._writer is None:
            at = self._hits.seek(0, os.SEEK_END)
            self._writer = writer(self._kind, self._hits, hits.schema, at=at)
        self._writer.write_table(hits)

    def _take_folder(self, opened: ExitStack) -> None:
        """Make the folder, or take one of an earlier run of the same user, and lock it."""
        if not self._target.parent.is_dir():
            raise error(OptionError, "--output", "a file in a folder that is there", self._target)
        with suppress(FileExistsError):
            os.mkdir(self._path, 0o700)
        found = os.lstat(self._path)
        known = {_HITS, _REJECTS, _STATE, disk.LOCK}
        is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
        if not is_ours or not all(_is_known(name, known) for name in os.listdir(self._path)):
            wish = "no such file, or the folder of an unfinished run of your own"
            raise error(OptionError, str(self.shown), wish, "something else")
        try:
            opened.enter_context(disk.writer_lock(self._path))
        except WriterBusyError:
            got = "one at work"
            raise error(WriterBusyError, "--output", "no other run to this file", got) from None

    def _begin(self, job: dict[str, Any], *, resume: bool, skips: bool) -> State:
        kept = State.read(self._path / _STATE)
        is_kept = kept is not None and self._is_there(kept)
        other = None if kept is None else kept.difference(job)
        if resume:
            if kept is None or not is_kept:
                wish = f"an interrupted run to go on from in {self.shown}"
                self._remove_if_empty()
                raise error(OptionError, "--resume", wish, "none")
            if other is not None:
                what, was, now = other
                raise error(OptionError, "--resume", f"{what} as before ({was})", now)
            if kept.refused and not skips:
                wish = f"--on-error skip as before ({kept.refused:,} queries were refused)"
                raise error(OptionError, "--resume", wish, "--on-error fail")
            return kept
        if kept is not None and is_kept:
            if other is None:
                wish = f"--resume (or {self.shown} deleted, to begin anew)"
                got = f"neither, and {kept.queries:,} answered queries there"
                raise error(OptionError, "--output", wish, got)
            say(f"note: an unfinished run that asked otherwise ({other[0]}) is thrown away")
        for name in (_STATE, _HITS, _REJECTS):
            with suppress(FileNotFoundError):
                os.unlink(self._path / name)
        made = State(job)
        self._write_state(made)
        return made

    def _is_there(self, state: State) -> bool:
        """Tell whether the files hold what a state counts, and that is more than nothing."""
        try:
            sizes = [(self._path / name).stat().st_size for name in (_HITS, _REJECTS)]
        except OSError:
            return False
        counted = [state.ends[-1] if state.ends else 0, state.rejects_bytes]
        return state.queries > 0 and sizes[0] >= counted[0] and sizes[1] >= counted[1]

    def _open(self, name: str) -> BinaryIO:
        mode = 0o666 if name == _HITS else 0o600
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.fdopen(os.open(self._path / name, flags, mode), "r+b")

    def _cut(self) -> None:
        """Cut off what the state does not count."""
        ends = self._state.ends
        for file, size in (
            (self._hits, ends[-1] if ends else 0),
            (self._rejects, self._state.rejects_bytes),
        ):
            file.truncate(size)
            file.seek(0, os.SEEK_END)

    def _keep(self) -> None:
        """End the segment and write the state, so that all before is there after a power cut."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
            _to_disk(self._hits)
            self._state.ends.append(self._hits.tell())
        _to_disk(self._rejects)
        self._state.rejects_bytes = self._rejects.tell()
        self._write_state(self._state)
        self._since = time.monotonic()

    def _write_state(self, state: State) -> None:
        with output.replaced("--output", self._path / _STATE, mode=0o600) as file:
            file.write(state.to_json())

    def _remove(self) -> None:
        for name in os.listdir(self._path):
            os.unlink(self._path / name)
        self._opened.close()
        with suppress(OSError):
            os.rmdir(self._path)

    def _remove_if_empty(self) -> None:
        with suppress(OSError):
            if os.listdir(self._path) == [disk.LOCK]:
                os.unlink(self._path / disk.LOCK)
            os.rmdir(self._path)


def _folder_of(target: Path) -> Path:
    return target.with_name(f"{target.name}.unfinished")


def _is_known(name: str, known: set[str]) -> bool:
    return name in known or name.startswith(".hyrecall-")  # the next state, when a run was killed


def _to_disk(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Let Ctrl-C wait until the block has ended, so that no file is left between two states."""
    before = signal.getsignal(signal.SIGINT)
    if not callable(before):  # ignored, or not Python's
        yield
        return
    heard: list[tuple[int, Any]] = []
    signal.signal(signal.SIGINT, lambda number, frame: heard.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if heard:
            before(*heard[0])
