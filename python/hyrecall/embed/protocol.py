"""Defines the protocol of embedders and their faults, and checks their replies."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from hyrecall.errors import HyrecallError, error

NORMS = "a norm in [2^-60, 2^60] or a zero vector"
"""The norms that an index accepts, for messages."""

_LEAST_NORM, _LARGEST_NORM = 2.0**-60, 2.0**60


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors; any object with these members is an embedder.

    It may be slow, raise or return invalid data: the caller limits the time and checks the reply.
    It may be called from several threads at once. An exception with a ``status_code`` is read as
    the status of an endpoint: 400 is the fault of a text, 401 of the key, 503 of the endpoint.

    Optional members are ``warm()``, which loads the model before the first call,
    ``embed_within(texts, seconds)``, which is called instead of ``embed`` and ends after so many
    seconds, ``close()``, and ``is_prompt = True``, which says that a text of 2,000 characters takes
    less than a few milliseconds, so that it needs no thread with a time limit. A class says so of
    itself, not of those that derive from it.

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
    """There was no connection, it broke, or the server is too busy or failing (429, 5xx)."""
    CONFIGURATION = "configuration"
    """The server refuses the key, the path or the model (401, 403, 404), whatever the text."""
    REFUSED = "refused"
    """The server refuses this text (any other 4xx): it is too long, say."""
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
    said : str
        The message of the endpoint itself, shortened.
    """

    fault: EmbedFault
    detail: str = ""
    said: str = ""


@dataclass(frozen=True)
class NoVectors:
    """A reply without vectors, and its reason."""

    fault: EmbedFault
    detail: str = ""  # never a text that was to be embedded, so it may be logged
    # The message of the endpoint itself, shortened: shown to whoever gave the text, never logged.
    said: str = field(default="", repr=False)

    @property
    def told(self) -> str:
        """The details with the endpoint's own message."""
        return f"{self.detail} ({self.said})" if self.said else self.detail


def embed_error(fault: EmbedFault, expected: str, got: object, said: str = "") -> EmbedError:
    """Make the error for a fault; the message must not contain a text to be embedded."""
    told = NoVectors(fault, str(got), said).told
    made = error(EmbedError, "embedder", expected, told)
    made.fault, made.said = fault, said
    made.detail = str(error(EmbedError, "embedder", expected, got)).removeprefix("embedder: ")
    return made


def error_of_reply(reply: NoVectors, expected: str) -> EmbedError:
    """Make the error for a guard's reply."""
    got = f"{reply.fault}: {reply.told}" if reply.told else reply.fault
    made = embed_error(reply.fault, expected, got)
    made.detail, made.said = reply.detail, reply.said
    return made


_OF_CONFIGURATION = frozenset({401, 402, 403, 404, 405, 407, 410})
_OF_MOMENT = frozenset({408, 421, 425, 429})


def fault_of_status(status: int) -> EmbedFault:
    """Return what an HTTP status of an endpoint says: about the text, the key, or the endpoint."""
    if status in _OF_CONFIGURATION:
        return EmbedFault.CONFIGURATION
    is_refusal = 400 <= status < 500 and status not in _OF_MOMENT
    return EmbedFault.REFUSED if is_refusal else EmbedFault.UNREACHABLE


CHARACTERS_PER_TOKEN = 32
"""More than the characters of nearly any token: so many tell a model all that it can read."""

MOST_CHARACTERS = 512 * CHARACTERS_PER_TOKEN
"""The beginning of a text that an embedder without a length of its own reads."""


def beginning(text: str, most: int = MOST_CHARACTERS) -> str:
    """Return the beginning of a text that is longer than a model reads."""
    # A tokenizer would take seconds for megabytes of which the model gets the first hundred words.
    return text if len(text) <= most else text.lstrip()[:most]


_PIECE = re.compile(r".{1,1024}(?=\Z|\s|[^\W\u1160-\u11ff])|.{1,1024}", re.DOTALL)
"""A part of a text that ends before a letter: normalizing takes quadratic time for many accents."""


def composed(text: str) -> str:
    """Return a text in NFC, so that both spellings of an accent get the same vector."""
    if text.isascii():
        return text
    return "".join(unicodedata.normalize("NFC", one) for one in _PIECE.findall(text))


def check_vectors(reply: object, n_texts: int, dim: int | None) -> npt.NDArray[np.float32]:
    """Return an embedder's reply as contiguous float32 rows, or raise EmbedError."""
    # MALFORMED is a reply that is not an array of this shape, holds NaN, infinity or a value that
    # float32 cannot hold, or has a row whose norm is neither 0 nor in [2^-60, 2^60]; WRONG_SIZE one
    # with rows of another length. ``dim`` None allows any length except 0.
    try:
        given = np.asarray(reply)
    except ValueError:  # rows of several lengths
        raise embed_error(EmbedFault.MALFORMED, "rows of one length", "several") from None
    if given.dtype.kind not in "fiu" or given.ndim != 2 or len(given) != n_texts:
        got = f"shape {given.shape} of {given.dtype}"
        raise embed_error(EmbedFault.MALFORMED, f"{n_texts} rows of numbers", got)
    if given.shape[1] != dim if dim is not None else given.shape[1] == 0:
        wish = "vectors" if dim is None else f"vectors of {dim} numbers"
        raise embed_error(EmbedFault.WRONG_SIZE, wish, f"{given.shape[1]} numbers")
    if given.dtype == np.float32:
        rows = np.ascontiguousarray(given)
    else:
        with np.errstate(over="ignore"):  # becomes an infinity, which is refused
            rows = np.ascontiguousarray(given, np.float32)
    found, is_taken = norms(rows)  # no number that is not finite has a norm that is taken
    if not is_taken.all():
        if not (is_finite := np.isfinite(rows).all(axis=1)).all():
            got = f"others in row {int(np.flatnonzero(~is_finite)[0])}"
            raise embed_error(EmbedFault.MALFORMED, "finite float32 numbers", got)
        at = int(np.flatnonzero(~is_taken)[0])
        raise embed_error(EmbedFault.MALFORMED, NORMS, f"{found[at]:g} in row {at}")
    return rows


def norms(
    rows: npt.NDArray[np.float32],
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Return the norms of rows, and whether an index accepts each."""
    # An index refuses a whole batch, and a recall, if a single norm is too small or too large.
    found = np.sqrt(np.square(rows, dtype=np.float64).sum(axis=1))
    return found, (found == 0) | ((found >= _LEAST_NORM) & (found <= _LARGEST_NORM))
