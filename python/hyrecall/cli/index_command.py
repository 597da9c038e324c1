"""``hyrecall index``: builds an index from a file of documents and saves it to a folder."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from hyrecall.cli.index_in_parts import index_in_parts
from hyrecall.cli.options import Threads
from hyrecall.cli.show import say
from hyrecall.cli.tables import read_corpus
from hyrecall.cli.values import by_arm, names, read_analyzer, read_bm25
from hyrecall.embed import EmbedBy
from hyrecall.errors import OptionError, error
from hyrecall.index import Index
from hyrecall.segments.manifest import MANIFEST
from hyrecall.table.schema import Schema, Text, Vector, VectorDtype
from hyrecall.text.analyzer import Analyzer

__all__ = ["index"]

_EMBEDDED = "static"  # the arm of --embed without a name


def index(
    corpus: Annotated[
        Path, typer.Argument(metavar="FILE", help="The documents: .parquet, .jsonl or .csv.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="The folder to write.")
    ],
    key: Annotated[str, typer.Option("--key", metavar="COLUMN", help="The column of the ids.")],
    cell: Annotated[
        list[str] | None,
        typer.Option(
            "--cell",
            metavar="COLUMN",
            help="A column whose values are the cells; repeat the option for several. Either this "
            "or --no-cell is required.",
        ),
    ] = None,
    no_cell: Annotated[
        bool,
        typer.Option("--no-cell", help="Without cells: every query may see every document."),
    ] = False,
    text: Annotated[
        list[str] | None,
        typer.Option(
            "--text",
            metavar="[ARM=]COLUMN[+COLUMN]",
            help="Text columns to search by words; repeat the option for another arm.",
        ),
    ] = None,
    vector: Annotated[
        list[str] | None,
        typer.Option(
            "--vector",
            metavar="[ARM=]COLUMN[:DTYPE]",
            help="A column of vectors; repeat the option for another arm.",
        ),
    ] = None,
    embed: Annotated[
        list[str] | None,
        typer.Option(
            "--embed",
            metavar="[ARM=]COLUMN[+COLUMN]",
            help="Text columns to embed with the packaged static model (extra [local]).",
        ),
    ] = None,
    attribute: Annotated[
        list[str] | None,
        typer.Option(
            "--attribute",
            metavar="COLUMN",
            help="A column to filter by; repeat the option or use commas for several.",
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            metavar="COLUMN",
            help="The column that sorts the rows of a cell, so that range filters on it read less.",
        ),
    ] = None,
    thread: Annotated[
        str | None,
        typer.Option(
            "--thread",
            metavar="COLUMN",
            help="The column of each row's thread (a session, a document cut into rows).",
        ),
    ] = None,
    place: Annotated[
        str | None,
        typer.Option(
            "--place",
            metavar="COLUMN",
            show_default="order of insertion",
            help="The column that orders the rows of a thread.",
        ),
    ] = None,
    stored: Annotated[
        list[str] | None,
        typer.Option(
            "--stored",
            metavar="COLUMN",
            show_default="the text columns",
            help="A column that hits can show; repeat the option or use commas for several.",
        ),
    ] = None,
    analyzer: Annotated[
        list[str] | None,
        typer.Option(
            "--analyzer",
            metavar="[ARM=]NAME",
            show_default="unicode",
            help="How texts are split into words: unicode, unicode:LANGUAGE (with stemming), word, "
            "unicode61, porter, snowball:LANGUAGE, or a tokenizer's .json.",
        ),
    ] = None,
    stopwords: Annotated[
        str | None,
        typer.Option(
            "--stopwords",
            metavar="WORDS",
            show_default="none",
            help="Words to leave out: english, or a,list,of,words (a single word: de,).",
        ),
    ] = None,
    bm25: Annotated[
        list[str] | None,
        typer.Option(
            "--bm25",
            metavar="[ARM=]VARIANT[:K1[:B[:DELTA]]]",
            show_default="lucene:1.2:0.75",
            help="The BM25 variant and constants of recalls that name none: lucene:1.2:0.75, "
            "okapi, fts5, robertson, atire, bm25+:1.2:0.75:1.0 or bm25l.",
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
    threads: Threads = None,
) -> None:
    """Index a file of documents.

    Parquet files have the types of their columns. In CSV, keys, cells and texts are read as text;
    in JSON lines, texts are. Other types are inferred, but a key or cell in JSON is never a time.
    """
    if bool(cell) == no_cell:
        wish = "--cell COLUMN, or --no-cell for a table with one audience"
        raise error(OptionError, "--cell", wish, "both" if cell else "neither")
    if output.resolve() == corpus.resolve():
        raise error(OptionError, "--output", "a folder, not the corpus", repr(str(output)))
    _check_output(output, replace=replace)
    schema, embedded = _read_schema(
        key=key, cell=names(cell) or None, text=text, vector=vector, embed=embed,
        attributes=names(attribute), cluster=cluster, stored=names(stored) if stored else None,
        thread=thread, place=place, analyzer=analyzer, stopwords=stopwords, bm25=bm25,
    )  # fmt: skip
    wanted = _wanted(schema, embedded)
    if memory is not None:
        for option, is_given in (("--embed", embedded), ("--replace", replace)):
            if is_given:
                raise error(OptionError, option, "nothing with --memory", "it")
        index_in_parts(corpus, output, schema, wanted, memory, resume=resume, threads=threads)
        return
    if resume:
        raise error(OptionError, "--resume", "--memory with it", "none")
    started = time.perf_counter()
    as_text = [c for c, option in wanted.items() if option in ("--text", "--embed")]
    if corpus.suffix.lower() == ".csv":
        as_text += [key, *schema.cell_columns]
    table = read_corpus(corpus, wanted, as_text)
    say(f"{corpus}: {table.num_rows:,} rows in {time.perf_counter() - started:.1f} s")
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


def _read_schema(
    *,
    text: list[str] | None,
    vector: list[str] | None,
    embed: list[str] | None,
    analyzer: list[str] | None,
    stopwords: str | None,
    bm25: list[str] | None,
    **rest: Any,
) -> tuple[Schema, dict[str, list[str]]]:
    """Return the schema, and the columns of each arm that is embedded."""
    texts = _arms("--text", text)
    read = partial(read_analyzer, stopwords=stopwords)
    analyzers = by_arm("--analyzer", analyzer or [], read)
    if stopwords is not None and not isinstance(analyzers, Analyzer):
        # Stop words apply to every arm, also to those that --analyzer does not name.
        plain = read("--stopwords", "unicode")
        analyzers = {**dict.fromkeys(texts, plain), **(analyzers or {})}
    scorings = by_arm("--bm25", bm25, read_bm25)
    for option, given in (("--analyzer", analyzers), ("--bm25", scorings)):
        for arm in given if isinstance(given, dict) else ():
            if arm not in texts:
                raise error(OptionError, option, f"a text arm of {list(texts)}", repr(arm))
        if given is not None and not texts:
            raise error(OptionError, option, "a text arm (--text)", "none")

    def of(given: Any, arm: str) -> Any:
        return given.get(arm) if isinstance(given, dict) else given

    text_arms = {
        arm: Text(*columns, analyzer=of(analyzers, arm), bm25=of(scorings, arm))
        for arm, columns in texts.items()
    }
    vector_arms = {arm: _vector(value) for arm, value in _named("--vector", vector).items()}
    embedded = _arms("--embed", embed, default=_EMBEDDED)
    for arm in embedded:
        if arm in vector_arms:
            raise error(OptionError, "--embed", "an arm that --vector does not have", repr(arm))
        vector_arms[arm] = Vector(arm)
    return Schema(text=text_arms, vector=vector_arms, **rest), embedded


def _named(option: str, values: list[str] | None) -> dict[str, str]:
    """Split ``[ARM=]REST``; the default name of an arm is its column."""
    arms: dict[str, str] = {}
    for value in values or ():
        arm, equals, rest = value.partition("=")
        name = arm if equals else _vector(value).column
        if not name or (equals and not rest):
            raise error(OptionError, option, "[ARM=]COLUMN", repr(value))
        if name in arms:
            raise error(OptionError, option, "each arm once", f"{name!r} twice")
        arms[name] = rest if equals else value
    return arms


def _arms(
    option: str, values: list[str] | None, default: str | None = None
) -> dict[str, list[str]]:
    """Split ``[ARM=]COLUMN+COLUMN``; the default name of an arm is `default` or its column."""
    arms: dict[str, list[str]] = {}
    for value in values or ():
        arm, equals, rest = value.partition("=")
        columns = (rest if equals else value).split("+")
        if not equals:
            if len(columns) > 1 and default is None:
                raise error(OptionError, option, f"a name for several columns, ARM={value}", "none")
            arm = default or columns[0]
        if not arm or not all(columns):
            raise error(OptionError, option, "[ARM=]COLUMN[+COLUMN]", repr(value))
        if arm in arms:
            raise error(OptionError, option, "each arm once", f"{arm!r} twice")
        arms[arm] = columns
    return arms


def _vector(value: str) -> Vector:
    column, colon, dtype = value.rpartition(":")
    if colon and dtype in get_args(VectorDtype):
        return Vector(column, dtype=dtype)  # type: ignore[arg-type]
    return Vector(value)


def _wanted(schema: Schema, embedded: dict[str, list[str]]) -> dict[str, str]:
    """Return the columns to read, each with the first option that names it."""
    asked: list[tuple[str, Sequence[str]]] = [
        ("--key", (schema.key,)),
        ("--cell", schema.cell_columns),
        ("--text", schema.text_columns),
        ("--embed", [c for columns in embedded.values() for c in columns]),
        ("--vector", [v.column for arm, v in schema.vector_arms.items() if arm not in embedded]),
        ("--stored", schema.stored_columns),
        ("--cluster", () if schema.cluster is None else (schema.cluster,)),
        ("--thread", () if schema.thread is None else (schema.thread,)),
        ("--place", () if schema.place is None else (schema.place,)),
        ("--attribute", schema.row_columns),
    ]
    wanted: dict[str, str] = {}
    for option, columns in asked:
        for column in columns:
            wanted.setdefault(column, option)
    return wanted
