"""``hyrecall batch``: answers a file of queries of any size and writes a file of hits."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
import xxhash

from hyrecall.ask.scope import CellTypes, Scope
from hyrecall.base.output_files import check_outside, open_replacement, resolve_target
from hyrecall.base.version import __version__
from hyrecall.cli.batch import OPTIONS, Batch, run
from hyrecall.cli.batch_crew import crew_of
from hyrecall.cli.batch_formats import OUTPUT_KINDS, STDOUT, check_types, output_kind
from hyrecall.cli.batch_output import Output, Stream, Unfinished
from hyrecall.cli.opening_options import Memory, Pin, Verify, opening_of
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
    RecipeName,
    Scopes,
    Threads,
    embedded_arm,
    recall_options,
)
from hyrecall.cli.progress import Progress
from hyrecall.cli.query_files import INPUT_KINDS, STDIN, QueryFile
from hyrecall.cli.show import say
from hyrecall.cli.values import by_arm, names, read_scope
from hyrecall.distributed.query_columns import QueryColumns
from hyrecall.distributed.saved import check_seals, facts_of, open_saved, seals_of
from hyrecall.embed import StaticEmbedder
from hyrecall.errors import OptionError, error
from hyrecall.recall.embedders import embedders_at_open
from hyrecall.segments.facts import IndexFacts

__all__ = ["batch"]

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
            show_default="the cluster must have room for them now",
            help="With --ray, how long the actors may wait for a cluster that adds nodes.",
        ),
    ] = None,
) -> None:
    """Answer a file of queries, each within its own scope.

    With several folders, each is a shard in a process of its own; the hits are those of one index
    with all documents.

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
    index = open_saved(folders, opening, processes=not ray)
    facts, seals = facts_of(index), seals_of(folders)
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
    job = Batch(
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
            Progress(source.n_rows, done=out.n_queries) as progress,
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
