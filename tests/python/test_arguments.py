"""What build, add, upsert, delete and recall refuse of their arguments, and what they take."""

import asyncio
import gc
import pickle
import weakref
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall import recipes
from hyrecall.errors import error
from seams import Lexical
from small_index import BOTH, ONE, TEXT, VECTORS, N, built, documents, refused

# ---- what build, add and upsert refuse about keys and arms, and a closed index ----


def test_a_default_that_no_text_arm_takes_is_refused() -> None:
    only_vector = hr.Schema(key="id", cell="user", vector="embedding")
    given = hr.Text("text", analyzer=hr.Analyzer("word"), bm25=hr.BM25("okapi"))
    all_own = hr.Schema(key="id", cell="user", text={"a": given}, vector="embedding")
    some_own = hr.Schema(key="id", cell="user", text={"a": given, "b": "text"}, vector="embedding")
    defaults = {"analyzer": hr.Analyzer("porter"), "bm25": hr.BM25("fts5")}
    for name, default in defaults.items():
        for schema in (only_vector, all_own):
            refused(
                lambda schema=schema, name=name, default=default: built(schema, **{name: default}),
                hr.OptionError,
                f"{name}: expected None (there is no text arm without {name}= of its own), "
                f"got {default!r}",
            )
    index = built(some_own, **defaults)
    assert list(index._facts.analyzers.values()) == [given.analyzer, defaults["analyzer"]]
    assert list(index._facts.bm25.values()) == [given.bm25, defaults["bm25"]]


def test_a_falsy_value_of_another_type_is_no_default() -> None:
    message = "{0}: expected an hr.{1}, got {2!r}"
    for name, kind in (("analyzer", "Analyzer"), ("bm25", "BM25")):
        for bad in ("", {}, 0, False, ()):
            wanted = message.format(name, kind, bad)
            refused(lambda n=name, b=bad: built(**{n: b}), hr.DTypeError, wanted)
            arm = hr.Text("text", **{name: bad})  # type: ignore[arg-type]
            schema = hr.Schema(key="id", cell="user", text=arm, vector="embedding")
            refused(lambda schema=schema: built(schema), hr.DTypeError, wanted)


def test_keys_that_come_twice_are_named_with_both_rows() -> None:
    table = documents().set_column(0, "id", pa.array(["a", "b", "a", "c", "d", "e"]))
    message = (
        "id: expected keys unique within a cell, got 'a' in rows 0 and 2; "
        "keep one: pa.concat_tables([table[:2], table[3:]])"
    )
    refused(
        lambda: hr.Index.build(table, hr.Schema(key="id", cell="user", text="text")),
        hr.KeyConflictError,
        message,
    )
    index = built()
    for write in (index.add, index.upsert):
        refused(
            lambda write=write: write(table, vectors={"embedding": VECTORS}),
            hr.KeyConflictError,
            message,
        )


def test_add_names_the_key_that_its_cell_holds(index: hr.Index) -> None:
    table = documents(first=4)  # k4 was bob's and is now ana's: another document; k5 was null's
    moved = table.set_column(1, "user", pa.array(["ana", None, "ana", "bob", "bob", None]))
    refused(
        lambda: index.add(moved, vectors={"embedding": VECTORS}),
        hr.KeyConflictError,
        "id: expected keys that their cells do not hold yet, got 'k5' in row 1; "
        "replace it: index.upsert(table)",
    )


def test_delete_takes_no_key_for_another_number() -> None:
    table = pa.table({"id": [0, 1, 2**63 - 1, -(2**63)], "text": ["tea"] * 4})
    index = hr.Index.build(table, hr.Schema(key="id", cell=None, text="text"))
    for keys in ([1.0], [1.5], [True], ["1"], np.array([1.0]), np.array([True])):
        with pytest.raises(hr.DTypeError, match=r"^keys: expected a sequence of int64 keys, got "):
            index.delete(keys)
    for keys in ([2**63], [-(2**63) - 1], np.array([2**63], np.uint64)):
        with pytest.raises(hr.OptionError, match=r"^keys: expected a sequence of int64 keys, got "):
            index.delete(keys)
    assert len(index) == 4
    assert index.delete(np.array([2**63 - 1, 7])) == 1
    assert index.delete(pa.array([-(2**63)])) == 1
    assert index.recall_one(text="tea").keys == [0, 1]


def test_a_closed_index_refuses_every_call(tmp_path: Path) -> None:
    with built() as index:
        assert len(index) == N
    for call in (
        lambda: index.recall(**TEXT), lambda: index.recall_one(text="tea", scope="ana"),
        lambda: index.add(documents()), lambda: index.upsert(documents()),
        lambda: index.delete(["k1"], scope="ana"), lambda: index.get(["k1"], scope="ana"),
        lambda: index.count(scope="ana"), index.compact, lambda: index.save(tmp_path / "i"),
        lambda: len(index), index.stats, index.__enter__,
    ):  # fmt: skip
        refused(call, hr.OptionError, "index: expected an open index, got a closed one")
    index.close()
    assert not (tmp_path / "i").exists()
    assert repr(index) == "<Index: closed, arms text, embedding, on cpu>"
    assert (index.device, index.schema.key) == ("cpu", "id")


def test_a_closed_index_lets_go_of_its_documents_and_given_hits_keep_theirs() -> None:
    index = built()
    held = weakref.ref(index._state)
    hits = index.recall(**TEXT, columns=["text"])
    index.close()
    assert held() is not None
    assert hits.to_arrow().num_rows == hits.n_hits == 3
    del hits
    gc.collect()
    assert held() is None


def test_a_write_that_ends_after_the_close_does_not_open_the_index_again() -> None:
    def closing(text: str) -> list[str]:
        if text == "last":
            index.close()
        return text.split()

    analyzer = hr.Analyzer.from_callable(closing, name="closing", version="1")
    schema = hr.Schema(key="id", cell=None, text="text")
    index = hr.Index.build(pa.table({"id": [1], "text": ["tea"]}), schema, analyzer=analyzer)
    index.add(pa.table({"id": [2], "text": ["last"]}))
    with pytest.raises(hr.OptionError, match="got a closed one"):
        len(index)
    assert index._held is None


# ---- what recall refuses because of the arms that an index has ----

ONES = [1.0, 1.0, 1.0]


@pytest.mark.parametrize("bad", ["nan", "inf", "-inf"])
@pytest.mark.parametrize("shares", [None, {"text": 1.0, "embedding": 0.0}])
def test_a_matrix_of_float32_is_searched_for_values_that_are_not_finite(
    index: hr.Index, bad: str, shares: dict[str, float] | None
) -> None:
    matrix = np.array([ONES, [1.0, float(bad), 1.0]], np.float32)
    fusion = None if shares is None else hr.RRF(weights=shares)
    refused(
        lambda: index.recall(text=["tea", "tea"], vectors=matrix, scope="ana", fusion=fusion),
        hr.OptionError,
        f"vectors: expected finite values, got {bad} in query 1",
    )


def test_an_index_without_the_arm_says_so(only_text: hr.Index, only_vector: hr.Index) -> None:
    refused(
        lambda: only_text.recall(vectors=ONE), hr.OptionError,
        "vectors: expected None (the index has no vector arm), got ndarray",
    )  # fmt: skip
    refused(
        lambda: only_vector.recall(text=["tea"], scope="ana"), hr.OptionError,
        "text: expected None (the index has no text arm), got list",
    )  # fmt: skip


def test_alpha_needs_one_arm_of_each_kind(many: hr.Index, only_text: hr.Index) -> None:
    wish = "alpha: expected an index with one text and one vector arm (else weights=), got "
    fusion = hr.RRF(alpha=0.5)
    for index, options, got in (
        (many, {"scope": "ana"}, "2 and 2"),
        (only_text, {}, "1 and 0"),
    ):
        refused(
            lambda index=index, options=options: index.recall(
                text=["tea"], fusion=fusion, **options
            ),
            hr.OptionError,
            wish + got,
        )


def test_several_vector_arms_are_named_and_texts_go_to_every_arm(many: hr.Index) -> None:
    refused(
        lambda: many.recall(vectors=ONE, scope="ana"),
        hr.OptionError,
        "vectors: expected {arm: array} for arms of ['near', 'far'], got ndarray",
    )
    hits = many.recall(text=["tea"], vectors={"far": [[1, 2]]}, scope="ana")
    assert hits.trace.arms == ("title", "body", "far")
    assert many.recall(text={"body": ["tea"]}, scope="ana").trace.arms == ("body",)
    by_name = many.recall(text={"body": ["tea"], "title": ["tea"]}, scope="ana").to_arrow()
    assert by_name.equals(many.recall(text=["tea"], scope="ana").to_arrow())


def test_recall_one_takes_no_vectors_and_no_unknown_option(index: hr.Index) -> None:
    with pytest.raises(TypeError, match=r"did you mean vector=\?\), got 'vectors'"):
        index.recall_one(vectors=ONE, scope="ana")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"did you mean limit=\?\), got 'top_k'"):
        index.recall_one(text="tea", scope="ana", top_k=3)  # type: ignore[call-arg]


def test_recall_one_is_the_batch_of_one(index: hr.Index, many: hr.Index) -> None:
    one = index.recall_one(text="hot tea", vector=[1, 0, 0], scope="ana", limit=2)
    batch = index.recall(text=["hot tea"], vectors=[[1, 0, 0]], scope=["ana"], limit=2)
    assert [repr(hit) for hit in one] == [repr(hit) for hit in batch[0]]
    named = many.recall_one(text={"body": "tea"}, vector={"far": [1, 2]}, scope="ana")
    assert [hit.key for hit in named] == named.keys


# ---- numbers, sequences, floors and times in every form ----


@pytest.mark.parametrize("limit", [np.int64(2), np.uint8(2), np.int32(2)])
def test_numpy_integers_are_integers(index: hr.Index, limit: Any) -> None:
    hits = index.recall(**TEXT, limit=limit, offset=np.int16(1), depth=np.uint64(5))
    assert [hit.rank for hit in hits[0]] == [2, 3]


def test_limits_past_the_end_and_of_nothing(index: hr.Index) -> None:
    whole = index.recall(**TEXT).to_arrow()
    for limit in (3, 4, 1000, 2**31 - 1):
        assert index.recall(**TEXT, limit=limit).to_arrow().equals(whole)
    assert index.recall(**BOTH, limit=2**31 - 1, depth=2**31 - 1).n_hits == 3
    nothing = index.recall(**TEXT, limit=0)
    assert (nothing.n_hits, len(nothing), len(nothing[0])) == (0, 1, 0)
    beyond = index.recall(**TEXT, offset=2**31 - 1, limit=2**31 - 1)
    assert beyond.n_hits == 0
    assert beyond.to_arrow().schema.equals(whole.schema)


def test_an_empty_batch_has_an_empty_reply_with_types(index: hr.Index) -> None:
    full = index.recall(**BOTH).to_arrow().schema
    for options in (
        {"text": []},
        {"text": [], "vectors": []},
        {"vectors": np.zeros((0, 3), np.float32)},
        {"text": pa.array([], pa.string())},
    ):
        for scope in ("ana", [], hr.Scope([])):
            hits = index.recall(**options, scope=scope)
            assert (len(hits), hits.n_hits, list(hits)) == (0, 0, [])
            assert hits.to_arrow().schema.equals(full)
            assert hits.to_list() == []


def test_floors_take_numpy_scalars_and_stay_inclusive(index: hr.Index) -> None:
    scores = [hit.bm25_score for hit in index.recall(**TEXT)[0]]
    for floor in (np.float32(scores[0]), np.float64(scores[0]), scores[0]):
        kept = index.recall(**TEXT, min_score=floor)[0]
        assert [hit.bm25_score for hit in kept] == [s for s in scores if s >= scores[0]]
    assert len(index.recall(**TEXT, min_score=hr.Above(scores[0]))[0]) == 0
    assert len(index.recall(**TEXT, min_score=1e300)[0]) == 0
    assert len(index.recall(**TEXT, min_score=-1e300)[0]) == 3


def test_columns_from_an_iterator_are_all_there(index: hr.Index) -> None:
    table = index.recall(**TEXT, columns=(name for name in ("text", "kind"))).to_arrow()
    assert table.column_names[-2:] == ["text", "kind"]
    assert table.column("text").to_pylist()[0] == "cold tea" or table.num_rows == 3


def test_now_is_echoed_once_and_naive_is_utc(index: hr.Index) -> None:
    naive = datetime(2026, 5, 1, 12)
    assert index.recall(**TEXT, now=naive).now == naive.replace(tzinfo=UTC)
    aware = datetime(2026, 5, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    assert index.recall(**TEXT, now=aware).now == aware
    before = datetime.now(UTC)
    taken = index.recall(**TEXT).now
    assert before <= taken <= datetime.now(UTC)
    assert taken.tzinfo is not None


def test_an_arm_of_weight_0_is_left_out_and_the_trace_says_so(index: hr.Index) -> None:
    for fusion in (hr.RRF({"embedding": 0.0}), hr.WeightedSum({"embedding": 0}), hr.RRF(alpha=0)):
        hits = index.recall(**BOTH, fusion=fusion)
        assert hits.trace.arms == ("text",)
        assert hits.trace.notes == ("embedding left out: weight 0",)
        assert hits.arm_scores("embedding").null_count == hits.n_hits == 3
    refused(
        lambda: index.recall(**TEXT, fusion=hr.RRF({"text": 0.0, "embedding": 1e-9})),
        hr.OptionError,
        "weights: expected no weight for an arm that does not run (['text'] do), got 'embedding'",
    )
    refused(
        lambda: index.recall(**BOTH, fusion=hr.Max({"text": 0, "embedding": 0.0})),
        hr.OptionError,
        "weights: expected a weight above 0 for one of ['text', 'embedding'], "
        "got {'text': 0.0, 'embedding': 0.0}",
    )
    alone = index.recall(**TEXT, fusion=hr.RRF(alpha=0.3))
    assert alone.trace.notes == ("alpha has no effect: only text runs",)
    assert alone[0][0].score == 1 / 61


# ---- things that no argument takes: always a typed error ----

LONE = "\ud800"
HOSTILE: list[Any] = [
    np.array([1, 2]), np.array(["a", "b"]), np.array(3), np.array([]), np.array([[1]]),
    pa.array([1, 2]), {"a": np.array([1, 2])}, [np.array([1, 2])], b"\xff", LONE, object(),
    float("nan"), 10**400, np.datetime64("NaT", "s"),
]  # fmt: skip
TABLE = pa.table({
    "id": range(4),
    "who": ["a", "a", "b", "b"],
    "text": ["tea cup"] * 4,
    "v": pa.array(np.eye(4, dtype=np.float32).tolist(), pa.list_(pa.float32(), 4)),
    "at": pa.array(range(4), pa.timestamp("us")),
    "k": ["x", "y", "x", "y"],
})  # fmt: skip
SCHEMA = hr.Schema(key="id", cell="who", text="text", vector="v", attributes=("at", "k"))
RECALL = (
    "arms", "columns", "bm25", "session", "expansion", "graphs", "shaping", "fusion", "min_score",
    "min_fused", "limit", "offset", "depth", "now", "normalize", "recipe", "candidates", "scope",
    "filter", "text", "vectors",
)  # fmt: skip
CALLS: dict[str, Callable[[Any], object]] = {
    "device": lambda v: hr.Index.build(TABLE, SCHEMA, device=v),
    "threads": lambda v: hr.Index.build(TABLE, SCHEMA, threads=v),
    "first_seq": lambda v: hr.Index.build(TABLE, SCHEMA, first_seq=v),
    "analyzer": lambda v: hr.Index.build(TABLE, SCHEMA, analyzer=v),
    "bm25": lambda v: hr.Index.build(TABLE, SCHEMA, bm25=v),
    "vectors": lambda v: hr.Index.build(TABLE.drop(["v"]), SCHEMA, vectors=v),
    "its vectors": lambda v: hr.Index.build(TABLE.drop(["v"]), SCHEMA, vectors={"v": v}),
    "BM25": hr.BM25,
    "k1": lambda v: hr.BM25(k1=v),
    "Scope": hr.Scope,
    "a cell": lambda v: index().recall(text=["tea"], scope=hr.Scope([v])),
    "a cell's part": lambda v: index().recall(text=["tea"], scope=(v,)),
    "delete": lambda v: fresh().delete(v, scope="a"),
    "delete a key": lambda v: fresh().delete([v], scope="a"),
    "delete's scope": lambda v: fresh().delete([1], scope=v),
    "key": lambda v: hr.Schema(key=v, cell=None, text="text"),
    "cell": lambda v: hr.Schema(key="id", cell=v, text="text"),
    "text": lambda v: hr.Schema(key="id", cell=None, text=v),
    "text arm": lambda v: hr.Schema(key="id", cell=None, text=[(v, hr.Text("text"))]),
    "vector": lambda v: hr.Schema(key="id", cell=None, vector=v),
    "attributes": lambda v: hr.Schema(key="id", cell=None, text="text", attributes=v),
    "stored": lambda v: hr.Schema(key="id", cell=None, text="text", stored=v),
    "cluster": lambda v: hr.Schema(key="id", cell=None, text="text", cluster=v),
    "stopwords": lambda v: hr.Analyzer("unicode", stopwords=v),
    "a stop word": lambda v: hr.Analyzer("unicode", stopwords=[v]),
    "dtype": lambda v: hr.Vector("v", dtype=v),
    "weights": lambda v: hr.RRF(weights=v),
    "alpha": lambda v: hr.RRF(alpha=v),
    "alpha_mode": lambda v: hr.RRF(alpha=0.5, alpha_mode=v),
    "normalize": lambda v: hr.WeightedSum(normalize=v),
    "scale": lambda v: hr.Dedup(0.5, scale=v),
    "relevance": lambda v: hr.MMR(0.5, relevance=v),
    "half_life": lambda v: hr.Recency("at", half_life=v),
    "half_lives": lambda v: hr.Recency("at", by="k", half_lives=v),
    "Prefix": lambda v: index().recall(text=[hr.Prefix(v)], scope="a"),
    "attribute": lambda v: index().recall(text=["tea"], scope="a", filter=hr.Filter(at=v)),
    "memory": lambda v: hr.Index.open("nowhere", memory=v),
    "verify": lambda v: hr.Index.open("nowhere", verify=v),
}
for option in RECALL:
    CALLS[f"recall {option}"] = lambda v, option=option: index().recall(
        **{"text": ["tea"], "scope": "a", option: v}
    )


def refusal(call: Callable[[Any], object], value: object) -> tuple[str | None, str]:
    """The message of a refusal and the argument that it names; None: the value was taken."""
    try:
        call(value)
    except hr.HyrecallError as fault:
        return str(fault), fault.argument  # type: ignore[attr-defined]
    return None, ""


def fresh() -> hr.Index:
    return hr.Index.build(TABLE, SCHEMA, device="cpu")


@cache
def index() -> hr.Index:
    return fresh()


@pytest.mark.parametrize("call", CALLS)
def test_what_an_argument_does_not_take_is_a_typed_error(call: str) -> None:
    for value in HOSTILE:
        said, argument = refusal(CALLS[call], value)
        assert said is None or (": expected " in said and ", got " in said), repr(value)
        assert said is None or argument
        assert (said or "").encode() is not None  # it can be printed


def test_an_error_of_a_name_with_a_lone_surrogate_can_be_printed() -> None:
    with pytest.raises(hr.OptionError) as caught:
        index().recall(text=["tea"], scope="a", filter=hr.Filter(**{f"é{LONE}": 1}))
    message, argument = str(caught.value), caught.value.argument  # type: ignore[attr-defined]
    assert argument == "é\\ud800"
    assert message.encode().decode().startswith(f"{argument}: expected an attribute column")


def test_all_parts_of_an_error_can_be_printed() -> None:
    made = error(hr.OptionError, f"a{LONE}", f"b{LONE}", f"c{LONE}", f"d{LONE}")
    parts = (str(made), made.argument, made.remedy)  # type: ignore[attr-defined]
    shown = r"a\ud800: expected b\ud800, got c\ud800; d\ud800"
    assert parts == (shown, r"a\ud800", r"d\ud800")


class Dlpack:
    """An array that has nothing but DLPack."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()


def test_a_dlpack_array_without_axes_is_refused() -> None:
    one = Dlpack(np.array(1.0, np.float32))
    for given in (one, {"v": one}, [one]):
        with pytest.raises(hr.ShapeError, match=r"^vectors.*: expected "):
            index().recall(vectors=given, scope="a")
    with pytest.raises(hr.ShapeError, match="expected"):
        hr.Index.build(TABLE.drop(["v"]), SCHEMA, vectors={"v": one})


def test_texts_of_a_numpy_array_live_as_long_as_they_are_read() -> None:
    # The array makes a str when it is asked for one, and nobody else holds it.
    words = np.array(["tea " * 50 + str(at) for at in range(200)])
    numbers = np.arange(200)
    hits = index().recall(text=words, scope="a")
    assert hits.to_arrow() == index().recall(text=words.tolist(), scope="a").to_arrow()
    with pytest.raises(hr.DTypeError, match=r"^text\[0\]: expected a str"):
        index().recall(text=numbers, scope="a")


# ---- hits under the caller's own keys of the queries ----

BATCH = {
    "text": ["hot tea", "coffee", "tea"],
    "scope": ["ana", "bob", "ana"],
    "now": datetime(2026, 3, 1, tzinfo=UTC),
}


@pytest.fixture(scope="module")
def keyed_index() -> hr.Index:
    return built()


@pytest.mark.parametrize(
    "keys",
    [
        ["q1", "q2", "q3"], ("q1", "q2", "q3"), np.array(["q1", "q2", "q3"]),
        pa.array(["q1", "q2", "q3"]), pd.Series(["q1", "q2", "q3"]), pl.Series(["q1", "q2", "q3"]),
        [7, -1, 2**62], np.array([7, 8, 9], np.uint8), pa.array([7, 8, 9]),
    ],
    ids=lambda keys: type(keys).__name__,
)  # fmt: skip
def test_query_keys_stand_beside_the_numbers_of_queries(keyed_index: hr.Index, keys: Any) -> None:
    plain = keyed_index.recall(**BATCH)
    named = keyed_index.recall(**BATCH, query_keys=keys)
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


def test_query_keys_go_with_awaited_calls_and_several_recipes(keyed_index: hr.Index) -> None:
    found = asyncio.run(keyed_index.arecall(**BATCH, query_keys=["a", "b", "c"]))
    assert [one.query_key for one in found] == ["a", "b", "c"]
    words = hr.Recipe(name="words", arms=(Lexical(),), fusion=hr.RRF())
    named = [recipes.default, words, recipes.default]
    several = keyed_index.recall(**BATCH, recipe=named, query_keys=["a", "b", "c"])
    assert [one.query_key for one in several] == ["a", "b", "c"]
    table = several.to_arrow()
    assert table["query_key"].to_pylist() == ["abc"[q] for q in table["query"].to_pylist()]
    assert several[1].to_arrow()["query_key"].unique().to_pylist() == ["b"]


@pytest.mark.parametrize("by_recipe", [False, True])
def test_too_few_query_keys_are_refused_before_anything_is_searched(
    keyed_index: hr.Index, by_recipe: bool
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
        keyed_index.recall(**BATCH, **how, query_keys=["a", "b"])
    assert asked == []


def test_a_column_of_the_same_name_is_not_hidden() -> None:
    table = pa.table({"id": [1], "query_key": ["x"], "text": ["tea"]})
    schema = hr.Schema(key="id", cell=None, text="text", stored=["query_key"])
    keyed_index = hr.Index.build(table, schema)
    assert (
        keyed_index.recall(text=["tea"], columns=["query_key"]).to_arrow()["query_key"][0].as_py()
        == "x"
    )
    assert keyed_index.recall(text=["tea"], query_keys=[5])[0].query_key == 5
    refused(
        lambda: keyed_index.recall(text=["tea"], columns=["query_key"], query_keys=[5]),
        hr.OptionError,
        "query_keys: expected no column of the index named 'query_key', got one",
    )
