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

    return np.flatnonzero(matched(query, held) & np.ones(len(DOCS), bool)).tolist()


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


def test_every_word_under_all_is_a_part_and_no_word_asks_for_nothing() -> None:
    assert found(All((Words("ash bay"),))) == [0, 1]
    assert found(All((Words("ash"), Words("")))) == [0, 1, 2]
    assert found(All((Words(""), Any((Words("--"),))))) == []
    assert found(All((Boost(Words("bay grove"), 2.0),))) == [0]


def test_phrases_overlap() -> None:
    field = ("a", "a", "a", "b", "x", "c")
    assert phrase_occurrences(field, ("a", "a"), 0) == 2
    assert phrase_occurrences(field, ("a", "b"), 0) == 1
    assert phrase_occurrences(field, ("b", "c"), 0) == 0


def test_slop_is_how_far_displacements_may_lie_apart() -> None:
    field = ("a", "a", "a", "b", "x", "c")
    assert phrase_occurrences(field, ("b", "c"), 1) == 1
    # From the third a: b in its place, c one position late; from the second: one and two late.
    assert [phrase_occurrences(field, ("a", "b", "c"), slop) for slop in range(4)] == [0, 1, 2, 3]
    assert [phrase_occurrences(("b", "a"), ("a", "b"), slop) for slop in range(3)] == [0, 0, 1]


def test_leaves_are_summed_in_the_order_of_their_utf8_bytes() -> None:
    query = Any((Prefix("gr"), Phrase("gr ash"), Words("gr zen éclair ash")))
    order = sorted({leaf for leaf, _, _ in leaves(query)}, key=Leaf.order)
    assert [(leaf.kind, *leaf.words) for leaf in order] == [
        ("term", "ash"),
        ("term", "gr"),
        ("prefix", "gr"),
        ("phrase", "gr", "ash"),
        ("term", "zen"),
        ("term", "éclair"),
    ]
