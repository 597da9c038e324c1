"""A small index with everything in it, and a fixed batch of questions to it."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

import hyrecall as hr

WORDS = [
    "oak",
    "ash",
    "elm",
    "fir",
    "yew",
    "bay",
    "fig",
    "nut",
    "hop",
    "rye",
    "ivy",
    "box",
    "gum",
    "tea",
    "may",
]
TENANTS = ("alice", "bob", "carol")
DIM = 9


def table(first: int, n_rows: int, *, dtype: str = "float32", seed: int = 0) -> pa.Table:
    """Rows whose keys are first, first + 1, ...; some without a text or a vector."""
    rng = np.random.default_rng([seed, first, n_rows])
    texts = [" ".join(rng.choice(WORDS, rng.integers(0, 9))) for _ in range(n_rows)]
    rows = rng.standard_normal((n_rows, DIM)).astype(np.float16 if dtype == "float16" else "f4")
    rows[rng.random(n_rows) < 0.1] = 0
    if dtype == "bfloat16":
        rows = (rows.view(np.uint32) >> 16).astype(np.uint16)
    return pa.table(
        {
            "id": pa.array(range(first, first + n_rows), pa.int64()),
            "tenant": pa.array(rng.choice(TENANTS, n_rows).tolist(), pa.string()),
            "body": pa.array([None if rng.random() < 0.1 else text for text in texts], pa.string()),
            "title": pa.array([text.upper()[:7] for text in texts], pa.string()),
            "kind": pa.array(
                [None if k == 3 else int(k) for k in rng.integers(0, 4, n_rows)], pa.int32()
            ),
            "tags": pa.array(
                [rng.choice(WORDS, 2).tolist() for _ in range(n_rows)], pa.list_(pa.string())
            ),
            "v": pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), DIM),
        }
    )


def schema(dtype: str = "float32", **changes: object) -> hr.Schema:
    """Two lexical arms with options of their own, a dense one, attributes, a cluster."""
    options: dict[str, object] = {
        "key": "id",
        "cell": ("tenant",),
        "text": {
            "body": hr.Text("body", bm25=hr.BM25("okapi", k1=0.9)),
            "all": hr.Text(
                "title",
                "body",
                weights={"title": 2},
                analyzer=hr.Analyzer("word", stopwords=["oak"]),
            ),
        },
        "vector": {"v": hr.Vector("v", dtype=dtype if dtype == "bfloat16" else None)},
        "attributes": ("kind", "tags"),
        "cluster": "kind",
    }
    return hr.Schema(**(options | changes))


def build(n_rows: int = 200, *, dtype: str = "float32", **changes: object) -> hr.Index:
    """An index of one segment."""
    return hr.Index.build(table(0, n_rows, dtype=dtype), schema(dtype, **changes), device="cpu")


def grown(*, dtype: str = "float32", **changes: object) -> hr.Index:
    """An index of two segments with deleted rows in both."""
    index = build(dtype=dtype, **changes)
    index.add(table(1000, 40, dtype=dtype))
    index.delete([3, 50, 51, 120, 1003, 1030], scope=everyone(index))
    return index


def everyone(index: hr.Index) -> object:
    """The scope of all documents, as this index takes it."""
    return hr.Scope([(t,) for t in TENANTS]) if index.schema.cell else None


def ask(index: hr.Index) -> bytes:
    """The Arrow bytes of the replies to a fixed set of questions, alone and fused."""
    sink = pa.BufferOutputStream()
    for name in questions(index):
        reply = question(index, name)
        with pa.ipc.new_stream(sink, reply.schema) as writer:
            writer.write_table(reply.combine_chunks())
    return bytes(sink.getvalue())


def questions(index: hr.Index) -> tuple[str, ...]:
    """The names of the questions that an index can take."""
    names = [*(["text"] if index.schema.text else []), *(["vector"] if index.schema.vector else [])]
    return (*names, "both") if len(names) == 2 else tuple(names)


def question(index: hr.Index, name: str) -> pa.Table:
    """The reply to one question, with every column that a row has."""
    rng = np.random.default_rng(17)
    texts: list[object] = [
        "oak ash",
        "tea",
        hr.Phrase("elm fir"),
        hr.Prefix("f"),
        "rye ivy rye",
        None,
    ]
    vectors = rng.standard_normal((6, DIM)).astype(np.float32)
    options: dict[str, object] = {"limit": 40, "columns": list(index.schema.row_columns)}
    if name in ("text", "both"):
        options["text"] = texts
    if name in ("vector", "both"):
        options["vectors"] = vectors
    if index.schema.cell:
        cells = [(t,) for t in TENANTS]
        some = [hr.Scope(cells[:1]), hr.Scope(cells[1:]), hr.Scope(cells), hr.Scope([])]
        options["scope"] = [*some, hr.Scope(cells[2:]), hr.Scope(cells)]
    if index.schema.attributes:
        options["filter"] = [
            None,
            None,
            None,
            None,
            hr.Filter(kind=(0, 1)),
            hr.Filter(tags=["oak"]),
        ]
    return index.recall(**options).to_arrow()


@dataclass(frozen=True)
class Listing:
    """What lies in a folder: name to (inode, time of change, bytes)."""

    files: dict[str, tuple[int, int, int]]

    @classmethod
    def of(cls, folder: Path) -> "Listing":
        stats = {file.name: file.stat() for file in folder.iterdir()}
        return cls({name: (s.st_ino, s.st_mtime_ns, s.st_size) for name, s in stats.items()})

    def new_since(self, before: "Listing") -> set[str]:
        """Names of files that were not there before, or are others now."""
        return {name for name, facts in self.files.items() if before.files.get(name) != facts}
