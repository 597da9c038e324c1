"""Highlights: the words that the definition marks, whatever else an index holds."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hyrecall as hr
from hyrecall.distributed import ShardedIndex
from hyrecall.recipe import Lexical
from laws.effort import Effort
from oracle import marks, words

Spans = list[tuple[int, int]]
Asked = tuple[words.Query, Any]  # by the oracle, and by a caller
SCHEMA = hr.Schema(key="id", cell="user", text="text")
VOCABULARY = ("ash", "ashes", "elm", "elms", "oak")


def table_of(texts: list[str], user: str, first: int = 0) -> pa.Table:
    rows = range(first, first + len(texts))
    return pa.table({"id": rows, "user": [user] * len(texts), "text": texts})


def index_of(*tables: pa.Table) -> hr.Index:
    return hr.Index.build(pa.concat_tables(tables), SCHEMA, analyzer=hr.Analyzer("word"))


sentences = st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=3).map(" ".join)
leaf = st.one_of(
    sentences.map(lambda text: (words.Words(text), text)),
    st.builds(
        lambda text, slop: (words.Phrase(text, slop), hr.Phrase(text, slop)),
        sentences, st.integers(0, 3),
    ),
    st.builds(
        lambda text, cut: (words.Prefix(text[:cut]), hr.Prefix(text[:cut])),
        sentences, st.integers(1, 9),
    ),
    st.builds(
        lambda text, edits: (words.Fuzzy(text, edits), hr.Fuzzy(text, edits)),
        sentences, st.integers(1, 2),
    ),
)  # fmt: skip


def grouped(parts: list[Asked]) -> Asked:
    mine, theirs = zip(*parts, strict=True)
    return words.Any(mine), hr.Any(*theirs)


queries = st.recursive(
    leaf,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(grouped),
        inner.map(lambda one: (words.Boost(one[0], 2.0), hr.Boost(one[1], 2.0))),
    ),
    max_leaves=4,
)
texts = st.lists(
    st.tuples(st.sampled_from(VOCABULARY), st.sampled_from([" ", ", ", "\n"])),
    min_size=1, max_size=12,
).map(lambda parts: "".join(f"{word}{between}" for word, between in parts))  # fmt: skip


def check_words(of: Callable[[str, Any], Spans], text: str, query: Asked) -> None:
    mine, theirs = query
    assert of(text, theirs) == marks.merged(marks.found(text, mine))


def highlights(text: str, query: Any) -> Spans:
    found = index_of(table_of([text], "ann")).recall_one(text=query, scope="ann")
    return found[0].highlights() if len(found) else []


def of_each_word(text: str, query: Any) -> Spans:
    """A planted bug: a phrase is marked word by word, wherever they stand."""
    every = query.text if isinstance(query, hr.Phrase) else query
    return highlights(text, every)


def test_marked_are_the_words_that_the_oracle_finds(effort: Effort) -> None:
    @settings(max_examples=effort.cases(quick=150, full=2000))
    @given(texts, queries)
    def check(text: str, query: Asked) -> None:
        check_words(highlights, text, query)

    check()


def test_a_phrase_that_is_marked_word_by_word_is_noticed() -> None:
    phrase = words.Phrase("ash oak"), hr.Phrase("ash oak")
    check_words(highlights, "ash elm ash oak", phrase)
    with pytest.raises(AssertionError):
        check_words(of_each_word, "ash elm ash oak", phrase)


def check_alone(
    of: Callable[[hr.QueryHits, int], Spans], seen: list[str], others: list[str], query: str
) -> None:
    """Hits have the same marks in any batch, among any documents, and over shards."""
    tables = table_of(seen, "ann"), table_of(others, "bob", 100)
    index = index_of(*tables)
    index.add(table_of(others, "ann", 200))
    shards = ShardedIndex.build([*tables], SCHEMA, analyzer=hr.Analyzer("word"))
    batch: Any = {"text": ["oak", query], "scope": ["bob", "ann"]}
    for hits in (index.recall(**batch)[1], shards.recall(**batch)[1]):
        for at, hit in enumerate(hits):
            assert of(hits, at) == highlights(hit.text, query)


def of_hit(hits: hr.QueryHits, at: int) -> Spans:
    return hits[at].highlights()


def of_best_hit(hits: hr.QueryHits, at: int) -> Spans:
    """A planted bug: the places are those in another hit's text."""
    return hits[0].highlights() if at else hits[at].highlights()


def test_marks_depend_on_the_text_and_the_query_alone(effort: Effort) -> None:
    @settings(max_examples=effort.cases(quick=15, full=200))
    @given(
        st.lists(texts, min_size=1, max_size=4), st.lists(texts, min_size=1, max_size=3), sentences
    )
    def check(seen: list[str], others: list[str], query: str) -> None:
        check_alone(of_hit, seen, others, query)

    check()


def test_terms_that_other_documents_added_are_not_marked() -> None:
    index = index_of(table_of(["ash elm", "elm oak"], "ann"))
    recipe = hr.Recipe(
        name="again", arms=(Lexical(),), fusion=hr.RRF(), shaping=(hr.Feedback(3, 0.4, 6, 0.2),)
    )
    hits = index.recall_one(text="ash", scope="ann", recipe=recipe)
    assert hits.keys == [0, 1]  # the second by what the first has added
    assert [hit.highlights() for hit in hits] == [[(0, 3)], []]


def test_marks_of_another_text_are_noticed() -> None:
    world = ["ash elm", "elm oak ash"], ["ash"], "ash"
    check_alone(of_hit, *world)
    with pytest.raises(AssertionError):
        check_alone(of_best_hit, *world)
