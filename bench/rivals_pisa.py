"""PISA as a rival, by the native module of the package ``pyterrier-pisa``.

``HYRECALL_PISA`` names a folder with the unpacked wheels ``pyterrier_pisa`` and ``tbb`` (README.md
has the commands); without it PISA is left out by name. Nothing of it is part of this project.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil
import tempfile
import time
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from bench.rivals_lexical import Reply, Searcher

# The quickest of these counts: which it is depends on k and on how frequent the words are.
ALGORITHMS = ("maxscore", "block_max_maxscore", "wand", "block_max_wand")
_ENCODING = "block_simdbp"
_MIN_IDF = 1e-6  # of a word in more than half of the texts
_K1, _B = 1.2, 0.75


def idf(n_docs: int, doc_freq: int) -> float:
    """Return the idf of PISA's BM25: Robertson's, never below a millionth, without k1 + 1."""
    return float(max(_MIN_IDF, np.log((n_docs - doc_freq + 0.5) / (doc_freq + 0.5))))


def native_module() -> Any:
    """Load PISA's native module; skip where the environment names none."""
    folder = os.environ.get("HYRECALL_PISA")
    if not folder:
        pytest.skip("HYRECALL_PISA names no folder with pyterrier-pisa")
    (tbb,) = Path(folder).rglob("libtbb.so.2")
    ctypes.CDLL(str(tbb), mode=ctypes.RTLD_GLOBAL)  # the module looks for it by this name
    (module,) = Path(folder).rglob("_pisathon*.so")
    spec = importlib.util.spec_from_file_location("_pisathon", module)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


class PisaIndex:
    """Texts indexed by PISA in a temporary folder, which goes when the index does."""

    def __init__(self, texts: list[str]) -> None:
        """Index texts; their names are their numbers."""
        self._native = native_module()
        path = Path(tempfile.mkdtemp(prefix="pisa-"))
        weakref.finalize(self, shutil.rmtree, path)
        lines = path / "texts"
        lines.write_text("".join(f"{row} {text}\n" for row, text in enumerate(texts)))
        held = path / "index"
        held.mkdir()
        self._native.index(str(lines), str(held), "", 100_000, 2)
        none = path / "stopwords"
        none.write_text("")
        self._context = self._native.RetrievalContext()
        self._native.prepare_index(
            self._context, str(held), _ENCODING, "bm25", "", quantize=0,
            stop_fname=str(none), bm25_k1=_K1, bm25_b=_B,
        )  # fmt: skip

    def searcher(self, queries: list[str], k: int, threads: int) -> Searcher:
        """Return a search by the algorithm that answers these queries soonest."""

        def seconds(algorithm: str) -> float:
            begin = time.perf_counter()
            self._search(algorithm, queries, k, threads)
            return time.perf_counter() - begin

        best = min(ALGORITHMS, key=lambda one: min(seconds(one) for _ in range(2)))
        return lambda asked, most: self._search(best, asked, most, threads)

    def _search(self, algorithm: str, queries: list[str], k: int, threads: int) -> Reply:
        places = len(queries) * k
        of_query, rank = np.empty(places, np.int32), np.empty(places, np.int32)
        names: npt.NDArray[np.object_] = np.empty(places, object)
        scores = np.empty(places, np.float32)
        n = self._native.retrieve(
            self._context, algorithm, list(enumerate(queries)), k=k, threads=threads,
            query_weighted=0, pretokenised=False, result_qidxs=of_query, result_docnos=names,
            result_ranks=rank, result_scores=scores,
        )  # fmt: skip
        ids = np.full((len(queries), k), -1, np.int64)
        found = np.full((len(queries), k), -np.inf)
        ids[of_query[:n], rank[:n]] = names[:n].astype(np.int64)
        found[of_query[:n], rank[:n]] = scores[:n] / (_K1 + 1)
        return ids, found
