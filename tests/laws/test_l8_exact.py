"""L8: the top of every arm is the top of a full sort, and its scores are the canonical bits."""

from collections.abc import Callable
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import hyrecall as hr
from laws.checks import compare_with, large_mix
from laws.effort import Effort
from laws.engine import EngineSubject, schema, table
from laws.planted import mutant, mutations
from laws.subject import Make
from oracle.arithmetic import plain_cosine
from oracle.bm25 import LUCENE, OKAPI, PRESETS
from oracle.corpus import Draw, Mix, draw_query, draw_query_vector, draw_rows
from oracle.documents import Call, Row, Shape
from oracle.recall import Oracle
from oracle.words import All, Any, Prefix, Words

NOTHING = dict.fromkeys(("kind", "number", "price", "at", "tags"))
DENSE = Shape(cell=(), lexical={}, integer_keys=True)


def test_lists_of_large_tables_equal_a_full_sort(make: Make, effort: Effort) -> None:
    tables = effort.cases(quick=3, full=250)
    assert compare_with(Oracle, make, range(tables), large_mix) == tables * 48


def require_oracle(subject: EngineSubject, rows: list[Row], call: Call) -> None:
    """Every reply of the call is the oracle's."""
    oracle = Oracle(subject.shape, rows)
    for query, reply in enumerate(subject.recall(call)):
        assert reply == oracle.recall(call, query), f"query {query}"


@pytest.mark.slow
def test_lexical_lists_over_many_blocks_equal_a_full_sort(
    make_engine: Callable[..., EngineSubject], effort: Effort
) -> None:
    draw = Draw(11)
    shape = Shape(cell=("tenant",), dense={})
    words = [f"{first}{second}" for first in "abcdefghijklmnop" for second in "aeiou"]
    zipf = [word for at, word in enumerate(words) for _ in range(1 + 60 // (at + 1))]
    rows = draw_rows(draw, shape, Mix(n_rows=6000, n_tenants=2, vocabulary=zipf, longest=30))
    subject = make_engine(shape, rows)
    everyone = frozenset({row.cell for row in rows})
    queries = [Words(" ".join(draw.sample(words, 4))) for _ in range(6)]
    queries += [Words(words[0]), Words(words[-1]), draw_query(draw, words), draw_query(draw, words)]
    scopes = tuple(draw.choice((everyone, frozenset({rows[0].cell}))) for _ in queries)
    oracle = Oracle(shape, rows)
    forms = (replace(LUCENE, k1=0.0), replace(OKAPI, b=1.0), *PRESETS)
    for bm25 in forms[: effort.cases(quick=2, full=len(forms))]:
        call = Call(scopes, texts={"text": tuple(queries)}, limit=7000, bm25=bm25)
        whole = [oracle.recall(call, query) for query in range(len(queries))]
        assert max(map(len, whole)) > 1000
        for limit in (1, 10, 99, 100, 101, 6000, 7000):
            got = subject.recall(replace(call, limit=limit))
            assert list(got) == [reply[:limit] for reply in whole], (bm25, limit)


CUT = mutations({
    "every term counts": {"most_expanded": 1 << 20},
    "the first terms by bytes count": {
        "expanded": lambda self, was, *given: dict.fromkeys(was(*given), 1)
    },
    "terms are as frequent as in the whole index": {
        "expanded": lambda self, was, arm, leaf, counted: was(arm, leaf, self.has_text(arm))
    },
})  # fmt: skip


def test_a_word_that_stands_for_too_many_terms_finds_the_most_frequent(
    make_engine: Callable[..., EngineSubject],
) -> None:
    draw, shape = Draw(12), Shape(cell=("tenant",), dense={})
    words = [f"a{at:04}" for at in range(1_400)]
    common = [word for at, word in enumerate(words) for _ in range(1 + at // 500)]
    rows = draw_rows(draw, shape, Mix(n_rows=1_500, n_tenants=2, vocabulary=common, twin=0.0))
    cells = sorted({row.cell for row in rows})
    scopes = (frozenset(cells[:1]), frozenset(cells), frozenset(cells[1:]))
    queries = (Prefix("a"), Any((Prefix("a"), Words("a0001"))), All((Prefix("a"), Prefix("a1"))))
    call = Call(scopes, texts={"text": queries}, limit=1_500)
    subject = make_engine(shape, rows)
    require_oracle(subject, rows, call)
    got = list(subject.recall(call))
    for name, bug in CUT.items():
        other = mutant(Oracle, bug)(shape, rows)
        assert [other.recall(call, query) for query in range(3)] != got, name


@pytest.mark.parametrize("spread", [0.0, 1e-7, 1e-3, 1.0])
@pytest.mark.parametrize("limit", [1, 10, 100])
def test_dense_lists_of_near_duplicates_equal_a_full_sort(
    spread: float, limit: int, make_engine: Callable[..., EngineSubject]
) -> None:
    rng = np.random.default_rng(12)
    shape = replace(DENSE, dense={"embedding": 48})
    centre = rng.standard_normal(48)
    noise = spread * rng.standard_normal((5000, 48))
    vectors = (centre + noise).astype(np.float32)
    rows = [Row(at, (), {}, {"embedding": vector}, NOTHING) for at, vector in enumerate(vectors)]
    queries = (centre.astype(np.float32), vectors[17], rng.standard_normal(48).astype(np.float32))
    call = Call((frozenset({()}),) * 3, vectors={"embedding": queries}, limit=limit)
    require_oracle(make_engine(shape, rows), rows, call)


@pytest.mark.plain_cases(2)
@pytest.mark.parametrize("dim", [1, 31, 32, 33, 70, 384])
def test_cosines_of_10_000_rows_are_those_of_plain_python(
    dim: int, make_engine: Callable[..., EngineSubject]
) -> None:
    rng = np.random.default_rng(dim)
    count = 1000 if dim == 384 else 1800
    magnitudes = 2.0 ** rng.integers(-20, 21, (count, 1))
    vectors = (rng.standard_normal((count, dim)) * magnitudes).astype(np.float32)
    rows = [Row(at, (), {}, {"embedding": vector}, NOTHING) for at, vector in enumerate(vectors)]
    query = rng.standard_normal(dim).astype(np.float32)
    index = make_engine(replace(DENSE, dense={"embedding": dim}), rows).index
    reply = index.recall(vectors=query[None, :], limit=count).to_arrow()
    got = dict(zip(reply["key"].to_pylist(), reply["embedding_score"].to_pylist(), strict=True))
    assert got == {at: float(plain_cosine(vector, query)) for at, vector in enumerate(vectors)}


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=["float16", "bfloat16"])
def test_half_precision_rows_are_taken_as_they_are(dtype: type) -> None:
    rng = np.random.default_rng(13)
    vectors = rng.standard_normal((300, 45)).astype(dtype)
    query = rng.standard_normal(45).astype(np.float32)
    shape = Shape(cell=(), lexical={}, dense={}, integer_keys=True)
    rows = [Row(at, (), {}, {}, NOTHING) for at in range(300)]
    named = replace(shape, dense={"embedding": 45})
    index = hr.Index.build(table(shape, rows), schema(named), vectors={"embedding": vectors})
    reply = index.recall(vectors=query[None, :], limit=300).to_arrow()
    got = dict(zip(reply["key"].to_pylist(), reply["embedding_score"].to_pylist(), strict=True))
    exact = vectors.astype(np.float32)
    assert got == {at: float(plain_cosine(row, query)) for at, row in enumerate(exact)}


def test_a_limit_beyond_the_table_gives_every_candidate_once(make: Make) -> None:
    draw = Draw(14)
    shape = Shape(cell=("tenant",), dense={"embedding": 5})
    rows = draw_rows(draw, shape, Mix(n_rows=90, n_tenants=2))
    cells = frozenset({row.cell for row in rows})
    query = draw_query_vector(draw, rows, "embedding", 5)
    while query is None or not query.any():
        query = draw_query_vector(draw, rows, "embedding", 5)
    (reply,) = make(shape, rows).recall(
        Call((cells,), vectors={"embedding": (query,)}, limit=10_000)
    )
    present = {
        row.identity
        for row in rows
        if row.vectors["embedding"] is not None and row.vectors["embedding"].any()
    }
    assert {(hit.cell, hit.key) for hit in reply} == present
    assert len(reply) == len(present)
