"""Sizes, the one way to measure, and what goes into the JSON."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))  # for `from bench import ...`

import hyrecall as hr
from bench import THREADS, limits, ours  # sets the BLAS environment: before numpy

_BUDGET_S = 2.0  # of one measurement
_ROUNDS = (3, 15)
_LIMITS = pytest.StashKey[dict[str, Any]]()


@dataclass(frozen=True)
class Size:
    """How much of everything a run takes."""

    name: str
    dense: tuple[tuple[int, int], ...]  # (documents, dim)
    batches: tuple[int, ...]
    duplicates: tuple[int, int]  # documents, near-duplicates among them
    scoped: tuple[int, int, int]  # documents, dim, tenants
    texts: tuple[int, ...]  # documents
    text_queries: int
    hybrid: tuple[int, int]  # documents, dim
    life: tuple[int, int, int, int]  # documents, dim, adds, deletes
    recipes: tuple[int, int]  # memories of one user, dim


SIZES = {
    "smoke": Size(
        name="smoke",
        dense=((2_000, 64),),
        batches=(1, 32, 64),
        duplicates=(4_000, 500),
        scoped=(20_000, 64, 20),
        texts=(2_000,),
        text_queries=50,
        hybrid=(2_000, 64),
        life=(20_000, 64, 2_000, 400),
        recipes=(2_000, 64),
    ),
    "small": Size(
        name="small",
        dense=((100_000, 768),),
        batches=(1, 32, 1_024),
        duplicates=(100_000, 20_000),
        scoped=(100_000, 384, 100),
        texts=(100_000,),
        text_queries=1_000,
        hybrid=(100_000, 384),
        life=(100_000, 384, 10_000, 2_000),
        recipes=(10_000, 384),
    ),
    "full": Size(
        name="full",
        dense=((100_000, 768), (1_000_000, 768)),
        batches=(1, 32, 1_024),
        duplicates=(1_000_000, 20_000),
        scoped=(1_000_000, 384, 1_000),
        texts=(100_000, 1_000_000),
        text_queries=1_000,
        hybrid=(1_000_000, 384),
        life=(1_000_000, 384, 100_000, 20_000),
        recipes=(10_000, 384),
    ),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--bench-size", choices=tuple(SIZES), default="smoke", help="smoke: seconds; full: an hour"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_LIMITS] = limits.measure(THREADS, is_smoke=_is_smoke(config))


def _is_smoke(config: pytest.Config) -> bool:
    disabled = config.getoption("benchmark_disable", False)
    return bool(disabled or config.getoption("--bench-size") == "smoke")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give every benchmark the documents, batches and so on of the chosen size."""
    size = SIZES[metafunc.config.getoption("--bench-size")]
    for name, values in {
        "dense_shape": size.dense,
        "batch_k": [(b, k) for b in size.batches for k in (10, 100) if b > 1 or k == 10],
        "n_texts": size.texts,
        "k": (10, 100),
        "tenants": ("uniform", "zipf"),
    }.items():
        if name in metafunc.fixturenames:
            ids = ["x".join(map(str, v)) if isinstance(v, tuple) else str(v) for v in values]
            metafunc.parametrize(name, values, ids=ids, scope="module")


@pytest.fixture(scope="session")
def size(request: pytest.FixtureRequest) -> Size:
    return SIZES[request.config.getoption("--bench-size")]


Measure = Callable[..., Any]


@pytest.fixture
def measure(benchmark: Any) -> Measure:
    """Check what ``run`` returns, time it, check what it returned while timed.

    ``target`` among the facts: of a rival, how many times faster than it we want to be; of ours, a
    median in microseconds a query (``target_us``). ``after`` gives facts of the last result.
    """

    def measured(
        work: str,
        who: str,
        run: Callable[[], Any],
        *,
        check: Callable[[Any], None],
        docs: int,
        queries: int,
        dim: int = 0,
        nbytes: int = 0,
        threads: int = THREADS,
        rounds: int | None = None,
        after: Callable[[Any], dict[str, object]] | None = None,
        **facts: object,
    ) -> Any:
        begin = time.perf_counter()
        check(run())  # also warms caches, pages and compilers
        once = time.perf_counter() - begin
        if rounds is None:
            rounds = int(min(max(_BUDGET_S / once, _ROUNDS[0]), _ROUNDS[1]))
        benchmark.group = work  # before it runs: the statistics take the name then
        watch = limits.Neighbours.watch()
        result = benchmark.pedantic(run, rounds=rounds)
        benchmark.extra_info.update(
            who=who,
            docs=docs,
            dim=dim,
            queries=queries,
            bytes=nbytes,
            device="cpu",
            threads=threads,
            isa=ours.isa(),
            others_cores=watch.cores(),
            **facts,
        )
        check(result)
        if after is not None:
            benchmark.extra_info.update(after(result))
        return result

    return measured


@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_update_machine_info(
    config: pytest.Config, machine_info: dict[str, Any]
) -> None:
    """Keep what explains a number, drop what names a machine."""
    cpu = machine_info.get("cpu", {})
    kept = {
        "system": machine_info.get("system"),
        "machine": machine_info.get("machine"),
        "python_version": machine_info.get("python_version"),
        "cpu": {
            key: cpu.get(key) for key in ("brand_raw", "count", "l2_cache_size", "l3_cache_size")
        },
    }
    machine_info.clear()
    machine_info.update(kept)


@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_update_json(
    config: pytest.Config, benchmarks: object, output_json: dict[str, Any]
) -> None:
    """Add limits and versions; keep statistics, not every sample."""
    commit = output_json.get("commit_info", {})
    output_json["commit_info"] = {key: commit.get(key) for key in ("id", "dirty")}
    again = limits.measure(
        THREADS, is_smoke=_is_smoke(config)
    )  # the better: others may have worked
    first = config.stash[_LIMITS]
    output_json["limits"] = {name: round(max(first[name], again[name]), 1) for name in first}
    output_json["size"] = config.getoption("--bench-size")
    output_json["versions"] = {"hyrecall": hr.__version__, **_versions()}
    for one in output_json["benchmarks"]:
        one["extra_info"]["commit"] = commit.get("id")
        kept = ("min", "max", "mean", "stddev", "rounds", "median", "iqr")
        one["stats"] = {key: one["stats"][key] for key in kept}
        for key in ("options", "fullname", "params", "param"):
            one.pop(key, None)


def _versions() -> dict[str, str]:
    """Give the versions of whatever took part."""
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for package in ("numpy", "faiss-cpu", "torch", "bm25s", "numba", "tantivy"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
