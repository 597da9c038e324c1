"""Writes a batch's hits and refused queries to a stream, or to a folder for resuming the run.

Until its output is complete, a run to a file keeps its data in a folder beside the output: the hits
in consecutive segments, the refused queries, and a state with the progress and the job. A later run
of the same job continues from there.
"""

from __future__ import annotations

import base64
import io
import json
import math
import os
import signal
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from json.encoder import encode_basestring
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from hyrecall.base import disk
from hyrecall.cli.show import finite, say
from hyrecall.errors import DTypeError, OptionError, WriterBusyError, error
from hyrecall.table.arrow_values import python_values

# ---- Writes hits as Parquet, CSV or JSON lines ----
# A file can be written in segments, each by its own writer, so that writing can continue after the
# end of a segment. Segments of text are simply concatenated. Each segment of Parquet ends with a
# footer; :func:`finish` appends one footer for all segments.

OUTPUT_KINDS = ("parquet", "csv", "jsonl")
STDOUT = Path("-")

_SUFFIXES = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}
_MAGIC = b"PAR1"
_ZEROS = memoryview(bytes(1 << 20))
_TAIL = 8  # bytes at the end of Parquet: the footer's length and the magic bytes


class TableWriter(Protocol):
    """Writes tables of one schema."""

    def write_table(self, table: pa.Table) -> None:
        """Write the rows of a table."""

    def close(self) -> None:
        """Write the end of a segment; the file stays open."""


def output_kind(path: Path, named: str | None) -> str:
    """Return the format of the output: the named one, or by the file's name; JSON lines for stdout.

    Examples
    --------
    >>> output_kind(Path("hits.csv"), None), output_kind(STDOUT, None)
    ('csv', 'jsonl')
    """
    if named is not None:
        if named not in OUTPUT_KINDS:
            raise error(OptionError, "--output-format", f"one of {', '.join(OUTPUT_KINDS)}", named)
        return named
    if path == STDOUT:
        return "jsonl"
    kind = _SUFFIXES.get(path.suffix.lower())
    if kind is None:
        wish = f"a name that ends in {', '.join(_SUFFIXES)}, or --output-format"
        raise error(OptionError, "--output", wish, repr(path.name))
    return kind


def check_types(kind: str, schema: pa.Schema) -> None:
    """Refuse columns that a format cannot hold."""
    for column in schema if kind == "csv" else ():
        if pa.types.is_nested(column.type):
            wish = "columns of single values for CSV (or .parquet, .jsonl)"
            raise error(DTypeError, column.name, wish, column.type)


def writer(kind: str, file: BinaryIO, schema: pa.Schema, *, at: int = 0) -> TableWriter:
    """Make a writer for a segment."""
    if kind == "parquet":
        return _parquet(file, schema, at)
    if kind == "csv":
        how = pa_csv.WriteOptions(include_header=at == 0)
        return pa_csv.CSVWriter(file, schema, write_options=how)  # type: ignore[no-any-return]
    return _JsonLines(file)


def _parquet(file: BinaryIO, schema: pa.Schema, at: int) -> TableWriter:
    """Make a writer whose offsets count from the start of the file, not of the segment."""
    # Arrow uses the number of bytes written so far as the offset. So it first writes `at` bytes,
    # the magic bytes and zeros, which are discarded.
    stream = pa.PythonFile(_Without(file, at), mode="w")
    made = pq.ParquetWriter(stream, schema, compression="zstd")
    for begin in range(len(_MAGIC), at, len(_ZEROS)):
        stream.write(_ZEROS[: at - begin])
    return made  # type: ignore[no-any-return]


def finish(kind: str, file: BinaryIO, ends: Sequence[int]) -> None:
    """Complete a file that was written in segments.

    Notes
    -----
    A Parquet footer has the offsets of row groups. In the footers of the segments they count from
    the start of the file, so a last footer with all row groups completes the file; the other
    footers stay unused between the row groups.
    """
    if kind != "parquet" or len(ends) < 2:
        return
    whole, *others = (_footer(file, end) for end in ends)
    for one in others:
        whole.append_row_groups(one)
    made = io.BytesIO()
    whole.write_metadata_file(made)
    file.seek(ends[-1])
    file.write(made.getvalue()[len(_MAGIC) :])


def _footer(file: BinaryIO, end: int) -> Any:
    file.seek(end - _TAIL)
    tail = file.read(_TAIL)
    length = int.from_bytes(tail[: -len(_MAGIC)], "little")
    file.seek(end - _TAIL - length)
    return pq.read_metadata(pa.BufferReader(_MAGIC + file.read(length) + tail))


class _Without:
    """Wraps a file to discard the first bytes written; closing has no effect."""

    closed = False

    def __init__(self, file: BinaryIO, n_bytes: int) -> None:
        self._file = file
        self._n_bytes = n_bytes

    def write(self, data: bytes) -> None:
        left_out = min(self._n_bytes, len(data))
        self._n_bytes -= left_out
        if left_out < len(data):
            self._file.write(data[left_out:])

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        pass


class _JsonLines:
    """Writes an object per row, with full precision; values that JSON lacks become null or str."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write_table(self, table: pa.Table) -> None:
        names = (json.dumps(name).replace("%", "%%") for name in table.column_names)
        line = "{" + ", ".join(f"{name}: %s" for name in names) + "}\n"
        columns = map(_as_json, table.columns)
        self._file.write("".join(line % row for row in zip(*columns, strict=True)).encode())

    def close(self) -> None:
        pass


def _as_json(column: pa.ChunkedArray) -> list[str]:
    """Return each value of a column as JSON, with faster encoders for numbers and text."""
    kind = column.type
    encode: Callable[[Any], str] = _value
    if pa.types.is_integer(kind):
        encode = int.__repr__
    elif pa.types.is_floating(kind):
        encode = _number
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        encode = encode_basestring
    return ["null" if one is None else encode(one) for one in python_values(column)]


def _number(value: float) -> str:
    return float.__repr__(value) if math.isfinite(value) else "null"


def _value(value: Any) -> str:
    return json.dumps(finite(value), ensure_ascii=False, default=str, allow_nan=False)


# ---- The progress of a batch run, written as JSON beside its hits and read to resume the run ----

_FORMAT = 3


@dataclass
class BatchState:
    """The progress of a run; data after these positions in its files is ignored."""

    job: dict[str, Any]
    queries: int = 0
    refused: int = 0
    ends: list[int] = field(default_factory=list)  # of the segments
    rejects_bytes: int = 0
    schema: str | None = None  # of the hits, as Arrow's IPC in base64
    began: str = field(default_factory=lambda: datetime.now(UTC).isoformat())
    format: int = _FORMAT

    @staticmethod
    def read(path: Path) -> BatchState | None:
        """Read the state of an earlier run; None if there is none of this version's format."""
        try:
            read = json.loads(path.read_bytes())
            state = BatchState(**read)
            if not isinstance(state.job, dict):
                return None
            if datetime.fromisoformat(state.began).tzinfo is None:
                return None
        except (OSError, ValueError, TypeError):
            return None
        return state if state.format == _FORMAT else None

    def to_json(self) -> bytes:
        """Return the state as the content of its file."""
        return json.dumps(asdict(self), indent=1).encode()

    def difference(self, job: dict[str, Any]) -> tuple[str, Any, Any] | None:
        """Return name and both values of the first difference from another job, or None."""
        for name in self.job | job:
            if self.job.get(name) != job.get(name):
                return name, self.job.get(name), job.get(name)
        return None


# ---- Writes a batch's hits and refused queries to a stream, or to a folder for resuming the run

_SEGMENT_SECONDS = 30.0  # the most work that is lost if the process is killed
_HITS, _REJECTS, _STATE = "hits", "rejects.jsonl", "state.json"


@dataclass(frozen=True)
class RefusedQuery:
    """A query that was not answered."""

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

    def write(self, hits: pa.Table | None, refused: Sequence[RefusedQuery], n_queries: int) -> None:
        """Write the hits of some queries (None if all were refused) and the refused queries."""


class Stream:
    """Writes hits to a file or pipe that cannot be resumed."""

    def __init__(self, kind: str, file: BinaryIO, rejects: BinaryIO | None) -> None:
        """Keep the files; nothing is written yet."""
        self._kind = kind
        self._file = file
        self._rejects = rejects
        self._writer: TableWriter | None = None
        self.n_queries = self.n_refused = 0
        self.schema: pa.Schema | None = None

    def write(self, hits: pa.Table | None, refused: Sequence[RefusedQuery], n_queries: int) -> None:
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
        self._target = disk.resolve_target("--output", path)
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

    def write(self, hits: pa.Table | None, refused: Sequence[RefusedQuery], n_queries: int) -> None:
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
                with disk.open_replacement("--rejects", rejects) as file:
                    file.writelines(self._rejects)
            disk.move_file(self._path / _HITS, self._target)
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
            kept = BatchState.read(self._path / _STATE)
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

    def _begin(self, job: dict[str, Any], *, resume: bool, skips: bool) -> BatchState:
        kept = BatchState.read(self._path / _STATE)
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
        made = BatchState(job)
        self._write_state(made)
        return made

    def _is_there(self, state: BatchState) -> bool:
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

    def _write_state(self, state: BatchState) -> None:
        with disk.open_replacement("--output", self._path / _STATE, mode=0o600) as file:
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
