"""The targets of the benchmarks, as data; ``report`` joins them with the measurements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Figure = Literal["ratio", "times", "time", "share", "reading", "fact", "fact ratio"]
"""What of an entry is held to the bound.

ratio: a rival's time over ours. times: our time over another way of ours. time: our time a query,
in the target's unit. share: the least time that the machine needs, for the bytes or the products,
over ours. reading: the same for the bytes alone. fact: a number measured beside the time.
fact ratio: such a number over the rival's.
"""

A_SECOND = {"us": 1e6, "ms": 1e3, "s": 1.0}  # how many of a unit of time

ONE_CELL = "hyrecall, the same rows in one cell"
FLOAT_SCAN = "hyrecall, float32 scan"
ONE_THREAD = "hyrecall, 1 thread"
NO_HEADS = "hyrecall, int8 plane alone"
NOISY = ", noise 0.35"


@dataclass(frozen=True)
class Target:
    """One bound: which entries it speaks of, against whom, and how much."""

    row: str  # of the table, as a person would say it
    where: Mapping[str, object]  # facts that an entry must have
    figure: Figure
    bound: float
    against: str | None = None
    docs: int | None = None  # a verdict is given at this size alone; None: at any
    fact: str = ""
    unit: str = "x"

    @property
    def at_least(self) -> bool:
        """Whether more is better."""
        return self.figure in ("ratio", "share", "reading")


RIVALS = {
    "faiss": "faiss*",
    "numpy": "numpy",
    "panorama": "faiss Panorama",
    "slices": "numpy, slice a query",
    "products": "numpy, product a tenant",
    "array": "faiss* IDSelectorArray",
    "range": "faiss* IDSelectorRange",
    "tantivy": "tantivy",
    "pisa": "PISA",
    "lucene": "Lucene",
    "bm25s": "bm25s",
    "thread": ONE_THREAD,
    "parts": "bm25s + faiss* + RRF",
    "tenant_parts": "bm25s + faiss* IDSelectorRange + RRF",
    "loop": "numpy, incremental loop",
}
MILLION = 1_000_000


def faster(
    row: str, where: Mapping[str, object], docs: int | None = None, **rivals: float
) -> list[Target]:
    """So many times faster than each."""
    return [
        Target(row, where, "ratio", bound, RIVALS[name], docs) for name, bound in rivals.items()
    ]


DRAWN = frozenset({"gaussian", "clustered", "real"})  # "real": copies with noise, of older runs
# With more noise, as HYRECALL_BENCH_NOISE makes them, rows are nearer to a model's own.
GROWN = frozenset(f"{kind}{noise}" for kind in ("grown", "grown wide") for noise in ("", NOISY))


def dense(
    docs: int, batch: int, k: int, data: frozenset[str] = DRAWN, **rivals: float
) -> list[Target]:
    row = f"dense {docs:,} x 768, batch {batch:,}, k={k}"
    where = {"kind": "dense", "queries": batch, "k": k, "data": data}
    return faster(row, where, docs, **rivals)


def limit(batch: int, bound: float, what: str, data: frozenset[str] = DRAWN) -> Target:
    row = f"share of the limit, 1,000,000 x 768, batch {batch:,}, k=10 ({what})"
    where = {"kind": "dense", "queries": batch, "k": 10, "data": data}
    return Target(row, where, "share", bound, None, MILLION, unit="%")


def reading(row: str, bound: float, **where: object) -> Target:
    """A share of the time that reading the int8 rows that are wanted takes, once each."""
    return Target(row, where, "reading", bound, None, MILLION, unit="%")


def scoped(tenants: str, **rivals: float) -> list[Target]:
    row = f"256 queries, own tenant + half the time, 1M x 384, {tenants}"
    return faster(row, {"kind": "scoped", "tenants": tenants}, MILLION, **rivals)


def scattered(arm: str) -> Target:
    row, where = f"10,000 scattered cells of 10, {arm}", {"kind": "scattered", "arm": arm}
    return Target(row, where, "times", 2.0, ONE_CELL, MILLION)


def quick(
    row: str, bound: float, docs: int | None = MILLION, unit: str = "us", **where: object
) -> Target:
    """At most so much time a query."""
    return Target(row, where, "time", bound, None, docs, unit=unit)


def bm25(docs: int, k: int, **rivals: float) -> list[Target]:
    threads = 2 if "thread" in rivals else 1
    row = f"BM25 {docs:,} x 60 tokens, 1,000 queries, k={k}, {threads} thread{'s' * (threads > 1)}"
    return faster(row, {"kind": "bm25", "k": k, "threads": threads}, docs, **rivals)


def questions(asked: str, docs: int, k: int, **rivals: float) -> list[Target]:
    where = {"kind": "questions", "asked": asked, "k": k}
    return faster(f"BM25 {docs:,} docs, {asked}, k={k}", where, docs, **rivals)


def steady(asked: str, docs: int) -> Target:
    """How evenly single calls answer."""
    row = f"p99 over p50 of one question a call, {asked}"
    where = {"kind": "one question a call", "asked": asked}
    return fact(row, "p99_over_p50", 2.5, "x", docs, **where)


def fact(
    row: str, name: str, bound: float, unit: str, docs: int = MILLION, **where: object
) -> Target:
    """A number that was measured beside the time, at most so much."""
    return Target(row, where, "fact", bound, None, docs, name, unit)


TARGETS: tuple[Target, ...] = (
    *dense(MILLION, 1, 10, faiss=9.0, numpy=4.2),
    *dense(MILLION, 1, 10, GROWN, faiss=25.0, numpy=9.0, panorama=3.0),
    *dense(MILLION, 1, 100, GROWN, faiss=18.0, numpy=9.0, panorama=3.0),
    *dense(MILLION, 32, 10, faiss=8.0),
    *dense(MILLION, 32, 10, GROWN, faiss=14.0),
    *dense(MILLION, 32, 100, faiss=7.0),
    *dense(MILLION, 32, 100, GROWN, faiss=14.0),
    *dense(MILLION, 1_024, 10, faiss=4.0),
    *dense(MILLION, 1_024, 10, GROWN, faiss=8.0),
    *dense(MILLION, 1_024, 100, faiss=3.5),
    *dense(MILLION, 1_024, 100, GROWN, faiss=8.0),
    *dense(100_000, 1, 10, faiss=9.0),
    *dense(100_000, 32, 10, faiss=6.5),
    *dense(100_000, 1_024, 10, faiss=3.8),
    *dense(10_000, 1, 10, faiss=1.0),
    *dense(10_000, 32, 10, faiss=1.0),
    *dense(10_000, 32, 100, faiss=1.0),
    *dense(10_000, 1_024, 10, faiss=1.0),
    *dense(10_000, 1_024, 100, faiss=1.0),
    limit(1, 0.95, "the int8 plane read once", frozenset({"gaussian"})),
    limit(1, 0.85, "the int8 plane read once", DRAWN - {"gaussian"}),
    limit(1_024, 0.75, "its products at the VNNI rate"),
    Target(
        "20,000 near-duplicates in 1M x 768, batch 32",
        {"kind": "near-duplicates"},
        "times",
        1.5,
        FLOAT_SCAN,
        MILLION,
    ),
    *scoped("uniform", slices=4.0, array=12.0),
    *scoped("zipf", products=6.0, range=20.0),
    quick(
        "256 queries, own tenant + half the time, uniform", 10.5, kind="scoped", tenants="uniform"
    ),
    reading(
        "wanted int8 rows read once, own tenant + half the time, uniform",
        0.6,
        kind="scoped",
        tenants="uniform",
    ),
    reading(
        "wanted int8 rows read once, own tenant + half the time, zipf",
        0.6,
        kind="scoped",
        tenants="zipf",
    ),
    reading(
        "wanted int8 rows read once, 10,000 scattered cells of 10",
        0.6,
        kind="scattered",
        arm="dense",
    ),
    quick("100,000 cells of 10, own cell, dense", 8.0, kind="cells of ten", arms="dense"),
    quick("100,000 cells of 10, own cell, hybrid", 12.0, kind="cells of ten", arms="hybrid"),
    scattered("dense"),
    scattered("BM25"),
    *bm25(MILLION, 10, tantivy=8.0, bm25s=6.0, pisa=5.0),
    *bm25(MILLION, 100, tantivy=8.0, bm25s=5.5, pisa=6.5),
    *bm25(MILLION, 10, thread=1.8),
    *bm25(MILLION, 100, thread=1.8),
    *bm25(100_000, 10, tantivy=5.0, bm25s=3.0),
    *bm25(100_000, 100, tantivy=5.0, bm25s=3.0),
    *questions("natural questions, real words", 300_000, 10, pisa=3.0, lucene=5.0),
    *questions("natural questions, real words", 300_000, 100, pisa=4.0, lucene=5.0),
    *questions("natural questions, zipf words", MILLION, 10, pisa=3.0, lucene=5.0),
    *questions("natural questions, zipf words", MILLION, 100, pisa=4.0, lucene=5.0),
    *questions("frequent words", 300_000, 10, bm25s=5.0),
    *questions("frequent words", 300_000, 100, bm25s=5.0),
    steady("natural questions, real words", 300_000),
    steady("natural questions, zipf words", MILLION),
    quick("BM25, own tenant of 1,000 in 1M, uniform", 5.0, kind="bm25 scoped", tenants="uniform"),
    quick("BM25, own tenant of 1,000 in 1M, zipf", 10.0, kind="bm25 scoped", tenants="zipf"),
    *faster(
        "build, raw text in, 1M x 60 tokens, 2 threads",
        {"kind": "build", "threads": 2},
        MILLION,
        tantivy=1.5,
    ),
    Target(
        "build, peak memory over the corpus",
        {"kind": "build", "threads": 2},
        "fact ratio",
        1.0,
        "tantivy",
        MILLION,
        "peak_bytes",
    ),
    *faster("hybrid, 256 queries, 1M x 384, depth 100", {"kind": "hybrid"}, MILLION, parts=8.0),
    *faster("hybrid, own tenant each", {"kind": "hybrid scoped"}, MILLION, tenant_parts=20.0),
    *faster(
        "MMR, 1,024 queries, pool 100, pick 10, d=768",
        {"kind": "mmr", "queries": 1_024, "dim": 768},
        loop=6.0,
    ),
    fact("memory, lexical 1M x 60 tokens", "grew_mb", 300.0, "MB", kind="memory", part="text"),
    fact(
        "memory, vectors beyond their float32",
        "over_truth_percent",
        30.0,
        "%",
        kind="memory",
        part="vectors",
    ),
    *(
        fact(
            f"memory, planes of {rows} rows beyond float32",
            "planes_percent",
            bound,
            "%",
            kind="memory",
            part=part,
        )
        for rows, part, bound in (("grown", "grown vectors", 38.0), ("Gaussian", "vectors", 26.0))
    ),
    Target(
        "build, 1M x 384 grown rows with heads, 1 thread",
        {"kind": "build heads"},
        "times",
        1.5,
        NO_HEADS,
        MILLION,
    ),
    *(
        Target(
            "late interaction, 100,000 x 60 x 128, one query",
            {"kind": "late"},
            "ratio",
            10.0,
            f"torch {kind}",
            100_000,
        )
        for kind in ("float32", "bfloat16")
    ),
    Target("the same, beside reading its plane", {"kind": "late"}, "reading", 0.6, None, 100_000),
    quick("the same over 1,000 candidates (second stage)", 3.0, 100_000, "ms", kind="second stage"),
    *(
        Target(
            "sparse vectors, 1M rows of 120 terms, one query of 30",
            {"kind": "sparse"},
            "ratio",
            bound,
            who,
            MILLION,
        )
        for who, bound in (("scipy rows", 5.0), ("scipy terms", 1.5))
    ),
    quick("one call, hybrid, 1,000 rows", 80.0, 1_000, kind="one query", asked="hybrid"),
    *(
        quick(
            f"one search of a store of 1,000, embedder {embedder}",
            0.8,
            1_000,
            "ms",
            kind="one search",
            embedder=embedder,
        )
        for embedder in ("off", "hash")
    ),
    quick("import hyrecall in a new interpreter", 0.2, None, "s", kind="import"),
    fact(
        "p99 of a reader while adds merge, own cell",
        "p99_ratio",
        2.0,
        "x",
        kind="reading",
        reader="own cell",
    ),
    fact(
        "p99 of a reader while adds merge, everywhere",
        "p99_ratio",
        2.0,
        "x",
        kind="reading",
        reader="everywhere",
    ),
)

# Of recipes and of an index that lives: met before, and not to be lost.
HELD: tuple[Target, ...] = (
    quick("recipe loom, 256 queries in a call", 1_000.0, 10_000, recipe="loom", how="batch"),
    quick("recipe loom, one query a call", 3_000.0, 10_000, recipe="loom", how="single"),
    quick(
        "recipe hypergraph, one query a call", 5_000.0, 10_000, recipe="hypergraph", how="single"
    ),
    quick("recipe hebb, one query a call", 5_000.0, 10_000, recipe="hebb", how="single"),
    fact("one-row adds into 1M, most segments", "most_segments", 40, "", kind="life"),
    fact("one-row adds into 1M, p99 outside merges", "add_p99_ms", 1.0, "ms", kind="life"),
    fact("recall after them over after compaction", "recall_ratio_own_cell", 1.3, "x", kind="life"),
    fact("the same, everywhere", "recall_ratio_everywhere", 1.3, "x", kind="life"),
)

NOT_OFFERED = (
    "lexical memory without positions (<= 240 MB): an index always keeps them, since phrases and "
    "merges read them",
)
