"""How cost grows: one axis varied at a time from a base, for the plots of docs/performance.md."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench import corpus, ours, reference
from bench.rivals_dense import faiss_searcher
from bench.sizes import SIZES, Size
from bench.turns import OURS, Turns

N_QUERIES = 1_024
TENANT_QUERIES = 256


class Point(NamedTuple):
    """A batch on an index."""

    axis: str
    n: int
    dim: int
    k: int = 10
    batch: int = 32
    tenants: int = 0  # 0: no cells

    @property
    def value(self) -> int:
        """Where on its axis it lies."""
        return int(
            {"documents": self.n, "dim": self.dim}.get(self.axis, getattr(self, self.axis, 0))
        )


def points(size: Size) -> Iterator[Point]:
    """Return the points, those on the same rows one after the other."""
    most, dim = size.growth
    base = Point("documents", most // 10, dim)
    for n in (most // 100, most // 30, most // 10, most // 3, most):
        yield base._replace(n=n)
    for d in (dim // 6, dim // 3, dim, dim * 2, dim * 4):
        yield base._replace(axis="dim", dim=d)
    for batch in (1, 4, 16, 64, 256, N_QUERIES):
        yield base._replace(axis="batch", batch=batch)
    for k in (1, 10, 100, min(1_000, base.n // 2)):
        yield base._replace(axis="k", k=k)
    for tenants in (1, 10, 100, 1_000, 10_000):
        if tenants <= base.n // 10:
            yield base._replace(axis="tenants", tenants=tenants, batch=TENANT_QUERIES)


class Rows:
    """The rows of the point at hand, and the engines over them."""

    def __init__(self, turns: Turns) -> None:
        """Begin with none."""
        self._turns = turns
        self._shape: tuple[int, int, int] | None = None

    def prepare(self, point: Point) -> None:
        shape = (point.n, point.dim, point.tenants)
        if shape == self._shape:
            return
        self._turns.forget()
        self._shape = shape
        self.rows = corpus.gaussian_rows(point.n, point.dim, "growth")
        self.queries = corpus.gaussian_rows(N_QUERIES, point.dim, "queries")
        given: dict[str, Any] = {}
        if point.tenants:
            self.owner = corpus.uniform_tenants(point.n, point.tenants)
            given = {"columns": {"tenant": self.owner}, "cell": "tenant"}
        self.index = ours.build(point.n, vectors=self.rows, **given)


@pytest.fixture(scope="module")
def held(turns: Turns) -> Rows:
    return Rows(turns)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "point" in metafunc.fixturenames:
        chosen = SIZES[metafunc.config.getoption("--bench-size")]
        metafunc.parametrize(
            "point", list(points(chosen)), ids=lambda p: f"{p.axis}-{p.value}", scope="module"
        )


@pytest.mark.parametrize("who", [OURS, "faiss*"])
def test_growth(
    point: Point, who: str, held: Rows, benchmark: BenchmarkFixture, turns: Turns
) -> None:
    if point.tenants and who != OURS:
        pytest.skip("bench_scope has the rivals of scopes")
    held.prepare(point)
    queries, k = held.queries[: point.batch], point.k
    at = reference.sample(point.batch)[:4]
    scope = [query % point.tenants for query in range(point.batch)] if point.tenants else None
    if who == OURS:
        scoped: dict[str, Any] = {} if scope is None else {"scope": scope}

        def run() -> Any:
            return ours.arrays(held.index.recall(vectors=queries, limit=k, depth=k, **scoped), k)
    else:
        search = faiss_searcher(held.rows)

        def run() -> Any:
            return search(queries, k)

    benchmark.group = (
        f"growth with {point.axis}: {point.n:,} x {point.dim}, batch {point.batch:,}, k={k}"
        + (f", {point.tenants:,} tenants" if point.tenants else "")
    )
    benchmark.extra_info.update(
        kind="growth",
        axis=point.axis,
        value=point.value,
        docs=point.n,
        dim=point.dim,
        queries=point.batch,
        k=k,
        tenants=point.tenants,
    )
    ids, scores = turns.measure(benchmark, who, run)
    if scope is None:
        reference.check(reference.dense(held.rows, queries[at], k), ids[at], scores[at])
        return
    for query in at:
        inside = (held.owner == scope[query]).nonzero()[0]
        row = slice(query, query + 1)
        found = reference.dense(held.rows[inside], queries[row], k)
        answer = reference.Answer(inside[found.ids], found.scores)
        reference.check(answer, ids[row], scores[row])
