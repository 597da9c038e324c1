"""Boosts multiply; what float32 cannot weigh is refused, not ranked as infinite."""

import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall.errors import OptionError


@pytest.fixture(scope="module")
def index() -> hr.Index:
    table = pa.table({"id": [0, 1, 2], "text": ["ash", "ash bay", "bay"]})
    return hr.Index.build(table, hr.Schema(key="id", cell=None, text="text"))


def nested(*factors: float) -> hr.Boost:
    query: hr.Boost | str = "ash"
    for factor in factors:
        query = hr.Boost(query, factor)
    assert isinstance(query, hr.Boost)
    return query


@pytest.mark.parametrize("factors", [(2.0**20, 2.0), (2.0**-20, 0.5), (2.0**20,) * 8])
def test_boosts_that_multiply_out_of_range_are_refused(
    factors: tuple[float, ...], index: hr.Index
) -> None:
    with pytest.raises(OptionError, match=r"^text\[0\]: expected nested boosts .*, got "):
        index.recall_one(text=hr.All("bay", nested(*factors)))


def test_boosts_multiply_within_the_range(index: hr.Index) -> None:
    plain, boosted = (index.recall_one(text=q)[0].score for q in ("ash", nested(2.0**20, 2.0**-19)))
    assert boosted == 2 * plain
