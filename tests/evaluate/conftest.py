"""The small set and its indexes, for all tests of this folder."""

import pytest

from hyrecall.evaluate import Dataset, Indexes
from retrieval_set import small_set


@pytest.fixture(scope="session")
def data() -> Dataset:
    return small_set()


@pytest.fixture(scope="session")
def indexes(data: Dataset) -> Indexes:
    return Indexes(data)
