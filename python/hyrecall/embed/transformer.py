"""Embeds texts with a transformer model from a local folder, using torch."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from hyrecall.base.arguments import as_int, check_keywords, read_path
from hyrecall.base.forks import free_in_children
from hyrecall.embed.protocol import CHARACTERS_PER_TOKEN, beginning
from hyrecall.errors import DTypeError, MissingExtraError, OptionError, error

Pooling = Literal["mean", "cls", "last"]

_CONFIG = "config.json"
_SENTENCES = "sentence_bert_config.json"

Floats = npt.NDArray[np.float32]


def embed_by_length(
    texts: Sequence[str], batch: int, embed: Callable[[list[str]], Floats], dim: int
) -> Floats:
    """Check texts and embed batches of similar length; a blank text has a zero row."""
    if isinstance(texts, str):
        raise error(DTypeError, "texts", "a sequence of str", "one str")
    for at, text in enumerate(texts):
        if not isinstance(text, str):
            raise error(DTypeError, f"texts[{at}]", "a str", type(text).__name__)
    # Texts of similar length together need less padding.
    asked = [at for at, text in enumerate(texts) if text.strip()]
    asked.sort(key=lambda at: len(texts[at]))
    parts = [
        embed([texts[at] for at in asked[first : first + batch]])
        for first in range(0, len(asked), batch)
    ]
    rows = np.zeros((len(texts), parts[0].shape[1] if parts else dim), np.float32)
    if parts:
        rows[asked] = np.concatenate(parts)
    return rows


def read_count(argument: str, value: object) -> int:
    """Check a number that is at least 1, such as that of texts per call of a model."""
    count = as_int(value)
    if count is None or count < 1:
        raise error(OptionError, argument, "an int of at least 1", repr(value))
    return count


@check_keywords
class TransformerEmbedder:
    """Embeds texts with a transformer model from a folder.

    Nothing is downloaded and no code of the folder runs. The folder holds a configuration, a
    tokenizer and weights as safetensors. The first call, or :meth:`warm`, loads them.

    Parameters
    ----------
    folder : path
    device : str, default "cpu"
        A device of torch, such as ``"cuda"`` or ``"cuda:1"``.
    pooling : {"mean", "cls", "last"}, default "mean"
        A text's vector in the last layer: the mean of its tokens, its first or its last token.
    normalize : bool, default True
        Whether rows are scaled to unit length.
    batch : int, default 32
        Number of texts per call of the model.
    model : str, optional
        Name stored with the vectors; default: the folder's name and the pooling.

    Raises
    ------
    MissingExtraError
        The extra ``[transformer]`` is not installed.
    OptionError
        The folder has no ``config.json``, or an argument is not valid.

    Notes
    -----
    A text that is too long is cut: after ``max_seq_length`` tokens where the folder has a
    ``sentence_bert_config.json``, otherwise after as many as the model takes. The other texts of a
    batch may change the last bits of a row, because the padding depends on them.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        device: str = "cpu",
        pooling: Pooling = "mean",
        normalize: bool = True,
        batch: int = 32,
        model: str | None = None,
    ) -> None:
        """Check the arguments and read the configuration, but not the weights."""
        self._folder = read_path(folder)
        if pooling not in get_args(Pooling):
            raise error(OptionError, "pooling", '"mean", "cls" or "last"', repr(pooling))
        self._batch = read_count("batch", batch)
        if not (self._folder / _CONFIG).is_file():
            raise error(OptionError, "folder", f"a folder with {_CONFIG}", str(self._folder))
        for package in ("torch", "transformers", "safetensors"):
            if find_spec(package) is None:
                wish = "torch and transformers (pip install 'hyrecall[transformer]')"
                raise error(MissingExtraError, "embedder", wish, f"no package {package}")
        self._device = device
        self._pooling = pooling
        self._normalize = normalize
        self.model = model or f"{self._folder.name}/{pooling}"
        self.dim = self._configured(_CONFIG, "hidden_size")
        has_limit = (self._folder / _SENTENCES).is_file()
        self._max_seq_length = self._configured(_SENTENCES, "max_seq_length") if has_limit else None
        self._lock = free_in_children(threading.Lock())
        self._loaded: tuple[Any, Any] | None = None

    def warm(self) -> None:
        """Load tokenizer and weights now instead of in the first call."""
        self._load()

    def embed(self, texts: Sequence[str]) -> Floats:
        """Embed texts.

        Parameters
        ----------
        texts : sequence of str
            A text that is too long for the model is cut.

        Returns
        -------
        ndarray, shape (len(texts), dim), float32
            A blank text has a zero row, which an index treats as a missing vector.

        Raises
        ------
        DTypeError
            An item that is not a str, or a single str.
        """
        return embed_by_length(texts, self._batch, self._embedded, self.dim or 0)

    def close(self) -> None:
        """Release the weights; a later call loads them again."""
        with self._lock:
            self._loaded = None

    def _embedded(self, texts: list[str]) -> Floats:
        import torch

        tokenizer, network = self._load()
        most = self._most_tokens(tokenizer, network)
        some = [beginning(text, most * CHARACTERS_PER_TOKEN) for text in texts]
        with self._lock:  # the tokenizer has the padding as state
            tokens = tokenizer(
                some,
                padding=True,
                truncation=True,
                max_length=most,
                return_tensors="pt",
            ).to(self._device)
        with torch.inference_mode():
            layer = network(**tokens).last_hidden_state.float()
            pooled = self._pooled(layer, tokens["attention_mask"])
            if self._normalize:
                pooled = torch.nn.functional.normalize(pooled, dim=1)
        rows: Floats = pooled.cpu().numpy()
        return rows

    def _pooled(self, layer: Any, mask: Any) -> Any:
        """Return one row per text from the last layer, of shape (texts, tokens, dim)."""
        if self._pooling == "mean":
            weights = mask.unsqueeze(2).to(layer.dtype)
            return (layer * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1)
        # Padding may be on either side.
        places = mask.cumsum(dim=1) * mask
        at = places.argmax(dim=1) if self._pooling == "last" else mask.argmax(dim=1)
        return layer[range(len(layer)), at]

    def _load(self) -> tuple[Any, Any]:
        with self._lock:
            if self._loaded is None:
                self._loaded = self._read()
            return self._loaded

    def _read(self) -> tuple[Any, Any]:
        """Return the tokenizer and the network from the folder."""
        from transformers import AutoModel, AutoTokenizer

        local = {"local_files_only": True, "trust_remote_code": False}
        tokenizer = AutoTokenizer.from_pretrained(self._folder, **local)
        with _without_progress_bar():
            network = AutoModel.from_pretrained(self._folder, use_safetensors=True, **local)
        return tokenizer, network.to(self._device)

    def _configured(self, file: str, key: str) -> int | None:
        """Return an integer of a JSON file of the folder; None if the file does not state it."""
        path = self._folder / file
        try:
            given = json.loads(path.read_bytes()).get(key)
        except (ValueError, AttributeError) as fault:
            raise error(OptionError, str(path), "a JSON object", type(fault).__name__) from None
        return as_int(given)

    def _most_tokens(self, tokenizer: Any, network: Any) -> int:
        """Return the most tokens of a text; a tokenizer without a limit has 10**30."""
        places = getattr(network.config, "max_position_embeddings", None)
        limits = [int(tokenizer.model_max_length), int(places or 512)]
        if self._max_seq_length is not None:
            limits.append(self._max_seq_length)
        return min(limits)

    def __repr__(self) -> str:
        """Show the model and the device."""
        return f"{type(self).__name__}({self.model!r}, device={self._device!r})"


@contextmanager
def _without_progress_bar() -> Iterator[None]:
    """Load weights without a bar on stderr: a tenth of a second of work in somebody's program."""
    from transformers.utils import logging

    was_on = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_on:
            logging.enable_progress_bar()
