"""Acceptance rows E: sources, arms and their fusion."""

from collections import defaultdict
from dataclasses import replace
from itertools import permutations

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall import arms
from seams import Dense, Lexical, Recipe
from spec.honeycomb_world import (
    CELL,
    DIM,
    PER_TABLE,
    QUERY,
    SEMANTIC,
    SOURCES,
    Row,
    ask,
    build,
    honeycomb,
    nth,
    random_rows,
    scores,
    table,
    towards,
    within,
)

FUSED = honeycomb.replace(shaping=())


def rrf(ranks: list[int], weight: float = 1.0) -> float:
    return weight * sum(sorted((1 / (60 + rank) for rank in ranks), reverse=True))


def ranks_of(hit: hr.Hit, names: tuple[str, ...]) -> list[int]:
    found = [hit.arm_rank(name) for name in names]
    return [rank for rank in found if rank is not None]


def test_E01_each_source_is_an_arm_of_its_own_and_hits_name_it() -> None:
    rows = [Row(f"{s}{rank}", s, nth(rank)) for rank in (1, 2) for s in SOURCES]
    hits = ask(build(rows))
    assert hits.trace.arms == SOURCES
    assert len(hits[0]) == 6
    for hit in hits[0]:
        assert hit["source"] == hit.key[:-1]
        # Each source has a list of its own: the better text is first in every one of them.
        assert {arm: hit.arm_rank(arm) for arm in SOURCES} == {
            arm: int(hit.key[-1]) if arm == hit["source"] else None for arm in SOURCES
        }


def test_E02_without_one_table_the_hits_of_the_other_arms_stay_as_they_were() -> None:
    rows = random_rows(np.random.default_rng(2), 45)
    whole = build(rows, per_table=True)
    fused = PER_TABLE.replace(shaping=())
    every = ask(whole, "tea milk", QUERY, recipe=fused)
    for gone in SOURCES:
        rest = tuple(source for source in SOURCES if source != gone)
        expected = [one for one in scores(every) if one[0] != gone]
        assert 0 < len(expected) < len(every[0])
        # The table was never there; only this arm is missing in the trace.
        less = build([row for row in rows if row.source != gone], sources=rest, per_table=True)
        found = ask(less, "tea milk", QUERY, recipe=fused)
        assert scores(found) == expected
        assert set(every.trace.arms) - set(found.trace.arms) == {gone}
        # The table is empty: it lists nothing, and no error comes of it.
        whole_less = build([row for row in rows if row.source != gone], per_table=True)
        found = ask(whole_less, "tea milk", QUERY, recipe=fused)
        assert scores(found) == expected
        assert all(hit.arm_rank(gone) is None for hit in found[0])
    # The caller leaves one arm out.
    found = whole.recall(
        text={"memory": ["tea"], "session": ["tea"]}, recipe=fused, scope=within(), limit=50
    )
    assert found.trace.arms == ("memory", "session")
    assert {hit["source"] for hit in found[0]} == {"memory", "session"}


def test_E05_similarity_is_the_cosine_on_the_unit_scale_in_each_table() -> None:
    rng = np.random.default_rng(5)
    rows = random_rows(rng, 1000)
    similarity = Recipe(
        name="similarity",
        arms=(Dense(arms=SEMANTIC, scale="unit"),),
        fusion=hr.Max(),
        depth=1000,
    )
    index = build(rows, per_table=True)
    vectors = {row.id: np.array(row.vector, np.float32) for row in rows if row.vector is not None}
    seen = defaultdict(int)
    low = 1.0
    for query in rng.standard_normal((5, DIM)).astype(np.float32):
        for hit in ask(index, None, query, recipe=similarity, limit=1000)[0]:
            row = vectors[hit.key].astype(np.float64)
            cosine = row @ query / np.linalg.norm(row) / np.linalg.norm(query.astype(np.float64))
            assert 0 <= hit.score <= 1
            assert hit.score == pytest.approx((1 + cosine) / 2, abs=1e-6)
            assert hit.arm_score(f"{hit['source']}_vector") is not None
            seen[hit["source"]] += 1
            low = min(low, hit.score)
    assert set(seen) == {"memory", "session"}
    assert low < 0.4  # opposite vectors are there, and stay above 0


def test_E07_the_scope_acts_inside_the_scan_and_never_on_a_short_list() -> None:
    rng = np.random.default_rng(7)
    n, parts, dim = 100_000, 100, 8
    rows = rng.standard_normal((n, dim)).astype(np.float32)
    part = np.arange(n) % parts
    rows[part == 37, 0] -= 4.0  # nearly all of it points away from the queries
    made = pa.table({"id": np.arange(n), "workspace": part})
    schema = hr.Schema(key="id", cell="workspace", vector="v")
    index = hr.Index.build(made, schema, vectors={"v": rows})
    queries = rng.standard_normal((20, dim)).astype(np.float32)
    queries[:, 0] = 2.0
    mine = np.flatnonzero(part == 37)
    assert len(mine) == n // 100
    wide = index.recall(vectors=queries, scope=hr.Scope(range(parts)), limit=1000, depth=1000)
    reply = index.recall(vectors=queries, scope=37, limit=50)
    unit = (
        rows[mine].astype(np.float64)
        / np.linalg.norm(rows[mine].astype(np.float64), axis=1)[:, None]
    )
    for query, hits in enumerate(reply):
        assert not set(wide[query].keys) & set(mine.tolist())  # a filtered list would be empty
        cosines = unit @ queries[query] / np.linalg.norm(queries[query].astype(np.float64))
        best = np.argsort(-cosines, kind="stable")[:50]
        assert hits.keys == mine[best].tolist()
        assert [hit.score for hit in hits] == pytest.approx(cosines[best], abs=1e-6)


def test_E13_all_scores_come_from_one_fusion_and_the_order_of_arms_does_not_matter() -> None:
    rows = random_rows(np.random.default_rng(13), 80)
    names = (*SOURCES, "vector")
    expected = ask(build(rows), "tea milk", QUERY)
    assert len({hit["source"] for hit in expected[0]}) == 3
    for hit in ask(build(rows), "tea milk", QUERY, recipe=FUSED)[0]:
        assert hit.score == rrf(ranks_of(hit, names))
    ordered = [hit.score for hit in expected[0]]
    assert ordered == sorted(ordered, reverse=True)
    for sources in permutations(SOURCES):
        for parts in permutations((Lexical(), Dense())):
            found = ask(
                build(rows, sources=sources),
                "tea milk",
                QUERY,
                recipe=honeycomb.replace(arms=parts),
            )
            assert scores(found) == scores(expected)


def test_E14_distilled_at_rank_3_beats_raw_at_rank_1() -> None:
    rows = [Row("raw", "session", nth(1)), *(Row(f"m{rank}", text=nth(rank)) for rank in (1, 2, 3))]
    found = scores(ask(build(rows)))
    assert [key for _, key, _ in found] == ["m1", "m2", "m3", "raw"]
    assert round(found[2][2], 5) == 0.01587
    assert round(found[3][2], 5) == 0.00656
    assert found[2][2] == 1 / 63
    assert found[3][2] == 0.4 * (1 / 61)


def test_E14_raw_first_in_both_of_its_arms_stays_below_distilled_first_in_one() -> None:
    for distilled in ("memory", "summary"):
        rows = [Row("raw", "session", "tea", towards(0.9, 1)), Row("fact", distilled, "tea")]
        index = build(rows)
        assert ask(index, "tea", QUERY, recipe=FUSED)[0].keys == ["raw", "fact"]
        found = scores(ask(index, "tea", QUERY))
        assert [(key, round(score, 5)) for _, key, score in found] == [
            ("fact", 0.01639),
            ("raw", 0.01311),
        ]
        assert found[1][2] == 0.4 * (2 / 61)


def test_E15_one_hit_per_source_and_id_with_the_sum_of_its_arms() -> None:
    rows = [
        Row("x", "memory", nth(1), towards(0.7, 1)),
        Row("y", "memory", nth(2), towards(0.75, 2)),
        Row("x", "session", nth(1), towards(0.5, 3)),
    ]
    found = ask(build(rows), "tea", QUERY)
    # x is first in words and second in meaning, y the other way round.
    assert scores(found)[:2] == [
        ("memory", "x", 1 / 61 + 1 / 62),
        ("memory", "y", 1 / 61 + 1 / 62),
    ]
    assert scores(found)[2:] == [("session", "x", 0.4 * (1 / 61 + 1 / 63))]
    assert round(1 / 61 + 1 / 62, 6) == 0.032522


def test_E16_every_hit_says_where_it_comes_from() -> None:
    rng = np.random.default_rng(16)
    drawn = random_rows(rng, 60)
    agents, seen = rng.choice(["ann", "bob"], 60), rng.choice(["global", "private"], 60)
    rows = [
        replace(row, agent=str(agent), visibility=str(visibility))
        for row, agent, visibility in zip(drawn, agents, seen, strict=True)
    ]
    known = {row.id: row for row in rows}
    hits = ask(build(rows), "tea", QUERY, recipe=FUSED)
    assert {"key", *CELL} <= set(hits.to_arrow().column_names)
    assert len(hits[0]) == 50
    for listed, hit in zip(hits.to_list()[0], hits[0], strict=True):
        row = known[hit.key]
        assert [listed[name] for name in CELL] == [getattr(row, name) for name in CELL]
        assert hit.cell == tuple(getattr(row, name) for name in CELL)
        assert hit["source"] == row.source
    assert len({hit.cell for hit in hits[0]}) > 6


def test_E17_arms_give_lists_and_the_fusion_is_a_step_of_its_own() -> None:
    names = (*SOURCES, "vector")
    for seed in range(20):
        rows = random_rows(np.random.default_rng(seed), 50)
        index = build(rows)
        total: dict[tuple[str, str], list[int]] = defaultdict(list)
        for name in names:  # each arm asked alone, no other beside it
            asked = {"vectors": QUERY[None]} if name == "vector" else {"text": {name: ["tea milk"]}}
            alone = index.recall(**asked, scope=within(), limit=600)
            assert alone.trace.arms == (name,)
            for hit in alone[0]:
                total[hit["source"], hit.key].append(hit.arm_rank(name))
        expected = {identity: rrf(ranks) for identity, ranks in total.items()}
        found = ask(index, "tea milk", QUERY, recipe=FUSED, limit=600)
        assert {(s, key): score for s, key, score in scores(found)} == expected
        assert "fusion" in found.trace.milliseconds


def test_E48_graph_and_hints_are_fused_like_other_arms_and_off_where_there_are_none() -> None:
    rows = [
        Row("words", text="tea"),
        Row("tagged", tags=("tea", "drinks")),
        Row("near", tags=("drinks",)),
        Row("hinted"),
        Row("none"),
    ]
    recipe = honeycomb.replace(more=(arms.Tags("tags"), arms.Listed("hints")))
    index = build(rows)
    hints = {"hints": [["hinted", "words", "not there"]]}
    hits = ask(index, recipe=recipe, candidates=hints)
    assert hits.trace.arms == (*SOURCES, "tags", "hints")
    assert {key: score for _, key, score in scores(hits)} == {
        "words": 1 / 61 + 1 / 62,  # first by words, second of the hints
        "tagged": 1 / 61,
        "near": 1 / 62,
        "hinted": 1 / 61,
    }
    # An arm that only names documents gives no content: what is returned is read from the table.
    assert [hit["text"] for hit in hits[0] if hit.key == "hinted"] == ["nothing"]
    plain = scores(ask(index))
    without = ask(index, recipe=recipe.replace(more=(arms.Listed("hints"),)))
    assert scores(without) == plain
    assert "hints did not run: nothing was asked" in without.trace.notes
    bare = ask(build([replace(row, tags=()) for row in rows]), recipe=recipe)
    assert scores(bare) == plain
    assert not bare.degraded
    assert table(rows)["tags"].to_pylist()[1] == ["tea", "drinks"]
