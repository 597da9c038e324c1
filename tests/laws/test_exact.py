"""Rows that hold a quoted string whole come first, and every law holds of that, too."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from laws.checks import (
    LawBroken,
    compare_with,
    limit_is_a_prefix,
    no_history,
    non_interference,
    same_in_every_batch,
)
from laws.effort import Effort
from laws.engine import arguments, ipc_bytes
from laws.exact import BUGS, ExactSubject, MeantOracle, meant, recipe_of
from laws.subject import Make
from oracle.corpus import Draw, Mix, draw_call, draw_mix, draw_query, draw_rows, draw_shape
from oracle.documents import Call, Row, Shape
from oracle.exact import quoting
from oracle.fusion import Rrf
from oracle.recall import Oracle
from oracle.words import Words

TAKEN = ("text", "vectors", "scope", "filter", "limit", "offset")  # by a call with a recipe
SIZES = (1, 2, 7, 33, 600)  # of which the last is answered in pieces


@pytest.fixture
def exact(device: str) -> Callable[..., ExactSubject]:
    return partial(ExactSubject, device=device)


def test_replies_are_those_of_the_definition_to_the_last_bit(exact: Make, effort: Effort) -> None:
    tables = effort.cases(quick=30, full=4000)
    assert compare_with(MeantOracle, exact, range(tables)) > 40 * tables


@pytest.mark.plain_cases(2)
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_another_rule_would_be_seen(bug: type[Oracle], exact: Make) -> None:
    with pytest.raises(LawBroken):
        compare_with(bug, exact, range(200))


def test_what_others_store_changes_no_byte(exact: Make, effort: Effort) -> None:
    pairs = effort.cases(quick=12, full=3000)
    assert non_interference(exact, range(pairs)) == pairs


def test_history_leaves_no_trace(exact: Make, effort: Effort) -> None:
    sequences = effort.cases(quick=3, full=300)
    assert no_history(exact, range(sequences)) == 10 * sequences


def test_a_batch_of_any_size_and_order_replies_as_its_queries_alone(
    exact: Make, effort: Effort
) -> None:
    tables = effort.cases(quick=2, full=40)
    assert same_in_every_batch(exact, range(tables), SIZES) > tables * len(SIZES)


def test_a_smaller_limit_gives_a_prefix_and_an_offset_a_slice(exact: Make, effort: Effort) -> None:
    tables = effort.cases(quick=15, full=2000)
    assert limit_is_a_prefix(exact, range(tables)) == tables * 6 * 4


WORDS = ("ash", "bay", "gro")
ONE_ARM = Shape(dense={})


def of_one_arm(draw: Draw) -> tuple[list[Row], Call]:
    """Rows that hold much alike, and a call of words whose depth is far below what is asked for."""
    mix = Mix(n_rows=80, n_tenants=1, vocabulary=WORDS, longest=6)
    texts = tuple(draw_query(draw, WORDS) for _ in range(6))
    scopes = (frozenset({("ana",)}),) * 6
    return draw_rows(draw, ONE_ARM, mix), Call(scopes, {"text": texts}, limit=80, depth=3)


def test_one_arm_gives_prefixes_beyond_its_depth_too(
    exact: Callable[..., ExactSubject], effort: Effort
) -> None:
    for seed in range(effort.cases(quick=12, full=500)):
        rows, call = of_one_arm(Draw(seed))
        subject = exact(ONE_ARM, rows)
        whole = subject.recall(call)
        for limit in (1, 2, 4, 9, 30):
            found = subject.recall(replace(call, limit=limit))
            assert found == [reply[:limit] for reply in whole], (seed, limit)


def test_threads_and_segments_change_no_byte(exact: Callable[..., ExactSubject]) -> None:
    draw = Draw(7)
    shape = Shape(cell=("tenant",), dense={"embedding": 7})
    rows = draw_rows(draw, shape, Mix(n_rows=9000, n_tenants=4, zipf=True))
    one, four, grown = exact(shape, rows, threads=1), exact(shape, rows), exact(shape, rows[:4096])
    for first in range(4096, len(rows), 2000):
        grown.add(rows[first : first + 2000])
    assert grown.index.stats()["n_segments"] > 1
    for _ in range(12):
        call = draw_call(draw, Oracle(shape, rows[:200]), 16)
        assert one.recall_bytes(call) == four.recall_bytes(call) == grown.recall_bytes(call)


def of_queries(hits: pa.Table, at: list[int]) -> bytes:
    return ipc_bytes(hits.filter(pc.is_in(hits["query"], pa.array(at, pa.int32()))))


def test_a_query_that_is_no_such_thing_gets_the_bytes_that_it_got_before(
    exact: Callable[..., ExactSubject], effort: Effort
) -> None:
    moved = kept = 0
    for seed in range(effort.cases(quick=30, full=2000)):
        draw = Draw(seed)
        shape = draw_shape(draw)
        rows = draw_rows(draw, shape, replace(draw_mix(draw), n_rows=60))
        subject = exact(shape, rows)
        call = meant(draw_call(draw, Oracle(shape, rows), 12))
        call = quoting(call)
        given = {name: one for name, one in arguments(shape, call).items() if name in TAKEN}
        new, old = (
            subject.index.recall(**given, recipe=recipe_of(call, shape, exact=on))
            for on in (True, False)
        )
        taken = set(new.trace.exact)
        asked = [at for texts in call.texts.values() for at, text in enumerate(texts)
                 if isinstance(text, Words) and text.text.startswith('"')]  # fmt: skip
        assert taken <= set(asked)
        assert old.trace.exact == {}
        others = sorted(set(range(12)) - taken)
        tables = new.to_arrow(), old.to_arrow()
        assert tables[0].schema == tables[1].schema
        assert of_queries(tables[0], others) == of_queries(tables[1], others)
        for at in others:
            assert new[at].n_candidates == old[at].n_candidates
        kept += len(others)
        moved += of_queries(tables[0], sorted(taken)) != of_queries(tables[1], sorted(taken))
    assert kept > 100
    assert moved > 5


def test_one_arm_that_is_fused_takes_no_limit_beyond_its_depth(
    exact: Callable[..., ExactSubject],
) -> None:
    rows, call = of_one_arm(Draw(1))
    index = exact(ONE_ARM, rows).index
    recipe = recipe_of(replace(call, fusion=Rrf()), ONE_ARM)
    options = {"text": ["ash bay"], "scope": "ana", "recipe": recipe}
    assert len(index.recall(**options, limit=3)[0]) == 3
    with pytest.raises(ValueError, match="limit: expected <= 3"):
        index.recall(**options, limit=4)
