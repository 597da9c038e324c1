"""The options that ``recall`` and ``batch`` share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from hyrecall.cli.values import (
    by_arm,
    number,
    read_bm25,
    read_filter,
    read_fusion,
)
from hyrecall.embed import StaticEmbedder
from hyrecall.errors import OptionError, error
from hyrecall.index import Index

__all__ = [
    "Bm25",
    "Depth",
    "Embed",
    "Filters",
    "Folder",
    "FusionName",
    "Limit",
    "MinFused",
    "MinScore",
    "Normalize",
    "Offset",
    "Scopes",
    "Threads",
    "embedded_arm",
    "recall_options",
]

Folder: TypeAlias = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the index.")]
Scopes: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--scope",
        metavar="CELL",
        help="A cell that may be seen; several times for several. A value, or with several cell "
        "columns a JSON list: '[\"acme\", \"shared\"]'. The null cell is '[null]'.",
    ),
]
Limit: TypeAlias = Annotated[int, typer.Option("--limit", help="Hits per query.")]
Offset: TypeAlias = Annotated[int, typer.Option("--offset", help="Hits to pass over.")]
Depth: TypeAlias = Annotated[int, typer.Option("--depth", help="Documents each arm hands on.")]
FusionName: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--fusion",
        metavar="HOW",
        help="rrf, rrf:60, rrf:alpha=0.5, rrf:text=2,embedding=1, sum:text=0.7,embedding=0.3, "
        "sum:none, max, dbsf. Default with several arms: the fusion of the recipe default.",
    ),
]
Bm25: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--bm25",
        metavar="[ARM=]VARIANT[:K1[:B[:DELTA]]]",
        help="lucene:1.2:0.75, okapi, fts5, robertson, atire, bm25+:1.2:0.75:1.0, bm25l; ARM=... "
        "for one arm.",
    ),
]
Filters: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        metavar="JSON",
        help='Attributes: {"kind": "note", "day": {"from": "2024-05-01"}, "lang": ["de", "fr"]}. '
        "Dates and times are ISO 8601; durations cannot be asked.",
    ),
]
MinScore: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--min-score", metavar="[ARM=]SCORE", help="Least score of an arm."),
]
MinFused: TypeAlias = Annotated[
    float | None, typer.Option("--min-fused", help="Least fused score.")
]
Normalize: TypeAlias = Annotated[
    bool, typer.Option("--normalize", help="Divide by the best score possible.")
]
Embed: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--embed",
        help="Make query vectors from the query texts with the packaged static model ([local]); "
        "right only where it made the rows' vectors too.",
    ),
]
Threads: TypeAlias = Annotated[
    int | None, typer.Option("--threads", help="At most so many. Default: what the machine allows.")
]


def recall_options(
    index: Index,
    *,
    limit: int,
    offset: int,
    depth: int,
    fusion: str | None,
    bm25: list[str] | None,
    filters: list[str] | None,
    min_score: list[str] | None,
    min_fused: float | None,
    normalize: bool,
) -> dict[str, Any]:
    """Read the shared options into arguments of :meth:`hyrecall.Index.recall`."""
    return {
        "limit": limit,
        "offset": offset,
        "depth": depth,
        "fusion": None if fusion is None else read_fusion("--fusion", fusion),
        "bm25": by_arm("--bm25", bm25, read_bm25),
        "filter": read_filter(filters, dict(index._facts.row_types)),
        "min_score": by_arm("--min-score", min_score, number),
        "min_fused": min_fused,
        "normalize": normalize,
    }


def embedded_arm(index: Index, embedder: StaticEmbedder) -> str:
    """Name the vector arm that ``--embed`` is for: the only one as wide as the model."""
    dims = index.stats()["dims"]
    fitting = [arm for arm, dim in dims.items() if dim == embedder.dim]
    if len(fitting) != 1:
        wish = f"an index with one vector arm of {embedder.dim} dimensions"
        raise error(OptionError, "--embed", wish, dims or "no vector arm")
    return str(fitting[0])
