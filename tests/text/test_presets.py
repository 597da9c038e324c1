"""Presets that promise another's tokens: `word` those of re, `unicode61` and `porter` of FTS5."""

import re
import sqlite3
import sys
import unicodedata
from collections.abc import Callable
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyrecall import _core
from laws.effort import Effort
from seams import Analyzer

Terms = list[tuple[str, int]]

TABLES_UNICODE = "14.0.0"
same_unicode = pytest.mark.skipif(
    unicodedata.unidata_version != TABLES_UNICODE,
    reason=f"this Python's re knows Unicode {unicodedata.unidata_version}, the tables 14.0.0",
)

# Where our tokens are not SQLite's, and what ours are: text as bytes, FTS5's terms, ours.
KNOWN_DEPARTURES = [
    # FTS5 reads a stray continuation byte as the character of that number.
    (b"a\xaab", ["aªb"], ["a", "b"]),
]


def has_fts5() -> bool:
    try:
        with closing(sqlite3.connect(":memory:")) as database:
            database.execute("CREATE VIRTUAL TABLE t USING fts5(a)")
    except sqlite3.OperationalError:
        return False
    return True


needs_fts5 = pytest.mark.skipif(not has_fts5(), reason="this sqlite3 module has no FTS5")
FTS5_NAMES = {"unicode61": "unicode61 remove_diacritics 2", "porter": "porter unicode61"}


def python_words(text: str) -> Terms:
    words = re.findall(r"\w+", unicodedata.normalize("NFC", text.lower()))
    return [(word, i) for i, word in enumerate(words)]


def fts5_terms(tokenizer: str, texts: list[str] | list[bytes]) -> list[Terms]:
    """The tokens that FTS5 keeps, read back from its index."""
    found: list[Terms] = [[] for _ in texts]
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute(f"CREATE VIRTUAL TABLE t USING fts5(a, tokenize='{tokenizer}')")
        database.execute("CREATE VIRTUAL TABLE v USING fts5vocab(t, instance)")
        database.executemany(
            "INSERT INTO t(rowid, a) VALUES (?, CAST(? AS TEXT))", list(enumerate(texts))
        )
        query = "SELECT doc, term, offset FROM v ORDER BY doc, offset"
        for doc, term, offset in database.execute(query):
            found[doc].append((term, offset))
    return found


def test_word_equals_python_re_on_the_table(table, ask) -> None:
    got = ask(Analyzer("word").native, table)
    for text, terms in zip(table, got, strict=True):
        assert terms == python_words(text), ascii(text)


@same_unicode
def test_word_equals_python_re_on_every_character(ask, effort: Effort) -> None:
    # Planes 4 to 13 and those for private use hold no letter: some of each will do.
    starts = [
        start
        for start in range(0, sys.maxunicode + 1, 1024)
        if start < 0x40000 or start % effort.cases(quick=0x10000, full=1024) == 0
    ]
    starts.append(0xE0000)  # tags and selectors of variants
    texts = [
        "\n".join(f"a{chr(c)}b Σ{chr(c)}" for c in range(start, start + 1024)) for start in starts
    ]
    got = ask(Analyzer("word").native, texts)
    wrong = [i for i, text in enumerate(texts) if got[i] != python_words(text)]
    assert wrong == []


HARD = st.sampled_from(list("ΣσςİıIßﬁǅ'’.·:-_ aAbB1²٣中क्ต\u0301\u0345\u00ad\u200d\x00\ud800"))


@same_unicode
@given(st.lists(st.text(st.one_of(st.characters(), HARD), max_size=30), max_size=8))
def test_word_equals_python_re_on_random_unicode(ask, texts: list[str]) -> None:
    assert ask(Analyzer("word").native, texts) == [python_words(t) for t in texts]


@needs_fts5
@pytest.mark.parametrize("name", FTS5_NAMES)
def test_fts5_presets_equal_fts5_on_the_table(name: str, table, ask) -> None:
    got = ask(Analyzer(name).native, table)
    composed = [unicodedata.normalize("NFC", text) for text in table]
    for text, terms, wanted in zip(table, got, fts5_terms(FTS5_NAMES[name], composed), strict=True):
        assert terms == wanted, ascii(text)


@needs_fts5
@pytest.mark.parametrize("name", FTS5_NAMES)
@given(
    texts=st.lists(
        st.text(st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from("aeilnsty"))),
        min_size=1,
        max_size=20,
    )
)
def test_fts5_presets_equal_fts5_on_random_unicode(name: str, ask, texts: list[str]) -> None:
    composed = [unicodedata.normalize("NFC", text) for text in texts]
    assert ask(Analyzer(name).native, texts) == fts5_terms(FTS5_NAMES[name], composed)


SUFFIXES = (
    "ational,tional,enci,izer,bli,logi,alli,ousli,ization,ator,iveness,aliti,biliti,icate,ative,"
    "ical,ful,ness,ance,er,ement,ment,ent,sion,tion,ou,ism,ate,ous,ive,ize,eed,ed,ing,sses,ies,"
    "s,y,e,ll"
)


@needs_fts5
@given(
    st.lists(
        st.builds(
            lambda start, ends: start + "".join(ends),
            st.text("aeiouybcdlstwxz", max_size=5),
            st.lists(
                st.sampled_from(SUFFIXES.split(",")),
                min_size=1,
                max_size=3,
            ),
        ),
        min_size=1,
        max_size=100,
    )
)
def test_porter_equals_fts5_on_words_made_of_suffixes(ask, words: list[str]) -> None:
    assert ask(Analyzer("porter").native, words) == fts5_terms("porter unicode61", words)


@needs_fts5
def test_fts5_departures_are_the_listed_ones(ask) -> None:
    texts = [text for text, _, _ in KNOWN_DEPARTURES]
    theirs = fts5_terms(FTS5_NAMES["unicode61"], texts)
    ours = ask(Analyzer("unicode61").native, texts)
    for (_, wanted_theirs, wanted_ours), a, b in zip(KNOWN_DEPARTURES, theirs, ours, strict=True):
        assert [t for t, _ in a] == wanted_theirs
        assert [t for t, _ in b] == wanted_ours


def dropping_final_sigma(text: str) -> str:
    return "".join(c.lower() for c in text)


def ascii_only(text: str) -> str:
    return text.encode("ascii", "replace").decode()


@pytest.mark.parametrize(
    "wrong_lower",
    [dropping_final_sigma, str.casefold, str.swapcase, ascii_only],
    ids=lambda f: f.__name__,
)
def test_the_table_tells_a_wrong_lower_case(table, ask, wrong_lower: Callable[[str], str]) -> None:
    got = ask(Analyzer("word").native, table)
    wrong = [[(w, i) for i, w in enumerate(re.findall(r"\w+", wrong_lower(t)))] for t in table]
    assert got != wrong


@needs_fts5
@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("unicode61", "unicode61 remove_diacritics 1"),
        ("unicode61", "unicode61 remove_diacritics 0"),
        ("unicode61", "porter unicode61"),
        ("porter", "porter unicode61 remove_diacritics 2"),
        ("porter", "unicode61"),
    ],
)
def test_the_table_tells_a_wrong_fts5_tokenizer(name: str, wrong: str, table, ask) -> None:
    assert ask(Analyzer(name).native, table) != fts5_terms(wrong, table)


@pytest.mark.parametrize(
    "name", ["word", "unicode", "unicode61", "porter", "snowball:english", "unicode:english"]
)
@given(data=st.binary(max_size=60))
def test_bytes_that_are_not_utf8_read_as_replacement_characters(
    name: str, ask, data: bytes
) -> None:
    native = Analyzer(name).native
    as_text = data.decode("utf-8", "replace")
    assert ask(native, [data]) == ask(native, [as_text])


@pytest.mark.parametrize("name", ["word", "unicode", "unicode61", "porter"])
def test_nul_and_broken_bytes_separate_words(name: str, ask) -> None:
    broken = [
        b"cat\x00dog",
        b"cat\xffdog",
        b"cat\xc3 dog",
        b"cat\xed\xa0\x80dog",
        b"\xf0\x9fcat dog",
    ]
    for terms in ask(Analyzer(name).native, broken):
        assert terms == [("cat", 0), ("dog", 1)]


def test_a_lone_surrogate_separates_words(ask) -> None:
    assert ask(Analyzer().native, ["one\ud800two"]) == [[("one", 0), ("two", 1)]]


def test_texts_of_a_batch_do_not_touch(table, ask) -> None:
    for name in ("word", "unicode", "unicode61", "porter", "snowball:german", "unicode:german"):
        native = Analyzer(name).native
        assert ask(native, table) == [ask(native, [text])[0] for text in table]


def test_terms_are_numbered_by_first_use() -> None:
    terms, offsets, ids, positions, lengths = _core.Analyzer("unicode").analyze(
        ["b a b", "", "c-1 a"], "document"
    )
    assert terms == ["b", "a", "c-1", "c", "1"]
    assert offsets.tolist() == [0, 3, 3, 7]
    assert ids.tolist() == [0, 1, 0, 2, 3, 4, 1]
    assert positions.tolist() == [0, 1, 2, 0, 0, 1, 2]
    assert lengths.tolist() == [3, 0, 3]
