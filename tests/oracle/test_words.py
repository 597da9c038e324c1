"""Typed text queries by hand: what matches and how often."""

import numpy as np

from oracle.words import (
    All,
    Any,
    Boost,
    Leaf,
    Phrase,
    Prefix,
    Query,
    Words,
    leaves,
    matched,
    phrase_occurrences,
)

DOCS = ("ash bay grove", "bay ash", "grow growth ash ash", "", "fog")


def found(query: Query) -> list[int]:
    texts = [(tuple(doc.split()),) for doc in DOCS]

    def held(leaf: Leaf) -> np.ndarray:
        return np.array([leaf.occurrences(text) > 0 for text in texts])

    return np.flatnonzero(matched(query, held, np.zeros(len(DOCS), bool))).tolist()


def test_a_bag_of_words_matches_any_of_them() -> None:
    assert found(Words("bay fog")) == [0, 1, 4]
    assert found(Words("")) == found(Words("--")) == []


def test_phrases_are_adjacent_and_in_order() -> None:
    assert found(Phrase("ash bay")) == [0]
    assert found(Phrase("ash")) == [0, 1, 2]
    assert found(Phrase("")) == []


def test_prefixes_match_any_word_that_begins_so() -> None:
    assert found(Prefix("gro")) == [0, 2]
    assert found(Prefix("x")) == []


def test_trees_match_by_their_logic() -> None:
    assert found(All((Words("ash"), Words("bay")))) == [0, 1]
    assert found(All((Words("ash"), Any((Phrase("bay ash"), Prefix("growt")))))) == [1, 2]
    assert found(Any((Words("fog"), Boost(Words("grove"), 2.0)))) == [0, 4]
    assert found(All((Words("ash"), Words("absent")))) == []


def test_leaves_carry_counts_and_boosts() -> None:
    query = Any((Words("ash ash bay"), Boost(Boost(Phrase("ash bay"), 2.0), 3.0)))
    assert list(leaves(query)) == [
        (Leaf("term", ("ash",)), 1.0, 2),
        (Leaf("term", ("bay",)), 1.0, 1),
        (Leaf("phrase", ("ash", "bay")), 6.0, 1),
    ]


def test_occurrences_do_not_cross_fields() -> None:
    text = ("ash", "bay"), ("bay", "ash", "ash")
    assert Leaf("term", ("ash",)).occurrences(text) == 3
    assert Leaf("phrase", ("bay", "bay")).occurrences(text) == 0
    assert Leaf("phrase", ("bay", "ash")).occurrences(text) == 1
    assert Leaf("prefix", ("a",)).occurrences(text) == 3


def test_phrases_overlap_and_slop_allows_gaps_in_order() -> None:
    field = ("a", "a", "a", "b", "x", "c")
    assert phrase_occurrences(field, ("a", "a"), 0) == 2
    assert phrase_occurrences(field, ("b", "c"), 0) == 0
    assert phrase_occurrences(field, ("b", "c"), 1) == 1
    assert phrase_occurrences(field, ("c", "b"), 5) == 0
    # From the third a with one position between, from the second with two.
    assert phrase_occurrences(field, ("a", "b", "c"), 2) == 2
