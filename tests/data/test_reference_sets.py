"""Retrieval on real sets, against figures measured with other programs.

The sets are no part of this project. Where the environment variable HYRECALL_DATA names a folder
that holds them (``<set>/corpus.parquet``, ``queries.parquet`` and ``qrels.tsv``), nDCG and recall
are compared; elsewhere these tests skip by name.
"""

import csv
import math
import os
import string
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hyrecall as hr

TOLERANCE = 0.005

ENGLISH = (
    "a an and are as at be but by for if in into is it no not of on or such that the their then "
    "there these they this to was will with"
)
# The reference drops tokens of one character.
STOPWORDS = sorted({*ENGLISH.split(), *string.ascii_lowercase, *string.digits})
STEMMED = hr.Analyzer("snowball:english", stopwords=STOPWORDS)

REFERENCE = {  # set -> arms -> nDCG@10, recall@10
    "locomo": {
        "bm25": (0.4204, 0.5555),
        "dense": (0.2961, 0.4400),
        "rrf": (0.4006, 0.5580),
    },
    "scifact": {
        "bm25": (0.6791, 0.8078),
        "dense": (0.6451, 0.7833),
        "rrf": (0.7143, 0.8476),
    },
}


@dataclass(frozen=True)
class RetrievalSet:
    """A set with its index; queries without judgements are left out."""

    index: hr.Index
    queries: pa.Table
    relevant: dict[str, dict[str, int]]

    def ask(self, arms: str) -> hr.Hits:
        options: dict[str, Any] = {"limit": 100, "depth": 1000}
        if self.index.schema.cell is not None:
            options["scope"] = self.queries["tenant"].to_pylist()
        if arms != "dense":
            options["text"] = self.queries["text"].to_pylist()
        if arms != "bm25":
            options["vectors"] = self.queries["embedding"]
        if arms == "rrf":
            options["fusion"] = hr.RRF()
        return self.index.recall(**options)

    def scores(self, arms: str) -> tuple[float, float]:
        """Mean nDCG@10 and recall@10."""
        queries = self.queries["id"].to_pylist()
        found = {query: one.keys for query, one in zip(queries, self.ask(arms), strict=True)}
        return measures(found, self.relevant)


def measures(
    found: Mapping[str, list[str]], relevant: Mapping[str, dict[str, int]]
) -> tuple[float, float]:
    """Mean nDCG@10 and recall@10 over the judged queries; who found nothing counts as 0."""
    pairs = [(found.get(query, [])[:10], grades) for query, grades in relevant.items()]
    gains = [ndcg(keys, grades) for keys, grades in pairs]
    recalls = [recall(keys, grades) for keys, grades in pairs]
    return float(np.mean(gains)), float(np.mean(recalls))


class Saved(NamedTuple):
    """A set in a folder of its own."""

    name: str
    path: Path


def ndcg(keys: list[str], grades: dict[str, int]) -> float:
    """Normalised discounted cumulative gain of a list, gains linear as in trec_eval."""
    ideal = sorted(grades.values(), reverse=True)[:10]
    gained = [grades.get(key, 0) for key in keys]
    return discounted(gained) / discounted(ideal)


def discounted(gains: list[int]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))


def recall(keys: list[str], grades: dict[str, int]) -> float:
    """Share of the relevant documents that the list holds."""
    return sum(key in grades for key in keys) / len(grades)


def folder(name: str) -> Path:
    """Where a set lies, or a skip that names it."""
    root = os.environ.get("HYRECALL_DATA")
    if root is None:
        pytest.skip(f"{name}: HYRECALL_DATA names no folder of retrieval sets")
    path = Path(root) / name
    if not (path / "corpus.parquet").exists():
        pytest.skip(f"{name} is not in HYRECALL_DATA")
    return path


def judgements(path: Path) -> dict[str, dict[str, int]]:
    """Query -> document -> grade, of those above 0."""
    relevant: dict[str, dict[str, int]] = defaultdict(dict)
    with (path / "qrels.tsv").open() as lines:
        for query, document, grade in list(csv.reader(lines, delimiter="\t"))[1:]:
            if int(float(grade)) > 0:
                relevant[query][document] = int(float(grade))
    return relevant


def load(name: str, analyzer: hr.Analyzer) -> RetrievalSet:
    path = folder(name)
    relevant = judgements(path)
    queries = pq.read_table(path / "queries.parquet")
    queries = queries.filter(pa.array([query in relevant for query in queries["id"].to_pylist()]))
    corpus = pq.read_table(path / "corpus.parquet")
    schema = hr.Schema(
        key="id",
        cell="tenant" if "tenant" in corpus.column_names else None,
        text={"text": hr.Text("title", "text") if "title" in corpus.column_names else "text"},
        vector="embedding",
        stored=(),
    )
    return RetrievalSet(hr.Index.build(corpus, schema, analyzer=analyzer), queries, relevant)


@pytest.fixture(scope="module", params=sorted(REFERENCE))
def english(request: pytest.FixtureRequest) -> tuple[str, RetrievalSet]:
    return request.param, load(request.param, STEMMED)


@pytest.mark.parametrize("arms", ["bm25", "dense", "rrf"])
def test_a_real_set_gives_the_figures_of_the_reference(
    english: tuple[str, RetrievalSet], arms: str
) -> None:
    name, loaded = english
    assert loaded.scores(arms) == pytest.approx(REFERENCE[name][arms], abs=TOLERANCE)


@pytest.fixture(scope="module", params=sorted(REFERENCE))
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Saved:
    """A set as ``hyrecall index`` makes it an index."""
    pytest.importorskip("typer", reason="the extra [cli] is not installed")
    name = request.param
    corpus = folder(name) / "corpus.parquet"
    columns = pq.read_schema(corpus).names
    path = tmp_path_factory.mktemp("saved") / name
    command(
        *("index", corpus, "-o", path, "--key", "id", "--vector", "embedding"),
        *("--text", "text=title+text" if "title" in columns else "text"),
        *(("--cell", "tenant") if "tenant" in columns else ("--no-cell",)),
        *("--analyzer", "snowball:english", "--stopwords", ",".join(STOPWORDS)),
    )
    return Saved(name, path)


@pytest.mark.parametrize("arms", ["bm25", "dense", "rrf"])
def test_the_command_line_gives_the_figures_too(saved: Saved, arms: str) -> None:
    source = folder(saved.name)
    queries = source / "queries.parquet"
    hits = saved.path.with_suffix(f".{arms}.parquet")
    command(
        *("batch", saved.path, queries, "-o", hits, "--limit", "100", "--depth", "1000"),
        *("--query-key", "id"),
        *(() if arms == "dense" else ("--query-text", "text")),
        *(() if arms == "bm25" else ("--query-vector", "embedding")),
        *(("--fusion", "rrf") if arms == "rrf" else ()),
        *(("--query-scope", "tenant") if "tenant" in pq.read_schema(queries).names else ()),
    )
    found: dict[str, list[str]] = defaultdict(list)
    for hit in pq.read_table(hits, columns=["query_key", "key"]).to_pylist():
        found[hit["query_key"]].append(hit["key"])
    scores = measures(found, judgements(source))
    assert scores == pytest.approx(REFERENCE[saved.name][arms], abs=TOLERANCE)


def command(*arguments: object) -> None:
    subprocess.run([sys.executable, "-m", "hyrecall.cli", *map(str, arguments)], check=True)


def test_chinese_is_found_with_the_default_analyzer() -> None:
    gain, found = load("cmrc2018-dev", hr.Analyzer()).scores("bm25")
    assert gain >= 0.97
    assert found >= 0.97


def test_the_measures_are_those_of_their_definitions() -> None:
    grades = {"a": 2, "b": 1}
    assert ndcg(["a", "b"], grades) == 1.0
    assert ndcg(["x", "a"], grades) == pytest.approx((2 / math.log2(3)) / (2 + 1 / math.log2(3)))
    assert ndcg([], grades) == 0.0
    assert (recall(["b", "x"], grades), recall(["b", "a"], grades)) == (0.5, 1.0)
