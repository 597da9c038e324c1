"""Loads an ONNX model with onnxruntime and runs it, also in a process that was forked."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hyrecall.base.forks import leave_to_parent, renew_in_children
from hyrecall.errors import OptionError, error

__all__ = ["Session"]

_ERRORS_ONLY = 3  # severity from which onnxruntime prints messages


class Session:
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
