"""The sizes of the benchmarks: numbers of documents, dimensions, queries and tenants."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    """One of tiny (seconds, shows that all of it works), small (100,000 documents) and full."""

    name: str
    dense: tuple[tuple[int, int], ...]  # (documents, dim)
    batches: tuple[int, ...]
    duplicates: tuple[int, int]  # documents, near-duplicates among them
    scoped: tuple[int, int, int]  # documents, dim, tenants
    texts: tuple[int, ...]  # documents
    text_queries: int
    questions: tuple[int, int, int]  # documents: real words, drawn words, frequent words
    asked: int  # questions
    hybrid: tuple[int, int]  # documents, dim
    mmr: tuple[int, int]  # queries, dim
    life: tuple[int, int, int, int]  # documents, dim, adds, deletes
    reading: tuple[int, int, int]  # documents, dim, documents added
    recipes: tuple[int, int]  # memories of one user, dim
    late: int  # documents of many vectors
    sparse: int  # of sparse vectors
    growth: tuple[int, int]  # documents, dim from which one axis is varied at a time


SIZES = {
    "tiny": Size(
        name="tiny",
        dense=((2_000, 64),),
        batches=(1, 32, 64),
        duplicates=(4_000, 500),
        scoped=(20_000, 64, 20),
        texts=(2_000,),
        text_queries=50,
        questions=(2_000, 33_000, 2_000),  # from four tiles on, frequent words have bits
        asked=50,
        hybrid=(2_000, 64),
        mmr=(16, 64),
        life=(20_000, 64, 2_000, 400),
        reading=(5_000, 64, 8_192),
        recipes=(2_000, 64),
        late=200,
        sparse=300,
        growth=(4_000, 64),
    ),
    "small": Size(
        name="small",
        dense=((10_000, 768), (100_000, 768)),
        batches=(1, 32, 1_024),
        duplicates=(100_000, 20_000),
        scoped=(100_000, 384, 100),
        texts=(100_000,),
        text_queries=1_000,
        questions=(100_000, 100_000, 100_000),
        asked=400,
        hybrid=(100_000, 384),
        mmr=(1_024, 768),
        life=(100_000, 384, 10_000, 2_000),
        reading=(100_000, 384, 65_536),
        recipes=(10_000, 384),
        late=20_000,
        sparse=100_000,
        growth=(100_000, 384),
    ),
    "full": Size(
        name="full",
        dense=((10_000, 768), (100_000, 768), (1_000_000, 768)),
        batches=(1, 32, 1_024),
        duplicates=(1_000_000, 20_000),
        scoped=(1_000_000, 384, 1_000),
        texts=(100_000, 1_000_000),
        text_queries=1_000,
        questions=(300_000, 1_000_000, 300_000),
        asked=400,
        hybrid=(1_000_000, 384),
        mmr=(1_024, 768),
        life=(1_000_000, 384, 100_000, 20_000),
        reading=(1_000_000, 384, 262_144),
        recipes=(10_000, 384),
        late=100_000,
        sparse=1_000_000,
        growth=(1_000_000, 384),
    ),
}
