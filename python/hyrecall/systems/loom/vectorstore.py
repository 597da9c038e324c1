"""Texts with vectors in memory, searched by ``recipes.loom`` as ``recall_scored`` is."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from hyrecall.base.arguments import as_int, check_keywords
from hyrecall.base.forks import free_in_children
from hyrecall.embed import Embedder
from hyrecall.embed.protocol import check_vectors, composed
from hyrecall.errors import DTypeError, OptionError, ShapeError, error
from hyrecall.memory import Episode
from hyrecall.memory.data.types import checked
from hyrecall.systems.loom.neutral_scores import Rows, check_recall, ranked

__all__ = ["FoundText", "VectorStore"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class FoundText(NamedTuple):
    """A text that was found.

    Attributes
    ----------
    id, text : str
    metadata : dict
        A copy.
    score : float
        As ``recall_scored`` of a store with ``recipes.loom`` gives it.
    vector_score : float or None
        Cosine in [-1, 1]; None: not computed.
    bm25_score : float or None
        BM25, >= 0; None: not computed.
    """

    id: str
    text: str
    metadata: dict[str, Any]
    score: float
    vector_score: float | None
    bm25_score: float | None


@check_keywords
class VectorStore:
    """Texts of one audience, with a vector each; nothing is kept on a disk.

    Parameters
    ----------
    embedder : Embedder, optional
        Makes the vectors that are not given. It is called as it is, without a budget.

    Notes
    -----
    Threads may share it. A search sees the texts that were there when it began, and makes an index
    of those that the filter leaves: it costs all of them.

    Examples
    --------
    >>> from hyrecall.embed import HashEmbedder
    >>> store = VectorStore(HashEmbedder(dim=16))
    >>> ids = store.add(["green tea", "black coffee"])
    >>> store.search_hybrid("tea", k=1)[0].text
    'green tea'
    """

    def __init__(self, embedder: Embedder | None = None) -> None:
        """Start empty."""
        self._embedder = embedder
        self._lock = free_in_children(threading.Lock())
        self._episodes: tuple[Episode, ...] = ()
        self._rows: Rows | None = None

    def add(
        self,
        texts: Sequence[str],
        *,
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        ids: Sequence[str] | None = None,
        vectors: object = None,
    ) -> list[str]:
        """Add texts and return their ids.

        Parameters
        ----------
        texts : sequence of str
        metadatas : sequence of mapping, optional
            JSON, one per text.
        ids : sequence of str, optional
            One per text; default: drawn at random.
        vectors : array, shape (n_texts, dim), float32 or convertible, optional
            One per text, finite; in place of the embedder's. A zero row has none.

        Returns
        -------
        list of str
            In the order of the texts.

        Raises
        ------
        ShapeError
            Lists of other lengths, or vectors of another length than those there.
        OptionError, DTypeError
            An id twice, no vectors and no embedder, a text or metadata that cannot be kept.
        EmbedError
            The embedder or ``vectors`` gave no such rows.

        Notes
        -----
        One call of the embedder. All texts are kept, or none.
        """
        if isinstance(texts, str):
            raise error(DTypeError, "texts", "a sequence of str", "a str")
        for name, given in (("metadatas", metadatas), ("ids", ids)):
            if given is not None and len(given) != len(texts):
                raise error(ShapeError, name, f"{len(texts)}, one per text", len(given))
        names = [Episode().id for _ in texts] if ids is None else ids
        new = tuple(
            checked(
                Episode,
                {
                    "id": names[at],
                    "text": text,
                    "occurred_at": _EPOCH,  # equal scores are ordered by id alone
                    "metadata": {} if metadatas is None else metadatas[at],
                },
            )
            for at, text in enumerate(texts)
        )
        rows = self._vectors([one.text for one in new], vectors)
        with self._lock:
            episodes = self._episodes + new
            if len({one.id for one in episodes}) < len(episodes):
                raise error(OptionError, "ids", "each id once", "one that is there")
            known = self._rows
            if known is not None and new and known.shape[1] != rows.shape[1]:
                raise error(ShapeError, "vectors", f"{known.shape[1]} numbers", rows.shape[1])
            self._rows = rows if known is None else np.concatenate([known, rows])
            self._episodes = episodes
        return [one.id for one in new]

    def search_hybrid(
        self,
        query: str,
        k: int = 4,
        filter: Mapping[str, Any] | None = None,  # noqa: A002
        alpha: float = 0.5,
        *,
        vector: object = None,
    ) -> list[FoundText]:
        """Find texts by words and vectors, as ``recall_scored`` of a store of ``recipes.loom``.

        Parameters
        ----------
        query : str
            Blank gives texts in the order they were added.
        k : int, default 4
            How many at most, in [0, 2^31).
        filter : mapping, optional
            Keys of the metadata that must have these values.
        alpha : float, default 0.5
            In [0, 1]. 0: words alone, 1: vectors alone.
        vector : array, shape (dim,), float32 or convertible, optional
            In place of the query's embedding.

        Returns
        -------
        list of FoundText
            At most k, best first; equal ones by id.

        Raises
        ------
        EmbedError
            The embedder gave no vector.

        Notes
        -----
        One call of the embedder, none for a blank query or with ``vector``.
        """
        if as_int(k) is None:
            raise error(OptionError, "k", "an int >= 0", repr(k))
        if filter is not None and not isinstance(filter, Mapping):
            raise error(DTypeError, "filter", "a mapping of metadata", type(filter).__name__)
        if vector is None and self._embedder is not None and isinstance(query, str):
            vector = self._vectors([query], None)[0] if query.strip() else None
        ask = check_recall(query, kind=None, limit=k, alpha=alpha, vector=vector)
        with self._lock:
            episodes, rows = self._episodes, self._rows
        wanted = {} if filter is None else dict(filter)
        places = [
            at
            for at, one in enumerate(episodes)
            if all(
                name in one.metadata and one.metadata[name] == value
                for name, value in wanted.items()
            )
        ]
        kept = [episodes[at] for at in places]
        matches = ranked(kept, ask, None if rows is None else rows[places])
        return [
            FoundText(
                match.episode.id,
                match.episode.text,
                dict(match.episode.metadata),
                match.score,
                match.vector_score,
                match.bm25_score,
            )
            for match in matches
        ]

    def __len__(self) -> int:
        """Count the texts."""
        return len(self._episodes)

    def _vectors(self, texts: Sequence[str], given: object) -> Rows:
        if given is not None:
            return check_vectors(given, len(texts), None)
        if self._embedder is None:
            raise error(OptionError, "vectors", "vectors, or a store with an embedder", "neither")
        rows = self._embedder.embed([composed(one) for one in texts])
        return check_vectors(rows, len(texts), self._embedder.dim)
