"""Acceptance rows F: the composite score, its weights, filters, and what tests need."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import hyrecall as hr
from seams import Recipe
from spec.hebb_world import (
    COMPOSITE,
    DIM,
    HOUR,
    NOW,
    QUERY,
    Memory,
    build,
    found,
    hebb,
    random_memories,
    search,
)

TESTS = Path(__file__).parents[1]


def weighted(**weights: float) -> Recipe:
    """The recipe with some weights of one request; the others stay."""
    return hebb.replace(shaping=(replace(COMPOSITE, **weights),))


def hours_of(memory: Memory) -> float:
    return 0.0 if memory.last_accessed is None else (NOW - memory.last_accessed) / HOUR


def importance_of(memory: Memory) -> float:
    rating = 5.0 if memory.importance is None else memory.importance
    return min(max(rating / 10, 0.0), 1.0)


@pytest.mark.parametrize("weights", [(1.0, 1.0, 1.0), (0.5, 1.0, 2.0), (3.0, 1.0, 1.0)])
def test_F11_the_composite_is_the_weighted_sum_and_its_mean(
    weights: tuple[float, float, float],
) -> None:
    made = random_memories(np.random.default_rng(11), 80)
    known = {memory.id: memory for memory in made}
    names = dict(zip(("recency", "importance", "relevance"), weights, strict=True))
    hits = search(build(made), "deploy coffee", QUERY, recipe=weighted(**names))
    assert len(hits[0]) > 50
    raw, relevance = found(hits, "composite_raw"), found(hits, "relevance_score")
    for hit in hits[0]:
        memory = known[hit.key]
        parts = (0.99 ** max(hours_of(memory), 0.0), importance_of(memory), relevance[hit.key])
        expected = sum(w * x for w, x in zip(weights, parts, strict=True))
        assert raw[hit.key] == pytest.approx(expected, abs=1e-9)
        assert hit.score == pytest.approx(expected / sum(weights), abs=1e-9)
    ordered = [hit.score for hit in hits[0]]
    assert ordered == sorted(ordered, reverse=True)


def test_F12_recency_falls_by_one_percent_an_hour_since_the_last_access() -> None:
    ages = {"now": 0.0, "hour": 1.0, "day": 24.0, "week": 168.0, "future": -30.0}
    made = [Memory(name, "deploy", last_accessed=NOW - age * HOUR) for name, age in ages.items()]
    index = build([*made, Memory("never", "deploy", last_accessed=None)])
    recency = found(search(index, "deploy"), "recency_score")
    assert recency["now"] == recency["future"] == recency["never"] == 1.0
    assert round(recency["day"], 4) == 0.7857
    for name, age in ages.items():
        assert recency[name] == pytest.approx(0.99 ** max(age, 0.0), abs=1e-9)
    # Another decay per hour is another half-life.
    daily = hebb.replace(shaping=(replace(COMPOSITE, half_life="24h"),))
    recency = found(search(index, "deploy", recipe=daily), "recency_score")
    assert (recency["day"], recency["now"]) == (0.5, 1.0)


@pytest.mark.parametrize(
    ("rating", "importance"),
    [(0.0, 0.0), (5.0, 0.5), (10.0, 1.0), (7.5, 0.75), (None, 0.5), (-2.0, 0.0), (14.0, 1.0)],
)
def test_F13_a_rating_of_ten_is_one(rating: float | None, importance: float) -> None:
    index = build([Memory("m", "deploy", importance=rating)])
    hits = search(index, "deploy")
    assert found(hits, "importance_score") == {"m": importance}
    assert hits[0][0].score == pytest.approx((1 + importance + 1) / 3, abs=1e-9)


def test_F15_weights_of_a_request_hold_for_that_request_only() -> None:
    memories = [
        Memory("fresh", "deploy notes and much more beside", importance=2.0),
        Memory("old", "deploy", importance=2.0, last_accessed=NOW - 100 * HOUR),
        Memory("rated", "deploy notes on a long walk", importance=9.0,
               last_accessed=NOW - 60 * HOUR),
    ]  # fmt: skip
    index = build(memories)
    query = "deploy"
    before = search(index, query).to_arrow()
    recent = search(index, query, recipe=weighted(recency=3.0, relevance=1.0, importance=1.0))
    raw, relevance = found(recent, "composite_raw"), found(recent, "relevance_score")
    for memory in memories:
        expected = 3 * 0.99 ** hours_of(memory) + importance_of(memory) + relevance[memory.id]
        assert raw[memory.id] == pytest.approx(expected, abs=1e-9)
        assert found(recent, "score")[memory.id] == pytest.approx(expected / 5, abs=1e-9)
    first = {
        name: search(index, query, recipe=weighted(**weights))[0].keys[0]
        for name, weights in {
            "recency": {"recency": 9.0},
            "importance": {"importance": 9.0},
            "relevance": {"relevance": 9.0},
        }.items()
    }
    assert first == {"recency": "fresh", "importance": "rated", "relevance": "old"}
    only = weighted(recency=0.0, importance=0.0)
    assert found(search(index, query, recipe=only), "score") == relevance
    assert search(index, query).to_arrow().equals(before)  # the next request is as before
    nothing = search(index, query, recipe=weighted(recency=0.0, importance=0.0, relevance=0.0))
    assert found(nothing, "score") == dict.fromkeys(("fresh", "old", "rated"), 0.0)
    for name in ("recency", "importance", "relevance"):
        with pytest.raises(hr.OptionError, match=rf"{name}: expected a number in \[0, 1e6\]"):
            weighted(**{name: -0.5})


def test_F17_partitions_and_tags_narrow_by_any_before_the_cut() -> None:
    rng = np.random.default_rng(17)
    parts, tags = ("home", "work", "lab", "gym"), ("red", "green", "blue", "grey")
    made = [
        Memory(
            f"m{at}",
            "deploy " * int(rng.integers(1, 4)) + "notes " * int(rng.integers(0, 20)),
            rng.standard_normal(DIM).tolist(),
            tuple(rng.choice(tags, rng.integers(0, 3), replace=False).tolist()),
            float(rng.integers(0, 11)),
            partition=str(rng.choice(parts)),
        )
        for at in range(400)
    ]
    # The best of all has none of the tags asked for.
    made += [Memory(f"top{at}", "deploy", QUERY, ("grey",), 10.0, NOW, "home") for at in range(150)]
    index = build(made)
    for _ in range(30):
        wanted = rng.choice(parts, 2, replace=False).tolist()
        named = rng.choice(tags[:3], rng.integers(1, 3), replace=False).tolist()
        options = {"scope": hr.Scope(wanted), "filter": hr.Filter(tags=named)}
        hits = search(index, "deploy", QUERY, limit=10, **options)
        may = {m.id for m in made if m.partition in wanted and set(m.tags) & set(named)}
        assert len(may) >= 10
        assert len(hits[0]) == 10  # filled, although 150 others are better
        assert set(hits[0].keys) <= may
        every = search(index, "deploy", QUERY, limit=300, **options)
        assert set(every[0].keys) == may
        assert every[0].keys[:10] == hits[0].keys
    assert not len(search(index, "deploy", QUERY, scope="nowhere")[0])
    assert not len(search(index, "deploy", QUERY, scope=hr.Scope([]))[0])
    assert not len(search(index, "deploy", QUERY, filter=hr.Filter(tags=["pink"]))[0])


def test_F19_a_floor_acts_on_the_normalised_score_and_0_is_none() -> None:
    index = build(random_memories(np.random.default_rng(19), 80))
    every = found(search(index, "deploy coffee", QUERY), "score")
    cut = 0
    for floor in (0.0, 0.3, 0.5, 0.7, 0.8, 1.0):
        recipe = hebb.replace(shaping=(*hebb.shaping, hr.Gate(floor)))
        kept = found(search(index, "deploy coffee", QUERY, recipe=recipe), "score")
        assert kept == {key: score for key, score in every.items() if score >= floor}
        assert list(kept) == [key for key in every if key in kept]
        cut += 0 < len(kept) < len(every)
    assert cut >= 3
    assert max(found(search(index, "deploy coffee", QUERY), "composite_raw").values()) > 1
    # A perfect match of words with a rating of 3 has (1 + .3 + 1) / 3 = .7667: below a floor of .8.
    low = build([Memory("m", "deploy", importance=3.0)])
    strict = hebb.replace(shaping=(*hebb.shaping, hr.Gate(0.8)))
    assert round(search(low, "deploy")[0][0].score, 4) == 0.7667
    assert not len(search(low, "deploy", recipe=strict)[0])


# Models, torch and the network, all out of reach.
ALONE = """
import socket, sys
def refuse(*args, **options):
    raise OSError("no network here")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
for name in ("torch", "wordllama", "safetensors", "transformers", "sentence_transformers", "cupy"):
    sys.modules[name] = None
from spec.hebb_world import Memory, QUERY, build, cosine_of, search
index = build([Memory("a", "blue deploy", cosine_of(.5), ("deploy",)), Memory("b", "coffee")])
hits = search(index, "deploy", QUERY)
print(hits[0].keys, hits.trace.device)
"""


def test_F24_recall_and_these_tests_need_no_model_no_network_and_no_gpu() -> None:
    path = os.pathsep.join([str(TESTS), *sys.path])
    made = subprocess.run(
        [sys.executable, "-c", ALONE],
        env={**os.environ, "PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert made.stdout.strip() == "['a'] cpu"
