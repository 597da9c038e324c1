"""A small retrieval set of two tenants, made by a seed, and as a folder of files."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hyrecall.evaluate import Dataset

WORDS = (
    *("amber", "basin", "cedar", "delta", "ember", "fjord", "grove"),
    *("haven", "inlet", "jetty", "kelp", "ledge", "moss", "nook"),
)
DIM = 8
TENANTS = ("acme", "bolt")


def small_set(n_docs: int = 80, n_queries: int = 60, seed: int = 3) -> Dataset:
    """Each query takes words and roughly the vector of one document, which is graded 2.

    The next document of its tenant is graded 1, and the one after it 0.
    """
    random = np.random.default_rng(seed)
    picks = random.integers(0, len(WORDS), (n_docs, 6))
    vectors = random.standard_normal((n_docs, DIM)).astype(np.float32)
    sources = random.integers(0, n_docs, n_queries)
    noise = random.standard_normal((n_queries, DIM)).astype(np.float32)
    corpus = pa.table(
        {
            "id": [f"d{row}" for row in range(n_docs)],
            "tenant": [TENANTS[row % 2] for row in range(n_docs)],
            "title": [WORDS[row[0]] for row in picks],
            "text": [" ".join(WORDS[word] for word in row[1:]) for row in picks],
            "day": pa.array(range(n_docs), pa.int64()),
            "embedding": pa.FixedSizeListArray.from_arrays(vectors.ravel(), DIM),
        }
    )
    queries = pa.table(
        {
            "id": [f"q{row}" for row in range(n_queries)],
            "tenant": [TENANTS[source % 2] for source in sources],
            "text": [" ".join(WORDS[word] for word in picks[source][:3]) for source in sources],
            "embedding": pa.FixedSizeListArray.from_arrays(
                (vectors[sources] + 0.7 * noise).ravel(), DIM
            ),
        }
    )
    judgements = {
        f"q{row}": {
            f"d{source}": 2,
            f"d{(source + 2) % n_docs}": 1,
            f"d{(source + 4) % n_docs}": 0,
        }
        for row, source in enumerate(sources.tolist())
        if row % 10 != 9  # every tenth query has no judgements
    }
    return Dataset("small", corpus, queries, judgements)


def write_folder(data: Dataset, folder: Path, *, kind: str = "parquet") -> Path:
    """Write a set as files: ``parquet``, ``jsonl`` or ``beir``."""
    folder.mkdir(parents=True)
    for name, table in (("corpus", data.corpus), ("queries", data.queries)):
        if kind == "parquet":
            pq.write_table(table, folder / f"{name}.parquet")
            continue
        rows = table.to_pylist()
        if kind == "beir":
            rows = [{"_id": row.pop("id"), **row, "metadata": {}} for row in rows]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(lines)
    qrels = folder / ("qrels/test.tsv" if kind == "beir" else "qrels.tsv")
    qrels.parent.mkdir(exist_ok=True)
    pairs = [(q, d, grade) for q, docs in data.judgements.items() for d, grade in docs.items()]
    lines = "".join(f"{q}\t{d}\t{grade}\n" for q, d, grade in pairs)
    qrels.write_text("query-id\tcorpus-id\tscore\n" + lines)
    return folder
