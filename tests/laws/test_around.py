"""The laws with evidence around a hit: threads, places and the stage Around."""

from collections.abc import Callable
from functools import partial

import pytest

from laws.around import AroundSubject
from laws.checks import (
    QUERIES_PER_CALL,
    LawBroken,
    compare_with,
    large_mix,
    limit_is_a_prefix,
    no_history,
    non_interference,
    same_in_every_batch,
    tied_mix,
)
from laws.digest import table_of
from laws.effort import Effort
from laws.engine import EngineSubject, arguments, ipc_bytes
from laws.isa import NEEDED_FLAGS, skip_without
from laws.planted_around import PLANTED, ThreadGhosts
from laws.subject import Make, planted
from oracle.around import AroundOracle, Evidence
from oracle.corpus import Draw, Mix, draw_call, draw_mix, draw_rows, draw_shape
from oracle.documents import Row, Shape
from oracle.recall import Oracle

Engine = Callable[..., AroundSubject]


@pytest.fixture
def make_around(request: pytest.FixtureRequest, device: str) -> Engine:
    """Makes an engine whose every recall has the stage."""
    if request.config.getoption("--subject") == "oracle":
        pytest.skip("needs the engine: run without --subject=oracle")
    return partial(AroundSubject, device=device)


@pytest.mark.parametrize("mix", [draw_mix, tied_mix, large_mix], ids=lambda mix: mix.__name__)
def test_replies_with_evidence_are_those_of_the_definition(
    mix: Callable[[Draw], Mix], make_around: Make, effort: Effort
) -> None:
    quick = 3 if mix is large_mix else 15
    tables = effort.cases(quick=quick, full=40 * quick)
    seen = compare_with(AroundOracle, make_around, range(tables), mix)
    assert seen == tables * 6 * QUERIES_PER_CALL


@pytest.mark.parametrize(
    "how",
    [
        Evidence((), 0.25, 0.4),
        Evidence((0.5,), 0.0, 0.0),
        Evidence((0.0, 0.7, 0.2), 1.5, 0.0),
        Evidence((0.3, 0.15), 0.0, 3.0),
    ],
    ids=str,
)
def test_other_weights_are_those_of_the_definition(how: Evidence, make_around: Make) -> None:
    class Weighed(AroundOracle):
        pass

    Weighed.how = how

    def make(shape: Shape, rows: list[Row]) -> AroundSubject:
        made = make_around(shape, rows)
        made.how = how
        return made

    assert compare_with(Weighed, make, range(5)) == 5 * 6 * QUERIES_PER_CALL


@pytest.mark.plain_cases(4)
@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.__name__)
def test_a_planted_bug_of_the_stage_is_caught(bug: type[AroundOracle], make_around: Make) -> None:
    with pytest.raises(LawBroken):
        compare_with(bug, make_around, range(40))


def test_worlds_that_share_the_authorised_rows_reply_with_the_same_bytes(
    make_around: Make, effort: Effort
) -> None:
    pairs = effort.cases(quick=15, full=1000)
    assert non_interference(make_around, range(pairs)) == pairs


def test_history_leaves_no_trace_in_threads(make_around: Make, effort: Effort) -> None:
    sequences = effort.cases(quick=6, full=300)
    assert no_history(make_around, range(sequences)) == 10 * sequences


def test_a_gap_after_a_delete_is_caught() -> None:
    with pytest.raises(LawBroken):
        no_history(ThreadGhosts, range(60))


def test_deletes_close_the_gap_by_definition() -> None:
    assert no_history(planted(AroundOracle), range(5)) == 50


def test_a_batch_of_any_size_replies_as_its_queries_alone(
    make_around: Make, effort: Effort
) -> None:
    tables, sizes = effort.cases(quick=1, full=20), (1, 2, 31, 64)
    assert same_in_every_batch(make_around, range(tables), sizes) > tables * len(sizes)


def test_a_smaller_limit_gives_a_prefix(make_around: Make, effort: Effort) -> None:
    tables = effort.cases(quick=15, full=500)
    assert limit_is_a_prefix(make_around, range(tables)) == tables * 6 * 4


def test_threads_and_segments_change_no_byte(make_around: Engine) -> None:
    shape, rows, calls = table_of(5000)
    whole = make_around(shape, rows, threads=1)
    grown = make_around(shape, rows[:4960], threads=3)
    for first in range(4960, len(rows), 10):
        grown.add(rows[first : first + 10])
    drop = slice(100, 400)
    for subject in (whole, grown):
        subject.delete(
            [row.key for row in rows[drop]], [frozenset({row.cell}) for row in rows[drop]]
        )
    assert grown.index.stats()["n_segments"] > whole.index.stats()["n_segments"] == 1
    for call in calls:
        assert whole.recall_bytes(call) == grown.recall_bytes(call)


@pytest.mark.parametrize("isa", NEEDED_FLAGS)
def test_every_instruction_set_gives_the_same_bytes(
    isa: str, make_around: Engine, digests_of: Callable[[str], dict[str, str]]
) -> None:
    skip_without(isa)
    assert digests_of(isa)["around"] == digests_of("scalar")["around"]


def test_explanations_give_the_score_to_the_last_bit(make_around: Engine) -> None:
    seen = spoken = 0
    for seed in range(40):
        draw = Draw(seed)
        shape = draw_shape(draw)
        rows = draw_rows(draw, shape, draw_mix(draw))
        subject = make_around(shape, rows)
        call = draw_call(draw, Oracle(shape, rows), QUERIES_PER_CALL)
        for hits in subject.hits(call):
            for hit in hits:
                made = hit.explain()
                assert made.score == hit.score
                assert [step.stage for step in made.steps] == ["Around"]
                assert set(made.steps[0].keys) <= set(made.steps[0].factors)
                seen, spoken = seen + 1, spoken + len(made.steps[0].keys)
    assert seen > 100
    assert spoken > 50


def test_a_schema_with_a_thread_replies_as_before_without_the_stage(device: str) -> None:
    shape, rows, calls = table_of(300)
    plain, threaded = EngineSubject(shape, rows, device=device), AroundSubject(shape, rows)
    for call in calls:
        same = threaded.index.recall(**arguments(shape, call)).to_arrow()
        assert plain.recall_bytes(call) == ipc_bytes(same)
