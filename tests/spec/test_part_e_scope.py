"""Acceptance rows E31, E32 and E48 through an index: all stages and channels beside each other."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall import arms, recipes
from laws.effort import Effort
from seams import Fill

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
SOURCES = ("memory", "summary", "session")
CELL = ("org", "workspace", "source", "agent", "visibility")
DIM = 32
QUERY = np.eye(DIM, dtype=np.float32)[0]
honeycomb = recipes.honeycomb
STAGES = {type(stage): stage for stage in honeycomb.shaping}
PROVENANCE, DEDUP, RECENCY = (STAGES[kind] for kind in (hr.Provenance, hr.Dedup, hr.Recency))


@dataclass(frozen=True)
class Row:
    id: str
    source: str = "memory"
    text: str = "nothing"
    vector: Sequence[float] | None = None
    created_at: datetime | None = NOW
    org: str = "acme"
    workspace: str = "main"
    agent: str = "ann"
    visibility: str = "global"
    tags: tuple[str, ...] = ()


def nth(rank: int) -> str:
    """A text that comes in this place for the query "tea": the shorter, the better."""
    return "tea" + " pad" * rank


def towards(cosine: float, axis: int) -> list[float]:
    """A vector with this cosine to QUERY, on an axis of its own."""
    out = [0.0] * DIM
    out[0], out[axis] = cosine, float(np.sqrt(1 - cosine**2))
    return out


def matrix(rows: Sequence[Row]) -> Any:
    """A zero row has no vector."""
    return np.array([[0.0] * DIM if row.vector is None else row.vector for row in rows], np.float32)


def build(rows: Sequence[Row]) -> hr.Index:
    plain = {name: pa.array([getattr(row, name) for row in rows]) for name in ("id", *CELL, "text")}
    own = {
        name: pa.array([row.text if row.source == name else None for row in rows], pa.string())
        for name in SOURCES
    }
    times = pa.array([row.created_at for row in rows], pa.timestamp("us", "UTC"))
    tags = pa.array([list(row.tags) for row in rows], pa.list_(pa.string()))
    table = pa.table({**plain, **own, "created_at": times, "tags": tags})
    schema = hr.Schema(
        key="id", cell=CELL, text={name: name for name in SOURCES}, vector="vector",
        attributes=("created_at", "tags"), stored=("text",),
    )  # fmt: skip
    return hr.Index.build(table, schema, vectors={"vector": matrix(rows)})


EVERYONE = hr.Scope.matching(
    org="acme", workspace="main", source=hr.ANY, agent=hr.ANY, visibility=hr.ANY
)


def ask(index: hr.Index, vector: Any = None, **options: Any) -> hr.Hits:
    """One query for tea."""
    given = {"scope": EVERYONE, "now": NOW, "limit": 50, "recipe": honeycomb} | options
    vectors = None if vector is None else np.array([vector], np.float32)
    return index.recall(text=["tea"], vectors=vectors, **given)


def scores(hits: hr.Hits) -> dict[str, float]:
    return {hit.key: hit.score for hit in hits[0]}


WORDS = ("tea", "milk", "kettle", "cup", "leaf", "pot")
TAGS = ("drinks", "kitchen", "garden", "work")


def random_rows(rng: np.random.Generator, n: int, **fixed: Any) -> list[Row]:
    """Rows of all sources; every fourth has no vector, some are near each other."""
    centres = rng.standard_normal((8, DIM))
    made = []
    for at in range(n):
        near = centres[rng.integers(8)] + rng.standard_normal(DIM) * rng.choice([0.1, 1.0])
        age = np.timedelta64(int(rng.integers(-1000, 50_000)), "h").item()
        drawn: dict[str, Any] = {
            "source": str(rng.choice(SOURCES)),
            "text": " ".join(rng.choice(WORDS, rng.integers(1, 12))),
            "vector": None if at % 4 == 3 else near.tolist(),
            "created_at": None if rng.random() < 0.1 else NOW - age,
            "tags": tuple(rng.choice(TAGS, rng.integers(0, 3), replace=False).tolist()),
        }
        made.append(Row(id=f"r{at}", **(drawn | fixed)))
    return made


VISIBILITIES = ("global", "private")
ROSTER = {"ann": "red", "bea": "red", "cat": "blue", "loner": ""}
"""Agent -> policy group."""


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
        hits = ask(build(rows), QUERY, scope=readable("ann", "shared"), **options)
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
    wide = ask(build([FORBIDDEN, *ALLOWED]), QUERY)
    assert sum(hit["n_duplicates"] for hit in wide.to_list()[0]) == 1


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
    assert scores(hits) == {
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
