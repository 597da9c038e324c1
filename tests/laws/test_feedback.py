"""The laws with a second look: the best rows of a first answer add to the query."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from hyrecall import _core
from hyrecall.errors import InternalError
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
from laws.feedback import FeedbackSubject
from laws.isa import NEEDED_FLAGS, skip_without
from laws.planted_feedback import PLANTED, ByInsertion, WorstFirst
from laws.subject import Make, planted
from oracle.corpus import Draw, Mix, draw_call, draw_mix, draw_rows, draw_shape
from oracle.documents import Call, Row, Shape
from oracle.feedback import FeedbackOracle, Second
from oracle.recall import Oracle
from seams import read_scopes

Engine = Callable[..., FeedbackSubject]


@pytest.fixture
def make_feedback(request: pytest.FixtureRequest, device: str) -> Engine:
    """Makes an engine whose every recall has the stage."""
    if request.config.getoption("--subject") == "oracle":
        pytest.skip("needs the engine: run without --subject=oracle")
    return partial(FeedbackSubject, device=device)


@pytest.mark.parametrize("mix", [draw_mix, tied_mix, large_mix], ids=lambda mix: mix.__name__)
def test_replies_of_a_second_look_are_those_of_the_definition(
    mix: Callable[[Draw], Mix], make_feedback: Make, effort: Effort
) -> None:
    quick = 2 if mix is large_mix else 12
    tables = effort.cases(quick=quick, full=40 * quick)
    seen = compare_with(FeedbackOracle, make_feedback, range(tables), mix)
    assert seen == tables * 6 * QUERIES_PER_CALL


@pytest.mark.parametrize(
    "how",
    [
        Second(1, 2.0, 0, 0.2),
        Second(5, 0.0, 3, 1.5),
        Second(100, 0.7, 100, 10.0),
        Second(2, 100.0, 1, 2.0**-20),
    ],
    ids=str,
)
def test_other_options_are_those_of_the_definition(how: Second, make_feedback: Make) -> None:
    class Weighed(FeedbackOracle):
        pass

    Weighed.how = how

    def make(shape: Shape, rows: list[Row]) -> FeedbackSubject:
        made = make_feedback(shape, rows)
        made.how = how
        return made

    assert compare_with(Weighed, make, range(5)) == 5 * 6 * QUERIES_PER_CALL


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.__name__)
def test_a_planted_bug_of_the_second_look_is_caught(
    bug: type[FeedbackOracle], make_feedback: Make
) -> None:
    with pytest.raises(LawBroken):
        compare_with(bug, make_feedback, range(40))


def cancelling(seed: int) -> tuple[Shape, list[Row], Call]:
    """A world where the last bits of a sum over rows are seen.

    In most dimensions the query is the opposite of what its rows add, so that only roundings are
    left of it there; rows that have nothing else show them in their scores.
    """
    random = np.random.default_rng(seed)
    n_cancelled, dim = 384, 400
    heard = random.standard_normal((3, dim)) * np.where(np.arange(dim) < n_cancelled, 0.01, 1.0)
    heard[:, n_cancelled:] = np.abs(heard[:, n_cancelled:])
    heard = heard.astype(np.float32)
    units = heard / np.sqrt((heard.astype(np.float64) ** 2).sum(axis=1))[:, None]
    vector = units.mean(axis=0)
    small = -0.4 * vector[:n_cancelled]
    rest = vector[n_cancelled:]
    rest = rest / np.sqrt((rest**2).sum()) * np.sqrt(1.0 - (small**2).sum())
    probes = random.standard_normal((8, dim)).astype(np.float32)
    probes[:, n_cancelled:] = 0
    shape = Shape(cell=("tenant",), dense={"embedding": dim})
    drawn_rows = draw_rows(Draw(seed), shape, Mix(n_rows=len(heard) + len(probes)))
    rows = [
        replace(row, key=f"k{at}", cell=("a",), vectors={"embedding": one})
        for at, (row, one) in enumerate(zip(drawn_rows, [*heard, *probes], strict=True))
    ]
    query = np.concatenate([small, rest]).astype(np.float32)
    return shape, rows, Call((frozenset({("a",)}),), vectors={"embedding": (query,)}, limit=20)


@pytest.mark.parametrize("bug", [WorstFirst, ByInsertion], ids=lambda bug: bug.__name__)
def test_rows_are_added_up_best_first(bug: type[FeedbackOracle], make_feedback: Make) -> None:
    differs = 0
    for seed in range(40):
        shape, rows, call = cancelling(seed)
        (reply,) = make_feedback(shape, rows).recall(call)
        assert reply == FeedbackOracle(shape, rows).recall(call, 0)
        differs += reply != bug(shape, rows).recall(call, 0)
    assert differs > 0


def test_worlds_that_share_the_authorised_rows_look_twice_alike(
    make_feedback: Make, effort: Effort
) -> None:
    pairs = effort.cases(quick=12, full=1000)
    assert non_interference(make_feedback, range(pairs)) == pairs


def test_history_leaves_no_trace_in_a_second_look(make_feedback: Make, effort: Effort) -> None:
    sequences = effort.cases(quick=5, full=300)
    assert no_history(make_feedback, range(sequences)) == 10 * sequences


def test_the_definition_itself_knows_no_history() -> None:
    assert no_history(planted(FeedbackOracle), range(3)) == 30


def test_a_batch_of_any_size_looks_twice_as_its_queries_alone(
    make_feedback: Make, effort: Effort
) -> None:
    tables, sizes = effort.cases(quick=1, full=20), (1, 2, 31, 64)
    assert same_in_every_batch(make_feedback, range(tables), sizes) > tables * len(sizes)


def test_a_smaller_limit_gives_a_prefix_of_a_second_look(
    make_feedback: Make, effort: Effort
) -> None:
    tables = effort.cases(quick=12, full=500)
    assert limit_is_a_prefix(make_feedback, range(tables)) == tables * 6 * 4


def test_threads_and_segments_change_no_byte_of_a_second_look(make_feedback: Engine) -> None:
    shape, rows, calls = table_of(1200)
    whole = make_feedback(shape, rows, threads=1)
    grown = make_feedback(shape, rows[:1150], threads=3)
    for first in range(1150, len(rows), 10):
        grown.add(rows[first : first + 10])
    drop = slice(100, 200)
    for subject in (whole, grown):
        subject.delete(
            [row.key for row in rows[drop]], [frozenset({row.cell}) for row in rows[drop]]
        )
    assert grown.index.stats()["n_segments"] > whole.index.stats()["n_segments"] == 1
    for call in calls:
        assert whole.recall_bytes(call) == grown.recall_bytes(call)


@pytest.mark.parametrize("isa", NEEDED_FLAGS)
def test_every_instruction_set_looks_twice_with_the_same_bytes(
    isa: str, make_feedback: Engine, digests_of: Callable[[str], dict[str, str]]
) -> None:
    skip_without(isa)
    assert digests_of(isa)["feedback"] == digests_of("scalar")["feedback"]


def test_explanations_of_a_second_look_give_the_score_to_the_last_bit(
    make_feedback: Engine,
) -> None:
    seen = moved = extended = 0
    for seed in range(30):
        draw = Draw(seed)
        shape = draw_shape(draw)
        rows = draw_rows(draw, shape, draw_mix(draw))
        call = draw_call(draw, Oracle(shape, rows), QUERIES_PER_CALL)
        reply = make_feedback(shape, rows).hits(call)
        for query, hits in enumerate(reply):
            for hit in hits:
                made = hit.explain()
                assert made.score == hit.score
                assert made.feedback == reply.trace.feedback.get(query)
                seen += 1
                if made.feedback is not None:
                    moved += bool(made.feedback.vectors)
                    extended += bool(made.feedback.terms)
    assert seen > 100
    assert moved > 50
    assert extended > 50


def test_a_row_outside_the_scope_cannot_be_heard() -> None:
    shape = Shape(cell=("tenant",))
    rows = [
        replace(row, cell=(cell,))
        for cell, row in zip("ab", draw_rows(Draw(1), shape, Mix(n_rows=2)), strict=True)
    ]
    index = FeedbackSubject(shape, rows).index
    scopes = read_scopes(index._facts.cell_types, index._state.snapshot, "a", 1)
    request = _core.BatchRequest(
        scopes=scopes, filters=[], filter_of=None, depth=1, limit=1, offset=0, threads=1
    )
    execution = _core.Execution(index._state.snapshot, request)

    def hear(row: int) -> object:
        one = np.array([row], np.uint32)
        given = np.array([0, 1]), np.zeros(1, np.uint32), one
        return _core.shaping.second_look(execution, *given, dense=1.0, n_terms=1, lexical=1.0)

    assert hear(0) == ([], [])
    with pytest.raises(InternalError, match="a row in the query's scope"):
        hear(1)
