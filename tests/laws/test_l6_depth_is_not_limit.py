"""L6: a smaller limit gives a prefix, and a limit that the depth cannot give is refused."""

import re
from collections.abc import Callable

import pytest

from laws.checks import LawBroken, limit_is_a_prefix
from laws.effort import Effort
from laws.engine import EngineSubject, ipc_bytes
from laws.planted import DEPTH_IS_LIMIT, mutant, mutation
from laws.subject import Make, planted
from oracle.corpus import Draw, Mix, draw_rows
from oracle.documents import Shape
from oracle.recall import Oracle

SHAPE = Shape(dense={"embedding": 3})
BOTH = {"text": ["ash"], "vectors": [[1.0, 0.0, 0.0]], "scope": "ana"}


def test_a_smaller_limit_gives_a_prefix_and_an_offset_a_slice(make: Make, effort: Effort) -> None:
    tables = effort.cases(quick=50, full=3000)
    assert limit_is_a_prefix(make, range(tables)) == tables * 6 * 4


def test_a_depth_that_follows_the_limit_is_caught() -> None:
    with pytest.raises(LawBroken):
        limit_is_a_prefix(planted(mutant(Oracle, mutation(DEPTH_IS_LIMIT))), range(40))


@pytest.fixture
def large(make_engine: Callable[..., EngineSubject]) -> EngineSubject:
    mix = Mix(n_rows=300, n_tenants=1, vocabulary=("ash",), null=0.0, empty=0.0)
    return make_engine(SHAPE, draw_rows(Draw(3), SHAPE, mix))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limit": 500}, "limit: expected <= 100 (depth), got 500; pass depth="),
        ({"limit": 101}, "limit: expected <= 100 (depth), got 101; pass depth="),
        ({"limit": 21, "depth": 20}, "limit: expected <= 20 (depth), got 21; pass depth="),
    ],
)
def test_a_limit_beyond_the_depth_of_two_arms_is_refused(
    options: dict[str, int], message: str, large: EngineSubject
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        large.index.recall(**BOTH, **options)


def test_an_offset_counts_towards_the_depth(large: EngineSubject) -> None:
    large.index.recall(**BOTH, limit=90, offset=10)
    with pytest.raises(ValueError, match="pass depth="):
        large.index.recall(**BOTH, limit=90, offset=11)


def test_a_depth_that_is_given_allows_the_limit(large: EngineSubject) -> None:
    assert len(large.index.recall(**BOTH, limit=250, depth=300)[0]) == 250


@pytest.mark.parametrize("arm", ["text", "vectors"])
def test_one_arm_gives_as_many_as_the_limit_asks_for(arm: str, large: EngineSubject) -> None:
    hits = large.index.recall(**{arm: BOTH[arm]}, scope="ana", limit=250)
    assert len(hits[0]) == 250


def test_the_default_depth_is_100(large: EngineSubject) -> None:
    default = large.index.recall(**BOTH, limit=100).to_arrow()
    assert ipc_bytes(default) == ipc_bytes(
        large.index.recall(**BOTH, limit=100, depth=100).to_arrow()
    )
    assert max(rank for rank in default["text_rank"].to_pylist() if rank is not None) <= 100
