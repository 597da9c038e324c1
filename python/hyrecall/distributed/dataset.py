"""Recall over files of queries of any size: part by part, each written once, here or on Ray.

A part is some consecutive queries. Its hits are a file of a job's folder, which appears when it is
complete; so a run that ended anywhere goes on with the parts that are not there.
"""

from __future__ import annotations

import io
import json
import os
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from hyrecall.base import disk
from hyrecall.base.arguments import as_int, check_keywords, read_path
from hyrecall.base.disk import open_replacement
from hyrecall.base.malformed import MALFORMED
from hyrecall.base.progress import ProgressFunction, read_progress
from hyrecall.distributed.batch_recall import (
    DEGRADED,
    ERROR,
    MAX_QUERIES,
    BatchRecall,
    FileRecall,
    QueryRows,
    TableRows,
    reasons_in,
    slice_size,
)
from hyrecall.distributed.ray_cluster import RayWorkers
from hyrecall.distributed.shards_file import read_folders
from hyrecall.distributed.source_files import PARQUET, ending, has_rows
from hyrecall.errors import DTypeError, HyrecallError, OptionError, WriterBusyError, error

JOB, DONE = "_job", "_done.json"  # readers of datasets skip names with an underscore
ROWS = 65_536

# ---- Cuts a dataset of queries in Parquet files into parts of a given number of rows ----

_HASHED_BYTES = 1 << 20  # at a time


class BatchPart(NamedTuple):
    """Consecutive queries: rows of a file, or ``rows`` that a pipe or another file has given."""

    number: int
    """Its place among the parts of Parquet files; else the number of its first query."""
    path: str = ""
    first: int = 0
    n_rows: int = 0
    rows: QueryRows | None = None

    @property
    def is_cut(self) -> bool:
        """Whether a refused query ends the part before it; else there is no part."""
        return self.rows is not None

    @property
    def output(self) -> str:
        """The name of the file with the hits: the same for each try."""
        return _kept_from(self.number) if self.is_cut else f"part-{self.number:06d}.parquet"

    def pieces(self, columns: Sequence[str]) -> Iterator[tuple[QueryRows, int]]:
        """Yield its rows, with the number of the first in each piece; of a file a few thousand."""
        if self.rows is not None:
            return iter([(self.rows, self.number)])
        return ((TableRows(one), 0) for one in read_part(self, columns, MAX_QUERIES))

    def __str__(self) -> str:
        return f"rows {self.first:,} to {self.first + self.n_rows - 1:,} of {self.path}"


def query_files(paths: Sequence[Path]) -> list[Path]:
    """Return the Parquet files of paths, and those in folders at any depth, sorted by name."""
    # Names that begin with a dot or an underscore are skipped, as other readers do.
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            found = sorted(one for one in path.rglob("*") if one.is_file())
            found = [one for one in found if not _is_hidden(one.relative_to(path))]
            others = [one for one in found if has_rows(one)]
            if others:  # their queries would not be answered
                raise error(OptionError, "queries", "Parquet files alone", str(others[0]))
            files += [one for one in found if ending(one) == PARQUET]
        else:
            files.append(path)
    absolute = [one.absolute() for one in files]
    if not files or len(set(absolute)) < len(files):
        got = "one of them twice" if files else f"none in {', '.join(map(str, paths))}"
        raise error(OptionError, "queries", "Parquet files, each once", got)
    return absolute


def _is_hidden(path: Path) -> bool:
    return any(one.startswith((".", "_")) for one in path.parts)


def parts_of(files: Sequence[Path], columns: Sequence[str], n_rows: int) -> list[BatchPart]:
    """Cut files into parts of at most ``n_rows`` rows."""
    parts: list[BatchPart] = []
    for path in files:
        try:
            footer = pq.read_metadata(path)
        except pa.ArrowInvalid as fault:
            raise error(DTypeError, str(path), "a Parquet file", fault) from None
        names = footer.schema.to_arrow_schema().names
        missing = [one for one in columns if one not in names]
        if missing:
            raise error(OptionError, str(path), f"a column {missing[0]!r}", f"{names}"[:120])
        for begin in range(0, footer.num_rows, n_rows):
            own = min(n_rows, footer.num_rows - begin)
            parts.append(BatchPart(len(parts), str(path), begin, own))
    return parts


def read_part(part: BatchPart, columns: Sequence[str], n_rows: int) -> Iterator[pa.Table]:
    """Yield the rows of a part, at most ``n_rows`` at a time."""
    try:
        yield from _read(part, columns, n_rows)
    except (pa.ArrowInvalid, OSError) as fault:
        if isinstance(fault, OSError) and fault.errno is not None:  # an error of the file system
            raise
        raise error(DTypeError, part.path, "rows that can be read", fault) from None


def _read(part: BatchPart, columns: Sequence[str], n_rows: int) -> Iterator[pa.Table]:
    begin, left = part.first, part.n_rows
    # Buffered and without prefetch: the whole file may be one row group.
    with pq.ParquetFile(part.path, pre_buffer=False, buffer_size=1 << 20) as file:
        groups: list[int] = []
        n_read = 0
        for group in range(file.num_row_groups):
            own = file.metadata.row_group(group).num_rows
            if not groups and begin >= own:
                begin -= own
            elif n_read < begin + left:
                groups.append(group)
                n_read += own
        batches = file.iter_batches(n_rows, row_groups=groups, columns=list(columns))
        for batch in batches:
            passed = min(begin, batch.num_rows)
            begin -= passed
            rows = batch.slice(passed, left)
            left -= rows.num_rows
            if rows.num_rows:
                yield pa.Table.from_batches([rows])
            if not left:
                return


def identity_of(files: Sequence[Path]) -> list[dict[str, Any]]:
    """Return the names, sizes and hashes of files; all bytes are read once."""
    out = []
    for path in files:
        found = xxhash.xxh3_128()
        with path.open("rb") as file:
            while piece := file.read(_HASHED_BYTES):
                found.update(piece)
            size = file.tell()
        out.append({"name": str(path), "bytes": size, "xxh3_128": found.hexdigest()})
    return out


# ---- Answers one part and writes its hits to a file, once ----

COUNTS = b"hyrecall.counts"
"""The key of a part's counts, as JSON, in the footer of its file."""

SEAL = b"hyrecall.seal"
"""The key of what :func:`check_part` compares."""

Counts = Mapping[str, int]
"""Numbers of queries, hits and refused queries of a part."""

_COUNTED = ("queries", "hits", "refused")


class _ParquetPart:
    """Writes a part that is an output."""

    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        self._out = pq.ParquetWriter(file, schema, compression="zstd")

    def write(self, hits: pa.Table) -> None:
        """Write some hits."""
        self._out.write_table(hits)

    def close(self, metadata: dict[bytes, bytes]) -> None:
        """Write what is said of the part, and the end."""
        self._out.add_key_value_metadata(metadata)
        self._out.close()


class _Hashed(io.RawIOBase):
    """A file that is written, and the hash of what was written so far."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.n_bytes, self.hash = 0, xxhash.xxh3_64()

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, content: Any) -> int:
        """Write bytes."""
        view = memoryview(content)
        self.hash.update(view)
        self.n_bytes += view.nbytes
        self._file.write(view)
        return view.nbytes


class _ArrowPart:
    """Writes a part that is read once, at the end of its run: five times as fast as Parquet."""

    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        self._schema, self._file = schema, _Hashed(file)
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        self._out = pa.ipc.new_file(self._file, schema, options=options)

    def write(self, hits: pa.Table) -> None:
        """Write some hits as one batch."""
        self._out.write_table(hits.combine_chunks())

    def close(self, metadata: dict[bytes, bytes]) -> None:
        """Write what is said of the part with a last batch without rows, and the end."""
        none = pa.RecordBatch.from_pylist([], self._schema)
        told = _seal(self._file.n_bytes, self._file.hash, metadata)
        self._out.write_batch(none, custom_metadata={**metadata, SEAL: told})
        self._out.close()


def _seal(n_bytes: int, content: Any, metadata: Mapping[bytes, bytes]) -> bytes:
    """Return what a part says of its own bytes before the last batch, and of that batch."""
    for name in sorted(metadata):
        content.update(name + b"\0" + metadata[name] + b"\0")
    return f"{n_bytes} {content.hexdigest()}".encode()


def check_part(path: Path) -> None:
    """Raise ValueError for a part that is not as it was written."""
    metadata = dict(_metadata_of(path))
    seal = metadata.pop(SEAL)
    content, left = xxhash.xxh3_64(), int(seal.split()[0])
    with path.open("rb") as file:
        while left and (read := file.read(min(left, 1 << 20))):
            content.update(read)
            left -= len(read)
    if left or _seal(int(seal.split()[0]), content, metadata) != seal:
        raise ValueError(path.name)


class Answer(NamedTuple):
    """A part's number and counts, and the error that ended it; its hits if they are in no file."""

    number: int
    counts: Counts | None
    fault: HyrecallError | None
    tables: Sequence[pa.Table] = ()


def answer_part(recall: BatchRecall, part: BatchPart, folder: Path | None) -> Answer:
    """Answer a part and write its file unless it exists; without a folder, return its hits."""
    # Errors of other classes, such as a full disk, are raised: the part does not cause them.
    counts, tables = dict.fromkeys(_COUNTED, 0), list[pa.Table]()
    try:
        if folder is not None:
            return write_answer(recall, part, folder / part.output)
        for table in _answered(recall, part, counts):
            tables.append(table)
    except HyrecallError as fault:
        return Answer(part.number, counts, fault, tables)
    return Answer(part.number, counts, None, tables)


def write_answer(recall: BatchRecall, part: BatchPart, path: Path) -> Answer:
    """Answer a part slice by slice; its file appears when it is complete."""
    if path.exists() and not part.is_cut:  # an earlier try wrote it before it ended
        return Answer(part.number, counts_of(path), None)
    counts = dict.fromkeys(_COUNTED, 0)
    reasons: dict[str, list[str]] = {}
    ended: HyrecallError | None = None
    with ExitStack() as opened:
        file = opened.enter_context(open_replacement("output", path))
        writer: _ParquetPart | _ArrowPart | None = None
        try:
            for hits in _answered(recall, part, counts):
                if writer is None:
                    kind = _ArrowPart if part.is_cut else _ParquetPart
                    writer = kind(file, hits.schema.remove_metadata())
                writer.write(hits.replace_schema_metadata(None))
                reasons |= reasons_in([hits])
        except BaseException as fault:
            if not isinstance(fault, HyrecallError) or not part.is_cut or writer is None:
                if writer is not None:
                    with suppress(Exception):  # while its file is open; then both are thrown away
                        writer.close({})
                raise
            ended = fault
        assert writer is not None  # a part has rows
        told = {DEGRADED: json.dumps(reasons).encode()} if reasons else {}
        writer.close({COUNTS: json.dumps(counts).encode(), **told})
    return Answer(part.number, counts, ended)


def _answered(recall: BatchRecall, part: BatchPart, counts: dict[str, int]) -> Iterator[pa.Table]:
    """Yield the hits of a part, and count them; raise the error of a query."""
    for rows, first in part.pieces(recall.columns):
        for n_queries, hits in recall._answers(rows, first):
            if isinstance(hits, HyrecallError):
                raise hits
            yield hits
            names = hits.column_names
            n_refused = hits.num_rows - hits[ERROR].null_count if ERROR in names else 0
            counts["queries"] += n_queries
            counts["hits"] += hits.num_rows - hits["rank"].null_count
            counts["refused"] += n_refused


def counts_of(path: Path) -> Counts:
    """Return the counts of a part's file."""
    counts: Counts = json.loads(_metadata_of(path)[COUNTS])
    return counts


def _metadata_of(path: Path) -> Mapping[bytes, bytes]:
    if path.suffix == PARQUET:
        return pq.read_metadata(path).metadata or {}
    with pa.OSFile(str(path)) as file:
        found = pa.ipc.open_file(file)
        last = found.get_batch_with_custom_metadata(found.num_record_batches - 1)
        return dict(last.custom_metadata or {})


# ---- Who answers the parts: this process, or actors of Ray that each open all shards ----

Ask = Callable[[BatchPart], Callable[[], Answer]]


@contextmanager
def crew(
    recall: BatchRecall, folder: Path | None, ray: Mapping[str, Any] | None
) -> Iterator[Callable[[Iterable[BatchPart]], Iterator[Answer]]]:
    """Start who answers parts, and end them; ``ray``: options of :class:`RayWorkers`, if any."""
    with ExitStack() as ended:
        answer: Callable[[BatchPart], Answer] = partial(answer_part, recall, folder=folder)
        ask: Ask = partial(partial, answer)  # an answer is made when it is awaited
        n_ahead = 0
        if ray is not None:
            cpus = ray.get("num_cpus", 1)
            make = partial(partial, answer_part, recall.for_cpus(cpus), folder=folder)
            workers = RayWorkers(make, **ray)
            ended.callback(workers.close)
            n_ahead, ask = workers.n_ahead, workers.ask
        yield partial(_in_order, ask, n_ahead)


def _in_order(ask: Ask, n_ahead: int, parts: Iterable[BatchPart]) -> Iterator[Answer]:
    """Yield the answers in the order of the parts, of which some are asked ahead."""
    waiting: deque[Callable[[], Answer]] = deque()
    for one in parts:
        waiting.append(ask(one))
        while len(waiting) > n_ahead:
            yield waiting.popleft()()
    while waiting:
        yield waiting.popleft()()


# ---- The folder of a job: what it asks, when it began, and its parts ----


def begin(
    folder: Path,
    job: Mapping[str, Any],
    now: datetime,
    *,
    is_resumed: bool,
    named: Callable[[str], str] = str,
) -> datetime:
    """Record the job, or refuse a different one; return the time from which ages count."""
    kept = _read_job(folder, named("output"))
    if kept is None:
        if any(folder.glob("*.parquet")):
            wish = "a new folder, or that of a job"
            raise error(OptionError, named("output"), wish, "Parquet files")
        with open_replacement(named("output"), folder / JOB / _JOB) as file:
            file.write(json.dumps({"job": job, "now": now.isoformat()}, indent=1).encode())
        return now
    known, began = kept
    if not is_resumed:
        wish = "a new folder, or resume=True"
        raise error(OptionError, named("output"), wish, "one with a job")
    if (name := _difference(known, job)) is not None:
        was, wish = known.get(name), f"{name} as before"
        if not isinstance(was, dict | list):
            wish += f" ({was})"
        got = _plain(job).get(name)
        raise error(OptionError, named("resume"), wish, f"{got}"[:120])
    return began


_JOB = "job.json"


def _read_job(folder: Path, output: str) -> tuple[dict[str, Any], datetime] | None:
    """Return the job of a folder, and when it began; None: there is none."""
    path = folder / JOB / _JOB
    if not path.exists():
        return None
    try:
        kept = json.loads(path.read_bytes())
        known, began = kept["job"], datetime.fromisoformat(kept["now"])
        if not isinstance(known, dict) or began.tzinfo is None:
            raise ValueError("a job of other types")
    except MALFORMED as fault:
        wish, remedy = "the folder of a job", "remove it, or write to another folder"
        got = f"a damaged file or another's, {path}"
        raise error(OptionError, output, wish, got, remedy) from fault
    return known, began


def _plain(job: Mapping[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(job))
    return plain


def _difference(known: Mapping[str, Any], job: Mapping[str, Any]) -> str | None:
    """Return the first name whose value is another; None: the same job."""
    plain = _plain(job)
    names = {**known, **plain}
    return next((name for name in names if known.get(name) != plain.get(name)), None)


@contextmanager
def locked_job(folder: Path, output: str) -> Iterator[None]:
    """Hold a job's folder against other runs."""
    disk.make_folder(folder / JOB)
    with ExitStack() as held:
        try:
            held.enter_context(disk.writer_lock(folder / JOB))
        except WriterBusyError:
            got = "an active one"
            raise error(WriterBusyError, output, "no other run to it", got) from None
        yield


# ---- Answers the queries of one file of any format, into one output ----

FILE_ROWS = 8192
"""Queries in a part of a file."""

_MOST_QUERIES = 2**31  # in a file: query numbers of hits are int32


class QuerySource(Protocol):
    """A file of queries, or a pipe."""

    @property
    def name(self) -> str:
        """Its name in messages."""

    @property
    def n_rows(self) -> int | None:
        """The number of queries, if it is known."""

    def slices(self, n_rows: int, *, first: int = 0) -> Iterator[QueryRows]:
        """Yield at most ``n_rows`` rows, again and again, from row ``first`` on."""


def _kept_from(first: int) -> str:
    """Return the name of the file that is kept of a part."""
    return f"part-{first:06d}.arrow"


def answer_source(
    recall: FileRecall,
    source: QuerySource,
    folder: Path | None,
    *,
    ray: Mapping[str, Any] | None = None,
    first: int = 0,
) -> Iterator[Answer]:
    """Answer the queries of a file from one on; an answer with an error is the last."""
    _check_count(source.n_rows or 0, source.name)  # Parquet has the count at once

    size = slice_size(recall._opened(), recall._options)
    n_rows = FILE_ROWS // size * size or FILE_ROWS  # whole slices

    def parts() -> Iterator[BatchPart]:
        number = first
        for rows in source.slices(n_rows, first=first):
            _check_count(number + rows.n_rows, source.name)
            yield BatchPart(number, rows=rows)
            number += rows.n_rows

    with crew(recall, folder, ray) as answers:
        for one in answers(parts()):
            yield one
            if one.fault is not None:
                return


def _check_count(n_rows: int, name: str) -> None:
    if n_rows > _MOST_QUERIES:
        wish = f"at most {_MOST_QUERIES:,} queries in a file"
        raise error(OptionError, name, wish, f"{n_rows:,} or more")


class UnfinishedFile:
    """The folder beside an output that keeps the parts of a run until the output is complete."""

    def __init__(self, output: Path, named: Callable[[str], str]) -> None:
        target = disk.resolve_target(named("output"), output)
        self.path, self.shown = (
            one.with_name(f"{one.name}.unfinished") for one in (target, output)
        )
        if output.is_symlink():
            self.shown = self.path
        self._named = named
        self._held = ExitStack()
        self._paths: list[Path] = []
        self.total = dict.fromkeys(_COUNTED, 0)
        self.began: datetime | None = None

    def open(self, job: Mapping[str, Any], now: datetime, *, is_resumed: bool) -> str | None:
        """Take the folder, and count what it keeps; return how a run that is discarded differs."""
        self._check_folder()
        self._held.enter_context(locked_job(self.path, self._named("output")))
        try:
            return self._begin(job, now, is_resumed=is_resumed)
        except BaseException:
            self.close()
            raise

    def _begin(self, job: Mapping[str, Any], now: datetime, *, is_resumed: bool) -> str | None:
        kept = _read_job(self.path, self._named("output"))
        if kept is None:  # nothing says whose parts these are: a run ended while it was discarded
            self._forget_parts()
        self._count_parts()
        n_kept, other = self.total["queries"], None
        if is_resumed and not n_kept:
            wish = f"an interrupted run to continue in {self.shown}"
            raise error(OptionError, self._named("resume"), wish, "none")
        if not is_resumed and kept is not None:
            other = _difference(kept[0], job)
            if n_kept and other is None:
                wish = f"{self._named('resume')} (or {self.shown} deleted, to start again)"
                got = f"neither, and {n_kept:,} answered queries there"
                raise error(OptionError, self._named("output"), wish, got)
            self._forget_parts()
            (self.path / JOB / _JOB).unlink()
        for one in set(self.path.iterdir()) - {*self._paths, self.path / JOB}:
            one.unlink()  # of a run that is discarded, or beyond a part that is missing or damaged
        self.began = begin(self.path, job, now, is_resumed=is_resumed, named=self._named)
        return other if n_kept else None

    def _forget_parts(self) -> None:
        """Remove all parts, before anything says that they are another run's."""
        for one in self.path.glob("part-*"):
            one.unlink()
        self._paths.clear()
        self.total = dict.fromkeys(_COUNTED, 0)

    def _count_parts(self) -> None:
        while True:
            try:
                check_part(self._next)
                self.count(counts_of(self._next))
            except (OSError, ValueError, KeyError, TypeError, pa.ArrowException):
                return

    @property
    def _next(self) -> Path:
        return self.path / _kept_from(self.total["queries"])

    def count(self, counts: Counts) -> None:
        """Count one more part."""
        self._paths.append(self._next)
        for name in _COUNTED:
            self.total[name] += counts[name]

    def tables(self) -> Iterator[pa.Table]:
        """Yield the hits of all parts, in order."""
        for path in self._paths:
            with pa.OSFile(str(path)) as file:
                batches = pa.ipc.open_file(file)
                for at in range(batches.num_record_batches - 1):
                    yield pa.Table.from_batches([batches.get_batch(at)])

    def reasons(self) -> Iterator[str]:
        """Yield why queries were not answered as asked."""
        for path in self._paths:
            for told in json.loads(_metadata_of(path).get(DEGRADED, b"{}")).values():
                yield from told

    def remove(self) -> None:
        """Remove the folder and all parts."""
        for folder in (self.path, self.path / JOB):
            for one in folder.iterdir():
                if one.name != JOB:
                    one.unlink()
        self._held.close()
        with suppress(OSError):
            (self.path / JOB).rmdir()
            self.path.rmdir()

    def close(self) -> int:
        """Let the folder go; return the number of queries that it keeps. One without is removed."""
        if self.total["queries"]:
            self._held.close()
        else:
            self.remove()
        return self.total["queries"]

    def _check_folder(self) -> None:
        """Make the folder, or refuse one that is not that of a run of the same user."""
        output = self._named("output")
        if not self.path.parent.is_dir():
            raise error(OptionError, output, "a file in an existing folder", self.path.parent)
        with suppress(FileExistsError):
            os.mkdir(self.path, 0o700)
        found = os.lstat(self.path)
        is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
        known = (JOB, "part-", ".hyrecall-")  # the last: of a process that was killed
        if not is_ours or not all(one.startswith(known) for one in os.listdir(self.path)):
            wish = "no such file, or the folder of an unfinished run of your own"
            raise error(OptionError, str(self.shown), wish, "something else")


# ---- Answers the queries of Parquet files, into a folder of Parquet files ----


@dataclass(frozen=True)
class DatasetHits:
    """The files that :func:`recall_dataset` wrote, and their counts.

    Attributes
    ----------
    folder, files : Path, tuple of Path
        Files of hits, in the order of the queries.
    n_queries, n_hits, n_refused, n_parts_kept : int
        The last one counts files that an earlier run had written. The metadata of a file says under
        ``degraded`` which queries have a text that asked for too much and was not searched.
    """

    folder: Path
    files: tuple[Path, ...]
    n_queries: int
    n_hits: int
    n_refused: int
    n_parts_kept: int


@check_keywords
def recall_dataset(
    recall: BatchRecall,
    queries: str | Path | Sequence[str | Path],
    output: str | Path,
    *,
    resume: bool = False,
    rows: int = ROWS,
    on_ray: bool = False,
    concurrency: int | None = None,
    num_cpus: float = 1,
    num_gpus: float | None = None,
    progress: ProgressFunction | None = None,
) -> DatasetHits:
    """Answer all queries of Parquet files and write their hits to Parquet files.

    The queries are cut into parts. The hits of a part are one file, which is named by the part's
    number and appears only when it is complete: a part that is answered twice, because a process
    ended, is written once. The files of an interrupted run are kept, and ``resume=True`` answers
    the other parts. Each process holds a few thousand queries in memory at a time.

    Parameters
    ----------
    recall : BatchRecall
        Answers the queries. With ``on_error="column"`` the files also have the refused queries.
    queries : path-like or sequence of path-like
        Parquet files, or folders of them.
    output : path-like
        A folder, which is created. At the end it has ``part-000000.parquet`` and so on, in the
        order of the queries, and ``_done.json`` with the numbers of queries and hits.
    resume : bool, default False
        Keep the parts that an earlier run of the same job has written.
    rows : int, default 65,536
        Largest number of queries in a part.
    on_ray : bool, default False
        Answer in actors of Ray (extra ``[ray]``), in the cluster that the program is connected to
        or in a local one. The index, the queries and the output must have the same paths
        everywhere.
    concurrency : int, optional
        With ``on_ray``, the number of actors; default: as many as the cluster has room for.
    num_cpus : float, default 1
        Cores that Ray reserves for each actor.
    num_gpus : float, optional
        GPUs that Ray reserves for each actor, which sees no other GPUs. Default: 1 for a named CUDA
        device, and for ``"auto"`` if the cluster has a GPU for every actor; else 0.
    progress : callable, optional
        ``progress(done, total)`` in queries.

    Returns
    -------
    DatasetHits

    Raises
    ------
    HyrecallError
        The error of the first part that was not answered; the message names the part and the number
        of other failed parts. All other parts are answered first, and kept.
    OptionError, WriterBusyError
        The output folder has another job, or a job and ``resume`` is False; another run.
    """
    if not isinstance(recall, BatchRecall):
        raise error(DTypeError, "recall", "a BatchRecall", repr(recall)[:80])
    n_rows = as_int(rows)
    if n_rows is None or not 1 <= n_rows <= 1 << 30:
        raise error(OptionError, "rows", "an int in [1, 2^30]", repr(rows))
    tell = read_progress(progress)
    files = query_files(read_folders("queries", queries))
    folder = read_path(output).absolute()
    parts = parts_of(files, recall.columns, n_rows)
    job = {**recall.identity, "queries": identity_of(files), "rows": n_rows}
    with locked_job(folder, "output"):
        recall = recall.at(begin(folder, job, recall.now, is_resumed=resume))
        left = [one for one in parts if not (folder / one.output).exists()]
        ray = None
        if on_ray and left:
            ray = {
                "workers": concurrency, "num_cpus": num_cpus, "num_gpus": num_gpus,
                "device": recall._opening.device, "most": len(left),
            }  # fmt: skip
        with crew(recall, folder, ray) as answers:
            faults = _collected(answers(left), parts, left, tell)
        return _end(folder, parts, recall, faults, len(parts) - len(left))


def _collected(
    answers: Iterable[Answer],
    parts: Sequence[BatchPart],
    left: Sequence[BatchPart],
    tell: ProgressFunction | None,
) -> list[tuple[BatchPart, HyrecallError]]:
    """Wait for all answers; return the errors of parts that have none."""
    tell = tell or (lambda done, total: None)
    total = sum(one.n_rows for one in parts)
    n_done = total - sum(one.n_rows for one in left)
    faults: dict[int, HyrecallError] = {}
    seen: set[int] = set()
    tell(n_done, total)
    for number, _, fault, _ in answers:
        if fault is not None:
            faults[number] = fault
        elif number not in seen:  # a part that was answered twice counts once
            n_done += parts[number].n_rows
            tell(n_done, total)
        seen.add(number)
    return [(parts[number], faults[number]) for number in sorted(faults)]


def _end(
    folder: Path,
    parts: Sequence[BatchPart],
    recall: BatchRecall,
    faults: Sequence[tuple[BatchPart, HyrecallError]],
    n_kept: int,
) -> DatasetHits:
    for one in folder.glob(".hyrecall-*.tmp"):  # left by a killed process
        with suppress(OSError):
            one.unlink()
    if faults:
        part, fault = faults[0]
        n_more = len(faults) - 1
        more = f"; {n_more} other parts failed" if n_more else ""
        fault.args = (f"{fault} (part {part.number}, {part}{more}; resume=True keeps the others)",)
        raise fault
    recall.check_current()
    files = tuple(folder / one.output for one in parts)
    lost = [one for one in parts if not (folder / one.output).exists()]
    if lost:
        raise error(OptionError, "output", f"the file of part {lost[0].number}", "none")
    every = [counts_of(one) for one in files]
    total = {name: sum(one[name] for one in every) for name in _COUNTED}
    with open_replacement("output", folder / DONE) as file:
        file.write(json.dumps({**total, "parts": len(parts)}).encode())
    return DatasetHits(folder, files, total["queries"], total["hits"], total["refused"], n_kept)
