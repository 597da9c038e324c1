"""``hyrecall batch``: answers a file of queries of any size and writes a file of hits."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Literal, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import typer
import xxhash
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from hyrecall.ask.scope import CellTypes, Scope
from hyrecall.base.disk import check_outside, open_replacement, resolve_target
from hyrecall.base.version import __version__
from hyrecall.cli.batch_output import (
    OUTPUT_KINDS,
    STDOUT,
    Output,
    RefusedQuery,
    Stream,
    Unfinished,
    check_types,
    output_kind,
)
from hyrecall.cli.options import (
    Bm25,
    Depth,
    Embed,
    Filters,
    FusionName,
    Limit,
    MinFused,
    MinScore,
    Normalize,
    Offset,
    Pin,
    RecipeName,
    Scopes,
    Threads,
    Verify,
    by_arm,
    embedded_arm,
    names,
    opening_of,
    read_scope,
    recall_options,
)
from hyrecall.cli.options import OpenedMemory as Memory
from hyrecall.cli.query_files import INPUT_KINDS, STDIN, QueryFile, QueryRows
from hyrecall.cli.show import say
from hyrecall.distributed.batch_recall import (
    MAX_QUERIES,
    Opened,
    QueryColumns,
    answered,
    check_seals,
    open_saved,
    reasons_in,
    recall_whole,
    renumber,
    renumbered,
    seals_of,
    slice_size,
    with_keys,
    with_reasons,
)
from hyrecall.distributed.ray_cluster import RayWorkers
from hyrecall.distributed.shards import ShardOpening
from hyrecall.embed import StaticEmbedder
from hyrecall.errors import DTypeError, HyrecallError, OptionError, error
from hyrecall.recall.embedders import Embedders, embedders_at_open
from hyrecall.segments.segments import IndexFacts

# ---- Who answers the slices of a batch: this process, or Ray actors

Answer = Callable[[pa.Table, int], pa.Table]
"""Returns the hits of some queries, of which the first has that number."""


class SliceWorkers(Protocol):
    """Answers slices; may be some slices ahead of the output."""

    @property
    def n_ahead(self) -> int:
        """How many slices may be in work while the one before them is awaited."""

    def ask(self, rows: QueryRows, first: int) -> Callable[[], pa.Table]:
        """Begin to answer rows; return what waits for their hits or raises why there are none."""


class Here:
    """Answers each slice in this process when its hits are read."""

    n_ahead = 0

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    def ask(self, rows: QueryRows, first: int) -> Callable[[], pa.Table]:
        """Return what answers the rows."""
        return lambda: self._answer(rows.table(), first)


class OnRay:
    """Answers in Ray actors, each of which opens all shards."""

    def __init__(self, make: Callable[[], Answer], **how: Any) -> None:
        """Start the actors, with the options of :class:`RayWorkers`; ``make`` is called in each."""
        self._actors = RayWorkers(make, **how)
        self.n_ahead = self._actors.n_ahead

    def ask(self, rows: QueryRows, first: int) -> Callable[[], pa.Table]:
        """Give the rows to an actor."""
        table = _parsed(rows)
        return self._actors.ask(table, first) if isinstance(table, pa.Table) else table

    def close(self) -> None:
        """End the actors."""
        self._actors.close()


def _parsed(rows: QueryRows) -> pa.Table | Callable[[], pa.Table]:
    """Return the table of rows, or what raises why they cannot be read, when it is their turn."""
    try:
        return rows.table()
    except HyrecallError as fault:
        kept = fault

        def refuse() -> pa.Table:
            raise kept

        return refuse


# ---- Answers queries slice by slice in bounded memory, and isolates queries that are refused ----

OPTIONS = {
    "text": "--query-text", "vectors": "--query-vector", "scope": "--query-scope",
    "key": "--query-key",
}  # fmt: skip
"""What the command calls the columns of queries."""

_DEGRADED = "degraded"  # the column of reasons
_MOST_QUERIES = 2**31  # in a file: query numbers of hits are int32
_MAX_QUERIES = MAX_QUERIES  # in a slice
_REPLY_BYTES = 64 << 20  # for the hits of a slice; above this, the next slice is smaller


@dataclass(frozen=True)
class BatchRun:
    """The settings that all slices of a run share."""

    index: Opened
    asked: QueryColumns
    scope: Scope | None  # of all queries; None if columns hold the scopes or there are no cells
    options: dict[str, Any]
    embed: tuple[str, StaticEmbedder] | None  # the arm whose vectors come from the texts
    embedders: Embedders  # which the files name

    def n_queries(self) -> int:
        """Return the number of queries whose lists fit into the memory limit."""
        return slice_size(self.index, self.options, _MAX_QUERIES)

    def answer(self, queries: pa.Table, first: int) -> pa.Table:
        """Return the hits of queries; `first` is the number of the first query in the file."""
        named = OPTIONS.__getitem__
        has_texts = bool(self.index._facts.text_arms)
        given = self.asked.arguments(
            queries, has_texts=has_texts, scope=self.scope, embed=self.embed, named=named
        )
        found, why = recall_whole(self.index, given, self.options, self.embedders)
        hits = _with_degraded(found.to_arrow(), why)
        if self.asked.key is not None:
            key = self.asked.key
            hits = with_keys(hits, queries, key, argument=named("key"), columns="--columns")
        reasons = {
            first + query: [f"query {first + query}: {one}" for one in told]
            for query, told in why.items()
        }
        return with_reasons(renumbered(hits, first), reasons)


def _with_degraded(hits: pa.Table, why: Mapping[int, Sequence[str]]) -> pa.Table:
    """Add a column of reasons; a degraded query without hits gets a row that has nothing else."""
    if _DEGRADED in hits.column_names:
        raise error(OptionError, "--columns", f"no column named {_DEGRADED}", "one")
    told = {query: "; ".join(reasons) for query, reasons in why.items()}
    missing = np.setdiff1d(np.array(list(told), np.int32), hits.column("query").to_numpy())
    if len(missing):
        rows = pa.table({"query": missing})
        hits = pa.concat_tables([hits, rows], promote_options="default")
        hits = hits.take(np.argsort(hits.column("query").to_numpy(), kind="stable"))
    reasons = [told.get(query) for query in hits.column("query").to_pylist()] if told else None
    column = pa.nulls(len(hits), pa.string()) if reasons is None else pa.array(reasons, pa.string())
    return hits.append_column(_DEGRADED, column)


class _AwaitedSlice(NamedTuple):
    """A slice whose answer is awaited."""

    rows: QueryRows
    first: int  # the number of its first query in the file
    answer: Callable[[], pa.Table]


def run(
    job: BatchRun,
    source: QueryFile,
    output: Output,
    advance: Callable[[int, int], None],
    *,
    workers: SliceWorkers,
    empty: pa.Table,
    skips: bool,
) -> dict[str, list[str]]:
    """Answer the queries of a file that are not finished yet, in file order.

    Return why queries were not answered as asked, by their numbers.

    Parameters
    ----------
    advance : callable
        Called with the numbers of (queries, hits) after each slice.
    workers : SliceWorkers
        Who answers; they may be a few slices ahead of what is written.
    empty : pyarrow.Table
        The columns of the hits, written if no query is answered.
    skips : bool
        Continue after a refused query and pass it to the output. If False, write the queries before
        it and raise its error.
    """
    _check_count(source.n_rows or 0, source.name)  # Parquet has the count at once
    step = job.n_queries()
    first = output.n_queries
    asked: deque[_AwaitedSlice] = deque()
    reasons: dict[str, list[str]] = {}

    def write_next() -> None:
        nonlocal step
        n_done, hits = _write(asked.popleft(), job, workers, output, source.name, reasons, skips)
        advance(n_done, 0 if hits is None else len(hits) - hits.column("rank").null_count)
        if hits is not None and hits.nbytes > _REPLY_BYTES:
            step = max(1, step // 2)

    for rows in source.slices(step, first=first):
        begin = 0
        while begin < rows.n_rows:
            some = rows.slice(begin, step)
            _check_count(first + some.n_rows, source.name)
            asked.append(_AwaitedSlice(some, first, workers.ask(some, first)))
            begin += some.n_rows
            first += some.n_rows
            while len(asked) > workers.n_ahead:
                write_next()
    while asked:
        write_next()
    if output.schema is None:  # no query was answered: write the columns without rows
        output.write(empty, (), 0)
    return reasons


def _write(
    asked: _AwaitedSlice,
    job: BatchRun,
    workers: SliceWorkers,
    output: Output,
    name: str,
    reasons: dict[str, list[str]],
    skips: bool,
) -> tuple[int, pa.Table | None]:
    """Write the answer to a slice; return how many queries it has, and their hits."""
    made: list[pa.Table] = []
    refused: list[RefusedQuery] = []
    fault: RefusedQuery | None = None
    for one in _answered(asked, job, workers, output.schema):
        if isinstance(one, pa.Table):
            reasons |= reasons_in([one])
            made.append(one.replace_schema_metadata(None))
        elif skips:
            refused.append(one)
        else:
            fault = one
            break
    n_done = asked.rows.n_rows if fault is None else fault.query - asked.first
    hits = pa.concat_tables(made) if made else None
    if n_done:
        output.write(hits, refused, n_done)
    if fault is not None:
        raise _named(fault, name)
    return n_done, hits


def _check_count(n_rows: int, name: str) -> None:
    if n_rows > _MOST_QUERIES:
        wish = f"at most {_MOST_QUERIES:,} queries in a file"
        raise error(OptionError, name, wish, f"{n_rows:,} or more")


def _answered(
    asked: _AwaitedSlice, job: BatchRun, workers: SliceWorkers, schema: pa.Schema | None
) -> Iterator[pa.Table | RefusedQuery]:
    """Answer a slice; if it is refused, its halves are asked, down to single queries."""
    rows, first = asked.rows, asked.first
    known = schema

    def answer(begin: int, n_rows: int) -> pa.Table:
        nonlocal known
        if n_rows == rows.n_rows:
            hits = asked.answer()
        else:
            hits = workers.ask(rows.slice(begin, n_rows), first + begin)()
        _check_same(known, hits.schema)
        known = known or hits.schema
        return hits

    for one in answered(answer, 0, rows.n_rows):
        if isinstance(one, pa.Table):
            yield one
        else:
            begin, fault = one
            key = None if job.asked.key is None else rows.slice(begin, 1).key(job.asked.key)
            yield RefusedQuery(first + begin, key, renumber(fault, first + begin))


def _check_same(first: pa.Schema | None, now: pa.Schema) -> None:
    """Refuse hits with other types than before: only the type of query keys can change."""
    for old, new in zip(first or (), now, strict=first is not None):
        if old.type != new.type:
            got = f"{new.type} after {old.type}"
            raise error(DTypeError, "--query-key", "keys of one type", got)


def _named(refused: RefusedQuery, name: str) -> Exception:
    """Return the error of a query, with its number, its key and the file in the message."""
    key = "" if refused.key is None else f", key {refused.key!r},"
    fault = refused.fault
    fault.args = (f"{fault} (query {refused.query}{key} of {name}; the first is 0)",)
    vars(fault)["query"] = refused.query
    return fault


# ---- Chooses who answers a batch: this process, threads that await shards, or actors of Ray ----


@contextmanager
def crew_of(
    job: BatchRun,
    folders: Sequence[Path],
    seals: Sequence[str],
    opening: ShardOpening,
    *,
    actors: Mapping[str, Any] | None,
) -> Iterator[SliceWorkers]:
    """Start who answers the slices, and end them; ``actors``: options of those on Ray, if any."""
    with ExitStack() as ended:
        if actors is not None:
            how = {name: getattr(job, name) for name in ("asked", "scope", "options")}
            arm = None if job.embed is None else job.embed[0]
            absolute = [one.absolute() for one in folders]
            once = replace(opening.once_checked, threads=opening.threads or 1)
            make = partial(_answerer, absolute, tuple(seals), once, arm, how)
            ray = OnRay(make, **actors)
            ended.callback(ray.close)
            yield ray
        else:
            yield Here(job.answer)


def _answerer(
    folders: Sequence[Path],
    seals: Sequence[str],
    opening: ShardOpening,
    arm: str | None,
    how: dict[str, Any],
) -> Answer:
    """Open an index, whose version was checked here, in an actor; return what answers there."""
    index = open_saved(folders, opening)
    check_seals(folders, seals)
    embed = None if arm is None else (arm, StaticEmbedder())
    embedders = embedders_at_open(None, index._facts)
    return BatchRun(index=index, embed=embed, embedders=embedders, **how).answer


# ---- Shows the progress of a batch on stderr: a bar in a terminal, otherwise a line at intervals

_SECONDS_BETWEEN_LINES = 5.0


class BatchProgress:
    """Counts queries and hits, and shows the progress."""

    def __init__(self, total: int | None, *, done: int = 0) -> None:
        self._total = total
        self._done = done
        self._n_queries = 0
        self._n_hits = 0
        self._started = self._told = time.perf_counter()
        self._bar: Bar | None = None
        if sys.stderr.isatty():
            self._bar = Bar(
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.description}"),
                TextColumn("ETA"),
                TimeRemainingColumn(),
                console=Console(file=sys.stderr),
                transient=True,
            )
            self._task = self._bar.add_task("", total=total, completed=done)

    def __enter__(self) -> BatchProgress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, n_queries: int, n_hits: int) -> None:
        """Count an answered slice of queries."""
        self._n_queries += n_queries
        self._n_hits += n_hits
        now = time.perf_counter()
        rate = self._n_queries / max(now - self._started, 1e-9)
        at = self._done + self._n_queries
        if self._bar is not None:
            self._bar.update(self._task, completed=at, description=f"{rate:,.0f} queries/s")
        elif now - self._told >= _SECONDS_BETWEEN_LINES:
            self._told = now
            eta = "?" if self._total is None else f"{(self._total - at) / rate:,.0f} s"
            of = "" if self._total is None else f" of {self._total:,}"
            say(f"{at:,}{of} queries, {rate:,.0f} queries/s, ETA {eta}")

    def summary(self) -> str:
        """Return the totals in one line."""
        seconds = max(time.perf_counter() - self._started, 1e-9)
        rate = self._n_queries / seconds
        before = f" after {self._done:,} of an earlier run" if self._done else ""
        return (
            f"{self._n_queries:,} queries{before}, {self._n_hits:,} hits in {seconds:.1f} s "
            f"({rate:,.0f} queries/s)"
        )


# ---- ``hyrecall batch``: answers a file of queries of any size and writes a file of hits ----

_END_BYTES = 1 << 20  # bytes at each end of a query file, whose hash identifies it

_MOST_NOTES = 10  # of queries that were not answered as asked


def batch(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR",
            help="Folder of the index, or of its shards; several: the shards of an index.",
        ),
    ],
    queries: Annotated[
        Path,
        typer.Argument(
            metavar="QUERIES",
            help="The queries: .parquet, .jsonl, .ndjson, .json (lines), .csv or .tsv, also with "
            ".gz; - is stdin.",
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The file of hits: .parquet, .csv, .jsonl, .ndjson or .json (lines); - is stdout.",
        ),
    ],
    input_format: Annotated[
        str | None,
        typer.Option(
            "--input-format",
            metavar="|".join(INPUT_KINDS),
            show_default="by the file's name; jsonl for stdin",
            help="The format of QUERIES.",
        ),
    ] = None,
    output_format: Annotated[
        str | None,
        typer.Option(
            "--output-format",
            metavar="|".join(OUTPUT_KINDS),
            show_default="by the file's name; jsonl for stdout",
            help="The format of the output.",
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Continue an interrupted run with the same options."),
    ] = False,
    on_error: Annotated[
        Literal["fail", "skip"],
        typer.Option(
            "--on-error",
            metavar="fail|skip",
            help="For a query that is refused: end the run, or continue without rows for it.",
        ),
    ] = "fail",
    rejects: Annotated[
        Path | None,
        typer.Option(
            "--rejects",
            metavar="FILE",
            show_default="the output's name and .rejects.jsonl",
            help="With --on-error skip, the file of refused queries: JSON lines of query, key and "
            "error.",
        ),
    ] = None,
    query_text: Annotated[
        list[str] | None,
        typer.Option(
            "--query-text",
            metavar="[ARM=]COLUMN",
            help="The column of the query texts; without ARM= for all text arms.",
        ),
    ] = None,
    query_vector: Annotated[
        list[str] | None,
        typer.Option(
            "--query-vector", metavar="[ARM=]COLUMN", help="The column of the query vectors."
        ),
    ] = None,
    query_scope: Annotated[
        list[str] | None,
        typer.Option(
            "--query-scope",
            metavar="COLUMN",
            help="The column of each query's cell; for several cell columns, as many columns in "
            "the same order, separated by commas. A list column holds several cells per query.",
        ),
    ] = None,
    query_key: Annotated[
        str | None,
        typer.Option(
            "--query-key",
            metavar="COLUMN",
            help="The column of the queries' ids, named query_key in the output.",
        ),
    ] = None,
    scope: Scopes = None,
    embed: Embed = False,
    filters: Filters = None,
    limit: Limit = 10,
    offset: Offset = 0,
    depth: Depth = 100,
    fusion: FusionName = None,
    bm25: Bm25 = None,
    min_score: MinScore = None,
    min_fused: MinFused = None,
    normalize: Normalize = False,
    recipe: RecipeName = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--columns",
            metavar="COLUMN",
            help="Columns of the documents to add; repeat the option or use commas for several.",
        ),
    ] = None,
    threads: Threads = None,
    memory: Memory = None,
    verify: Verify = None,
    pin: Pin = None,
    ray: Annotated[
        bool,
        typer.Option("--ray", help="Answer in Ray actors; each opens all folders (extra [ray])."),
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            metavar="N",
            min=1,
            show_default="as many as the cluster has room for",
            help="With --ray, the number of actors; each reserves one CPU.",
        ),
    ] = None,
    num_gpus: Annotated[
        float | None,
        typer.Option(
            "--num-gpus",
            metavar="N",
            min=0,
            show_default="1 if the cluster has a GPU for every actor, else 0",
            help="With --ray, the GPUs that each actor reserves; it sees no others.",
        ),
    ] = None,
    start_timeout: Annotated[
        float | None,
        typer.Option(
            "--start-timeout",
            metavar="SECONDS",
            show_default="120",
            help="With --ray, how long the actors may wait for room in the cluster.",
        ),
    ] = None,
) -> None:
    """Answer a file of queries, each within its own scope.

    With several folders, each is a shard; the hits are those of one index with all documents.

    The file is read, answered and written in slices. The output has the columns of
    hits.to_arrow(), ordered by (query, rank); query counts from 0 over the whole file, followed by
    query_key. The last column, degraded, says why a query was not answered as asked, and is null
    for all others. A query without hits has no row; if it is degraded, it has one row with the
    reason and no key. In CSV and JSON lines, keys are text; in CSV, a scope column has the type of
    the index's cells.

    Until the output is complete, finished hits are kept beside it in FILE.unfinished: after an
    interrupt, the same command with --resume continues from there.
    """
    given = dict(locals())
    _check_files(folders, queries, output)
    kind = output_kind(output, output_format)
    refusals = _rejects_path(folders, queries, output, rejects, skips=on_error == "skip")
    is_piped = queries == STDIN or (queries.exists() and not queries.is_file())
    if resume and (is_piped or _is_stream(output)):
        got = "a pipe" if STDIN not in (queries, output) else "-"
        raise error(OptionError, "--resume", "a file of queries and a file as output", got)
    actors = {"workers": workers, "num_gpus": num_gpus, "start_timeout": start_timeout}
    for name, value in actors.items():
        if value is not None and not ray:
            raise error(OptionError, f"--{name.replace('_', '-')}", "--ray with it", "none")
    opening = opening_of(threads, memory, verify, pin)
    index = open_saved(folders, opening)
    facts, seals = index._facts, seals_of(folders)
    options = recall_options(
        facts, limit=limit, offset=offset, depth=depth, fusion=fusion, bm25=bm25, filters=filters,
        min_score=min_score, min_fused=min_fused, normalize=normalize, recipe=recipe,
    )  # fmt: skip
    asked = QueryColumns(
        text=by_arm("--query-text", query_text, lambda _, column: column),
        vectors=by_arm("--query-vector", query_vector, lambda _, column: column),
        scope=tuple(names(query_scope)),
        key=query_key,
    )
    fixed = _check_scope(facts, asked, scope)
    embedder = StaticEmbedder() if embed else None
    arm = None if embedder is None else embedded_arm(facts, embedder)
    if arm is not None:
        if not isinstance(asked.text, str) or asked.vectors is not None:
            wish = "--query-text COLUMN, and no --query-vector"
            raise error(OptionError, "--embed", wish, f"{asked.text!r} and {asked.vectors!r}")
        say(f"note: {arm!r}: the packaged static model embeds the queries")
    source = QueryFile(
        queries, asked.wanted(OPTIONS.__getitem__), _cell_types(facts, asked), input_format
    )
    job = BatchRun(
        index=index,
        asked=asked,
        scope=fixed,
        options={**options, "columns": names(columns), "now": datetime.now(UTC)},
        embed=None if embedder is None or arm is None else (arm, embedder),
        embedders=embedders_at_open(None, facts),
    )
    empty = job.answer(source.empty(), 0)  # refuses invalid options before any work
    check_types(kind, empty.schema)
    what = None if is_piped else _identity(given, seals, queries)
    with _opened(kind, output, refusals, what, resume=resume) as out:
        if isinstance(out, Unfinished):  # ages count from when the first run began
            job = replace(job, options={**job.options, "now": out.began})
        with (
            crew_of(job, folders, seals, opening, actors=actors if ray else None) as crew,
            BatchProgress(source.n_rows, done=out.n_queries) as progress,
        ):
            skips = on_error == "skip"
            reasons = run(
                job, source, out, progress.advance, workers=crew, empty=empty, skips=skips
            )
        check_seals(folders, seals)
        n_refused = out.n_refused
    told = "stdout" if output == STDOUT else output
    say(f"{progress.summary()}; written to {told}")
    notes = [note for told in reasons.values() for note in told]
    for note in notes[:_MOST_NOTES]:
        say(f"note: {note}")
    if len(notes) > _MOST_NOTES:
        say(f"note: and {len(notes) - _MOST_NOTES:,} more")
    if on_error == "skip":
        told = "1 query was" if n_refused == 1 else f"{n_refused:,} queries were"
        say(f"{told} refused, and listed in {refusals}")


@contextmanager
def _opened(
    kind: str, path: Path, rejects: Path | None, job: dict[str, Any] | None, *, resume: bool
) -> Iterator[Output]:
    """Open the output; if the queries come from a file, a later run can continue it."""
    if job is not None and not _is_stream(path):
        skips = rejects is not None
        unfinished = Unfinished(path, kind, job, resume=resume, skips=skips)
        try:
            yield unfinished
            unfinished.close(rejects)
        except BaseException as fault:
            if n_done := unfinished.leave():
                how = "--resume --on-error skip" if hasattr(fault, "query") else "--resume"
                told = "1 query is" if n_done == 1 else f"{n_done:,} queries are"
                say(f"note: {told} done and kept in {unfinished.shown};")
                say(f"      the same command with {how} continues from there")
            raise
        return
    with ExitStack() as files:
        refused = None
        if rejects is not None:
            refused = files.enter_context(open_replacement("--rejects", rejects))
        if path == STDOUT:
            file = sys.stdout.buffer
        else:
            file = files.enter_context(open_replacement("--output", path))
        stream = Stream(kind, file, refused)
        yield stream
        stream.close()


def _is_stream(output: Path) -> bool:
    """Return whether the output is a stream, which cannot be continued later."""
    return output == STDOUT or (output.exists() and not output.is_file() and not output.is_dir())


def _check_files(folders: Sequence[Path], queries: Path, output: Path) -> None:
    """Refuse an output that would replace the queries or a file of the index."""
    if output == STDOUT:
        return
    if queries != STDIN and output.resolve() == queries.resolve():
        raise error(OptionError, "--output", "another file than QUERIES", repr(str(output)))
    for folder in folders:
        check_outside("--output", output, folder)
    resolve_target("--output", output)


def _rejects_path(
    folders: Sequence[Path], queries: Path, output: Path, given: Path | None, *, skips: bool
) -> Path | None:
    """Return the file for refused queries, or None if a refused query ends the run."""
    if not skips:
        if given is not None:
            raise error(OptionError, "--rejects", "--on-error skip with it", "--on-error fail")
        return None
    if given is None:
        if output == STDOUT:
            raise error(OptionError, "--rejects", "a file, because the hits go to stdout", "none")
        given = output.with_name(f"{output.name}.rejects.jsonl")
    if given.resolve() in (output.resolve(), queries.resolve()):
        wish = "another file than the output and QUERIES"
        raise error(OptionError, "--rejects", wish, repr(str(given)))
    for folder in folders:
        check_outside("--rejects", given, folder)
    resolve_target("--rejects", given)
    return given


def _identity(given: dict[str, Any], seals: Sequence[str], queries: Path) -> dict[str, Any]:
    """Return everything that determines a run's output, as JSON types."""
    free = {"folders", "queries", "output", "resume", "on_error", "rejects", "threads"}
    free |= {"memory", "verify", "pin", "ray", "workers", "num_gpus", "start_timeout"}
    named = {name.replace("filters", "filter").replace("_", "-"): name for name in given}
    options = {f"--{shown}": given[name] for shown, name in named.items() if name not in free}
    found = queries.stat()
    with queries.open("rb") as file:
        ends = xxhash.xxh3_64(file.read(_END_BYTES))
        file.seek(max(found.st_size - _END_BYTES, 0))
        ends.update(file.read(_END_BYTES))
    return {
        **options,
        "the queries": f"{found.st_size} bytes, changed {found.st_mtime_ns}, {ends.hexdigest()}",
        "the index": ", ".join(seals),
        "hyrecall": __version__,
        "the output's format": output_kind(given["output"], given["output_format"]),
    }


def _cell_types(facts: IndexFacts, asked: QueryColumns) -> CellTypes:
    """Return the types of the scope columns, if there is one for each cell column."""
    names_of_cells = facts.schema.cell_columns
    if len(asked.scope) != len(names_of_cells):
        return {}
    types = facts.row_types
    return {column: types[name] for column, name in zip(asked.scope, names_of_cells, strict=True)}


def _check_scope(facts: IndexFacts, asked: QueryColumns, scope: list[str] | None) -> Scope | None:
    """Return the scope of all queries, or None if columns hold their scopes."""
    cells = facts.schema.cell_columns
    if asked.scope and scope:
        raise error(OptionError, "--query-scope", "--query-scope or --scope", "both")
    if not asked.scope and not scope and cells:
        wish = f"--query-scope COLUMN (a cell of {', '.join(cells)} per query), or --scope"
        raise error(OptionError, "--query-scope", wish, "neither")
    if len(asked.scope) > 1 and len(asked.scope) != len(cells):
        wish = f"a column for each of ({', '.join(cells)})"
        raise error(OptionError, "--query-scope", wish, f"{len(asked.scope)} columns")
    if asked.scope and not cells:
        wish = "none (the index has one audience: --no-cell)"
        raise error(OptionError, "--query-scope", wish, asked.scope[0])
    types = {name: facts.row_types[name] for name in cells}
    return None if asked.scope else read_scope(scope, types)
