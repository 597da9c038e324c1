"""Adds vectors to a retrieval set by embedding its texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall.base.keywords import check_keywords
from hyrecall.base.progress import ProgressFunction, read_progress
from hyrecall.embed import Embedder, Guard
from hyrecall.embed.texts import embed_texts
from hyrecall.errors import OptionError, error
from hyrecall.evaluate.data import VECTOR, Dataset

__all__ = ["embed_dataset"]


@check_keywords
def embed_dataset(
    dataset: Dataset, embedder: Embedder, *, progress: ProgressFunction | None = None
) -> Dataset:
    """Return a set with vectors of its documents and judged queries.

    Parameters
    ----------
    dataset : Dataset
        A set without vectors.
    embedder : Embedder
        Called with 64 texts at a time, each call with a limit of 60 seconds.
    progress : callable, optional
        ``progress(done, total)``, called with numbers of texts after each call of the embedder.

    Returns
    -------
    Dataset
        With a column ``embedding`` of float32 vectors. A document is embedded as its title, a space
        and its text. Queries without judgements and blank texts have no vector.

    Raises
    ------
    OptionError
        The set already has vectors.
    EmbedError
        The embedder fails, or its reply is not vectors.
    DTypeError
        ``embedder`` is not an embedder.

    Examples
    --------
    >>> from hyrecall.embed import HashEmbedder
    >>> corpus = pa.table({"id": ["a", "b"], "text": ["hot tea", "cold milk"]})
    >>> queries = pa.table({"id": ["q"], "text": ["tea"]})
    >>> data = Dataset("drinks", corpus, queries, {"q": {"a": 1}})
    >>> embed_dataset(data, HashEmbedder(dim=16)).has_vectors
    True
    """
    tell = read_progress(progress)
    parts = {"corpus": dataset.corpus, "queries": dataset.queries}
    for part, table in parts.items():
        if VECTOR in table.column_names:
            wish = f"no column {VECTOR!r}"
            raise error(OptionError, f"{dataset.name} {part}", wish, table.column_names)
    judged = set(dataset.judged["id"].to_pylist())
    asked = zip(*(dataset.queries[name].to_pylist() for name in ("id", "text")), strict=True)
    texts = _documents(dataset.corpus)
    texts += [text if name in judged else None for name, text in asked]
    rows = _rows(texts, embedder, tell)
    column = pa.FixedSizeListArray.from_arrays(
        pa.array(rows.ravel()), rows.shape[1], mask=pa.array(~rows.any(axis=1))
    )
    n_docs = dataset.corpus.num_rows
    return replace(
        dataset,
        corpus=dataset.corpus.append_column(VECTOR, column.slice(0, n_docs)),
        queries=dataset.queries.append_column(VECTOR, column.slice(n_docs)),
    )


def _documents(corpus: pa.Table) -> list[str | None]:
    """Return the text of each document to embed: its title and text, as in the text arm."""
    names = [name for name in ("title", "text") if name in corpus.column_names]
    columns: Any = (corpus[name].to_pylist() for name in names)
    return [" ".join(part for part in row if part) for row in zip(*columns, strict=True)]


def _rows(
    texts: Sequence[str | None], embedder: Embedder, tell: ProgressFunction | None
) -> npt.NDArray[np.float32]:
    """Return one row per text, a zero row for a text without a vector."""
    guard = Guard(embedder, workers=1)
    try:
        return embed_texts(guard, texts, tell=tell)
    finally:
        guard.close()
