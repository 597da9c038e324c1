"""Daft: queries in Parquet become hits in Parquet, answered by a batch method over shards.

Daft sends the object to its processes; each opens the shards with its first batch. The folders must
have the same paths on all machines. A method returns as many rows as it gets, so it returns the
list of hits of each query, which ``explode`` turns into rows. Needs Daft 0.7 or newer.
"""

import tempfile
from pathlib import Path

import daft
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

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


def recall(frame: daft.DataFrame, shards: list[Path]) -> daft.DataFrame:
    """Return the hits of a frame of queries; their order is Daft's, `query` says whose."""
    batches = BatchRecall(
        shards, key="row", text="words", scope="asked_by", columns=["text"], limit=2,
        on_error="column", threads=1,
    )  # fmt: skip
    columns = {"row": pa.int64(), "words": pa.string(), "asked_by": pa.string()}
    dtype = pa.list_(pa.struct(batches.schema_of(pa.schema(columns.items()))))

    @daft.cls(max_concurrency=2, use_process=True)
    class Recall:
        def __init__(self, batches: BatchRecall) -> None:
            self.batches = batches

        @daft.method.batch(return_dtype=daft.DataType.from_arrow_type(dtype), batch_size=4096)
        def hits(self, words: daft.Series, asked_by: daft.Series) -> pa.Array:
            rows = np.arange(len(words))
            asked = pa.table([rows, words.to_arrow(), asked_by.to_arrow()], list(columns))
            found = self.batches(asked).combine_chunks()
            ends = np.searchsorted(found["query_key"].to_numpy(), rows, side="right")
            offsets = np.concatenate([[0], ends]).astype(np.int32)
            return pa.ListArray.from_arrays(offsets, found.to_struct_array().combine_chunks())

    hit = Recall(batches).hits(daft.col("words"), daft.col("asked_by"))
    each = frame.select("query", hit.alias("hit")).explode("hit", ignore_empty_and_null=True)
    return each.select("query", daft.col("hit").unnest()).exclude("query_key")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        pq.write_table(queries(), folder / "queries.parquet")
        frame = daft.read_parquet(str(folder / "queries.parquet"))
        recall(frame, save_shards(folder)).write_parquet(str(folder / "hits"))
        found = pq.read_table(folder / "hits").sort_by(
            [("query", "ascending"), ("rank", "ascending")]
        )
        print(found.select(["query", "rank", "key", "text"]).to_pylist())

        one = hr.Index.build(documents(), SCHEMA)
        want = one.recall(
            text=queries()["words"], scope=queries()["asked_by"], columns=["text"], limit=2
        ).to_arrow()
        for name in ("rank", "key", "score", "text"):
            assert found[name].to_pylist() == want[name].to_pylist()
