"""L4: batch, threads, instruction set and segments change no bit of a reply."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from engine.planted_planes import ChangePlane, lost_rows, no_residual, with_front
from laws.checks import LawBroken, same_in_every_batch
from laws.digest import digest, table_of
from laws.effort import Effort
from laws.engine import EngineSubject
from laws.isa import NEEDED_FLAGS, skip_without
from laws.planes import PLANES, VARIABLE
from laws.planted_life import BatchKernel, NeighboursScope
from laws.registry import PLAIN
from laws.subject import Make, OracleSubject

SIZES = (1, 2, 7, 31, 32, 33, 255, 257, 512)
SEALED = 4096  # documents in the smallest sealed segment


def test_a_batch_of_any_size_and_order_replies_as_its_queries_alone(
    make: Make, effort: Effort
) -> None:
    tables = effort.cases(quick=3, full=60)
    assert same_in_every_batch(make, range(tables), SIZES) > tables * len(SIZES)


@pytest.mark.parametrize("bug", [NeighboursScope, BatchKernel], ids=lambda bug: bug.__name__)
def test_a_fault_of_batches_is_caught(bug: type[OracleSubject]) -> None:
    with pytest.raises(LawBroken):
        same_in_every_batch(bug, range(5), SIZES)


drawn = partial(table_of, n_calls=12, seed=5)


def test_the_number_of_threads_changes_no_byte(
    make_engine: Callable[..., EngineSubject], effort: Effort
) -> None:
    shape, rows, calls = drawn(effort.cases(quick=3000, full=30_000), PLAIN)
    one, two, four = (make_engine(shape, rows, threads=threads) for threads in (1, 2, 4))
    for call in calls:
        assert one.recall_bytes(call) == two.recall_bytes(call) == four.recall_bytes(call)


def test_segments_change_no_byte(make_engine: Callable[..., EngineSubject], effort: Effort) -> None:
    shape, rows, calls = drawn(effort.cases(quick=2 * SEALED + 500, full=6 * SEALED + 500), PLAIN)
    whole, grown = make_engine(shape, rows), make_engine(shape, rows[:SEALED])
    for first in range(SEALED, len(rows), 1500):
        grown.add(rows[first : first + 1500])
    assert grown.index.stats()["n_segments"] > whole.index.stats()["n_segments"] == 1
    drop = slice(100, 300)
    for subject in (whole, grown):
        subject.delete(
            [row.key for row in rows[drop]], [frozenset({row.cell}) for row in rows[drop]]
        )
    for call in calls:
        assert whole.recall_bytes(call) == grown.recall_bytes(call)
    grown.compact()
    for call in calls:
        assert whole.recall_bytes(call) == grown.recall_bytes(call)


def test_repeating_a_call_repeats_its_bytes(make_engine: Callable[..., EngineSubject]) -> None:
    shape, rows, calls = drawn(500, PLAIN)
    subject = make_engine(shape, rows)
    for call in calls:
        assert subject.recall_bytes(call) == subject.recall_bytes(replace(call))


@pytest.mark.plain_cases(2)
@pytest.mark.parametrize("isa", NEEDED_FLAGS)
def test_every_instruction_set_gives_the_same_bytes(
    isa: str,
    make_engine: Callable[..., EngineSubject],
    digests_of: Callable[[str], dict[str, str]],
) -> None:
    skip_without(isa)
    found = digests_of(isa)
    assert found["isa"] == isa  # the override took
    assert {found[plane] for plane in PLANES} == {digests_of("scalar")["rows"]}


@pytest.mark.plain_cases(2)
@pytest.mark.parametrize("plane", PLANES)
@pytest.mark.parametrize("bug", [no_residual, lost_rows], ids=lambda bug: bug.__name__)
def test_a_wrong_bound_changes_a_digest_where_the_plane_is_read(
    bug: ChangePlane, plane: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planes of both indexes are there, but "rows" reads none."""
    shape, rows, calls = drawn(400, PLAIN)
    monkeypatch.setenv(VARIABLE, "int8" if plane == "rows" else plane)
    whole, broken = EngineSubject(shape, rows), EngineSubject(shape, rows)
    broken.index = with_front(broken.index, bug)
    monkeypatch.setenv(VARIABLE, plane)
    changes = digest([(broken, calls)]) != digest([(whole, calls)])
    assert changes == (plane != "rows")
