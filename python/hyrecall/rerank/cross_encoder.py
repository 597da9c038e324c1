"""Scores pairs of a query and a text with a cross-encoder, an ONNX model of a local folder."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from hyrecall.base.arguments import as_int, check_keywords, number, read_path
from hyrecall.base.runtime import choose_threads
from hyrecall.embed.onnx import INPUTS, LoadedModel, padded
from hyrecall.embed.protocol import CHARACTERS_PER_TOKEN, beginning
from hyrecall.embed.transformer import read_count
from hyrecall.errors import DTypeError, MissingExtraError, OptionError, error

# ---- Reads what a model's folder says: its ONNX file, its tokenizer and the most tokens of a pair

_FILES = ("model.onnx", "onnx/model.onnx")
_TOKENIZER, _CONFIG, _OF_TOKENIZER = "tokenizer.json", "config.json", "tokenizer_config.json"
_DEFAULT_TOKENS = 512
_LATE_POSITIONS = ("roberta", "camembert", "mpnet", "longformer")


@dataclass(frozen=True)
class PairTokenizer:
    """A tokenizer that cuts pairs, the number for padding, and the most tokens of a pair."""

    tokenizer: Any
    padding: int
    max_length: int


def model_file(folder: Path, given: str | None) -> Path:
    """Return the ONNX file of a folder: the one with this name, or a usual one."""
    names = _FILES if given is None else (given,)
    for name in names:
        if (folder / name).is_file():
            return folder / name
    argument = "folder" if given is None else "file"
    raise error(OptionError, argument, f"a folder with {' or '.join(names)}", str(folder))


def read_tokenizer(folder: Path, max_length: int | None) -> PairTokenizer:
    """Return the tokenizer of a folder, which cuts each pair to the most tokens."""
    # Without ``max_length`` the most tokens are the least of what the tokenizer, its configuration
    # and the model's configuration say.
    path = folder / _TOKENIZER
    if not path.is_file():
        raise error(OptionError, "folder", f"a folder with {_TOKENIZER}", str(folder))
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as fault:  # the package raises plain exceptions
        raise error(OptionError, str(path), "a tokenizer", f"{type(fault).__name__}") from None
    config = _settings(folder / _CONFIG)
    padding = (tokenizer.padding or {}).get("pad_id", as_int(config.get("pad_token_id")) or 0)
    positions = _positions(config)
    least = tokenizer.num_special_tokens_to_add(is_pair=True) + 2  # a token of each text
    if max_length is None:
        cut = (tokenizer.truncation or {}).get("max_length")
        told = as_int(_settings(folder / _OF_TOKENIZER).get("model_max_length"))
        limits = [one for one in (cut, told, positions) if one is not None and one >= least]
        max_length = min(limits, default=_DEFAULT_TOKENS)
    elif max_length < least or (positions is not None and max_length > positions):
        end = "" if positions is None else f" and at most {positions}"
        wish = f"an int of at least {least}{end}, as the model takes"
        raise error(OptionError, "max_length", wish, max_length)
    tokenizer.no_padding()  # a batch is padded to its own longest pair
    tokenizer.enable_truncation(max_length, strategy="longest_first")
    return PairTokenizer(tokenizer, padding, max_length)


def _positions(config: Mapping[str, Any]) -> int | None:
    """Return how many tokens have a position in the model, if its configuration says so."""
    places = as_int(config.get("max_position_embeddings"))
    if places is None or places < 1:
        return None
    kind = str(config.get("model_type", ""))
    if any(name in kind for name in _LATE_POSITIONS):
        # These models count positions from the number after that of the padding.
        return places - (as_int(config.get("pad_token_id")) or 1) - 1
    return places


def _settings(path: Path) -> Mapping[str, Any]:
    """Return the JSON object of a file; an empty one if there is no file."""
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError) as fault:
        raise error(OptionError, str(path), "a JSON object", type(fault).__name__) from None
    if not isinstance(found, dict):
        raise error(OptionError, str(path), "a JSON object", type(found).__name__)
    return found


# ---- Scores pairs of a query and a text with a cross-encoder, an ONNX model of a local folder ----

Floats = npt.NDArray[np.float64]

_TYPES = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
_LOGITS = "logits"


@check_keywords
class CrossEncoder:
    """Scores texts for a query with a cross-encoder, for :class:`hyrecall.RerankBy`.

    A cross-encoder reads query and text together, so it judges better than two vectors do, and it
    costs a pass of the model for each text. Needs the extra ``[rerank]`` (onnxruntime). The model
    is an ONNX file in a local folder with a ``tokenizer.json``; nothing is downloaded, and no code
    of the folder runs. It runs on the CPU.

    Parameters
    ----------
    folder : path
        With ``model.onnx`` (or ``onnx/model.onnx``) and ``tokenizer.json``; ``config.json`` and
        ``tokenizer_config.json`` are read if they are there.
    file : str, optional
        Another ONNX file of the folder, such as ``"onnx/model_quantized.onnx"``.
    max_length : int, optional
        The most tokens of a pair; of a longer pair the longer text is cut. Default: what tokenizer
        and model say, or 512.
    relevant : int, optional
        Which of two logits says that the text is relevant, 0 or 1; default: 1. Refused for a model
        with one logit.
    batch : int, default 16
        Number of pairs in a pass of the model. The time is looked at between passes.
    timeout : float, optional
        The most seconds for a query, in (0, 3600]; default: no limit of its own. A stage has a
        limit too, and the shorter holds; a store allows so much instead of its usual second.
    threads : int, optional
        For the model, in [1, 1024]; default: what affinity and cgroup allow.

    Attributes
    ----------
    model : str
        The folder's name.
    max_length : int
    timeout : float or None

    Raises
    ------
    MissingExtraError
        The extra is not installed.
    OptionError
        The folder lacks a file, the model has other inputs or outputs, or an argument is not valid.

    Notes
    -----
    A score is a logit: the natural logarithm of the odds that the text is relevant, unbounded, the
    larger the better. Of a model with two logits it is their difference, so that 0 means even odds
    for both kinds. ``1 / (1 + exp(-score))`` is the probability. ``RerankBy`` orders by scores
    alone, so it takes any scale; logits are kept because probabilities near 1 round to ties.

    A forked process loads the model again. It must end by ``os._exit``, as a worker of
    multiprocessing does: onnxruntime waits at a plain exit for threads that only its parent has.

    The other texts of a call may change the last bits of a score, because padding and the size of
    a batch depend on them.

    Examples
    --------
    >>> encoder = CrossEncoder("models/reranker")  # doctest: +SKIP
    >>> encoder("hot drinks", ["green tea", "a red car"])  # doctest: +SKIP
    array([ 2.1, -7.4])
    >>> index.recall(text=["hot drinks"], scope="ann",
    ...     shaping=hr.RerankBy(encoder, window=20, timeout="2s"))  # doctest: +SKIP
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        file: str | None = None,
        max_length: int | None = None,
        relevant: int | None = None,
        batch: int = 16,
        timeout: float | None = None,
        threads: int | None = None,
    ) -> None:
        """Check the arguments, load the model and run it once."""
        if find_spec("onnxruntime") is None:
            wish = "onnxruntime (pip install 'hyrecall[rerank]')"
            raise error(MissingExtraError, "CrossEncoder", wish, "no package onnxruntime")
        home = read_path(folder)
        if relevant is not None and as_int(relevant) not in (0, 1):
            raise error(OptionError, "relevant", "0 or 1", repr(relevant))
        self._batch = read_count("batch", batch)
        wish = "seconds in (0, 3600], or None"
        self.timeout = None if timeout is None else number("timeout", timeout, 0, 3_600, wish)
        if self.timeout == 0:
            raise error(OptionError, "timeout", wish, timeout)
        count = choose_threads(threads)
        self._path = model_file(home, file)
        most = None if max_length is None else read_count("max_length", max_length)
        self._pairs = read_tokenizer(home, most)
        self.model = home.name
        self.max_length = self._pairs.max_length
        self._session = LoadedModel(self._path, count)
        self._inputs = _read_inputs(self._path, self._session.inputs)
        self._output = _read_output(self._path, self._session.outputs)
        n_logits = self._trial()
        if relevant is not None and n_logits == 1:
            raise error(OptionError, "relevant", "None (the model has one logit)", relevant)
        self._relevant = 1 if relevant is None else int(relevant)

    def __call__(self, query: str, texts: Sequence[str]) -> Floats:
        """Score texts for a query, as :meth:`scores_within` without a limit of the caller."""
        return self.scores_within(query, texts, math.inf)

    def scores_within(self, query: str, texts: Sequence[str], seconds: float) -> Floats:
        """Score texts for a query, or stop after some seconds.

        Parameters
        ----------
        query : str
        texts : sequence of str
        seconds : float
            Looked at before each pass of the model; the encoder's own ``timeout`` if that is less.

        Returns
        -------
        ndarray, shape (len(texts),), float64
            Logits in the order of the texts; the larger the better.

        Raises
        ------
        TimeoutError
            There are no scores in time.
        DTypeError
            A query or a text that is not a str, or a single str as texts.
        """
        until = time.monotonic() + min(seconds, math.inf if self.timeout is None else self.timeout)
        if not isinstance(query, str):
            raise error(DTypeError, "query", "a str", type(query).__name__)
        if isinstance(texts, str):
            raise error(DTypeError, "texts", "a sequence of str", "one str")
        for at, text in enumerate(texts):
            if not isinstance(text, str):
                raise error(DTypeError, f"texts[{at}]", "a str", type(text).__name__)
        scores = np.zeros(len(texts))
        most = self.max_length * CHARACTERS_PER_TOKEN  # a tokenizer reads megabytes for seconds
        query = beginning(query, most)
        pairs = [(query, beginning(text, most)) for text in texts]
        encoded = self._pairs.tokenizer.encode_batch(pairs)
        for places in self._batches(encoded):
            if time.monotonic() >= until:
                raise TimeoutError
            logits = self._logits([encoded[at] for at in places])
            scores[places] = _scores(logits, self._relevant)
        return scores

    def close(self) -> None:
        """Release the model; a later call loads it again."""
        self._session.close()

    def _batches(self, encoded: Sequence[Any]) -> Iterator[list[int]]:
        """Return the places of the pairs of each pass; pairs of similar length are together."""
        # A model without a mask would read padding as text, so its passes have pairs of one length.
        order = sorted(range(len(encoded)), key=lambda at: len(encoded[at].ids))
        has_mask = "attention_mask" in self._inputs
        batch: list[int] = []
        for at in order:
            is_longer = bool(batch) and len(encoded[at].ids) > len(encoded[batch[0]].ids)
            if len(batch) == self._batch or (is_longer and not has_mask):
                yield batch
                batch = []
            batch.append(at)
        if batch:
            yield batch

    def _logits(self, encoded: Sequence[Any]) -> npt.NDArray[Any]:
        """Run the model on a batch of pairs and return its output."""
        given = padded(encoded, self._inputs, self._pairs.padding)
        return self._session.run(self._output, given)

    def _trial(self) -> int:
        """Run the model on two pairs of different lengths; return its number of logits."""
        encoded = self._pairs.tokenizer.encode_batch([("a", "b"), ("a", "b c d e f")])
        width = 0
        for places in self._batches(encoded):
            try:
                made = self._logits([encoded[at] for at in places])
            except Exception as fault:  # of onnxruntime, which has its own
                wish = "a model that scores pairs of texts"
                raise error(OptionError, str(self._path), wish, type(fault).__name__) from fault
            if made.dtype.kind != "f" or _width(made, len(places)) not in (1, 2):
                wish = "one or two logits for each pair"
                got = f"{self._output!r} of shape {made.shape} and {made.dtype}"
                raise error(OptionError, str(self._path), wish, got)
            width = _width(made, len(places))
        return width

    def __repr__(self) -> str:
        """Show the model and the most tokens of a pair."""
        return f"CrossEncoder({self.model!r}, max_length={self.max_length})"


def _read_inputs(path: Path, found: Mapping[str, str]) -> dict[str, Any]:
    """Return the NumPy type of each input, in the model's order."""
    unknown = [name for name, kind in found.items() if name not in INPUTS or kind not in _TYPES]
    if unknown or "input_ids" not in found:
        wish = f"integer inputs {', '.join(INPUTS)}, the first at least"
        got = ", ".join(f"{name} of {kind}" for name, kind in found.items())
        raise error(OptionError, str(path), wish, got or "none")
    return {name: _TYPES[kind] for name, kind in found.items()}


def _read_output(path: Path, names: Sequence[str]) -> str:
    """Return the name of the output with the logits."""
    if _LOGITS in names:
        return _LOGITS
    if len(names) != 1:
        raise error(OptionError, str(path), f"an output {_LOGITS}, or a single one", names)
    return str(names[0])


def _width(made: npt.NDArray[Any], n_pairs: int) -> int:
    """Return the number of logits for each pair; 0 for an output that has none."""
    if made.shape == (n_pairs,):
        return 1
    return int(made.shape[1]) if made.ndim == 2 and len(made) == n_pairs else 0


def _scores(made: npt.NDArray[Any], relevant: int) -> Floats:
    """Return the logarithm of the odds of each pair, from one or two logits."""
    logits = made.astype(np.float64)
    if logits.ndim == 1:
        return logits
    if logits.shape[1] == 1:
        return logits[:, 0]
    return logits[:, relevant] - logits[:, 1 - relevant]
