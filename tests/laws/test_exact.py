"""Rows that hold a quoted string whole come first, and every law holds of that, too."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from laws.checks import same_in_every_batch
from laws.effort import Effort
from laws.engine import EngineSubject, arguments, ipc_bytes, recipe_of
from laws.planted import mutant
from laws.planted_stages import FOLLOWS_THE_LIMIT
from laws.registry import BY_NAME
from laws.subject import Make, planted
from oracle.corpus import Draw, Mix, draw_mix, draw_query, draw_rows, draw_shape
from oracle.documents import Call, Row, Shape
from oracle.exact import quoting
from oracle.fusion import Rrf
from oracle.recall import Oracle
from oracle.recipe import RecipeOracle
from oracle.words import Words

TAKEN = ("text", "vectors", "scope", "filter", "limit", "offset")  # by a call with a recipe
ENTRY = BY_NAME["exact"]


@pytest.fixture
def exact(device: str) -> Callable[..., EngineSubject]:
    return partial(EngineSubject, device=device)


def test_a_large_batch_is_answered_in_pieces(exact: Make) -> None:
    assert same_in_every_batch(exact, range(2), (1, 7, 33, 600), ENTRY) > 8


WORDS = ("ash", "bay", "gro")
ONE_ARM = Shape(dense={})


def of_one_arm(draw: Draw) -> tuple[list[Row], Call]:
    """Rows that hold much alike, and a call of words whose depth is far below what is asked for."""
    mix = Mix(n_rows=80, n_tenants=1, vocabulary=WORDS, longest=6)
    texts = tuple(draw_query(draw, WORDS) for _ in range(6))
    scopes = (frozenset({("ana",)}),) * 6
    call = Call(scopes, {"text": texts}, limit=80, depth=3, recipe="exact")
    return draw_rows(draw, ONE_ARM, mix), quoting(call)


def gives_prefixes(make: Make, seed: int) -> bool:
    """Whether shorter replies are prefixes of the longest."""
    rows, call = of_one_arm(Draw(seed))
    subject = make(ONE_ARM, rows)
    whole = subject.recall(call)
    found = {limit: subject.recall(replace(call, limit=limit)) for limit in (1, 2, 4, 9, 30)}
    return all(one == [reply[:limit] for reply in whole] for limit, one in found.items())


def test_one_arm_gives_prefixes_beyond_its_depth_too(exact: Make, effort: Effort) -> None:
    seeds = range(effort.cases(quick=12, full=500))
    assert [seed for seed in seeds if not gives_prefixes(exact, seed)] == []


def test_a_lookup_that_follows_the_limit_is_caught() -> None:
    oracle = mutant(RecipeOracle, FOLLOWS_THE_LIMIT)
    assert not all(gives_prefixes(planted(oracle), seed) for seed in range(12))


def of_queries(hits: pa.Table, at: list[int]) -> bytes:
    return ipc_bytes(hits.filter(pc.is_in(hits["query"], pa.array(at, pa.int32()))))


def test_a_query_that_is_no_such_thing_gets_the_bytes_that_it_got_before(
    exact: Callable[..., EngineSubject], effort: Effort
) -> None:
    moved = kept = 0
    for seed in range(effort.cases(quick=60, full=2000)):
        draw = Draw(seed)
        shape = draw_shape(draw)
        rows = draw_rows(draw, shape, replace(draw_mix(draw), n_rows=60))
        subject = exact(shape, rows)
        call = replace(ENTRY.call(draw, Oracle(shape, rows), 12), by_thread=False, n_around=0)
        call = replace(call, shaping=tuple(s for s in call.shaping if type(s).__name__ == "Gate"))
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
    exact: Callable[..., EngineSubject],
) -> None:
    rows, call = of_one_arm(Draw(1))
    index = exact(ONE_ARM, rows).index
    recipe = recipe_of(replace(call, fusion=Rrf()), ONE_ARM)
    options = {"text": ["ash bay"], "scope": "ana", "recipe": recipe}
    assert len(index.recall(**options, limit=3)[0]) == 3
    with pytest.raises(ValueError, match="limit: expected <= 3"):
        index.recall(**options, limit=4)
