"""What a call asks and how it is answered: two pieces of data that every argument belongs to."""

import dataclasses
import inspect
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from seams import CallOptions, Search

# Floors and constants, which a recipe has in its arms.
IN_ARMS = {"min_score", "bm25"}
# What a recall takes beside the two: the recipe that stands in the place of options, its graphs.
BESIDE = {"recipe", "graphs"}
# What a call names otherwise.
NAMES = {"vector": "vectors", "arms": "more"}


@pytest.mark.parametrize("method", [hr.Index.recall, hr.Index.recall_one])
def test_each_argument_of_a_recall_is_part_of_the_request_or_an_option(method: object) -> None:
    given = set(inspect.signature(method).parameters) - {"self"}  # type: ignore[arg-type]
    asked, how = set(Search._fields), set(CallOptions._fields)
    assert not asked & how
    missing = {"query_keys"} if method is hr.Index.recall_one else set()
    assert {NAMES.get(name, name) for name in given} == (asked | how | BESIDE) - missing


def test_each_option_of_a_call_stands_for_a_field_of_a_recipe() -> None:
    fields = {one.name for one in dataclasses.fields(hr.Recipe)}
    assert set(CallOptions._fields) - IN_ARMS <= fields
    arm = {one.name for one in dataclasses.fields(hr.recipes.default.arms[0])}
    assert arm >= IN_ARMS


def test_defaults_of_requests_and_options_are_those_of_a_call() -> None:
    parameters = inspect.signature(hr.Index.recall).parameters
    for name, default in (CallOptions._field_defaults | Search._field_defaults).items():
        given = parameters["arms" if name == "more" else name].default
        assert given == default or (given, default) == ((), None)


FIELDS = (
    {"fusion": hr.RRF(rank_constant=7)},
    {"fusion": hr.WeightedSum(), "normalize": True, "min_fused": 0.1},
    {"fusion": hr.RRF(), "depth": 4, "shaping": (hr.Dedup(0.9),)},
    {"fusion": hr.Max(), "expansion": hr.SharedTags("tags")},
)


@pytest.mark.parametrize("fields", FIELDS, ids=str)
def test_options_of_a_call_answer_as_the_recipe_with_these_fields(fields: dict[str, Any]) -> None:
    rng = np.random.default_rng(17)
    words = ["tea", "kettle", "milk", "cup"]
    rows = {
        "id": [f"n{at}" for at in range(12)],
        "text": [" ".join(rng.choice(words, 3)) for _ in range(12)],
        "tags": [[words[at % 4]] for at in range(12)],
    }
    vectors = rng.normal(size=(12, 4)).astype(np.float32)
    schema = hr.Schema(key="id", cell=None, text="text", vector="v", attributes="tags")
    index = hr.Index.build(pa.table(rows), schema, vectors={"v": vectors})
    parts = (hr.recipe.Lexical(), hr.recipe.Dense())
    recipe = hr.Recipe(name="same", arms=parts, **fields)
    call: dict[str, Any] = {"text": ["tea", "milk cup"], "vectors": vectors[:2], "limit": 4}
    of_options, of_recipe = (index.recall(**call, **how) for how in (fields, {"recipe": recipe}))
    assert of_options.to_arrow().equals(of_recipe.to_arrow())
    assert of_options.n_hits
    related = [[one.related for one in hits] for hits in (of_options, of_recipe)]
    assert related[0] == related[1]
