"""Threads, places and the stage Around, as a caller of an index meets them."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall.errors import DTypeError, OptionError
from hyrecall.recipe import Dense, Lexical, Recipe

TEXTS = ["where is the key", "under the red stone", "thank you", "weather is fine", "the lock fits"]


def chat(**columns: object) -> pa.Table:
    table = {
        "id": [10, 11, 12, 20, 21],
        "user": ["ann"] * 5,
        "session": ["a", "a", "a", "b", "b"],
        "turn": [1, 2, 3, 1, 2],
        "text": TEXTS,
    }
    return pa.table(table | columns)


def schema(**options: object) -> hr.Schema:
    given = {"thread": "session", "place": "turn"} | options
    return hr.Schema(key="id", cell="user", text="text", **given)


@pytest.fixture
def index() -> hr.Index:
    return hr.Index.build(chat(), schema())


def ask(index: hr.Index, around: hr.Around | None = None, **options: object) -> hr.Hits:
    return index.recall(text=["key"], scope="ann", shaping=around, **options)


def test_an_explanation_names_the_row_that_spoke(index: hr.Index) -> None:
    hits = ask(index, hr.Around())[0]
    answer = next(hit for hit in hits if hit.key == 11)
    (step,) = answer.explain().steps
    assert step.stage == "Around"
    assert step.keys == {"neighbour_1": 10}
    assert "neighbour 1 is row 10" in str(answer.explain())
    assert answer.explain().score == answer.score


def test_tables_have_a_column_for_each_part(index: hr.Index) -> None:
    rows = {row["key"]: row for row in ask(index, hr.Around()).to_list()[0]}
    assert rows[11]["neighbour_evidence"] == pytest.approx(0.3 * rows[10]["fused_score"])
    assert rows[10]["text_rank"] == 1
    assert rows[11]["text_rank"] is None
    for row in rows.values():
        parts = [row[f"{name}_evidence"] or 0.0 for name in ("neighbour", "thread", "length")]
        assert row["score"] == pytest.approx(row["fused_score"] + sum(parts))
    assert rows[12]["neighbour_evidence"] == pytest.approx(0.15 * rows[10]["fused_score"])


@pytest.mark.parametrize(
    "stage",
    [hr.Feedback(rows=1, terms=2), hr.Prior("kind", {"x": 1.0}), hr.Recency("at"), hr.Budget(9)],
    ids=lambda stage: type(stage).__name__,
)
def test_a_recipe_for_threads_has_its_stages_in_their_order(
    stage: hr.Feedback | hr.Prior | hr.Recency | hr.Budget,
) -> None:
    made = hr.recipes.default.replace(shaping=stage).for_threads()
    assert made.shaping == tuple(sorted((hr.Around(), stage), key=lambda one: one.phase))
    assert made.for_threads() is made


def test_an_index_with_threads_is_saved_and_opened(index: hr.Index, tmp_path: Path) -> None:
    before = ask(index, hr.Around()).to_list()
    index.save(tmp_path / "index")
    again = hr.Index.open(tmp_path / "index")
    assert again.schema == index.schema
    assert ask(again, hr.Around()).to_list() == before


def test_an_index_saved_without_threads_says_nothing_of_them(tmp_path: Path) -> None:
    plain = hr.Schema(key="id", cell="user", text="text")
    assert not {"thread", "place"} & set(plain.to_dict())
    assert hr.Schema.from_dict(plain.to_dict()) == plain
    assert hr.Schema.from_dict(schema().to_dict()) == schema()
    with pytest.raises(OptionError):
        hr.Schema.from_dict(plain.to_dict() | {"thread": "session"})
    hr.Index.build(chat(), plain).save(tmp_path / "index")
    manifest = (tmp_path / "index" / "MANIFEST").read_text()
    assert '"thread"' not in manifest


def test_threads_and_places_are_attributes_once() -> None:
    made = schema(attributes=("turn", "text"), stored=())
    assert made.attributes == ("turn", "text", "session")
    assert hr.Schema(key="id", cell=None, text="text", thread="session").attributes == ("session",)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"session": [1.0] * 5}, "session: expected a string, integer, boolean, date or time"),
        ({"session": [["a"]] * 5}, "session: expected a string, integer, boolean, date or time"),
        ({"turn": ["1"] * 5}, "turn: expected a number, date or time that orders"),
        ({"turn": [True] * 5}, "turn: expected a number, date or time that orders"),
    ],
)
def test_a_column_that_cannot_be_a_thread_or_a_place_is_refused(
    columns: dict[str, object], message: str
) -> None:
    with pytest.raises(DTypeError, match=message):
        hr.Index.build(chat(**columns), schema())


def test_the_stage_without_threads_is_refused_in_a_call_and_idle_in_a_recipe() -> None:
    index = hr.Index.build(chat(), hr.Schema(key="id", cell="user", text="text"))
    with pytest.raises(OptionError, match="Around: expected a schema with thread="):
        ask(index, hr.Around())
    recipe = Recipe(
        name="near", arms=(Lexical(), Dense()), fusion=hr.WeightedSum(), shaping=hr.Around()
    )
    without = recipe.replace(shaping=())
    hits = index.recall(text=["key"], scope="ann", recipe=recipe)
    expected = index.recall(text=["key"], scope="ann", recipe=without)
    assert hits.to_list() == expected.to_list()
    assert "Around has no effect: the schema has no thread" in hits.trace.notes


def test_normalized_scores_are_refused_beside_it(index: hr.Index) -> None:
    with pytest.raises(OptionError, match="normalize: expected False beside Around"):
        ask(index, hr.Around(), normalize=True)


def test_vectors_alone_have_neighbours_and_a_note(tmp_path: Path) -> None:
    rows = np.eye(5, dtype=np.float32) + 0.1
    index = hr.Index.build(
        chat(),
        hr.Schema(key="id", cell="user", vector="v", thread="session", stored="text"),
        vectors={"v": rows},
    )
    hits = index.recall(vectors=rows[:1], scope="ann", shaping=hr.Around((0.9,)), limit=2)
    assert hits[0].keys == [10, 11]
    assert "thread and length of Around: no effect, no text arm runs" in hits.trace.notes
    table = hits.to_arrow()
    assert table["thread_evidence"].null_count == table["length_evidence"].null_count == 2


def test_later_stages_and_pickled_hits_keep_the_evidence(index: hr.Index) -> None:
    stages = (hr.Around(), hr.Provenance("session", {"a": 1.0, "b": 0.5}), hr.Gate(0.05))
    hits = index.recall(text=["key"], scope="ann", shaping=stages)
    for hit in hits[0]:
        explained = hit.explain()
        assert explained.score == hit.score
        assert [step.stage for step in explained.steps] == ["Around", "Provenance", "Gate"]
    again = pickle.loads(pickle.dumps(hits))
    assert again.to_list() == hits.to_list()
    assert "neighbour_evidence" in hits.to_arrow().column_names
    dropped = hits[0].explain_dropped()
    assert {stage.stage for stage in dropped.stages} >= {"Provenance", "Gate"}


def test_a_rerank_keeps_the_score_of_the_place_with_its_evidence(index: hr.Index) -> None:
    def by_length(query: str, texts: list[str]) -> list[float]:
        return [float(len(text)) for text in texts]

    hits = index.recall(
        text=["key"], scope="ann", shaping=(hr.Around(), hr.RerankBy(by_length, window=3))
    )
    assert all(hit.explain().score == hit.score for hit in hits[0])


def test_a_row_beside_the_candidates_that_holds_an_identifier_comes_first_too() -> None:
    """Where more rows hold it than are looked up, those that the stage adds are looked at."""
    texts = ["INV-42"] * 4 + [f"INV-42 and {word} of it" for word in ("some", "more", "most")]
    table = pa.table({"id": range(7), "s": ["a"] * 7, "text": texts, "turn": [0, 2, 4, 6, 1, 3, 5]})
    made = hr.Schema(key="id", cell=None, text="text", thread="s", place="turn")
    recipe = Recipe(
        name="exact", arms=(Lexical(),), exact=True, fusion=hr.WeightedSum(), depth=2,
        shaping=(hr.Around((0.9,), 0, 0), hr.Gate(-1)),
    )  # fmt: skip
    hits = hr.Index.build(table, made).recall(text=["INV-42"], recipe=recipe, limit=2)
    assert hits.trace.exact[0] == 4  # both of its list, and the two beside them
