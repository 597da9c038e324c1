"""Rows through a store that are about the same reply: votes, processes, reopening, imports."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import hyrecall as hr
from hyrecall import recipes
from hyrecall.embed import HashEmbedder
from hyrecall.memory import MemorySync
from hyrecall.systems.hypergraph import hm_recall
from laws.effort import Effort
from memory.stores import DIM, NOON, Clock, FixedEmbedder, episode, open_store
from memory.test_transfer import L0_SCHEMAS, an_l0_file

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
from spec.test_memory_rows_h import fill, replies
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
