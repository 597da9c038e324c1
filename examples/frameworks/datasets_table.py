"""Hugging Face datasets: an index of a dataset, and hits as a dataset.

Nothing is copied on the way: the index reads the Arrow memory of the dataset, which may be a
mapped file, and the dataset of the hits holds the Arrow table of the reply.
"""

import pyarrow as pa
from datasets import Dataset, Features, List, Value

import hyrecall as hr

SCHEMA = hr.Schema(key="id", cell="user", text="text", vector="vector", attributes="year")


def documents() -> Dataset:
    """Return documents of two users, with vectors of three numbers."""
    columns = {
        "id": ["tea", "bills", "fjord"],
        "user": ["ann", "ann", "bob"],
        "text": ["Green tea at four", "Invoices are due on Friday", "The fjord in winter"],
        "year": [2024, 2026, 2026],
        "vector": [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
    }
    text = Value("string")
    vector = List(Value("float32"), length=3)
    features = {"id": text, "user": text, "text": text, "year": Value("int64"), "vector": vector}
    return Dataset.from_dict(columns, features=Features(features))


def as_table(dataset: Dataset) -> pa.Table:
    """Return the Arrow table of a dataset: its own memory, unless rows were selected from it."""
    return dataset.with_format("arrow")[:]


def build(dataset: Dataset) -> hr.Index:
    """Index the dataset."""
    return hr.Index.build(as_table(dataset), SCHEMA)


def recall(index: hr.Index, queries: Dataset) -> Dataset:
    """Return the hits of a dataset of queries, each with its own user, as a dataset."""
    hits = index.recall(
        text=list(queries["text"]),
        scope=list(queries["user"]),
        columns=("text", "year"),
        fusion=hr.RRF(),
    )
    return Dataset(hits.to_arrow())


if __name__ == "__main__":
    queries = Dataset.from_dict({"text": ["when is tea", "the fjord"], "user": ["ann", "bob"]})
    found = recall(build(documents()), queries)
    print(found.to_pandas()[["query", "key", "score", "year"]])
    assert list(found["key"]) == ["tea", "fjord"]
    assert list(found["year"]) == [2024, 2026]
