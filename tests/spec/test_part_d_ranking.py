"""Acceptance rows D: how notes are ranked, by the recipe ``l0``."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise, permutations

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall.recipes import l0

NOW = datetime(2026, 6, 1, tzinfo=UTC)
DIM = 4
QUERY = [1.0, 0.0, 0.0, 0.0]


@dataclass(frozen=True)
class Note:
    key: str
    value: str
    vector: Sequence[float] | None = None
    tags: tuple[str, ...] = ()
    pinned: bool = False
    days_old: float = 0.0


def build(notes: Sequence[Note]) -> hr.Index:
    times = [NOW - timedelta(days=note.days_old) for note in notes]
    table = pa.table(
        {
            "id": [note.key for note in notes],
            "output": [note.value for note in notes],
            "tags": [" ".join(note.tags) for note in notes],
            "pinned": [note.pinned for note in notes],
            "updated_at": pa.array(times, pa.timestamp("us", "UTC")),
        }
    )
    schema = hr.Schema(
        key="id", cell=None, text={"text": hr.Text("id", "output", "tags")}, vector="vector",
        attributes=("pinned", "updated_at"),
    )  # fmt: skip
    rows = [[0.0] * DIM if note.vector is None else note.vector for note in notes]
    vectors = {"vector": np.array(rows, np.float32)}
    return hr.Index.build(table, schema, vectors=vectors, analyzer=hr.Analyzer("unicode61"))


def search(notes: Sequence[Note], text: str, vector: Sequence[float] | None = None,
           limit: int = 10) -> hr.QueryHits:  # fmt: skip
    return build(notes).recall_one(text=text, vector=vector, recipe=l0, limit=limit)


def cosine_of(value: float) -> list[float]:
    """A unit vector of that cosine with the query."""
    return [value, (1 - value * value) ** 0.5, 0.0, 0.0]


CLUSTER = (
    Note("deploy", "restart Kubernetes after the update"),
    Note("kubernetes-notes", "see the wiki"),
    Note("tagged", "nothing here", tags=("kubernetes",)),
    Note("other", "restart the router"),
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kube", {"deploy", "kubernetes-notes", "tagged"}),
        ("KUBERNETES", {"deploy", "kubernetes-notes", "tagged"}),
        ("restart kube", {"deploy"}),
        ("restart", {"deploy", "other"}),
        ("ubernetes", set()),
        ("wiki kube", {"kubernetes-notes"}),
    ],
)
def test_D02_words_are_prefixes_that_all_must_occur_in_key_value_or_tags(
    text: str, expected: set[str]
) -> None:
    assert set(search(CLUSTER, text).keys) == expected


def test_D06_reciprocal_ranks_of_words_and_vectors_are_summed() -> None:
    notes = [
        Note("both", "disk full", cosine_of(0.5)),
        Note("words", "disk disk disk"),
        Note("near", "volume", cosine_of(0.9)),
        Note("neither", "coffee"),
    ]
    hits = search(notes, "disk", QUERY)
    # By words: words, both. By vectors: near, both.
    expected = {"both": 1 / 62 + 1 / 62, "words": 1 / 61, "near": 1 / 61}
    assert {hit.key: pytest.approx(hit.score, rel=1e-12) for hit in hits} == expected
    assert hits.keys[0] == "both"
    assert "neither" not in hits.keys
    assert search(notes, "disk", QUERY, limit=2).keys == hits.keys[:2]


def test_D07_a_vector_finds_what_shares_no_word() -> None:
    notes = [
        Note("english", "ideas to improve the memory", cosine_of(0.8)),
        Note("far", "the bus leaves at nine", cosine_of(0.1)),
    ]
    query = "idee per migliorare la memoria"
    assert search(notes, query, QUERY).keys[0] == "english"
    assert search(notes, query).keys == []


def test_D08_the_exact_token_stays_first_where_the_vectors_like_another() -> None:
    notes = [
        Note("exact", "see INV-2026-0042", cosine_of(0.6)),
        Note("similar", "an invoice", cosine_of(0.9)),
        Note("far", "coffee", cosine_of(0.1)),
    ]
    hits = search(notes, "INV-2026-0042", QUERY)
    assert hits.keys[0] == "exact"
    assert max(hits, key=lambda hit: hit.vector_score or 0.0).key == "similar"


AGES = {"pin": 9.0, "new": 0.0, "b": 5.0, "a": 5.0}  # in the order that ties fall


@pytest.mark.parametrize(("one", "other"), list(permutations(AGES, 2)))
def test_D09_equal_sums_go_by_pin_then_time_then_id(one: str, other: str) -> None:
    pair = [
        Note(key, text, cosine_of(cosine), pinned=key == "pin", days_old=AGES[key])
        for key, text, cosine in ((one, "tea tea", 0.5), (other, "tea", 0.6))
    ]  # words put the first first, vectors the second: 1/61 + 1/62 for both
    hits = search(pair, "tea", QUERY)
    assert [hit.score for hit in hits] == [1 / 61 + 1 / 62] * 2
    assert hits.keys == sorted((one, other), key=list(AGES).index)


@pytest.mark.parametrize("order", list(permutations("abc")))
@pytest.mark.parametrize("vector", [None, QUERY])
def test_D09_a_pin_leads_equal_notes_in_any_order_of_writing(
    order: tuple[str, ...], vector: list[float] | None
) -> None:
    for pinned in "abc":
        notes = [Note(key, "tea", cosine_of(0.5), pinned=key == pinned) for key in order]
        hits = search(notes, "tea", vector)
        assert len({hit.score for hit in hits}) == 1
        assert hits.keys == [pinned, *sorted({"a", "b", "c"} - {pinned}, reverse=True)]


@pytest.mark.parametrize("n_nearer", [1, 200, 1000])
def test_D08_rows_with_every_word_come_before_any_number_of_nearer_ones(n_nearer: int) -> None:
    cosines = np.linspace(0.5, 0.99, n_nearer)
    notes = [Note(f"n{at}", "an outing", cosine_of(one)) for at, one in enumerate(cosines)]
    notes[n_nearer // 2 : 0] = [
        Note("exact", "deploy on friday", cosine_of(0.1)),
        Note("apart", "friday is when we deploy the long list of services", cosine_of(0.05)),
        Note("prefix", "deployment fridays", cosine_of(0.2)),
        Note("half", "deploy", cosine_of(0.3)),
    ]
    hits = search(notes, "deploy friday", QUERY, limit=100)
    assert hits.keys[:2] == ["exact", "apart"]
    assert [hit.is_exact for hit in hits[:3]] == [True, True, False]
    assert hits[0].explain().holds == {"text": "deploy friday"}
    inexact = build(notes).recall_one(
        text="deploy friday", vector=QUERY, recipe=l0.replace(exact=True), limit=100
    )
    assert not any(hit.is_exact for hit in inexact)
    assert n_nearer < 150 or inexact.keys[0] != "exact"  # control: it is too far for their list


@pytest.mark.parametrize("seed", range(30))
def test_D09_pinning_never_swaps_different_scores(seed: int) -> None:
    rng = np.random.default_rng(seed)
    words = ("tea", "cup", "pot", "milk")
    plain = [
        Note(f"n{at}", " ".join(rng.choice(words, 5)), rng.standard_normal(DIM).tolist())
        for at in range(20)
    ]
    pinned = [
        Note(note.key, note.value, note.vector, pinned=bool(rng.random() < 0.5)) for note in plain
    ]
    before, after = (search(notes, "tea cup", QUERY, limit=50) for notes in (plain, pinned))
    assert {hit.key: hit.score for hit in before} == {hit.key: hit.score for hit in after}
    assert [hit.score for hit in before] == [hit.score for hit in after]
    is_pinned = {note.key: note.pinned for note in pinned}
    for upper, lower in pairwise(after):
        if upper.score == lower.score:
            assert is_pinned[upper.key] >= is_pinned[lower.key]
