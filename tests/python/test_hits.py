"""The table of hits: its schema, its forms, and that it stays that of its call."""

import datetime as dt
import decimal
import importlib.util
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr

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
