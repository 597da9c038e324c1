"""Measure rankings on judged sets with published measures: words, vectors, RRF and our recipes.

    python -m bench.quality [--split odd] DATA...

prints tables for docs/evaluation.md; ``golden`` among DATA is the committed set. A set whose corpus
has columns ``session`` and ``turn`` is also ranked by ``recipes.conversation``, with and without
each part of its evidence, and with arms of who said a row and when if it has ``speaker`` and
``timestamp``. One with the first is also measured by session, and one whose queries have a column
``category_name`` by category. The stars are the p of the paired randomisation test against the
default recipe, or ``recipes.conversation`` where its parts are compared (``*`` < .05, ``**`` <
.01). Texts are stemmed and without English stop words. Of several sets, the tables of
docs/confidence.md follow.
"""

import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

import hyrecall as hr
from bench.ablation import asked_sets
from bench.confidence import report as report_confidence
from bench.learnt import NAME, run_learnt
from hyrecall.ask.recipe import Dense, Lexical
from hyrecall.evaluate import (
    Dataset,
    Indexes,
    Run,
    Scores,
    Setting,
    compare,
    read_setting,
    run_setting,
    score_run,
)
from hyrecall.evaluate.data import CELL
from hyrecall.evaluate.run import what_is_asked

MEASURES = ("any@5", "any@10", "R@10", "RR", "nDCG@10")
BY_SESSION = ("any@5", "any@10", "RR")
TITLES = {"RR": "MRR"}
ENGLISH = hr.Analyzer("snowball:english", stopwords="english")
SETTINGS = {"BM25": "bm25", "vectors": "dense", "RRF 60": "rrf", "default": "default"}
THREAD, PLACE = "session", "turn"
WHO, WHEN = "speaker", "said"
GIVEN = 0.25  # the weight of who and when without learning, where that of the words is 1
BASE, CONVERSATION = "default", "all parts"
N_TIMED = 200
LEAST_LEARNT_FROM = 100  # weights from fewer queries say nothing


@dataclass(frozen=True)
class Published:
    """What the makers of another system say of it."""

    name: str
    values: Mapping[str, float]
    source: str


MEMINI = "github.com/eleboucher/memini, bench/README.md (1,982 questions, five categories)"
CONVMEMORY = "github.com/pth2002/ConvMemory, docs/BENCHMARKS.md (its own splits; any@5 of one)"
PUBLISHED = {
    "locomo": (
        Published("memini, hybrid", {"any@5": 0.597, "any@10": 0.699, "MRR": 0.424}, MEMINI),
        Published("memini, best setting", {"any@5": 0.601, "any@10": 0.710, "MRR": 0.448}, MEMINI),
        Published(
            "memini with Qwen3-Reranker-0.6B",
            {"any@5": 0.709, "any@10": 0.750, "MRR": 0.598},
            MEMINI,
        ),
        Published(
            "ConvMemory's dense + BM25", {"any@10": 0.703, "R@10": 0.647, "MRR": 0.474}, CONVMEMORY
        ),
        Published(
            "BGE-reranker-base over 500 rows",
            {"any@10": 0.747, "R@10": 0.697, "MRR": 0.547},
            CONVMEMORY,
        ),
        Published(
            "ConvMemory 0.7, trained on LoCoMo",
            {"any@5": 0.728, "any@10": 0.835, "R@10": 0.780, "MRR": 0.582},
            CONVMEMORY,
        ),
    ),
}


def settings(dataset: Dataset) -> dict[str, Setting]:
    """Return the rankings to compare, by their names in the tables."""
    made = {name: read_setting(built_in) for name, built_in in SETTINGS.items()}
    if {THREAD, PLACE} <= set(dataset.corpus.column_names):
        conversation = read_setting("conversation")
        made["conversation"] = replace(conversation, thread=THREAD, place=PLACE)
    look = read_setting("default")
    recipe = look.options["recipe"]
    made["with Feedback"] = look.but(
        "with Feedback", recipe=recipe.replace(shaping=(hr.Feedback(), *recipe.shaping))
    )
    return {name: replace(one, name=name, analyzer=ENGLISH) for name, one in made.items()}


def with_days(corpus: pa.Table) -> pa.Table:
    """Return the corpus with the day of each row in words, if it has times."""
    if "timestamp" not in corpus.column_names:
        return corpus
    days = [f"{one.day} {one:%B %Y %A}" for one in corpus["timestamp"].to_pylist()]
    return corpus.append_column(WHEN, pa.array(days))


def beside_words(recipe: hr.Recipe, texts: tuple[str, ...]) -> hr.Recipe:
    """Return the recipe with further text arms."""
    (words,) = (part for part in recipe.arms if isinstance(part, Lexical))
    given = Lexical(arms=texts, weight=GIVEN)
    return recipe.replace(arms=(replace(words, arms=("text",)), given, Dense()))


def parts(dataset: Dataset) -> dict[str, Setting]:
    """Return ``recipes.conversation`` with fewer and more parts, by names of the tables."""
    recipe = hr.recipes.conversation
    (around,) = recipe.shaping
    assert isinstance(around, hr.Around)
    without: dict[str, dict[str, Any]] = {
        "neighbours": {"neighbours": ()},
        "the thread": {"thread": 0.0},
        "the length": {"length": 0.0},
    }
    made = {"each turn for itself": hr.recipes.default.replace(with_threads=None)}
    for name, change in without.items():
        made[f"without {name}"] = recipe.replace(shaping=(replace(around, **change),))
    base = replace(read_setting("conversation"), analyzer=ENGLISH, thread=THREAD, place=PLACE)
    made = {CONVERSATION: recipe, **made}
    found = {name: base.but(name, recipe=one) for name, one in made.items()}
    if {WHO, WHEN} <= set(dataset.corpus.column_names):
        more = (WHO, WHEN)
        one = base.but("with who and when", recipe=beside_words(recipe, more))
        found[one.name] = replace(one, more_arms=more)
    return found


def sessions(dataset: Dataset) -> dict[str, str]:
    """Return the session of each document, told apart between tenants."""
    columns = [dataset.corpus[name].to_pylist() for name in ("id", CELL, "session")]
    return {key: f"{tenant} {session}" for key, tenant, session in zip(*columns, strict=True)}


def scored(
    dataset: Dataset,
    run: Run,
    measures: tuple[str, ...],
    classes: Mapping[str, str] | None = None,
) -> Scores:
    """Score a run on the queries that it was asked."""
    asked = {query: dataset.judgements[query] for query in run.documents}
    return score_run(run.documents, asked, classes=classes, measures=measures, name=run.name)


def milliseconds(indexes: Indexes, dataset: Dataset, setting: Setting) -> float:
    """Return the median time of single calls of the first queries of a set."""
    index, judged = indexes.get(setting), dataset.judged.slice(0, N_TIMED)
    took = []
    for at in range(judged.num_rows):
        alone = replace(dataset, queries=judged.slice(at, 1))
        asked = {**setting.options, **what_is_asked(alone, setting)}
        if isinstance(vector := asked.get("vectors"), pa.ChunkedArray):  # as callers have it
            asked["vectors"] = np.array(vector.to_pylist(), np.float32)
        begin = time.perf_counter()
        index.recall(**asked, limit=10)
        took.append(time.perf_counter() - begin)
    return 1000 * statistics.median(took)


def stars(before: Scores, after: Scores, measure: str) -> str:
    """Return how sure a difference is."""
    (one,) = compare(before, after, measures=[measure])
    return "**" if one.p_value < 0.01 else "*" if one.p_value < 0.05 else ""


def figure(value: float) -> str:
    """Return a share of 1 without its leading zero."""
    return f"{value:.3f}".removeprefix("0")


def table(heads: list[str], rows: list[list[str]]) -> None:
    """Print a table in Markdown."""
    print("| " + " | ".join(heads) + " |")
    print("|---" * len(heads) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def print_scores(
    scores: Mapping[str, Scores],
    measures: tuple[str, ...],
    ms: Mapping[str, float] | None = None,
    base: str = BASE,
) -> None:
    """Print the means of each ranking, with the stars of their differences from a base."""
    rows = []
    for name, one in scores.items():
        marks = [stars(scores[base], one, measure) if name != base else "" for measure in measures]
        cells = [figure(one.means[m]) + mark for m, mark in zip(measures, marks, strict=True)]
        rows.append([name, *cells, *([] if ms is None else [f"{ms[name]:.2f}"])])
    heads = [TITLES.get(measure, measure) for measure in measures]
    table(["", *heads, *([] if ms is None else ["ms a query"])], rows)


def print_categories(dataset: Dataset, scores: Mapping[str, Scores], measure: str) -> None:
    """Print a measure of each ranking by category of question."""
    of_query = dict(
        zip(*(dataset.judged[c].to_pylist() for c in ("id", "category_name")), strict=True)
    )
    categories = sorted(set(of_query.values()))
    rows = []
    for name, one in scores.items():
        kinds = np.array([of_query[query] for query in one.queries])
        values = [float(one.values[measure][kinds == kind].mean()) for kind in categories]
        rows.append([name, *map(figure, values)])
    n_of = [sum(kind == one for one in of_query.values()) for kind in categories]
    heads = [f"{kind} ({n})" for kind, n in zip(categories, n_of, strict=True)]
    table([TITLES.get(measure, measure), *heads], rows)


def print_published(name: str) -> None:
    """Print what others say of their systems on a set."""
    titles = [TITLES.get(measure, measure) for measure in MEASURES]
    rows = [
        [one.name, *(figure(one.values[t]) if t in one.values else "-" for t in titles), one.source]
        for one in PUBLISHED.get(name, ())
    ]
    if rows:
        table(["published", *titles, "source"], rows)


def report(dataset: Dataset) -> None:
    """Print all tables of a set."""
    dataset = replace(dataset, corpus=with_days(dataset.corpus))
    indexes, asked = Indexes(dataset), settings(dataset)
    runs = {name: run_setting(indexes, dataset, one) for name, one in asked.items()}
    if dataset.judged.num_rows >= LEAST_LEARNT_FROM:
        base = asked[BASE]
        if "conversation" in asked:
            base = replace(base, thread=THREAD, place=PLACE)
        runs[NAME], asked[NAME] = run_learnt(indexes, dataset, base)
    scores = {name: scored(dataset, run, MEASURES) for name, run in runs.items()}
    ms = {name: milliseconds(indexes, dataset, one) for name, one in asked.items()}
    n_queries = len(scores[BASE].queries)
    print(f"### {dataset.name}: {n_queries:,} queries, {dataset.corpus.num_rows:,} documents\n")
    print_scores(scores, MEASURES, ms)
    if "conversation" in asked:
        print("What each part of recipes.conversation gains:\n")
        of_part = {
            n: scored(dataset, run_setting(indexes, dataset, s), MEASURES)
            for n, s in parts(dataset).items()
        }
        print_scores(of_part, MEASURES, base=CONVERSATION)
    if "session" in dataset.corpus.column_names:
        classes = sessions(dataset)
        print("By session, each at the rank of its best row:\n")
        print_scores(
            {name: scored(dataset, run, BY_SESSION, classes) for name, run in runs.items()},
            BY_SESSION,
        )
    if "category_name" in dataset.queries.column_names:
        print_categories(dataset, scores, "any@10")
    print_published(dataset.name.partition(",")[0])


def main() -> None:
    """Print the tables of the named sets."""
    datasets = list(asked_sets(__doc__.splitlines()[0]))
    for dataset in datasets:
        report(dataset)
    if len(datasets) > 1:
        print("### Confidence of a reply (bench/confidence.py)\n")
        report_confidence(datasets)


if __name__ == "__main__":
    main()
