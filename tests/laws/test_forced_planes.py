"""A plane that is forced by name is held and read, however few rows an index has.

So the laws mean something when they run with HYRECALL_FRONT_PLANE set.
"""

import pytest

from laws.digest import table_of
from laws.engine import EngineSubject
from laws.planes import PLANES, VARIABLE, check_forced, held_plane, windows_read
from laws.registry import PLAIN

FEW = 30  # a build of so few rows makes no plane of its own accord


@pytest.mark.parametrize("plane", PLANES)
def test_a_forced_plane_is_held_and_read_through_the_life_of_an_index(
    plane: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, plane)
    shape, rows, calls = table_of(4 * FEW, PLAIN, n_calls=6)

    def looked_at(subject: EngineSubject) -> EngineSubject:
        held = {held_plane(one.dense["embedding"]) for one in subject.index._state.segments}
        assert held == {plane}
        before = windows_read(subject.index)
        for call in calls:
            subject.recall_bytes(call)
        assert (windows_read(subject.index) > before) == (plane != "rows")
        return subject

    subject = looked_at(EngineSubject(shape, rows[:FEW]))
    subject.add(rows[FEW : 2 * FEW])
    subject.add(rows[2 * FEW :])
    looked_at(subject).upsert(rows[:3])
    subject.delete([rows[5].key], [frozenset({rows[5].cell})])
    looked_at(subject).compact()
    looked_at(looked_at(subject).reopen())


@pytest.mark.parametrize("plane", PLANES)
def test_a_plane_that_is_not_held_is_noticed(plane: str, monkeypatch: pytest.MonkeyPatch) -> None:
    other = {"head8": "head4", "head4": "head8", "int8": "rows", "rows": "int8"}[plane]
    monkeypatch.setenv(VARIABLE, other)
    shape, rows, calls = table_of(FEW, PLAIN, n_calls=6)
    subject = EngineSubject(shape, rows)
    for call in calls:
        subject.recall_bytes(call)
    monkeypatch.setenv(VARIABLE, plane)
    with pytest.raises(AssertionError):
        check_forced(subject.index)
