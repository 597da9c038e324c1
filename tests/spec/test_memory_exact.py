"""Rows A40, B12, D08 and D09 through a store: what comes first, and what breaks ties.

The row with the identifier has 200 others beside it with similar identifiers: 150 of them hold each
word of the query as well, apart; the identifiers of 50 begin with the query. The vectors of all of
them are nearer to the query's, and the nearest of them is pinned.
"""

import itertools
import random
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hyrecall import Dedup, recipes
from hyrecall.memory import MemorySync
from hyrecall.systems.l0 import Notes
from memory.stores import HOUR, NOON, Clock, FixedEmbedder, episode, open_store
from seams import Recipe

QUERY = "INV-2026-0042"
TARGET = "INV-2026-0042 of customer 7300"
SIMILAR = [
    f"INV-2026-{number} of customer 0042"
    for number in (*(f"{at:04}" for at in range(100, 250)), *(f"{at:05}" for at in range(420, 470)))
]
TEXTS = [*SIMILAR[:80], TARGET, *SIMILAR[80:]]
AT = TEXTS.index(TARGET)
# The target's vector is at a right angle to the query's.
VECTORS = (
    {QUERY: [1.0, 0.0], TARGET: [0.0, 1.0]}
    | {text: [1.0, 0.001 * at] for at, text in enumerate(SIMILAR)}
)  # fmt: skip


@contextmanager
def invoices(recipe: Recipe, analyzer: str | None = None) -> Iterator[MemorySync]:
    """A store in which the target is row e80."""
    by = FixedEmbedder(VECTORS)
    with open_store(recipe=recipe, analyzer=analyzer, embedder=by) as memory:
        memory.remember_batch([episode(at, text) for at, text in enumerate(TEXTS)])
        memory.pin("e0", user_id="alice")
        yield memory


def check_target_leads(recipe: Recipe, analyzer: str | None = None) -> None:
    with invoices(recipe, analyzer) as memory:
        found = memory.search(QUERY, user_id="alice", limit=10)
        assert not found.degraded
        assert found[0].episode.id == f"e{AT}"
        assert found[0].vector_score == 0.0
        assert all((one.vector_score or 0.0) > 0.9 for one in found[1:])
        assert found.trace is not None
        assert found.trace.exact == {0: 1}
        assert [one.is_exact for one in found] == [True] + [False] * 9
        # Control: without ``exact`` it is not first.
        inexact = recipe.replace(exact=False)
        plain = memory.search(QUERY, user_id="alice", limit=10, recipe=inexact)
        assert plain.trace is not None
        assert plain.trace.exact == {}
        assert plain[0].episode.id == ("e1" if recipe is recipes.loom else "e0")  # as near: newer
        assert not any(one.is_exact for one in plain)


def test_A40_the_default_recipe_puts_the_identifier_first() -> None:
    check_target_leads(recipes.default, "word")


def test_A40_the_default_analyzer_keeps_the_identifier_whole_so_that_it_leads_by_words_too() -> (
    None
):
    inexact = recipes.default.replace(exact=False)
    with invoices(recipes.default) as memory:
        for recipe in (recipes.default, inexact):
            found = memory.search(QUERY, user_id="alice", limit=10, recipe=recipe)
            assert found[0].episode.id == f"e{AT}"


@pytest.mark.parametrize("recipe", [recipes.l0, recipes.loom], ids=lambda one: one.name)
def test_A40_D08_l0_and_loom_put_the_identifier_first(recipe: Recipe) -> None:
    check_target_leads(recipe)


EXACT = [recipes.default, recipes.l0, recipes.loom, recipes.honeycomb]


@pytest.mark.parametrize("recipe", EXACT, ids=lambda one: one.name)
def test_A40_D08_a_quoted_string_is_first_and_plain_words_are_exact_in_l0_alone(
    recipe: Recipe,
) -> None:
    with invoices(recipe) as memory:
        found = memory.search(f'"{QUERY}"', user_id="alice", limit=10)
        assert found.trace is not None
        assert found.trace.exact == {0: 1}
        assert found[0].episode.id == f"e{AT}"
        found = memory.search("2026 INV 0042", user_id="alice", limit=10)
        assert found.trace is not None
        assert (found.trace.exact != {}) is (recipe is recipes.l0)
        assert {one.is_exact for one in found} == {recipe is recipes.l0}


def test_A40_no_row_of_another_user_is_exact() -> None:
    with invoices(recipes.default) as memory:
        memory.remember("INV-2026-0042 of another", user_id="bob", id="other")
        found = memory.search(QUERY, user_id="alice", limit=10)
        assert found.trace is not None
        assert found.trace.exact == {0: 1}
        assert [one.episode.id for one in memory.search(QUERY, user_id="bob")] == ["other"]


NEARER = [f"an outing on day {at}" for at in range(200)]


def test_D08_notes_with_every_word_come_before_200_nearer_ones() -> None:
    vectors = {"deploy friday": [1.0, 0.0], "we deploy on friday": [0.0, 1.0]}
    vectors |= {text: [1.0, 0.001 * at] for at, text in enumerate(NEARER)}
    with open_store(recipe=recipes.l0, embedder=FixedEmbedder(vectors)) as memory:
        notes = Notes(memory)
        for at, text in enumerate(NEARER):
            notes.save(f"n{at}", text)
            if at == 100:
                notes.save("exact", "we deploy on friday")
        memory.pin("n0", user_id="user")
        hits = notes.search("deploy friday")
        assert hits[0].key == "exact"
        assert len(hits) == 10  # the others are found by their vectors
        rows = memory.search("deploy friday", user_id="user", kind="note", limit=3)
        assert [row.is_exact for row in rows] == [True, False, False]


def equal_memories(recipe: Recipe, *orders: str, has_vectors: bool) -> MemorySync:
    """A store in which each user, named by an order, has memories that differ in their id alone,
    written in this order at one time.
    """
    embedder = FixedEmbedder({"hot tea": [1.0, 0.0], "tea": [0.8, 0.6]}) if has_vectors else None
    memory = open_store(recipe=recipe, embedder=embedder, clock=Clock())
    for order in orders:
        for key in order:
            memory.remember("hot tea", id=key, user_id=order, occurred_at=NOON)
    return memory


# Near-duplicates are one hit, unless the stage is left out.
ALIKE = [
    recipes.loom,
    recipes.l0,
    recipes.hypergraph,
    recipes.hebb,
    recipes.honeycomb.replace(
        shaping=tuple(one for one in recipes.honeycomb.shaping if not isinstance(one, Dedup))
    ),
]


@pytest.mark.parametrize("has_vectors", [False, True])
@pytest.mark.parametrize("recipe", ALIKE, ids=lambda one: one.name)
def test_B12_equal_memories_rank_alike_in_any_order_of_writing(
    recipe: Recipe, *, has_vectors: bool
) -> None:
    found = set()
    orders = ["".join(order) for order in itertools.permutations("abc")]
    with equal_memories(recipe, *orders, has_vectors=has_vectors) as memory:
        for order in orders:
            matches = memory.search("tea", user_id=order)
            assert len({match.score for match in matches}) == 1
            found.add("".join(match.episode.id for match in matches))
            # What changes neither text nor vector of a memory moves it only where a tie is its own.
            memory.pin(order[0], user_id=order)
            again = "".join(one.episode.id for one in memory.search("tea", user_id=order))
            rest = "".join(key for key in again if key != order[0])
            assert again == order[0] + rest if recipe is recipes.l0 else again in found
    assert found == {"cba" if recipe is recipes.l0 else "abc"}


def test_B12_a_tag_on_one_of_equal_facts_leaves_it_in_its_place() -> None:
    with equal_memories(recipes.honeycomb, "abc", has_vectors=False) as memory:
        before = [one.episode.id for one in memory.search("tea", user_id="abc")]
        memory.update("a", user_id="abc", tags=("new",))
        assert [one.episode.id for one in memory.search("tea", user_id="abc")] == before


def test_D09_a_pin_breaks_a_tie_of_reciprocal_ranks_and_lifts_no_lower_score() -> None:
    # Words rank "a" first, vectors "b": both have 1/61 + 1/62. "low" is third in both lists.
    texts = {"a": "tea", "b": "tea with milk", "low": "tea with sugar and honey"}
    cosines = {"a": [0.8, 0.6], "b": [1.0, 0.0], "low": [0.0, 1.0]}
    scopes = {"a": "one", "b": "two", "low": "three"}
    vectors = {"te": [1.0, 0.0]} | {text: cosines[key] for key, text in texts.items()}
    clock = Clock()
    with open_store(recipe=recipes.l0, embedder=FixedEmbedder(vectors), clock=clock) as memory:
        notes = Notes(memory, scopes=tuple(scopes.values()))

        def check(*expected: str) -> None:
            hits = notes.search("te")
            tie = 1 / 61 + 1 / 62
            assert [hit.score for hit in hits] == pytest.approx([tie, tie, 2 / 63], rel=1e-15)
            assert hits[0].score == hits[1].score
            assert [(hit.key, hit.scope) for hit in hits] == [
                (key, scopes[key]) for key in expected
            ]

        for key, text in texts.items():
            notes.save(key, text, scope=scopes[key])
        check("b", "a", "low")  # of one time: the larger key first
        memory.pin("low", user_id="three")
        check("b", "a", "low")  # no tie, so its pin has no effect
        memory.pin("a", user_id="one")
        check("a", "b", "low")
        memory.pin("b", user_id="two")
        check("b", "a", "low")
        clock.now += HOUR
        notes.save("a", texts["a"], scope="one")
        check("a", "b", "low")  # both are pinned: the newer first
        memory.pin("a", user_id="one", pinned=False)
        check("b", "a", "low")


@pytest.mark.parametrize("seed", range(5))
def test_D09_pins_of_several_scopes_order_equal_scores_alone(seed: int) -> None:
    rng, clock = random.Random(seed), Clock()
    scopes, texts = ("one", "two", "three"), ("tea", "tea milk", "tea tea", "tea tea milk")
    with open_store(recipe=recipes.l0, embedder=None, clock=clock) as memory:
        notes = Notes(memory, scopes=scopes)
        kept = {}
        for at, number in enumerate(rng.sample(range(100, 1000), 24)):
            key, scope, hours = f"n{number}", rng.choice(scopes), rng.randrange(3)
            clock.now = NOON + hours * HOUR
            notes.save(key, texts[at % len(texts)], scope=scope)
            kept[key] = scope, hours
        before = {hit.key: hit.score for hit in notes.search("tea", limit=24)}
        assert before.keys() == kept.keys()
        assert len(set(before.values())) == len(texts)
        pinned = set(rng.sample(sorted(kept), 8))
        for key in pinned:
            memory.pin(key, user_id=kept[key][0])
        hits = notes.search("tea", limit=24)
        assert {hit.key: hit.score for hit in hits} == before
        by_id = sorted(kept, reverse=True)
        expected = sorted(by_id, key=lambda key: (-before[key], key not in pinned, -kept[key][1]))
        assert [hit.key for hit in hits] == expected
        # Control: the pinned ones are not simply the first.
        assert set(expected[: len(pinned)]) != pinned
