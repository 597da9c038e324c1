"""Texts that ask for too much, that are not what they should be, and that go on where one stops."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from snowballstemmer import algorithms
from typer.testing import CliRunner

import hyrecall as hr
from hyrecall.distributed import BatchRecall, ShardedIndex, recall_dataset
from hyrecall.memory import MemorySync
from hyrecall.serve import ServiceOptions, create_app
from laws.effort import Effort
from seams import Lexical, Recipe
from seams import app_app as app
from serve_client import calling

# ---- lone surrogates, NUL, megabytes, a million terms ----

MEGA = 1_000_000
SECONDS = 1.0  # of one core, for 10 MB


def index_of(texts: Any, analyzer: str = "unicode") -> hr.Index:
    if not isinstance(texts, pa.Array):
        texts = pa.array(texts, pa.string())
    table = pa.table({"id": np.arange(len(texts)), "text": texts})
    schema = hr.Schema(key="id", cell=None, text="text", stored=())
    return hr.Index.build(table, schema, analyzer=hr.Analyzer(analyzer))


def found(index: hr.Index, query: Any) -> list[int]:
    return sorted(index.recall_one(text=query, limit=100).keys)


ASKED = (
    ["tea", "a\ud83d"], {"text": ["tea", "\ud800"]}, ["tea", hr.Prefix("\ud800")],
    ["tea", hr.All("x", hr.Phrase("\udfff"))],
)  # fmt: skip


@pytest.mark.parametrize("text", [*ASKED, np.array(ASKED[0]), tuple(ASKED[0])])
def test_a_lone_surrogate_in_a_query_is_refused(text: Any, tmp_path: Path) -> None:
    message = r"text\[1\]: expected valid Unicode, got a lone surrogate"
    index = index_of(["hot", "tea", "\U0001f600"])
    index.save(tmp_path / "saved")
    for one in (index, ShardedIndex.open([tmp_path / "saved"])):
        with pytest.raises(hr.OptionError, match=message):
            one.recall(text=text)
    with pytest.raises(hr.OptionError, match=r"text\[0\]"):
        index.recall_one(text="\ud83d")
    assert found(index, "\U0001f600 tea") == [1, 2]


# ---- sizes ----


@pytest.fixture(scope="module")
def large() -> hr.Index:
    rng = np.random.default_rng(1)
    texts = [" ".join(f"w{i}" for i in row) for row in rng.integers(0, 100_000, (5000, 12))]
    return index_of(texts)


def cpu_seconds(call: Callable[[], object]) -> tuple[float, object]:
    """Seconds of one core, since the machine may be busy with other things; and the outcome."""
    started = time.process_time()
    outcome = call()
    return time.process_time() - started, outcome


TEN_MEGABYTES: dict[str, Callable[[], str]] = {
    "one word again and again": lambda: "w7 cups " * (10 * MEGA // 8),
    "one word of 10 MB": lambda: "w" * (10 * MEGA),
    "NUL": lambda: "\0" * (10 * MEGA),
    "blanks": lambda: " " * (10 * MEGA),
    "a million words": lambda: " ".join(f"w{i:08d}" for i in range(MEGA)),
}


@pytest.mark.plain_cases(2)
@pytest.mark.parametrize("name", TEN_MEGABYTES)
def test_a_query_of_10_megabytes_takes_a_second_or_is_refused(large: hr.Index, name: str) -> None:
    query = TEN_MEGABYTES[name]()
    spent = []
    for _ in range(3):
        seconds, outcome = cpu_seconds(lambda: large.recall_one(text=query))
        assert isinstance(outcome, hr.QueryHits)
        told = ("text was not searched: it has more than 65,536 distinct terms",)
        assert outcome.trace.degraded == (told if name == "a million words" else ())
        spent.append(seconds)
        if seconds < SECONDS:
            return
    pytest.fail(f"took {spent} s")


def test_the_most_terms_a_query_may_have_are_answered_in_time(large: hr.Index) -> None:
    for query in (
        " ".join(f"w{i}" for i in range(65_536)),
        hr.Any(*(hr.Boost(f"w{i}", 2) for i in range(20_000)), hr.All("w1", "w2")),
    ):
        seconds, hits = cpu_seconds(lambda query=query: large.recall_one(text=query))
        assert isinstance(hits, hr.QueryHits)
        assert len(hits) == 10
        assert seconds < 5 * SECONDS


def test_a_document_of_megabytes_and_a_million_terms_is_indexed(effort: Effort) -> None:
    n = effort.cases(quick=100_000, full=MEGA)
    long = " ".join(f"w{i}" for i in range(n))
    index = index_of([long, "w5 tea", "x" * (10 * MEGA)])
    assert found(index, "w5") == [0, 1]
    assert found(index, f"w{n - 1}") == [0]
    assert found(index, hr.Phrase(f"w{n - 3} w{n - 2} w{n - 1}")) == [0]
    hit = index.recall_one(text=f"w{n - 1}")[0]
    assert hit.explain().components[0].doc_length == n
    assert hit.explain().score == hit.score
    index.compact()
    assert found(index, f"w{n - 1}") == [0]


def test_many_equal_texts_and_empty_rows_cost_little() -> None:
    index = index_of([None, ""] * 50_000 + ["tea"])
    assert found(index, "tea") == [100_000]
    assert index.recall_one(text="tea")[0].explain().components[0].n_docs == 50_001


# ---- a text that asks for too much is not searched ----

SCHEMA = hr.Schema(key="id", cell="user", text="t", vector="v")
MANY = " ".join(f"a{at:04}" for at in range(3000))
TERMS = " ".join(f"w{at}" for at in range(65_537))
TOO_MANY_TERMS = "was not searched: it has more than 65,536 distinct terms"
TOO_LONG = "was not searched: it has a phrase of more than 4,096 tokens"
CUT = "has a word that stands for more than 1,024 terms of its scope: the most frequent count"


def rows() -> pa.Table:
    return pa.table(
        {
            "id": ["pie", "words", "cake"],
            "user": ["alice", "bob", "alice"],
            "t": ["apple pie", MANY, "apple cake"],
            "v": pa.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]),
        }
    )


@pytest.fixture(scope="module", params=["index", "shards"])
def index(request: pytest.FixtureRequest) -> Any:
    table = rows()
    if request.param == "index":
        return hr.Index.build(table, SCHEMA)
    return ShardedIndex.build([table.slice(0, 1), table.slice(1, 1), table.slice(2)], SCHEMA)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("refused") / "t.index"
    hr.Index.build(rows(), SCHEMA).save(path)
    return path


def rows_of(hits: Any, query: int) -> list[Any]:
    return [
        {name: value for name, value in row.items() if name != "query"}
        for row in hits.to_arrow().to_pylist()
        if row["query"] == query
    ]


def test_a_text_that_asks_for_too_much_degrades_its_own_query_alone(index: Any) -> None:
    texts = [hr.Prefix("a"), TERMS, "apple", hr.Phrase("x " * 5000), hr.All("x", hr.Prefix("a"))]
    scopes = ["bob", "alice", "alice", "alice", hr.Scope(["alice", "bob"])]
    hits = index.recall(text=texts, scope=scopes)
    told = {1: TOO_MANY_TERMS, 3: TOO_LONG}
    assert hits.trace.degraded == tuple(f"t[{at}] {told[at]}" for at in (1, 3))
    assert hits.trace.notes == tuple(f"t[{at}] {CUT}" for at in (0, 4))
    for at, (text, scope) in enumerate(zip(texts, scopes, strict=True)):
        alone = index.recall(text=[text], scope=scope)
        assert rows_of(hits, at) == rows_of(alone, 0)
        assert hits[at].trace.degraded == alone[0].trace.degraded
        assert alone[0].trace.degraded == ((f"t {told[at]}",) if at in told else ())
        assert alone[0].trace.notes == hits[at].trace.notes == ((f"t {CUT}",) * (at in (0, 4)))
        assert hits[at].degraded == (at in told)
    assert [len(one) for one in hits] == [1, 0, 2, 0, 0]


def test_the_other_arms_of_a_refused_text_answer_and_its_score_is_null(index: Any) -> None:
    vectors = np.array([[1.0, 0.0]] * 2, np.float32)
    hits = index.recall(text=[TERMS, "apple"], vectors=vectors, scope=["bob", "alice"])
    without = index.recall(text=[None], vectors=vectors[:1], scope="bob")
    assert rows_of(hits, 0) == rows_of(without, 0)
    assert [row["t_score"] for row in rows_of(hits, 0)] == [None]
    assert all(row["t_score"] is not None for row in rows_of(hits, 1))


def queries() -> pa.Table:
    return pa.table(
        {"q": ["k0", "k1", "k2"], "text": ["apple", TERMS, "pie"], "who": ["alice"] * 3}
    )


def test_a_batch_of_files_is_not_lost_by_one_text(folder: Path, tmp_path: Path) -> None:
    pq.write_table(queries(), tmp_path / "q.parquet")
    roles: Any = {"key": "q", "text": "text", "scope": "who"}
    told = {"k1": [f"t {TOO_MANY_TERMS}"]}
    made = BatchRecall(folder, **roles)(queries())
    assert made["query_key"].to_pylist() == ["k0", "k0", "k2"]
    assert json.loads(made.schema.metadata[b"degraded"]) == told
    done = recall_dataset(BatchRecall(folder, **roles), tmp_path / "q.parquet", tmp_path / "out")
    assert (done.n_queries, done.n_hits, done.n_refused) == (3, 3, 0)
    assert json.loads(pq.read_metadata(done.files[0]).metadata[b"degraded"]) == told


def test_a_column_of_errors_has_the_reason_beside_the_hits(folder: Path) -> None:
    recall = BatchRecall(
        folder, key="q", text="text", vectors="v", scope="who", on_error="column", limit=1
    )
    table = queries().append_column("v", pa.array([[1.0, 0.0]] * 3))
    made = recall(table).select(["query_key", "key", "error"]).to_pylist()
    assert [(row["query_key"], row["key"]) for row in made] == [
        ("k0", "pie"), ("k1", "pie"), ("k1", None), ("k2", "pie")
    ]  # fmt: skip
    assert [row["error"] for row in made] == [None, None, f"t {TOO_MANY_TERMS}", None]


def test_the_command_batch_answers_the_others_and_names_the_query(
    folder: Path, tmp_path: Path
) -> None:
    pq.write_table(queries(), tmp_path / "q.parquet")
    command = ["batch", folder, tmp_path / "q.parquet", "--query-text", "text"]
    command += ["--query-scope", "who", "--output", tmp_path / "h.parquet"]
    run = CliRunner().invoke(app, list(map(str, command)))
    assert run.exit_code == 0, run.stderr
    said = " ".join((run.stderr + run.stdout).split())
    assert f"note: query 1: t {TOO_MANY_TERMS}" in said
    hits = pq.read_table(tmp_path / "h.parquet").to_pylist()
    assert [row["query"] for row in hits] == [0, 0, 1, 2]
    assert [row["degraded"] for row in hits] == [None, None, f"t {TOO_MANY_TERMS}", None]
    lone = {name for name, value in hits[2].items() if value is not None}
    assert lone == {"query", "degraded"}, "a row without a hit has nothing of one"
    assert "3 hits" in said


def test_the_service_answers_the_others_and_says_which_was_degraded(folder: Path) -> None:
    sizes = ServiceOptions(max_query=2_000_000, max_body=4_000_000)
    asked = [{"text": text, "scope": "alice"} for text in ("apple", TERMS, "pie")]

    async def work(client: Any) -> tuple[Any, bytes]:
        batch = await client.post("/v1/recall/batch", json={"queries": asked})
        assert batch.status_code == 200, batch.text
        table = pa.table({"text": [one["text"] for one in asked], "scope": ["alice"] * 3})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        headers = {"content-type": "application/vnd.apache.arrow.stream"}
        arrow = await client.post(
            "/v1/recall/arrow", content=sink.getvalue().to_pybytes(), headers=headers
        )
        assert arrow.status_code == 200, arrow.text
        return batch.json()["replies"], arrow.content

    async def run() -> Any:
        async with calling(create_app(hr.Index.open(folder), sizes), None) as client:
            return await work(client)

    replies, content = asyncio.run(run())
    assert [len(one["hits"]) for one in replies] == [2, 0, 1]
    assert [one["degraded"] for one in replies] == [False, True, False]
    assert replies[1]["reasons"] == [{"reason": "degraded", "detail": f"t {TOO_MANY_TERMS}"}]
    schema = pa.ipc.open_stream(content).schema
    assert json.loads(schema.metadata[b"degraded"]) == {"1": [f"t {TOO_MANY_TERMS}"]}


def test_a_search_of_a_store_says_that_its_text_was_too_large(tmp_path: Path) -> None:
    with MemorySync.open(tmp_path / "store", recipe=hr.recipes.l0) as store:
        for first in range(0, 1200, 300):
            text = " ".join(f"a{at:04}" for at in range(first, first + 300))
            store.remember(text, user_id="bob")
        assert len(store.search("a", user_id="bob")) == 4
        found = store.search(TERMS, user_id="bob")
        assert (len(found), found.degraded) == (0, True)
        assert [str(one.reason) for one in found.reasons] == ["query_too_large"]
        assert not store.search("a0001", user_id="bob").degraded


# ---- a prefix completes whatever people type, with every analyzer, and never raises ----

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


def unfinished_index_of(texts: Any, analyzer: hr.Analyzer) -> hr.Index:
    table = pa.table({"id": range(len(texts)), "text": list(texts)})
    schema = hr.Schema(key="id", cell=None, text="text")
    return hr.Index.build(table, schema, analyzer=analyzer)


@pytest.mark.parametrize("name", ANALYZERS)
def test_every_beginning_of_a_text_finds_it(name: str) -> None:
    index = unfinished_index_of(TEXTS, ANALYZERS[name])
    typed = [(key, text[:n]) for key, text in enumerate(TEXTS) for n in range(1, len(text) + 1)]
    hits = index.recall(text=[hr.Prefix(text) for _, text in typed], limit=20)
    assert not hits.degraded
    for (key, text), found in zip(typed, hits, strict=True):
        assert key in found.keys, text


@pytest.mark.parametrize("name", ANALYZERS)
def test_what_has_no_word_finds_nothing(name: str) -> None:
    typed = [hr.Prefix(text) for text in ("", " ", "?!", "--", "'", "™", "\0")]
    hits = unfinished_index_of(TEXTS, ANALYZERS[name]).recall(text=typed)
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
    assert STEMMED.keys() == set(algorithms())


@pytest.mark.parametrize("language", STEMMED)
def test_without_pystemmer_stems_and_hash_are_the_same(
    language: str, monkeypatch: pytest.MonkeyPatch, effort: Effort
) -> None:
    """CPython 3.15 has no wheel of it. Words of all languages, then pieces of these together."""
    pytest.importorskip("Stemmer", reason="PyStemmer is not installed")
    words = [word.replace("|", "") for line in STEMMED.values() for word in line.split()]
    own, rng = STEMMED[language].replace("|", "").split(), Random(language)
    for _ in range(effort.cases(quick=100, full=50_000)):
        first, last = rng.choice(own), rng.choice(own)
        words.append(first[: rng.randint(0, len(first))] + last[rng.randint(0, len(last)) :])
    text = " ".join(words)
    with_it = hr.Analyzer(f"snowball:{language}")
    expected = with_it.explain(text), with_it.hash
    monkeypatch.setitem(sys.modules, "Stemmer", None)
    for name in [name for name in sys.modules if name.startswith("snowballstemmer")]:
        monkeypatch.delitem(sys.modules, name)  # it takes PyStemmer where that is
    without = hr.Analyzer(f"snowball:{language}")
    assert "snowballstemmer.basestemmer" in sys.modules
    assert (without.explain(text), without.hash) == expected


@pytest.mark.slow
@pytest.mark.parametrize("family", ["snowball", "unicode"])
@pytest.mark.parametrize("language", STEMMED)
def test_every_beginning_of_a_word_finds_its_stem(language: str, family: str) -> None:
    words = STEMMED[language].split()
    index = unfinished_index_of(
        [word.replace("|", "") for word in words], hr.Analyzer(f"{family}:{language}")
    )
    for key, word in enumerate(words):
        removed, _, rest = word.rpartition("|")
        typed = [removed + rest[:n] for n in range(2 if removed else 1, len(rest) + 1)]
        hits = index.recall(text=[hr.Prefix(one) for one in typed], limit=20)
        assert [one for one, found in zip(typed, hits, strict=True) if key not in found.keys] == []


def test_a_beginning_that_a_stemmer_removes_does_not_stand_for_a_letter() -> None:
    index = unfinished_index_of(["pagar", "dipersunting"], hr.Analyzer("snowball:indonesian"))
    assert index.recall_one(text=hr.Prefix("dip")).keys == []
    assert index.recall_one(text=hr.Prefix("dipe")).keys == [1]


def test_a_term_that_begins_in_several_ways_counts_once() -> None:
    index = unfinished_index_of(["haeuser haus"], hr.Analyzer("snowball:german"))
    hit = index.recall_one(text=hr.Prefix("ha"))[0]
    assert hit.explain().components[0].terms[0].term_freq == 2
    assert index.recall_one(text=hr.Prefix("hae"))[0].score == hit.score


def test_words_before_the_last_stand_right_before_it() -> None:
    index = unfinished_index_of(
        ["green tea", "tea green", "green hot tea", "greens teas"], hr.Analyzer()
    )
    assert index.recall_one(text=hr.Prefix("green te")).keys == [0]
    assert sorted(index.recall_one(text=hr.Prefix("green")).keys) == [0, 1, 2, 3]
    assert index.recall_one(text=hr.All(hr.Prefix("green h"), "tea")).keys == [2]
    hit = index.recall_one(text=hr.Prefix("green te"))[0]
    assert [term.term for term in hit.explain().components[0].terms] == ['"green te*"']


def test_a_removed_word_keeps_its_place_before_an_unfinished_one() -> None:
    texts = ["state of the art", "state art", "state of modern art"]
    index = unfinished_index_of(texts, hr.Analyzer(stopwords="english"))
    assert index.recall_one(text=hr.Prefix("state of the a")).keys == [0, 2]
    assert sorted(index.recall_one(text=hr.Prefix("of the a")).keys) == [0, 1, 2]


def test_a_stem_is_not_completed_to_words_that_do_not_begin_so() -> None:
    index = unfinished_index_of(
        ["grilled char", "cat food", "charging"], hr.Analyzer("snowball:english")
    )
    assert index.recall_one(text=hr.Prefix("chargi")).keys == [2]
    assert index.recall_one(text=hr.Prefix("catal")).keys == []


def test_the_terms_of_a_token_function_are_the_prefix() -> None:
    function = hr.TokenFunction(lambda token: [token[::-1]], name="backwards", version="1")
    index = unfinished_index_of(
        ["tea"], hr.Analyzer("word", token_function=function, stopwords=["ae"])
    )
    assert index.recall_one(text=hr.Prefix("ea")).keys == [0]
    assert index.recall_one(text=hr.Prefix("te")).keys == []


# ---- all columns of a text arm, joined by a line break ----

TITLES = ["tea", "", None, "tea", None]
JOINED_TEXTS = ["a hot drink", "milk and tea", "tea with lemon", " \t", None]
JOINED = {0: "tea\na hot drink", 1: "milk and tea", 2: "tea with lemon", 3: "tea", 4: None}


def built(stored: Sequence[str] | None = None, n_adds: int = 0) -> hr.Index:
    table = pa.table({
        "id": list(range(5)),
        "user": ["ana"] * 5,
        "title": pa.array(TITLES, pa.string()),
        "text": pa.array(JOINED_TEXTS, pa.string()),
    })  # fmt: skip
    text = {"words": hr.Text("title", "text"), "title": "title"}
    schema = hr.Schema(key="id", cell="user", text=text, stored=stored)
    index = hr.Index.build(table[: 5 - n_adds], schema)
    for at in range(5 - n_adds, 5):
        index.add(table[at : at + 1])
    return index


def ask(index: hr.Index, *shaping: Any, **options: Any) -> hr.QueryHits:
    asked = {"text": {"words": ["tea"]}, "scope": "ana", "shaping": shaping} | options
    return index.recall(**asked)[0]


@pytest.mark.parametrize("n_adds", [0, 3])
def test_the_text_of_a_hit_is_every_column_of_the_first_text_arm(n_adds: int) -> None:
    hits = ask(built(n_adds=n_adds))
    assert {hit.key: hit.text for hit in hits} == {at: JOINED[at] for at in range(4)}
    newest = hr.Schema(key="id", cell=None, text={"words": hr.Text("title", "text")},
                       attributes="id")  # fmt: skip
    table = pa.table(
        {"id": [1], "title": pa.nulls(1, pa.string()), "text": pa.nulls(1, pa.string())}
    )
    (hit,) = hr.Index.build(table, newest).recall(arms=hr.arms.Newest("id"))[0]
    assert hit.text is None


def test_a_hit_of_one_text_column_has_it_as_it_is_stored() -> None:
    table = pa.table({"id": [1, 2], "text": ["  tea \n", "tea"]})
    index = hr.Index.build(table, hr.Schema(key="id", cell=None, text="text"))
    assert {hit.key: hit.text for hit in index.recall(text=["tea"])[0]} == {1: "  tea \n", 2: "tea"}


def test_a_budget_counts_every_column_of_the_arm() -> None:
    hits = ask(built(), hr.Budget(1000))
    tokens = dict(zip(hits.keys, hits.to_arrow()["token_estimate"].to_pylist(), strict=True))
    assert tokens == {at: -(-len(str(JOINED[at])) // 4) for at in range(4)}
    for budget in (1, 5, 8, 20):
        kept = ask(built(), hr.Budget(budget))
        assert len(kept) == 1 or sum(tokens[key] for key in kept.keys) <= budget
    only = ask(built(), hr.Budget(1000, column="title")).to_arrow()
    assert set(only["token_estimate"].to_pylist()) == {1}


def test_a_budgets_own_estimate_gets_the_joined_text_and_is_not_asked_about_nothing() -> None:
    heard: list[str] = []

    def count(texts: list[str]) -> list[int]:
        heard.extend(texts)
        return [len(text.split()) for text in texts]

    found = ask(built(), hr.Budget(6, estimate=count))
    assert sorted(heard) == sorted(str(JOINED[at]) for at in range(4))
    assert sum(len(hit.text.split()) for hit in found) <= 6
    assert len(ask(built(), hr.Budget(6, estimate=count), text={"words": ["zebra"]})) == 0


def test_a_reranker_gets_every_column_of_the_arm() -> None:
    heard: list[str] = []

    def longest(query: str, texts: list[str]) -> list[float]:
        heard.extend(texts)
        return [float(len(text)) for text in texts]

    hits = ask(built(), hr.RerankBy(longest, timeout="30s"))
    assert sorted(heard) == sorted(str(JOINED[at]) for at in range(4))
    assert [hit.text for hit in hits] == sorted(heard, key=len, reverse=True)


def test_several_recipes_of_a_batch_give_joined_texts() -> None:
    one = Recipe(name="one", arms=(Lexical(arms=("words",)),), fusion=hr.RRF())
    two = one.replace(name="two", shaping=(hr.Budget(8),))
    hits = built().recall(text=["tea", "tea"], scope="ana", recipe=[one, two])
    assert {hit.key: hit.text for hit in hits[0]} == {at: JOINED[at] for at in range(4)}
    assert all(hit.text == JOINED[hit.key] for hit in hits[1])
    assert 1 <= len(hits[1]) < 4


def test_a_column_of_the_arm_that_is_not_stored_is_named() -> None:
    index = built(stored=("title",))
    with pytest.raises(AttributeError, match="the text column 'text' is not stored"):
        _ = ask(index)[0].text
    wish = r"Budget\.column: expected a stored column of \[.*\], got 'text'"
    with pytest.raises(hr.OptionError, match=wish):
        ask(index, hr.Budget(5))
    with pytest.raises(hr.OptionError, match=r"RerankBy\.column: expected a stored column"):
        ask(index, hr.RerankBy(lambda query, texts: [0.0] * len(texts)))
    assert len(ask(index, hr.Budget(1, column="title"))) == 1


# ---- typed text queries: what each matches, and that text is never parsed ----

TYPED_TEXTS = [
    "blue green deploy of the service",
    "green blue deploy",
    "blue deploy",
    "postgres replication lag",
    "postgresql replica",
    'a "quoted phrase" AND more OR less NOT none',
    "deploy* title:deploy ^2 (x)",
]


@pytest.fixture(scope="module")
def typed_index() -> hr.Index:
    table = pa.table({"id": range(len(TYPED_TEXTS)), "text": TYPED_TEXTS})
    schema = hr.Schema(key="id", cell=None, text="text")
    return hr.Index.build(table, schema, analyzer=hr.Analyzer("word"))


def typed_found(typed_index: hr.Index, query: Any) -> list[int]:
    return sorted(typed_index.recall_one(text=query, limit=100).keys)


def test_operators_in_text_are_words(typed_index: hr.Index) -> None:
    assert typed_found(typed_index, '"blue green"') == [0, 1, 2]
    assert typed_found(typed_index, "blue AND service") == [0, 1, 2, 5]
    assert typed_found(typed_index, "NOT") == [5]
    assert typed_found(typed_index, "postg*") == []
    assert typed_found(typed_index, "title:service") == [0, 6]
    assert typed_found(typed_index, "service^99") == typed_found(typed_index, "service")
    assert typed_found(typed_index, "(x) OR -x") == [5, 6]


def test_a_prefix_without_a_word_finds_nothing_and_says_so(typed_index: hr.Index) -> None:
    for text in ("", "--"):
        hits = typed_index.recall(text=[hr.Prefix(text)])
        assert hits[0].keys == []
        assert hits.trace.notes == ("text[0] has no indexable token",)
        assert not hits.degraded


def test_deep_nesting_is_refused_not_overflown(typed_index: hr.Index) -> None:
    query: Any = "blue"
    for depth in range(1, 5000):
        query = hr.Any(query) if depth % 2 else hr.Boost(query, 1)
        if depth == 32:
            assert typed_found(typed_index, query) == [0, 1, 2]
        if depth in (33, 400, 4999):
            with pytest.raises(hr.OptionError) as caught:
                typed_index.recall(text=["blue", query])
            assert str(caught.value) == "text[1]: expected queries nested at most 32 deep, got more"


def test_queries_are_frozen_and_equal_by_value() -> None:
    same = [lambda: hr.Phrase("a b", slop=1), lambda: hr.Prefix("a"), lambda: hr.Boost("a", 2)]
    same += [lambda: hr.All("a", hr.Any("b")), lambda: hr.Any("a")]
    for make in same:
        assert make() == make()
        assert hash(make()) == hash(make())
        assert eval(repr(make()), {"__builtins__": {}}, vars(hr)) == make()
    assert hr.All("a") != hr.Any("a")


IDENTIFIERS = ["getUserById x", "get rest", "C++ foo", "snake_case get get"]


@pytest.fixture(scope="module")
def identifiers() -> hr.Index:
    table = pa.table({"id": range(len(IDENTIFIERS)), "text": IDENTIFIERS})
    return hr.Index.build(table, hr.Schema(key="id", cell=None, text="text"))


@pytest.mark.parametrize("text", ["getUserById rest", "C++ foo", "snake_case more", "get rest"])
def test_only_the_last_word_of_a_prefix_may_be_unfinished(identifiers: hr.Index, text: str) -> None:
    first, last = (IDENTIFIERS.index(one) for one in ("get rest", "C++ foo"))
    wanted = {"get rest": [first], "C++ foo": [last]}.get(text, [])
    for typed in (text, text[:-1]):
        assert identifiers.recall_one(text=hr.Prefix(typed)).keys == wanted
    assert len(identifiers.recall_one(text=hr.Prefix(text.split(maxsplit=1)[0]))) >= 1


def test_an_identifier_and_its_first_part_are_one_occurrence_of_a_prefix(
    identifiers: hr.Index,
) -> None:
    hits = identifiers.recall_one(text=hr.Prefix("get"))
    freqs = {hit.key: hit.explain().components[0].terms[0].term_freq for hit in hits}
    assert freqs == {0: 1, 1: 1, 3: 2}
