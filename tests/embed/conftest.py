"""A stub endpoint for a test, and embedders of it."""

from collections.abc import Iterator

import pytest

from embed.stub_server import StubServer, serving
from hyrecall.embed import HttpEmbedder


@pytest.fixture
def server() -> Iterator[StubServer]:
    with serving() as one:
        yield one


@pytest.fixture
def made() -> Iterator[list[HttpEmbedder]]:
    """Close what a test makes."""
    embedders: list[HttpEmbedder] = []
    yield embedders
    for embedder in embedders:
        embedder.close()
