"""Fixtures of the benchmarks: sizes, extra fields of the JSON, and turns with rivals.

Every hook of pytest-benchmark is optional, since tests of the device's scripts run without it.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))  # for `from bench import ...`

from bench import THREADS, limits, ours  # sets the BLAS environment: before numpy
from bench.device_report import commit, versions
from bench.sizes import SIZES, Size
from bench.turns import Turns

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

_LIMITS = pytest.StashKey[dict[str, float]]()
PACKAGES = ("hyrecall", "numpy", "faiss-cpu", "torch", "bm25s", "numba", "tantivy")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--bench-size",
        choices=tuple(SIZES),
        default="tiny",
        help="tiny: seconds, and one round each; full: an hour",
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Measure in one process, with nothing beside it: tests run in several (pyproject.toml)."""
    return 0


def pytest_configure(config: pytest.Config) -> None:
    with contextlib.suppress(ImportError):
        from pytest_benchmark.logger import PytestBenchmarkWarning

        # For example: the run that this one is compared with is another machine's.
        warnings.simplefilter("default", PytestBenchmarkWarning)
    if is_tiny(config):
        config.option.benchmark_min_rounds, config.option.benchmark_max_time = 1, "0"


def is_tiny(config: pytest.Config) -> bool:
    return bool(config.getoption("--bench-size") == "tiny")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Return every benchmark the documents, batches and so on of the chosen size."""
    size = SIZES[metafunc.config.getoption("--bench-size")]
    corpora = {
        "dense_shape": size.dense,
        "n_texts": size.texts,
        "tenants": ("uniform", "zipf"),
    }
    asked = {
        "batch_k": [(b, k) for b in size.batches for k in (10, 100)],
        "k": (10, 100),
    }
    for name, values in {**corpora, **asked}.items():
        if name in metafunc.fixturenames:
            ids = ["x".join(map(str, v)) if isinstance(v, tuple) else str(v) for v in values]
            # Tests of one corpus come one after the other, whatever is asked of it.
            metafunc.parametrize(
                name, values, ids=ids, scope="module" if name in corpora else "function"
            )


@pytest.fixture(scope="session")
def size(request: pytest.FixtureRequest) -> Size:
    return SIZES[request.config.getoption("--bench-size")]


@pytest.fixture(scope="session")
def turns(request: pytest.FixtureRequest) -> Turns:
    return Turns(is_tiny=is_tiny(request.config))


@pytest.fixture(scope="session")
def machine_limits(request: pytest.FixtureRequest) -> None:
    """Measure what the machine can do, before the first benchmark."""
    config = request.config
    config.stash[_LIMITS] = limits.measure(THREADS, is_tiny=is_tiny(config))


@pytest.fixture
def benchmark(benchmark: BenchmarkFixture, machine_limits: None) -> Iterator[BenchmarkFixture]:
    """Return pytest-benchmark's, which also notes threads, instruction set and other processes."""
    watch = limits.Neighbours.watch()
    benchmark.extra_info.update(threads=THREADS, isa=ours.isa())
    yield benchmark
    benchmark.extra_info["others_cores"] = watch.cores()
    if benchmark.stats is not None:  # not one that was skipped or failed
        assert "who" in benchmark.extra_info, "a report needs to know whose time that is"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Keep the times of a test that fails out of the JSON: they may be of a wrong result."""
    try:
        return (yield)
    except BaseException:
        benchmark = getattr(item, "funcargs", {}).get("benchmark")
        if benchmark is not None:
            benchmark.has_error = True
        raise


@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_update_machine_info(machine_info: dict[str, Any]) -> None:
    """Drop what names a machine, and a clock rate that differs from call to call."""
    del machine_info["node"]
    for name in [name for name in machine_info["cpu"] if name.startswith("hz_actual")]:
        del machine_info["cpu"][name]


@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_update_json(config: pytest.Config, output_json: dict[str, Any]) -> None:
    """Add the size, versions, the machine's limits, and to each benchmark its commit.

    Runs of several commits may be joined (results.py). Of each limit the better of two counts, one
    measured before the benchmarks and one now, since other processes may have been at work.
    """
    first = config.stash[_LIMITS]
    again = limits.measure(THREADS, is_tiny=is_tiny(config))
    output_json["size"] = config.getoption("--bench-size")
    output_json["versions"] = versions(*PACKAGES)
    output_json["limits"] = {name: max(first[name], again[name]) for name in first}
    found = commit()
    for benchmark in output_json["benchmarks"]:
        benchmark["extra_info"]["commit"] = found
