"""Acceptance rows E: recency, token budgets, diversity and the gate."""

from datetime import datetime, timedelta

import numpy as np
import pytest

import hyrecall as hr
from hyrecall import arms
from seams import Dense, Lexical, Recipe, Stage
from spec.honeycomb_world import (
    DEDUP,
    NOW,
    PROVENANCE,
    QUERY,
    RECENCY,
    SOURCES,
    Row,
    ask,
    build,
    honeycomb,
    matrix,
    nth,
    random_rows,
    scores,
    table,
    towards,
    within,
)

DAY = timedelta(days=1)


def factors(hits: hr.Hits) -> dict[str, float]:
    made = hits.to_arrow()
    return dict(zip(made["key"].to_pylist(), made["recency_factor"].to_pylist(), strict=True))


def with_recency(*stages: Stage) -> Recipe:
    return honeycomb.replace(shaping=(PROVENANCE, *stages))


def test_E25_by_default_a_year_costs_less_than_seven_thousandths() -> None:
    assert RECENCY.half_life == "36500d"
    rows = [Row("old", text=nth(1), created_at=NOW - 365 * DAY), Row("new", text=nth(2))]
    hits = ask(build(rows))
    assert hits[0].keys == ["old", "new"]
    assert 0 < 1 - factors(hits)["old"] < 0.007
    assert factors(hits)["new"] == 1.0
    assert hits[0][0].score == pytest.approx(1 / 61 * 0.5 ** (365 / 36500), rel=1e-12)
    # A tie is where it shows: the newer comes first.
    tied = [Row("old", "memory", "tea", created_at=NOW - 365 * DAY), Row("new", "summary", "tea")]
    assert ask(build(tied))[0].keys == ["new", "old"]


def test_E26_age_multiplies_the_score_and_drops_nothing() -> None:
    ages = {"now": 0.0, "half": 30.0, "whole": 60.0, "day": 1.0, "century": 36500.0}
    rows = [Row(name, text="tea", created_at=NOW - days * DAY) for name, days in ages.items()]
    rows += [
        Row("missing", text="tea", created_at=None),
        Row("future", text="tea", created_at=NOW + 400 * DAY),
        Row("oldest", text="tea", created_at=datetime(1, 1, 1, tzinfo=NOW.tzinfo)),
    ]
    index = build(rows)
    plain = {key: score for _, key, score in scores(ask(index, recipe=with_recency()))}
    hits = ask(index, recipe=with_recency(hr.Recency("created_at", half_life="30d")))
    found = factors(hits)
    assert found["half"] == 0.5
    assert found["whole"] == 0.25
    assert found["now"] == found["missing"] == found["future"] == 1.0
    for name, days in ages.items():
        assert found[name] == pytest.approx(0.5 ** (days / 30), rel=1e-12)
    assert len(hits[0]) == len(rows)
    assert {key: score for _, key, score in scores(hits)} == {
        key: score * found[key] for key, score in plain.items()
    }
    assert set(hits[0].keys[-2:]) == {"oldest", "century"}


def test_E27_each_class_has_its_half_life() -> None:
    days = {"memory": 180, "summary": 45, "session": 10}
    rows = [Row(source, source, "tea", created_at=NOW - 90 * DAY) for source in SOURCES]
    by_class = hr.Recency(
        "created_at", by="source", half_lives={s: f"{n}d" for s, n in days.items()}
    )
    found = factors(ask(build(rows), recipe=with_recency(by_class)))
    assert found == {source: pytest.approx(0.5 ** (90 / n)) for source, n in days.items()}
    one = hr.Recency("created_at", half_life="90d", by="source", half_lives={"session": "45d"})
    found = factors(ask(build(rows), recipe=with_recency(one)))
    assert found == {"memory": 0.5, "summary": 0.5, "session": 0.25}


def test_E27_where_nothing_is_penalised_the_reply_is_the_same_to_the_last_bit() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        rows = random_rows(rng, 60, created_at=NOW + int(rng.integers(3)) * DAY)
        rows[::7] = random_rows(rng, len(rows[::7]), created_at=None)
        rows = [Row(**(vars(row) | {"id": f"r{at}"})) for at, row in enumerate(rows)]
        index = build(rows)
        bare = ask(index, "tea milk", QUERY, recipe=with_recency(DEDUP)).to_arrow()
        aged = with_recency(DEDUP, hr.Recency("created_at", half_life="1s"))
        reply = ask(index, "tea milk", QUERY, recipe=aged).to_arrow()
        assert reply.select(bare.column_names).equals(bare)


def estimate(text: str) -> int:
    return max(1, -(-len(text.strip()) // 4))


def test_E28_a_budget_is_kept_but_for_the_first_hit_and_none_changes_nothing() -> None:
    cut = first_alone = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        index = build(random_rows(rng, 50))
        free = ask(index, "tea milk", QUERY, recipe=with_recency(DEDUP, RECENCY))
        for tokens in (None, 0, -5):
            budget = hr.Budget(tokens, column="text")
            same = ask(index, "tea milk", QUERY, recipe=with_recency(DEDUP, RECENCY, budget))
            assert same.to_arrow().equals(free.to_arrow())
        for tokens in (1, 3, 30, 100):
            budget = hr.Budget(tokens, column="text")
            recipe = with_recency(DEDUP, RECENCY, budget)
            hits = ask(index, "tea milk", QUERY, recipe=recipe)[0]
            spent = [estimate(hit["text"]) for hit in hits]
            assert hits.keys[0] == free[0].keys[0]
            assert len(spent) == 1 or sum(spent) <= tokens
            assert [key for key in free[0].keys if key in set(hits.keys)] == hits.keys
            left_out = [hit for hit in free[0] if hit.key not in set(hits.keys)]
            assert all(sum(spent) + estimate(hit["text"]) > tokens for hit in left_out)
            cut += bool(left_out)
            first_alone += spent[0] > tokens
    assert cut > 100
    assert first_alone > 20


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("tea", 1), ("tea ", 1), ("  tea\n", 1), ("teas ", 1), ("tea pot", 2), ("tea cups", 2),
     ("tea kettl", 3), ("tea " + "é" * 8, 3), ("tea" + " " * 50, 1)],
)  # fmt: skip
def test_E29_a_token_is_four_characters_of_trimmed_text(text: str, tokens: int) -> None:
    assert tokens == estimate(text)
    index = build([Row("a", text="tea"), Row("b", text=text)])
    budget = hr.Budget(1000, column="text")
    made = ask(index, "tea teas", recipe=with_recency(budget)).to_arrow()
    assert dict(zip(made["key"].to_pylist(), made["token_estimate"].to_pylist(), strict=True)) == {
        "a": 1,
        "b": tokens,
    }


def test_E29_the_estimate_may_be_another_function() -> None:
    seen: list[str] = []

    def words(texts: list[str]) -> list[int]:
        seen.extend(texts)
        return [len(text.split()) for text in texts]

    texts = {"a": "tea", "b": "tea a b", "c": "tea aaaaaaaaaaaa"}
    index = build([Row(key, text=text) for key, text in texts.items()])
    budget = hr.Budget(3, column="text", estimate=words)
    assert ask(index, recipe=with_recency(budget))[0].keys == ["a", "c"]
    assert sorted(seen) == sorted(texts.values())


def test_E30_mmr_prefers_what_is_new_and_lambda_one_keeps_the_order() -> None:
    clone, other = np.eye(2, dtype=np.float32)[0], np.array([0.1, np.sqrt(0.99)], np.float32)
    rows = [Row("one"), Row("two"), Row("three"), Row("other")]
    rows = [Row(row.id, vector=(other if row.id == "other" else clone).tolist()) for row in rows]
    index = build(rows)
    relevance = {"one": 1.0, "two": 0.98, "three": 0.97, "other": 0.70}

    def chosen(weight: float, given: dict[str, float], scale: float = 1.0) -> hr.QueryHits:
        return index.recall(
            arms=arms.Listed("given"),
            candidates={"given": [{key: score * scale for key, score in given.items()}]},
            shaping=hr.MMR(weight),
            scope=within(),
        )[0]

    # Relevance is over the best: scores as small as those of RRF do not shift the balance.
    for scale in (1.0, 0.016):
        hits = chosen(0.7, relevance, scale)
        assert hits.keys == ["one", "other", "two", "three"]
        values = [0.7, 0.7 * 0.70 - 0.3 * 0.1, 0.7 * 0.98 - 0.3, 0.7 * 0.97 - 0.3]
        assert [round(value, 3) for value in values] == [0.7, 0.46, 0.386, 0.379]
        assert [hit.score for hit in hits] == pytest.approx(values, abs=1e-6)
        # What is new but hardly relevant stays behind the clones.
        assert chosen(0.7, relevance | {"other": 0.2}, scale).keys == list(relevance)
        assert chosen(1.0, relevance, scale).keys == list(relevance)


def test_E30_an_opposite_vector_counts_as_no_similarity() -> None:
    rows = [Row("a", vector=[1.0, 0.0]), Row("b", vector=[-1.0, 0.0]), Row("c")]
    found = build(rows).recall(
        arms=arms.Listed("given"),
        candidates={"given": [{"a": 1.0, "b": 0.8, "c": 0.9}]},
        shaping=hr.MMR(0.5),
        scope=within(),
    )
    assert [(hit.key, round(hit.score, 6)) for hit in found[0]] == [
        ("a", 0.5), ("c", 0.45), ("b", 0.4),
    ]  # fmt: skip


def test_E41_an_old_version_never_returns_and_a_current_old_row_is_never_dropped() -> None:
    first = Row("plan", text="tea tea tea", vector=towards(0.9, 1))
    current = Row("plan", text="tea with milk", vector=towards(0.2, 2))
    old = Row("old", text="tea since ever", created_at=NOW - 200 * 365 * DAY)
    index = build([first, old])
    index.upsert(table([current]), vectors={"vector": matrix([current])})
    fresh = build([old, current])
    for half_life in ("1s", "1h", "10d", "36500d", "100000000d"):
        recipe = with_recency(DEDUP, hr.Recency("created_at", half_life=half_life))
        hits = ask(index, "tea", QUERY, recipe=recipe)
        assert sorted(hits[0].keys) == ["old", "plan"]
        assert [hit["text"] for hit in hits[0] if hit.key == "plan"] == ["tea with milk"]
        assert scores(hits) == scores(ask(fresh, "tea", QUERY, recipe=recipe))


def test_E45_injection_takes_only_hits_above_the_gate_and_browsing_all() -> None:
    rng = np.random.default_rng(45)
    rows = random_rows(rng, 80, source="memory")
    index = build(rows, sources=("memory",))
    browse = honeycomb.replace(normalize=True)
    inject = browse.replace(shaping=(*honeycomb.shaping, hr.Gate(0.6)))
    every = scores(ask(index, "tea milk", QUERY, recipe=browse))
    injected = scores(ask(index, "tea milk", QUERY, recipe=inject))
    assert injected == [one for one in every if one[2] >= 0.6]
    assert 0 < len(injected) < len(every)
    # The gate acts last, on what the stages left of a score.
    stale = [Row("stale", text="tea", vector=towards(0.9, 1), created_at=NOW - 90 * DAY)]
    aged = browse.replace(
        arms=(Lexical(), Dense()),
        shaping=(PROVENANCE, hr.Recency("created_at", half_life="30d"), hr.Gate(0.6)),
    )
    old = build(stale, sources=("memory",))
    assert scores(ask(old, "tea", QUERY, recipe=browse))[0][2] > 0.99
    assert not len(ask(old, "tea", QUERY, recipe=aged)[0])


def test_E45_over_three_sources_the_gate_is_on_the_score_itself() -> None:
    index = build(random_rows(np.random.default_rng(46), 80))
    best = 2 / 61  # a distilled fact first in both of its arms
    inject = honeycomb.replace(shaping=(*honeycomb.shaping, hr.Gate(0.6 * best)))
    every = scores(ask(index, "tea milk", QUERY))
    injected = scores(ask(index, "tea milk", QUERY, recipe=inject))
    assert injected == [one for one in every if one[2] >= 0.6 * best]
    assert 0 < len(injected) < len(every)
    assert "session" not in {source for source, _, _ in injected}  # .4 of the best is below it
