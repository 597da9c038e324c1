"""What an analyzer is worth: the default recipe with each, by words alone and with vectors.

    python -m bench.analyzers [--split odd] DATA...

prints the table of docs/decisions/0017-analyzer-of-a-store.md; ``golden`` among DATA is the
committed set. Each cell is a mean and its p against ``unicode``, by the paired randomisation test.
"""

from dataclasses import replace

import hyrecall as hr
from bench.ablation import asked_sets, print_columns
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
    """Return each analyzer's cell on one set."""
    study = ablate(indexes, dataset, settings(n_arms), measures=(MEASURE,))
    cells = {study.settings[0].name: f"{study.scores[0].means[MEASURE]:.4f}"}
    for setting, (comparison,) in zip(study.settings[1:], study.comparisons, strict=True):
        sure = f"{comparison.p_value:.3f}".removeprefix("0")
        cells[setting.name] = f"{comparison.after:.4f} ({sure})"
    return cells


def main() -> None:
    """Print the table."""
    columns = {}
    for dataset in asked_sets(__doc__.splitlines()[0]):
        indexes = Indexes(dataset)
        columns[f"{dataset.name}, words"] = column(dataset, indexes, 1)
        if "embedding" in dataset.queries.column_names:
            columns[f"{dataset.name}, hybrid"] = column(dataset, indexes, 2)
    print_columns(columns)


if __name__ == "__main__":
    main()
