"""Only "auto" may choose a device: a store refuses a name that means none, when it is opened."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("apsw", reason="the extra [memory] is not installed")

from hyrecall import DeviceUnavailableError, OptionError
from hyrecall.memory import Memory, MemorySync
from seams import cuda_report

NAMES: tuple[Any, ...] = ("banana", "cuda", "gpu", "", "CUDA:0", "cuda:-1", "cuda:x", None, 3)


async def opened_async(path: Path, device: Any) -> None:
    async with Memory.open(path, embedder=None, device=device):
        pass


@pytest.mark.parametrize("name", NAMES)
def test_a_name_of_no_device_is_refused_before_a_store_is_made(tmp_path: Path, name: Any) -> None:
    path = tmp_path / "store"
    for door in (
        lambda: MemorySync.open(path, embedder=None, device=name),
        lambda: MemorySync.in_memory(embedder=None, device=name),
        lambda: asyncio.run(opened_async(path, name)),
    ):
        with pytest.raises(OptionError, match="device: expected 'cpu', 'cuda:N' or 'auto', got"):
            door()
    assert not path.exists()
    MemorySync.open(path, embedder=None).close()
    with pytest.raises(OptionError, match="device: expected"):
        MemorySync.open(path, embedder=None, device=name, read_only=True)


def test_a_device_that_is_not_there_is_refused_and_auto_takes_another(tmp_path: Path) -> None:
    missing = f"cuda:{len(cuda_report().devices)}"
    with pytest.raises(DeviceUnavailableError, match=missing):
        MemorySync.open(tmp_path / "store", embedder=None, device=missing)
    assert not (tmp_path / "store").exists()
    with MemorySync.open(tmp_path / "store", embedder=None, device="auto") as memory:
        memory.remember("tea at four", id="tea")
        assert [one.episode.id for one in memory.search("tea")] == ["tea"]
