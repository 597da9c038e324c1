"""What tests of several shards share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import hyrecall as hr
from distributed.datasets import World
from distributed.saved import saved_shards, whole
from hyrecall.distributed import ShardedIndex


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
    """The shards, opened."""
    with ShardedIndex.open(paths, device="cpu", threads=1) as made:
        yield made


@pytest.fixture(scope="package")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Files of queries over one index and its shards."""
    return World(tmp_path_factory.mktemp("queries"))
