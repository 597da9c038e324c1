"""Tables of plain text fit the width that is asked, and cut no name or id."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seams import Row, TextLine, clean, cut, fields, table, width_of, wrap
from seams import base_Column as Column

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
