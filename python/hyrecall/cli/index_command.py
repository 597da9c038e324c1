"""``hyrecall index`` and ``sync``: build and save an index of documents, and follow a folder."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypedDict, Unpack, get_args

import pyarrow as pa
import pyarrow.parquet as pq
import typer

from hyrecall.base.disk import is_one_file
from hyrecall.cli.options import by_arm, names, read_analyzer, read_bm25, refuse
from hyrecall.cli.query_files import (
    STDIN,
    InputKind,
    check_columns,
    corpus_files,
    is_packed,
    kind_of,
    read_corpora,
    reading,
)
from hyrecall.cli.show import say
from hyrecall.embed import EmbedBy
from hyrecall.embed.choose import LocalModel
from hyrecall.errors import OptionError, error
from hyrecall.index import Index
from hyrecall.segments.manifest import MANIFEST
from hyrecall.table.schema import FORMS, MOST_WEIGHT, Schema, Text, Vector, VectorDtype
from hyrecall.text.analyzer import Analyzer

# ---- ``hyrecall index --memory``: indexes a Parquet file in parts that fit a limit of memory ----

_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([A-Za-z]*)")
_BATCH_ROWS = 4096


def read_size(option: str, text: str) -> int:
    """Return a number of bytes from text such as 2GB or 1.5GiB."""
    found = _SIZE.fullmatch(text.strip())
    unit = None if found is None else _UNITS.get(found[2].upper())
    if found is None or unit is None:
        raise error(OptionError, option, "a size such as 2GB or 512MiB", repr(text))
    return int(float(found[1]) * unit)


def index_in_parts(
    files: Sequence[Path],
    output: Path,
    schema: Schema,
    wanted: Mapping[str, str],
    memory: str,
    *,
    resume: bool,
    join: bool,
    threads: int | None,
) -> None:
    """Index the columns of Parquet files, part by part, and say how far it is after each."""
    limit = read_size("--memory", memory)
    for one in files:
        if one == STDIN or is_packed(one) or kind_of(one) != "parquet":
            wish = "a .parquet file, which can be read in parts"
            raise error(OptionError, "--memory", wish, repr(str(one)))
    started = time.perf_counter()

    def tell(done: int, total: int, what: str = "rows") -> None:
        seconds = time.perf_counter() - started
        say(f"{done:,} of {total:,} {what}, {seconds:.1f} s")

    n_rows = 0
    for one in files:
        with reading(one, "parquet"):
            metadata = pq.read_metadata(one)
            check_columns(one, metadata.schema.to_arrow_schema().names, wanted)
            n_rows += metadata.num_rows
    with reading(files[0], "parquet"):
        made = Index.build_in_parts(
            _batches(files, list(wanted)),
            schema,
            output,
            memory_limit=limit,
            threads=threads,
            resume=resume,
            join=join,
            total_rows=n_rows,
            progress=tell,
            join_progress=partial(tell, what="rows joined by cell"),
        )
    n_segments = made.stats()["n_segments"]
    told = f"indexed {len(made):,} documents in {time.perf_counter() - started:.1f} s"
    say(f"{told}, {n_segments} segments")
    say(f"written to {output}")


def _batches(files: Sequence[Path], columns: list[str]) -> Iterator[pa.RecordBatch]:
    for one in files:
        with reading(one, "parquet"), pq.ParquetFile(one, pre_buffer=False) as file:
            yield from file.iter_batches(_BATCH_ROWS, columns=columns)


# ---- The options that name the columns of an index, and the schema that they make ----

SHARED = """
key COLUMN: The column of the ids. [required]
cell COLUMN: A column whose values are the cells; repeat the option for several. Either this or
    --no-cell is required.
no_cell: Without cells: every query may see every document.
text [ARM=]COLUMN[:WEIGHT][+COLUMN]: Text columns to search by words; repeat the option for another
    arm. A column of weight 3 counts three times.
vector [ARM=]COLUMN[:DTYPE]: A column of vectors; repeat the option for another arm. COLUMN:maxsim
    has many vectors a row, COLUMN:sparse terms with weights.
attribute COLUMN: A column to filter by; repeat the option or use commas for several.
cluster COLUMN: The column that sorts the rows of a cell, so that range filters on it read less.
thread COLUMN: The column of each row's thread (a session, a document cut into rows).
place COLUMN: The column that orders the rows of a thread. [default: order of insertion]
stored COLUMN: A column that hits can show; repeat the option or use commas for several. [default:
    the text columns]
analyzer [ARM=]NAME: How texts are split into words: unicode, unicode:LANGUAGE (with stemming),
    word, unicode61, porter, snowball:LANGUAGE, or a tokenizer's .json. [default: unicode]
stopwords WORDS: Words to leave out: english, or a,list,of,words (a single word: de,). [default:
    none]
bm25 [ARM=]VARIANT[:K1[:B[:DELTA]]]: The BM25 variant and constants of recalls that name none:
    lucene:1.2:0.75, okapi, fts5, robertson, atire, bm25+:1.2:0.75:1.0 or bm25l. [default:
    lucene:1.2:0.75]
"""
"""The options that name the columns of an index, and say how its texts are read."""


class NamedColumns(TypedDict):
    """These options, as they are given."""

    key: str | None
    cell: list[str] | None
    no_cell: bool
    text: list[str] | None
    vector: list[str] | None
    attribute: list[str] | None
    cluster: str | None
    thread: str | None
    place: str | None
    stored: list[str] | None
    analyzer: list[str] | None
    stopwords: str | None
    bm25: list[str] | None


def read_schema(
    given: NamedColumns, embed: list[str] | None = None, embedder: LocalModel = "static"
) -> tuple[Schema, dict[str, list[str]]]:
    """Return the schema, and the columns of each arm that is embedded."""
    cell, stored, stopwords = given["cell"], given["stored"], given["stopwords"]
    if given["key"] is None:
        raise typer.BadParameter("expected --key COLUMN, the column of the ids")
    if bool(cell) == given["no_cell"]:
        wish = "--cell COLUMN, or --no-cell for a table with one audience"
        raise error(OptionError, "--cell", wish, "both" if cell else "neither")
    texts = _arms("--text", given["text"])
    read = partial(read_analyzer, stopwords=stopwords)
    analyzers = by_arm("--analyzer", given["analyzer"] or [], read)
    if stopwords is not None and not isinstance(analyzers, Analyzer):
        # Stop words apply to every arm, also to those that --analyzer does not name.
        plain = read("--stopwords", "unicode")
        analyzers = {**dict.fromkeys(texts, plain), **(analyzers or {})}
    scorings = by_arm("--bm25", given["bm25"], read_bm25)
    for option, made in (("--analyzer", analyzers), ("--bm25", scorings)):
        for arm in made if isinstance(made, dict) else ():
            if arm not in texts:
                raise error(OptionError, option, f"a text arm of {list(texts)}", repr(arm))
        if made is not None and not texts:
            raise error(OptionError, option, "a text arm (--text)", "none")

    def of(made: Any, arm: str) -> Any:
        return made.get(arm) if isinstance(made, dict) else made

    text_arms = {}
    for arm, columns in texts.items():
        listed, weights = _weighted("--text", columns)
        options = {"analyzer": of(analyzers, arm), "bm25": of(scorings, arm)}
        text_arms[arm] = Text(*listed, weights=weights, **options)
    vector_arms = {
        arm: _vector(value) for arm, value in _named("--vector", given["vector"]).items()
    }
    embedded = _arms("--embed", embed, default=embedder)
    for arm in embedded:
        if arm in vector_arms:
            raise error(OptionError, "--embed", "an arm that --vector does not have", repr(arm))
        vector_arms[arm] = Vector(arm)
    schema = Schema(
        key=given["key"],
        cell=names(cell) or None,
        text=text_arms,
        vector=vector_arms,
        attributes=names(given["attribute"]),
        stored=names(stored) if stored else None,
        cluster=given["cluster"],
        thread=given["thread"],
        place=given["place"],
    )
    return schema, embedded


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
            arm = default or _weighted(option, columns)[0][0]
        if not arm or not all(columns):
            raise error(OptionError, option, "[ARM=]COLUMN[+COLUMN]", repr(value))
        if arm in arms:
            raise error(OptionError, option, "each arm once", f"{arm!r} twice")
        arms[arm] = columns
    return arms


def _weighted(option: str, columns: list[str]) -> tuple[list[str], dict[str, int]]:
    """Split each ``COLUMN:WEIGHT``; return the columns, and the weights that are given."""
    names: list[str] = []
    weights: dict[str, int] = {}
    for given in columns:
        column, colon, weight = given.rpartition(":")
        is_weight = bool(colon) and weight.isdecimal()
        names.append(column if is_weight else given)
        if is_weight:
            if not column or not 1 <= int(weight) <= MOST_WEIGHT:
                wish = f"COLUMN:WEIGHT with a weight in [1, {MOST_WEIGHT}]"
                raise error(OptionError, option, wish, repr(given))
            weights[column] = int(weight)
    return names, weights


def _vector(value: str) -> Vector:
    column, colon, dtype = value.rpartition(":")
    if colon and dtype in get_args(VectorDtype):
        return Vector(column, dtype=dtype)  # type: ignore[arg-type]
    form = next((form for name, form in FORMS.items() if colon and name.lower() == dtype), None)
    return Vector(value) if form is None else form(column)


def wanted_columns(schema: Schema, embedded: dict[str, list[str]]) -> dict[str, str]:
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


# ---- ``hyrecall index`` of a folder, and ``hyrecall sync`` ----

_SHOWN_SKIPPED = 5


def _index_folder(
    folder: Path,
    output: Path,
    embed: list[str] | None,
    embedder: LocalModel,
    texts: NamedColumns,
    read: Mapping[str, Any],
    *,
    replace: bool,
    threads: int | None,
) -> None:
    """Index the files of a folder, cut into chunks."""
    from hyrecall import folders

    columns = ("path", "heading", "text")
    schema, embedded = read_schema(texts, embed, embedder)
    for named in (one for some in embedded.values() for one in some if one not in columns):
        raise error(OptionError, "--embed", f"a column of {', '.join(columns)}", repr(named))
    by = {arm: EmbedBy(embedder, columns=some) for arm, some in embedded.items()}
    started = time.perf_counter()
    found = folders.read(folder, progress=_tell_files, **read)
    n_files = len(found.table["path"].unique())
    told = f"{folder}: {n_files:,} files, {found.table.num_rows:,} chunks"
    say(f"{told} in {time.perf_counter() - started:.1f} s")
    _tell_skipped(found.skipped)
    started, arm = time.perf_counter(), schema.text_arms["text"]
    made = folders.build(
        found, embed=by or None, analyzer=arm.analyzer, bm25=arm.bm25, threads=threads
    )
    told = f"indexed {len(made):,} chunks in {time.perf_counter() - started:.1f} s"
    say(f"{told}, embedded with {made.stats()['embedded_by']}" if by else told)
    made.save(output, overwrite=replace)
    say(f'next: hyrecall recall {shlex.quote(str(output))} "words"')


def _tell_files(done: int, total: int) -> None:
    if done < total:
        say(f"{done:,} of {total:,} files")


def _tell_skipped(skipped: Sequence[tuple[str, str]]) -> None:
    for path, reason in skipped[:_SHOWN_SKIPPED]:
        say(f"skipped {path}: {reason}")
    if len(skipped) > _SHOWN_SKIPPED:
        say(f"skipped {len(skipped) - _SHOWN_SKIPPED:,} more")


def sync(folder: Path, saved: Path) -> None:
    """Bring the index of a folder of documents to what the folder holds now.

    Files are compared by their bytes. If none changed, nothing is written; else one save has all
    changes, and an interrupted one none. The folder is read as when it was indexed. What cannot be
    read now stays in the index and is told; a folder without any file is refused.

    Arguments
    folder FOLDER: The folder of documents.
    saved DIR: The folder of its index, of `hyrecall index`.
    """
    from hyrecall import folders

    with Index.open(saved, device="cpu") as index:
        found = folders.sync(index, folder, progress=_tell_files)
        _tell_skipped(found.skipped)
        if found:
            index.save(saved)
        changes = ("new", "changed", "removed")
        told = ", ".join(f"{len(getattr(found, one)):,} {one}" for one in changes)
        told += f", {found.unchanged:,} unchanged files; {len(index):,} chunks"
        print(told + (f", {found.embedded:,} embedded" if index._facts.embedded else ""))


# ---- ``hyrecall index``: builds an index from a file of documents and saves it to a folder ----


def index(
    ctx: typer.Context,
    corpus: list[Path],
    *,
    output: Path,
    embed: list[str] | None = None,
    embedder: LocalModel = "static",
    input_format: InputKind | None = None,
    replace: bool = False,
    memory: str | None = None,
    resume: bool = False,
    no_join: bool = False,
    pattern: list[str] | None = None,
    chunk_tokens: int = 256,
    overlap: int | None = None,
    threads: int | None = None,
    **columns: Unpack[NamedColumns],
) -> None:
    """Index files of documents, or a folder of documents.

    A folder's files are cut into chunks, of which each has the columns path, heading and text;
    `hyrecall sync` brings the index to what the folder holds later.

    Parquet files have the types of their columns. In CSV, keys, cells and texts are read as text;
    in JSON lines, texts are. Other types are inferred, but a key or cell in JSON is never a time.

    Arguments
    corpus FILE: The documents: .parquet, .jsonl, .ndjson, .json (lines), .csv or .tsv, also with
        .gz; several files or patterns are one corpus; - is stdin. Or a folder of documents.
    Options
    output --output -o DIR: The folder to write.
    embed [ARM=]COLUMN[+COLUMN]: Text columns to embed.
    embedder: The model of --embed: the packaged static one (extra [local]), or all-MiniLM-L6-v2
        (extra [minilm]).
    replace: Replace an index in the folder.
    Options of files
    input_format: The format of FILE. [default: by the file's name; jsonl for
        stdin]
    memory SIZE: Index a .parquet file in parts, so that the command takes at most so much memory:
        2GB, 512MiB. [default: as much as it takes]
    resume: With --memory: go on with an unfinished build, if any.
    no_join: With --memory: leave the parts as they are. Joined by cell, they take twice the disk
        space until they are done, and queries of one cell read less.
    key, cell, no_cell, text, vector, attribute, cluster, thread, place, stored
    Options of a folder of documents
    pattern GLOB: Which files, by their path in the folder: "**/*.md"; repeat the option for more.
        [default: Markdown, reStructuredText, text, HTML, PDF]
    chunk_tokens N: The most words of a chunk of a file.
    overlap N: How many words of a chunk also begin the next one. [default: an eighth of
        --chunk-tokens]
    """
    files = corpus_files(corpus)
    if not embed:
        refuse(ctx, "--embed with it", "embedder")
    if len(files) == 1 and files[0].is_dir():
        refuse(ctx, "no such option for a folder", "Options of files")
        _check_output(output, replace=replace)
        texts: Any = {**columns, "key": "id", "no_cell": True, "text": ["text=heading+text"]}
        read: dict[str, Any] = {"chunk_tokens": chunk_tokens, "overlap": overlap}
        read |= {"patterns": pattern} if pattern else {}
        _index_folder(
            files[0], output, embed, embedder, texts, read, replace=replace, threads=threads
        )
        return
    refuse(ctx, "no such option for files", "Options of a folder of documents")
    if is_one_file(output, *files):
        raise error(OptionError, "--output", "a folder, not the corpus", repr(str(output)))
    _check_output(output, replace=replace)
    schema, embedded = read_schema(columns, embed, embedder)
    wanted = wanted_columns(schema, embedded)
    if memory is not None:
        refuse(ctx, "nothing with --memory", "embed", "replace", "input_format")
        index_in_parts(
            files,
            output,
            schema,
            wanted,
            memory,
            resume=resume,
            join=not no_join,
            threads=threads,
        )
        return
    refuse(ctx, "--memory with it", "resume", "no_join")
    started = time.perf_counter()
    as_text = [c for c, option in wanted.items() if option in ("--text", "--embed")]
    table = read_corpora(files, wanted, as_text, input_format)
    what = f"{len(files)} files" if len(files) > 1 else "stdin" if files == [STDIN] else files[0]
    say(f"{what}: {table.num_rows:,} rows in {time.perf_counter() - started:.1f} s")
    started = time.perf_counter()
    by = {arm: EmbedBy(embedder, columns=columns) for arm, columns in embedded.items()}
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
