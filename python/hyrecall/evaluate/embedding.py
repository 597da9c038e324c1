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
from hyrecall.embed import Embedder, EmbedError, Guard, NoVectors
from hyrecall.errors import OptionError, error
from hyrecall.evaluate.data import VECTOR, Dataset

__all__ = ["embed_dataset"]

_TEXTS_AT_ONCE = 64
_SECONDS_PER_CALL = 60.0  # as for the memories of a store


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
        found: list[tuple[range, npt.NDArray[np.float32]]] = []
        for first in range(0, len(texts), _TEXTS_AT_ONCE):
            places = range(first, min(first + _TEXTS_AT_ONCE, len(texts)))
            answer = guard.embed([texts[at] or "" for at in places], budget=_SECONDS_PER_CALL)
            if isinstance(answer, NoVectors):
                got = f"{answer.fault}: {answer.detail}" if answer.detail else answer.fault
                raise EmbedError.of(answer.fault, f"vectors of {len(places)} texts", got)
            found.append((places, answer))
            if tell is not None:
                tell(places.stop, len(texts))
    finally:
        guard.close()
    # Replies for blank texts have zero columns if the embedder's dim is not known.
    dim = max([embedder.dim or 1, *(part.shape[1] for _, part in found)])
    rows = np.zeros((len(texts), dim), np.float32)
    for places, part in found:
        rows[places.start : places.stop, : part.shape[1]] = part
    return rows
