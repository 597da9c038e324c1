"""L3: after any changes an index replies as a fresh build of its live documents does."""

import pytest

from laws.checks import LawBroken, no_history
from laws.effort import Effort
from laws.planted import Mutation, mutant
from laws.planted_life import LIVES, GhostStatistics, WeightlessDeletes, WeightlessMerges
from laws.subject import Make, planted
from oracle.life import Life


def test_history_leaves_no_trace(make: Make, effort: Effort) -> None:
    sequences = effort.cases(quick=10, full=1000)
    assert no_history(make, range(sequences)) == 10 * sequences


@pytest.mark.slow
def test_long_histories_leave_no_trace(make: Make, effort: Effort) -> None:
    sequences = effort.cases(quick=1, full=10)
    assert no_history(make, range(1000, 1000 + sequences), steps=100) == 100 * sequences


RARE = {"an update passes over what is not there"}  # seconds until a history shows it


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(fault, id=name, marks=[pytest.mark.slow] if name in RARE else [])
        for name, fault in LIVES.items()
    ],
)
def test_a_faulty_life_is_caught(fault: Mutation) -> None:
    with pytest.raises(LawBroken):
        no_history(planted(life=mutant(Life, fault)), range(60))


def test_deleted_documents_that_still_count_are_caught() -> None:
    with pytest.raises(LawBroken):
        no_history(GhostStatistics, range(60))


@pytest.mark.parametrize("fault", [WeightlessDeletes, WeightlessMerges])
def test_changes_that_forget_the_weights_of_columns_are_caught(fault: Make) -> None:
    with pytest.raises(LawBroken):
        no_history(fault, range(60))
