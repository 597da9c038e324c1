"""The systems that recipes follow, where they are installed; tests skip by name elsewhere."""

import importlib
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import pytest

_REASON = "the extra [parity] is not installed"


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None


def _is_hebb_0_1() -> bool:
    """Say whether Hebb Mind is of the version that the recipe follows."""
    try:
        return version("hebb-mind").startswith("0.1.")
    except PackageNotFoundError:
        return False


loomflow = _module("loomflow")
loom_memory = _module("loomflow.memory")
scorer = _module("hebb.retrieval.scorer")
searcher = _module("hebb.retrieval.searcher")
graphs = _module("hebb.graph.knowledge_graph")
models = _module("hebb.models.memory")

needs_loom = pytest.mark.skipif(loom_memory is None, reason=_REASON)
needs_hebb = pytest.mark.skipif(not (_is_hebb_0_1() and searcher), reason=_REASON)
