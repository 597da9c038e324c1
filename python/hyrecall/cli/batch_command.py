"""``hyrecall batch``: a file of queries of any size to a Parquet file of hits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hyrecall.cli.batch import Batch, QueryColumns, run
from hyrecall.cli.options import (
    Bm25,
    Depth,
    Embed,
    Filters,
    Folder,
    FusionName,
    Limit,
    MinFused,
    MinScore,
    Normalize,
    Offset,
    Scopes,
    Threads,
    embedded_arm,
    recall_options,
)
from hyrecall.cli.progress import Progress
from hyrecall.cli.query_files import QueryFile
from hyrecall.cli.show import say
from hyrecall.cli.values import by_arm, names, read_scope
from hyrecall.embed import StaticEmbedder
from hyrecall.errors import OptionError, error
from hyrecall.index import Index
from hyrecall.output import check_outside
from hyrecall.scope import CellTypes, Scope

__all__ = ["batch"]


def batch(
    folder: Folder,
    queries: Annotated[Path, typer.Argument(help="Queries: .parquet, .jsonl or .csv.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Parquet file to write.")
    ],
    query_text: Annotated[
        list[str] | None,
        typer.Option("--query-text", metavar="[ARM=]COLUMN", help="Texts; for all text arms."),
    ] = None,
    query_vector: Annotated[
        list[str] | None,
        typer.Option("--query-vector", metavar="[ARM=]COLUMN", help="Vectors."),
    ] = None,
    query_scope: Annotated[
        list[str] | None,
        typer.Option(
            "--query-scope",
            metavar="COLUMN",
            help="Each query's cell: a column per cell column, in their order (commas or again). "
            "A list column holds several cells per query.",
        ),
    ] = None,
    query_key: Annotated[
        str | None,
        typer.Option("--query-key", metavar="COLUMN", help="Ids, given back as query_key."),
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
    columns: Annotated[
        list[str] | None,
        typer.Option("--columns", metavar="COLUMN", help="Row columns to add to the hits."),
    ] = None,
    threads: Threads = None,
) -> None:
    """Answer a file of queries, each within its own scope.

    The file is read, answered and written in batches. The output has the columns of
    hits.to_arrow(), ordered by (query, rank); query counts from 0 over the whole file, as int64,
    and query_key stands beside it. A query without hits has no row. In CSV and JSON lines keys
    are text; in CSV a scope column has the type of the index's cells.
    """
    if output.resolve() == queries.resolve():
        raise error(OptionError, "--output", "another file than the queries'", repr(str(output)))
    check_outside("--output", output, folder)
    index = Index.open(folder, threads=threads)
    options = recall_options(
        index, limit=limit, offset=offset, depth=depth, fusion=fusion, bm25=bm25, filters=filters,
        min_score=min_score, min_fused=min_fused, normalize=normalize,
    )  # fmt: skip
    asked = QueryColumns(
        text=by_arm("--query-text", query_text, lambda _, column: column),
        vector=by_arm("--query-vector", query_vector, lambda _, column: column),
        scope=tuple(names(query_scope)),
        key=query_key,
    )
    fixed = _check_scope(index, asked, scope)
    embedder = StaticEmbedder() if embed else None
    arm = None if embedder is None else embedded_arm(index, embedder)
    if arm is not None:
        if not isinstance(asked.text, str) or asked.vector is not None:
            wish = "--query-text COLUMN, and no --query-vector"
            raise error(OptionError, "--embed", wish, f"{asked.text!r} and {asked.vector!r}")
        say(f"note: {arm!r}: the queries' vectors are the packaged static model's")
    source = QueryFile(queries, asked.wanted(), _cell_types(index, asked))
    job = Batch(
        index=index,
        asked=asked,
        scope=fixed,
        options={**options, "columns": names(columns)},
        embed=None if embedder is None or arm is None else (arm, embedder),
    )
    with Progress(source.n_rows) as progress:
        run(job, source, output, progress.advance, name=str(queries))
    say(f"{progress.summary()}; written to {output}")


def _cell_types(index: Index, asked: QueryColumns) -> CellTypes:
    """Give the types of the columns that have a cell's values, one column for each."""
    names_of_cells = index.schema.cell_columns
    if len(asked.scope) != len(names_of_cells):
        return {}
    types = index._facts.row_types
    return {column: types[name] for column, name in zip(asked.scope, names_of_cells, strict=True)}


def _check_scope(index: Index, asked: QueryColumns, scope: list[str] | None) -> Scope | None:
    """Give the scope of all queries, or None where a column has each one's."""
    cells = index.schema.cell_columns
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
    types = {name: index._facts.row_types[name] for name in cells}
    return None if asked.scope else read_scope(scope, types)
