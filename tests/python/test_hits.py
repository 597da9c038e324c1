"""The table of hits: its schema, its forms, and that it stays that of its call."""

import copy
import dataclasses
import datetime as dt
import decimal
import importlib.util
import inspect
import pickle
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from laws.effort import Effort
from seams import CallOptions, JoinedReply, Lexical, ReplyBase, Search, reply_of
from seams import hits_Reply as Reply
from seams import segments_State as State
from several_recipes import NOW, Ask, World, asks, world
from small_index import built

# ---- the table of hits ----

STR, I32, F32, F64 = pa.large_string(), pa.int32(), pa.float32(), pa.float64()


def needs(name: str) -> Any:
    return pytest.mark.skipif(
        importlib.util.find_spec(name) is None, reason=f"{name} is not installed"
    )


def documents() -> pa.Table:
    return pa.table(
        {
            "id": ["a", "b", "c", "d", "e"],
            "tenant": ["acme", "acme", "acme", "ana", "acme"],
            "shared": [True, True, False, True, True],
            "text": ["hot tea", "tea", None, "tea tea", "milk"],
            "kind": pa.array([1, None, 3, 4, 5], pa.int16()),
            "note": ["one", None, "three", "secret", "five"],
        }
    )


VECTORS = np.array([[1, 0], [1, 1], [0, 1], [1, 0], [-1, 0]], np.float32)
SCHEMA = hr.Schema(
    key="id",
    cell=("tenant", "shared"),
    text="text",
    vector="v",
    attributes="kind",
    stored=("text", "note"),
)
ACME = hr.Scope([("acme", True), ("acme", False)])
ASKED: dict[str, Any] = {"text": ["hot tea", "milk"], "vectors": [[1, 0], None], "scope": ACME}
COLUMNS = {
    "query": I32,
    "rank": I32,
    "key": STR,
    "tenant": STR,
    "shared": pa.bool_(),
    "score": F64,
    "text_score": F32,
    "text_rank": I32,
    "v_score": F32,
    "v_rank": I32,
}


@pytest.fixture
def index() -> hr.Index:
    return hr.Index.build(documents(), SCHEMA, vectors={"v": VECTORS})


def test_the_table_has_the_columns_of_the_design_in_their_order(index: hr.Index) -> None:
    table = index.recall(**ASKED, columns=("text", "kind", "note")).to_arrow()
    extra = {"text": STR, "kind": pa.int16(), "note": STR}
    assert dict(zip(table.schema.names, table.schema.types, strict=True)) == COLUMNS | extra
    assert table.column_names == [*COLUMNS, *extra]
    assert table.column("query").to_pylist() == [0, 0, 0, 0, 1]
    assert table.column("rank").to_pylist() == [1, 2, 3, 4, 1]
    assert table.column("key").to_pylist() == ["a", "b", "c", "e", "e"]
    assert table.column("text").to_pylist() == ["hot tea", "tea", None, "milk", "milk"]
    assert table.column("kind").to_pylist() == [1, None, 3, 5, 5]
    for name in ("query", "rank", "key", "score"):
        assert table.column(name).null_count == 0
    table.validate(full=True)


def test_empty_replies_keep_types_and_columns(index: hr.Index) -> None:
    full = index.recall(**ASKED, columns=("kind", "note")).to_arrow().schema
    for scope in (hr.Scope([]), ("nobody", True)):
        hits = index.recall(text=["tea"], scope=scope, columns=("kind", "note"))
        assert hits.to_arrow().schema.equals(full)
        assert hits.to_arrow().num_rows == 0
        assert (len(hits), hits.n_hits, hits[0].keys, hits.to_list()) == (1, 0, [], [[]])
        assert repr(hits[0]) == "no hits"
        assert repr(hits) == "1 query, 0 hits"


def test_a_hit_has_its_values_as_attributes(index: hr.Index) -> None:
    hit = index.recall_one(text="hot tea", vector=[1, 0], scope=ACME, fusion=hr.RRF())[0]
    assert (hit.query, hit.rank, hit.key, hit.cell) == (0, 1, "a", ("acme", True))
    assert (hit.text, hit["note"], hit["kind"], hit["id"]) == ("hot tea", "one", 1, "a")
    assert (hit.bm25_score, hit.vector_score) == (hit.arm_score("text"), hit.arm_score("v"))
    assert (hit.arm_rank("text"), hit.arm_rank("v"), hit.vector_score) == (1, 1, 1.0)
    assert hit.score == 2 / 61
    assert (
        repr(hit)
        == f"Hit(rank=1, key='a', score={2 / 61!r}, text_score={hit.bm25_score!r}, v_score=1.0)"
    )
    with pytest.raises(hr.OptionError, match=r"^columns: expected columns of .+, got 'price'$"):
        hit["price"]
    with pytest.raises(hr.OptionError, match=r"^arm: expected an arm of \['text', 'v'\], got 'w'$"):
        hit.arm_score("w")
    with pytest.raises(AttributeError):
        hit.rank = 2  # type: ignore[misc]


def test_a_hit_of_several_arms_has_no_single_score() -> None:
    table = pa.table({"id": [1], "a": ["tea"], "b": ["tea"]})
    schema = hr.Schema(key="id", cell=None, text=("a", "b"), stored=())
    hit = hr.Index.build(table, schema).recall_one(text="tea")[0]
    with pytest.raises(
        AttributeError, match="exactly one such arm, the index has 2; use arm_score"
    ):
        _ = hit.bm25_score
    with pytest.raises(AttributeError, match="the index has 0"):
        _ = hit.vector_score
    assert hit.arm_score("a") == hit.arm_score("b")
    with pytest.raises(AttributeError, match=r"^the text column 'a' is not stored$"):
        _ = hit.text
    assert not hasattr(hit, "text")
    with pytest.raises(hr.OptionError, match=r"got 'a'$"):
        hit["a"]
    vectors = hr.Schema(key="id", cell=None, vector="v")
    only = hr.Index.build(table, vectors, vectors={"v": np.ones((1, 2), "f")})
    with pytest.raises(AttributeError, match="no text arm"):
        _ = only.recall_one(vector=[1, 0])[0].text


def test_hits_and_query_hits_are_sequences(index: hr.Index) -> None:
    hits = index.recall(**ASKED)
    assert (len(hits), hits.n_hits, [len(one) for one in hits]) == (2, 5, [4, 1])
    assert [one.query for one in hits[:]] == [0, 1]
    assert [one.query for one in hits[::-1]] == [1, 0]
    assert hits[-1].keys == hits[np.int64(1)].keys == ["e"]
    first = hits[0]
    assert [hit.key for hit in first] == first.keys == ["a", "b", "c", "e"]
    assert [hit.key for hit in first[1:3]] == ["b", "c"]
    assert [hit.key for hit in first[::-1]] == ["e", "c", "b", "a"]
    assert first[-1].key == "e"
    assert first[np.int32(0)].key == "a"
    for bad in (4, -5):
        with pytest.raises(IndexError):
            first[bad]
    for bad in (2, -3):
        with pytest.raises(IndexError):
            hits[bad]
    assert [hit.key for hit in reversed(first)] == ["e", "c", "b", "a"]
    assert [one.query for one in hits] == [0, 1]
    assert [one.query for one in reversed(hits)] == [1, 0]


def test_reprs_are_short_and_say_what_there_is(index: hr.Index) -> None:
    hits = index.recall(text=["tea"] * 5, scope=ACME)
    lines = repr(hits).splitlines()
    assert lines[0] == "5 queries, 10 hits"
    assert len(lines) == 3 + 10 * 2
    many = index.recall(text=["tea"] * 500, scope=ACME)
    assert repr(many).splitlines()[-1] == "... 980 more hits"
    assert len(repr(many)) < 2000
    assert repr(index) == "<Index: 5 documents, arms text, v, on cpu>"


def test_printed_hits_and_explanations_say_which_arm_did_not_run() -> None:
    index = hr.Index.build(documents(), SCHEMA, vectors={"v": VECTORS}, embed="off")
    told = 'degraded: v did not run: off (embedder="off")'
    hits = index.recall(text=["hot", "cocoa"], scope=ACME)
    lines = repr(hits).splitlines()
    assert (lines[0], lines[-1]) == ("2 queries, 1 hit, degraded", told)
    assert repr(hits[0]).splitlines()[0] == "1 hit, degraded"
    assert repr(hits[0]).splitlines()[-1] == told
    assert repr(hits[1]).splitlines() == ["no hits, degraded", told]
    for shown in (hits, hits[0], hits[1]):
        assert "degraded</p>" in shown._repr_html_()
        assert "did not run: off (embedder=&quot;off&quot;)</p>" in shown._repr_html_()
    assert str(hits[0][0].explain()).splitlines()[-1] == "  " + told
    whole = index.recall(text=["hot"], vectors={}, scope=ACME)
    assert whole[0][0].explain().degraded == ()
    assert "degraded" not in repr(whole) + repr(whole[0]) + str(whole[0][0].explain())


def test_of_many_reasons_three_are_printed(index: hr.Index) -> None:
    too_long = " ".join(f"w{at}" for at in range(65_537))
    hits = index.recall(text=["hot", *[too_long] * 5], scope=ACME)
    lines = repr(hits).splitlines()
    assert sum(line.startswith("degraded: ") for line in lines) == 3
    assert lines[-1] == "... 2 more reasons"
    assert max(map(len, lines)) <= 80
    assert "degraded" not in repr(hits[0])  # its own reasons alone
    assert repr(hits[1]).count("degraded: ") == 1


# ---- other libraries ----


def test_the_stream_is_the_table(index: hr.Index) -> None:
    hits = index.recall(**ASKED, columns=["text"])
    assert pa.table(hits).equals(hits.to_arrow())
    assert pa.RecordBatchReader.from_stream(hits).read_all().equals(hits.to_arrow())
    wanted = pa.schema(
        [
            field.with_type(pa.string()) if field.type == STR else field
            for field in hits.to_arrow().schema
        ]
    )
    assert pa.RecordBatchReader.from_stream(hits, schema=wanted).schema == wanted


def test_a_printed_table_has_ranks_scores_cell_and_the_text_beneath() -> None:
    texts = ["green tea " * 9, "tea\n\x1b[2J of fill", None]
    table = pa.table({"id": ["a", "b", "c"], "user": ["ann"] * 3, "text": texts})
    vectors = np.array([[1, 0], [0, 1], [3, 4]], np.float32)
    schema = hr.Schema(key="id", cell="user", text="text", vector="v")
    index = hr.Index.build(table, schema, vectors={"v": vectors})
    asked = {"text": "tea", "vector": [1, 0], "scope": "ann", "fusion": hr.RRF()}
    hits = index.recall_one(**asked)
    a, b, c = hits
    assert str(hits).splitlines() == [
        "3 hits",
        "rank  key     score       BM25     cosine  user",
        "----  ---  --------  ---------  ---------  ----",
        f"   1  a    {a.score:.6f}  {a.bm25_score:.4f} #1  1.0000 #1  ann",
        "      green tea green tea green tea green tea green tea green tea green t...",
        f"   2  b    {b.score:.6f}  {b.bm25_score:.4f} #2  0.0000 #3  ann",
        "      tea \\x1b[2J of fill",
        f"   3  c    {c.score:.6f}       -     0.6000 #2  ann",
    ]


@needs("rich")
def test_rich_shows_the_printed_table_in_the_width_of_its_console(index: hr.Index) -> None:
    from rich.console import Console

    for hits in (index.recall(**ASKED), index.recall(**ASKED)[0]):
        for width in (40, 120):
            console = Console(width=width)
            with console.capture() as printed:
                console.print(hits)
            lines = printed.get().splitlines()
            assert max(map(len, lines)) <= width
            assert ("hot tea" in printed.get(), " BM25" in lines[1]) == (True, True)
        assert [line.rstrip() for line in lines] == repr(hits).splitlines()


MARKUP = "[bold red]shout[/] [link=http://example.org]here[/link] :warning: \\[x"


@needs("rich")
def test_stored_text_is_no_markup() -> None:
    from rich.console import Console

    table = pa.table({"id": ["[blink]k[/blink]"], "[red]": [f"tea {MARKUP} [/nonsense]"]})
    index = hr.Index.build(table, hr.Schema(key="id", cell=None, text="[red]"))
    hits = index.recall(text=["tea"])
    for shown in (hits, hits[0]):
        console = Console(width=200, force_terminal=True, color_system="truecolor")
        with console.capture() as printed:
            console.print(shown)
        for part in (MARKUP, "[/nonsense]", "[blink]k[/blink]"):
            assert part in printed.get()
        assert "example.org\x1b" not in printed.get()


# ---- the call's snapshot ----


def test_columns_read_later_are_those_of_the_call(index: hr.Index) -> None:
    asked = {**ASKED, "columns": ("text", "kind", "note")}
    before = index.recall(**asked).to_arrow()
    late = index.recall(**asked)
    index.delete(["a", "e"], scope=ACME)
    renewed = documents().slice(1, 2).set_column(5, "note", pa.array(["new", "new"]))
    index.upsert(renewed, vectors={"v": VECTORS[3:]})
    index.compact()
    assert index.recall_one(text="hot", scope=ACME).keys == []
    assert late.to_arrow().equals(before)
    assert [hit["note"] for hit in late[0]] == ["one", None, "three", "five"]
    assert late[0][0].explain().score == late[0][0].score
    index.close()
    assert late.to_arrow().equals(before)
    assert late[1][0].text == "milk"


def test_the_trace_tells_how_it_ran(index: hr.Index) -> None:
    hits = index.recall(text=["tea", "--", ""], scope=ACME, limit=3, depth=2)
    trace = hits.trace
    assert (trace.device, trace.n_queries, trace.arms, trace.depth) == ("cpu", 3, ("text",), 3)
    assert trace.notes == ("text[1] has no indexable token", "text[2] has no indexable token")
    assert (hits.degraded, trace.degraded) == (False, ())
    assert set(trace.milliseconds) == {"plan", "statistics", "candidates", "fusion"}
    assert all(spent >= 0 for spent in trace.milliseconds.values())


# ---- stored columns of every Arrow type ----

DAY = dt.date(2026, 5, 1)
MOMENT = dt.datetime(2026, 5, 1, 12, 30, 15, 123456)
VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.null(), [None, None, None]),
    (pa.bool_(), [True, False, None]),
    (pa.int8(), [-128, 127, None]),
    (pa.int16(), [-1, 0, None]),
    (pa.int32(), [-(2**31), 5, None]),
    (pa.int64(), [-(2**63), 2**63 - 1, None]),
    (pa.uint8(), [0, 255, None]),
    (pa.uint16(), [0, 65535, None]),
    (pa.uint32(), [0, 2**32 - 1, None]),
    (pa.uint64(), [0, 2**64 - 1, None]),
    (pa.float16(), [np.float16(0.5), np.float16(-2), None]),
    (pa.float32(), [0.5, float("-inf"), None]),
    (pa.float64(), [1e300, -0.0, None]),
    (pa.decimal128(20, 3), [decimal.Decimal("1.250"), decimal.Decimal("-99999.999"), None]),
    (pa.decimal256(50, 1), [decimal.Decimal("1.5"), decimal.Decimal("-2.5"), None]),
    (pa.string(), ["a", "", None]),
    (pa.large_string(), ["zoë", "日本", None]),
    (pa.string_view(), ["short", "longer than twelve bytes", None]),
    (pa.binary(), [b"\0\xff", b"", None]),
    (pa.large_binary(), [b"x", b"", None]),
    (pa.binary(3), [b"abc", b"\0\0\0", None]),
    (pa.date32(), [DAY, dt.date(1900, 1, 1), None]),
    (pa.date64(), [DAY, dt.date(1900, 1, 1), None]),
    (pa.time32("ms"), [dt.time(1, 2, 3), dt.time(0), None]),
    (pa.time64("us"), [dt.time(1, 2, 3, 4), dt.time(0), None]),
    (pa.timestamp("us"), [MOMENT, dt.datetime(1, 1, 1), None]),
    (pa.timestamp("ns", "Europe/Berlin"), [MOMENT.replace(tzinfo=dt.UTC), None, None]),
    (pa.duration("s"), [dt.timedelta(days=1), dt.timedelta(seconds=-1), None]),
    (pa.list_(pa.int8()), [[1, None], [], None]),
    (pa.large_list(pa.string()), [["a", None], [], None]),
    (pa.list_(pa.float32(), 2), [[1.0, 2.0], [None, 0.0], None]),
    (
        pa.struct({"a": pa.int8(), "b": pa.string()}),
        [{"a": 1, "b": "x"}, {"a": None, "b": None}, None],
    ),
    (pa.map_(pa.string(), pa.int8()), [[("a", 1)], [], None]),
    (pa.month_day_nano_interval(), [pa.MonthDayNano([1, 2, 3]), pa.MonthDayNano([0, 0, 0]), None]),
    (pa.dictionary(pa.int8(), pa.string()), ["x", "y", None]),
]


@pytest.mark.parametrize(("kind", "values"), VALUES, ids=lambda value: str(value)[:30])
def test_stored_columns_of_every_type_come_back_equal(kind: pa.DataType, values: list[Any]) -> None:
    given = pa.array(values, kind)
    table = pa.table({"id": [1, 2, 3], "text": ["tea tea tea", "tea tea", "tea"], "x": given})
    schema = hr.Schema(key="id", cell=None, text="text", stored="x")
    index = hr.Index.build(table.slice(0, 1), schema, bm25=hr.BM25(b=0))
    for row in (1, 2):
        index.add(table.slice(row, 1))
    wanted = given.to_pylist()
    for _ in ("three segments", "one"):
        hits = index.recall(text=["tea"], columns=["x"])
        assert hits[0].keys == [1, 2, 3]
        assert hits.to_arrow().column("x").to_pylist() == wanted
        assert [hit["x"] for hit in hits[0]] == wanted
        hits.to_arrow().validate(full=True)
        index.compact()


# ---- the reply under hits: frozen data, which all that shows it shares ----

WORDS = hr.Recipe(name="words", arms=(Lexical(),), fusion=hr.RRF())
KEYS = ["a", "b", "c"]


@pytest.fixture(scope="module", params=[False, True], ids=["one recipe", "several recipes"])
def hits(request: pytest.FixtureRequest) -> hr.Hits:
    several = [hr.recipes.default, WORDS, hr.recipes.default]
    return built().recall(
        text=["hot tea", "coffee", "tea"],
        scope=["ana", "bob", "ana"],
        recipe=several if request.param else None,
        query_keys=KEYS,
    )


def test_a_reply_is_frozen(hits: hr.Hits) -> None:
    assert type(reply_of(hits)) is (Reply if len(hits.parts) == 1 else JoinedReply)
    for reply in (reply_of(hits), *reply_of(hits).parts):
        with pytest.raises(FrozenInstanceError):
            reply.now = None  # type: ignore[misc,assignment]
        with pytest.raises(FrozenInstanceError):
            del reply.facts


def test_copies_of_hits_share_the_reply(hits: hr.Hits) -> None:
    for made in (copy.copy(hits), copy.deepcopy(hits)):
        assert reply_of(made) is reply_of(hits)
    assert copy.deepcopy(hits)[0][0] == hits[0][0]


def test_each_query_is_held_by_one_part_with_its_key_alone(hits: hr.Hits) -> None:
    for query, one in enumerate(hits):
        part = hits.part_of(query)
        assert part in hits.parts
        assert reply_of(part) is reply_of(one)
        assert one.query_key == KEYS[query]
    if len(hits.parts) > 1:
        assert [reply_of(part).query_keys.to_pylist() for part in hits.parts] == [
            ["a", None, "c"],
            [None, "b", None],
        ]


def test_some_of_the_queries_keep_their_keys_and_no_other(hits: hr.Hits) -> None:
    kept = hits.only(np.array([False, True, True]))
    assert [one.query_key for one in kept] == [None, "b", "c"]
    assert set(kept.to_arrow()["query_key"].to_pylist()) == {"b", "c"}
    again = pickle.loads(pickle.dumps(kept))
    assert [one.query_key for one in again] == [None, "b", "c"]
    assert again.to_arrow().equals(kept.to_arrow())


def test_no_public_name_of_hits_leads_to_the_snapshot(hits: hr.Hits) -> None:
    assert isinstance(reply_of(hits[0]).source.state, State)
    for shown in (hits, hits[0], hits[0][0]):
        names = [name for name in dir(shown) if not name.startswith("_")]
        values = [getattr(shown, name) for name in names]
        assert not [one for one in values if isinstance(one, ReplyBase | State)]


# ---- what a call asks and how it is answered: two pieces of data ----

# Floors and constants, which a recipe has in its arms.
IN_ARMS = {"min_score", "bm25"}
# What a recall takes beside the two: the recipe that stands in the place of options, its graphs,
# what is counted of a reply, and how sure it must be.
BESIDE = {"recipe", "graphs", "facets", "min_confidence"}
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


# ---- a list of recipes, one per query: each is answered as if it were alone ----


def said(one: hr.QueryHits) -> list[Any]:
    """All that a query's reply says; floats in hexadecimal show their last bit."""
    names = reply_of(one).trace.arms
    listed_hits = [
        [
            hit.rank,
            hit.key,
            hit.cell,
            hit.text,
            hit.score.hex(),
            [(hit.arm_score(arm), hit.arm_rank(arm), hit.evidence(arm)) for arm in names],
            hit.context,
            repr(hit.explain()),
            hit.explain().score == hit.score or hit.explain(),
        ]
        for hit in one
    ]
    return [listed_hits, one.keys, one.n_candidates, one.phase, one.related, repr(one)]


def test_each_query_is_answered_as_if_it_were_alone(effort: Effort) -> None:
    n_hits, fell_back = 0, set()
    for seed in range(effort.cases(quick=7, full=300)):
        here = world(seed)
        asked = asks(seed, 14)
        listed_hits = here.together(asked)
        assert len(listed_hits) == len(list(listed_hits)) == 14
        for ask, one in zip(asked, listed_hits, strict=True):
            assert said(one) == said(here.alone(ask))
            n_hits += len(one)
            last = tuple(arm.name for arm in ask.recipe.on_no_match)
            if last and set(one.n_candidates) <= set(last):
                fell_back.add((ask.recipe.name, len(one) > 0))
        assert listed_hits.n_hits == sum(len(one) for one in listed_hits)
        assert listed_hits.now == NOW
    assert n_hits > 500
    assert fell_back >= {("fallback", True), ("fallback", False), ("graph", True), ("forced", True)}


# ---- as tables


@pytest.fixture(scope="module")
def asked() -> list[Ask]:
    return asks(11, 24)


@pytest.fixture(scope="module")
def here() -> World:
    return world(11)


@pytest.fixture(scope="module")
def listed_hits(here: World, asked: list[Ask]) -> hr.Hits:
    made = here.together(asked, columns=("data", "user", "data"))
    assert isinstance(reply_of(made), JoinedReply)
    assert len({ask.recipe.name for ask in asked}) > 5
    assert len(made.parts) > 7  # some fell back
    return made


LISTED_COLUMNS = ("data", "user", "data")


def test_the_table_has_the_rows_of_each_alone_and_nulls_elsewhere(
    here: World, asked: list[Ask], listed_hits: hr.Hits
) -> None:
    table = listed_hits.to_arrow()
    assert table.column("query").type == table.column("rank").type == pa.int32()
    assert not table.column("query").null_count
    places = list(zip(table["query"].to_pylist(), table["rank"].to_pylist(), strict=True))
    assert places == sorted(set(places))
    names = table.column_names
    assert names[:5] == ["query", "rank", "key", "user", "score"]
    assert names[-1] == "data"
    assert names.count("data") == names.count("user") == 1
    rows = table.to_pylist()
    assert pa.table(listed_hits).equals(table)  # by the Arrow stream
    n_null = 0
    for query, ask in enumerate(asked):
        alone = here.alone(ask, LISTED_COLUMNS).to_arrow()
        assert set(alone.column_names) <= set(names)
        for name in alone.column_names:
            assert table.schema.field(name).type == alone.schema.field(name).type
        own = [row for row in rows if row["query"] == query]
        expected = [dict.fromkeys(names) | row | {"query": query} for row in alone.to_pylist()]
        assert own == expected
        n_null += sum(value is None for row in own for value in row.values())
    assert n_null > 1000
    assert listed_hits.to_list() == [[row for row in rows if row["query"] == q] for q in range(24)]


def test_columns_and_arm_scores_are_in_the_order_of_the_table(listed_hits: hr.Hits) -> None:
    table = listed_hits.to_arrow()
    assert listed_hits.column("id").equals(table["key"].combine_chunks())
    for name in ("user", "data"):
        assert listed_hits.column(name).equals(table[name].combine_chunks())
    assert len(listed_hits.column("tags")) == listed_hits.n_hits == table.num_rows
    known = [name.removesuffix("_rank") for name in table.column_names if name.endswith("_rank")]
    assert set(known) >= {"text", "v", "pattern", "tags", "edges", "newest", "hints"}
    n_ranked = 0
    for arm in known:
        assert listed_hits.arm_scores(arm).equals(table[f"{arm}_score"].combine_chunks())
        assert listed_hits.arm_ranks(arm).equals(table[f"{arm}_rank"].combine_chunks())
        n_ranked += listed_hits.arm_ranks(arm).null_count < listed_hits.n_hits
    assert n_ranked > 5
    for read in (listed_hits.arm_scores, listed_hits.arm_ranks):
        with pytest.raises(hr.OptionError, match=r"arm: expected an arm of .*, got 'nope'"):
            read("nope")
    with pytest.raises(hr.OptionError, match="columns: expected columns of"):
        listed_hits.column("nope")


def test_the_trace_covers_all_parts(listed_hits: hr.Hits) -> None:
    trace = listed_hits.trace
    assert trace.n_queries == 24
    assert set(trace.arms) >= {"text", "v", "pattern", "tags", "edges"}
    assert trace.depth == 100
    for step in ("plan", "statistics", "candidates", "fusion", "shaping", "expansion"):
        parts = [part.trace.milliseconds.get(step, 0.0) for part in listed_hits.parts]
        assert trace.milliseconds[step] == pytest.approx(sum(parts))
    stages = {stage.stage for stage in trace.stages}
    assert stages == {"Recency", "Budget", "Composite", "SessionSignals"}
    assert not listed_hits.degraded


def test_each_query_is_drawn_with_the_arms_of_its_recipe(here: World) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    asked = asks(2, 6, ("both", "listed", "fallback"))
    listed_hits = here.together(asked)
    drawn = set()
    for query, ask in enumerate(asked):
        ax = listed_hits.plot(query)
        names = [bars.get_label() for bars in ax.containers]
        alone = here.alone(ask)
        assert names == list(alone.n_candidates)
        ends = [sum(bars[at].get_width() for bars in ax.containers) for at in range(len(alone))]
        assert ends == pytest.approx([hit.score for hit in alone])
        assert ax.get_title() == f"query {query}"
        drawn.add(tuple(names))
    assert drawn >= {("text", "v"), ("v", "hints")}
    with pytest.raises(IndexError):
        listed_hits.plot(6)
    pyplot.close("all")
