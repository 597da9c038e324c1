"""The default preset: identifiers whole and split, folding, scripts without spaces."""

import random
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seams import Analyzer


def pairs(text: str, role: str = "document") -> list[tuple[str, int]]:
    return [(t.term, t.position) for t in Analyzer("unicode").explain(text, role=role)]


def words(text: str, role: str = "document") -> list[str]:
    return [term for term, _ in pairs(text, role)]


IDENTIFIERS = {
    "INV-2026-0042": [("inv-2026-0042", 0), ("inv", 0), ("2026", 1), ("0042", 2)],
    "CVE-2024-1234": [("cve-2024-1234", 0), ("cve", 0), ("2024", 1), ("1234", 2)],
    "getUserById": [("getuserbyid", 0), ("get", 0), ("user", 1), ("by", 2), ("id", 3)],
    "snake_case": [("snake_case", 0), ("snake", 0), ("case", 1)],
    "C++": [("c++", 0), ("c", 0)],
    "C#": [("c#", 0), ("c", 0)],
    "c++17": [("c++", 0), ("c", 0), ("17", 1)],
    "visual-c++": [("visual-c++", 0), ("visual", 0), ("c++", 1), ("c", 1)],
    "v1.2.3": [("v1.2.3", 0), ("v1", 0), ("2", 1), ("3", 2)],
    "user@example.com": [("user@example.com", 0), ("user", 0), ("example", 1), ("com", 2)],
    "HTTPServer": [("httpserver", 0), ("http", 0), ("server", 1)],
    "iPhone15Pro": [("iphone15pro", 0), ("i", 0), ("phone15", 1), ("pro", 2)],
    "getÜberSicht": [("getubersicht", 0), ("get", 0), ("uber", 1), ("sicht", 2)],
    "3.14": [("3.14", 0), ("3", 0), ("14", 1)],
    "U.S.A.": [("u.s.a", 0), ("u", 0), ("s", 1), ("a", 2)],
    "a__b": [("a__b", 0), ("a", 0), ("b", 1)],
    "COVID\u201119": [("covid-19", 0), ("covid", 0), ("19", 1)],
    # Not identifiers: nothing whole.
    "__init__": [("init", 0)],
    "PDFs": [("pdfs", 0)],
    "SQL": [("sql", 0)],
    "sha256": [("sha256", 0)],
    "issue#12": [("issue", 0), ("12", 1)],
    "a+b": [("a", 0), ("b", 1)],
    "wait...what": [("wait", 0), ("what", 1)],
    "@user": [("user", 0)],
    ".NET": [("net", 0)],
    "well-known": [("well", 0), ("known", 1)],
    "state-of-the-art": [("state", 0), ("of", 1), ("the", 2), ("art", 3)],
    "don't": [("don", 0), ("t", 1)],
    "John’s": [("john", 0), ("s", 1)],
    "and/or": [("and", 0), ("or", 1)],
}


@pytest.mark.parametrize(("text", "wanted"), IDENTIFIERS.items())
def test_identifiers_are_kept_whole_and_split(text: str, wanted: list[tuple[str, int]]) -> None:
    assert pairs(text) == wanted
    assert pairs(text, "query") == wanted


def test_a_compound_advances_by_its_parts_and_counts_them(ask) -> None:
    native = Analyzer().native
    assert pairs("see INV-2026-0042 now")[-1] == ("now", 4)
    assert native.analyze(["see INV-2026-0042 now"], "document")[4].tolist() == [5]


def test_a_chain_too_long_for_an_identifier_is_only_split() -> None:
    assert words("a1-" * 42 + "a1")[0] == "a1-" * 42 + "a1"  # 128 characters
    assert set(words("a1-" * 42 + "ab1")) == {"a1", "ab1"}


FOLDS = {
    "Crème BRÛLÉE": ["creme", "brulee"],
    "cafe\u0301": ["cafe"],
    "Straße STRASSE": ["strasse", "strasse"],
    "Łódź Øresund đồng": ["lodz", "oresund", "dong"],
    "Æther œuvre": ["aether", "oeuvre"],
    "İstanbul ISPARTA ısparta": ["istanbul", "isparta", "isparta"],
    "ΣΊΣΥΦΟΣ Σίσυφος σισυφοσ": ["σισυφοσ"] * 3,
    "ᾠδή Ὀδυσσεύς": ["ωδη", "οδυσσευσ"],
    "Ёлка йод": ["елка", "иод"],
    "ﬁne ﬂow ǆ": ["fine", "flow", "dz"],
    "x² H₂O №": ["x2", "h2o"],
    "½": ["½"],  # its plain form holds a sign that is no part of words
    "𝔘𝔫𝔦 𝟙𝟚": ["uni", "12"],
    "٢٠٢٦ २०२६ ２０２６": ["2026"] * 3,
    "soft\u00adhyphen a\u200db \ufeffbom": ["softhyphen", "ab", "bom"],
    "zero\u200bwidth": ["zero", "width"],
    "हिन्दी भाषा": ["हिन्दी", "भाषा"],
    "தமிழ் বাংলা": ["தமிழ்", "বাংলা"],
    "שָׁלוֹם בְּרֵאשִׁית ײַ": ["שלום", "בראשית", "ײ"],
    "מקף־עברי צה״ל": ["מקף", "עברי", "צה", "ל"],
    "مُحَمَّد اللُّغَةُ": ["محمد", "اللغة"],
    "كتــاب ـكتاب م\ufe77م": ["كتاب", "كتاب", "مم"],
    "آدم أحمد إسلام ٱلْحَمْدُ ا\u0654": ["ادم", "احمد", "اسلام", "الحمد", "ا"],
    "سُئِلَ و\u064e\u0654 على مدرسة": ["سئل", "ؤ", "على", "مدرسة"],  # these hamzas and letters stay
    "ܡܰܠܟܳܐ ދިވެހި": ["ܡܰܠܟܳܐ", "ދިވެހި"],
    "\u0301a": ["a"],
    "": [],
}


@pytest.mark.parametrize(("text", "wanted"), FOLDS.items())
def test_case_and_accents_are_folded_and_other_marks_kept(text: str, wanted: list[str]) -> None:
    assert words(text) == wanted


DENSE = {
    "中国人": (["中", "中国", "国", "国人", "人"], ["中国", "国人"]),
    "中": (["中"], ["中"]),
    "東京タワー": (
        ["東", "東京", "京", "京タ", "タ", "タワ", "ワ", "ワー", "ー"],
        ["東京", "京タ", "タワ", "ワー"],
    ),
    "ｶﾞｷﾞ": (["ガ", "ガギ", "ギ"], ["ガギ"]),
    "か\u3099き": (["が", "がき", "き"], ["がき"]),
    "น้ำ": (["น\u0e49\u0e4d", "น\u0e49\u0e4dา", "า"], ["น\u0e49\u0e4dา"]),
    "ພາ": (["ພ", "ພາ", "າ"], ["ພາ"]),
    "ខ្មែ": (["ខ្", "ខ្មែ", "មែ"], ["ខ្មែ"]),
    "မြန်": (["မြ", "မြန်", "န်"], ["မြန်"]),
    "한국어를": (
        ["한", "한국", "국", "국어", "어", "어를", "를"],
        ["한국", "국어", "어를"],
    ),
    "\u1112\u1161\u11ab국": (["한", "한국", "국"], ["한국"]),
    "책 한글": (["책", "한", "한글", "글"], ["책", "한글"]),
    "ㅋㅋ": (["\u110f", "\u110f\u110f", "\u110f"], ["\u110f\u110f"]),
    "abc中文1": (["abc", "中", "中文", "文", "1"], ["abc", "中文", "1"]),
    "中 文": (["中", "文"], ["中", "文"]),
    "中ก": (["中", "ก"], ["中", "ก"]),  # two scripts, two runs
}


@pytest.mark.parametrize(("text", "wanted"), DENSE.items())
def test_documents_hold_uni_and_bigrams_and_queries_bigrams(
    text: str, wanted: tuple[list[str], list[str]]
) -> None:
    def plain(terms: list[str]) -> list[str]:
        return [unicodedata.normalize("NFC", t) for t in terms]

    assert plain(words(text)) == plain(wanted[0])
    assert plain(words(text, "query")) == plain(wanted[1])


@pytest.mark.parametrize(
    ("first", "last", "folded"), [("々", "ヾ", "ﾊ"), ("㐀", "鿿", "ﾊ"), ("가", "힣", "\u1100")]
)
def test_characters_that_are_read_as_they_stand_are_what_folding_makes_of_them(
    ask, first: str, last: str, folded: str
) -> None:
    run = list(map(chr, range(ord(first), ord(last) + 1)))
    texts = list(map("".join, zip(run, random.Random(1).sample(run, len(run)), strict=True)))
    native = Analyzer().native
    beside = ask(native, [text + folded for text in texts])  # the whole run is folded
    for text, own, other in zip(texts, ask(native, texts), beside, strict=True):
        assert own == other[: len(own)], text


def test_query_grams_stand_where_the_document_has_them() -> None:
    text = "我爱北京 and 上海 too"
    assert set(pairs(text, "query")) <= set(pairs(text))
    assert pairs("中国人", "document") == [
        ("中", 0), ("中国", 0), ("国", 1), ("国人", 1), ("人", 2)
    ]  # fmt: skip
    assert pairs("中国人 x", "query") == [("中国", 0), ("国人", 1), ("x", 3)]


def test_length_of_a_dense_run_is_its_characters() -> None:
    assert Analyzer().native.analyze(["中国人", "x中国"], "document")[4].tolist() == [3, 3]


any_text = st.text(st.characters(), max_size=40)


@given(any_text)
def test_canonically_equal_texts_have_equal_terms(text: str) -> None:
    # Characters added after Unicode 14 are unknown to the tables, hence not in normal form.
    known = "".join(c for c in text if unicodedata.category(c) != "Cn")
    composed, decomposed = (unicodedata.normalize(form, known) for form in ("NFC", "NFD"))
    assert pairs(composed) == pairs(decomposed)


@given(any_text)
def test_folding_a_folded_term_changes_nothing(text: str) -> None:
    for token in Analyzer().explain(text, role="query"):
        # Two terms cannot stand alone: A-aA is an identifier for its hump, which folding takes
        # away; a Thai am by itself decomposes into a mark, which starts no word, and a letter.
        if "-" in token.term or unicodedata.category(token.term[0])[0] == "M":
            continue
        assert words(token.term, "query")[0] == token.term


@given(any_text)
def test_queries_use_the_documents_terms_and_positions_never_fall(text: str) -> None:
    document, query = pairs(text), pairs(text, "query")
    assert set(query) <= set(document)
    for tokens in (document, query):
        positions = [p for _, p in tokens]
        assert positions == sorted(positions)
        assert all(term for term, _ in tokens)


@given(any_text)
def test_length_counts_the_positions_that_hold_a_term(text: str) -> None:
    native = Analyzer("unicode", stopwords=["a", "b"]).native
    _, _, _, positions, lengths = native.analyze([text + " a c"], "document")
    assert lengths.tolist() == [len(set(positions.tolist()))]
