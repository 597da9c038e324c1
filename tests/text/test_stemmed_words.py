"""The preset unicode:LANGUAGE: the words of unicode, stemmed; nothing else of a text changes."""

import pytest
from snowballstemmer import stemmer

from hyrecall import Analyzer


def pairs(analyzer: Analyzer, text: str) -> list[tuple[str, int]]:
    return [(token.term, token.position) for token in analyzer.explain(text)]


@pytest.mark.parametrize("language", ["english", "german", "hindi", "russian"])
def test_unicode_with_a_language_stems_the_words_of_unicode(language: str) -> None:
    text = "Deploys of invoices, Häuser книги किताबें"
    stem = stemmer(language).stemWord
    assert pairs(Analyzer(f"unicode:{language}"), text) == [
        (stem(term), at) for term, at in pairs(Analyzer("unicode"), text)
    ]


def test_unicode_with_a_language_leaves_identifiers_and_numbers_as_they_are() -> None:
    text = "INV-2026-0042s settings.py ann@teams.org v2s C++ node_names 2026 3.14159"
    plain, stemmed = (pairs(Analyzer(name), text) for name in ("unicode", "unicode:english"))
    changed = {(one, other) for one, other in zip(plain, stemmed, strict=True) if one != other}
    words = {one: other for (one, _), (other, _) in changed}
    assert words == {"settings": "set", "teams": "team", "names": "name"}
    assert "settings.py" in {term for term, _ in stemmed}


def test_the_english_stemmer_leaves_words_of_other_scripts_as_they_are() -> None:
    texts = [
        "книги оплачены", "τα τιμολόγια πληρώθηκαν", "الفواتير مدفوعة",
        "החשבוניות שולמו", "चालान का भुगतान किया गया", "請求書が支払われました",
        "송장이 지불되었습니다", "ใบแจ้งหนี้ถูกชำระแล้ว", "හෂ්ටි", "ინვოისები",
    ]  # fmt: skip
    for text in texts:
        for role in ("document", "query"):
            plain = Analyzer("unicode").explain(text, role=role)
            assert Analyzer("unicode:english").explain(text, role=role) == plain
            assert plain
