"""Defines the protocol of embedders and their faults, and checks their replies."""

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
"""The norms that an index accepts, for messages."""

_LEAST_NORM, _LARGEST_NORM = 2.0**-60, 2.0**60


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors; any object with these members is an embedder.

    It may be slow, raise or return invalid data: the caller limits the time and checks the reply
    (:func:`check_vectors`). It may be called from several threads at once.

    Optional members are ``warm()``, which loads the model before the first call,
    ``embed_within(texts, seconds)``, which is called instead of ``embed`` and ends after so many
    seconds, and ``close()``.

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
        """Name stored with each vector: vectors with different names are never compared."""

    @property
    def dim(self) -> int | None:
        """Length of a vector; None if it is not known before the first reply."""

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return one row per text; a zero row means that a text has no vector.

        Parameters
        ----------
        texts : sequence of str

        Returns
        -------
        ndarray, shape (len(texts), dim), float32
            Finite.
        """


class EmbedFault(StrEnum):
    """The reasons for a reply without vectors."""

    OFF = "off"
    """The embedder is switched off, or there is none."""
    NOT_READY = "not ready"
    """The model is still being loaded."""
    TIMEOUT = "timeout"
    """There was no reply within the budget."""
    UNREACHABLE = "unreachable"
    """There was no connection, it broke, or the server replied with an error status."""
    CRASHED = "crashed"
    """The embedder raised an exception."""
    MALFORMED = "malformed"
    """The reply is not vectors, or has NaN, infinity or a norm that an index does not accept."""
    WRONG_SIZE = "wrong size"
    """The vectors have another length than those of the store."""
    HUNG = "hung"
    """Earlier calls have not returned and block every worker."""
    RESTING = "resting"
    """The embedder failed several times in a row and is not called for a while."""


class EmbedError(HyrecallError, RuntimeError):
    """An embedder returned no vectors.

    Attributes
    ----------
    fault : EmbedFault
    detail : str
        That of the guard's reply, if it came from one.
    """

    fault: EmbedFault
    detail: str = ""

    @classmethod
    def of_reply(cls, reply: NoVectors, n_texts: int) -> EmbedError:
        """Make the error for a guard's reply to a number of texts.

        Parameters
        ----------
        reply : NoVectors
        n_texts : int

        Returns
        -------
        EmbedError
        """
        got = f"{reply.fault}: {reply.detail}" if reply.detail else reply.fault
        made = cls.of(reply.fault, f"vectors of {n_texts} texts", got)
        made.detail = reply.detail
        return made

    @classmethod
    def of(cls, fault: EmbedFault, expected: str, got: object) -> EmbedError:
        """Make the error for a fault; the message must not contain a text to be embedded.

        Parameters
        ----------
        fault : EmbedFault
        expected : str
        got : object
            Converted to str.

        Returns
        -------
        EmbedError
        """
        made = error(cls, "embedder", expected, got)
        made.fault = fault
        return made


@dataclass(frozen=True)
class NoVectors:
    """A reply without vectors, and its reason.

    Attributes
    ----------
    fault : EmbedFault
    detail : str
        Details; never a text that was to be embedded.
    """

    fault: EmbedFault
    detail: str = ""


def check_vectors(reply: object, n_texts: int, dim: int | None) -> npt.NDArray[np.float32]:
    """Check an embedder's reply and convert it to float32.

    Parameters
    ----------
    reply : object
        An array or nested sequences of numbers.
    n_texts : int
        Expected number of rows.
    dim : int or None
        Expected length of a row; None allows any length except 0.

    Returns
    -------
    ndarray, shape (n_texts, dim), float32
        The rows, contiguous.

    Raises
    ------
    EmbedError
        MALFORMED for a reply that is not an array of this shape, holds NaN, infinity or a value
        that float32 cannot hold, or has a row whose norm is neither 0 nor in [2^-60, 2^60].
        WRONG_SIZE for rows of another length.
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
    """Return the norms of rows, and whether an index accepts each.

    An index refuses a whole batch, and a recall, if a single norm is too small or too large.

    Examples
    --------
    >>> norms(np.array([[3, 4], [0, 0], [1e25, 0]], np.float32))[1].tolist()
    [True, True, False]
    """
    found = np.sqrt(np.square(rows, dtype=np.float64).sum(axis=1))
    return found, (found == 0) | ((found >= _LEAST_NORM) & (found <= _LARGEST_NORM))
