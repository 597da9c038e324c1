"""Hits under the caller's own keys of the queries."""

import asyncio
import pickle
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall import recipes
from seams import Lexical
from small_index import built, refused

BATCH = {
    "text": ["hot tea", "coffee", "tea"],
    "scope": ["ana", "bob", "ana"],
    "now": datetime(2026, 3, 1, tzinfo=UTC),
}


@pytest.fixture(scope="module")
def index() -> hr.Index:
    return built()


@pytest.mark.parametrize(
    "keys",
    [
        ["q1", "q2", "q3"],
        ("q1", "q2", "q3"),
        np.array(["q1", "q2", "q3"]),
        pa.array(["q1", "q2", "q3"]),
        pd.Series(["q1", "q2", "q3"]),
        pl.Series(["q1", "q2", "q3"]),
        [7, -1, 2**62],
        np.array([7, 8, 9], np.uint8),
        pa.array([7, 8, 9]),
    ],
    ids=lambda keys: type(keys).__name__,
)
def test_query_keys_stand_beside_the_numbers_of_queries(index: hr.Index, keys: Any) -> None:
    plain = index.recall(**BATCH)
    named = index.recall(**BATCH, query_keys=keys)
    wanted = [key.as_py() if isinstance(key, pa.Scalar) else key for key in keys]
    table = named.to_arrow()
    assert table.column_names[:3] == ["query", "query_key", "rank"]
    assert table["query_key"].to_pylist() == [wanted[q] for q in table["query"].to_pylist()]
    assert table.drop_columns("query_key").equals(plain.to_arrow())
    assert [one.query_key for one in named] == wanted
    assert [one.query_key for one in plain] == [None] * 3
    assert named[1].to_arrow()["query_key"].to_pylist() == [wanted[1]] * len(named[1])
    assert {row["query_key"] for row in named.to_list()[2]} == {wanted[2]}
    assert [one.query_key for one in pickle.loads(pickle.dumps(named))] == wanted


def test_query_keys_go_with_awaited_calls_and_several_recipes(index: hr.Index) -> None:
    found = asyncio.run(index.arecall(**BATCH, query_keys=["a", "b", "c"]))
    assert [one.query_key for one in found] == ["a", "b", "c"]
    words = hr.Recipe(name="words", arms=(Lexical(),), fusion=hr.RRF())
    named = [recipes.default, words, recipes.default]
    several = index.recall(**BATCH, recipe=named, query_keys=["a", "b", "c"])
    assert [one.query_key for one in several] == ["a", "b", "c"]
    table = several.to_arrow()
    assert table["query_key"].to_pylist() == ["abc"[q] for q in table["query"].to_pylist()]
    assert several[1].to_arrow()["query_key"].unique().to_pylist() == ["b"]


@pytest.mark.parametrize("by_recipe", [False, True])
def test_too_few_query_keys_are_refused_before_anything_is_searched(
    index: hr.Index, by_recipe: bool
) -> None:
    asked: list[str] = []

    def scores(query: str, texts: list[str]) -> list[float]:
        asked.append(query)
        return [1.0] * len(texts)

    stage = hr.RerankBy(scores)
    how: Any = {"shaping": stage}
    if by_recipe:
        how = {"recipe": recipes.default.replace(shaping=(stage,))}
    with pytest.raises(hr.ShapeError, match="query_keys: expected 3 keys, one per query, got 2"):
        index.recall(**BATCH, **how, query_keys=["a", "b"])
    assert asked == []


def test_a_column_of_the_same_name_is_not_hidden() -> None:
    table = pa.table({"id": [1], "query_key": ["x"], "text": ["tea"]})
    schema = hr.Schema(key="id", cell=None, text="text", stored=["query_key"])
    index = hr.Index.build(table, schema)
    assert (
        index.recall(text=["tea"], columns=["query_key"]).to_arrow()["query_key"][0].as_py() == "x"
    )
    assert index.recall(text=["tea"], query_keys=[5])[0].query_key == 5
    refused(
        lambda: index.recall(text=["tea"], columns=["query_key"], query_keys=[5]),
        hr.OptionError,
        "query_keys: expected no column of the index named 'query_key', got one",
        None,
    )
