"""A prefix completes whatever people type, with every analyzer, and never raises."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
import Stemmer

import hyrecall as hr

ANALYZERS: dict[str, hr.Analyzer] = {
    "unicode": hr.Analyzer(),
    "with stop words": hr.Analyzer(stopwords="english"),
    "unicode:english": hr.Analyzer("unicode:english"),
    "snowball:english": hr.Analyzer("snowball:english", stopwords="english"),
    "porter": hr.Analyzer("porter"),
    "unicode61": hr.Analyzer("unicode61"),
    "word": hr.Analyzer("word"),
}
TEXTS = (
    "island hopping", "apple pie", "東京都庁", "กรุงเทพ", "don't panic", "well-known fact",
    "https://example.com/x", "charging station", "order INV-2026-0042", "hot green tea",
)  # fmt: skip


def index_of(texts: Any, analyzer: hr.Analyzer) -> hr.Index:
    table = pa.table({"id": range(len(texts)), "text": list(texts)})
    schema = hr.Schema(key="id", cell=None, text="text")
    return hr.Index.build(table, schema, analyzer=analyzer)


@pytest.mark.parametrize("name", ANALYZERS)
def test_every_beginning_of_a_text_finds_it(name: str) -> None:
    index = index_of(TEXTS, ANALYZERS[name])
    typed = [(key, text[:n]) for key, text in enumerate(TEXTS) for n in range(1, len(text) + 1)]
    hits = index.recall(text=[hr.Prefix(text) for _, text in typed], limit=20)
    assert not hits.degraded
    for (key, text), found in zip(typed, hits, strict=True):
        assert key in found.keys, text


@pytest.mark.parametrize("name", ANALYZERS)
def test_what_has_no_word_finds_nothing(name: str) -> None:
    typed = [hr.Prefix(text) for text in ("", " ", "?!", "--", "'", "💡", "\0")]
    hits = index_of(TEXTS, ANALYZERS[name]).recall(text=typed)
    assert [one.keys for one in hits] == [[]] * len(typed)
    assert hits.trace.notes == tuple(
        f"text[{at}] has no indexable token" for at in range(len(typed))
    )


# Words of every language with a stemmer. If the stemmer removes the beginning of a word (before the
# bar), the word is found from the second letter after it on.
STEMMED = {
    "arabic": "ال|مدرسة مدرسون كتابان",
    "armenian": "գրքերը քաղաքում մարդիկ աշխատանքի",
    "basque": "etxeetan mendiak lagunekin",
    "catalan": "cançons ràpidament ciències políticament",
    "czech": "městech rychlý knihovnách školách",
    "danish": "huset bøgerne venlighed arbejderne",
    "dutch": "huizen vriendelijkheid kinderen ge|loofde",
    "dutch_porter": "huizen vriendelijkheid coördinatie ideeën",
    "english": "charging studies running happiness nationalization connected effectively",
    "esperanto": "libroj rapide lernejoj ĉevalojn",
    "estonian": "raamatud majadesse õpilased koolides",
    "finnish": "taloissa kirjoista ystävämme hyvään",
    "french": "continuellement nationalités chevaux chantaient heureuses lumière derrière Noël",
    "german": "Zeitungen freundlichkeit gegangen häuser haeuser Ärger größe straße",
    "greek": "βιβλία γρήγορα άνθρωποι εργάζονται κτίρια",
    "hindi": "किताबें लड़कियों देखकर घरों",
    "hungarian": "házakban könyvek gyerekeknek levelekkel",
    "indonesian": "bukunya rumahnya sekolahlah di|siramkan",
    "irish": "leabhair scoileanna múinteoireacht tithe bh|fuil",
    "italian": "stazioni velocemente mangiando felicità possibile città",
    "lithuanian": "knygos namuose mokyklų greitai",
    "nepali": "किताबहरू घरमा केटीहरूलाई",
    "norwegian": "husene bøkene vennligheten arbeideren",
    "persian": "کتابها دوستان بزرگترین",
    "polish": "książkami szkołach ludziom domów",
    "porter": "charging studies happiness",
    "portuguese": "canções rapidamente ciência experiências órgãos",
    "romanian": "cărțile școlilor repede orașului",
    "russian": "книгами красивого читать новости вернулись ёлками",
    "serbian": "књигама школама градови kućama",
    "sesotho": "ba|tho li|puo",
    "spanish": "canciones trabajando ciudades rápidamente árboles levantándose",
    "swedish": "flickorna hundarna vänligheten böckerna",
    "tamil": "புத்தகங்கள் வீடுகளில் மரங்கள்",
    "turkish": "kitaplar evlerinden çocuklarla güzellik ışıklar",
    "yiddish": "ביכער קינדער לערערס",
}


def test_every_language_with_a_stemmer_has_words() -> None:
    assert STEMMED.keys() == set(Stemmer.algorithms())


@pytest.mark.slow
@pytest.mark.parametrize("family", ["snowball", "unicode"])
@pytest.mark.parametrize("language", STEMMED)
def test_every_beginning_of_a_word_finds_its_stem(language: str, family: str) -> None:
    words = STEMMED[language].split()
    index = index_of([word.replace("|", "") for word in words], hr.Analyzer(f"{family}:{language}"))
    for key, word in enumerate(words):
        removed, _, rest = word.rpartition("|")
        typed = [removed + rest[:n] for n in range(2 if removed else 1, len(rest) + 1)]
        hits = index.recall(text=[hr.Prefix(one) for one in typed], limit=20)
        assert [one for one, found in zip(typed, hits, strict=True) if key not in found.keys] == []


def test_a_beginning_that_a_stemmer_removes_does_not_stand_for_a_letter() -> None:
    index = index_of(["pagar", "dipersunting"], hr.Analyzer("snowball:indonesian"))
    assert index.recall_one(text=hr.Prefix("dip")).keys == []
    assert index.recall_one(text=hr.Prefix("dipe")).keys == [1]


def test_a_term_that_begins_in_several_ways_counts_once() -> None:
    index = index_of(["haeuser haus"], hr.Analyzer("snowball:german"))
    hit = index.recall_one(text=hr.Prefix("ha"))[0]
    assert hit.explain().components[0].terms[0].term_freq == 2
    assert index.recall_one(text=hr.Prefix("hae"))[0].score == hit.score


def test_words_before_the_last_stand_right_before_it() -> None:
    index = index_of(["green tea", "tea green", "green hot tea", "greens teas"], hr.Analyzer())
    assert index.recall_one(text=hr.Prefix("green te")).keys == [0]
    assert sorted(index.recall_one(text=hr.Prefix("green")).keys) == [0, 1, 2, 3]
    assert index.recall_one(text=hr.All(hr.Prefix("green h"), "tea")).keys == [2]
    hit = index.recall_one(text=hr.Prefix("green te"))[0]
    assert [term.term for term in hit.explain().components[0].terms] == ['"green te*"']


def test_a_removed_word_keeps_its_place_before_an_unfinished_one() -> None:
    texts = ["state of the art", "state art", "state of modern art"]
    index = index_of(texts, hr.Analyzer(stopwords="english"))
    assert index.recall_one(text=hr.Prefix("state of the a")).keys == [0, 2]
    assert sorted(index.recall_one(text=hr.Prefix("of the a")).keys) == [0, 1, 2]


def test_a_stem_is_not_completed_to_words_that_do_not_begin_so() -> None:
    index = index_of(["grilled char", "cat food", "charging"], hr.Analyzer("snowball:english"))
    assert index.recall_one(text=hr.Prefix("chargi")).keys == [2]
    assert index.recall_one(text=hr.Prefix("catal")).keys == []


def test_the_terms_of_a_token_function_are_the_prefix() -> None:
    function = hr.TokenFunction(lambda token: [token[::-1]], name="backwards", version="1")
    index = index_of(["tea"], hr.Analyzer("word", token_function=function, stopwords=["ae"]))
    assert index.recall_one(text=hr.Prefix("ea")).keys == [0]
    assert index.recall_one(text=hr.Prefix("te")).keys == []
