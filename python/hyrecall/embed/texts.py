"""Embeds many texts by a guard, some at a time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from hyrecall.embed.guard import OF_TEXT, Guard
from hyrecall.embed.protocol import EmbedError, EmbedFault, NoVectors

__all__ = ["SECONDS_PER_CALL", "embed_texts"]

_TEXTS_AT_ONCE = 64
SECONDS_PER_CALL = 60.0  # as for the memories of a store


def embed_texts(
    guard: Guard,
    texts: Sequence[str | None],
    *,
    seconds: float = math.inf,
    tell: Callable[[int, int], object] | None = None,
    refused: dict[int, NoVectors] | None = None,
) -> npt.NDArray[np.float32]:
    """Return one row per text."""
    until = time.monotonic() + seconds
    found: list[tuple[range, npt.NDArray[np.float32]]] = []
    for first in range(0, len(texts), _TEXTS_AT_ONCE):
        places = range(first, min(first + _TEXTS_AT_ONCE, len(texts)))
        budget = min(SECONDS_PER_CALL, until - time.monotonic())
        some = [texts[at] or "" for at in places]
        answer, why = guard.embed_each(some, budget=budget, waits=True)
        others = OF_TEXT if answer.any() else {EmbedFault.REFUSED}  # it is well, but for this text
        for at, fault in zip(places, why, strict=True):
            if fault is None:
                continue
            if fault.fault not in others:
                raise EmbedError.of_reply(fault, f"vectors of {len(places)} texts")
            if refused is None:
                raise EmbedError.of_reply(fault, f"a vector of text {at}")
            refused[at] = fault
        found.append((places, answer))
        if tell is not None:
            tell(places.stop, len(texts))
    # Replies for blank texts have zero columns if the embedder's dim is not known.
    dim = max([guard.dim or 1, *(part.shape[1] for _, part in found)])
    rows = np.zeros((len(texts), dim), np.float32)
    for places, part in found:
        rows[places.start : places.stop, : part.shape[1]] = part
    return rows
