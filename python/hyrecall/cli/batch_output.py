"""Writes a batch's hits and refused queries to a stream, or to a folder for resuming the run.

Until its output is complete, a run to a file keeps its data in a folder beside the output: the hits
in consecutive segments, the refused queries, and a state with the progress and the job. A later run
of the same job continues from there.
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

from hyrecall.base import disk, output_files
from hyrecall.cli.batch_formats import TableWriter, check_types, finish, writer
from hyrecall.cli.batch_state import State
from hyrecall.cli.show import say
from hyrecall.errors import OptionError, WriterBusyError, error

__all__ = ["Output", "Refused", "Stream", "Unfinished"]

_SEGMENT_SECONDS = 30.0  # the most work that is lost if the process is killed
_HITS, _REJECTS, _STATE = "hits", "rejects.jsonl", "state.json"


@dataclass(frozen=True)
class Refused:
    """A query that was not answered.

    Attributes
    ----------
    query : int
        Its number in the file.
    key : object
        None without ``--query-key``, or if it cannot be read.
    fault : Exception
    """

    query: int
    key: Any
    fault: Exception

    def line(self) -> bytes:
        """Return the line for the file of refused queries."""
        row = {"query": self.query, "key": self.key, "error": " ".join(str(self.fault).split())}
        return json.dumps(row, ensure_ascii=True, default=str).encode() + b"\n"


class Output(Protocol):
    """Receives the results of a run's slices, in order."""

    @property
    def n_queries(self) -> int:
        """The number of finished queries."""

    @property
    def n_refused(self) -> int:
        """The number of refused queries among them."""

    @property
    def schema(self) -> pa.Schema | None:
        """The columns of the hits; None before the first hits."""

    def write(self, hits: pa.Table | None, refused: Sequence[Refused], n_queries: int) -> None:
        """Write the hits of some queries (None if all were refused) and the refused queries."""


class Stream:
    """Writes hits to a file or pipe that cannot be resumed.

    Parameters
    ----------
    kind : str
        One of ``OUTPUT_KINDS``.
    file : binary file
    rejects : binary file, optional
        Receives the refused queries.
    """

    def __init__(self, kind: str, file: BinaryIO, rejects: BinaryIO | None) -> None:
        """Keep the files; nothing is written yet."""
        self._kind = kind
        self._file = file
        self._rejects = rejects
        self._writer: TableWriter | None = None
        self.n_queries = self.n_refused = 0
        self.schema: pa.Schema | None = None

    def write(self, hits: pa.Table | None, refused: Sequence[Refused], n_queries: int) -> None:
        """Write the hits and the refused queries."""
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
        """Write the end of the file."""
        if self._writer is not None:
            self._writer.close()
        self._file.flush()


class Unfinished:
    """Writes hits to the folder of an unfinished run, and finally to the output.

    Parameters
    ----------
    path : Path
        The output, as the user names it.
    kind : str
        One of ``OUTPUT_KINDS``.
    job : dict
        All options as JSON types: only a run with an equal job can continue.
    resume : bool
        Continue the earlier run.
    skips : bool
        Whether refused queries are listed instead of ending the run.

    Attributes
    ----------
    shown : Path
        The folder's name in messages.

    Raises
    ------
    OptionError
        The earlier run had another job, or listed queries that this run would not; there is an
        earlier run but no ``resume``; or the folder is not that of a run.
    WriterBusyError
        Another run is writing this output.
    """

    def __init__(
        self, path: Path, kind: str, job: dict[str, Any], *, resume: bool, skips: bool
    ) -> None:
        """Make the folder, or open that of an earlier run."""
        self._target = output_files.resolve_target("--output", path)
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
        """The time when the run began, or the earlier run that it continues."""
        return datetime.fromisoformat(self._state.began)

    @property
    def n_queries(self) -> int:
        """The number of finished queries."""
        return self._state.queries

    @property
    def n_refused(self) -> int:
        """The number of refused queries among them."""
        return self._state.refused

    @property
    def schema(self) -> pa.Schema | None:
        """The columns of the hits; None before the first hits."""
        kept = self._state.schema
        return None if kept is None else pa.ipc.read_schema(pa.py_buffer(base64.b64decode(kept)))

    def write(self, hits: pa.Table | None, refused: Sequence[Refused], n_queries: int) -> None:
        """Write to the current segment; about every 30 seconds, end it and save the state."""
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
        """Complete the output from the segments, move it to its name, and remove the folder."""
        with _without_interrupts():
            self._keep()
            finish(self._kind, self._hits, self._state.ends)
            _to_disk(self._hits)
            if rejects is not None:
                self._rejects.seek(0)
                with output_files.open_replacement("--rejects", rejects) as file:
                    file.writelines(self._rejects)
            output_files.move_file(self._path / _HITS, self._target)
            self._is_whole = True
            self._remove()

    def leave(self) -> int:
        """End without an output; return the number of queries that a later run can keep."""
        if self._is_whole:  # only removing the folder failed
            return 0
        with _without_interrupts():
            if self._is_sound:
                with suppress(OSError):  # on a full disk, for example, the last state stays valid
                    self._keep()
            elif self._writer is not None:
                with suppress(Exception):  # it may fail again
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
        """Make the folder, or open that of an earlier run of the same user, and lock it."""
        if not self._target.parent.is_dir():
            raise error(OptionError, "--output", "a file in an existing folder", self._target)
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
            got = "an active one"
            raise error(WriterBusyError, "--output", "no other run to this file", got) from None

    def _begin(self, job: dict[str, Any], *, resume: bool, skips: bool) -> State:
        kept = State.read(self._path / _STATE)
        is_kept = kept is not None and self._is_there(kept)
        other = None if kept is None else kept.difference(job)
        if resume:
            if kept is None or not is_kept:
                wish = f"an interrupted run to continue in {self.shown}"
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
                wish = f"--resume (or {self.shown} deleted, to start again)"
                got = f"neither, and {kept.queries:,} answered queries there"
                raise error(OptionError, "--output", wish, got)
            say(f"note: an unfinished run with other options ({other[0]}) is discarded")
        for name in (_STATE, _HITS, _REJECTS):
            with suppress(FileNotFoundError):
                os.unlink(self._path / name)
        made = State(job)
        self._write_state(made)
        return made

    def _is_there(self, state: State) -> bool:
        """Return whether the state counts any queries and the files hold all that it counts."""
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
        """Truncate the files to the sizes in the state."""
        ends = self._state.ends
        for file, size in (
            (self._hits, ends[-1] if ends else 0),
            (self._rejects, self._state.rejects_bytes),
        ):
            file.truncate(size)
            file.seek(0, os.SEEK_END)

    def _keep(self) -> None:
        """End the segment and write the state, so that the work so far survives a power cut."""
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
        with output_files.open_replacement("--output", self._path / _STATE, mode=0o600) as file:
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
    # The second is left by a run that was killed while it wrote its state.
    return name in known or name.startswith(".hyrecall-")


def _to_disk(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Delay Ctrl-C until the block ends, so that files and state always agree."""
    before = signal.getsignal(signal.SIGINT)
    if not callable(before):  # ignored, or not a Python handler
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
