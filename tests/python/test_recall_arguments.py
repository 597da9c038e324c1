"""Every refusal of recall, recall_one, add, upsert, delete and build: its class, its words, and the
argument it names.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import hyrecall as hr
import numpy as np
import pyarrow as pa
import pytest

N = 6
TEXTS = ("hot tea", "cold tea", "green tea", "tea", "coffee", "hot milk")
ONE = np.ones((1, 3), np.float32)


def documents(first: int = 0) -> pa.Table:
    return pa.table(
        {
            "id": [f"k{i}" for i in range(first, first + N)],
            "user": ["ana", "ana", "ana", "bob", "bob", None],
            "text": TEXTS,
            "kind": [0, 1, 0, 1, 0, 1],
        }
    )


VECTORS = np.arange(1, 3 * N + 1, dtype=np.float32).reshape(N, 3)
SCHEMA = hr.Schema(key="id", cell="user", text="text", vector="embedding", attributes="kind")


def built(schema: hr.Schema = SCHEMA, **options: Any) -> hr.Index:
    return hr.Index.build(documents(), schema, vectors={"embedding": VECTORS}, **options)


@pytest.fixture(scope="module")
def index() -> hr.Index:
    return built()


@pytest.fixture(scope="module")
def many() -> hr.Index:
    """Two arms of each kind."""
    table = documents().append_column("title", pa.array(TEXTS[::-1]))
    schema = hr.Schema(
        key="id",
        cell="user",
        text={"title": "title", "body": hr.Text("title", "text")},
        vector=("near", "far"),
    )
    return hr.Index.build(table, schema, vectors={"near": VECTORS, "far": VECTORS[:, :2]})


@pytest.fixture(scope="module")
def only_text() -> hr.Index:
    return hr.Index.build(documents(), hr.Schema(key="id", cell=None, text="text"))


@pytest.fixture(scope="module")
def only_vector() -> hr.Index:
    schema = hr.Schema(key="id", cell="user", vector="embedding")
    return hr.Index.build(documents(), schema, vectors={"embedding": VECTORS})


def refused(
    call: Callable[[], object], kind: type[hr.HyrecallError], message: str, argument: str | None
) -> None:
    """The call raises exactly this; ``argument`` defaults to what stands before the colon."""
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value) == message
    assert re.fullmatch(r".+?: expected .+, got .+", message, re.DOTALL)
    assert caught.value.argument == (argument or message.split(":", 1)[0])  # type: ignore[attr-defined]


TEXT = {"text": ["tea"], "scope": "ana"}
BOTH = {**TEXT, "vectors": ONE}

RECALL: list[tuple[dict[str, Any], type[hr.HyrecallError], str]] = [
    # what is asked
    ({"scope": "ana"}, hr.OptionError, "text: expected text= or vectors=, or both, got neither"),
    (
        {"text": "tea", "scope": "ana"},
        hr.OptionError,
        "text: expected a list with one entry per query, got str (recall_one takes one query)",
    ),
    (
        {"text": b"tea", "scope": "ana"},
        hr.OptionError,
        "text: expected a list with one entry per query, got bytes (recall_one takes one query)",
    ),
    (
        {"text": hr.Phrase("tea"), "scope": "ana"},
        hr.OptionError,
        "text: expected a list with one entry per query, got Phrase (recall_one takes one query)",
    ),
    (
        {"text": np.array("tea"), "scope": "ana"},
        hr.OptionError,
        "text: expected a list with one entry per query, got ndarray (recall_one takes one query)",
    ),
    (
        {"text": {"text": "tea"}, "scope": "ana"},
        hr.OptionError,
        "text['text']: expected a list with one entry per query, "
        "got str (recall_one takes one query)",
    ),
    (
        {"text": ["tea", 5], "scope": "ana"},
        hr.DTypeError,
        "text[1]: expected a str, hr.Phrase, hr.Prefix, hr.All, hr.Any or hr.Boost, got int 5",
    ),
    (
        {"text": {"title": ["tea"]}, "scope": "ana"},
        hr.OptionError,
        "text: expected arms of ['text'], got 'title'",
    ),
    (
        {"vectors": {"near": ONE}, "scope": "ana"},
        hr.OptionError,
        "vectors: expected arms of ['embedding'], got 'near'",
    ),
    (
        {"text": ["tea", "milk"], "vectors": ONE, "scope": "ana"},
        hr.ShapeError,
        "vectors['embedding']: expected 2 queries as text['text'] has, got 1",
    ),
    # scope
    (
        {"text": ["tea"]},
        hr.ScopeError,
        "scope: expected a scope: a cell, hr.Scope([...]), or a list with one entry per query, "
        "got None (the null cell is hr.Scope([None]))",
    ),
    (
        {"text": ["tea"], "scope": ["ana", "bob"]},
        hr.ShapeError,
        "scope: expected 1 entries, one per query, got 2",
    ),
    ({"text": ["tea"], "scope": []}, hr.ShapeError, "scope: expected 1 entries, one per query, got 0"),
    (
        {"text": ["tea"], "scope": [None]},
        hr.ScopeError,
        "scope[0]: expected a cell (str, int, bool or tuple) or hr.Scope, "
        "got None (the null cell is hr.Scope([None]))",
    ),
    (
        {"text": ["tea"], "scope": {"ana"}},
        hr.ScopeError,
        "scope: expected a cell (str, int, bool or tuple) or hr.Scope, got {'ana'}",
    ),
    (
        {"text": ["tea", "tea"], "scope": ["ana", 7]},
        hr.ScopeError,
        "scope[1]: expected a str or None for user, got int 7",
    ),
    # filter
    (
        {**TEXT, "filter": "kind"},
        hr.OptionError,
        "filter: expected an hr.Filter, None, or a list of them, got 'kind'",
    ),
    (
        {**TEXT, "filter": [None, None]},
        hr.ShapeError,
        "filter: expected 1 entries, one per query, got 2",
    ),
    # limit, offset, depth
    ({**TEXT, "limit": -1}, hr.OptionError, "limit: expected an int in [0, 2^31), got -1"),
    ({**TEXT, "limit": 2**31}, hr.OptionError, "limit: expected an int in [0, 2^31), got 2147483648"),
    ({**TEXT, "limit": True}, hr.OptionError, "limit: expected an int >= 0, got True"),
    ({**TEXT, "limit": 1.0}, hr.OptionError, "limit: expected an int >= 0, got 1.0"),
    ({**TEXT, "limit": "1"}, hr.OptionError, "limit: expected an int >= 0, got '1'"),
    ({**TEXT, "limit": None}, hr.OptionError, "limit: expected an int >= 0, got None"),
    ({**TEXT, "offset": -1}, hr.OptionError, "offset: expected an int in [0, 2^31), got -1"),
    ({**TEXT, "offset": 2**40}, hr.OptionError, f"offset: expected an int in [0, 2^31), got {2**40}"),
    ({**TEXT, "depth": 0}, hr.OptionError, "depth: expected an int in [1, 2^31), got 0"),
    ({**TEXT, "depth": False}, hr.OptionError, "depth: expected an int >= 1, got False"),
    ({**BOTH, "limit": 500}, hr.OptionError, "limit: expected <= 100 (depth), got 500; pass depth="),
    (
        {**BOTH, "limit": 10, "offset": 91},
        hr.OptionError,
        "limit: expected <= 100 (depth), got 101; pass depth=",
    ),
    ({**BOTH, "limit": 6, "depth": 5}, hr.OptionError, "limit: expected <= 5 (depth), got 6; pass depth="),
    # fusion
    ({**BOTH, "fusion": "rrf"}, hr.OptionError, "fusion: expected hr.RRF, hr.WeightedSum or hr.Max, got 'rrf'"),
    (
        {**BOTH, "fusion": hr.RRF({"title": 1.0})},
        hr.OptionError,
        "weights: expected arms of ['text', 'embedding'], got 'title'",
    ),
    (
        {**TEXT, "fusion": hr.WeightedSum({"embedding": 1.0})},
        hr.OptionError,
        "weights: expected no weight for an arm that does not run (['text'] do), got 'embedding'",
    ),
    (
        {**BOTH, "fusion": hr.WeightedSum({"text": 0.0, "embedding": 1.0}), "min_score": {"text": 1}},
        hr.OptionError,
        "min_score: expected arms of ['embedding'], got 'text'",
    ),
    # floors
    (
        {**BOTH, "min_score": 0.5},
        hr.OptionError,
        "min_score: expected {arm: floor} for arms of ['text', 'embedding'], got 0.5",
    ),
    (
        {**TEXT, "min_score": {"embedding": 0.5}},
        hr.OptionError,
        "min_score: expected arms of ['text'], got 'embedding'",
    ),
    (
        {**TEXT, "min_score": {"text": float("nan")}},
        hr.OptionError,
        "min_score['text']: expected a finite number or hr.Above(number), got nan",
    ),
    (
        {**TEXT, "min_score": 10**400},
        hr.OptionError,
        f"min_score['text']: expected a finite number or hr.Above(number), got {10**400}",
    ),
    (
        {**TEXT, "min_score": True},
        hr.DTypeError,
        "min_score['text']: expected a finite number or hr.Above(number), got bool True",
    ),
    (
        {**TEXT, "min_fused": 0.5},
        hr.OptionError,
        "min_fused: expected a fusion to act after (with one arm, min_score), got one arm",
    ),
    (
        {**BOTH, "min_fused": "x"},
        hr.DTypeError,
        "min_fused: expected a finite number or hr.Above(number), got str 'x'",
    ),
    # bm25, normalize, columns, now
    (
        {"vectors": ONE, "scope": "ana", "bm25": hr.BM25()},
        hr.OptionError,
        "bm25: expected None where no text arm runs, got BM25(variant='lucene', k1=1.2, b=0.75)",
    ),
    ({**TEXT, "bm25": "okapi"}, hr.OptionError, "bm25: expected an hr.BM25 or {arm: hr.BM25}, got 'okapi'"),
    ({**TEXT, "bm25": {"title": hr.BM25()}}, hr.OptionError, "bm25: expected arms of ['text'], got 'title'"),
    ({**BOTH, "normalize": 1}, hr.OptionError, "normalize: expected a bool, got 1"),
    (
        {**TEXT, "columns": "text"},
        hr.OptionError,
        "columns: expected a sequence of columns of ['id', 'user', 'kind', 'text'], got 'text'",
    ),
    (
        {**TEXT, "columns": ("text", "price")},
        hr.OptionError,
        "columns: expected a sequence of columns of ['id', 'user', 'kind', 'text'], "
        "got ('text', 'price')",
    ),
    (
        {**TEXT, "columns": None},
        hr.OptionError,
        "columns: expected a sequence of columns of ['id', 'user', 'kind', 'text'], got None",
    ),
    ({**TEXT, "now": 12.5}, hr.DTypeError, "now: expected a datetime, got float"),
]


@pytest.mark.parametrize(("options", "kind", "message"), RECALL)
def test_recall_refuses_by_name(
    index: hr.Index, options: dict[str, Any], kind: type[hr.HyrecallError], message: str
) -> None:
    refused(lambda: index.recall(**options), kind, message, None)


def test_an_error_is_ours_and_the_built_in_one(index: hr.Index) -> None:
    for options, kind, _ in RECALL:
        with pytest.raises((ValueError, TypeError, LookupError)) as caught:
            index.recall(**options)
        assert isinstance(caught.value, kind)


ONES = [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("vectors", "kind", "message"),
    [
        ([ONES[:2]], hr.ShapeError, "vectors: expected 3 values in every query, got 2 in query 0"),
        (ONES, hr.ShapeError, "vectors: expected shape (n_queries, 3), got (3,)"),
        (np.ones(3, "f"), hr.ShapeError, "vectors: expected shape (n_queries, 3), got (3,)"),
        (np.ones((1, 3, 1), "f"), hr.ShapeError, "vectors: expected shape (n_queries, 3), got (1, 3, 1)"),
        (
            np.array([[1.0, np.nan, 1.0]]),
            hr.OptionError,
            "vectors: expected finite values, got nan in query 0",
        ),
        (
            np.array([ONES, [1.0, 1e30, 1.0]]),
            hr.OptionError,
            "vectors: expected a norm in [2^-60, 2^60] or a zero vector, "
            "got 1000000015047466219876688855040.000000 in query 1",
        ),
        ("tea", hr.DTypeError, "vectors: expected a NumPy, torch, DLPack or Arrow array, got str"),
        (7, hr.DTypeError, "vectors: expected a NumPy, torch, DLPack or Arrow array, got int"),
    ],
)
def test_recall_refuses_vectors_by_name(
    index: hr.Index, vectors: object, kind: type[hr.HyrecallError], message: str
) -> None:
    refused(lambda: index.recall(vectors=vectors, scope="ana"), kind, message, None)


def test_an_index_without_the_arm_says_so(only_text: hr.Index, only_vector: hr.Index) -> None:
    refused(
        lambda: only_text.recall(vectors=ONE),
        hr.OptionError,
        "vectors: expected None (the index has no vector arm), got ndarray",
        None,
    )
    refused(
        lambda: only_vector.recall(text=["tea"], scope="ana"),
        hr.OptionError,
        "text: expected None (the index has no text arm), got list",
        None,
    )
    refused(
        lambda: only_text.recall(text=["tea"], scope="ana"),
        hr.ScopeError,
        "scope: expected no scope (the index was built with cell=None: one audience), got 'ana'",
        None,
    )
    assert len(only_text.recall(text=["tea"])[0]) == 4


def test_alpha_needs_one_arm_of_each_kind(many: hr.Index, only_text: hr.Index) -> None:
    wish = "alpha: expected an index with one text and one vector arm (else weights=), got "
    fusion = hr.RRF(alpha=0.5)
    for index, options, got in (
        (many, {"scope": "ana"}, "2 and 2"),
        (only_text, {}, "1 and 0"),
    ):
        refused(
            lambda index=index, options=options: index.recall(text=["tea"], fusion=fusion, **options),
            hr.OptionError,
            wish + got,
            None,
        )


def test_several_vector_arms_are_named_and_texts_go_to_every_arm(many: hr.Index) -> None:
    refused(
        lambda: many.recall(vectors=ONE, scope="ana"),
        hr.OptionError,
        "vectors: expected {arm: array} for arms of ['near', 'far'], got ndarray",
        None,
    )
    hits = many.recall(text=["tea"], vectors={"far": [[1, 2]]}, scope="ana")
    assert hits.trace.arms == ("title", "body", "far")
    assert many.recall(text={"body": ["tea"]}, scope="ana").trace.arms == ("body",)
    by_name = many.recall(text={"body": ["tea"], "title": ["tea"]}, scope="ana").to_arrow()
    assert by_name.equals(many.recall(text=["tea"], scope="ana").to_arrow())


ONE_QUERY: list[tuple[dict[str, Any], type[hr.HyrecallError], str]] = [
    ({"scope": "ana"}, hr.OptionError, "text: expected text= or vectors=, or both, got neither"),
    (
        {"text": "tea", "scope": ["ana"]},
        hr.OptionError,
        "scope: expected one scope (several cells are hr.Scope([...])), got a list",
    ),
    (
        {"text": ["tea"], "scope": "ana"},
        hr.DTypeError,
        "text[0]: expected a str, hr.Phrase, hr.Prefix, hr.All, hr.Any or hr.Boost, "
        "got list ['tea']",
    ),
    (
        {"vector": [1.0], "scope": "ana"},
        hr.ShapeError,
        "vectors: expected 3 values in every query, got 1 in query 0",
    ),
]


@pytest.mark.parametrize(("options", "kind", "message"), ONE_QUERY)
def test_recall_one_refuses_by_name(
    index: hr.Index, options: dict[str, Any], kind: type[hr.HyrecallError], message: str
) -> None:
    refused(lambda: index.recall_one(**options), kind, message, None)


def test_recall_one_takes_no_vectors_and_no_unknown_option(index: hr.Index) -> None:
    with pytest.raises(TypeError, match="vectors.*use vector="):
        index.recall_one(vectors=ONE, scope="ana")
    with pytest.raises(TypeError, match="top_k"):
        index.recall_one(text="tea", scope="ana", top_k=3)


def test_recall_one_is_the_batch_of_one(index: hr.Index, many: hr.Index) -> None:
    one = index.recall_one(text="hot tea", vector=[1, 0, 0], scope="ana", limit=2)
    batch = index.recall(text=["hot tea"], vectors=[[1, 0, 0]], scope=["ana"], limit=2)
    assert [repr(hit) for hit in one] == [repr(hit) for hit in batch[0]]
    named = many.recall_one(text={"body": "tea"}, vector={"far": [1, 2]}, scope="ana")
    assert [hit.key for hit in named] == named.keys


# ---- what is taken ----


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


@pytest.mark.parametrize(
    "text",
    [
        ["hot tea", None],
        ("hot tea", None),
        np.array(["hot tea", None], object),
        pa.array(["hot tea", None]),
        pa.chunked_array([["hot tea"], [None]]),
        {"text": ["hot tea", None]},
    ],
    ids=lambda text: type(text).__name__,
)
def test_texts_come_in_any_sequence(index: hr.Index, text: Any) -> None:
    hits = index.recall(text=text, scope="ana")
    assert [len(one) for one in hits] == [3, 0]


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
        None,
    )
    refused(
        lambda: index.recall(**TEXT, fusion=hr.RRF(alpha=0.3), min_fused=hr.Above("x")),  # type: ignore[arg-type]
        hr.DTypeError,
        "Above: expected a finite number, got str 'x'",
        None,
    )
    refused(
        lambda: index.recall(**BOTH, fusion=hr.Max({"text": 0, "embedding": 0.0})),
        hr.OptionError,
        "weights: expected a weight above 0 for one of ['text', 'embedding'], "
        "got {'text': 0.0, 'embedding': 0.0}",
        None,
    )
    alone = index.recall(**TEXT, fusion=hr.RRF(alpha=0.3))
    assert alone.trace.notes == ("alpha has no effect: only text runs",)
    assert alone[0][0].score == 1 / 61


# ---- build, add, upsert, delete ----


BUILD: list[tuple[dict[str, Any], type[hr.HyrecallError], str]] = [
    ({"device": "gpu"}, hr.OptionError, "device: expected 'cpu', 'cuda:N' or 'auto', got 'gpu'"),
    ({"device": 0}, hr.OptionError, "device: expected 'cpu', 'cuda:N' or 'auto', got 0"),
    ({"threads": 0}, hr.OptionError, "threads: expected an int in [1, 1024], or None, got 0"),
    ({"threads": True}, hr.OptionError, "threads: expected an int in [1, 1024], or None, got True"),
    ({"first_seq": -1}, hr.OptionError, "first_seq: expected an int in [0, 2^62), got -1"),
    ({"first_seq": 2**62}, hr.OptionError, f"first_seq: expected an int in [0, 2^62), got {2**62}"),
    ({"analyzer": "word"}, hr.DTypeError, "analyzer: expected an hr.Analyzer, got 'word'"),
    ({"bm25": "okapi"}, hr.DTypeError, "bm25: expected an hr.BM25, got 'okapi'"),
]


@pytest.mark.parametrize(("options", "kind", "message"), BUILD)
def test_build_refuses_by_name(
    options: dict[str, Any], kind: type[hr.HyrecallError], message: str
) -> None:
    refused(lambda: built(**options), kind, message, None)


def test_build_names_what_is_wrong_with_table_and_schema() -> None:
    refused(
        lambda: hr.Index.build(documents(), {"key": "id"}),  # type: ignore[arg-type]
        hr.DTypeError,
        "schema: expected an hr.Schema, got dict",
        None,
    )
    with pytest.raises(hr.DTypeError, match=r"^table: expected an Arrow table .+, got list$"):
        hr.Index.build([1, 2], SCHEMA)
    for schema in (
        hr.Schema(key="id", cell="user", text=hr.Text("text", analyzer="word")),  # type: ignore[arg-type]
        hr.Schema(key="id", cell="user", text=hr.Text("text", bm25="okapi")),  # type: ignore[arg-type]
    ):
        with pytest.raises(hr.DTypeError, match=r"expected an hr\.(Analyzer|BM25), got '"):
            hr.Index.build(documents(), schema)


def test_keys_that_come_twice_are_named_with_both_rows() -> None:
    table = documents().set_column(0, "id", pa.array(["a", "b", "a", "c", "d", "e"]))
    message = "id: expected keys unique within a cell, got 'a' in rows 0 and 2"
    refused(
        lambda: hr.Index.build(table, hr.Schema(key="id", cell="user", text="text")),
        hr.KeyConflictError,
        message,
        None,
    )
    index = built()
    for write in (index.add, index.upsert):
        refused(
            lambda write=write: write(table, vectors={"embedding": VECTORS}),
            hr.KeyConflictError,
            message,
            None,
        )


def test_add_names_the_key_that_its_cell_holds(index: hr.Index) -> None:
    table = documents(first=4)  # k4 was bob's and is now ana's: another document; k5 was null's
    moved = table.set_column(1, "user", pa.array(["ana", None, "ana", "bob", "bob", None]))
    refused(
        lambda: index.add(moved, vectors={"embedding": VECTORS}),
        hr.KeyConflictError,
        "id: expected keys that their cells do not hold yet (upsert replaces), got 'k5' in row 1",
        None,
    )


DELETE: list[tuple[Any, Any, type[hr.HyrecallError], str]] = [
    ("k1", "ana", hr.DTypeError, "keys: expected a sequence of str keys, got str 'k1'"),
    (b"k1", "ana", hr.DTypeError, "keys: expected a sequence of str keys, got bytes b'k1'"),
    (None, "ana", hr.DTypeError, "keys: expected a sequence of str keys, got NoneType None"),
    (["k1", 1], "ana", hr.DTypeError, "keys: expected a sequence of str keys, got int 1 at 1"),
    ([b"k1"], "ana", hr.DTypeError, "keys: expected a sequence of str keys, got bytes b'k1' at 0"),
    (["k1", None], "ana", hr.KeyConflictError, "keys: expected no null key, got None at 1"),
    (["k1"], ["ana", "bob"], hr.ShapeError, "scope: expected 1 entries, one per key, got 2"),
    (
        ["k1"],
        None,
        hr.ScopeError,
        "scope: expected a scope: a cell, hr.Scope([...]), or a list with one entry per key, "
        "got None (the null cell is hr.Scope([None]))",
    ),
]


@pytest.mark.parametrize(("keys", "scope", "kind", "message"), DELETE)
def test_delete_refuses_by_name_and_deletes_nothing(
    index: hr.Index, keys: Any, scope: Any, kind: type[hr.HyrecallError], message: str
) -> None:
    refused(lambda: index.delete(keys, scope=scope), kind, message, None)
    assert len(index) == N


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


def test_a_closed_index_refuses_every_call() -> None:
    with built() as index:
        assert len(index) == N
    for call in (
        lambda: index.recall(**TEXT),
        lambda: index.recall_one(text="tea", scope="ana"),
        lambda: index.add(documents()),
        lambda: index.upsert(documents()),
        lambda: index.delete(["k1"], scope="ana"),
        index.compact,
        index.__enter__,
    ):
        refused(call, hr.OptionError, "index: expected an open index, got a closed one", None)
    index.close()
