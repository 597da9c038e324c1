"""Daft: an index of a DataFrame, and hits as one to join with it.

Numbers and vectors are handed over without a copy: the index reads the Arrow memory of the
collected DataFrame, and the DataFrame of the hits lies on the memory of the reply.
"""

import daft
import pyarrow as pa

import hyrecall as hr

SCHEMA = hr.Schema(key="id", cell="user", text="text", vector="vector", attributes="year")


def documents() -> daft.DataFrame:
    """Return documents of two users, with vectors of three numbers."""
    vectors = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    table = pa.table(
        {
            "id": ["tea", "bills", "fjord"],
            "user": ["ann", "ann", "bob"],
            "text": ["Green tea at four", "Invoices are due on Friday", "The fjord in winter"],
            "year": [2024, 2026, 2026],
            "vector": pa.array(vectors, pa.list_(pa.float32(), 3)),
        }
    )
    return daft.from_arrow(table).where(daft.col("year") >= 2000).collect()


def build(frame: daft.DataFrame) -> hr.Index:
    """Index the Arrow table of the frame; newer releases of Daft take ``build(frame, ...)`` too."""
    return hr.Index.build(frame.to_arrow(), SCHEMA)


def recall(index: hr.Index, texts: list[str], users: list[str]) -> daft.DataFrame:
    """Return the hits of queries, each with its own user, as a frame."""
    hits = index.recall(text=texts, scope=users, columns=("text", "year"), fusion=hr.RRF())
    return daft.from_arrow(hits.to_arrow())


if __name__ == "__main__":
    found = recall(build(documents()), ["when is tea", "the fjord"], ["ann", "bob"])
    rows = found.select("query", "key", "score", "year").sort("query").to_pydict()
    print(rows)
    assert rows["key"] == ["tea", "fjord"]
    assert rows["year"] == [2024, 2026]
