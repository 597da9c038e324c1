"""Acceptance rows E: who may see what, through every channel."""

import logging
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

import hyrecall as hr
from hyrecall import arms
from laws.effort import Effort
from seams import Fill
from spec.honeycomb_world import (
    CELL,
    DEDUP,
    DIM,
    NOW,
    PROVENANCE,
    QUERY,
    RECENCY,
    SOURCES,
    TAGS,
    WORDS,
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

VISIBILITIES = ("global", "private")
ROSTER = {"ann": "red", "bea": "red", "cat": "blue", "loner": ""}
"""Agent -> policy group."""

Cell = tuple[str, ...]


def readable(agent: str, policy: str) -> hr.Scope:
    """The cells that an agent may read: its own, and by its policy global ones of others."""
    others = {
        "isolated": [],
        "shared": list(ROSTER),
        "group": [one for one in ROSTER if ROSTER[one] and ROSTER[one] == ROSTER[agent]],
    }[policy]
    who = [(agent, visibility) for visibility in VISIBILITIES] + [(one, "global") for one in others]
    return hr.Scope(
        ("acme", "main", source, *one) for source in SOURCES for one in dict.fromkeys(who)
    )


def spied(seen: list[str]) -> tuple[Any, ...]:
    """The stages that read content, telling which."""

    def longest(query: str, texts: list[str]) -> list[float]:
        seen.extend(texts)
        return [float(len(text)) for text in texts]

    def count(texts: list[str]) -> list[int]:
        seen.extend(texts)
        return [len(text) for text in texts]

    reranked = hr.RerankBy(longest, column="text", timeout="60s")
    budget = hr.Budget(400, column="text", estimate=count)
    return (PROVENANCE, reranked, DEDUP, RECENCY, budget, hr.MMR(0.7))


CHANNELS = (arms.Tags("tags"), arms.Listed("hints"), arms.Newest("created_at"),
            arms.Regex(("text", "id"), on_bad="literal"))  # fmt: skip


def test_E31_what_a_query_may_not_see_changes_nothing_and_is_not_read(effort: Effort) -> None:
    # 50 queries to each world; in full 1,000 cases.
    for seed in range(effort.cases(quick=4, full=20)):
        rng = np.random.default_rng(seed)
        agents, seen_by = rng.choice(list(ROSTER), 60), rng.choice(VISIBILITIES, 60)
        rows = [
            replace(row, agent=str(agent), visibility=str(visibility), text=f"{row.text} {row.id}")
            for row, agent, visibility in zip(random_rows(rng, 60), agents, seen_by, strict=True)
        ]
        agent, policy = str(rng.choice(list(ROSTER))), str(rng.choice(("isolated", "group")))
        scope = readable(agent, policy)
        allowed = [tuple(getattr(row, name) for name in CELL) in scope.cells for row in rows]
        # The same ids hold other things in the cells that are out of sight.
        other = iter(random_rows(rng, 60))
        twin = [
            row if may else replace(next(other), agent=row.agent, visibility=row.visibility)
            for row, may in zip(rows, allowed, strict=True)
            if may or rng.random() < 0.8  # some are not even there
        ]
        texts = [" ".join(rng.choice([*WORDS, *TAGS, "r5"], 2)) for _ in range(50)]
        vectors = rng.standard_normal((50, DIM)).astype(np.float32)
        replies, read = [], []
        for given in (rows, twin):
            seen: list[str] = []
            hits = build(given).recall(
                text=texts,
                vectors=vectors,
                scope=scope,
                recipe=honeycomb.replace(more=CHANNELS, shaping=spied(seen)),
                candidates={"hints": [[row.id for row in rows[::7]]] * 50},
                limit=20,
                now=NOW,
                columns=("text", "tags"),
            )
            counts = [(one.stage, one.n_in, one.n_out, one.notes) for one in hits.trace.stages]
            why = [repr(one[0].explain()) for one in hits if len(one)]
            related = repr(arms.related(hits, "tags", columns=("text",)))
            replies.append((hits.to_arrow(), counts, hits.trace.notes, why, related))
            read.append(seen)
        assert replies[0][0].equals(replies[1][0])
        assert replies[0][1:] == replies[1][1:]
        assert read[0] == read[1]
        mine = {row.text for row, may in zip(rows, allowed, strict=True) if may}
        assert set(read[0]) <= mine
        assert (len(read[0]) > 0) == any(allowed)


FORBIDDEN = Row("secret", "memory", "tea", QUERY.tolist(), agent="bea", visibility="private",
                tags=("tea",), created_at=NOW)  # fmt: skip
ALLOWED = [
    Row("own", text=nth(2), vector=towards(0.95, 1), tags=("tea", "pot"), created_at=None),
    Row("raw", "session", nth(3), towards(0.5, 2), tags=("pot",), created_at=None),
    Row("sum", "summary", nth(4), tags=("pot",), created_at=None),
]
ASKED: dict[str, Callable[[hr.Index, Any], hr.Hits]] = {
    "full text": lambda index, scope: index.recall(text=["tea"], scope=scope),
    "vector": lambda index, scope: index.recall(vectors=QUERY[None], scope=scope),
    "graph": lambda index, scope: index.recall(
        text={"tags": ["tea"]}, arms=arms.Tags("tags"), scope=scope
    ),
    "hint": lambda index, scope: index.recall(
        arms=arms.Listed("hints"), candidates={"hints": [["secret", "own", "raw"]]}, scope=scope
    ),
    "recency": lambda index, scope: index.recall(arms=arms.Newest("created_at"), scope=scope),
    "pattern": lambda index, scope: index.recall(
        text={"regex": ["^tea$|own"]}, arms=arms.Regex("text"), scope=scope
    ),
}


@pytest.mark.parametrize("channel", ASKED)
def test_E32_a_forbidden_document_that_is_best_in_a_channel_never_shows(channel: str) -> None:
    index, without = build([FORBIDDEN, *ALLOWED]), build(ALLOWED)
    everyone = ASKED[channel](index, within())
    assert everyone[0].keys[0] == "secret"  # who may see it finds it first
    mine = readable("ann", "shared")
    found, expected = ASKED[channel](index, mine), ASKED[channel](without, mine)
    assert found.to_arrow().equals(expected.to_arrow())
    assert "secret" not in found[0].keys
    assert found.n_hits == expected.n_hits
    assert found.trace.notes == expected.trace.notes
    assert [repr(hit.explain()) for hit in found[0]] == [repr(hit.explain()) for hit in expected[0]]


@pytest.mark.parametrize("is_filled", [False, True])
def test_E32_a_forbidden_document_never_shows_in_any_stage_or_in_what_follows(
    is_filled: bool,
) -> None:
    replies = []
    for rows in ([FORBIDDEN, *ALLOWED], ALLOWED):
        seen: list[str] = []
        recipe = honeycomb.replace(more=CHANNELS, shaping=spied(seen))
        if is_filled:  # a budget bounds the whole reply
            stages = tuple(one for one in recipe.shaping if not isinstance(one, hr.Budget))
            fill = Fill("created_at", when="always")
            recipe = recipe.replace(shaping=stages, fill=fill)
        hints = {"hints": [["secret", "own", "raw"]]}
        options: dict[str, Any] = {"recipe": recipe, "candidates": hints}
        hits = ask(build(rows), "tea", QUERY, scope=readable("ann", "shared"), **options)
        stages = [(one.stage, one.n_in, one.n_out) for one in hits.trace.stages]
        related = arms.related(hits, "tags", n=5, columns=("text",))
        replies.append((hits.to_list(), stages, hits.trace.notes, related, seen))
        assert "tea" not in seen  # its text
        # It is nearer to "own" than the threshold, and of a better source than "raw".
        assert {hit["key"]: hit["n_duplicates"] for hit in hits.to_list()[0]} == dict.fromkeys(
            ("own", "raw", "sum"), 0
        )
        assert related == [[]]
    assert replies[0] == replies[1]
    wide = ask(build([FORBIDDEN, *ALLOWED]), "tea", QUERY)
    assert sum(hit["n_duplicates"] for hit in wide.to_list()[0]) == 1


def any_filter(rng: np.random.Generator, depth: int = 0) -> hr.Filter:
    kind = rng.integers(6 if depth < 3 else 3)
    if kind == 0:
        return hr.Filter(tags=rng.choice(TAGS, rng.integers(0, 3)).tolist())
    if kind == 1:
        days = np.sort(rng.integers(-100, 2000, 2))[::-1]
        low, high = (NOW - np.timedelta64(int(day), "D").item() for day in days)
        return hr.Filter(created_at=(low, high if rng.random() < 0.5 else None))
    if kind == 2:
        return hr.Filter(tags=hr.NoneOf(*rng.choice(TAGS, rng.integers(0, 3)).tolist()))
    if kind == 3:
        return ~any_filter(rng, depth + 1)
    left, right = any_filter(rng, depth + 1), any_filter(rng, depth + 1)
    return left | right if kind == 4 else left & right


def test_E33_no_filter_crosses_org_and_workspace() -> None:
    rng = np.random.default_rng(33)
    places = list(product(("acme", "bolt"), ("main", "side")))
    rows = [
        replace(row, org=org, workspace=workspace)
        for org, workspace in places
        for row in random_rows(rng, 40)  # the same ids in each
    ]
    index = build(rows)
    filters = [any_filter(rng) for _ in range(1000)]
    n_hits = 0
    for org, workspace in places:
        hits = index.recall(
            text=["tea milk"] * 1000,
            vectors=rng.standard_normal((1000, DIM)).astype(np.float32),
            scope=within(org=org, workspace=workspace),
            filter=filters,
            limit=100,
        )
        assert set(hits.column("org").to_pylist()) == {org}
        assert set(hits.column("workspace").to_pylist()) == {workspace}
        n_hits += hits.n_hits
    assert n_hits > 10_000


def test_E33_a_call_without_an_org_is_an_error_and_never_means_all() -> None:
    index = build([Row("a", text="tea"), Row("a", text="tea", org="bolt")])
    no_org = [
        None,
        hr.Scope([None]),
        ("main", "memory", "ann", "global"),
        hr.Scope.matching(workspace="main", source=hr.ANY, agent=hr.ANY, visibility=hr.ANY),
    ]
    for scope in no_org:
        with pytest.raises(hr.ScopeError, match="scope: expected"):
            index.recall(text=["tea"], scope=scope)
        with pytest.raises(hr.ScopeError, match="scope: expected"):
            index.delete(["a"], scope=scope)
    blank = [within(org=""), within(org=None), hr.Scope([])]
    assert [index.recall(text=["tea"], scope=scope).n_hits for scope in blank] == [0, 0, 0]
    assert [index.delete(["a"], scope=scope) for scope in blank] == [0, 0, 0]
    assert len(index.recall(text=["tea"], scope=within())[0]) == 1
    # Writing: a row of one org leaves the row of the same id in another alone.
    changed = Row("a", text="milk")
    index.upsert(table([changed]), vectors={"vector": matrix([changed])})
    found = index.recall(text=["tea", "milk"], scope=[within(org="bolt"), within()])
    assert [one.keys for one in found] == [["a"], ["a"]]


EVERYONE = [f"{agent} global" for agent in ROSTER]
# Reader and policy -> the rows that it reads, as agent and visibility.
MAY_READ = {
    ("ann", "isolated"): ["ann global", "ann private"],
    ("ann", "shared"): [*EVERYONE, "ann private"],
    ("ann", "group"): ["ann global", "ann private", "bea global"],
    ("cat", "isolated"): ["cat global", "cat private"],
    ("cat", "shared"): [*EVERYONE, "cat private"],
    ("cat", "group"): ["cat global", "cat private"],
    ("loner", "isolated"): ["loner global", "loner private"],
    ("loner", "shared"): [*EVERYONE, "loner private"],
    ("loner", "group"): ["loner global", "loner private"],
}  # fmt: skip


@pytest.mark.parametrize(("agent", "policy"), MAY_READ)
def test_E34_a_policy_is_a_set_of_cells(agent: str, policy: str) -> None:
    rows = [
        Row(f"{who} {visibility}", source, "tea", towards(0.3, 1 + at), agent=who,
            visibility=visibility, tags=("tea",))
        for at, (who, visibility) in enumerate(product(ROSTER, VISIBILITIES))
        for source in SOURCES
    ]  # fmt: skip
    rows.append(Row("elsewhere", text="tea", agent=agent, workspace="side"))
    index = build(rows)
    scope = readable(agent, policy)
    expected = sorted(MAY_READ[agent, policy] * 3)
    fused = honeycomb.replace(shaping=())
    assert sorted(ask(index, "tea", scope=scope, recipe=fused)[0].keys) == expected
    assert sorted(ask(index, None, QUERY, scope=scope, recipe=fused)[0].keys) == expected
    tagged = index.recall(
        text={"tags": ["tea"]}, arms=arms.Tags("tags"), scope=scope, limit=100, depth=100
    )
    assert sorted(tagged[0].keys) == expected
    assert index.delete([row.id for row in rows], scope=scope) == len(expected)


def test_E50_nothing_of_a_query_or_a_document_is_logged(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.NOTSET)
    logging.getLogger("hyrecall").setLevel(logging.NOTSET)
    secrets = ("querysecret", "documentsecret", "0.123456")

    def told() -> list[str]:
        out, err = capfd.readouterr()
        lines = [*(record.getMessage() for record in caplog.records), out, err]
        return [line for line in lines if any(secret in line for secret in secrets)]

    def fails(query: str, texts: list[str]) -> list[float]:
        raise RuntimeError(f"{query} {texts}")

    rows = [Row("a", text="documentsecret querysecret", vector=[0.123456, 0.5]), Row("b")]
    index = build(rows)
    index.upsert(table(rows[:1]), vectors={"vector": matrix(rows[:1])})
    for shaping in (honeycomb.shaping, (PROVENANCE, hr.RerankBy(fails, column="text"))):
        recipe = honeycomb.replace(shaping=shaping, more=CHANNELS[:1])
        hits = ask(index, "querysecret (", [0.123456, 1.0], recipe=recipe)
        assert scores(hits)
        notes = [*hits.trace.notes, *(note for one in hits.trace.stages for note in one.notes)]
        assert not [note for note in notes if any(secret in note for secret in secrets)]
    with pytest.raises(hr.ShapeError):
        index.recall(vectors=np.full((1, 3), 0.123456, np.float32), scope=within())
    assert told() == []
    logging.getLogger("hyrecall").debug("querysecret")  # what would be told
    assert told() == ["querysecret"]
