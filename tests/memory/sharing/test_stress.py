"""Processes use one store while owners are killed: nothing is lost, doubled or leaked."""

from __future__ import annotations

from pathlib import Path

import pytest

from laws.effort import Effort
from memory.sharing.stress import run


@pytest.mark.slow
def test_owners_are_killed_and_nothing_acknowledged_is_lost(tmp_path: Path, effort: Effort) -> None:
    seconds, processes = (120.0, 32) if effort.full else (8.0, 3)
    counted = run(tmp_path / "s", seconds=seconds, processes=processes, writes=30.0, every=2.0)
    assert counted.is_sound, counted
    assert counted.writes > 10
    assert counted.kills >= 1
