"""What each part of the default recipe earns: it alone changed, all else as it is.

    python -m bench.ablation [--split odd] DATA...

prints a table for docs/evaluation.md; ``golden`` among DATA is the committed set. Each cell is a
mean and its p against the first line, by the paired randomisation test.
"""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import hyrecall as hr
from hyrecall.ask.recipe import Dense, Lexical
from hyrecall.evaluate import Dataset, Indexes, Setting, ablate, load_dataset, read_setting

ANALYZERS = {
    "default": hr.Analyzer("unicode"),
    "English": hr.Analyzer("snowball:english", stopwords="english"),
}
MEASURE = "nDCG@10"


def settings(analyzer: hr.Analyzer) -> list[Setting]:
    """The default recipe, and each part of it off, or one more on."""
    base = replace(read_setting("default"), analyzer=analyzer)
    recipe = base.options["recipe"]
    fixed = hr.WeightedSum()
    changes: dict[str, dict[str, Any]] = {
        "weights .5/.5 for all queries": {"fusion": fixed},
        "BM25 1.2/.75": {"arms": (Lexical(), Dense())},
        "both": {"fusion": fixed, "arms": (Lexical(), Dense())},
        "without completion": {"fusion": hr.WeightedSum(balance=0.85, complete=False)},
        "RRF": {"fusion": hr.RRF()},
        "depth 1,000": {"depth": 1000},
        "lexical arm alone": {"arms": recipe.arms[:1]},
        "dense arm alone": {"arms": recipe.arms[1:]},
        "and rerank by cosine": {"shaping": (hr.Rerank(),)},
        "and dedup .9": {"shaping": (hr.Dedup(0.9),)},
        "and MMR .7": {"shaping": (hr.MMR(0.7),)},
    }
    made = [replace(base, name="default")]
    made += [base.but(name, recipe=recipe.replace(**change)) for name, change in changes.items()]
    return made


def column(dataset: Dataset, analyzer: hr.Analyzer) -> dict[str, str]:
    """Return each setting's cell on one set."""
    study = ablate(Indexes(dataset), dataset, settings(analyzer), measures=(MEASURE,))
    cells = {study.settings[0].name: f"{study.scores[0].means[MEASURE]:.4f}"}
    for setting, (comparison,) in zip(study.settings[1:], study.comparisons, strict=True):
        sure = f"{comparison.p_value:.3f}".removeprefix("0")
        cells[setting.name] = f"{comparison.after:.4f} ({comparison.difference:+.4f}, {sure})"
    return cells


def load(name: str) -> Dataset:
    """Load a folder, or the committed set."""
    if name != "golden":
        return load_dataset(Path(name))
    from tests.golden_run import golden_set

    return golden_set()


def asked_sets(description: str) -> Iterator[Dataset]:
    """Read the command line, and give the sets that it names."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("data", nargs="+")
    parser.add_argument("--split", choices=("even", "odd"))
    given = parser.parse_args()
    for name in given.data:
        dataset = load(name)
        yield dataset if given.split is None else dataset.split(given.split)


def print_columns(columns: dict[str, dict[str, str]]) -> None:
    """Print a table whose columns have the same names of lines."""
    print("| | " + " | ".join(columns) + " |")
    print("|---|" + "---|" * len(columns))
    for name in next(iter(columns.values())):
        print(f"| {name} | " + " | ".join(cells[name] for cells in columns.values()) + " |")


def main() -> None:
    """Print the table."""
    print_columns(
        {
            f"{dataset.name}, {label}": column(dataset, analyzer)
            for dataset in asked_sets(__doc__.splitlines()[0])
            for label, analyzer in ANALYZERS.items()
        }
    )


if __name__ == "__main__":
    main()
