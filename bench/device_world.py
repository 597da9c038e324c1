"""Rows, tenants and queries of a device's table, made on the device, and torch's ways to answer."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

import hyrecall as hr
from bench import THREADS, corpus, device_rivals, grown, ours, reference
from hyrecall import _core

SKIPPED = 77  # the exit status of a step that cannot be taken here: the last line says why
WINDOW = (250_000, 749_999)  # of created_at, which is uniform in [0, 1,000,000)
KINDS = ("gaussian", "grown")
Make = Callable[[], device_rivals.Search]


@dataclass(frozen=True)
class Size:
    """How much of everything a run takes."""

    rows: int
    dim: int
    queries: int
    tenants: int
    k: int
    threads: int
    seconds: float  # of one measurement, about; 0: a call is timed once
    batches: tuple[int, ...]  # of a sweep
    text_rows: tuple[int, ...]


SIZES = {
    "dry": Size(700, 32, 8, 4, 10, 2, 0.0, (1, 8), (200,)),  # for the emulated device
    "tiny": Size(4_000, 64, 32, 20, 100, 4, 0.3, (1, 32), (2_000,)),
    "small": Size(100_000, 768, 1_024, 100, 100, 16, 0.5, (1, 8, 64, 256, 1_024), (100_000,)),
    "full": Size(
        1_000_000, 768, 1_024, 1_000, 100, 16, 0.5, (1, 8, 64, 256, 1_024), (100_000, 1_000_000)
    ),
}


def import_torch(device: str) -> Any:
    """Return torch, or None where it is not installed or has no such device."""
    if device != "cpu" and os.environ.get("HYRECALL_EMULATED"):
        return None
    try:
        import torch
    except ImportError:
        return None
    if device == "cpu":
        torch.set_num_threads(THREADS)
    return torch if device == "cpu" or torch.cuda.is_available() else None


@contextmanager
def environment(settings: Mapping[str, str]) -> Iterator[None]:
    """Set variables for a while."""
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def timed(run: Callable[[], object], seconds: float) -> dict[str, Any]:
    """Time a call: the median in ms of 20 calls or more, if a call is shorter than seconds / 2."""
    warm_up = 3 if seconds > 0 else 1
    begin = time.perf_counter()
    for _ in range(warm_up):
        run()
    once = (time.perf_counter() - begin) / warm_up
    rounds = min(max(int(seconds / once), 20), 200) if once <= seconds / 2 else warm_up
    taken = []
    for _ in range(rounds):
        begin = time.perf_counter()
        run()
        taken.append((time.perf_counter() - begin) * 1e3)
    taken.sort()
    return {
        "median_ms": statistics.median(taken),
        "min_ms": taken[0],
        "p90_ms": taken[int(0.9 * (rounds - 1))],
        "rounds": rounds,
    }


def time_kernels(run: Callable[[], object], rounds: int = 10) -> list[dict[str, Any]]:
    """Time each kernel of a batch: its launches, and the median of their sum in ms.

    Kernels are launched one by one with events between them, not as one recorded graph, so the sum
    is more than what a batch takes.
    """
    found: dict[str, list[tuple[int, float]]] = {}
    with environment({"HYRECALL_CUDA_TIMES": "1"}):
        run()
        _core.device.kernel_times()
        for _ in range(rounds):
            run()
            for name, launches, ms in _core.device.kernel_times():
                found.setdefault(name, []).append((launches, ms))
    return [
        {
            "kernel": name,
            "launches": statistics.mean(n for n, _ in each),
            "ms": statistics.median(ms for _, ms in each),
        }
        for name, each in found.items()
    ]


def searches(kernels: list[dict[str, Any]]) -> float:
    """Return how often a batch was searched; more than once: some queries were searched again."""
    first = ("prepare_queries", "prepare_texts")
    return float(max((k["launches"] for k in kernels if k["kernel"] in first), default=0))


@dataclass
class World:
    """Rows, tenants and queries of a size, on a device; each part made when it is first needed."""

    size: Size
    device: str
    torch: Any  # the module, or None
    kind: str = "gaussian"
    _stored: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def rows(self) -> Any:
        """Unit rows of float32: a tensor on the device where torch has it."""
        return self._make(self.size.rows, part=0)

    @cached_property
    def queries(self) -> corpus.Floats:
        """Queries of the rows' kind, in host memory."""
        made = self._make(self.size.queries, part=1)
        return np.asarray(made.cpu() if self.torch is not None else made, np.float32)

    def _make(self, n: int, part: int) -> Any:
        dim, torch = self.size.dim, self.torch
        if self.kind == "gaussian":
            if torch is None:
                return corpus.gaussian_rows(n, dim, ("rows", "queries")[part])
            draw = torch.Generator(self.device).manual_seed(corpus.SEED + part)
            return unit(torch.randn((n, dim), generator=draw, device=self.device))
        if torch is None:  # of a dry run: seeds would take seconds
            return corpus.clustered_rows(n, dim, ("rows", "queries")[part])
        return grown_rows(torch, n, dim, self.device, part)

    @cached_property
    def tenants(self) -> corpus.Ints:
        return corpus.zipf_tenants(self.size.rows, self.size.tenants)

    @cached_property
    def times(self) -> corpus.Ints:
        return corpus.generator("device times").integers(0, 1_000_000, size=self.size.rows)

    @cached_property
    def asking(self) -> corpus.Ints:
        """The tenant of each query: drawn by row, so large tenants ask more."""
        rng = corpus.generator("device asking")
        return self.tenants[rng.integers(self.size.rows, size=self.size.queries)]

    def stored(self, dtype: str) -> Any:
        """Return the rows as they are indexed."""
        if dtype not in self._stored:
            if dtype == "float32":
                self._stored[dtype] = self.rows
            elif self.torch is not None:
                self._stored[dtype] = self.rows.to(getattr(self.torch, dtype))
            else:
                import ml_dtypes

                self._stored[dtype] = self.rows.astype(getattr(ml_dtypes, dtype))
        return self._stored[dtype]

    def index(self, dtype: str, *, is_scoped: bool) -> hr.Index:
        """Build an index of the rows."""
        columns = {"tenant": self.tenants, "created_at": self.times} if is_scoped else None
        return ours.build(
            self.size.rows,
            vectors=self.stored(dtype),
            columns=columns,
            cell="tenant" if is_scoped else None,
            cluster="created_at" if is_scoped else None,
            device=self.device,
        )

    def scores(self, dtype: str, at: corpus.Ints) -> npt.NDArray[np.float64]:
        """Return the cosines of the queries ``at`` with all rows, in float64."""
        asked = self.queries[at].astype(np.float64)
        asked /= np.linalg.norm(asked, axis=1, keepdims=True)
        rows, torch = self.stored(dtype), self.torch
        out = np.empty((len(at), len(rows)))
        for begin in range(0, len(rows), 1 << 17):
            if torch is None:
                part = rows[begin : begin + (1 << 17)].astype(np.float64)
                found = asked @ part.T / np.linalg.norm(part, axis=1)
            else:
                part = rows[begin : begin + (1 << 17)].double()
                wide = torch.from_numpy(asked).to(part.device)
                found = (wide @ part.T / part.norm(dim=1)).cpu().numpy()
            out[:, begin : begin + found.shape[1]] = found
        return out

    def answer(self, dtype: str, at: corpus.Ints, *, is_scoped: bool) -> reference.Answer:
        """Rank what the queries ``at`` may see, in float64."""
        scores = self.scores(dtype, at)
        if is_scoped:
            inside = (self.times >= WINDOW[0]) & (self.times <= WINDOW[1])
            scores[~(inside & (self.asking[at][:, None] == self.tenants))] = -np.inf
        # Of a million rows a sort would take seconds; what may be among the best is near the top.
        most = min(4 * self.size.k, scores.shape[1])
        near = np.sort(np.argpartition(-scores, most - 1, axis=1)[:, :most], axis=1)
        found = reference.best(np.take_along_axis(scores, near, axis=1), self.size.k)
        ids = np.where(found.ids < 0, -1, np.take_along_axis(near, found.ids.clip(0), axis=1))
        return reference.Answer(ids, found.scores)

    def cohorts(self, n_queries: int, *, is_scoped: bool) -> list[tuple[int, int]]:
        """Return (rows, queries) of each set of rows that some queries may see."""
        if not is_scoped:
            return [(self.size.rows, n_queries)]
        inside = self.tenants[(self.times >= WINDOW[0]) & (self.times <= WINDOW[1])]
        in_scope = np.bincount(inside, minlength=self.size.tenants)
        asking = np.bincount(self.asking[:n_queries], minlength=self.size.tenants)
        return [(int(r), int(q)) for r, q in zip(in_scope, asking, strict=True) if q > 0]

    def rivals(self, dtype: str, *, is_scoped: bool) -> dict[str, Make]:
        """Return torch's ways to do the same; none without torch."""
        if self.torch is None:
            return {}
        rows, k = self.stored(dtype), self.size.k
        scope = (self.tenants, self.times, WINDOW, k)
        one = partial(device_rivals.product, self.torch, rows, k)
        if is_scoped:
            one = partial(device_rivals.masked, self.torch, rows, *scope)
        made: dict[str, Make] = {
            "torch, eager": partial(one, is_compiled=False),
            "torch, compiled": partial(one, is_compiled=True),
        }
        if is_scoped:
            gathered = partial(device_rivals.gathered, self.torch, rows, *scope)
            made = {f"{name}, with a mask": make for name, make in made.items()}
            made["torch, a product a tenant"] = gathered
        return made


def unit(rows: Any) -> Any:
    """Scale a tensor's rows to length 1, in place."""
    return rows.div_(rows.norm(dim=1, keepdim=True))


def grown_rows(torch: Any, n: int, dim: int, device: str, part: int) -> Any:
    """Grow rows as :mod:`bench.grown` does, on the device; other draws, the same distribution."""
    held = grown.seeds()
    rows, neighbours = (torch.from_numpy(each).to(device) for each in (held.rows, held.neighbours))
    draw = torch.Generator(device).manual_seed(corpus.SEED + 2 + part)

    def pick(most: int) -> Any:
        return torch.randint(most, (n,), generator=draw, device=device)

    base = pick(len(rows))
    sides = []
    for _ in range(-(-dim // rows.shape[1])):
        near = neighbours[base, pick(grown.N_NEIGHBOURS)]
        nearer = neighbours[near, pick(grown.N_NEIGHBOURS)]
        # Exponential numbers over their sum are Dirichlet (1, 1, 1).
        weights = -torch.log1p(-torch.rand((n, 3), generator=draw, device=device))
        weights /= weights.sum(dim=1, keepdim=True)
        side = weights[:, :1] * rows[base]
        side += weights[:, 1:2] * rows[near]
        side += weights[:, 2:] * rows[nearer]
        noise = torch.randn(side.shape, generator=draw, device=device)
        sides.append(unit(side).add_(noise, alpha=grown.NOISE / rows.shape[1] ** 0.5))
    return unit(torch.cat(sides, dim=1)[:, :dim].contiguous())
