"""Only "auto" may choose a device: a store refuses a name that means none, when it is opened."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("apsw", reason="the extra [memory] is not installed")

from hyrecall import DeviceUnavailableError
from hyrecall.memory import MemorySync
from seams import cuda_report


def test_a_device_that_is_not_there_is_refused_and_auto_takes_another(tmp_path: Path) -> None:
    missing = f"cuda:{len(cuda_report().devices)}"
    with pytest.raises(DeviceUnavailableError, match=missing):
        MemorySync.open(tmp_path / "store", embedder=None, device=missing)
    assert not (tmp_path / "store").exists()
    with MemorySync.open(tmp_path / "store", embedder=None, device="auto") as memory:
        memory.remember("tea at four", id="tea")
        assert [one.episode.id for one in memory.search("tea")] == ["tea"]
