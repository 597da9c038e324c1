"""The subjects of the law tests."""

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from laws.effort import Effort
from laws.engine import EngineSubject
from laws.subject import Make, planted


@pytest.fixture
def make(request: pytest.FixtureRequest, device: str) -> Make:
    """Makes the subject under test from a shape and rows."""
    if request.config.getoption("--subject") == "oracle":
        return planted()
    return partial(EngineSubject, device=device)


@pytest.fixture
def make_engine(request: pytest.FixtureRequest, device: str) -> partial[EngineSubject]:
    """Makes an engine, with options that an oracle does not have."""
    if request.config.getoption("--subject") == "oracle":
        pytest.skip("needs the engine: run without --subject=oracle")
    return partial(EngineSubject, device=device)


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the workers of this run share."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


@pytest.fixture(scope="session")
def digests_of(effort: Effort, shared_folder: Path) -> Callable[[str], dict[str, str]]:
    """Digests of replies by an instruction set, from a process of its own (laws/digest.py).

    The first worker that asks for a set makes them; the others wait and read.
    """
    seeds = effort.cases(quick=1, full=60)
    path = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, sys.path)])

    def digests(isa: str) -> dict[str, str]:
        file = shared_folder / f"digests-{isa}.json"
        with file.open("a+") as shared:
            fcntl.flock(shared, fcntl.LOCK_EX)
            if not file.stat().st_size:
                done = subprocess.run(
                    [sys.executable, "-m", "laws.digest", str(seeds)],
                    env={**os.environ, "PYTHONPATH": path, "HYRECALL_ISA": isa},
                    capture_output=True,
                    text=True,
                    check=True,
                )
                shared.write(done.stdout)
                shared.flush()
            return dict(json.loads(file.read_text()))

    return digests
