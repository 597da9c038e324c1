"""A stub endpoint for a test."""

from collections.abc import Iterator

import pytest

from embed.stub_server import StubServer, serving


@pytest.fixture
def server() -> Iterator[StubServer]:
    with serving() as one:
        yield one
