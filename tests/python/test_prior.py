"""The stage Prior and the schema's speaker, as a caller of an index meets them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall.errors import OptionError
from hyrecall.recipe import Lexical, Recipe

TEXTS = ["the key is red", "the key is red", "the key is blue", "no door"]


def chat() -> pa.Table:
    return pa.table(
        {
            "id": [1, 2, 3, 4],
            "user": ["ann"] * 4,
            "role": ["assistant", "user", None, "user"],
            "stars": [5, 1, 3, 4],
            "tags": [["a"], [], ["b"], None],
            "text": TEXTS,
        }
    )


def schema(**options: object) -> hr.Schema:
    given = {"attributes": ("stars", "tags"), "speaker": "role"} | options
    return hr.Schema(key="id", cell="user", text="text", **given)


@pytest.fixture
def index() -> hr.Index:
    return hr.Index.build(chat(), schema())


def ask(index: hr.Index, prior: object = None, **options: object) -> hr.Hits:
    return index.recall(text=["key red"], scope="ann", shaping=prior, **options)


def test_who_said_a_row_decides_between_equal_ones(index: hr.Index) -> None:
    assert ask(index)[0].keys == [1, 2, 3]
    assert ask(index, hr.Prior("role", {"assistant": -0.1}))[0].keys == [2, 1, 3]
    assert ask(index, hr.Prior(None, {"assistant": -0.1}))[0].keys == [2, 1, 3]
    assert ask(index, hr.Prior("stars", {3: 2.5}))[0].keys == [3, 1, 2]


def test_tables_and_explanations_have_what_it_added(index: hr.Index) -> None:
    hits = ask(index, hr.Prior("role", {"assistant": -0.1, "nobody": 7}))
    rows = {row["key"]: row for row in hits.to_list()[0]}
    assert [rows[key]["prior_evidence"] for key in (1, 2, 3)] == [-0.1, 0.0, 0.0]
    assert rows[1]["score"] == rows[1]["fused_score"] - 0.1
    assert "neighbour_evidence" not in rows[1]
    for hit in hits[0]:
        (step,) = hit.explain().steps
        assert (step.stage, step.score) == ("Prior", hit.score)
        assert step.factors == {"prior": rows[hit.key]["prior_evidence"]}
    assert "prior" in str(hits[0][1].explain())


@pytest.mark.parametrize("prior", [hr.Prior("stars", {5: 1}), hr.Prior(None, {"user": 0.5})])
@pytest.mark.parametrize("fusion", [hr.RRF(), hr.WeightedSum(normalize="none")], ids=repr)
def test_a_recipe_joins_one_arm_alone_by_its_own_fusion_and_floor(
    index: hr.Index, prior: hr.Prior, fusion: hr.RRF | hr.WeightedSum
) -> None:
    recipe = Recipe(name="r", arms=Lexical(), fusion=fusion, min_fused=0.01, shaping=prior)
    hits = ask(index, recipe=recipe)[0]
    (joined,) = ask(index, recipe=recipe.replace(fuse_one_arm=True))
    assert [(hit.key, hit.score) for hit in hits] == [(hit.key, hit.score) for hit in joined]
    assert [hit.key for hit in ask(index, recipe=recipe.replace(min_fused=1e9))[0]] == []


def test_later_stages_start_from_it(index: hr.Index) -> None:
    stages = (hr.Prior("stars", {3: 2.5}), hr.Provenance("role", {"user": 0.5}), hr.Gate(0.1))
    hits = ask(index, stages)
    assert hits[0].keys == [3, 1, 2]
    assert all(hit.explain().score == hit.score for hit in hits[0])
    swapped = (stages[1], stages[0])
    with pytest.raises(OptionError, match="prior, provenance, linear"):
        ask(index, swapped)


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        (("nowhere", {"a": 1}), "nowhere: expected an attribute column"),
        (("text", {"a": 1}), "text: expected an attribute column"),
        (("tags", {"a": 1}), "tags: expected a filterable column without lists"),
        (("role", {3: 1}), "role: expected a str"),
        (("stars", {"five": 1}), "stars: expected"),
    ],
    ids=lambda given: str(given)[:24],
)
def test_columns_and_values_are_checked(
    index: hr.Index, prior: tuple[str, dict[object, float]], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        ask(index, hr.Prior(*prior))


def test_normalized_scores_are_refused_beside_a_prior(index: hr.Index) -> None:
    with pytest.raises(OptionError, match="normalize: expected False beside Prior"):
        ask(index, hr.Prior("role", {"user": 1}), normalize=True)


def test_a_prior_that_would_be_ignored_is_refused(index: hr.Index) -> None:
    stages = (hr.Prior("stars", {5: 1}), hr.Linear({"fused": 1.0}))
    with pytest.raises(OptionError, match="Prior: expected a weight for 'prior' in Linear"):
        ask(index, stages)


def test_without_a_speaker_it_is_refused_in_a_call_and_idle_in_a_recipe() -> None:
    plain = hr.Index.build(chat(), schema(speaker=None))
    prior = hr.Prior(None, {"assistant": -0.1})
    with pytest.raises(OptionError, match="Prior: expected the name of a column"):
        ask(plain, prior)
    recipe = Recipe(name="p", arms=(Lexical(),), fusion=hr.WeightedSum(), shaping=prior)
    hits = plain.recall(text=["key red"], scope="ann", recipe=recipe)
    assert "Prior has no effect: the schema has no speaker" in hits.trace.notes
    assert "prior_evidence" not in hits.to_arrow().column_names


def test_a_speaker_is_an_attribute_and_saved(index: hr.Index, tmp_path: Path) -> None:
    assert index.schema.attributes == ("stars", "tags", "role")
    index.save(tmp_path / "index")
    again = hr.Index.open(tmp_path / "index")
    assert again.schema == index.schema
    assert hr.Schema.from_dict(index.schema.to_dict()) == index.schema
    assert "speaker" not in schema(speaker=None).to_dict()
    assert hr.Schema.from_dict(schema(speaker=None).to_dict()) == schema(speaker=None)
    with pytest.raises(OptionError, match="speaker"):
        schema(speaker="")
