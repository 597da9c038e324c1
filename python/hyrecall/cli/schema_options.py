"""The options that name the columns of an index, and the schema that they make."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, TypeAlias, get_args

import typer

from hyrecall.cli.values import by_arm, read_analyzer, read_bm25
from hyrecall.errors import OptionError, error
from hyrecall.table.schema import Schema, Text, Vector, VectorDtype
from hyrecall.text.analyzer import Analyzer

__all__ = [
    "Analyzers",
    "Attributes",
    "Bm25OfArms",
    "Cells",
    "Cluster",
    "Key",
    "NoCell",
    "Place",
    "Stopwords",
    "Stored",
    "TextArms",
    "ThreadColumn",
    "VectorArms",
    "check_cells",
    "read_schema",
    "wanted_columns",
]

_EMBEDDED = "static"  # the arm of --embed without a name

Key: TypeAlias = Annotated[
    str, typer.Option("--key", metavar="COLUMN", help="The column of the ids.")
]
Cells: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--cell",
        metavar="COLUMN",
        help="A column whose values are the cells; repeat the option for several. Either this "
        "or --no-cell is required.",
    ),
]
NoCell: TypeAlias = Annotated[
    bool,
    typer.Option("--no-cell", help="Without cells: every query may see every document."),
]
TextArms: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--text",
        metavar="[ARM=]COLUMN[+COLUMN]",
        help="Text columns to search by words; repeat the option for another arm.",
    ),
]
VectorArms: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--vector",
        metavar="[ARM=]COLUMN[:DTYPE]",
        help="A column of vectors; repeat the option for another arm.",
    ),
]
Attributes: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--attribute",
        metavar="COLUMN",
        help="A column to filter by; repeat the option or use commas for several.",
    ),
]
Cluster: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="COLUMN",
        help="The column that sorts the rows of a cell, so that range filters on it read less.",
    ),
]
ThreadColumn: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--thread",
        metavar="COLUMN",
        help="The column of each row's thread (a session, a document cut into rows).",
    ),
]
Place: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--place",
        metavar="COLUMN",
        show_default="order of insertion",
        help="The column that orders the rows of a thread.",
    ),
]
Stored: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--stored",
        metavar="COLUMN",
        show_default="the text columns",
        help="A column that hits can show; repeat the option or use commas for several.",
    ),
]
Analyzers: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--analyzer",
        metavar="[ARM=]NAME",
        show_default="unicode",
        help="How texts are split into words: unicode, unicode:LANGUAGE (with stemming), word, "
        "unicode61, porter, snowball:LANGUAGE, or a tokenizer's .json.",
    ),
]
Stopwords: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--stopwords",
        metavar="WORDS",
        show_default="none",
        help="Words to leave out: english, or a,list,of,words (a single word: de,).",
    ),
]
Bm25OfArms: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--bm25",
        metavar="[ARM=]VARIANT[:K1[:B[:DELTA]]]",
        show_default="lucene:1.2:0.75",
        help="The BM25 variant and constants of recalls that name none: lucene:1.2:0.75, "
        "okapi, fts5, robertson, atire, bm25+:1.2:0.75:1.0 or bm25l.",
    ),
]


def check_cells(cell: list[str] | None, *, no_cell: bool) -> None:
    """Refuse both or neither of ``--cell`` and ``--no-cell``."""
    if bool(cell) == no_cell:
        wish = "--cell COLUMN, or --no-cell for a table with one audience"
        raise error(OptionError, "--cell", wish, "both" if cell else "neither")


def read_schema(
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
