"""Around, Feedback and Prior, as a caller of an index meets them."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from emulated import Emulator
from hyrecall.arms import Regex
from hyrecall.errors import DTypeError, OptionError
from hyrecall.recipe import Dense, Lexical, Recipe
from laws.engine import ipc_bytes
from seams import CODEC, SecondLook
from seams import recall_batch_module as batch

# ---- threads, places and the stage Around, as a caller of an index meets them ----

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


# ---- the stage Feedback, as a caller of an index meets it ----

ROWS = (
    ("a", "ann", "note", "the kettle sings", [1.0, 0.0, 0.0]),
    ("b", "ann", "note", "kettle tea leaf", [0.9, 0.4, 0.0]),
    ("c", "ann", "chat", "leaf tea leaf", [0.2, 1.0, 0.0]),
    ("d", "ann", "note", "boat sail", [0.0, 0.0, 1.0]),
    ("e", "ann", "note", None, None),
    ("f", "bob", "note", "kettle rust rust", [1.0, 0.1, 0.0]),
    ("g", "bob", "note", "rust boat", [0.1, 0.2, 0.9]),
)
DENSE = hr.Feedback(rows=2)
TERMS = hr.Feedback(rows=2, dense=0, terms=2, lexical=0.5)


def table() -> pa.Table:
    columns = dict(zip(("id", "user", "kind", "text", "v"), zip(*ROWS, strict=True), strict=True))
    columns["v"] = pa.array(columns["v"], pa.list_(pa.float32(), 3))
    return pa.table(columns)


@pytest.fixture(scope="module")
def feedback_index() -> hr.Index:
    schema = hr.Schema(key="id", cell="user", text="text", vector="v", attributes="kind")
    return hr.Index.build(table(), schema)


def vectors(n: int = 1) -> np.ndarray:
    return np.array([[1, 0, 0]] * n, np.float32)


def test_terms_of_the_best_rows_find_what_the_words_do_not(feedback_index: hr.Index) -> None:
    asked: dict[str, Any] = {"text": ["kettle"], "scope": "ann"}
    assert feedback_index.recall(**asked)[0].keys == ["a", "b"]
    hits = feedback_index.recall(**asked, shaping=TERMS)
    # "tea" and "leaf" stand in another row, too; "sings" in none, and "the" in none.
    look = hits.trace.feedback[0]
    assert (look.rows, look.vectors) == (("a", "b"), ())
    assert list(look.terms["text"]) == ["kettle", "leaf"]
    assert sum(look.terms["text"].values()) == pytest.approx(0.5)
    assert hits[0].keys == ["b", "a", "c"]


def test_vectors_of_the_best_rows_move_the_query(feedback_index: hr.Index) -> None:
    asked: dict[str, Any] = {"vectors": vectors(), "scope": "ann"}
    plain, moved = feedback_index.recall(**asked), feedback_index.recall(**asked, shaping=DENSE)
    assert moved.trace.feedback == {0: SecondLook(("a", "b"), ("v",), {})}
    before, after = ({hit.key: hit.score for hit in hits[0]} for hits in (plain, moved))
    assert after["c"] > before["c"]
    rows = np.array([[1, 0, 0], [0.9, 0.4, 0]])
    unit = rows / np.linalg.norm(rows, axis=1)[:, None]
    query = np.array([1, 0, 0]) + 0.4 * unit.mean(axis=0)
    expected = query @ [0.2, 1, 0] / np.linalg.norm(query) / np.linalg.norm([0.2, 1, 0])
    assert after["c"] == pytest.approx(expected, abs=1e-6)


def test_explanations_name_the_rows_and_the_terms(feedback_index: hr.Index) -> None:
    asked: dict[str, Any] = {"text": ["kettle"], "vectors": vectors(), "scope": "ann"}
    hits = feedback_index.recall(**asked, shaping=hr.Feedback(rows=2, terms=2))
    for hit in hits[0]:
        made = hit.explain()
        assert made.score == hit.score
        assert made.feedback == hits.trace.feedback[0]
    shown = str(hits[0][0].explain())
    assert "Feedback heard a, b" in shown
    assert "they moved the query of v" in shown
    assert "they added to text: kettle x 0.1" in shown
    assert feedback_index.recall(**asked)[0][0].explain().feedback is None


def test_what_was_added_crosses_between_the_processes_of_a_store(feedback_index: hr.Index) -> None:
    hits = feedback_index.recall(text=["kettle"], scope="ann", shaping=TERMS)
    for told in (hits.trace, hits[0][0].explain()):
        assert told.feedback
        assert CODEC.decode(CODEC.encode(told)) == told


def test_an_arm_that_does_not_run_is_left_out(feedback_index: hr.Index) -> None:
    words: dict[str, Any] = {"text": ["kettle"], "scope": "ann"}
    alone: dict[str, Any] = {"vectors": vectors(), "scope": "ann"}
    for asked, stage, note in (
        (words, DENSE, "dense of Feedback: no effect, no vector arm runs"),
        (alone, TERMS, "terms of Feedback: no effect, no text arm runs"),
    ):
        plain, hits = feedback_index.recall(**asked), feedback_index.recall(**asked, shaping=stage)
        assert hits.trace.notes == (note,)
        assert hits.trace.feedback == {}
        assert "feedback" not in hits.trace.milliseconds
        assert ipc_bytes(plain.to_arrow()) == ipc_bytes(hits.to_arrow())
    hits = feedback_index.recall(**words, shaping=hr.Feedback(terms=1))
    assert hits.trace.feedback[0].terms
    assert hits.trace.notes == ("dense of Feedback: no effect, no vector arm runs",)


def test_what_rounding_alone_leaves_of_a_query_is_no_query(feedback_index: hr.Index) -> None:
    # The only row in scope is the query's opposite.
    rows = pa.table({"id": ["x"], "user": ["ann"], "v": pa.array([[-3.0, 0.0, 0.0]])})
    rows = rows.set_column(2, "v", pa.array([[-3.0, 0.0, 0.0]], pa.list_(pa.float32(), 3)))
    lonely = hr.Index.build(rows, hr.Schema(key="id", cell="user", vector="v"))
    stage = hr.Feedback(rows=1, dense=1.0)
    hits = lonely.recall(vectors=vectors(), scope="ann", shaping=stage)
    assert hits[0][0].score == -1.0
    assert hits.trace.feedback == {}


def test_it_comes_first_and_once(feedback_index: hr.Index) -> None:
    for stages in ((hr.Gate(0.1), DENSE), (DENSE, DENSE)):
        with pytest.raises(OptionError, match="in the order feedback, around"):
            feedback_index.recall(vectors=vectors(), scope="ann", shaping=stages)
    gated = (DENSE, hr.Gate(0.5))
    hits = feedback_index.recall(vectors=vectors(), scope="ann", shaping=gated)
    assert [stage.stage for stage in hits.trace.stages] == ["Gate"]


def test_pieces_of_a_batch_look_twice_alike(
    feedback_index: hr.Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = 23
    texts = [("kettle", "boat sail", "rust", "tea")[at % 4] for at in range(n)]
    asked: dict[str, Any] = {
        "text": texts, "vectors": np.random.default_rng(3).random((n, 3), np.float32),
        "scope": [("ann", "bob")[at % 3 == 0] for at in range(n)],
        "arms": (Regex(("text",)),), "shaping": hr.Feedback(rows=2, terms=2),
    }  # fmt: skip
    whole = feedback_index.recall(**asked)
    calls = []
    found = batch.Plan.complete

    def counted(self: Any, *given: Any, **options: Any) -> Any:
        calls.append(options.get("is_first", False))
        return found(self, *given, **options)

    monkeypatch.setattr(batch.Plan, "complete", counted)
    monkeypatch.setattr(batch, "BATCH_QUERIES", 7)
    pieces = feedback_index.recall(**asked)
    assert calls == [True] * 4 + [False] * 4
    assert ipc_bytes(whole.to_arrow()) == ipc_bytes(pieces.to_arrow())
    assert dict(whole.trace.feedback) == dict(pieces.trace.feedback)
    assert len(whole.trace.feedback) == n
    for at in (0, 8, 22):
        assert pieces[at][0].explain().score == pieces[at][0].score


def test_other_arms_search_once(feedback_index: hr.Index, monkeypatch: pytest.MonkeyPatch) -> None:
    searched = []
    search = Regex._search

    def counted(*given: Any) -> Any:
        searched.append(given[0])
        return search(*given)

    monkeypatch.setattr(Regex, "_search", counted)
    hits = feedback_index.recall(
        text=["kettle"], scope="ann", arms=(Regex(("text",)),), shaping=TERMS,
        fusion=hr.WeightedSum(normalize="none"),
    )  # fmt: skip
    assert len(searched) == 1
    assert "c" in hits[0].keys


def test_an_empty_batch_has_an_empty_reply(feedback_index: hr.Index) -> None:
    hits = feedback_index.recall(text=[], vectors=[], scope=[], shaping=hr.Feedback(terms=3))
    assert (len(hits), hits.n_hits, dict(hits.trace.feedback)) == (0, 0, {})


def test_an_index_on_a_device_looks_twice_with_the_same_bytes(
    feedback_index: hr.Index, emulated: Emulator
) -> None:
    schema = hr.Schema(key="id", cell="user", text="text", vector="v", attributes="kind")
    placed = hr.Index.build(table(), schema, device="cuda:0")
    n = 9
    asked: dict[str, Any] = {
        "text": [("kettle", "boat sail", "rust", "tea")[at % 4] for at in range(n)],
        "vectors": np.random.default_rng(4).random((n, 3), np.float32),
        "scope": [("ann", "bob")[at % 2] for at in range(n)],
        "shaping": hr.Feedback(rows=2, terms=3),
    }
    there, here = placed.recall(**asked), feedback_index.recall(**asked)
    assert there.trace.device == "cuda:0"
    assert ipc_bytes(there.to_arrow()) == ipc_bytes(here.to_arrow())
    assert dict(there.trace.feedback) == dict(here.trace.feedback)


# ---- the stage Prior and the schema's speaker ----

PRIOR_TEXTS = ["the key is red", "the key is red", "the key is blue", "no door"]


def prior_chat() -> pa.Table:
    return pa.table(
        {
            "id": [1, 2, 3, 4],
            "user": ["ann"] * 4,
            "role": ["assistant", "user", None, "user"],
            "stars": [5, 1, 3, 4],
            "tags": [["a"], [], ["b"], None],
            "text": PRIOR_TEXTS,
        }
    )


def prior_schema(**options: object) -> hr.Schema:
    given = {"attributes": ("stars", "tags"), "speaker": "role"} | options
    return hr.Schema(key="id", cell="user", text="text", **given)


@pytest.fixture
def prior_index() -> hr.Index:
    return hr.Index.build(prior_chat(), prior_schema())


def prior_ask(prior_index: hr.Index, prior: object = None, **options: object) -> hr.Hits:
    return prior_index.recall(text=["key red"], scope="ann", shaping=prior, **options)


def test_who_said_a_row_decides_between_equal_ones(prior_index: hr.Index) -> None:
    assert prior_ask(prior_index)[0].keys == [1, 2, 3]
    assert prior_ask(prior_index, hr.Prior("role", {"assistant": -0.1}))[0].keys == [2, 1, 3]
    assert prior_ask(prior_index, hr.Prior(None, {"assistant": -0.1}))[0].keys == [2, 1, 3]
    assert prior_ask(prior_index, hr.Prior("stars", {3: 2.5}))[0].keys == [3, 1, 2]


def test_tables_and_explanations_have_what_it_added(prior_index: hr.Index) -> None:
    hits = prior_ask(prior_index, hr.Prior("role", {"assistant": -0.1, "nobody": 7}))
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
    prior_index: hr.Index, prior: hr.Prior, fusion: hr.RRF | hr.WeightedSum
) -> None:
    recipe = Recipe(name="r", arms=Lexical(), fusion=fusion, min_fused=0.01, shaping=prior)
    hits = prior_ask(prior_index, recipe=recipe)[0]
    (joined,) = prior_ask(prior_index, recipe=recipe.replace(fuse_one_arm=True))
    assert [(hit.key, hit.score) for hit in hits] == [(hit.key, hit.score) for hit in joined]
    assert [
        hit.key for hit in prior_ask(prior_index, recipe=recipe.replace(min_fused=1e9))[0]
    ] == []


def test_later_stages_start_from_it(prior_index: hr.Index) -> None:
    stages = (hr.Prior("stars", {3: 2.5}), hr.Provenance("role", {"user": 0.5}), hr.Gate(0.1))
    hits = prior_ask(prior_index, stages)
    assert hits[0].keys == [3, 1, 2]
    assert all(hit.explain().score == hit.score for hit in hits[0])
    swapped = (stages[1], stages[0])
    with pytest.raises(OptionError, match="prior, provenance, linear"):
        prior_ask(prior_index, swapped)


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
    prior_index: hr.Index, prior: tuple[str, dict[object, float]], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        prior_ask(prior_index, hr.Prior(*prior))


def test_normalized_scores_are_refused_beside_a_prior(prior_index: hr.Index) -> None:
    with pytest.raises(OptionError, match="normalize: expected False beside Prior"):
        prior_ask(prior_index, hr.Prior("role", {"user": 1}), normalize=True)


def test_without_a_speaker_it_is_refused_in_a_call_and_idle_in_a_recipe() -> None:
    plain = hr.Index.build(prior_chat(), prior_schema(speaker=None))
    prior = hr.Prior(None, {"assistant": -0.1})
    with pytest.raises(OptionError, match="Prior: expected the name of a column"):
        prior_ask(plain, prior)
    recipe = Recipe(name="p", arms=(Lexical(),), fusion=hr.WeightedSum(), shaping=prior)
    hits = plain.recall(text=["key red"], scope="ann", recipe=recipe)
    assert "Prior has no effect: the schema has no speaker" in hits.trace.notes
    assert "prior_evidence" not in hits.to_arrow().column_names


def test_a_speaker_is_an_attribute_and_saved(prior_index: hr.Index, tmp_path: Path) -> None:
    assert prior_index.schema.attributes == ("stars", "tags", "role")
    prior_index.save(tmp_path / "index")
    again = hr.Index.open(tmp_path / "index")
    assert again.schema == prior_index.schema
    assert hr.Schema.from_dict(prior_index.schema.to_dict()) == prior_index.schema
    assert "speaker" not in prior_schema(speaker=None).to_dict()
    assert hr.Schema.from_dict(prior_schema(speaker=None).to_dict()) == prior_schema(speaker=None)
    with pytest.raises(OptionError, match="speaker"):
        prior_schema(speaker="")
