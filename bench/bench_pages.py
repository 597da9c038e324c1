"""A page of results: counts of values, ranges and matches, and another order, over all rows.

Each is asked of a filter that half of the rows pass. Polars answers the same from
columns in memory; ``count`` is the least that a page does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import hyrecall as hr
from bench import THREADS, corpus
from bench.sizes import Size
from bench.turns import OURS, Turns

EDGES = [0, 100, 200, 300, 400, 500]
HALF = hr.Filter(year=(None, 2012))
KINDS = ("count", "facet", "buckets", "sorted", "total of a word")


@pytest.fixture(scope="module")
def shop(size: Size) -> tuple[hr.Index, pl.DataFrame]:
    """Return goods of 200 brands, as an index and as a frame."""
    n, rng = size.scoped[0], corpus.generator("pages")
    table = pa.table(
        {
            "id": np.arange(n),
            "brand": [f"brand {one}" for one in rng.integers(0, 200, n)],
            "price": rng.integers(0, 500, n),
            "year": rng.integers(2000, 2026, n),
            "text": [f"word{one}" for one in rng.integers(0, 4, n)],
        }
    )
    schema = hr.Schema(
        key="id", cell=None, text="text", attributes=("brand", "price", "year"), stored=()
    )
    index = hr.Index.build(table, schema, device="cpu", threads=THREADS)
    return index, pl.DataFrame(table)


def asked(index: hr.Index, kind: str) -> Any:
    """Return what hyrecall says of half of the rows."""
    recall = index.recall_one
    match kind:
        case "count":
            return index.count(filter=HALF)
        case "facet":
            return dict(recall(filter=HALF, facets="brand", limit=0).facets["brand"])
        case "buckets":
            facets = hr.Buckets("price", EDGES)
            return [n for _, n in recall(filter=HALF, facets=facets, limit=0).facets["price"]]
        case "sorted":
            return recall(filter=HALF, sort=[("price", "desc"), "brand"], limit=10).keys
    return recall(text="word1", filter=HALF, limit=1).total


def of_polars(frame: pl.DataFrame, kind: str) -> Any:
    """Return what Polars says of the same rows."""
    half = frame.lazy().filter(pl.col("year") <= 2012)
    match kind:
        case "count":
            return half.select(pl.len()).collect().item()
        case "facet":
            counts = half.group_by("brand").len().collect()
            return dict(zip(counts["brand"], counts["len"], strict=True))
        case "buckets":
            groups = half.group_by(pl.col("price") // 100).len().collect().sort("price")
            return groups["len"].to_list()
        case "sorted":
            order = half.sort("price", "brand", "id", descending=[True, False, False])
            return order.select("id").head(10).collect()["id"].to_list()
    return half.filter(pl.col("text") == "word1").select(pl.len()).collect().item()


@pytest.mark.parametrize("who", [OURS, "count", "Polars"])
@pytest.mark.parametrize("kind", KINDS)
def test_page(
    shop: tuple[hr.Index, pl.DataFrame],
    kind: str,
    who: str,
    benchmark: BenchmarkFixture,
    turns: Turns,
) -> None:
    """Time what a page counts beside a plain count of the filter, and beside Polars."""
    index, frame = shop
    benchmark.group = f"page, {kind}, {len(index):,} docs"
    benchmark.extra_info.update(docs=len(index), threads=THREADS, kind=kind)
    runs: dict[str, Callable[[], Any]] = {
        OURS: lambda: asked(index, kind),
        "count": lambda: asked(index, "count"),
        "Polars": lambda: of_polars(frame, kind),
    }
    found = turns.measure(benchmark, who, runs[who])
    assert found == of_polars(frame, "count" if who == "count" else kind)
