"""Metrics of the service and its index or store, in Prometheus' format.

A process counts its own requests; several workers are several targets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hyrecall.base.version import __version__
from hyrecall.errors import StoreError
from hyrecall.memory import Memory
from hyrecall.memory.store import Store
from hyrecall.serve.options import ServiceOptions

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

Numbers = dict[str, float]


class Metrics:
    """Counts requests, and reads the other numbers when it is asked."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "hyrecall_requests", "Requests that were answered.",
            ("method", "route", "status"), registry=self._registry,
        )  # fmt: skip
        self._seconds = Histogram(
            "hyrecall_request_seconds", "Seconds from a request's headers to the end of its reply.",
            ("route",), registry=self._registry, buckets=_SECONDS,
        )  # fmt: skip
        self._gauges = _Gauges()
        self._registry.register(self._gauges)

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(_word(method), route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def read(self, name: str, numbers: Callable[[], Numbers]) -> None:
        """Show the numbers that a function returns as gauges ``hyrecall_<name>_<key>``."""
        self._gauges.sources[name] = numbers

    def text(self) -> bytes:
        """Return all of them."""
        return generate_latest(self._registry)


_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))


def _word(method: str) -> str:
    """Return a known method; others share a word, so that clients cannot add labels."""
    return method if method in _METHODS else "other"


class _Gauges(Collector):
    """Numbers that are read at each scrape."""

    def __init__(self) -> None:
        self.sources: dict[str, Callable[[], Numbers]] = {}

    def collect(self) -> Iterator[Metric]:
        info = GaugeMetricFamily("hyrecall_info", "The version that runs.", labels=("version",))
        info.add_metric((__version__,), 1)
        yield info
        for name, numbers in self.sources.items():
            for key, value in numbers().items():
                full = f"hyrecall_{name}_{key}"
                yield GaugeMetricFamily(full, f"{key} of {name}", value=value)

    def describe(self) -> Iterable[Metric]:
        return ()


def index_numbers(stats: dict[str, Any]) -> Numbers:
    """Return the numbers of :meth:`hyrecall.Index.stats`, by its own names."""
    names = ("threads", "n_docs", "n_dead", "n_segments", "next_seq", "device_bytes")
    return {name: float(stats[name]) for name in names} | {
        "nbytes": float(sum(_total(segment["nbytes"]) for segment in stats["segments"]))
    }


def _total(sizes: Any) -> int:
    return sum(map(_total, sizes.values())) if isinstance(sizes, dict) else int(sizes)


def count_store(metrics: Metrics, memory: Memory, options: ServiceOptions) -> None:
    """Show a store's numbers, those of doctor(); join its searches as the options say."""
    store = memory._sync._store
    joining = store.joining
    joining.most = options.max_joined if options.join else 1
    metrics.read("joined", lambda: {"queries": joining.n_calls, "batches": joining.n_batches})
    metrics.read("store", lambda: _of_handle(store))


def _of_handle(store: Store) -> Numbers:
    """Return the numbers that this process knows: those of the index are the owner's."""
    size = store.database.size()
    try:
        follower = store.follower
    except StoreError:  # another process owns the store
        return {"is_owner": 0.0, "database_bytes": float(size)}
    return {"is_owner": 1.0} | store_numbers(follower.report(), size)


def store_numbers(report: dict[str, Any], size: int) -> Numbers:
    """Return the numbers of the check "index" of ``doctor()``, by its names, and bytes on disk."""
    names = (
        *("sequence", "behind", "documents", "edges", "snapshot_bytes", "without_vector"),
        *("rebuilds", "failures", "snapshots", "failed_snapshots", "dropped"),
    )
    found = {name: report[name] for name in names}
    return {name: float(value) for name, value in found.items() if value is not None} | {
        "database_bytes": float(size)
    }
