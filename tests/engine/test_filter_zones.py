"""Zone maps settle what they can; that they are sound is in test_filter_oracle."""

import math
from typing import Any

import pyarrow as pa

from seams import AllOf, Between, Filter, IsNull, NoneOf, NotNull, attribute_column, compile_filter

NONE, SOME, ALL = 0, 1, 2
TILE = 128


def tile_answers(test: Any, array: pa.Array) -> list[int]:
    program = compile_filter(Filter(x=test), {"x": array.type})
    answers: list[int] = program.answers([attribute_column(array)]).tolist()
    return answers


def test_zone_maps_settle_every_tile_of_sorted_data_but_those_at_an_end() -> None:
    ordered = pa.array(range(100 * TILE))
    answers = tile_answers((10 * TILE + 5, 20 * TILE + 5), ordered)
    assert answers == [NONE] * 10 + [SOME] + [ALL] * 9 + [SOME] + [NONE] * 79
    assert tile_answers([5, 50 * TILE], ordered).count(SOME) == 2
    assert tile_answers(NoneOf(5, 50 * TILE), ordered).count(ALL) == 98


def test_zone_maps_settle_texts_lists_nulls_and_nan() -> None:
    texts = pa.array([f"{i // TILE:03d}" for i in range(8 * TILE)], pa.large_string())
    assert tile_answers("003", texts) == [NONE] * 3 + [ALL] + [NONE] * 4
    assert tile_answers(["001", "002", "absent"], texts) == [NONE] + [ALL] * 2 + [NONE] * 5
    assert tile_answers(Between("0021", "005"), texts) == [NONE] * 3 + [ALL] * 3 + [NONE] * 2
    lists = pa.array([[i // TILE, i // TILE] for i in range(4 * TILE)], pa.large_list(pa.int8()))
    assert tile_answers(AllOf(2), lists) == [NONE, NONE, ALL, NONE]
    assert tile_answers((1, 2), lists) == [NONE, ALL, ALL, NONE]
    gaps = pa.array([None] * TILE + [1] * TILE + [1, None] * (TILE // 2))
    assert tile_answers(IsNull(), gaps) == [ALL, NONE, SOME]
    assert tile_answers(NotNull(), gaps) == [NONE, ALL, SOME]
    assert tile_answers(1, gaps) == [NONE, ALL, SOME]
    nan = pa.array([math.nan] * TILE + [1.0] * TILE)
    assert tile_answers((None, 5), nan) == [NONE, ALL]
    assert tile_answers((None, None), nan) == [SOME, ALL]


def test_a_last_tile_that_is_not_full_answers_for_the_rows_it_has() -> None:
    assert tile_answers(7, pa.array([7] * (TILE + 3))) == [ALL, ALL]
    assert tile_answers(IsNull(), pa.array([None] * 3, pa.int64())) == [ALL]
    program = compile_filter(~Filter(x=1), {"x": pa.int64()})
    assert program.evaluate([attribute_column(pa.array([1, 2, None]))]).tolist() == [
        False,
        True,
        True,
    ]
