"""The stage Feedback, as a caller of an index meets it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from emulated import Emulator
from hyrecall.arms import Regex
from hyrecall.errors import OptionError
from laws.engine import ipc_bytes
from seams import CODEC, SecondLook
from seams import recall_batch_module as batch

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
def index() -> hr.Index:
    schema = hr.Schema(key="id", cell="user", text="text", vector="v", attributes="kind")
    return hr.Index.build(table(), schema)


def vectors(n: int = 1) -> np.ndarray:
    return np.array([[1, 0, 0]] * n, np.float32)


def test_terms_of_the_best_rows_find_what_the_words_do_not(index: hr.Index) -> None:
    asked: dict[str, Any] = {"text": ["kettle"], "scope": "ann"}
    assert index.recall(**asked)[0].keys == ["a", "b"]
    hits = index.recall(**asked, shaping=TERMS)
    # "tea" and "leaf" stand in another row, too; "sings" in none, and "the" in none.
    look = hits.trace.feedback[0]
    assert (look.rows, look.vectors) == (("a", "b"), ())
    assert list(look.terms["text"]) == ["kettle", "leaf"]
    assert sum(look.terms["text"].values()) == pytest.approx(0.5)
    assert hits[0].keys == ["b", "a", "c"]


def test_vectors_of_the_best_rows_move_the_query(index: hr.Index) -> None:
    asked: dict[str, Any] = {"vectors": vectors(), "scope": "ann"}
    plain, moved = index.recall(**asked), index.recall(**asked, shaping=DENSE)
    assert moved.trace.feedback == {0: SecondLook(("a", "b"), ("v",), {})}
    before, after = ({hit.key: hit.score for hit in hits[0]} for hits in (plain, moved))
    assert after["c"] > before["c"]
    rows = np.array([[1, 0, 0], [0.9, 0.4, 0]])
    unit = rows / np.linalg.norm(rows, axis=1)[:, None]
    query = np.array([1, 0, 0]) + 0.4 * unit.mean(axis=0)
    expected = query @ [0.2, 1, 0] / np.linalg.norm(query) / np.linalg.norm([0.2, 1, 0])
    assert after["c"] == pytest.approx(expected, abs=1e-6)


def test_explanations_name_the_rows_and_the_terms(index: hr.Index) -> None:
    asked: dict[str, Any] = {"text": ["kettle"], "vectors": vectors(), "scope": "ann"}
    hits = index.recall(**asked, shaping=hr.Feedback(rows=2, terms=2))
    for hit in hits[0]:
        made = hit.explain()
        assert made.score == hit.score
        assert made.feedback == hits.trace.feedback[0]
    shown = str(hits[0][0].explain())
    assert "Feedback heard a, b" in shown
    assert "they moved the query of v" in shown
    assert "they added to text: kettle x 0.1" in shown
    assert index.recall(**asked)[0][0].explain().feedback is None


def test_what_was_added_crosses_between_the_processes_of_a_store(index: hr.Index) -> None:
    hits = index.recall(text=["kettle"], scope="ann", shaping=TERMS)
    for told in (hits.trace, hits[0][0].explain()):
        assert told.feedback
        assert CODEC.decode(CODEC.encode(told)) == told


def test_an_arm_that_does_not_run_is_left_out(index: hr.Index) -> None:
    words: dict[str, Any] = {"text": ["kettle"], "scope": "ann"}
    alone: dict[str, Any] = {"vectors": vectors(), "scope": "ann"}
    for asked, stage, note in (
        (words, DENSE, "dense of Feedback: no effect, no vector arm runs"),
        (alone, TERMS, "terms of Feedback: no effect, no text arm runs"),
    ):
        plain, hits = index.recall(**asked), index.recall(**asked, shaping=stage)
        assert hits.trace.notes == (note,)
        assert hits.trace.feedback == {}
        assert "feedback" not in hits.trace.milliseconds
        assert ipc_bytes(plain.to_arrow()) == ipc_bytes(hits.to_arrow())
    hits = index.recall(**words, shaping=hr.Feedback(terms=1))
    assert hits.trace.feedback[0].terms
    assert hits.trace.notes == ("dense of Feedback: no effect, no vector arm runs",)


def test_what_rounding_alone_leaves_of_a_query_is_no_query(index: hr.Index) -> None:
    # The only row in scope is the query's opposite.
    rows = pa.table({"id": ["x"], "user": ["ann"], "v": pa.array([[-3.0, 0.0, 0.0]])})
    rows = rows.set_column(2, "v", pa.array([[-3.0, 0.0, 0.0]], pa.list_(pa.float32(), 3)))
    lonely = hr.Index.build(rows, hr.Schema(key="id", cell="user", vector="v"))
    stage = hr.Feedback(rows=1, dense=1.0)
    hits = lonely.recall(vectors=vectors(), scope="ann", shaping=stage)
    assert hits[0][0].score == -1.0
    assert hits.trace.feedback == {}


def test_it_comes_first_and_once(index: hr.Index) -> None:
    for stages in ((hr.Gate(0.1), DENSE), (DENSE, DENSE)):
        with pytest.raises(OptionError, match="in the order feedback, around"):
            index.recall(vectors=vectors(), scope="ann", shaping=stages)
    gated = (DENSE, hr.Gate(0.5))
    hits = index.recall(vectors=vectors(), scope="ann", shaping=gated)
    assert [stage.stage for stage in hits.trace.stages] == ["Gate"]


def test_a_page_deeper_than_the_depth_is_refused_with_one_arm_too(index: hr.Index) -> None:
    with pytest.raises(OptionError, match="limit: expected <= 2"):
        index.recall(text=["kettle"], scope="ann", depth=2, limit=3, shaping=TERMS)


def test_pieces_of_a_batch_look_twice_alike(
    index: hr.Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = 23
    texts = [("kettle", "boat sail", "rust", "tea")[at % 4] for at in range(n)]
    asked: dict[str, Any] = {
        "text": texts, "vectors": np.random.default_rng(3).random((n, 3), np.float32),
        "scope": [("ann", "bob")[at % 3 == 0] for at in range(n)],
        "arms": (Regex(("text",)),), "shaping": hr.Feedback(rows=2, terms=2),
    }  # fmt: skip
    whole = index.recall(**asked)
    calls = []
    found = batch.Plan.complete

    def counted(self: Any, *given: Any, **options: Any) -> Any:
        calls.append(options.get("is_first", False))
        return found(self, *given, **options)

    monkeypatch.setattr(batch.Plan, "complete", counted)
    monkeypatch.setattr(batch, "BATCH_QUERIES", 7)
    pieces = index.recall(**asked)
    assert calls == [True] * 4 + [False] * 4
    assert ipc_bytes(whole.to_arrow()) == ipc_bytes(pieces.to_arrow())
    assert dict(whole.trace.feedback) == dict(pieces.trace.feedback)
    assert len(whole.trace.feedback) == n
    for at in (0, 8, 22):
        assert pieces[at][0].explain().score == pieces[at][0].score


def test_other_arms_search_once(index: hr.Index, monkeypatch: pytest.MonkeyPatch) -> None:
    searched = []
    search = Regex._search

    def counted(*given: Any) -> Any:
        searched.append(given[0])
        return search(*given)

    monkeypatch.setattr(Regex, "_search", counted)
    hits = index.recall(
        text=["kettle"], scope="ann", arms=(Regex(("text",)),), shaping=TERMS,
        fusion=hr.WeightedSum(normalize="none"),
    )  # fmt: skip
    assert len(searched) == 1
    assert "c" in hits[0].keys


def test_an_empty_batch_has_an_empty_reply(index: hr.Index) -> None:
    hits = index.recall(text=[], vectors=[], scope=[], shaping=hr.Feedback(terms=3))
    assert (len(hits), hits.n_hits, dict(hits.trace.feedback)) == (0, 0, {})


def test_an_index_on_a_device_looks_twice_with_the_same_bytes(
    index: hr.Index, emulated: Emulator
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
    there, here = placed.recall(**asked), index.recall(**asked)
    assert there.trace.device == "cuda:0"
    assert ipc_bytes(there.to_arrow()) == ipc_bytes(here.to_arrow())
    assert dict(there.trace.feedback) == dict(here.trace.feedback)
