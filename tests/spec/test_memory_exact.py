"""Rows A to D and H through a store: what comes first, what breaks ties, the same replies."""

import itertools
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import hyrecall as hr
from hyrecall import Dedup, recipes
from hyrecall.embed import HashEmbedder
from hyrecall.memory import MemorySync
from hyrecall.systems.hypergraph import hm_recall
from hyrecall.systems.l0 import Notes
from laws.effort import Effort
from memory.stores import DIM, HOUR, NOON, Clock, FixedEmbedder, episode, open_store
from memory.test_transfer import L0_SCHEMAS, an_l0_file
from seams import Recipe

# ---- what comes first, and what breaks ties ----
# The row with the identifier has 200 others beside it with similar identifiers: 150 of them hold
# each word of the query as well, apart; the identifiers of 50 begin with the query. The vectors of
# all of them are nearer to the query's, and the nearest of them is pinned.

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


# ---- the same reply: votes, processes, reopening, imports ----

WORDS = ("deploy", "cluster", "rack", "oak", "ash", "elm")
FIVE = ("loom", "l0", "honeycomb", "hebb", "hypergraph")


def text_of(at: int) -> str:
    return " ".join(WORDS[(at * step + step) % 6] for step in range(1, at % 4 + 2))


def fill(memory: MemorySync) -> None:
    for at in range(40):
        tags = (WORDS[at % 6], WORDS[(at + 1) % 6])
        memory.remember(episode(at, text_of(at), tags=tags, importance=at % 11))
    for at in range(1, 20):
        nodes = [f"e{at}", f"e{at + 1}", f"e{at + 20}"][: 2 + at % 2]
        memory.link(nodes, WORDS[at % 6], user_id="alice", id=f"edge{at}")


def replies(memory: MemorySync) -> list[Any]:
    """What two queries find, with every part of their scores."""
    found = []
    for query in ("deploy rack", "oak ash deploy"):
        matches = memory.search(query, user_id="alice", limit=30, now=NOON)
        assert len(matches) > 5
        found.append([match.model_dump(mode="json") for match in matches])
        found.append([one.id for one in matches.related])
        found.append([[one.id for one in row] for row in matches.context])
    return found


@pytest.mark.plain_cases(2)
@pytest.mark.parametrize("name", FIVE)
def test_H12_every_match_can_be_explained_and_the_score_is_recomputed(name: str) -> None:
    options: dict[str, Any] = {
        "recipe": getattr(recipes, name), "embedder": HashEmbedder(dim=DIM),
        "recall_timeout": 30.0, "clock": Clock(),
    }  # fmt: skip
    with open_store(**options) as memory:
        fill(memory)
        matches = memory.search("deploy rack", user_id="alice", limit=30, now=NOON)
        for at, match in enumerate(matches):
            told = matches.explain(at)
            assert told.score == match.score
            ranks = {one.arm: one.rank for one in told.components if one.rank is not None}
            assert ranks == match.parts.tiers


CHILD = """
import json
from hyrecall import recipes
from memory.stores import open_store, Clock, DIM
from hyrecall.embed import HashEmbedder
from spec.test_memory_exact import fill, replies
for recipe in (recipes.hebb, recipes.hypergraph):
    embedder = HashEmbedder(dim=DIM)
    with open_store(recipe=recipe, embedder=embedder, recall_timeout=30.0, clock=Clock()) as memory:
        fill(memory)
        print(json.dumps(replies(memory)))
"""


@pytest.mark.slow
def test_C27_F08_replies_are_the_same_whatever_the_seed_of_hashes(effort: Effort) -> None:
    expected = []
    for recipe in (recipes.hebb, recipes.hypergraph):
        embedder = HashEmbedder(dim=DIM)
        with open_store(
            recipe=recipe, embedder=embedder, recall_timeout=30.0, clock=Clock()
        ) as memory:
            fill(memory)
            expected.append(json.dumps(replies(memory)))
    path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    for seed in range(1, effort.cases(quick=2, full=20)):
        made = subprocess.run(
            [sys.executable, "-c", CHILD],
            env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert made.stdout.split("\n")[:2] == expected


@pytest.mark.parametrize("schema", L0_SCHEMAS)
def test_D24_a_database_of_l0_comes_in_once_and_its_rows_are_found(
    tmp_path: Path, schema: str
) -> None:
    file = an_l0_file(tmp_path / "l0.db", schema)
    with open_store(recipe=recipes.l0, embedder=None) as memory:
        first = memory.import_(file, system="l0")
        assert first.imported == (5 if schema == "v0.1" else 6)
        assert memory.import_(file, system="l0").imported == 0
        found = {match.episode.id for match in memory.search("value", user_id="user", limit=20)}
        if schema == "v0.1":
            assert found == {f"key {at}" for at in range(5)}
        else:  # one is archived, one is of another scope
            assert found == {"key 0", "key 1", "key 4"}
            found = {m.episode.id for m in memory.search("value", user_id="project", limit=20)}
            assert found == {"key 3"}


@pytest.mark.parametrize(
    ("alpha", "n_words", "n_vectors"), [(0.5, 1, 1), (0.75, 1, 3), (0.9, 1, 4), (0.25, 3, 1)]
)
def test_A16_votes_count_the_favoured_list_again(
    alpha: float, n_words: int, n_vectors: int
) -> None:
    embedder = FixedEmbedder({"oak": [1.0, 0.0], "oak ash": [0.9, 0.1], "oak ash elm": [0.8, 0.6]})
    votes = recipes.loom.replace(fusion=hr.RRF(alpha=alpha, alpha_mode="votes"))
    with open_store(recipe=recipes.loom, embedder=embedder, recall_timeout=30.0) as memory:
        for at, text in enumerate(("oak ash elm", "oak ash", "oak oak oak")):
            memory.remember(episode(at, text))
        for match in memory.search("oak", user_id="alice", recipe=votes):
            counts = {"text": n_words, "embedding": n_vectors}
            expected = sum(counts[arm] / (60 + rank) for arm, rank in match.parts.tiers.items())
            assert match.score == pytest.approx(expected, abs=1e-12)


@pytest.mark.slow
def test_C09_a_catastrophic_pattern_takes_linear_time() -> None:
    with open_store(recipe=recipes.hypergraph, embedder=None, recall_timeout=30.0) as memory:
        long = "a" * 1000 + "!"
        memory.remember_batch([episode(0, long, id=f"n{at}") for at in range(10_000)])
        hm_recall(memory, "warm", user_id="alice", force_regex=True)
        spent = []
        for _ in range(5):
            began = time.perf_counter()
            answer = hm_recall(memory, "(a+)+$", user_id="alice", force_regex=True)
            spent.append(time.perf_counter() - began)
            assert answer["count"] == 0
        assert min(spent) < 0.25  # the least of five: other work on the machine is not counted


@pytest.mark.parametrize("recipe", [recipes.honeycomb, recipes.hypergraph], ids=lambda r: r.name)
def test_E32_a_forbidden_row_that_is_the_best_candidate_shows_in_no_channel(recipe: Any) -> None:
    """By words, vectors and hints, with a budget and access marks; in hypergraph by edges too."""
    embedder = FixedEmbedder({"deploy": [1.0, 0.0], "deploy deploy": [1.0, 0.0]})
    place: dict[str, Any] = {"org": "acme", "workspace": "west"}
    asked: dict[str, Any] = {"candidates": ["secret", "e1"], "token_budget": 100, "now": NOON}
    found = []
    for is_there in (True, False):
        with open_store(
            recipe=recipe, embedder=embedder, recall_timeout=30.0, clock=Clock()
        ) as memory:
            memory.set_policy("ann", policy="shared", **place)
            own = {"user_id": "ann", "source": "memory", **place}
            for at in range(4):
                memory.remember(episode(at, "deploy" + " pad" * (at + 1), **own))
            memory.link(["e0", "e1"], "deploy", user_id="ann", id="ours", **place)
            if is_there:
                for key in ("secret", "second"):
                    row = episode(9, "deploy deploy", **(own | {"id": key, "user_id": "ben"}))
                    memory.remember(row)
                memory.link(["secret", "second"], "deploy", user_id="ben", id="theirs", **place)
                best = memory.agent("ben", **place).search("deploy", **asked)
                assert "secret" in {match.episode.id for match in best}  # the control
            matches = memory.agent("ann", **place).search("deploy", **asked)
            assert {match.episode.id for match in matches} >= {"e0", "e1"}
            trace = [(one.stage, one.n_in, one.n_out) for one in matches.trace.stages]
            around = [[one.id for one in row] for row in matches.context]
            edges = [edge.id for edge in matches.edges]
            rows = [one.model_dump() for one in matches]
            found.append((rows, matches.tiers, trace, around, edges, matches.related))
    assert found[0] == found[1]
