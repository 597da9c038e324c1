"""L5: equal scores are ordered by seq, whatever the rows look like in memory."""

from collections.abc import Callable

from laws.checks import QUERIES_PER_CALL, compare_with, tied_mix
from laws.effort import Effort
from laws.engine import EngineSubject
from laws.subject import Make
from oracle.corpus import Draw, draw_call, draw_rows, draw_shape
from oracle.recall import Oracle


def test_tables_full_of_ties_are_ordered_as_defined(make: Make, effort: Effort) -> None:
    tables = effort.cases(quick=13, full=600)
    assert compare_with(Oracle, make, range(tables), tied_mix) == tables * 6 * QUERIES_PER_CALL


def test_the_order_of_rows_in_memory_changes_no_byte(
    make_engine: Callable[..., EngineSubject], effort: Effort
) -> None:
    for seed in range(effort.cases(quick=8, full=300)):
        draw = Draw(seed)
        shape = draw_shape(draw)
        rows = draw_rows(draw, shape, tied_mix(draw))
        guide = Oracle(shape, rows)
        orders = [make_engine(shape, rows, cluster=column) for column in (None, "number", "at")]
        for _ in range(3):
            call = draw_call(draw, guide, QUERIES_PER_CALL)
            first, second, third = (subject.recall_bytes(call) for subject in orders)
            assert first == second == third, f"seed {seed}"


def test_replies_are_sorted_by_score_and_ranks_are_consecutive(make: Make) -> None:
    for seed in range(20):
        draw = Draw(seed)
        shape = draw_shape(draw)
        rows = draw_rows(draw, shape, tied_mix(draw))
        seq = {row.identity: at for at, row in enumerate(rows)}
        call = draw_call(draw, Oracle(shape, rows), 32)
        for reply in make(shape, rows).recall(call):
            order = [(-hit.score, seq[hit.cell, hit.key]) for hit in reply]
            assert order == sorted(set(order))
            assert [hit.rank for hit in reply] == [call.offset + 1 + at for at in range(len(reply))]
