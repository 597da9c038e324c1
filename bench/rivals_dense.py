"""Dense rivals, tuned as their users would. Rows are unit, so inner product is cosine."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt
import pytest

from bench import THREADS, grown
from bench.corpus import Floats, Ints

Reply = tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]  # ids and scores, each (n_queries, k)

_CHUNK_ROWS = 65_536  # scores of one chunk are ranked while the next is not there yet


class Searcher(Protocol):
    """Ranks the rows it was given."""

    def __call__(self, queries: Floats, k: int) -> Reply: ...


def top(scores: Floats, k: int) -> Reply:
    """Keep the best k of each row of scores, best first."""
    k = min(k, scores.shape[1])
    ids = np.argpartition(scores, scores.shape[1] - k, axis=1)[:, -k:]
    kept = np.take_along_axis(scores, ids, axis=1)
    order = np.argsort(-kept, axis=1)
    return np.take_along_axis(ids, order, axis=1), np.take_along_axis(kept, order, axis=1)


def numpy_searcher(rows: Floats) -> Searcher:
    """Product, then argpartition, chunk by chunk: all scores of a large batch have no room."""

    def search(queries: Floats, k: int) -> Reply:
        if len(queries) == 1:  # a matrix-vector product reads the rows at full speed
            return top((rows @ queries[0])[None], k)
        parts = []
        for begin in range(0, len(rows), _CHUNK_ROWS):
            ids, scores = top(queries @ rows[begin : begin + _CHUNK_ROWS].T, k)
            parts.append((ids + begin, scores))
        ids, scores = (np.concatenate(p, axis=1) for p in zip(*parts, strict=True))
        best, kept = top(scores, k)
        return np.take_along_axis(ids, best, axis=1), kept

    return search


def faiss_module() -> Any:
    """Import faiss, its BLAS threshold as batches need it (hence faiss*); skip without it."""
    faiss = pytest.importorskip("faiss")
    faiss.omp_set_num_threads(THREADS)
    faiss.cvar.distance_compute_blas_threshold = 20
    return faiss


def faiss_index(rows: Floats) -> Any:
    """Make an exact inner-product index."""
    index = faiss_module().IndexFlatIP(rows.shape[1])
    index.add(rows)
    return index


def faiss_searcher(rows: Floats) -> Searcher:
    """Exact search by faiss*."""
    index = faiss_index(rows)

    def search(queries: Floats, k: int) -> Reply:
        scores, ids = index.search(queries, k)
        return ids, scores

    return search


def torch_searcher(rows: Floats) -> Searcher:
    """Product and topk by torch, float32."""
    torch = pytest.importorskip("torch")
    torch.set_num_threads(THREADS)
    held = torch.from_numpy(rows)

    def search(queries: Floats, k: int) -> Reply:
        asked = torch.from_numpy(queries)
        parts = []
        for begin in range(0, len(rows), _CHUNK_ROWS):
            block = held[begin : begin + _CHUNK_ROWS]
            scores, ids = torch.topk(asked @ block.T, min(k, len(block)), dim=1)
            parts.append((ids + begin, scores))
        ids, scores = (torch.cat(p, dim=1) for p in zip(*parts, strict=True))
        scores, place = torch.topk(scores, k, dim=1)
        return torch.gather(ids, 1, place).numpy(), scores.numpy()

    return search


PANORAMA = "faiss Panorama"
# Levels and rows a block, of which the quickest counts: its defaults are slower on some rows.
_PANORAMA_SETTINGS = ((8, 128), (8, 512), (8, 1_024), (16, 512))
_TUNED_ON = 200_000  # rows


def panorama_searcher(rows: Floats) -> Searcher:
    """Exact search by faiss's progressive scan, over rows turned to their principal directions.

    It reads the strongest directions first and drops rows by an energy bound, so it needs that
    rotation. A query's own rotation counts as part of its search.
    """
    faiss = faiss_module()
    if not hasattr(faiss, "IndexFlatIPPanorama"):
        pytest.skip("this faiss has no IndexFlatIPPanorama")
    turn = grown.rotation(rows)

    def made(held: Floats, levels: int, block: int) -> Any:
        index = faiss.IndexFlatIPPanorama(rows.shape[1], levels, block)
        for begin in range(0, len(held), _CHUNK_ROWS):
            index.add(held[begin : begin + _CHUNK_ROWS] @ turn)
        return index

    def seconds(index: Any) -> float:
        asked = rows[:: max(len(rows) // 16, 1)][:16] @ turn
        times = []
        for query in asked:
            begin = time.perf_counter()
            index.search(query[None], 10)
            times.append(time.perf_counter() - begin)
        return float(np.median(times))

    sample = rows[:_TUNED_ON]
    best = min(_PANORAMA_SETTINGS, key=lambda setting: seconds(made(sample, *setting)))
    index = made(rows, *best)

    def search(queries: Floats, k: int) -> Reply:
        scores, ids = index.search(queries @ turn, k)
        return ids, scores

    return search


SEARCHERS: dict[str, Callable[[Floats], Searcher]] = {
    "numpy": numpy_searcher,
    "faiss*": faiss_searcher,
    PANORAMA: panorama_searcher,
    "torch": torch_searcher,
}


# ---- scoped: rows sorted by hand by (tenant, time), each query with a tenant and a window ----


class SortedRows:
    """Rows sorted by (tenant, time), as a careful user would lay them out."""

    def __init__(self, rows: Floats, tenants: Ints, times: Ints) -> None:
        """Sort once; ``order`` gives the input row of a sorted one."""
        self.order = np.lexsort((times, tenants))
        self.rows = rows[self.order]
        self.times = times[self.order]
        self.begins = np.searchsorted(tenants[self.order], np.arange(tenants.max() + 2))

    def span(self, tenant: int, window: tuple[int, int]) -> tuple[int, int]:
        """Return the run of rows of a tenant in a window, both ends of it inclusive."""
        begin, end = self.begins[tenant], self.begins[tenant + 1]
        low, high = np.searchsorted(self.times[begin:end], [window[0], window[1] + 1])
        return int(begin + low), int(begin + high)


def _pad(ids: npt.NDArray[np.int64], scores: Floats, k: int) -> Reply:
    short = k - ids.shape[1]
    ids = np.pad(ids, ((0, 0), (0, short)), constant_values=-1)
    return ids, np.pad(scores, ((0, 0), (0, short)), constant_values=-np.inf)


Scoped = Callable[[Floats, Ints, tuple[int, int], int], Reply]  # queries, tenants, window, k


def spread(part: Scoped) -> Scoped:
    """Return each thread a share of the queries, and no threads inside a call.

    Small products spend more on waking a BLAS or OpenMP team than on the work.
    """

    def share(at: Ints, queries: Floats, tenants: Ints, window: tuple[int, int], k: int) -> Reply:
        if "faiss" in sys.modules:
            sys.modules["faiss"].omp_set_num_threads(1)  # counts for this thread alone
        return part(queries[at], tenants[at], window, k)

    def search(queries: Floats, tenants: Ints, window: tuple[int, int], k: int) -> Reply:
        shares = np.array_split(np.argsort(tenants, kind="stable"), THREADS)
        ids, scores = np.empty((len(queries), k), np.int64), np.empty((len(queries), k), np.float32)
        with one_blas_thread(), ThreadPoolExecutor(THREADS) as pool:
            for at, reply in zip(
                shares,
                pool.map(lambda at: share(at, queries, tenants, window, k), shares),
                strict=True,
            ):
                ids[at], scores[at] = reply
        return ids, scores

    return search


def one_blas_thread() -> AbstractContextManager[object]:
    """Keep BLAS to one thread meanwhile, where threadpoolctl is installed to do so."""
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return nullcontext()
    return cast("AbstractContextManager[object]", threadpool_limits(1, user_api="blas"))


def numpy_slices(held: SortedRows) -> Scoped:
    """Multiply each query with its own slice."""

    def part(queries: Floats, tenants: Ints, window: tuple[int, int], k: int) -> Reply:
        parts = []
        for query, tenant in zip(queries, tenants, strict=True):
            begin, end = held.span(tenant, window)
            ids, scores = top((held.rows[begin:end] @ query)[None], k)
            parts.append(_pad(held.order[begin + ids], scores, k))
        return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])

    return spread(part)


def numpy_tenants(held: SortedRows) -> Scoped:
    """Multiply all queries of a tenant with its slice at once."""

    def part(queries: Floats, tenants: Ints, window: tuple[int, int], k: int) -> Reply:
        out = np.empty((len(queries), k), np.int64), np.empty((len(queries), k), np.float32)
        for tenant in np.unique(tenants):
            here = np.flatnonzero(tenants == tenant)
            begin, end = held.span(tenant, window)
            ids, scores = top(queries[here] @ held.rows[begin:end].T, k)
            out[0][here], out[1][here] = _pad(held.order[begin + ids], scores, k)
        return out

    return spread(part)


def faiss_selected(index: Any, held: SortedRows, kind: str) -> Scoped:
    """Search each query with a selector of its rows: a range, or their ids as an array."""
    faiss = faiss_module()

    def part(queries: Floats, tenants: Ints, window: tuple[int, int], k: int) -> Reply:
        ids, scores = np.empty((len(queries), k), np.int64), np.empty((len(queries), k), np.float32)
        for i, tenant in enumerate(tenants):
            begin, end = held.span(tenant, window)
            wanted = np.arange(begin, end)
            is_range = kind == "range"
            selector = (
                faiss.IDSelectorRange(begin, end) if is_range else faiss.IDSelectorArray(wanted)
            )
            parameters = faiss.SearchParameters(sel=selector)
            scores[i : i + 1], ids[i : i + 1] = index.search(
                queries[i : i + 1], k, params=parameters
            )
        found = ids >= 0
        ids[found] = held.order[ids[found]]
        return ids, np.where(found, scores, -np.inf)

    return spread(part)
