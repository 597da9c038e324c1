"""An embedder that knows nothing: for tests, and to try things without a model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import xxhash

from hyrecall.base.arguments import whole
from hyrecall.base.keywords import check_keywords
from hyrecall.errors import DTypeError, OptionError, error

__all__ = ["HashEmbedder"]

_MOST_DIMS = 65_536


@check_keywords
class HashEmbedder:
    """Embed texts without a model: a word has a direction drawn from its hash, a text is their sum.

    Texts that share words are near each other, and that is all: it knows no meaning. The same text
    has the same vector on every machine.

    Parameters
    ----------
    dim : int, default 64
        Length of a vector, from 1 to 65,536.

    Raises
    ------
    OptionError
        Another length.

    Examples
    --------
    >>> embedder = HashEmbedder(dim=16)
    >>> rows = embedder.embed(["green tea", "tea green", "coffee"])
    >>> bool((rows[0] == rows[1]).all()), bool((rows[0] == rows[2]).all()), embedder.model
    (True, False, 'hash-16')
    """

    def __init__(self, dim: int = 64) -> None:
        """Take the length."""
        length = whole(dim)
        if length is None or not 1 <= length <= _MOST_DIMS:
            raise error(OptionError, "dim", f"an int from 1 to {_MOST_DIMS}", repr(dim))
        self.dim = length
        self.model = f"hash-{length}"

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Embed texts.

        Parameters
        ----------
        texts : sequence of str
            Words are what white space parts, upper or lower case.

        Returns
        -------
        ndarray, shape (len(texts), dim), float32
            Rows of unit length, or zero where the text has no word.

        Raises
        ------
        DTypeError
            One str.

        Notes
        -----
        A hash of a word for each 128 of dim.
        """
        if isinstance(texts, str):
            raise error(DTypeError, "texts", "a sequence of str", "one str")
        rows = np.zeros((len(texts), self.dim), np.float32)
        for at, text in enumerate(texts):
            # Integers: the order of words changes no bit of their sum.
            total = np.zeros(self.dim, np.int64)
            for word in text.casefold().split():
                total += self._direction(word)
            length = np.sqrt(np.float64(total @ total))
            if length:
                rows[at] = total / length
        return rows

    def _direction(self, word: str) -> npt.NDArray[np.int64]:
        """Draw +1 or -1 for each dimension from hashes of the word."""
        data = word.encode(errors="surrogatepass")
        blocks = (xxhash.xxh3_128_digest(data, seed=at) for at in range(-(-self.dim // 128)))
        bits = np.unpackbits(np.frombuffer(b"".join(blocks), np.uint8))[: self.dim]
        return bits.astype(np.int64) * 2 - 1

    def __repr__(self) -> str:
        """Show the width."""
        return f"HashEmbedder(dim={self.dim})"
