"""Spellings of one word are one term: composed or not, Turkish letters, letters of keyboards."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from snowballstemmer import algorithms

from laws.effort import Effort
from seams import Analyzer

NAMES = (
    "word", "unicode", "unicode61", "porter",
    *(f"{family}:{language}" for family in ("snowball", "unicode") for language in
      ("english", "german", "turkish", "hindi", "greek", "yiddish")),
)  # fmt: skip
TEXTS = (
    "Häuser", "Crème brûlée", "naïve café", "Åse", "ΐος Ωμέγα", "क़लम", "한국어", "がぎ", "Ṩ",
    "ё й", "ǭ", "İzmir", "ײַן", "ỗ", "Ångström 5Å", "J̌a ǰa", "שׁ", "ਸ਼",
)  # fmt: skip


def terms(name: str, text: str) -> list[str]:
    return [token.term for token in Analyzer(name).explain(text)]


@pytest.mark.parametrize("name", NAMES)
def test_both_normal_forms_give_the_same_terms(name: str) -> None:
    for text in TEXTS:
        forms = {form: terms(name, unicodedata.normalize(form, text)) for form in ("NFC", "NFD")}
        assert forms["NFC"] == forms["NFD"], ascii(text)
        assert terms(name, text) == forms["NFC"]


# Characters with a decomposition that Unicode 16 added; the tables have Unicode 14.
NEW_SCRIPTS = (
    range(0x105C0, 0x10600), range(0x11380, 0x11400), range(0x16100, 0x16140),
    range(0x16D40, 0x16D80),
)  # fmt: skip


@pytest.mark.parametrize("name", ["word", "unicode", "unicode61", "snowball:english"])
def test_every_character_has_the_terms_of_its_decomposition(name: str) -> None:
    chars = [chr(c) for c in range(sys.maxunicode + 1) if not 0xD800 <= c < 0xE000]
    known = (c for c in chars if not any(ord(c) in script for script in NEW_SCRIPTS))
    split = [c for c in known if unicodedata.normalize("NFD", c) != c][::7]
    native = Analyzer(name).native

    def of(texts: list[str]) -> list[list[str]]:
        found, offsets, ids, _, _ = native.analyze(texts, "document")
        return [[found[i] for i in ids[a:b]] for a, b in pairwise(offsets)]

    composed = of([unicodedata.normalize("NFC", f"a{c}b {c}") for c in split])
    apart = of([unicodedata.normalize("NFD", f"a{c}b {c}") for c in split])
    wrong = [ascii(c) for c, one, two in zip(split, composed, apart, strict=True) if one != two]
    assert wrong == []


@pytest.mark.parametrize("name", ["snowball:turkish", "unicode:turkish"])
def test_turkish_words_are_found_by_any_i(name: str) -> None:
    for words in ("İstanbul istanbul ISTANBUL Istanbul", "Isparta ısparta isparta ISPARTA"):
        assert len({tuple(terms(name, word)) for word in words.split()}) == 1, words
    assert terms("snowball:turkish", "KİTAPLIĞI") == terms("snowball:turkish", "kitaplığı")


@pytest.mark.parametrize("language", algorithms())
def test_a_dotted_capital_i_is_an_i_for_every_stemmer(language: str) -> None:
    assert terms(f"snowball:{language}", "İZMİR") == terms(f"snowball:{language}", "izmir")


def test_word_folds_neither_accents_nor_a_dotted_i() -> None:
    assert terms("word", "istanbul ISTANBUL") == ["istanbul"] * 2
    assert terms("word", "İstanbul") == ["i", "stanbul"]  # as Python has it
    assert terms("word", "Café") == ["café"]
    assert terms("unicode", "İstanbul Café") == ["istanbul", "cafe"]


@pytest.mark.parametrize(
    ("language", "one", "other"),
    [
        ("armenian", "Երևան", "ԵՐԵՒԱՆ"),
        ("dutch", "ĳs", "IJS"),
        ("persian", "كتابي", "کتابی"),
        ("romanian", "ţară", "țară"),
        ("german", "STRASSE", "straße"),
        ("greek", "ΑΘΗΝΑ", "Αθήνα"),
        ("russian", "ЁЛКА", "елка"),
    ],
)
def test_letters_that_keyboards_exchange_are_one(language: str, one: str, other: str) -> None:
    assert terms(f"snowball:{language}", one) == terms(f"snowball:{language}", other)


# ---- points and vowel signs ----

TATWEEL, HAMZA, ALEF = "\u0640", "\u0654", "\u0627"
LETTERS = "אבש\ufb2aײاأآٱبوؤيئىةﻵ "
SIGNS = "\u05b8\u05c1\u0591\u064e\u0651\u0670\u0655\u0653\u06d6\ufe77" + TATWEEL + HAMZA


def unpointed(text: str, tatweel: str = TATWEEL, kept: str = HAMZA) -> list[str]:
    """The words of Hebrew and Arabic without points, vowel signs, tatweel and what alef carries."""
    made = " "
    for one in unicodedata.normalize("NFKD", text.replace("\ufe77", "").replace("ٱ", ALEF)):
        is_sign = unicodedata.combining(one) > 0
        if one != tatweel and (not is_sign or (one == kept and made[-1] not in (" ", ALEF))):
            made += one
    return unicodedata.normalize("NFC", made).split()


def check_unpointed(effort: Effort, wanted: Callable[[str], list[str]]) -> None:
    pointed = st.tuples(st.sampled_from(LETTERS), st.text(st.sampled_from(SIGNS), max_size=3))

    @settings(max_examples=effort.cases(quick=200, full=4000))
    @given(st.lists(pointed, max_size=8).map(lambda parts: "".join(map("".join, parts))))
    def check(text: str) -> None:
        assert terms("unicode", text) == wanted(text)

    check()


def test_points_and_vowel_signs_change_no_word(effort: Effort) -> None:
    check_unpointed(effort, unpointed)


@pytest.mark.parametrize("planted", [{"tatweel": ""}, {"kept": ""}, {"kept": "\u0651"}])
def test_a_wrong_folding_is_noticed(effort: Effort, planted: dict[str, str]) -> None:
    with pytest.raises(AssertionError):
        check_unpointed(effort, lambda text: unpointed(text, **planted))
