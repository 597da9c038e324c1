"""Hits in other libraries, in notebooks, in other processes, and as plain text."""

import pickle
import sys
import unicodedata
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hyrecall as hr
from seams import Row, TextLine, clean, cut, fields, reply_of, table, width_of, wrap
from seams import base_Column as Column
from seams import hits_Reply as Reply
from small_index import ONE, built, refused

# ---- elsewhere ----

NOW = datetime(2026, 3, 1, tzinfo=UTC)
BATCH = {"text": ["hot tea", "coffee", "tea"], "scope": ["ana", "bob", "ana"], "now": NOW}


@pytest.fixture(scope="module")
def index() -> hr.Index:
    return built()


@pytest.fixture(scope="module")
def hits(index: hr.Index) -> hr.Hits:
    vectors = np.concatenate([ONE, 2 * ONE, ONE])
    return index.recall(**BATCH, vectors=vectors, columns=["text", "kind"])


# ---- data frames ----


def test_a_batch_and_a_query_are_data_frames_of_each_library(hits: hr.Hits) -> None:
    table = hits.to_arrow()
    own = table.filter(pc.equal(table["query"], 2))
    assert hits[2].to_arrow().equals(own.combine_chunks())
    assert hits.to_pandas().equals(table.to_pandas())
    assert hits[2].to_pandas().equals(own.to_pandas())
    assert hits.to_polars().equals(pl.from_arrow(table))
    assert hits[2].to_polars().equals(pl.from_arrow(own))
    assert isinstance(hits[0].to_pandas(), pd.DataFrame)
    assert hits[2].to_list() == hits.to_list()[2]
    assert [row["key"] for row in hits[2].to_list()] == hits[2].keys


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_missing_library_is_named(
    library: str, hits: hr.Hits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    call = f"to_{library}"
    told = f"{call}: expected {library} (pip install {library}), got no package {library}"
    for shown in (hits, hits[0]):
        refused(getattr(shown, call), hr.MissingExtraError, told)


# ---- notebooks ----


class Reader(HTMLParser):
    """Collects the elements of a page, and its texts."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        assert attrs == []

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    return reader


def test_a_notebook_shows_a_table(hits: hr.Hits) -> None:
    page = read(hits._repr_html_())
    assert page.texts[0] == f"3 queries, {hits.n_hits} hits"
    heading = page.texts[1 : 1 + page.elements.count("th")]
    assert heading == ["query", "rank", "key", "score", "BM25", "cosine", "user", "text"]
    assert page.elements.count("tr") == 1 + hits.n_hits
    alone = read(hits[0]._repr_html_())
    assert alone.texts[0] == f"{len(hits[0])} hits"
    assert "query" not in alone.texts
    assert "k0" in alone.texts


def test_stored_text_is_text_in_a_notebook() -> None:
    evil = '<script>alert(1)</script><img src=x onerror=alert(2)> tea & "quotes" \''
    table = pa.table({"id": [evil], "<b>cell": [evil], "text": [evil]})
    schema = hr.Schema(key="id", cell="<b>cell", text="text")
    found = hr.Index.build(table, schema).recall(text=["tea"], scope=evil)
    assert found.n_hits == 1
    for shown in (found, found[0]):
        page = read(shown._repr_html_())
        assert set(page.elements) <= {*("div", "p", "table", "thead", "tbody", "tr", "th", "td")}
        assert "<b>cell" in page.texts
        assert any(text.startswith("<script>alert(1)") for text in page.texts)


def test_many_hits_and_none_are_said_so(index: hr.Index) -> None:
    many = index.recall(text=["tea"] * 30, scope="ana")
    page = read(many._repr_html_())
    assert page.texts[-1] == f"... {many.n_hits - 20} more hits"
    assert read(index.recall(text=["nothing"], scope="ana")._repr_html_()).texts == [
        "1 query, 0 hits"
    ]


def test_a_batch_of_no_queries_is_shown_and_pickled(index: hr.Index) -> None:
    found = index.recall(text=[], scope="ana", query_keys=[])
    assert repr(found) == "0 queries, 0 hits"
    assert read(found._repr_html_()).texts == ["0 queries, 0 hits"]
    assert again(found).to_list() == found.to_list() == []


def test_cells_in_a_notebook_have_no_blanks_around_them(index: hr.Index) -> None:
    own = {"own": [["k0"]]}
    found = index.recall(text=["tea"], scope="ana", arms=hr.arms.Listed("own"), candidates=own)
    texts = read(found._repr_html_()).texts
    assert "-" in texts
    assert [text for text in texts if text != text.strip()] == []


# ---- pickles ----


def again(given: Any) -> Any:
    return pickle.loads(pickle.dumps(given))


def test_pickled_hits_have_the_same_values(hits: hr.Hits) -> None:
    kept = again(hits)
    assert type(kept) is hr.Hits
    assert kept.to_arrow().equals(hits.to_arrow())
    assert kept.to_list() == hits.to_list()
    assert (kept.now, kept.degraded, kept.trace) == (NOW, hits.degraded, hits.trace)
    assert [repr(one) for one in kept] == [repr(one) for one in hits]
    assert kept._repr_html_() == hits._repr_html_()
    for one, other in zip(kept, hits, strict=True):
        assert (one.keys, one.n_candidates, one.related) == (
            other.keys,
            other.n_candidates,
            other.related,
        )
        for hit, was in zip(one, other, strict=True):
            assert (hit.text, hit.cell, hit["kind"]) == (was.text, was.cell, was["kind"])
            assert (hit.bm25_score, hit.vector_score) == (was.bm25_score, was.vector_score)
            assert hit.arm_rank("text") == was.arm_rank("text")
    assert again(kept).to_arrow().equals(hits.to_arrow())


def test_a_pickled_query_holds_its_own_hits_only(hits: hr.Hits) -> None:
    kept = again(hits[2])
    assert (kept.query, kept.keys) == (2, hits[2].keys)
    assert [hit.text for hit in kept] == [hit.text for hit in hits[2]]
    assert kept.to_arrow().equals(hits[2].to_arrow())
    assert len(hr.Hits(reply_of(kept))[0]) == 0
    assert b"coffee" not in pickle.dumps(hits[2])
    assert b"coffee" in pickle.dumps(hits)
    hit = again(hits[0][1])
    assert (hit.key, hit.score, hit.rank) == (hits[0][1].key, hits[0][1].score, 2)


@pytest.mark.parametrize("several", [False, True])
def test_a_pickled_query_has_no_key_of_another_query(index: hr.Index, several: bool) -> None:
    one = hr.recipes.default.replace(exact=False)
    recipe = [one, one.replace(fusion=hr.RRF())] if several else None
    asked: Any = {"text": ["tea", "coffee"], "query_keys": ["mine", "theirs"], "recipe": recipe}
    found = index.recall(**asked, scope=hr.Scope(["ana", "bob"]))
    assert b"theirs" not in pickle.dumps(found[0])
    assert again(found[0]).query_key == "mine"
    assert again(found[0]).to_arrow().equals(found[0].to_arrow())
    assert [one.query_key for one in again(found)] == ["mine", "theirs"]


def test_a_query_of_many_and_a_batch_without_hits_are_shown_without_reading_them_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = pa.table({"id": [1], "text": ["tea"]})
    index = hr.Index.build(table, hr.Schema(key="id", cell=None, text="text"))
    found = index.recall(text=[*["coffee"] * 300, "tea", *["coffee"] * 300])
    read: list[int] = []
    span = Reply.span

    def counted(reply: Reply, query: int) -> tuple[int, int]:
        read.append(query)
        return span(reply, query)

    monkeypatch.setattr(Reply, "span", counted)
    assert "601 queries, 1 hit" in repr(found)
    assert "601 queries, 1 hit" in found._repr_html_()
    assert set(read) == {300}
    assert [row["key"] for row in found[300].to_list()] == [1]
    assert len(read) < 10


def test_unpickled_hits_say_why_they_cannot_explain(hits: hr.Hits) -> None:
    told = (
        "hits: expected hits as a recall gives them, got unpickled ones, which hold values and "
        "no index; recall again where the index is open"
    )
    kept = again(hits)
    refused(kept[0][0].explain, hr.OptionError, told)
    refused(lambda: kept[0][0].evidence("text"), hr.OptionError, told)
    assert hits[0][0].explain().score == hits[0][0].score


def test_what_a_pickle_holds_says_nothing_of_other_rows() -> None:
    def one(others: int) -> bytes:
        table = pa.table(
            {
                "id": ["a", *(f"b{at}" for at in range(others))],
                "user": ["ana"] + ["bob"] * others,
                "text": ["tea", *["milk tea"] * others],
            }
        )
        index = hr.Index.build(table, hr.Schema(key="id", cell="user", text="text"), threads=1)
        found = index.recall(text=["tea"], scope="ana", now=NOW)
        found.trace.milliseconds.clear()
        return pickle.dumps(found)

    assert one(0) == one(200)


def test_options_that_no_pickle_can_hold_are_left_out() -> None:
    analyzer = hr.Analyzer.from_callable(lambda text: text.split(), name="split", version="1")
    table = pa.table({"id": [1, 2], "text": ["hot tea", "tea"]})
    schema = hr.Schema(key="id", cell=None, text={"body": hr.Text("text", analyzer=analyzer)})
    found = hr.Index.build(table, schema).recall(
        text=["tea"], shaping=hr.RerankBy(lambda query, texts: [1.0] * len(texts))
    )
    assert again(found).to_arrow().equals(found.to_arrow())


def test_an_index_and_a_graph_say_how_they_are_shared(index: hr.Index) -> None:
    edges = pa.table({"id": ["e"], "user": ["ana"], "text": ["x"], "of": [["k0", "k1"]]})
    schema = hr.GraphSchema(key="id", cell="user", text="text", participants="of")
    graph = hr.Graph.build(edges, schema, nodes=index)
    for shared, told in (
        (index, "an Index; index.save(path), then in each process hr.Index.open(path)"),
        (
            graph,
            "a Graph; graph.save(path), then in each process "
            "hr.Graph.open(path, schema, nodes=index)",
        ),
    ):
        with pytest.raises(hr.DTypeError) as raised:
            pickle.dumps(shared)
        assert str(raised.value) == f"pickle: expected a folder that each process opens, got {told}"


# ---- tables of plain text fit the width that is asked, and cut no name or id ----

COLUMNS = (
    Column("rank", "right"),
    Column("id", style="key"),
    Column("score", "right"),
    Column("when", "right"),
)
KEY = "episode_0123456789abcdef0123456789abcdef"


def texts(lines: list[TextLine]) -> list[str]:
    return [line.text for line in lines]


@pytest.mark.parametrize("mark", ["\u202e", "\u202a", "\u2066", "\u2069"])
def test_marks_that_turn_the_order_of_what_follows_are_shown(mark: str) -> None:
    assert clean(f"tea{mark}cup") == f"tea\\u{ord(mark):04x}cup"
    assert clean("\u200fشاي\u200e tea") == "\u200fشاي\u200e tea"  # these turn nothing else


def test_columns_that_do_not_fit_stand_beneath_their_row_with_their_names() -> None:
    row = Row(["1", KEY, "0.032787", "2026-06-01 12:00"], [TextLine("hot tea")])
    assert texts(table(COLUMNS, [row], width=80)) == [
        "rank  id                                           score              when",
        f"----  {'-' * 40}  --------  ----------------",
        f"   1  {KEY}  0.032787  2026-06-01 12:00",
        "      hot tea",
    ]
    assert texts(table(COLUMNS, [row], width=60)) == [
        "rank  id                                           score",
        f"----  {'-' * 40}  --------",
        f"   1  {KEY}  0.032787",
        "      when 2026-06-01 12:00",
        "      hot tea",
    ]


def test_an_id_longer_than_the_screen_is_whole_on_its_line() -> None:
    row = Row(["1", KEY * 3, "0.5", "now"])
    assert f"   1  {KEY * 3}" in texts(table(COLUMNS, [row], width=40))


@given(
    st.lists(st.tuples(st.text(max_size=9), st.text(max_size=200)), max_size=4),
    st.integers(40, 130),
)
def test_no_line_is_wider_than_the_screen(rows: list[tuple[str, str]], width: int) -> None:
    made = table(
        COLUMNS,
        [Row([str(at), clean(key), "0.5", "now"], [TextLine(clean(t))]) for at, (key, t) in
         enumerate(rows)],
        width=width,
    )  # fmt: skip
    assert all(width_of(line.text) <= width for line in made)


@given(st.text(alphabet="ab 東é", max_size=80), st.integers(2, 30))
def test_wrapping_loses_nothing_but_blanks_and_keeps_styles(text: str, width: int) -> None:
    marked = [at for at, one in enumerate(text) if one == "b"]
    line = TextLine(text, tuple((at, at + 1, "mark") for at in marked))
    lines = wrap(line, width)
    joined = "".join(one.text for one in lines)
    assert joined.replace(" ", "") == text.replace(" ", "")
    shown = [one.text[begin:end] for one in lines for begin, end, _ in one.spans]
    assert shown == ["b"] * len(marked)


def test_words_are_broken_at_blanks_and_wide_characters_anywhere() -> None:
    assert texts(wrap(TextLine("hot tea and milk"), 8)) == ["hot tea", "and milk"]
    assert texts(wrap(TextLine("abcdefghij"), 4)) == ["abcd", "efgh", "ij"]
    assert texts(wrap(TextLine("東京都庁"), 5)) == ["東京", "都庁"]


def test_a_long_value_is_wrapped_beside_its_name_or_beneath_it() -> None:
    assert texts(fields([("key", "id"), ("text arm", "a b c d " * 6)], width=42)) == [
        "key       id",
        "text arm  a b c d a b c d a b c d a b c d",
        "          a b c d a b c d",
    ]
    assert texts(fields([("a long name of something", "word " * 8)], width=40))[1:] == [
        "    word word word word word word word",
        "    word",
    ]


@pytest.mark.parametrize("text", ["\x1b[31mred", "a\x00b", "a\x9bm", "\ud800"])
def test_control_characters_are_shown_and_never_sent(text: str) -> None:
    shown = clean(text)
    assert not any(unicodedata.category(one) in ("Cc", "Cs") for one in shown)
    assert shown.encode()


def test_a_cut_text_ends_in_dots_and_fits() -> None:
    assert cut("東京都庁の展望室", 9) == "東京都..."
    assert cut("hot tea", 7) == "hot tea"


def test_the_rule_above_a_long_id_ends_with_the_screen() -> None:
    columns = [Column("rank"), Column("id")]
    _, rule, row = texts(table(columns, [Row(("1", "x" * 90))], width=40))
    assert rule == "----  " + "-" * 34
    assert "x" * 90 in row
