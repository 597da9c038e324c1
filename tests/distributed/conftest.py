"""What tests of several shards share."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import hyrecall as hr
from distributed.datasets import World
from distributed.saved import asked, saved_shards, whole
from hyrecall.distributed import ShardedIndex

SECONDS = 60.0  # in which a process has to answer


@pytest.fixture
def interrupts() -> Iterator[None]:
    """Let SIGINT raise KeyboardInterrupt, also in a run that began with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="package")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three saved shards, which no test changes."""
    return saved_shards(tmp_path_factory.mktemp("shards"))


@pytest.fixture(scope="package")
def one() -> hr.Index:
    """One index of the same documents."""
    return whole()


@pytest.fixture(scope="package")
def index(paths: list[Path]) -> Iterator[ShardedIndex]:
    """The shards in processes, which tests may stop and kill: others take their places."""
    how = {"device": "cpu", "threads": 1, "timeout": SECONDS}
    with ShardedIndex.open(paths, processes=True, **how) as made:
        made.recall(**asked())
        yield made


@pytest.fixture(scope="package")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Files of queries over one index and its shards."""
    return World(tmp_path_factory.mktemp("queries"))
