"""Polars: an index of a DataFrame, and hits as one to join with it.

Numbers and vectors are handed over without a copy: the index reads the memory of the DataFrame,
and the DataFrame of the hits lies on the memory of the reply.
"""

import polars as pl

import hyrecall as hr

SCHEMA = hr.Schema(key="id", cell="user", text="text", vector="vector", attributes="year")


def documents() -> pl.DataFrame:
    """Return documents of two users, with vectors of three numbers."""
    return pl.DataFrame(
        {
            "id": ["tea", "bills", "fjord"],
            "user": ["ann", "ann", "bob"],
            "text": ["Green tea at four", "Invoices are due on Friday", "The fjord in winter"],
            "year": [2024, 2026, 2026],
            "vector": [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        },
        schema_overrides={"vector": pl.Array(pl.Float32, 3)},
    )


def build(frame: pl.DataFrame) -> hr.Index:
    """Index the frame as it is: it has ``__arrow_c_stream__``."""
    return hr.Index.build(frame, SCHEMA)


def recall(index: hr.Index, queries: pl.DataFrame) -> pl.DataFrame:
    """Return the hits of a frame of queries, each with its own user, as a frame."""
    hits = index.recall(
        text=queries["text"],
        scope=queries["user"].to_list(),
        columns=("text", "year"),
        fusion=hr.RRF(),
    )
    return hits.to_polars()


if __name__ == "__main__":
    queries = pl.DataFrame({"text": ["when is tea", "the fjord"], "user": ["ann", "bob"]})
    found = recall(build(documents()), queries)
    joined = queries.with_row_index("query").join(
        found.with_columns(pl.col("query").cast(pl.UInt32)), on="query", suffix="_found"
    )
    print(joined.select("text", "user", "key", "score", "year"))
    assert joined["key"].to_list() == ["tea", "fjord"]
    assert joined["year"].to_list() == [2024, 2026]
