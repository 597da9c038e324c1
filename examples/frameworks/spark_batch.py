"""Spark: queries in Parquet become hits in Parquet, answered by `mapInArrow` over shards.

Spark sends the function to its Python workers; each opens the shards with its first batch. The
folders must have the same paths on all machines. `mapInArrow` needs Spark 3.3 or newer.
"""

import os
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

import hyrecall as hr
from hyrecall.distributed import BatchRecall

SCHEMA = hr.Schema(key="id", cell="user", text="text")


def documents() -> pa.Table:
    """Return documents of two users."""
    texts = ["green tea at four", "invoices are due on friday", "the fjord in winter", "black tea"]
    return pa.table({"id": [1, 2, 3, 4], "user": ["ann", "ann", "bob", "ann"], "text": texts})


def queries() -> pa.Table:
    """Return queries, each of one user, who sees no documents of the other."""
    return pa.table(
        {
            "query": ["q1", "q2", "q3"],
            "words": ["tea", "tea fjord", "friday"],
            "asked_by": ["ann", "bob", "ann"],
        }
    )


def save_shards(folder: Path) -> list[Path]:
    """Save the documents in two shards."""
    shards = []
    for at, table in enumerate((documents().slice(0, 2), documents().slice(2))):
        shards.append(folder / f"shard-{at}")
        hr.Index.build(table, SCHEMA, first_seq=2 * at).save(shards[-1])
    return shards


def recall(frame: DataFrame, shards: list[Path]) -> DataFrame:
    """Return the hits of a frame of queries; their order is Spark's, `query_key` says whose."""
    batches = BatchRecall(
        shards, key="query", text="words", scope="asked_by", columns=["text"], limit=2,
        on_error="column", threads=1,
    )  # fmt: skip
    hits = batches.schema_of(pa.schema([(name, pa.string()) for name in batches.columns]))
    return frame.mapInArrow(batches.map, from_arrow_schema(hits))


if __name__ == "__main__":
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "4096")
        .getOrCreate()
    )
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        pq.write_table(queries(), folder / "queries.parquet")
        frame = spark.read.parquet(str(folder / "queries.parquet"))
        recall(frame, save_shards(folder)).write.parquet(str(folder / "hits"))
        found = pq.read_table(folder / "hits").sort_by([("query_key", "ascending")])
        print(found.select(["query_key", "rank", "key", "text"]).to_pylist())

        one = hr.Index.build(documents(), SCHEMA)
        want = one.recall(
            text=queries()["words"], scope=queries()["asked_by"], columns=["text"], limit=2
        ).to_arrow()
        for name in ("rank", "key", "score", "text"):
            assert found[name].to_pylist() == want[name].to_pylist()
    spark.stop()
