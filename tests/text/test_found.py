"""What people find by what they type, in languages that write one word in several ways."""

import unicodedata
from typing import Any

import pyarrow as pa
import pytest

import hyrecall as hr

KOREAN = (
    "회의는 금요일 오후 세 시에 본사 회의실에서 열립니다",
    "서버 비밀번호를 매달 바꾸어야 합니다",
    "고객의 환불 요청을 이틀 안에 처리했습니다",
    "한국어를 배우는 학생들이 도서관에 모였다",
    "서울에서 부산까지 기차로 세 시간이 걸린다",
    "의사는 하루에 물을 여덟 잔 마시라고 했다",
    "검색엔진이 문서를 색인하는 방법을 설명한다",
    "은행에서 계좌를 새로 만들려면 신분증이 필요하다",
)
ASKED = {
    "비밀번호": 1, "환불": 2, "한국어": 3, "도서관": 3, "부산 기차": 4, "물": 5, "검색 엔진": 6,
    "문서 색인": 6, "은행 계좌": 7,
    # The query has the particle.
    "금요일에": 0, "비밀번호가": 1, "환불은": 2, "부산에": 4, "신분증을": 7,
}  # fmt: skip


def index_of(*texts: str, analyzer: str = "unicode") -> hr.Index:
    table = pa.table({"id": range(len(texts)), "text": texts})
    return hr.Index.build(
        table, hr.Schema(key="id", cell=None, text="text"), analyzer=hr.Analyzer(analyzer)
    )


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_korean_words_are_found_with_any_particle(form: Any) -> None:
    index = index_of(*(unicodedata.normalize(form, text) for text in KOREAN))
    found = {query: index.recall_one(text=query)[0].key for query in ASKED}
    assert found == ASKED


def test_whole_words_would_miss_most_of_them() -> None:
    index = index_of(*KOREAN, analyzer="word")
    hits = {query: index.recall_one(text=query) for query in ASKED}
    found = [
        query for query, key in ASKED.items() if len(hits[query]) and hits[query][0].key == key
    ]
    assert len(found) <= 3


@pytest.mark.parametrize(
    ("text", "query", "marked"),
    [
        ("한국어를 배운다", "한국어", ["한국어"]),
        ("한국어를 배운다", hr.Prefix("한국"), ["한국"]),
        ("한국어를 배운다", hr.Prefix("한"), ["한국"]),
        ("그는 한국어 검색을 쓴다", hr.Phrase("한국어 검색"), ["한국어", "검색"]),
        ("그는 한국어 검색을 쓴다", hr.Phrase("검색 한국어"), None),
        ("한국어 수업", hr.All("한국어를"), None),
        (
            unicodedata.normalize("NFD", "한국어를"),
            "한국어",
            [unicodedata.normalize("NFD", "한국어")],
        ),
        ("שָׁלוֹם עולם", "שלום", ["שָׁלוֹם"]),
        ("שלום עולם", "שָׁלוֹם", ["שלום"]),
        ("هذا كِتَابٌ جديد", "كتاب", ["كِتَابٌ"]),
        ("هذا كتــاب", hr.Prefix("كت"), ["كتــاب"]),
        ("قال أحمد", "احمد", ["أحمد"]),
        ("I ❤\ufe0f 🍕 and 🇩🇪", "❤ 🇩🇪", ["❤\ufe0f", "🇩🇪"]),
        ("I ❤\ufe0f 🍕", hr.Phrase("❤ 🍕"), ["❤\ufe0f", "🍕"]),
        ("mine 👨\u200d👩\u200d👧", "👩", None),
        ("yes 👍🏽", hr.Prefix("👍"), ["👍🏽"]),
        ("step 1\ufe0f\u20e3 go", "1\u20e3", ["1\ufe0f\u20e3"]),
    ],
)
def test_what_is_found_and_marked(text: str, query: Any, marked: list[str] | None) -> None:
    hits = index_of(text, "other words").recall_one(text=query)
    if marked is None:
        assert len(hits) == 0
    else:
        assert [text[start:end] for start, end in hits[0].highlights()] == marked
