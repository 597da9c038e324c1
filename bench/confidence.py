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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

import hyrecall as hr
from bench.ablation import load
from hyrecall.embed import StaticEmbedder
from hyrecall.evaluate import Dataset
from hyrecall.evaluate.data import CELL, VECTOR
from hyrecall.hits.confidence import confidence
from hyrecall.hits.hits import reply_of

Floats = npt.NDArray[np.float64]
ENGLISH = hr.Analyzer("snowball:english", stopwords="english")
MINILM = "all-MiniLM-L6-v2"
GOLDEN = "golden"  # has the vectors of the packaged model already
LIMIT = 10
SHARES = {"own": 0.5, "foreign": 0.25, "gone": 0.25}
"""What is asked: questions with an answer, questions of others, and questions whose answers are
taken away."""
FOREIGN = 300  # questions of each other set
PENALTY = 1e-3
ADVERSARIAL = "category_name"  # the column that tells which questions are
SIGNALS = {
    "both": (("cosine", "lead", "names"), ("cosine", "words", "behind", "query")),
    "words": (("lead", "names"), ("words", "behind", "query")),
    "vectors": (("cosine", "lead"), ("behind", "query")),
}
"""Of a reply and of a hit, by what is asked."""


@dataclass
class Asked:
    """One question that a set was asked: its signals, and whether the reply held an answer."""

    group: str  # of the split: a tenant, or the even or odd half
    kind: str
    holds: bool
    signals: Mapping[str, float]
    hits: list[Mapping[str, float]]
    right: list[bool]


@dataclass
class Unasked:
    """The embedder of vectors that are given: only its name is read."""

    model: str
    dim: int
    is_prompt = True

    def embed(self, texts: Sequence[str]) -> Any:
        """Refuse: all vectors are given."""
        raise AssertionError(texts)


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


def questions(dataset: Dataset, others: Sequence[Dataset], model: str, arms: str) -> list[Asked]:
    """Ask a set what has an answer there, what has none, and what has none any more."""
    corpus = dataset.corpus
    ids, texts = corpus["id"].to_pylist(), texts_of(corpus)
    cells = corpus[CELL].to_pylist() if dataset.has_cells else [""] * len(ids)
    rows = pa.table({"id": ids, "doc": ids, "cell": cells, "text": texts, VECTOR: corpus[VECTOR]})
    schema = hr.Schema(key="id", cell="cell", text="text", vector=VECTOR, attributes="doc")
    dim = corpus[VECTOR].type.list_size
    index = hr.Index.build(rows, schema, embed=Unasked(model, dim), analyzer=ENGLISH)
    judged = dataset.judged
    asked = judged["text"].to_pylist()
    own = judged[CELL].to_pylist() if dataset.has_cells else [""] * len(asked)
    right = [
        {doc for doc, grade in dataset.judgements[query].items() if grade > 0}
        for query in judged["id"].to_pylist()
    ]
    scopes = sorted(set(cells))
    following = dict(zip(scopes, scopes[1:] + scopes[:1], strict=True))

    def ask(kind: str, table: Any, scope: list[str], answers: list[set[str]], **more: Any) -> None:
        given: dict[str, Any] = {"text": None, "vectors": {}}
        if arms != "vectors":
            given["text"] = table["text"].to_pylist()
        if arms != "words":
            given["vectors"] = table[VECTOR].combine_chunks()
        hits = index.recall(**given, scope=scope, limit=LIMIT, **more)
        (reply,) = reply_of(hits).parts
        for at, (one, judged) in enumerate(zip(hits, reply.all_judged(), strict=True)):
            if judged.query is None:
                continue
            held = [hit.key in answers[at] for hit in one]
            group = scope[at] if dataset.has_cells else ("even", "odd")[at % 2]
            out.append(Asked(
                group, kind, any(held), _values(judged.query),
                [_values(hit) for hit in judged.hits], held,
            ))  # fmt: skip

    out: list[Asked] = []
    ask("own", judged, own, right)
    gone = [hr.Filter(doc=hr.NoneOf(sorted(one))) for one in right]
    ask("gone", judged, own, [set()] * len(asked), filter=gone)
    if ADVERSARIAL in dataset.queries.column_names:
        of_category = pc.equal(dataset.queries[ADVERSARIAL], "adversarial")
        some = dataset.queries.filter(of_category)
        ask("adversarial", some, some[CELL].to_pylist(), [set()] * len(some))
    if dataset.has_cells:
        ask("foreign", judged, [following[one] for one in own], [set()] * len(asked))
    for other in others if not dataset.has_cells else ():
        some = other.judged.slice(0, FOREIGN)
        ask("foreign", some, [""] * len(some), [set()] * len(some))
    return out


def _values(one: Any) -> dict[str, float]:
    return {signal.name: signal.value for signal in one.signals}


# ---- Learn


def weights_of(asked: Sequence[Asked]) -> Floats:
    """Return the weight of each question: the kinds have their shares, a set has 1."""
    counts = {kind: sum(one.kind == kind for one in asked) for kind in SHARES}
    there = sum(share for kind, share in SHARES.items() if counts[kind])
    return np.array([SHARES[one.kind] / there / counts[one.kind] for one in asked])


def fit(values: Floats, right: Floats, weights: Floats) -> Floats:
    """Return the coefficients of a logistic model, the base first, by Newton's method."""
    mean, spread = values.mean(axis=0), values.std(axis=0) + 1e-9
    rows = np.column_stack([np.ones(len(values)), (values - mean) / spread])
    held = np.diag([1e-9] + [PENALTY * weights.sum()] * values.shape[1])
    found = np.zeros(rows.shape[1])
    for _ in range(50):
        chance = 1 / (1 + np.exp(-rows @ found))
        slope = rows.T @ (weights * (chance - right)) + held @ found
        curve = (rows * (weights * chance * (1 - chance))[:, None]).T @ rows + held
        found -= np.linalg.solve(curve, slope)
    raw = found[1:] / spread
    return np.concatenate([[found[0] - raw @ mean], raw])


@dataclass
class Learnt:
    """Coefficients of one family."""

    query: dict[str, float]
    hit: dict[str, float] = field(default_factory=dict)

    def of_query(self, one: Asked) -> float:
        """Return the confidence of a reply."""
        return confidence("", self.query, one.signals).value if one.signals else 0.0

    def of_hits(self, one: Asked) -> list[float]:
        """Return the confidence of each hit."""
        logit = confidence("", self.query, one.signals).logit if one.signals else 0.0
        values = [{**hit, "query": logit} for hit in one.hits]
        return [confidence("", self.hit, hit).value for hit in values]


def learn(sets: Sequence[Sequence[Asked]], arms: str) -> Learnt:
    """Learn on some sets, each as important as the others."""
    pairs = []
    for part in sets:
        plain = [one for one in part if one.kind in SHARES]
        pairs += [(o, w) for o, w in zip(plain, weights_of(plain), strict=True) if o.signals]
    names, of_hits = SIGNALS[arms]
    values = np.array([[one.signals[name] for name in names] for one, _ in pairs])
    weights = np.array([weight for _, weight in pairs])
    found = fit(values, np.array([float(one.holds) for one, _ in pairs]), weights)
    made = Learnt(_rounded(("base", *names), found))
    rows, right, of_hit = [], [], []
    for one, weight in pairs:
        logit = confidence("", made.query, one.signals).logit
        for hit, is_right in zip(one.hits, one.right, strict=True):
            rows.append([{**hit, "query": logit}[name] for name in of_hits])
            right.append(float(is_right))
            of_hit.append(weight)
    made.hit = _rounded(("base", *of_hits), fit(np.array(rows), np.array(right), np.array(of_hit)))
    return made


def _rounded(names: Sequence[str], values: Floats) -> dict[str, float]:
    return {name: float(f"{value:.4g}") for name, value in zip(names, values, strict=True)}


# ---- Measure


def area(right: Sequence[float], wrong: Sequence[float]) -> float:
    """Return the share of pairs in the right order (AUROC), ties half."""
    if not len(right) or not len(wrong):
        return float("nan")
    values = np.concatenate([right, wrong])
    order = values.argsort(kind="stable")
    ranks = np.empty(len(values))
    ranks[order] = np.arange(1, len(values) + 1)
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    means = np.bincount(inverse, ranks) / counts
    n = len(right)
    return float((means[inverse[:n]].sum() - n * (n + 1) / 2) / n / len(wrong))


def bins(values: Floats, right: Floats, weights: Floats) -> Iterator[tuple[float, float, float]]:
    """Return weight, mean confidence and share of right of each tenth of [0, 1]."""
    tenth = np.minimum((values * 10).astype(int), 9)
    for at in range(10):
        inside = tenth == at
        weight = weights[inside].sum()
        if weight:
            means = (weights[inside] @ one[inside] / weight for one in (values, right))
            yield (float(weight / weights.sum()), *map(float, means))  # type: ignore[misc]


def calibration_error(values: Floats, right: Floats, weights: Floats) -> float:
    """Return the expected calibration error over ten bins."""
    return sum(weight * abs(mean - share) for weight, mean, share in bins(values, right, weights))


def measure(asked: Sequence[Asked], made: Learnt) -> dict[str, float]:
    """Return the figures of a set."""
    plain = [one for one in asked if one.kind in SHARES]
    values = np.array([made.of_query(one) for one in plain])
    holds = np.array([float(one.holds) for one in plain])
    weights = weights_of(plain)

    def of(kind: str, *, held: bool = False) -> list[float]:
        return [v for v, one in zip(values, plain, strict=True)
                if one.kind == kind and (one.holds or not held)]  # fmt: skip

    hits = [made.of_hits(one) for one in plain]
    flat = np.array([value for row in hits for value in row])
    right = np.array([float(r) for one in plain for r in one.right])
    per_hit = np.repeat(weights, [len(row) for row in hits])
    adversarial = [made.of_query(one) for one in asked if one.kind == "adversarial"]
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


def gain(asked: Sequence[Asked], made: Learnt, other: Learnt) -> tuple[float, float]:
    """Return by how much the squared error falls, and the p of the paired randomisation test."""
    plain = [one for one in asked if one.kind in SHARES]
    weights = weights_of(plain) * len(plain)
    losses = [
        np.array([(how.of_query(one) - one.holds) ** 2 for one in plain]) for how in (made, other)
    ]
    differences = weights * (losses[1] - losses[0])
    random = np.random.default_rng(20260101)
    flips = random.choice((-1.0, 1.0), (2000, len(plain)))
    means = np.abs(flips @ differences) / len(plain)
    found = float(differences.mean())
    return found, float((1 + (means >= abs(found) - 1e-15).sum()) / 2001)


def print_table(family: str, arms: str, sets: Mapping[str, Sequence[Asked]]) -> None:
    """Print the figures of a family: each set left out, and its halves by each other."""
    print(f"### {family}\n")
    heads = ["", "foreign", "taken away", "held, taken away", "adversarial", "ECE", "hit AUROC",
             "hit ECE", "squared error (p)"]  # fmt: skip
    print("| " + " | ".join(heads) + " |\n" + "|---" * len(heads) + "|")
    for name, asked in sets.items():
        rest = [one for other, one in sets.items() if other != name]
        made, constant = learn(rest, arms), learn(rest, arms)
        held = sum(w for one, w in _weighed(rest) if one.holds) / sum(w for _, w in _weighed(rest))
        constant.query = {"base": float(np.log(held / (1 - held)))}
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
        rows += [(made.of_query(one), float(one.holds), w) for one, w in _weighed([asked])]
    values, right, weights = (np.array(one) for one in zip(*rows, strict=True))
    print("```text\nconfidence   replies   hold an answer")
    for weight, mean, share in bins(values, right, weights):
        print(f"      {mean:.2f}    {weight:6.1%}   {share:.2f} {'#' * round(40 * share)}")
    print("```\n")


def collect(datasets: Sequence[Dataset], model: str, arms: str) -> dict[str, list[Asked]]:
    """Ask every set."""
    return {
        one.name: questions(one, [other for other in datasets if other is not one], model, arms)
        for one in datasets
    }


def report(datasets: Sequence[Dataset], *, learns: bool = False) -> None:
    """Print the tables of every family, and the coefficients if they are asked for."""
    static = [one if one.name == GOLDEN else embedded(one) for one in datasets]
    minilm = [one for one in datasets if one.name != GOLDEN]
    static_model = StaticEmbedder().model
    for family, sets, model, arms in (
        ("words", static, static_model, "words"),
        ("static", static, static_model, "both"),
        ("static alone", static, static_model, "vectors"),
        ("minilm", minilm, MINILM, "both"),
        ("minilm alone", minilm, MINILM, "vectors"),
    ):
        asked = collect(sets, model, arms)
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
