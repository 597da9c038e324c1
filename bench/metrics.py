"""Rank documents by cosine, dot product and distance, and count the lists that are the same.

    python -m bench.metrics DATA...

prints the table of docs/decisions/0077-cosine-alone.md: for each judged set, how many of its
queries have the same best documents, in the same order, by each of the three. The vectors are taken
as given (float16 rows of unit length, rounded) and made of unit length in float64.
"""

import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

Rows = npt.NDArray[np.float64]
BEST = (10, 100)


def vectors(path: Path) -> Rows:
    """Return the embeddings of a file."""
    column = pq.read_table(path, columns=["embedding"])["embedding"].combine_chunks()
    return np.asarray(column.values.to_numpy(), np.float64).reshape(len(column), -1)


def best(scores: Rows, n: int) -> npt.NDArray[np.int64]:
    """Return the best documents of each query, by (score desc, number asc)."""
    return np.argsort(-scores, axis=1, kind="stable")[:, :n]


def unit(rows: Rows) -> Rows:
    out: Rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return out


def same_lists(queries: Rows, docs: Rows, n: int) -> tuple[int, int]:
    """Return for how many queries dot and distance give the list that cosine gives."""
    cosine = best(queries @ unit(docs).T, n)
    dot = best(queries @ docs.T, n)
    distance = best(2 * queries @ docs.T - (docs**2).sum(axis=1), n)
    return tuple(int((one == cosine).all(axis=1).sum()) for one in (dot, distance))  # type: ignore[return-value]


def main(folders: list[str]) -> None:
    print("set | queries | best | dot | l2 | unit: dot | unit: l2 | norms\n-|-|-|-|-|-|-|-")
    for folder in map(Path, folders):
        queries, docs = (vectors(folder / f"{name}.parquet") for name in ("queries", "corpus"))
        norms = np.linalg.norm(docs, axis=1)
        for n in BEST:
            counts = (*same_lists(queries, docs, n), *same_lists(unit(queries), unit(docs), n))
            told = f"{norms.min():.6f} to {norms.max():.6f}"
            print(folder.name, len(queries), n, *counts, told, sep=" | ")


if __name__ == "__main__":
    main(sys.argv[1:])
