"""The subjects of the law tests."""

from functools import partial

import pytest

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
