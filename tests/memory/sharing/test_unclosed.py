"""A process that ends, or drops its handle, without closing leaves no open socket."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hyrecall.memory import MemorySync
from hyrecall.recipes import loom

CHILD = """
import gc, sys
from hyrecall.memory import MemorySync
from hyrecall.recipes import loom

kept = MemorySync.open(sys.argv[1], recipe=loom, embedder=None)
kept.remember("tea", user_id="ann")
if sys.argv[2] == "dropped":
    del kept
    gc.collect()
"""


@pytest.mark.plain_cases(1)
@pytest.mark.parametrize("how", ["kept", "dropped"])
def test_a_client_that_is_not_closed_leaves_no_socket_open(tmp_path: Path, how: str) -> None:
    with MemorySync.open(tmp_path / "s", recipe=loom, embedder=None) as owner:
        command = [sys.executable, "-W", "error", "-c", CHILD, str(tmp_path / "s"), how]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert (ended.returncode, ended.stderr) == (0, "")
        assert len(owner.list(user_id="ann")) == 1
