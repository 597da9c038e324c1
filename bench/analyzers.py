"""What an analyzer is worth: the default recipe with each, by words alone and with vectors.

    python -m bench.analyzers [--split odd] DATA...

prints the table of docs/decisions/0017-analyzer-of-a-store.md; ``golden`` among DATA is the
committed set. Each cell is a mean and its p against ``unicode``, by the paired randomisation test.
"""

import argparse
from dataclasses import replace

import hyrecall as hr
from bench.ablation import load
from hyrecall.evaluate import Dataset, Indexes, Setting, ablate, read_setting

STEMMED = ("unicode:english", "snowball:english")
ANALYZERS = {
    "unicode": hr.Analyzer("unicode"),
    "word": hr.Analyzer("word"),
    **{name: hr.Analyzer(name) for name in STEMMED},
    **{f"{name}, stop words": hr.Analyzer(name, stopwords="english") for name in STEMMED},
}
MEASURE = "nDCG@10"


def settings(n_arms: int) -> list[Setting]:
    """The default recipe with its first arms, once for each analyzer."""
    base = read_setting("default")
    recipe = base.options["recipe"]
    base = base.but("default", recipe=recipe.replace(arms=recipe.arms[:n_arms]))
    return [replace(base, name=name, analyzer=made) for name, made in ANALYZERS.items()]


def column(dataset: Dataset, indexes: Indexes, n_arms: int) -> dict[str, str]:
    """Give each analyzer's cell on one set."""
    study = ablate(indexes, dataset, settings(n_arms), measures=(MEASURE,))
    cells = {study.settings[0].name: f"{study.scores[0].means[MEASURE]:.4f}"}
    for setting, (comparison,) in zip(study.settings[1:], study.comparisons, strict=True):
        sure = f"{comparison.p_value:.3f}".removeprefix("0")
        cells[setting.name] = f"{comparison.after:.4f} ({sure})"
    return cells


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="+")
    parser.add_argument("--split", choices=("even", "odd"))
    given = parser.parse_args()
    columns = {}
    for name in given.data:
        dataset = load(name)
        if given.split is not None:
            dataset = dataset.split(given.split)
        indexes = Indexes(dataset)
        columns[f"{dataset.name}, words"] = column(dataset, indexes, 1)
        if "embedding" in dataset.queries.column_names:
            columns[f"{dataset.name}, hybrid"] = column(dataset, indexes, 2)
    print("| | " + " | ".join(columns) + " |")
    print("|---|" + "---|" * len(columns))
    for name in ANALYZERS:
        print(f"| {name} | " + " | ".join(cells[name] for cells in columns.values()) + " |")


if __name__ == "__main__":
    main()
