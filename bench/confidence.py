"""Learn the coefficients of the confidence of a reply, and measure it on queries left out.

    python -m bench.confidence DATA...            the tables of docs/confidence.md
    python -m bench.confidence --learn DATA...    and the coefficients

``golden`` among DATA is the committed set; a set without tenants is asked the questions of the
other sets as well. Vectors of a set (all-MiniLM-L6-v2 in ours) are the family "minilm"; the
packaged model makes those of "static".
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import hyrecall as hr
from bench.ablation import load
from hyrecall.ask.scoring import DEFAULT_BM25, DEFAULT_FUSION
from hyrecall.embed import StaticEmbedder
from hyrecall.evaluate import Dataset, Indexes, Setting
from hyrecall.evaluate.compare import compare
from hyrecall.evaluate.confidence import (
    PROBES,
    SHARES,
    Asked,
    area,
    ask,
    bins,
    calibration_error,
    fit_models,
    squared_errors,
    value_of,
    values_of_hits,
    weights_of,
)
from hyrecall.evaluate.data import VECTOR
from hyrecall.hits.confidence import Model
from hyrecall.recipe import Dense, Lexical, Recipe

ENGLISH = hr.Analyzer("snowball:english", stopwords="english")
GOLDEN = "golden"  # has the vectors of the packaged model already
ADVERSARIAL = "category_name"  # the column that tells which questions are
ARMS = {"both": ("text", "vectors"), "words": ("text",), "vectors": ("vectors",)}


def texts_of(table: Any) -> list[str]:
    """Return the text of each row: its title and text."""
    names = [name for name in ("title", "text") if name in table.column_names]
    columns = (table[name].to_pylist() for name in names)
    return [" ".join(part for part in row if part) for row in zip(*columns, strict=True)]


def embedded(dataset: Dataset) -> Dataset:
    """Return a set with the vectors of the packaged model, of all texts."""
    tables = []
    for table in (dataset.corpus, dataset.queries):
        rows = np.asarray(StaticEmbedder().embed(texts_of(table)), np.float32)
        column = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1])
        names = [name for name in table.column_names if name != VECTOR]
        tables.append(table.select(names).append_column(VECTOR, column))
    return replace(dataset, corpus=tables[0], queries=tables[1])


def questions(dataset: Dataset, others: Sequence[Dataset], arms: str) -> list[Asked]:
    """Ask a set what has an answer there, what has none, and what has none any more."""
    lexical = Lexical(bm25=DEFAULT_BM25 if arms == "both" else None)
    parts = (lexical, Dense())  # as a call without a recipe
    recipe = Recipe(name=arms, arms=parts, fusion=DEFAULT_FUSION, confidence=PROBES[arms])
    setting = Setting(arms, {"recipe": recipe}, arms=ARMS[arms], analyzer=ENGLISH)
    indexes = Indexes(dataset)
    out = ask(indexes, dataset, setting, () if dataset.has_cells else others)
    if ADVERSARIAL in dataset.queries.column_names:
        of_category = pc.equal(dataset.queries[ADVERSARIAL], "adversarial")
        some = dataset.queries.filter(of_category)
        judgements = {query: {"": 0} for query in some["id"].to_pylist()}
        unanswered = replace(dataset, queries=some, judgements=judgements)
        asked = ask(indexes, unanswered, setting)
        out += [replace(one, kind="adversarial") for one in asked if one.kind == "own"]
    return out


# ---- Measure


def measure(asked: Sequence[Asked], made: Model) -> dict[str, float]:
    """Return the figures of a set."""
    plain = [one for one in asked if one.kind in SHARES]
    values = np.array([value_of(made, one) for one in plain])
    holds = np.array([float(one.holds) for one in plain])
    weights = weights_of(plain)

    def of(kind: str, *, held: bool = False) -> list[float]:
        return [v for v, one in zip(values, plain, strict=True)
                if one.kind == kind and (one.holds or not held)]  # fmt: skip

    hits = [values_of_hits(made, one) for one in plain]
    flat = np.array([value for row in hits for value in row])
    right = np.array([float(r) for one in plain for r in one.right])
    per_hit = np.repeat(weights, [len(row) for row in hits])
    adversarial = [value_of(made, one) for one in asked if one.kind == "adversarial"]
    return {
        "foreign": area(of("own"), of("foreign")),
        "taken away": area(of("own"), of("gone")),
        "held, taken away": area(of("own", held=True), of("gone")),
        "adversarial": area(of("own"), adversarial),
        "ECE": calibration_error(values, holds, weights),
        "hit AUROC": area(flat[right == 1], flat[right == 0]),
        "hit ECE": calibration_error(flat, right, per_hit),
    }


# ---- Print


def halves(asked: Sequence[Asked]) -> tuple[list[Asked], list[Asked]]:
    """Return the questions of every second tenant or query, and the others."""
    first = set(sorted({one.group for one in asked})[::2])
    return ([one for one in asked if one.group in first],
            [one for one in asked if one.group not in first])  # fmt: skip


def learn(sets: Sequence[Sequence[Asked]], arms: str) -> Model:
    """Learn on some sets, each as important as the others."""
    return fit_models([[one for one in part if one.kind in SHARES] for part in sets], arms)


def gain(asked: Sequence[Asked], made: Model, other: Model) -> tuple[float, float]:
    """Return by how much the squared error falls, and the p of the paired randomisation test."""
    plain = [one for one in asked if one.kind in SHARES]
    before, after = (
        squared_errors(name, plain, np.array([value_of(how, one) for one in plain]))
        for name, how in (("before", other), ("after", made))
    )
    (found,) = compare(before, after)
    return -found.difference, found.p_value


def print_table(family: str, arms: str, sets: Mapping[str, Sequence[Asked]]) -> None:
    """Print the figures of a family: each set left out, and its halves by each other."""
    print(f"### {family}\n")
    heads = ["", "foreign", "taken away", "held, taken away", "adversarial", "ECE", "hit AUROC",
             "hit ECE", "squared error (p)"]  # fmt: skip
    print("| " + " | ".join(heads) + " |\n" + "|---" * len(heads) + "|")
    for name, asked in sets.items():
        rest = [one for other, one in sets.items() if other != name]
        made = learn(rest, arms)
        held = sum(w for one, w in _weighed(rest) if one.holds) / sum(w for _, w in _weighed(rest))
        constant = made._replace(query={"base": float(np.log(held / (1 - held)))})
        better, p = gain(asked, made, constant)
        own = f"{-better:+.3f} ({p:.3f})"
        print_row(f"{name}, left out", measure(asked, made), own)
        first, second = halves(asked)
        for one, other in ((first, second), (second, first)):
            print_row(f"{name}, a half by all others", measure(one, learn([*rest, other], arms)))
    print()
    print_diagram(sets, arms)


def _weighed(sets: Sequence[Sequence[Asked]]) -> list[tuple[Asked, float]]:
    pairs = []
    for part in sets:
        plain = [one for one in part if one.kind in SHARES]
        pairs += list(zip(plain, weights_of(plain), strict=True))
    return pairs


def print_row(name: str, figures: Mapping[str, float], more: str = "") -> None:
    """Print a line of the table."""
    cells = ["-" if value != value else f"{value:.3f}".removeprefix("0")  # noqa: PLR0124
             for value in figures.values()]  # fmt: skip
    print("| " + " | ".join([name, *cells, more]) + " |")


def print_diagram(sets: Mapping[str, Sequence[Asked]], arms: str) -> None:
    """Print how often replies of each tenth of confidence hold an answer, each set left out."""
    rows: list[tuple[float, float, float]] = []
    for name, asked in sets.items():
        made = learn([one for other, one in sets.items() if other != name], arms)
        rows += [(value_of(made, one), float(one.holds), w) for one, w in _weighed([asked])]
    values, right, weights = (np.array(one) for one in zip(*rows, strict=True))
    print("```text\nconfidence   replies   hold an answer")
    for weight, mean, share in bins(values, right, weights):
        print(f"      {mean:.2f}    {weight:6.1%}   {share:.2f} {'#' * round(40 * share)}")
    print("```\n")


def collect(datasets: Sequence[Dataset], arms: str) -> dict[str, list[Asked]]:
    """Ask every set."""
    return {
        one.name: questions(one, [other for other in datasets if other is not one], arms)
        for one in datasets
    }


def report(datasets: Sequence[Dataset], *, learns: bool = False) -> None:
    """Print the tables of every family, and the coefficients if they are asked for."""
    static = [one if one.name == GOLDEN else embedded(one) for one in datasets]
    minilm = [one for one in datasets if one.name != GOLDEN]
    for family, sets, arms in (
        ("words", static, "words"),
        ("static", static, "both"),
        ("static alone", static, "vectors"),
        ("minilm", minilm, "both"),
        ("minilm alone", minilm, "vectors"),
    ):
        asked = collect(sets, arms)
        if len(asked) > 1:
            print_table(family, arms, asked)
        if learns:
            made = learn(list(asked.values()), arms)
            print(json.dumps({family: {"query": made.query, "hit": made.hit}}), "\n")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="+")
    parser.add_argument("--learn", action="store_true", help="print the coefficients as well")
    given = parser.parse_args()
    report([load(name) for name in given.data], learns=given.learn)


if __name__ == "__main__":
    main()
