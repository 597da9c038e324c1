"""Acceptance rows F: words, vectors and tags, and how their hits merge."""

import os
import string
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import hyrecall as hr
from hyrecall import arms
from laws.effort import Effort
from seams import Recipe
from spec.hebb_world import (
    DIM,
    NOW,
    QUERY,
    TAGS,
    WORDS,
    Memory,
    build,
    cosine_of,
    found,
    hebb,
    matrix,
    random_memories,
    search,
    show,
    table,
)

TESTS = Path(__file__).parents[1]
PATHS = ("text", "vector", "tags")


def with_depth(depth: int) -> Recipe:
    return hebb.replace(more=(arms.Tags("tags", depth=depth),))


def test_F01_each_path_can_be_the_only_one_to_find_a_memory() -> None:
    memories = [
        Memory("words", "a deploy on friday"),
        Memory("meaning", "roll out", cosine_of(0.8)),
        Memory("linked", "cables", tags=("cluster",)),
        Memory("link", "cables", tags=("deploy", "cluster")),
    ]
    index = build(memories)
    hits = search(index, "deploy", QUERY)
    assert hits.trace.arms == PATHS
    by = {hit.key: [arm for arm in PATHS if hit.arm_rank(arm) is not None] for hit in hits[0]}
    assert by == {"words": ["text"], "meaning": ["vector"], "linked": ["tags"], "link": ["tags"]}
    without = {
        "text": index.recall(text={"tags": ["deploy"]}, vectors=np.array([QUERY], np.float32),
                             recipe=hebb, scope="home", now=NOW),
        "vector": search(index, "deploy"),
        "tags": index.recall(text={"text": ["deploy"]}, vectors=np.array([QUERY], np.float32),
                             recipe=hebb.replace(more=()), scope="home", now=NOW),
    }  # fmt: skip
    gone = {"text": {"words"}, "vector": {"meaning"}, "tags": {"linked", "link"}}
    for path, less in without.items():
        assert path not in less.trace.arms
        assert set(by) - set(less[0].keys) == gone[path]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ('"blue green deploy"', {"adjacent", "inflected"}),
        ("blue green deploy", {"adjacent", "inflected", "apart", "turned", "one"}),
        ('"green deploy"', {"adjacent", "inflected", "turned"}),
        ('"blue green" "deploy today"', {"adjacent"}),
        ('"blue green deploy" coffee', {"adjacent", "inflected"}),
        ("coffee", {"other"}),
        ('"deploy green"', set()),
    ],
)
def test_F04_quoted_words_must_be_adjacent_others_need_not(query: str, expected: set[str]) -> None:
    texts = {
        "adjacent": "a blue green deploy today",
        "inflected": "Blue-Green deployed again",
        "apart": "blue and green, then deploy",
        "turned": "green deploy in blue",
        "one": "deploy on friday",
        "other": "coffee",
    }
    index = build([Memory(name, text) for name, text in texts.items()])
    assert set(search(index, query)[0].keys) == expected


def test_F05_the_best_match_has_relevance_1_and_the_others_their_share_of_its_bm25() -> None:
    rng = np.random.default_rng(5)
    ranked = 0
    for seed in range(20):
        made = [replace(m, tags=()) for m in random_memories(np.random.default_rng(seed), 60)]
        index = build(made)
        for _ in range(5):
            query = " ".join(rng.choice(WORDS, 2, replace=False))
            plain = index.recall(text=[query], bm25=hebb.arms[0].bm25, scope="home", limit=100)
            best = plain[0][0].score
            relevance = found(search(index, query), "relevance_score")
            assert set(relevance) == set(plain[0].keys)
            assert max(relevance.values()) == relevance[plain[0].keys[0]] == 1.0
            for hit in plain[0]:
                assert 0 < relevance[hit.key] <= 1
                assert relevance[hit.key] == pytest.approx(hit.score / best, rel=1e-9)
            order = sorted(plain[0], key=lambda hit: -relevance[hit.key])
            assert [hit.key for hit in order] == plain[0].keys
            ranked += len(order)
    assert ranked > 2000


CHAIN = [Memory(f"hop{at}", tags=(f"t{at}", f"t{at + 1}")) for at in range(8)]


def test_F06_memories_of_near_tags_score_less_with_every_hop() -> None:
    index = build(CHAIN)
    assert hebb.more[0].depth == 1
    assert found(search(index, "about t0"), "relevance_score").keys() == {"hop0", "hop1"}
    for depth in range(1, 6):
        relevance = found(search(index, "about t0", recipe=with_depth(depth)), "relevance_score")
        # hop0 holds the tag itself; a memory counts by its nearest tag. One memory: base .6.
        assert relevance == {
            f"hop{at}": pytest.approx(0.6 * 0.5**at, rel=1e-6) for at in range(depth + 1)
        }
        values = list(relevance.values())
        assert values == sorted(set(values), reverse=True)
    for depth in (-1, 6):
        with pytest.raises(hr.OptionError, match=r"depth: expected an int in \[0, 5\]"):
            with_depth(depth)
    assert not len(search(index, "something else")[0])
    assert not len(search(index, "t")[0])  # a part of a tag's name is not its name


@pytest.mark.parametrize(("count", "base"), [(1, 0.6), (2, 0.7), (3, 0.8), (4, 0.9), (9, 0.9)])
def test_F07_a_tag_counts_by_its_memories(count: int, base: float) -> None:
    index = build([Memory(f"m{at}", tags=("deploy",)) for at in range(count)])
    relevance = found(search(index, "deploy"), "relevance_score")
    assert relevance == {f"m{at}": pytest.approx(base, rel=1e-6) for at in range(count)}


def test_F07_after_changes_the_graph_of_tags_equals_a_rebuild(effort: Effort) -> None:
    rng = np.random.default_rng(7)
    for seed in range(effort.cases(quick=4, full=40)):
        drawn = random_memories(np.random.default_rng(seed), 120)
        live = {memory.id: memory for memory in drawn[:40]}
        index = build(list(live.values()))
        for step in range(30):
            if step % 3 == 0:  # a new one, or the tags of one that is there
                memory = drawn[int(rng.integers(len(drawn)))]
                tags = tuple(rng.choice(TAGS, rng.integers(0, 4), replace=False).tolist())
                changed = replace(memory, tags=tags)
                index.upsert(table([changed]), vectors={"vector": matrix([changed])})
                live.pop(memory.id, None)
                live[memory.id] = changed
            elif step % 3 == 1:
                gone = str(rng.choice(list(live)))
                assert index.delete([gone], scope="home") == 1
                del live[gone]
            else:
                rebuilt = build(list(live.values()))
                for depth in (1, 2):
                    options = {"text": list(TAGS), "recipe": with_depth(depth), "scope": "home"}
                    now = index.recall(**options, limit=100, now=NOW)
                    fresh = rebuilt.recall(**options, limit=100, now=NOW)
                    assert now.to_arrow().equals(fresh.to_arrow())
                    assert arms.related(now, "tags") == arms.related(fresh, "tags")


@pytest.mark.slow
def test_F08_the_graph_gives_the_same_whatever_the_seed_of_hashes(effort: Effort) -> None:
    expected = show()
    assert len(set(expected.splitlines())) > 40
    path = os.pathsep.join([str(TESTS), *sys.path])
    for seed in range(effort.cases(quick=2, full=20)):
        made = subprocess.run(
            [sys.executable, "-m", "spec.hebb_world"],
            env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert made.stdout.strip() == expected


def test_F09_a_memory_found_by_three_paths_comes_once_with_the_largest() -> None:
    memories = [
        # One of two equally rare words: half of the best. One hop from a tag of one: .3.
        Memory("three", "deploy today", cosine_of(0.7), tags=("cluster",)),
        Memory("best", "deploy friday", tags=("friday", "cluster")),
        Memory("other", "friday today"),
    ]
    hits = search(build(memories), "deploy friday", QUERY)
    assert hits[0].keys.count("three") == 1
    (three,) = [hit for hit in hits[0] if hit.key == "three"]
    (best,) = [hit for hit in hits[0] if hit.key == "best"]
    assert three.bm25_score / best.bm25_score == pytest.approx(0.5, rel=1e-6)
    assert three.vector_score == pytest.approx(0.7, rel=1e-6)
    assert three.arm_score("tags") == pytest.approx(0.3, rel=1e-6)
    assert found(hits, "relevance_score")["three"] == three.vector_score
    # Each of the others is the largest in its turn.
    words = search(build([replace(memories[0], vector=cosine_of(0.2)), *memories[1:]]),
                   "deploy friday", QUERY)  # fmt: skip
    assert found(words, "relevance_score")["three"] == pytest.approx(0.5, rel=1e-6)
    graph = search(build([replace(memories[0], vector=cosine_of(0.2), text="x"), *memories[1:]]),
                   "deploy friday", QUERY)  # fmt: skip
    assert found(graph, "relevance_score")["three"] == pytest.approx(0.3, rel=1e-6)


def test_F10_relevance_lies_in_0_and_1_on_every_path() -> None:
    rng = np.random.default_rng(10)
    clipped = 0
    for seed in range(20):
        made = random_memories(np.random.default_rng(seed), 80)
        index = build(made)
        for _ in range(5):
            query, vector = " ".join(rng.choice(WORDS, 2)), rng.standard_normal(DIM)
            hits = search(index, query, vector)
            relevance = found(hits, "relevance_score")
            assert all(0 <= value <= 1 for value in relevance.values())
            for hit in hits[0]:
                if hit.arm_rank("text") is None and hit.arm_rank("tags") is None:
                    assert hit.vector_score is not None
                    assert relevance[hit.key] == max(0.0, hit.vector_score)
                    clipped += hit.vector_score < 0
    assert clipped > 100


def test_F18_up_to_five_related_memories_none_of_them_a_result_all_in_scope(effort: Effort) -> None:
    assert hebb.expansion == (hr.SharedTags("tags", n=5, hops=1),)
    memories = [
        Memory("found", "deploy today", tags=("cluster", "office")),
        Memory("too", "deploy on friday", tags=("music",)),
        *(Memory(f"one{at}", tags=("cluster",)) for at in range(6)),
        Memory("both", tags=("office", "cluster", "garden")),
        Memory("step", tags=("garden",)),  # its tag is beside one of the result's
        Memory("chain", tags=("garden", "tree")),
        Memory("far", tags=("tree",)),  # two steps
        Memory("away", "deploy", tags=("cluster", "office"), partition="work"),
    ]
    index = build(memories)
    (hits,) = search(index, "deploy")
    assert set(hits.keys) == {"found", "too"}
    found = [(one.key, one.shared) for one in hits.related]
    assert found == [("both", 2), ("one0", 1), ("one1", 1), ("one2", 1), ("one3", 1)]
    (away,) = search(index, "deploy", scope="work")
    assert (away.keys, away.related) == (["away"], [])
    (wide,) = search(index, "deploy", scope=hr.Scope(["home", "work"]), limit=1)
    assert not {one.key for one in wide.related} & set(wide.keys)
    n_related = 0
    for seed in range(effort.cases(quick=10, full=200)):
        made = random_memories(np.random.default_rng(seed), 60)
        made = [replace(m, partition="work") if at % 3 == 0 else m for at, m in enumerate(made)]
        tags = {m.id: set(m.tags) for m in made}
        index = build(made)
        for (one,) in (search(index, word, limit=2) for word in WORDS):
            known = set().union(*(tags[key] for key in one.keys))
            shared = {m.id: len(known & tags[m.id]) for m in made
                      if m.partition == "home" and m.id not in one.keys}  # fmt: skip
            near = set().union(*(tags[m.id] for m in made
                                 if m.partition == "home" and known & tags[m.id]))  # fmt: skip
            beside = {key: len((near - known) & tags[key]) for key in shared}
            best = sorted((key for key in shared if shared[key]), key=lambda key: -shared[key])
            rest = [key for key in shared if not shared[key] and beside[key]]
            best += sorted(rest, key=lambda key: -beside[key])
            assert [(r.key, r.shared) for r in one.related] == [(k, shared[k]) for k in best[:5]]
            assert all(r.cell == ("home",) for r in one.related)
            n_related += len(one.related)
    assert n_related > 200


ODD = [
    "*", '"', "'", "NOT", "AND OR NOT", "NEAR(a b)", "NEAR(deploy, 5", "deploy*", "^deploy", "a:b",
    "text:deploy", "-deploy", "+deploy", "(deploy", ")", "{deploy}", "[deploy]", "deploy~2",
    'un"closed', '"" deploy', '"""', "deploy;DROP TABLE memories", "\\", "%", "_", "\x00", "\n\t",
    "🙂", "̈", "a" * 10_000, '"deploy" OR "x', "deploy AND", "||", "&&", "!", "?",
]  # fmt: skip


def test_F25_no_character_of_a_query_is_an_operator_or_an_error() -> None:
    index = build([Memory("m", "the deploy text"), Memory("n", "OR else")])
    rng = np.random.default_rng(25)
    letters = [*(string.punctuation + " \t"), "deploy", "AND", "NOT", "NEAR", "🙂", "é"]
    fuzz = ["".join(rng.choice(letters, rng.integers(1, 15))) for _ in range(2000)]
    asked = [query for query in [*ODD, *fuzz] if query.strip()]
    hits = index.recall(text=asked, recipe=hebb, scope="home", now=NOW)
    assert len(hits) == len(asked) > 1900
    for query in (
        "deploy*",
        "^deploy",
        "(deploy",
        "deploy AND",
        "-deploy",
        "text:deploy",
        "+deploy",
    ):
        assert "m" in search(index, query)[0].keys
    assert search(index, "OR")[0].keys == ["n"]  # a word as any other
    with pytest.raises(hr.OptionError, match="expected words"):
        search(index, " \t")


def test_F25_words_after_the_32nd_are_cut() -> None:
    assert hebb.arms[0].max_terms == 32
    words = [f"w{at}" for at in range(40)]
    index = build([Memory(word, word) for word in words])
    hits = search(index, " ".join(words))
    assert set(hits[0].keys) == set(words[:32])
    expected = search(index, " ".join(words[:32]))
    assert hits.to_arrow().equals(expected.to_arrow())
