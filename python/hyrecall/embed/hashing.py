"""An embedder without a model, for tests and experiments: hashes words into vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import xxhash

from hyrecall.base.arguments import as_int
from hyrecall.base.keywords import check_keywords
from hyrecall.embed.protocol import beginning
from hyrecall.errors import DTypeError, OptionError, error

__all__ = ["HashEmbedder"]

_MOST_DIMS = 65_536


@check_keywords
class HashEmbedder:
    """Embeds texts without a model: a text is the sum of directions that its words' hashes choose.

    Texts that share words are near each other; meaning has no influence. The same text has the same
    vector on every machine.

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
        """Check the length."""
        length = as_int(dim)
        if length is None or not 1 <= length <= _MOST_DIMS:
            raise error(OptionError, "dim", f"an int from 1 to {_MOST_DIMS}", repr(dim))
        self.dim = length
        self.model = f"hash-{length}"

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Embed texts.

        Parameters
        ----------
        texts : sequence of str
            Words are separated by white space; case does not matter. Of a text of more than 16,384
            characters the first 16,384 are read.

        Returns
        -------
        ndarray, shape (len(texts), dim), float32
            Rows of unit length, or zero for a text without a word.

        Raises
        ------
        DTypeError
            A single str.

        Notes
        -----
        Computes one hash per word and 128 dimensions.
        """
        if isinstance(texts, str):
            raise error(DTypeError, "texts", "a sequence of str", "one str")
        rows = np.zeros((len(texts), self.dim), np.float32)
        for at, text in enumerate(texts):
            # Integers, so that the order of words does not change the sum.
            total = np.zeros(self.dim, np.int64)
            for word in beginning(text).casefold().split():
                total += self._direction(word)
            length = np.sqrt(np.float64(total @ total))
            if length:
                rows[at] = total / length
        return rows

    def _direction(self, word: str) -> npt.NDArray[np.int64]:
        """Return +1 or -1 for each dimension, from hashes of the word."""
        data = word.encode(errors="surrogatepass")
        blocks = (xxhash.xxh3_128_digest(data, seed=at) for at in range(-(-self.dim // 128)))
        bits = np.unpackbits(np.frombuffer(b"".join(blocks), np.uint8))[: self.dim]
        return bits.astype(np.int64) * 2 - 1

    def __repr__(self) -> str:
        """Show the length of vectors."""
        return f"HashEmbedder(dim={self.dim})"
