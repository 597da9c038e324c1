"""An index that knows its embedder: it makes the vectors of documents and of queries itself."""

import asyncio
import contextlib
import subprocess
import sys
import threading
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall.embed import EmbedBy, EmbedError, EmbedFault, HashEmbedder
from hyrecall.recipe import Lexical
from seams import embed_error, embedders

DIM = 16
ROWS = {
    "id": ["a", "b", "c", "d", "e"],
    "user": ["ann", "ann", "ann", "bob", "ann"],
    "title": ["tea", "", "cups", "tea", None],
    "text": ["hot green tea", "cold milk", "a cup of tea", "black tea", None],
}
TABLE = pa.table(ROWS)
SCHEMA = hr.Schema(key="id", cell="user", text="text", vector="embedding")
QUERIES = ["green tea", "milk", None, "a cup"]
SCOPES = ["ann", "ann", "bob", hr.Scope(["ann", "bob"])]
HASHES = HashEmbedder(dim=DIM)


class Faulty:
    """Embeds as HASHES does until it is told to fail or to hang."""

    model = HASHES.model
    dim: int | None = DIM

    def __init__(self) -> None:
        self.fault: BaseException | None = None
        self.is_free = threading.Event()
        self.is_free.set()
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str]) -> Any:
        self.asked.extend(texts)
        self.is_free.wait()
        if self.fault is not None:
            raise self.fault
        return HASHES.embed(texts)


def by_hand(texts: Sequence[str | None]) -> np.ndarray[Any, Any]:
    return np.stack([HASHES.embed([one])[0] if one else np.zeros(DIM, np.float32) for one in texts])


def plain() -> hr.Index:
    return hr.Index.build(TABLE, SCHEMA, vectors={"embedding": by_hand(ROWS["text"])})


def embedded(by: Any = HASHES) -> hr.Index:
    return hr.Index.build(TABLE, SCHEMA, embed=by)


def asked(index: hr.Index, **options: Any) -> pa.Table:
    return index.recall(text=QUERIES, scope=SCOPES, **options).to_arrow()


def check_as_by_hand(index: hr.Index, other: hr.Index, **options: Any) -> None:
    """Compare an index that embeds with one that gets the vectors of documents and queries."""
    hits = index.recall(text=QUERIES, scope=SCOPES, **options)
    assert not hits.degraded
    assert hits.to_arrow().equals(asked(other, vectors=by_hand(QUERIES), **options))
    assert hits.n_hits > 5


# ---- it is as if the caller had embedded ----

OTHER = hr.recipes.default.replace(fusion=hr.RRF())
OPTIONS: list[dict[str, Any]] = [
    {},
    {"fusion": hr.RRF(alpha=0.5)},
    {"recipe": hr.recipes.default},
    {"recipe": [hr.recipes.default, OTHER, OTHER, hr.recipes.default]},
    {"shaping": (hr.Rerank(), hr.MMR(0.5)), "min_score": {"embedding": 0.1}},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda one: "-".join(one) or "plain")
def test_an_embedding_index_replies_as_one_that_gets_its_vectors(options: dict[str, Any]) -> None:
    index, other = embedded(), plain()
    check_as_by_hand(index, other, **options)
    more = pa.table({"id": ["f"], "user": ["ann"], "text": ["green cup"]})
    index.add(more)
    other.add(more, vectors={"embedding": by_hand(["green cup"])})
    changed = more.set_column(2, "text", pa.array(["tea with milk"]))
    index.upsert(changed)
    other.upsert(changed, vectors={"embedding": by_hand(["tea with milk"])})
    index.compact()
    check_as_by_hand(index, other, **options)


@pytest.mark.parametrize("what", ["documents", "queries"])
def test_planted_vectors_of_another_text_are_caught(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = embedders.embed_texts

    def shifted(guard: Any, texts: Any, **options: Any) -> Any:
        return np.roll(good(guard, texts, **options), 1, axis=0)

    index = embedded()
    monkeypatch.setattr(embedders, "embed_texts", shifted)
    if what == "documents":
        index = embedded()
        monkeypatch.setattr(embedders, "embed_texts", good)
    with pytest.raises(AssertionError):
        check_as_by_hand(index, plain())


def test_one_query_and_async_calls_are_embedded_too() -> None:
    index, other = embedded(), plain()
    one = index.recall_one(text="green tea", scope="ann")
    vector = by_hand(["green tea"])[0]
    same = other.recall_one(text="green tea", vector=vector, scope="ann")
    assert one.to_arrow().equals(same.to_arrow())
    alone = asyncio.run(index.arecall_one(text="green tea", scope="ann"))
    assert alone.to_arrow().equals(same.to_arrow())
    batch = asyncio.run(index.arecall(text=QUERIES, scope=SCOPES))
    assert batch.to_arrow().equals(asked(other, vectors=by_hand(QUERIES)))


def test_typed_queries_are_embedded_by_their_words() -> None:
    typed = hr.All(hr.Phrase("green tea"), hr.Prefix("mil"), hr.Not("hot oil"))
    hits = embedded().recall_one(text=typed, scope="ann")
    vector = by_hand(["green tea mil"])[0]
    same = plain().recall_one(text=typed, vector=vector, scope="ann")
    assert hits.to_arrow().equals(same.to_arrow())


@pytest.mark.parametrize("form", ["table", "stream", "polars"])
def test_columns_outside_the_schema_are_embedded_from_any_table(form: str) -> None:
    source: Any = {
        "table": lambda: TABLE,
        "stream": lambda: pa.RecordBatchReader.from_batches(TABLE.schema, TABLE.to_batches()),
        "polars": lambda: pl.DataFrame(ROWS),
    }[form]()
    by = EmbedBy(HASHES, columns=("title", "text"))
    index = hr.Index.build(source, SCHEMA, embed={"embedding": by})
    texts = ["tea\nhot green tea", "cold milk", "cups\na cup of tea", "tea\nblack tea", None]
    other = hr.Index.build(TABLE, SCHEMA, vectors={"embedding": by_hand(texts)})
    check_as_by_hand(index, other)
    assert "title" not in index.schema.row_columns


def test_an_index_without_a_text_arm_is_asked_by_texts() -> None:
    schema = hr.Schema(key="id", cell="user", vector="embedding")
    index = hr.Index.build(TABLE, schema, embed=EmbedBy(HASHES, columns="text"))
    other = hr.Index.build(TABLE, schema, vectors={"embedding": by_hand(ROWS["text"])})
    found = index.recall(text=QUERIES, scope=SCOPES).to_arrow()
    assert found.equals(other.recall(vectors=by_hand(QUERIES), scope=SCOPES).to_arrow())
    with pytest.raises(hr.OptionError, match=r"embed\['embedding'\]: expected the columns"):
        hr.Index.build(TABLE, schema, embed=HASHES)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_each_of_several_arms_has_its_own_embedder_and_precision(dtype: Any) -> None:
    arms = {"first": hr.Vector("first", dtype=dtype), "second": hr.Vector("second")}
    schema = hr.Schema(key="id", cell="user", text="text", vector=arms)
    titles = EmbedBy(HashEmbedder(dim=8), columns="title")
    index = hr.Index.build(TABLE, schema, embed={"first": HASHES, "second": titles})
    assert index.stats()["dims"] == {"first": DIM, "second": 8}
    (found,) = index.recall_one(text="tea", scope="bob").to_arrow().to_pylist()
    assert found["second_score"] == pytest.approx(1.0)  # the title is the query
    assert 0 < found["first_score"] < 1
    with pytest.raises(hr.OptionError, match=r"embed: expected \{arm: embedder\} for arms of"):
        hr.Index.build(TABLE, schema, embed=HASHES)
    with pytest.raises(hr.OptionError, match="embed: expected arms of"):
        hr.Index.build(TABLE, schema, embed={"third": HASHES})


def test_vectors_that_are_given_are_not_made_again() -> None:
    embedder = Faulty()
    vectors = by_hand(ROWS["text"])
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), DIM)
    index = hr.Index.build(TABLE.append_column("embedding", column), SCHEMA, embed=embedder)
    hr.Index.build(TABLE, SCHEMA, vectors={"embedding": vectors}, embed=embedder)
    index.recall(text=QUERIES, vectors=by_hand(QUERIES), scope=SCOPES)
    words_alone = asked(index, vectors={})
    assert words_alone.equals(asked(plain()))
    assert embedder.asked == []
    assert set(words_alone["embedding_score"].to_pylist()) == {None}
    check_as_by_hand(index, plain())
    assert embedder.asked == [query for query in QUERIES if query]


def test_a_null_in_a_column_of_vectors_is_a_row_without_a_vector() -> None:
    embedder = Faulty()
    vectors = [by_hand(["tea"])[0].tolist(), None, None, None, None]
    column = pa.array(vectors, pa.list_(pa.float32(), DIM))
    index = hr.Index.build(TABLE.append_column("embedding", column), SCHEMA, embed=embedder)
    assert embedder.asked == []
    hits = index.recall_one(text="milk", vector=by_hand(["tea"])[0], scope="ann")
    assert {hit.key: hit.vector_score is None for hit in hits} == {"a": False, "b": True}


def test_a_recipe_without_a_dense_arm_asks_no_embedder() -> None:
    embedder = Faulty()
    index = embedded(embedder)
    embedder.asked.clear()
    words = [one for one in hr.recipes.default.arms if isinstance(one, Lexical)]
    recipe = hr.recipes.default.replace(arms=words)
    assert not index.recall(text=["tea"], scope="ann", recipe=recipe).degraded
    assert embedder.asked == []


def test_the_scope_comes_before_the_embedder() -> None:
    embedder = Faulty()
    index = embedded(embedder)
    embedder.asked.clear()
    with pytest.raises(hr.ScopeError):
        index.recall(text=["tea"])
    with pytest.raises(hr.ScopeError):
        index.recall(text=["tea"], scope=[None])
    assert embedder.asked == []


# ---- an embedder that fails ----


@pytest.mark.parametrize("call", ["build", "add", "upsert"])
def test_a_failing_embedder_is_a_typed_error_and_adds_nothing(call: str) -> None:
    embedder = Faulty()
    index = embedded(embedder)
    before = asked(index, vectors=by_hand(QUERIES))
    embedder.fault = RuntimeError("no model")
    rows = pa.table({"id": ["a"], "user": ["bob"], "text": ["new"]})
    with pytest.raises(EmbedError, match=r"vectors of . texts, got crashed") as raised:
        embedded(embedder) if call == "build" else getattr(index, call)(rows)
    assert raised.value.fault is EmbedFault.CRASHED
    assert len(index) == TABLE.num_rows
    assert asked(index, vectors=by_hand(QUERIES)).equals(before)
    embedder.fault = None
    index.add(rows)
    assert len(index) == TABLE.num_rows + 1


FAILING: list[dict[str, Any]] = [*OPTIONS, {"shaping": hr.RerankBy(lambda q, t: [0.0] * len(t))}]


@pytest.mark.parametrize("options", FAILING, ids=lambda one: "-".join(one) or "plain")
def test_a_failing_embedder_degrades_a_recall(options: dict[str, Any]) -> None:
    embedder = Faulty()
    index = embedded(embedder)
    embedder.fault = RuntimeError("no model")
    hits = index.recall(text=QUERIES, scope=SCOPES, **options)
    assert hits.degraded
    assert "embedding did not run: crashed (RuntimeError)" in hits.trace.degraded
    told = [one.trace.degraded for one in hits.parts]
    assert all(told)
    assert hits.trace.of_query(0).degraded
    missing = [None] * len(QUERIES)
    assert hits.to_arrow().equals(asked(plain(), vectors=missing, **options))
    assert set(hits.to_arrow()["embedding_score"].to_pylist()) <= {None}
    if "min_score" not in options:
        assert hits[0].keys[0] == "a"


@pytest.mark.parametrize(
    "fusion", [hr.RRF(alpha=0), hr.WeightedSum(weights={"text": 1, "embedding": 0})]
)
def test_an_arm_that_the_fusion_leaves_out_is_not_embedded(fusion: Any) -> None:
    embedder = Faulty()
    index = embedded(embedder)
    embedder.fault = RuntimeError("no model")
    hits = index.recall(text=QUERIES, scope=SCOPES, fusion=fusion)
    assert not hits.degraded
    assert "embedding left out: weight 0" in hits.trace.notes
    assert hits.to_arrow().equals(asked(plain(), vectors=by_hand(QUERIES), fusion=fusion))


def test_a_hanging_embedder_ends_with_its_time() -> None:
    embedder = Faulty()
    index = embedded(EmbedBy(embedder, timeout=0.06))
    embedder.is_free.clear()
    try:
        hits = index.recall(text=["tea"], scope="ann")
        later = asyncio.run(index.arecall(text=["tea"], scope="ann"))
    finally:
        embedder.is_free.set()
    for one in (hits, later):
        assert one.trace.degraded[0].startswith("embedding did not run: timeout (")
        assert set(one[0].keys) == {"a", "c"}


def test_vectors_of_another_length_degrade_a_recall_and_end_a_build() -> None:
    embedder = Faulty()
    index = embedded(embedder)
    embedder.embed = lambda texts: np.ones((len(texts), 3), np.float32)  # type: ignore[method-assign]
    assert "wrong size" in index.recall(text=["tea"], scope="ann").trace.degraded[0]
    with pytest.raises(EmbedError, match="wrong size"):
        index.add(pa.table({"id": ["f"], "user": ["ann"], "text": ["x"]}))
    with pytest.raises(hr.OptionError, match=r"embed\['embedding'\]: expected an embedder of 16"):
        hr.Index.build(
            TABLE, SCHEMA, vectors={"embedding": by_hand(ROWS["text"])}, embed=HashEmbedder(dim=8)
        )


def test_an_embedder_that_is_switched_off_ends_a_build(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EmbedError) as raised:
        embedded("off")
    assert raised.value.fault is EmbedFault.OFF
    monkeypatch.setenv("HYRECALL_EMBED_DISABLE", "1")
    with pytest.raises(EmbedError, match="HYRECALL_EMBED_DISABLE is set"):
        embedded("static")


@pytest.mark.parametrize("given", [1, "nonsense", {"embedding": None}, EmbedBy])
def test_what_is_no_embedder_is_refused(given: Any) -> None:
    with pytest.raises((hr.DTypeError, hr.OptionError), match="embedder"):
        embedded(given)


def test_a_length_that_nothing_says_is_refused() -> None:
    embedder = Faulty()
    embedder.dim = None
    assert len(embedded(embedder)) == TABLE.num_rows  # its first reply says it
    with pytest.raises(hr.OptionError, match="an embedder that says its dim"):
        hr.Index.build(TABLE.slice(0, 0), SCHEMA, embed=embedder)


FORKS = """
import os
import pyarrow as pa
import hyrecall as hr
from hyrecall.embed import HashEmbedder
table = pa.table({"id": [1, 2], "text": ["hot tea", "milk"]})
schema = hr.Schema(key="id", cell=None, text="text", vector="v")
index = hr.Index.build(table, schema, embed=HashEmbedder(dim=8))
expected = index.recall(text=["tea"]).to_arrow()
child = os.fork()
if child == 0:
    hits = index.recall(text=["tea"])
    os._exit(7 if hits.to_arrow().equals(expected) and not hits.degraded else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
"""


@pytest.mark.slow
def test_a_forked_process_embeds_too(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", FORKS], check=True, timeout=90, cwd=tmp_path)


class Picky(Faulty):
    """Refuses a call with a long text."""

    def __init__(self, fault: BaseException) -> None:
        super().__init__()
        self._refusal = fault

    def embed(self, texts: Sequence[str]) -> Any:
        if any(len(text) > 50 for text in texts):
            raise self._refusal
        return super().embed(texts)


REFUSED = embed_error(EmbedFault.REFUSED, "status 200", "status 400", "50 characters at most")


@pytest.mark.parametrize("fault", [REFUSED, ValueError("too long")])
def test_a_query_that_the_embedder_refuses_leaves_the_others_of_its_batch_their_vectors(
    fault: BaseException,
) -> None:
    index = hr.Index.build(TABLE, SCHEMA, embed=Picky(fault))
    texts = ["green tea", "tea " * 50, "a cup"]
    hits = index.recall(text=texts, scope=["ann"] * 3)
    assert hits.degraded
    (told,) = hits.trace.degraded
    assert told.startswith("embedding[1] did not run: ")
    alone = [index.recall(text=[one], scope="ann") for one in texts]
    assert [one.degraded for one in alone] == [False, True, False]
    for at, one in enumerate(alone):
        assert hits[at].keys == one[0].keys
        assert hits.trace.of_query(at).degraded == one.trace.of_query(0).degraded
    assert hits.trace.of_query(1).degraded == (told.replace("[1]", ""),)


@pytest.mark.parametrize("bad", ["hi \ud83d", "tea " * 50])
def test_one_callers_text_takes_nobody_elses_vectors(bad: str) -> None:
    index = hr.Index.build(TABLE, SCHEMA, embed=Picky(TypeError("a text")))
    for _ in range(12):
        with contextlib.suppress(hr.OptionError):
            assert index.recall_one(text=bad, scope="bob").degraded
    assert not index.recall_one(text="warm beverage", scope="ann").degraded


def test_spellings_of_an_accent_have_one_vector() -> None:
    spelt = {form: unicodedata.normalize(form, "caf\u00e9") for form in ("NFC", "NFD")}
    rows = {"id": list(spelt), "user": ["ann"] * 2, "text": list(spelt.values())}
    index = hr.Index.build(pa.table(rows), SCHEMA, embed=HASHES)
    for text in spelt.values():
        hits = index.recall_one(text=text, scope="ann")
        assert [hit.vector_score for hit in hits] == [pytest.approx(1.0)] * 2


def test_the_first_text_of_a_query_is_embedded_whatever_its_arm() -> None:
    schema = hr.Schema(
        key="id", cell="user", text={"title": "title", "body": "text"}, vector="embedding"
    )
    heard: list[Any] = []
    shaping = hr.RerankBy(lambda query, texts: heard.append(query) or [0.0] * len(texts))
    index = hr.Index.build(TABLE, schema, embed=HASHES)
    asked = {"title": [None, "tea", None], "body": ["a cup", "milk", None]}
    hits = index.recall(text=asked, scope="ann", shaping=shaping)
    by_hand = HASHES.embed(["a cup", "tea", ""])
    again = index.recall(text=asked, vectors=by_hand, scope="ann", shaping=shaping)
    assert hits.to_arrow().equals(again.to_arrow())
    assert all(hit.vector_score is not None for hit in hits[0])
    assert set(heard) == {"a cup", "tea"}


def test_a_document_that_the_embedder_refuses_is_named() -> None:
    table = TABLE.set_column(3, "text", pa.array(["tea", "milk", "tea " * 50, "tea", "cup"]))
    with pytest.raises(EmbedError, match=r"a vector of text 2, .*\(50 characters at most\)"):
        hr.Index.build(table, SCHEMA, embed=Picky(REFUSED))
