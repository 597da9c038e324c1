"""``hyrecall recall``: one query, one scope, the hits as a table or JSON."""

from __future__ import annotations

from typing import Annotated, Any

import typer

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
from hyrecall.cli.show import hits_table, hits_to_dict, print_json, print_table, say, shown_texts
from hyrecall.cli.values import by_arm, names, read_scope, read_vector
from hyrecall.embed import StaticEmbedder
from hyrecall.errors import OptionError, error
from hyrecall.index import Index

__all__ = ["recall"]


def recall(
    folder: Folder,
    query: Annotated[str | None, typer.Argument(help="The query's text, never parsed.")] = None,
    scope: Scopes = None,
    vector: Annotated[
        list[str] | None,
        typer.Option(
            "--vector",
            metavar="[ARM=]JSON|@FILE",
            help="The query's vector: [0.1, ...], @file.json or @file.npy.",
        ),
    ] = None,
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
        typer.Option("--columns", metavar="COLUMN", help="What --json adds. Default: the texts."),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show what each score was made of.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, every bit.")] = False,
    threads: Threads = None,
) -> None:
    """Answer one query within its scope."""
    if columns is not None and not as_json:
        raise error(OptionError, "--columns", "--json beside it (the table shows texts)", "none")
    index = Index.open(folder, threads=threads)
    options = recall_options(
        index, limit=limit, offset=offset, depth=depth, fusion=fusion, bm25=bm25, filters=filters,
        min_score=min_score, min_fused=min_fused, normalize=normalize,
    )  # fmt: skip
    types = {name: index._facts.row_types[name] for name in index.schema.cell_columns}
    asked = _query(index, query, by_arm("--vector", vector, read_vector), embed=embed)
    added = list(shown_texts(index.schema)) if columns is None else names(columns)
    hits = index.recall(**asked, scope=read_scope(scope, types), columns=added, **options)
    for note in hits.trace.notes:
        say(f"note: {note}")
    if as_json:
        rows = hits.to_list()[0]
        found = hits_to_dict(hits[0], rows, explain=explain)
        print_json({"query": query, "arms": list(hits.trace.arms), "hits": found})
        return
    if not len(hits[0]):
        say("note: no hits")
    print_table(hits_table(hits[0], hits.trace.arms, index.schema))
    if explain:
        for hit in hits[0]:
            print(f"\n{hit.rank}. {hit.key}: {hit.explain()}")


def _query(index: Index, query: str | None, vector: Any, *, embed: bool) -> dict[str, Any]:
    """Give the text and the vectors of a batch of one."""
    asked: dict[str, Any] = {}
    if query is not None and index.schema.text_arms:
        asked["text"] = [query]
    if embed:
        if query is None or vector is not None:
            got = "no text" if query is None else "--vector too"
            raise error(OptionError, "--embed", "a query text, and no --vector", got)
        embedder = StaticEmbedder()
        arm = embedded_arm(index, embedder)
        say(f"note: {arm!r}: the query's vector is the packaged static model's")
        asked["vectors"] = {arm: embedder.embed([query])}
    elif isinstance(vector, dict):
        asked["vectors"] = {arm: [one] for arm, one in vector.items()}
    elif vector is not None:
        asked["vectors"] = [vector]
    elif index.schema.vector_arms:
        arms = ", ".join(map(repr, index.schema.vector_arms))
        say(f"note: {arms}: no vector given (--vector or --embed), so only text arms are asked")
    if query is not None and not index.schema.text_arms and not embed:
        raise error(OptionError, "query", "no text (the index has no text arm)", repr(query))
    return asked
