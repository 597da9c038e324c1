"""Rows of part B about words: BM25, tokenizers, query modes, changes one by one."""

import re
import sqlite3
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from oracle.references import Fts5, textbook
from oracle.words import Words
from seams import Lexical, Recipe
from spec.episodes import WORDS
from text.conftest import TABLE

HARD = (
    "Hello, World!", "don't", "it's John's", "INV-2026-0042", "snake_case_name", "__init__",
    "C++", "user@example.com", "3.14159", "1,000,000", "café", "CAFÉ", "cafe\u0301", "Straße",
    "STRASSE", "İstanbul", "ΟΔΥΣΣΕΥΣ", "Привет, мир", "中国人民", "東京タワー2026",
    "한국어 검색 엔진", "हिन्दी भाषा", "العربية", "😀", "a😀b", "👨\u200d👩\u200d👧 ok",
    "x²+y³", "a\u0301\u0302\u0303", "state-of-the-art", "",
)  # fmt: skip


def terms(name: str, text: str) -> list[str]:
    return [token.term for token in hr.Analyzer(name).explain(text)]


def corpora(n: int, seed: int) -> tuple[hr.Index, list[list[str]], list[str]]:
    """Random corpora, a cell each, and a query to each."""
    rng = np.random.default_rng(seed)
    texts = [
        [" ".join(rng.choice(WORDS, rng.integers(1, 20))) for _ in range(rng.integers(1, 30))]
        for _ in range(n)
    ]
    owner = np.repeat(np.arange(n), [len(one) for one in texts])
    table = pa.table(
        {"id": np.arange(len(owner)), "corpus": owner, "text": [t for one in texts for t in one]}
    )
    schema = hr.Schema(key="id", cell="corpus", text="text")
    index = hr.Index.build(table, schema, analyzer=hr.Analyzer("word"))
    return index, texts, [" ".join(rng.choice(WORDS, rng.integers(1, 5))) for _ in texts]


def scores_by_corpus(
    index: hr.Index, texts: Sequence[Sequence[str]], queries: Sequence[str], bm25: hr.BM25
) -> list[list[float]]:
    """Every document's score, 0 where it was not found."""
    scope = [(at,) for at in range(len(texts))]
    hits = index.recall(text=queries, scope=scope, bm25=bm25, limit=30)
    starts = np.cumsum([0, *(len(one) for one in texts)])
    out = [[0.0] * len(one) for one in texts]
    for query, one in enumerate(hits):
        for hit in one:
            out[query][hit.key - starts[query]] = hit.score
    return out


def test_B01_bm25_okapi_equals_a_reference() -> None:
    """1,000 random corpora, relative 1e-6."""
    index, texts, queries = corpora(1000, seed=1)
    found = scores_by_corpus(index, texts, queries, hr.BM25("okapi"))
    for one, query, got in zip(texts, queries, found, strict=True):
        assert got == pytest.approx(textbook("okapi", one, query, 1.5, 0.75), rel=1e-6)


def test_B02_bm25_of_fts5_equals_sqlite() -> None:
    index, texts, queries = corpora(200, seed=2)
    found = scores_by_corpus(index, texts, queries, hr.BM25("fts5"))
    n_floored = 0
    for one, query, got in zip(texts, queries, found, strict=True):
        table = Fts5(one)
        assert got == pytest.approx(table.scores(Words(query)), rel=1e-6)
        table.close()
        n_floored += any(0 < score < 1e-5 for score in got)
    assert n_floored > 10  # words that more than half of the documents have


def test_B03_the_word_tokenizer_equals_python() -> None:
    assert len(HARD) == 30
    for text in HARD:
        composed = unicodedata.normalize("NFC", text.lower())  # so that all spellings are one
        assert terms("word", text) == re.findall(r"\w+", composed), text


def fts5_terms(tokenizer: str, texts: Sequence[str]) -> list[list[str]]:
    database = sqlite3.connect(":memory:")
    database.execute(f"create virtual table t using fts5(a, tokenize='{tokenizer}')")
    database.execute("create virtual table v using fts5vocab(t, instance)")
    database.executemany("insert into t(rowid, a) values (?, ?)", list(enumerate(texts)))
    found: list[list[str]] = [[] for _ in texts]
    for doc, term in database.execute("select doc, term from v order by doc, offset"):
        found[doc].append(term)
    database.close()
    return found


@pytest.mark.parametrize(
    ("row", "name", "theirs"),
    [
        ("B04", "unicode61", "unicode61 remove_diacritics 2"),
        ("B05", "porter", "porter unicode61"),
    ],
)
def test_B04_B05_tokens_equal_those_of_fts5(row: str, name: str, theirs: str) -> None:
    assert len(TABLE) >= 200
    composed = [unicodedata.normalize("NFC", text) for text in TABLE]
    for text, expected in zip(TABLE, fts5_terms(theirs, composed), strict=True):
        assert terms(name, text) == expected, (row, ascii(text))


def small(texts: Sequence[str], analyzer: str, **options: Any) -> hr.Index:
    table = pa.table({"id": np.arange(len(texts)), "text": list(texts)})
    schema = hr.Schema(key="id", cell=None, text="text")
    return hr.Index.build(table, schema, analyzer=hr.Analyzer(analyzer), **options)


def test_B04_cafe_finds_cafe_with_an_accent() -> None:
    index = small(["a café", "a cave", "CAFE\u0301"], "unicode61")
    assert sorted(index.recall_one(text="cafe").keys) == [0, 2]
    assert sorted(index.recall_one(text="café").keys) == [0, 2]


def test_B05_a_query_of_stop_words_alone_keeps_them() -> None:
    index = small(["to be or not", "the running man", "he runs"], "porter")
    part = Lexical(stopwords=("the", "to", "be", "or", "not"))
    recipe = Recipe(name="stops", arms=(part,), fusion=hr.RRF())

    def found(text: str) -> list[int]:
        return sorted(index.recall_one(text=text, recipe=recipe).keys)

    assert found("the run") == [1, 2]
    assert found("to be run") == [1, 2]
    assert found("to be") == [0]
    assert found("The") == [1]


NOTES = ("kubernetes cluster", "kube proxy", "Kafka cluster", "c++ code", "code review of C")
# Query, what any of its words finds, what all of them as beginnings find.
MODES = [
    ("kube", {1}, {0, 1}),
    ("kubernetes", {0}, {0}),
    ("KUBE", {1}, {0, 1}),
    ("cluster", {0, 2}, {0, 2}),
    ("kube cluster", {0, 1, 2}, {0}),
    ("cluster kube", {0, 1, 2}, {0}),
    ("kube proxy", {1}, {1}),
    ("kube kafka", {1, 2}, set()),
    ("k", set(), {0, 1, 2}),
    ("clu", set(), {0, 2}),
    ("clu ka", set(), {2}),
    ("code", {3, 4}, {3, 4}),
    ("co", set(), {3, 4}),
    ("c++", {3, 4}, {3, 4}),
    ("c++ code", {3, 4}, {3, 4}),
    ("code review", {3, 4}, {4}),
    ("code-review", {3, 4}, {4}),
    ("review-code", {3, 4}, set()),
    ("zebra", set(), set()),
    ("zebra code", {3, 4}, set()),
]


@pytest.mark.parametrize(("text", "by_any", "by_all"), MODES, ids=[text for text, *_ in MODES])
def test_B06_query_modes(text: str, by_any: set[int], by_all: set[int]) -> None:
    index = small(NOTES, "unicode61")
    for mode, expected in (("any", by_any), ("and_prefix", by_all)):
        recipe = Recipe(name="m", arms=(Lexical(mode=mode),), fusion=hr.RRF())  # type: ignore[arg-type]
        assert set(index.recall_one(text=text, recipe=recipe).keys) == expected, mode


def test_B06_the_truth_table_has_twenty_queries() -> None:
    assert len({text for text, *_ in MODES}) == 20


def test_B07_a_repeated_query_term_counts_again() -> None:
    index = small(["postgres replication", "postgres", "milk"], "word")
    okapi = hr.BM25("okapi")
    once, twice = (
        {hit.key: hit.score for hit in index.recall_one(text=text, bm25=okapi)}
        for text in ("postgres", "postgres postgres")
    )
    assert twice == {key: 2 * score for key, score in once.items()}
    mixed = {h.key: h.score for h in index.recall_one(text="postgres x postgres", bm25=okapi)}
    assert mixed == twice


class Counting:
    """A tokenizer that counts the texts it was given."""

    def __init__(self) -> None:
        self.texts = 0

    def __call__(self, text: str) -> list[str]:
        """Return the words."""
        self.texts += 1
        return text.split()


def rows(live: Sequence[tuple[str, str, str]]) -> pa.Table:
    names = ("id", "user", "text")
    columns = zip(*live, strict=True) if live else ((), (), ())
    return pa.table(
        {name: pa.array(list(c), pa.string()) for name, c in zip(names, columns, strict=True)}
    )


def test_B08_changes_one_by_one_equal_a_rebuild() -> None:
    """1,000 random changes; the scores are those of a fresh build, to the last bit."""
    rng = np.random.default_rng(8)
    counting = Counting()
    analyzer = hr.Analyzer.from_callable(counting, name="counting", version="1")
    schema = hr.Schema(key="id", cell="user", text="text")
    index = hr.Index.build(rows([]), schema, analyzer=analyzer)
    live: dict[tuple[str, str], str] = {}  # in the order of insertion
    users = ("ann", "bob", "cyd")
    changes: dict[str, Callable[[], None]] = {}

    def draw() -> tuple[str, str, str]:
        return f"k{rng.integers(60)}", str(rng.choice(users)), " ".join(rng.choice(WORDS, 5))

    def write() -> None:
        key, user, text = draw()
        if (user, key) in live:
            index.upsert(rows([(key, user, text)]))
            del live[user, key]
        else:
            index.add(rows([(key, user, text)]))
        live[user, key] = text

    def delete() -> None:
        key, user, _ = draw()
        assert index.delete([key], scope=user) == ((user, key) in live)
        live.pop((user, key), None)

    def forget() -> None:
        user = str(rng.choice(users))
        keys = [key for owner, key in live if owner == user]
        assert index.delete(keys, scope=user) == len(keys)
        for key in keys:
            del live[user, key]

    changes = {"write": write, "delete": delete, "forget": forget, "compact": index.compact}
    kinds = rng.choice(list(changes), 1000, p=[0.7, 0.27, 0.02, 0.01])
    queries = [" ".join(rng.choice(WORDS, 3)) for _ in range(12)]
    scope = [users[at % 3] for at in range(12)]
    for at, kind in enumerate(kinds):
        changes[str(kind)]()
        if at % 50 != 49:
            continue
        fresh = hr.Index.build(
            rows([(key, user, text) for (user, key), text in live.items()]), schema,
            analyzer=hr.Analyzer.from_callable(str.split, name="counting", version="1"),
        )  # fmt: skip
        counting.texts = 0
        found = index.recall(text=queries, scope=scope, limit=60).to_arrow()
        assert counting.texts <= len(queries)  # no row was read again
        assert found.equals(fresh.recall(text=queries, scope=scope, limit=60).to_arrow())
    assert found.num_rows > 50
