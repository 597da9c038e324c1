"""A million queries from a Parquet file, each within its own tenant, answered in pieces.

``python examples/million_queries.py --queries 1000000 --folder work`` answers a million
queries and keeps the files. The same hits from a shell:

    hyrecall batch work/corpus.index work/queries.parquet -o work/batch.parquet --query-key id
        --query-text text --query-vector embedding --query-scope tenant --fusion rrf --limit 3
        --on-error skip
"""

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import hyrecall as hr

PIECE = 10_000  # number of queries read, answered and written at a time


def made_up(first: int, last: int, n_words: int) -> pa.Table:
    """Return rows of random words and vectors."""
    rng, n = np.random.default_rng([first, n_words]), last - first
    words = rng.zipf(1.3, (n, n_words)).clip(max=5000).astype(str)
    return pa.table({
        "id": pa.array(range(first, last)).cast(pa.string()),
        "tenant": rng.integers(500, size=n).astype(str),
        "text": [" ".join(row) for row in words],
        "embedding": pa.FixedSizeListArray.from_arrays(
            rng.standard_normal(n * 16, dtype=np.float32), 16
        ),
    })  # fmt: skip


def answers(index: hr.Index, queries: pa.Table, rejects: list[dict]) -> Iterator[pa.Table]:
    """Yield the hits. A query that is refused goes to rejects, with the reason."""
    try:
        hits = index.recall(
            text=queries["text"], vectors=queries["embedding"], scope=queries["tenant"],
            query_keys=queries["id"], fusion=hr.RRF(), limit=3,
        )  # fmt: skip
    except (hr.ScopeError, hr.OptionError) as fault:
        if len(queries) == 1:
            rejects.append({"key": queries["id"][0].as_py(), "error": str(fault)})
            return
        half = len(queries) // 2
        yield from answers(index, queries[:half], rejects)
        yield from answers(index, queries[half:], rejects)
    else:
        yield hits.to_arrow().drop_columns("query")  # the number in the piece; query_key is the id


def main(folder: Path, n_queries: int) -> None:
    """Write documents and queries, then answer the queries."""
    schema = hr.Schema(key="id", cell="tenant", text="text", vector="embedding")
    index = hr.Index.build(made_up(0, 5_000, 30), schema)
    index.save(folder / "corpus.index", overwrite=True)
    with pq.ParquetWriter(folder / "queries.parquet", made_up(0, 1, 4).schema) as file:
        for first in range(0, n_queries, PIECE):
            file.write_table(made_up(first, min(first + PIECE, n_queries), 4))
        nobody = pa.table(
            {"id": ["nobody"], "tenant": [None], "text": ["1"], "embedding": [[0.0] * 16]}
        )
        file.write_table(nobody.cast(file.schema))

    file, done, rejects = None, 0, []
    for piece in pq.ParquetFile(folder / "queries.parquet").iter_batches(PIECE):
        for hits in answers(index, pa.table(piece), rejects):
            file = file or pq.ParquetWriter(folder / "hits.parquet", hits.schema)
            file.write_table(hits)
        done += len(piece)
        print(f"{done:,} queries", end="\r", flush=True)
    file.close()
    pq.write_table(pa.Table.from_pylist(rejects), folder / "rejects.parquet")
    print(f"{done:,} queries; refused: {rejects}")


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
parser.add_argument("--queries", type=int, default=25_000)
parser.add_argument("--folder", type=Path, help="keep the files here")
options = parser.parse_args()
with tempfile.TemporaryDirectory() as temporary:
    main(options.folder or Path(temporary), options.queries)
