"""What an embedder is, what may go wrong with one, and what its replies are held to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from hyrecall.errors import HyrecallError, error

__all__ = ["NORMS", "EmbedError", "EmbedFault", "Embedder", "NoVectors", "check_vectors", "norms"]

NORMS = "a norm in [2^-60, 2^60] or a zero vector"
"""What an index takes, for messages."""

_LEAST_NORM, _LARGEST_NORM = 2.0**-60, 2.0**60


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors; any object with these members is one.

    It may be slow, raise or reply nonsense: whoever calls it within a budget bounds the time and
    checks the reply (:func:`check_vectors`). It may be called from several threads at once.

    Beside these it may have ``warm()``, which loads what the first call would wait for,
    ``embed_within(texts, seconds)``, which is called instead of ``embed`` and gives up by itself
    when the seconds are over, and ``close()``.

    Examples
    --------
    >>> class Letters:
    ...     model = "letters"
    ...     dim = 2
    ...
    ...     def embed(self, texts):
    ...         return np.array([[t.count("a"), t.count("b")] for t in texts], np.float32)
    >>> isinstance(Letters(), Embedder)
    True
    """

    @property
    def model(self) -> str:
        """Name stored beside each vector: vectors of two names are never compared."""

    @property
    def dim(self) -> int | None:
        """Length of a vector; None: not known before the first reply."""

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return a row per text; a zero row says that a text has none.

        Parameters
        ----------
        texts : sequence of str

        Returns
        -------
        ndarray, shape (len(texts), dim), float32
            Finite.
        """


class EmbedFault(StrEnum):
    """Why there are no vectors."""

    OFF = "off"
    """Switched off, or none is there."""
    NOT_READY = "not ready"
    """Its model is still being loaded."""
    TIMEOUT = "timeout"
    """No reply within the budget."""
    UNREACHABLE = "unreachable"
    """No connection, or one that broke, or a status that is no reply."""
    CRASHED = "crashed"
    """It raised, or its worker died."""
    MALFORMED = "malformed"
    """A reply that is no vectors, or vectors with NaN, infinity or a norm that no index takes."""
    WRONG_SIZE = "wrong size"
    """Vectors of another length than the store's."""
    HUNG = "hung"
    """Earlier calls have not come back and hold every worker."""
    RESTING = "resting"
    """It failed several times in a row and is left alone for a while."""


class EmbedError(HyrecallError, RuntimeError):
    """An embedder gave no vectors.

    Attributes
    ----------
    fault : EmbedFault
    """

    fault: EmbedFault

    @classmethod
    def of(cls, fault: EmbedFault, expected: str, got: object) -> EmbedError:
        """Make the error of a fault; the message holds no text that was to be embedded.

        Parameters
        ----------
        fault : EmbedFault
        expected : str
        got : object
            Shown as a str.

        Returns
        -------
        EmbedError
        """
        made = error(cls, "embedder", expected, got)
        made.fault = fault
        return made


@dataclass(frozen=True)
class NoVectors:
    """What is given instead of vectors.

    Attributes
    ----------
    fault : EmbedFault
    detail : str
        What is known of it; never a text that was to be embedded.
    """

    fault: EmbedFault
    detail: str = ""


def check_vectors(reply: object, n_texts: int, dim: int | None) -> npt.NDArray[np.float32]:
    """Hold an embedder's reply to its promise.

    Parameters
    ----------
    reply : object
        What it gave: an array or nested sequences of numbers.
    n_texts : int
        How many rows it should have.
    dim : int or None
        Length of a row; None: any, but not 0.

    Returns
    -------
    ndarray, shape (n_texts, dim), float32
        The rows, contiguous.

    Raises
    ------
    EmbedError
        MALFORMED for what is no such array, holds NaN, infinity or what float32 cannot, or has a
        row whose norm is neither 0 nor in [2^-60, 2^60]; WRONG_SIZE for rows of another length.
    """
    try:
        given = np.asarray(reply)
    except ValueError:  # rows of several lengths
        raise EmbedError.of(EmbedFault.MALFORMED, "rows of one length", "several") from None
    if given.dtype.kind not in "fiu" or given.ndim != 2 or len(given) != n_texts:
        got = f"shape {given.shape} of {given.dtype}"
        raise EmbedError.of(EmbedFault.MALFORMED, f"{n_texts} rows of numbers", got)
    if given.shape[1] != dim if dim is not None else given.shape[1] == 0:
        wish = "vectors" if dim is None else f"vectors of {dim} numbers"
        raise EmbedError.of(EmbedFault.WRONG_SIZE, wish, f"{given.shape[1]} numbers")
    with np.errstate(over="ignore"):  # becomes an infinity, which is refused
        rows = np.ascontiguousarray(given, np.float32)
    if not np.isfinite(rows).all():
        at = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
        raise EmbedError.of(EmbedFault.MALFORMED, "finite float32 numbers", f"others in row {at}")
    found, is_taken = norms(rows)
    if not is_taken.all():
        at = int(np.flatnonzero(~is_taken)[0])
        raise EmbedError.of(EmbedFault.MALFORMED, NORMS, f"{found[at]:g} in row {at}")
    return rows


def norms(
    rows: npt.NDArray[np.float32],
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Return the norms of rows, and which of these an index takes.

    It would refuse a whole batch, and every recall, for one that is too small or too large.

    Examples
    --------
    >>> norms(np.array([[3, 4], [0, 0], [1e25, 0]], np.float32))[1].tolist()
    [True, True, False]
    """
    found = np.sqrt(np.square(rows, dtype=np.float64).sum(axis=1))
    return found, (found == 0) | ((found >= _LEAST_NORM) & (found <= _LARGEST_NORM))
