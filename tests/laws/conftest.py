"""The subjects of the law tests."""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from laws.effort import Effort
from laws.engine import EngineSubject
from laws.isa import instruction_sets
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
def digests(effort: Effort) -> dict[str, dict[str, str]]:
    """Digests of replies by instruction set, each from a process of its own (laws/digest.py)."""
    seeds = effort.cases(quick=2, full=60)
    path = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, sys.path)])
    return {
        isa: json.loads(
            subprocess.run(
                [sys.executable, "-m", "laws.digest", str(seeds)],
                env={**os.environ, "PYTHONPATH": path, "HYRECALL_ISA": isa},
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )
        for isa in instruction_sets()
    }
