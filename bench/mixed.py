"""Find the best BM25 constant b for conversations with messages of mixed lengths.

    python -m bench.mixed [--split even] DATA...

Every fifth turn of a set with columns ``session`` and ``turn`` is answered by a long message of an
assistant. Half of its words are from the turns around it, half from other turns of the tenant, in a
random order; its vector is the mean of the vectors of the turns around it. No message is judged
relevant, so messages can only displace relevant turns. For the set without and with the messages,
the tables show ``recipes.default`` without threads and ``recipes.conversation`` by b, and the
spread of the tenants' lengths, variance / mean^2, which "0.25 to 0.9" follows. The last table shows
what a prior on the assistant's messages adds (``hr.Prior``).
"""

from dataclasses import replace

import numpy as np
import pyarrow as pa

import hyrecall as hr
from bench.ablation import asked_sets
from bench.quality import ENGLISH, PLACE, THREAD, figure, scored, table
from hyrecall.ask.recipe import Dense, Lexical, Recipe
from hyrecall.evaluate import Dataset, Indexes, Setting, read_setting, run_setting
from hyrecall.evaluate.data import CELL

EVERY = 5
AROUND = 3
BS = (0.1, 0.25, 0.5, 0.75, 0.9, (0.25, 0.9))
PRIORS = (0.0, -0.05, -0.1, -0.2, -0.3, -0.5)
ROLE = "role"
MEASURES = ("any@10", "R@10", "RR", "nDCG@10")


def with_messages(dataset: Dataset, seed: int = 1) -> Dataset:
    """Return the set in which every fifth turn is answered by a long message."""
    random = np.random.default_rng(seed)
    rows = dataset.corpus.select(["id", CELL, THREAD, PLACE, "text", "embedding"]).to_pylist()
    rows.sort(key=lambda row: (row[CELL], row[THREAD], row[PLACE]))
    said = {
        tenant: [w for row in rows if row[CELL] == tenant for w in row["text"].split()]
        for tenant in {row[CELL] for row in rows}
    }
    out = []
    for at, row in enumerate(rows):
        out.append({**row, PLACE: 2 * row[PLACE], ROLE: "user"})
        if at % EVERY != EVERY - 1:
            continue
        near = [
            one
            for one in rows[max(0, at - AROUND) : at + AROUND + 1]
            if (one[CELL], one[THREAD]) == (row[CELL], row[THREAD])
        ]
        own = [word for one in near for word in one["text"].split()]
        text = [*own, *random.choice(said[row[CELL]], len(own))]
        mean = np.mean([np.asarray(one["embedding"], np.float32) for one in near], axis=0)
        message = {
            **row,
            "id": f"{row['id']} answer",
            PLACE: 2 * row[PLACE] + 1,
            ROLE: "assistant",
            "text": " ".join(random.permutation(text)),
            "embedding": (mean / np.linalg.norm(mean)).astype(np.float32).tolist(),
        }
        out.append(message)
    vectors = pa.array(
        [np.asarray(row.pop("embedding"), np.float32) for row in out],
        pa.list_(pa.float32(), len(rows[0]["embedding"])),
    )
    corpus = pa.Table.from_pylist(out).append_column("embedding", vectors)
    return Dataset(f"{dataset.name}, mixed", corpus, dataset.queries, dataset.judgements)


def spreads(dataset: Dataset) -> str:
    """Return the least and the largest spread of the tenants' lengths, in words."""
    of_tenant: dict[str, list[int]] = {}
    for tenant, text in zip(*(dataset.corpus[c].to_pylist() for c in (CELL, "text")), strict=True):
        of_tenant.setdefault(tenant, []).append(len(text.split()))
    found = [np.var(one) / np.mean(one) ** 2 for one in of_tenant.values()]
    return f"{min(found):.2f} to {max(found):.2f}"


def words(b: float | tuple[float, float]) -> str:
    """Return the heading of a column."""
    return " to ".join(map(str, b)) if isinstance(b, tuple) else f"b {b}"


def settings() -> dict[str, list[Setting]]:
    """Return each recipe with each b."""
    plain: Recipe = hr.recipes.default.replace(with_threads=None)
    return {
        name: [
            setting(recipe.replace(arms=(Lexical(bm25=hr.BM25("lucene", 0.75, b)), Dense())))
            for b in BS
        ]
        for name, recipe in (("fused", plain), ("conversation", hr.recipes.conversation))
    }


def priors() -> dict[str, list[Setting]]:
    """Return each recipe with each prior on the assistant's messages."""
    plain: Recipe = hr.recipes.default.replace(with_threads=None)
    return {
        name: [
            replace(
                setting(
                    recipe.replace(shaping=(*recipe.shaping, hr.Prior(ROLE, {"assistant": w})))
                ),
                attributes=(ROLE,),
            )
            for w in PRIORS
        ]
        for name, recipe in (("fused", plain), ("conversation", hr.recipes.conversation))
    }


def setting(recipe: Recipe) -> Setting:
    """Return the setting of a recipe over threads in English."""
    base = replace(read_setting("conversation"), analyzer=ENGLISH, thread=THREAD, place=PLACE)
    return base.but("mixed", recipe=recipe)


def print_scores(
    dataset: Dataset, indexes: Indexes, columns: list[str], named: dict[str, list[Setting]]
) -> None:
    """Print the measures of settings: a row for each recipe and measure, a column a setting."""
    rows = []
    for name, some in named.items():
        scores = [scored(dataset, run_setting(indexes, dataset, s), MEASURES) for s in some]
        rows += [
            [f"{name}, {measure}", *(figure(score.means[measure]) for score in scores)]
            for measure in MEASURES
        ]
    table(["", *columns], rows)


def report(dataset: Dataset) -> None:
    """Print the tables of a set, as it is and with long messages."""
    mixed = with_messages(dataset)
    for one in (dataset, mixed):
        indexes = Indexes(one)
        print(f"### {one.name}: spread of lengths {spreads(one)}\n")
        print_scores(one, indexes, [words(b) for b in BS], settings())
        if one is mixed:
            print_scores(one, indexes, [f"prior {w:g}" for w in PRIORS], priors())


def main() -> None:
    """Print the tables of the named sets."""
    for dataset in asked_sets(__doc__.splitlines()[0]):
        report(dataset)


if __name__ == "__main__":
    main()
