"""``hyrecall index``: builds an index from a file of documents and saves it to a folder."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from hyrecall.cli.index_in_parts import index_in_parts
from hyrecall.cli.options import Threads
from hyrecall.cli.schema_options import (
    Analyzers,
    Attributes,
    Bm25OfArms,
    Cells,
    Cluster,
    Key,
    NoCell,
    Place,
    Stopwords,
    Stored,
    TextArms,
    ThreadColumn,
    VectorArms,
    check_cells,
    read_schema,
    wanted_columns,
)
from hyrecall.cli.show import say
from hyrecall.cli.tables import INPUT_KINDS, STDIN, corpus_files, read_corpora
from hyrecall.cli.values import names
from hyrecall.embed import EmbedBy
from hyrecall.errors import OptionError, error
from hyrecall.index import Index
from hyrecall.segments.manifest import MANIFEST

__all__ = ["index"]


def index(
    corpus: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="The documents: .parquet, .jsonl, .ndjson, .json (lines), .csv or .tsv, also with "
            ".gz; several files or patterns are one corpus; - is stdin.",
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="The folder to write.")
    ],
    key: Key,
    cell: Cells = None,
    no_cell: NoCell = False,
    text: TextArms = None,
    vector: VectorArms = None,
    embed: Annotated[
        list[str] | None,
        typer.Option(
            "--embed",
            metavar="[ARM=]COLUMN[+COLUMN]",
            help="Text columns to embed with the packaged static model (extra [local]).",
        ),
    ] = None,
    attribute: Attributes = None,
    cluster: Cluster = None,
    thread: ThreadColumn = None,
    place: Place = None,
    stored: Stored = None,
    analyzer: Analyzers = None,
    stopwords: Stopwords = None,
    bm25: Bm25OfArms = None,
    input_format: Annotated[
        str | None,
        typer.Option(
            "--input-format",
            metavar="|".join(INPUT_KINDS),
            show_default="by the file's name; jsonl for stdin",
            help="The format of FILE.",
        ),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace an index in the folder.")
    ] = False,
    memory: Annotated[
        str | None,
        typer.Option(
            "--memory",
            metavar="SIZE",
            show_default="as much as it takes",
            help="Index a .parquet file in parts, so that the command takes at most so much "
            "memory: 2GB, 512MiB.",
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="With --memory: go on with an unfinished build, if any."),
    ] = False,
    no_join: Annotated[
        bool,
        typer.Option(
            "--no-join",
            help="With --memory: leave the parts as they are. Joined by cell, they take twice the "
            "disk space until they are done, and queries of one cell read less.",
        ),
    ] = False,
    threads: Threads = None,
) -> None:
    """Index files of documents.

    Parquet files have the types of their columns. In CSV, keys, cells and texts are read as text;
    in JSON lines, texts are. Other types are inferred, but a key or cell in JSON is never a time.
    """
    check_cells(cell, no_cell=no_cell)
    files = corpus_files(corpus)
    if output.resolve() in [one.resolve() for one in files]:
        raise error(OptionError, "--output", "a folder, not the corpus", repr(str(output)))
    _check_output(output, replace=replace)
    schema, embedded = read_schema(
        key=key, cell=names(cell) or None, text=text, vector=vector, embed=embed,
        attributes=names(attribute), cluster=cluster, stored=names(stored) if stored else None,
        thread=thread, place=place, analyzer=analyzer, stopwords=stopwords, bm25=bm25,
    )  # fmt: skip
    wanted = wanted_columns(schema, embedded)
    if memory is not None:
        given = {"--embed": embedded, "--replace": replace, "--input-format": input_format}
        for option, is_given in given.items():
            if is_given:
                raise error(OptionError, option, "nothing with --memory", "it")
        index_in_parts(
            files, output, schema, wanted, memory,
            resume=resume, join=not no_join, threads=threads,
        )  # fmt: skip
        return
    for option, is_given in (("--resume", resume), ("--no-join", no_join)):
        if is_given:
            raise error(OptionError, option, "--memory with it", "none")
    started = time.perf_counter()
    as_text = [c for c, option in wanted.items() if option in ("--text", "--embed")]
    table = read_corpora(files, wanted, as_text, input_format)
    what = f"{len(files)} files" if len(files) > 1 else "stdin" if files == [STDIN] else files[0]
    say(f"{what}: {table.num_rows:,} rows in {time.perf_counter() - started:.1f} s")
    started = time.perf_counter()
    by = {arm: EmbedBy("static", columns=columns) for arm, columns in embedded.items()}
    made = Index.build(table, schema, embed=by, threads=threads)
    told = f"indexed {len(made):,} documents in {time.perf_counter() - started:.1f} s"
    say(f"{told}, embedded with {made.stats()['embedded_by']}" if by else told)
    made.save(output, overwrite=replace)
    say(f"written to {output}")


def _check_output(output: Path, *, replace: bool) -> None:
    if output.exists() and not output.is_dir():
        raise error(OptionError, "--output", "a folder", f"the file {output}")
    if not output.is_dir() or not any(output.iterdir()):
        return
    if not (output / MANIFEST).exists():
        got = f"{output}, which holds other files"
        raise error(OptionError, "--output", "an empty folder or the folder of an index", got)
    if not replace:
        raise error(OptionError, "--output", "a new folder, or --replace", f"the index {output}")
