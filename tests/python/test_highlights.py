"""Highlights and snippets of hits: words as the oracle finds them, snippets that are safe."""

import html
import itertools
import re
import unicodedata
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hyrecall as hr
from hyrecall._core import queries
from hyrecall.errors import OptionError
from laws.effort import Effort
from oracle import marks as oracle
from oracle import words
from seams import Cuts, hits_snippet

SCHEMA = hr.Schema(key="id", cell=None, text="text")


def index_of(*texts: str | None, analyzer: str = "word") -> hr.Index:
    table = pa.table({"id": range(len(texts)), "text": pa.array(texts, pa.string())})
    return hr.Index.build(table, SCHEMA, analyzer=hr.Analyzer(analyzer))


def hit_of(text: str, query: Any, analyzer: str = "word") -> hr.Hit:
    return index_of(text, analyzer=analyzer).recall_one(text=query)[0]


def marked(text: str, query: Any, analyzer: str = "unicode") -> list[str]:
    return [text[start:end] for start, end in hit_of(text, query, analyzer).highlights()]


@pytest.mark.parametrize(
    ("analyzer", "text", "query", "expected"),
    [
        ("unicode:english", "He runs; RUNNING shoes", "run", ["runs", "RUNNING"]),
        ("unicode", "fix INV-2026-0042 now", "2026", ["2026"]),
        ("unicode", "fix INV-2026-0042 now", "INV-2026-0042", ["INV-2026-0042"]),
        ("unicode", "我住在東京都的家", "東京都", ["東京都"]),
        ("unicode", "ภาษาไทยง่าย", "ไทย", ["ไทย"]),
        ("unicode", unicodedata.normalize("NFD", "ein Café, ein Cafe"), "café", None),
        ("unicode", "Die STRASSE, die Straße", "straße", ["STRASSE", "Straße"]),
        ("unicode", "😀😀 tea 𝒜𝒷", "tea ab", ["tea", "𝒜𝒷"]),
        ("unicode", "charge charging", hr.Prefix("chargi"), ["charging"]),
        ("unicode:english", "we are charging", hr.Prefix("chargi"), ["charging"]),
        ("unicode", "green tea, tea", hr.All(hr.Phrase("green tea")), ["green", "tea"]),
    ],
)  # fmt: skip
def test_what_is_marked(analyzer: str, text: str, query: Any, expected: list[str] | None) -> None:
    if expected is None:
        expected = [unicodedata.normalize("NFD", "Café"), "Cafe"]
    assert marked(text, query, analyzer) == expected


def test_columns_and_arms_are_marked_by_their_own_queries() -> None:
    table = pa.table({
        "id": [1], "title": ["green tea"], "note": [" "], "body": ["black tea"], "kind": ["tea"],
    })  # fmt: skip
    arms = {"all": hr.Text("title", "note", "body"), "title": hr.Text("title")}
    schema = hr.Schema(key="id", cell=None, text=arms, attributes="kind")
    index = hr.Index.build(table, schema)
    hit = index.recall_one(text={"all": hr.Any(hr.Phrase("tea black"), "black"), "title": "green"})[
        0
    ]
    assert [hit.text[start:end] for start, end in hit.highlights()] == ["green", "black"]
    assert hit.highlights("title") == [(0, 5)]
    assert hit.highlights("body") == [(0, 5)]
    assert hit.highlights("note") == []
    with pytest.raises(OptionError, match=r"column: expected a stored column of a text arm of"):
        hit.highlights("kind")


def test_hits_in_the_order_of_columns_are_marked_as_ranked_ones_are() -> None:
    rows = [{"id": 1, "title": "red tea", "text": "a pot", "price": 2.0}]
    rows += [{"id": 2, "title": "cups", "text": "for tea", "price": 1.0}]
    schema = hr.Schema(key="id", cell=None, text=("title", "text"), attributes="price")
    index = hr.Index.build(rows, schema)
    asked: list[Any] = ["tea", {"title": "red", "text": None}, {"title": "cups", "text": "tea"}]
    for text, column in itertools.product(asked, ("title", "text")):
        by_price, ranked = index.recall_one(text=text, sort="price"), index.recall_one(text=text)
        places = {hit.key: hit.highlights(column) for hit in ranked}
        assert {hit.key: hit.highlights(column) for hit in by_price} == places
        assert any(places.values()) or text == asked[1]


def test_without_a_text_query_nothing_is_marked() -> None:
    table = pa.table({"id": [1], "text": ["ash"]})
    schema = hr.Schema(key="id", cell=None, text="text", vector="e")
    index = hr.Index.build(table, schema, vectors={"e": np.ones((1, 2), "f")})
    hit = index.recall_one(vector=[1.0, 0.0])[0]
    assert (hit.highlights(), hit.snippet()) == ([], "ash")


def test_an_analyzer_that_cannot_tell_places_is_refused() -> None:
    own = hr.Analyzer.from_callable(str.split, name="spaces", version="1")
    index = hr.Index.build(pa.table({"id": [1], "text": ["ash"]}), SCHEMA, analyzer=own)
    with pytest.raises(OptionError, match=r"highlights: expected an analyzer that tells where"):
        index.recall_one(text="ash")[0].highlights()


# ---- snippets ----

LETTERS = "ash elm ashes, <b>&\"' e\u20dd 東京都 👨\u200d👩\u200d👧 🇩🇪🇫🇷 한국 oak\n"


def whole(text: str, at: int) -> int:
    return next(end for end in range(at, len(text) + 1) if not splits(text, end))


def splits(text: str, at: int) -> bool:
    return 0 < at < len(text) and Cuts(text).splits(at)


def test_a_snippet_is_a_part_of_the_text_with_the_most(effort: Effort) -> None:
    @settings(max_examples=effort.cases(quick=150, full=2000))
    @given(st.text(st.sampled_from(LETTERS), max_size=200), st.integers(1, 60))
    def check(odd: str, width: int) -> None:
        text = f"{odd} ash elm {odd[::-1]} elm"
        hit = hit_of(text, "ash elm")
        plain = hit.snippet(width, "", "", escape=False)
        shown = plain.removeprefix("…").removesuffix("…")
        assert shown in text
        assert len(shown) <= width
        marked = hit.snippet(width, "\ue000", "\ue001", escape=False)
        assert re.sub("[\ue000\ue001]", "", marked) == plain
        starts = [at for at in range(len(text)) if text.startswith(shown, at)]
        found = oracle.found(text, words.Words("ash elm"))
        found = [(start, whole(text, end), term) for start, end, term in found]
        best = oracle.most_worth(text, found, width)
        assert any(oracle.worth(found, at, at + len(shown)) == best for at in starts) or width < 3
        assert any(not splits(text, at) and not splits(text, at + len(shown)) for at in starts)

    check()


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("one two three ash four", 200, "one two three [ash] four"),
        ("one two three ash four five six", 13, "…[ash] four five…"),
        ("ash ash ash " + "x " * 99 + "elm ash", 12, "…x x [elm] [ash]"),
        ("elm " + "x " * 99 + "ash", 10, "[elm] x x x…"),
        ("x" * 50 + " ash", 20, "…[ash]"),
        ("a < b & ash", 200, "a &lt; b &amp; [ash]"),
        ("no word", 4, "[no]…"),
        ("東" * 30 + " ash " + "京" * 30, 9, "…東東 [ash] 京京…"),
    ],
)
def test_snippets(text: str, width: int, expected: str) -> None:
    index = index_of(text, "ash elm")
    found = [hit for hit in index.recall_one(text=hr.Any("ash", "elm", "no")) if hit.text == text]
    assert found[0].snippet(width, "[", "]") == expected


def test_a_long_run_of_flags_takes_linear_time() -> None:
    flags = "\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7" * 100_000
    assert hit_of("ash " + flags, "ash").snippet(200_000) == "<mark>ash</mark>…"
    marked = [(at, at + 1, 0) for at in range(0, len(flags), 4)]  # a letter is marked as its flag
    made = hits_snippet(flags, marked, 200_000, "[", "]", escape=True)
    assert made.count(f"[{flags[:2]}]") == 50_000


def test_a_snippet_is_safe_in_a_page() -> None:
    text = "<script>ash</script> & \"elm\" 'oak'"
    made = hit_of(text, "ash elm oak").snippet()
    assert "<" not in made.replace("<mark>", "").replace("</mark>", "")
    assert html.unescape(re.sub("</?mark>", "", made)) == text
    assert made.count("<mark>") == 3


def test_a_long_phrase_is_marked_without_a_step_for_each_pair_of_its_words() -> None:
    native = hr.Analyzer("word").native, queries.TextQuery.phrase("a " * 4096, 3)
    assert len(queries.find_marks(*native, ["a " * 200_000])[0]) == 200_000
    assert queries.find_marks(*native, ["a " * 4092]) == [[]]
    assert len(queries.find_marks(*native, ["a " * 4093])[0]) == 4093


def test_a_long_word_with_typos_is_read_once() -> None:
    native = hr.Analyzer("word").native, queries.TextQuery.fuzzy("w" * 2_000_000, 1)
    others = " ".join(f"w{number}" for number in range(20_000))
    (mark,) = queries.find_marks(*native, [others + " " + "w" * 1_999_999])[0]
    assert mark[1] - mark[0] == 1_999_999


def test_a_null_text_has_no_words() -> None:
    table = pa.table({"id": [1], "text": pa.array([None], pa.string())})
    schema = hr.Schema(key="id", cell=None, text="text", vector="e")
    index = hr.Index.build(table, schema, vectors={"e": np.ones((1, 2), "f")})
    hit = index.recall_one(text="ash", vector=[1.0, 0.0])[0]
    assert (hit.text, hit.highlights(), hit.snippet()) == (None, [], "")
