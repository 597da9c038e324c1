"""What all tests share: the oracle on the path, how long the laws run, and the device."""

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for `import oracle` and `import laws`


@dataclass(frozen=True)
class Effort:
    """How many cases a law is tried on."""

    full: bool

    def cases(self, *, quick: int, full: int) -> int:
        """The number for this run."""
        return full if self.full else quick


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the law tests."""
    parser.addoption(
        "--laws",
        choices=("quick", "full"),
        default="quick",
        help="how many cases the law tests draw (default: quick)",
    )


@pytest.fixture(scope="session")
def effort(request: pytest.FixtureRequest) -> Effort:
    """How long the laws run."""
    return Effort(full=request.config.getoption("--laws") == "full")


@pytest.fixture(params=["cpu"])
def device(request: pytest.FixtureRequest) -> str:
    """Every device on which conformance is tested."""
    return str(request.param)
