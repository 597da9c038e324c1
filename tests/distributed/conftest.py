"""What tests of several shards share."""

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture
def interrupts() -> Iterator[None]:
    """Let SIGINT raise KeyboardInterrupt, also in a run that began with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
