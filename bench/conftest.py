"""Sizes, and where the entries of a run go."""

from __future__ import annotations

import datetime
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))  # for `from bench import ...`

from bench import THREADS, limits, machine  # sets the BLAS environment: before numpy
from bench.measuring import Bench
from bench.sizes import SIZES, Size

_BENCH = pytest.StashKey[Bench]()
_LIMITS = pytest.StashKey[dict[str, float]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--bench-size", choices=tuple(SIZES), default="tiny", help="tiny: seconds; full: an hour"
    )
    parser.addoption("--bench-json", type=Path, help="where to keep what was measured")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Measure in one process, with nothing beside it: tests run in several (pyproject.toml)."""
    return 0


def pytest_configure(config: pytest.Config) -> None:
    is_tiny = config.getoption("--bench-size") == "tiny"
    config.stash[_BENCH] = Bench(is_tiny=is_tiny)
    config.stash[_LIMITS] = limits.measure(THREADS, is_tiny=is_tiny)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Return every benchmark the documents, batches and so on of the chosen size."""
    size = SIZES[metafunc.config.getoption("--bench-size")]
    corpora = {
        "dense_shape": size.dense,
        "n_texts": size.texts,
        "tenants": ("uniform", "zipf"),
    }
    asked = {
        "batch_k": [(b, k) for b in size.batches for k in (10, 100) if b > 1 or k == 10],
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
def bench(request: pytest.FixtureRequest) -> Bench:
    return request.config.stash[_BENCH]


Measure = Callable[..., Any]


@pytest.fixture(scope="session")
def measure(bench: Bench) -> Measure:
    """See Bench.measure."""
    return bench.measure


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write entries, limits and versions; nothing that names a machine."""
    config = session.config
    out: Path | None = config.getoption("--bench-json")
    if out is None or not config.stash[_BENCH].entries:
        return
    size: str = config.getoption("--bench-size")
    again = limits.measure(THREADS, is_tiny=size == "tiny")  # the better: others may have worked
    first = config.stash[_LIMITS]
    commit = machine.commit()
    for entry in config.stash[_BENCH].entries:
        entry["commit"] = commit
    found = {
        "size": size,
        "date": datetime.date.today().isoformat(),
        "machine": machine.describe(),
        "versions": machine.versions(),
        "limits": {name: max(first[name], again[name]) for name in first},
        "entries": config.stash[_BENCH].entries,
    }
    out.write_text(json.dumps(found, indent=1) + "\n")
