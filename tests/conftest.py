"""What all tests share: the oracle on the path, how long the laws run, and the device."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for `import oracle` and `import laws`

from laws.effort import Effort


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the law tests."""
    parser.addoption(
        "--laws",
        choices=("quick", "full"),
        default="quick",
        help="how many cases the law tests draw (default: quick)",
    )
    parser.addoption(
        "--subject",
        choices=("engine", "oracle"),
        default="engine",
        help="what the laws are tried on; the oracle itself, to check the checks (default: engine)",
    )


@pytest.fixture(scope="session")
def effort(request: pytest.FixtureRequest) -> Effort:
    """How long the laws run."""
    return Effort(full=request.config.getoption("--laws") == "full")


@pytest.fixture(params=["cpu"])
def device(request: pytest.FixtureRequest) -> str:
    """Every device on which conformance is tested."""
    return str(request.param)
