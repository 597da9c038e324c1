"""Defines the options that ``recall`` and ``batch`` share, and reads them for a recall."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from hyrecall import recipes
from hyrecall.cli.recipe_files import read_recipe
from hyrecall.cli.values import (
    by_arm,
    number,
    read_bm25,
    read_filter,
    read_fusion,
)
from hyrecall.embed import StaticEmbedder
from hyrecall.errors import OptionError, error
from hyrecall.segments.facts import IndexFacts

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
    "RecipeName",
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
        help="A cell that the query may see; repeat the option for several. With several cell "
        "columns, a JSON list: '[\"acme\", \"shared\"]'. The null cell is '[null]'.",
    ),
]
Limit: TypeAlias = Annotated[
    int, typer.Option("--limit", metavar="N", help="The number of hits per query.")
]
Offset: TypeAlias = Annotated[
    int, typer.Option("--offset", metavar="N", help="The number of first hits to skip.")
]
Depth: TypeAlias = Annotated[
    int, typer.Option("--depth", metavar="N", help="The number of candidates of each arm.")
]
FusionName: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--fusion",
        metavar="HOW",
        show_default="for several arms, the fusion of the recipe default",
        help="How to fuse the arms: rrf, rrf:60, rrf:alpha=0.5, rrf:text=2,embedding=1, "
        "sum:text=0.7,embedding=0.3, sum:none, max or dbsf.",
    ),
]
Bm25: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--bm25",
        metavar="[ARM=]VARIANT[:K1[:B[:DELTA]]]",
        show_default="those of the index",
        help="The BM25 variant and its constants: lucene:1.2:0.75, okapi, fts5, robertson, atire, "
        "bm25+:1.2:0.75:1.0 or bm25l; with ARM= for one arm.",
    ),
]
Filters: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        metavar="JSON",
        help='Only documents with these attributes: {"kind": "note", "day": {"from": '
        '"2024-05-01"}, "lang": ["de", "fr"]}. Dates and times are ISO 8601; durations are not '
        "supported.",
    ),
]
MinScore: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--min-score", metavar="[ARM=]SCORE", help="The lowest score in an arm."),
]
MinFused: TypeAlias = Annotated[
    float | None,
    typer.Option("--min-fused", metavar="SCORE", help="The lowest fused score."),
]
Normalize: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--normalize", help="Divide scores by the best possible score, so that they are in [0, 1]."
    ),
]
RECIPES = tuple(
    name for name in recipes.__all__ if (one := getattr(recipes, name)) == one.without_graphs()
)
"""The recipes that do not need a graph."""

RecipeName: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--recipe",
        metavar="NAME",
        show_default="none",
        help=f"Rank by a recipe: {', '.join(RECIPES)}, or a .json file. It replaces --fusion, "
        "--bm25, --min-score, --min-fused and --normalize.",
    ),
]
Embed: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--embed",
        help="Embed the query with the packaged static model (extra [local]); use it only if that "
        "model also made the vectors of the documents.",
    ),
]
Threads: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--threads",
        metavar="N",
        show_default="all that the machine allows",
        help="The most threads to use.",
    ),
]


def recall_options(
    facts: IndexFacts,
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
    recipe: str | None = None,
) -> dict[str, Any]:
    """Convert the shared options to arguments of :meth:`hyrecall.Index.recall`."""
    which: dict[str, Any] = {
        "limit": limit,
        "offset": offset,
        "depth": depth,
        "filter": read_filter(filters, dict(facts.row_types)),
    }
    how: dict[str, Any] = {
        "fusion": None if fusion is None else read_fusion("--fusion", fusion),
        "bm25": by_arm("--bm25", bm25, read_bm25),
        "min_score": by_arm("--min-score", min_score, number),
        "min_fused": min_fused,
        "normalize": normalize,
    }
    if recipe is None:
        return which | how
    chosen = read_recipe("--recipe", recipe, RECIPES)
    for name, value in how.items():
        if value is not None and value is not False:
            wish = f"no such option with --recipe ({recipe} has its own)"
            raise error(OptionError, f"--{name.replace('_', '-')}", wish, "one")
    return which | {"recipe": chosen}


def embedded_arm(facts: IndexFacts, embedder: StaticEmbedder) -> str:
    """Return the vector arm for ``--embed``: the only arm with the model's dimension."""
    dims = dict(facts.dims)
    fitting = [arm for arm, dim in dims.items() if dim == embedder.dim]
    if len(fitting) != 1:
        wish = f"an index with one vector arm of {embedder.dim} dimensions"
        raise error(OptionError, "--embed", wish, dims or "no vector arm")
    return str(fitting[0])
