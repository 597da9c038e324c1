"""The golden set as a retrieval set, and every recipe measured on it.

``python tests/golden_run.py`` prints the measures; ``--write`` makes them the baseline.
"""

import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from hyrecall import recipes
from hyrecall.evaluate import Dataset, Indexes, Scores, Setting, load_dataset, read_setting
from seams import GATE, Fill, Regex, TieBreak, score_setting, write_baseline

GOLDEN = Path(__file__).parent / "evaluate" / "golden"
BASELINE = GOLDEN / "baseline.json"
NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
PATTERNS = {"hypergraph_regex"}  # no recipe for questions
NAMES = ("bm25", "dense", "rrf", "minmax", *(n for n in recipes.__all__ if n not in PATTERNS))


def golden_set() -> Dataset:
    """The texts and judgements with their committed vectors: no model is needed."""
    data = load_dataset(GOLDEN)
    vectors = pq.read_table(GOLDEN / "embeddings.parquet")
    place = {name: at for at, name in enumerate(vectors["id"].to_pylist())}

    def with_vectors(table: pa.Table) -> pa.Table:
        rows = [place[name] for name in table["id"].to_pylist()]
        return table.append_column("embedding", vectors["embedding"].take(rows).combine_chunks())

    corpus = with_vectors(data.corpus)
    for name in ("created_at", "updated_at", "last_accessed"):
        times = corpus[name].cast(pa.timestamp("s", "UTC"))
        corpus = corpus.set_column(corpus.column_names.index(name), name, times)
    return replace(data, corpus=corpus, queries=with_vectors(data.queries))


def setting(name: str) -> Setting:
    """A setting by name, at the set's own time."""
    made = read_setting(name)
    recipe = made.options.get("recipe")
    if recipe is None:
        return made
    names = {"key": "id", "occurred_at": "created_at"}  # nodes and episodes have these names here
    ties = tuple(
        TieBreak(names.get(tie.column, tie.column), tie.descending) for tie in recipe.tie_break
    )
    fill = recipe.fill and Fill(names[recipe.fill.column])
    adapted = recipe.replace(
        tie_break=ties,
        fill=fill,
        more=tuple(map(with_columns, recipe.more)),
        on_no_match=tuple(map(with_columns, recipe.on_no_match)),
    )
    options = {"recipe": adapted, "now": NOW}
    columns = tuple(column for column in adapted.columns if column != "id")
    return replace(made, options=options, attributes=columns)


def with_columns(arm: object) -> object:
    return replace(arm, columns=("id", "text")) if isinstance(arm, Regex) else arm


def score_all(data: Dataset) -> list[Scores]:
    """Every setting's measures, query by query."""
    indexes = Indexes(data)
    return [score_setting(indexes, data, setting(name), measures=GATE) for name in NAMES]


def main() -> None:
    """Print, and with --write keep."""
    data = golden_set()
    scores = score_all(data)
    for one in scores:
        means = "  ".join(f"{measure} {one.means[measure]:.4f}" for measure in GATE)
        print(f"{one.name:12} {means}")
    if "--write" in sys.argv[1:]:
        write_baseline(BASELINE, data.name, scores)


if __name__ == "__main__":
    main()
