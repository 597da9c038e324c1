"""``hyrecall batch``: answers a file of queries of any size and writes a file of hits."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal

import pyarrow as pa
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from hyrecall.ask.scope import CellTypes, Scope
from hyrecall.base.disk import check_outside, is_one_file, open_replacement, resolve_target
from hyrecall.base.version import __version__
from hyrecall.cli.batch_output import STDOUT, OutputKind, check_types, output_kind, write_hits
from hyrecall.cli.options import (
    at_least,
    by_arm,
    embedded_arm,
    names,
    opening_of,
    read_scope,
    recall_options,
    refuse,
)
from hyrecall.cli.query_files import STDIN, InputKind, QueryFile
from hyrecall.cli.show import say
from hyrecall.distributed.batch_recall import FileRecall, QueryColumns, open_saved, reasons_in
from hyrecall.distributed.dataset import UnfinishedFile, answer_source, identity_of
from hyrecall.embed import StaticEmbedder
from hyrecall.errors import HyrecallError, OptionError, error
from hyrecall.segments.segments import IndexFacts

# ---- What the command calls the arguments and the columns of queries ----

OPTIONS = {
    "text": "--query-text", "vectors": "--query-vector", "scope": "--query-scope",
    "key": "--query-key", "columns": "--columns",
}  # fmt: skip
NAMES = {"output": "--output", "resume": "--resume"}

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
        columns = BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}")
        self._bar = Bar(
            *columns, TextColumn("ETA"), TimeRemainingColumn(),
            console=Console(file=sys.stderr), transient=True, disable=not sys.stderr.isatty(),
        )  # fmt: skip
        self._task = self._bar.add_task("", total=total, completed=done)

    def __enter__(self) -> BatchProgress:
        self._bar.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._bar.stop()

    def advance(self, n_queries: int, n_hits: int) -> None:
        """Count an answered slice of queries."""
        self._n_queries += n_queries
        self._n_hits += n_hits
        now = time.perf_counter()
        rate = self._n_queries / max(now - self._started, 1e-9)
        at = self._done + self._n_queries
        self._bar.update(self._task, completed=at, description=f"{rate:,.0f} queries/s")
        if self._bar.disable and now - self._told >= _SECONDS_BETWEEN_LINES:
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

_MOST_NOTES = 10  # of queries that were not answered as asked


def batch(
    ctx: typer.Context,
    folders: list[Path],
    queries: Path,
    *,
    output: Path,
    input_format: InputKind | None = None,
    output_format: OutputKind | None = None,
    resume: bool = False,
    on_error: Literal["fail", "skip"] = "fail",
    rejects: Path | None = None,
    query_text: list[str] | None = None,
    query_vector: list[str] | None = None,
    query_scope: list[str] | None = None,
    query_key: str | None = None,
    scope: list[str] | None = None,
    embed: bool = False,
    filters: list[str] | None = None,
    limit: int = 10,
    offset: int = 0,
    depth: int = 100,
    fusion: str | None = None,
    bm25: list[str] | None = None,
    min_score: list[str] | None = None,
    min_fused: float | None = None,
    min_confidence: float | None = None,
    normalize: bool = False,
    recipe: str | None = None,
    columns: list[str] | None = None,
    threads: int | None = None,
    memory: Literal["mmap", "ram"] | None = None,
    verify: Literal["full", "structure"] | None = None,
    pin: list[str] | None = None,
    ray: bool = False,
    workers: int | None = None,
    num_gpus: float | None = None,
    start_timeout: float | None = None,
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

    Arguments
    folders DIR: Folder of the index, or of its shards; several: the shards of an index.
    queries QUERIES: The queries: .parquet, .jsonl, .ndjson, .json (lines), .csv or .tsv, also with
        .gz; - is stdin.
    Options
    output --output -o FILE: The file of hits: .parquet, .csv, .jsonl, .ndjson or .json (lines); -
        is stdout.
    input_format: The format of QUERIES. [default: by the file's name; jsonl
        for stdin]
    output_format: The format of the output. [default: by the file's name; jsonl
        for stdout]
    resume: Continue an interrupted run with the same options.
    on_error: For a query that is refused: end the run, or continue without rows for it.
    rejects FILE: With --on-error skip, the file of refused queries: JSON lines of query, key and
        error. [default: the output's name and .rejects.jsonl]
    query_text [ARM=]COLUMN: The column of the query texts; without ARM= for all text arms.
    query_vector [ARM=]COLUMN: The column of the query vectors.
    query_scope COLUMN: The column of each query's cell; for several cell columns, as many columns
        in the same order, separated by commas. A list column holds several cells per query.
    query_key COLUMN: The column of the queries' ids, named query_key in the output.
    filters --filter JSON: Only documents with these attributes: {"kind": "note", "day": {"from":
        "2024-05-01"}, "lang": ["de", "fr"]}. Dates and times are ISO 8601; durations are not
        supported.
    min_score [ARM=]SCORE: The lowest score in an arm.
    min_confidence P: The lowest confidence of a reply, in [0, 1]; a query below it has no rows.
    recipe NAME: Rank by a recipe: $RECIPES, or a .json file. It replaces --fusion, --bm25,
        --min-score, --min-fused and --normalize. [default: none]
    columns COLUMN: Columns of the documents to add; repeat the option or use commas for several.
    ray: Answer in Ray actors; each opens all folders (extra [ray]).
    workers N: With --ray, the number of actors; each reserves one CPU. [default: as many as the
        cluster has room for]
    num_gpus N: With --ray, the GPUs that each actor reserves; it sees no others. [default: 1 if the
        cluster has a GPU for every actor, else 0]
    start_timeout SECONDS: With --ray, how long the actors may wait for room in the cluster.
        [default: 120]
    """
    given = {name: value for name, value in locals().items() if name != "ctx"}
    _check_files(folders, queries, output)
    kind = output_kind(output, output_format)
    skips = on_error == "skip"
    refusals = _rejects_path(folders, queries, output, rejects, skips=skips)
    is_piped = queries == STDIN or (queries.exists() and not queries.is_file())
    if resume and (is_piped or _is_stream(output)):
        got = "a pipe" if STDIN not in (queries, output) else "-"
        raise error(OptionError, "--resume", "a file of queries and a file as output", got)
    actors = {"workers": workers, "num_gpus": num_gpus, "start_timeout": start_timeout}
    at_least("--workers", workers, 1)
    if not ray:
        refuse(ctx, "--ray with it", *actors)
    opening = opening_of(threads, memory, verify, pin)
    index = open_saved(folders, opening)
    facts = index._facts
    options = recall_options(
        ctx, facts, limit=limit, offset=offset, depth=depth, fusion=fusion, bm25=bm25,
        filters=filters, min_score=min_score, min_fused=min_fused, normalize=normalize,
        recipe=recipe,
    )  # fmt: skip
    asked = QueryColumns(
        text=by_arm("--query-text", query_text, lambda _, column: column),
        vectors=by_arm("--query-vector", query_vector, lambda _, column: column),
        scope=tuple(names(query_scope)),
        key=query_key,
    )
    fixed = _check_scope(facts, asked, scope)
    arm = embedded_arm(facts, StaticEmbedder()) if embed else None
    if arm is not None:
        if not isinstance(asked.text, str) or asked.vectors is not None:
            wish = "--query-text COLUMN, and no --query-vector"
            raise error(OptionError, "--embed", wish, f"{asked.text!r} and {asked.vectors!r}")
        say(f"note: {arm!r}: the packaged static model embeds the queries")
    source = QueryFile(
        queries, asked.wanted(OPTIONS.__getitem__), _cell_types(facts, asked), input_format
    )
    recall = FileRecall.of(
        index, folders, opening, asked, scope=fixed,
        options={**options, "min_confidence": min_confidence, "columns": names(columns)},
        embed=None if arm is None else {arm: "static"},
        names=OPTIONS, none=source.empty(), skips=skips,
    )  # fmt: skip
    check_types(kind, recall.schema)  # refuses invalid options before any work
    run = _Run(recall, source, kind, output, refusals, actors if ray else None)
    if is_piped or _is_stream(output):
        n_refused, notes = run.to_stream()
    else:
        n_refused, notes = run.to_file(_identity(given, recall, queries), resume=resume)
    for note in notes[:_MOST_NOTES]:
        say(f"note: {note}")
    if len(notes) > _MOST_NOTES:
        say(f"note: and {len(notes) - _MOST_NOTES:,} more")
    if skips:
        told = "1 query was" if n_refused == 1 else f"{n_refused:,} queries were"
        say(f"{told} refused, and listed in {refusals}")


@dataclass
class _Run:
    """A run to a stream, or to a file by parts that are kept until it is complete."""

    recall: FileRecall
    source: QueryFile
    kind: str
    output: Path
    rejects: Path | None
    actors: Mapping[str, Any] | None

    def to_stream(self) -> tuple[int, list[str]]:
        """Write hits as they are found; return how many queries were refused, and notes."""
        notes: list[str] = []
        n_refused = 0

        def tables(progress: BatchProgress) -> Iterator[pa.Table]:
            nonlocal n_refused
            for one in answer_source(self.recall, self.source, None, ray=self.actors):
                assert one.counts is not None
                yield from one.tables
                n_refused += one.counts["refused"]
                notes.extend(why for told in reasons_in(one.tables).values() for why in told)
                progress.advance(one.counts["queries"], one.counts["hits"])
                if one.fault is not None:
                    raise _named(one.fault, self.source.name)

        with ExitStack() as files, BatchProgress(self.source.n_rows) as progress:
            if self.output == STDOUT:
                file: BinaryIO = sys.stdout.buffer
            else:
                file = files.enter_context(open_replacement("--output", self.output))
            self._write(tables(progress), file, files)
            self.recall.check_current()
        self._tell(progress)
        return n_refused, notes

    def to_file(self, job: dict[str, Any], *, resume: bool) -> tuple[int, list[str]]:
        """Answer in parts, and join them when all are there."""
        kept = UnfinishedFile(self.output, NAMES.__getitem__)
        other = kept.open(job, self.recall.now, is_resumed=resume)
        if other is not None:
            say(f"note: an unfinished run with other options ({other}) is discarded")
        if kept.total["refused"] and self.rejects is None:
            kept.close()
            wish = f"--on-error skip as before ({kept.total['refused']:,} queries were refused)"
            raise error(OptionError, "--resume", wish, "--on-error fail")
        try:
            progress = self._answer(kept)
            with ExitStack() as files:
                file = files.enter_context(open_replacement("--output", self.output))
                self._write(kept.tables(), file, files)
            self._tell(progress)
            found = kept.total["refused"], list(kept.reasons())
            kept.remove()
        except BaseException as fault:
            if n_done := kept.close():
                how = "--resume --on-error skip" if hasattr(fault, "query") else "--resume"
                told = "1 query is" if n_done == 1 else f"{n_done:,} queries are"
                say(f"note: {told} done and kept in {kept.shown};")
                say(f"      the same command with {how} continues from there")
            raise
        return found

    def _answer(self, kept: UnfinishedFile) -> BatchProgress:
        assert kept.began is not None  # ages count from when the first run began
        recall = self.recall.at(kept.began)
        n_done = kept.total["queries"]
        left = answer_source(recall, self.source, kept.path, ray=self.actors, first=n_done)
        with BatchProgress(self.source.n_rows, done=n_done) as progress:
            for one in left:
                if one.counts is not None and one.counts["queries"]:
                    kept.count(one.counts)
                    progress.advance(one.counts["queries"], one.counts["hits"])
                if one.fault is not None:
                    raise _named(one.fault, self.source.name)
        recall.check_current()
        return progress

    def _write(self, tables: Iterator[pa.Table], file: BinaryIO, files: ExitStack) -> None:
        rejects = None
        if self.rejects is not None:
            rejects = files.enter_context(open_replacement("--rejects", self.rejects))
        write_hits(tables, self.recall.schema, self.kind, file, rejects)

    def _tell(self, progress: BatchProgress) -> None:
        told = "stdout" if self.output == STDOUT else self.output
        say(f"{progress.summary()}; written to {told}")


def _named(fault: HyrecallError, name: str) -> HyrecallError:
    """Return the error of a query, with its number, its key and the file in the message."""
    query, key = (vars(fault).get(one) for one in ("query", "key"))
    if query is not None:
        told = "" if key is None else f", key {key!r},"
        fault.args = (f"{fault} (query {query}{told} of {name}; the first is 0)",)
    return fault


def _is_stream(output: Path) -> bool:
    """Return whether the output is a stream, which cannot be continued later."""
    return output == STDOUT or (output.exists() and not output.is_file() and not output.is_dir())


def _check_files(folders: Sequence[Path], queries: Path, output: Path) -> None:
    """Refuse an output that would replace the queries or a file of the index."""
    if output == STDOUT:
        return
    if queries != STDIN and is_one_file(output, queries):
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
    if is_one_file(given, output, queries):
        wish = "another file than the output and QUERIES"
        raise error(OptionError, "--rejects", wish, repr(str(given)))
    for folder in folders:
        check_outside("--rejects", given, folder)
    resolve_target("--rejects", given)
    return given


def _identity(given: dict[str, Any], recall: FileRecall, queries: Path) -> dict[str, Any]:
    """Return everything that determines a run's output, as JSON types."""
    free = {"folders", "queries", "output", "resume", "on_error", "rejects", "threads"}
    free |= {"memory", "verify", "pin", "ray", "workers", "num_gpus", "start_timeout"}
    named = {name.replace("filters", "filter").replace("_", "-"): name for name in given}
    return {
        **{f"--{shown}": given[name] for shown, name in named.items() if name not in free},
        "the queries": identity_of([queries])[0]["xxh3_128"],
        "the index": ", ".join(recall._seals),
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
