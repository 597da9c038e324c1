"""Rows of parts B and E through an index: tokens, ties, unions, cosines, stages and channels."""

import itertools
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
from oracle.arithmetic import cosines
from seams import Dense, Fill, Lexical, Recipe
from spec.episodes import NOW, Stores, stores, times

# ---- tokens, query modes, ties, the union of lists, cosines ----


@pytest.fixture(scope="module")
def many() -> Stores:
    return stores(200, seed=4)


def small(texts: Sequence[str], analyzer: str, **options: Any) -> hr.Index:
    table = pa.table({"id": np.arange(len(texts)), "text": list(texts)})
    schema = hr.Schema(key="id", cell=None, text="text")
    return hr.Index.build(table, schema, analyzer=hr.Analyzer(analyzer), **options)


def test_B04_cafe_finds_cafe_with_an_accent() -> None:
    index = small(["a café", "a cave", "CAFE\u0301"], "unicode61")
    assert sorted(index.recall_one(text="cafe").keys) == [0, 2]
    assert sorted(index.recall_one(text="café").keys) == [0, 2]


def test_B05_a_query_of_stop_words_alone_keeps_them() -> None:
    index = small(["to be or not", "the running man", "he runs"], "porter")
    part = Lexical(stopwords=("the", "to", "be", "or", "not"))
    recipe = Recipe(name="stops", arms=(part,), fusion=hr.RRF())

    def found(text: str) -> list[int]:
        return sorted(index.recall_one(text=text, recipe=recipe).keys)

    assert found("the run") == [1, 2]
    assert found("to be run") == [1, 2]
    assert found("to be") == [0]
    assert found("The") == [1]


NOTES = ("kubernetes cluster", "kube proxy", "Kafka cluster", "c++ code", "code review of C")
# Query, what any of its words finds, what all of them as beginnings find.
MODES = [
    ("kube", {1}, {0, 1}),
    ("kubernetes", {0}, {0}),
    ("KUBE", {1}, {0, 1}),
    ("cluster", {0, 2}, {0, 2}),
    ("kube cluster", {0, 1, 2}, {0}),
    ("cluster kube", {0, 1, 2}, {0}),
    ("kube proxy", {1}, {1}),
    ("kube kafka", {1, 2}, set()),
    ("k", set(), {0, 1, 2}),
    ("clu", set(), {0, 2}),
    ("clu ka", set(), {2}),
    ("code", {3, 4}, {3, 4}),
    ("co", set(), {3, 4}),
    ("c++", {3, 4}, {3, 4}),
    ("c++ code", {3, 4}, {3, 4}),
    ("code review", {3, 4}, {4}),
    ("code-review", {3, 4}, {4}),
    ("review-code", {3, 4}, set()),
    ("zebra", set(), set()),
    ("zebra code", {3, 4}, set()),
]


def test_B06_query_modes() -> None:
    index = small(NOTES, "unicode61")
    for mode, place in (("any", 1), ("and_prefix", 2)):
        recipe = Recipe(name="m", arms=(Lexical(mode=mode),), fusion=hr.RRF())  # type: ignore[arg-type]
        found = {row[0]: set(index.recall_one(text=row[0], recipe=recipe).keys) for row in MODES}
        assert found == {row[0]: row[place] for row in MODES}, mode


PRESETS = {
    "loom": (recipes.loom, "word"),
    "hypergraph": (recipes.hypergraph.without_graphs().replace(more=(), on_no_match=()), "unicode"),
    "l0": (recipes.l0, "unicode61"),
    "honeycomb": (recipes.honeycomb, "unicode"),
    "hebb": (recipes.hebb, "porter"),
}


ORDERS = list(itertools.permutations(range(4)))


def equal_rows(analyzer: str, key: str) -> hr.Index:
    """In a cell for each order of writing, four rows that differ in their key alone."""
    n = 4 * len(ORDERS)
    same = {
        "text": ["hot tea"] * n,
        "pinned": [False] * n,
        "source": ["memory"] * n,
        "importance": [5] * n,
        "tags": [["tea"]] * n,
    }
    moments = ("occurred_at", "updated_at", "created_at", "last_accessed")
    columns = same | dict.fromkeys(moments, times([1.0] * n))
    own = {"order": np.repeat(np.arange(len(ORDERS)), 4), key: [f"k{at}" for at in sum(ORDERS, ())]}
    schema = hr.Schema(
        key=key, cell="order", text="text", vector="v", attributes=(*list(same)[1:], *moments)
    )
    return hr.Index.build(
        pa.table(own | columns), schema,
        vectors={"v": np.ones((n, 2), np.float32)}, analyzer=hr.Analyzer(analyzer),
    )  # fmt: skip


@pytest.mark.parametrize("name", PRESETS)
def test_B12_ties_end_in_the_key(name: str) -> None:
    """Equal rows have equal scores, by one arm and by both, whatever their order of writing."""
    recipe, analyzer = PRESETS[name]
    recipe = recipe.replace(shaping=tuple(s for s in recipe.shaping if not isinstance(s, hr.Dedup)))
    last = recipe.tie_break[-1]
    assert last.column in ("id", "key")
    expected = sorted((f"k{at}" for at in range(4)), reverse=last.descending)
    index, scope = equal_rows(analyzer, last.column), [(at,) for at in range(len(ORDERS))]
    text: dict[str, Any] = {"text": ["tea"] * len(ORDERS)}
    vectors: dict[str, Any] = {"vectors": np.array([[1.0, 0.0]] * len(ORDERS), np.float32)}
    for asked in (text, vectors, text | vectors):
        for hits in index.recall(**asked, scope=scope, recipe=recipe, now=NOW):
            assert len({hit.score for hit in hits}) == 1
            assert hits.keys == expected


def joined(many: Stores, **options: Any) -> hr.Hits:
    return many.ask(recipe=None, fusion=hr.RRF(), limit=60, **options)


def test_B13_E17_arms_give_lists_and_a_row_of_one_list_counts_in_their_union(many: Stores) -> None:
    both = joined(many, min_score={"v": hr.Above(0.0)})
    text = joined(many, vector=False)
    vector = joined(many, text=False, min_score={"v": hr.Above(0.0)})
    assert (text.trace.arms, vector.trace.arms) == (("text",), ("v",))
    assert "fusion" in both.trace.milliseconds
    n_single = 0
    for one, lexical, dense in zip(both, text, vector, strict=True):
        first = {hit.key: 1 / (60 + hit.arm_rank("text")) for hit in lexical}
        second = {hit.key: 1 / (60 + hit.arm_rank("v")) for hit in dense}
        expected = {
            key: max(first.get(key, 0.0), second.get(key, 0.0))
            + min(first.get(key, 0.0), second.get(key, 0.0))
            for key in first.keys() | second.keys()
        }
        assert {hit.key: hit.score for hit in one} == expected
        n_single += len(first.keys() ^ second.keys())
    assert n_single > 500


@pytest.mark.parametrize(
    ("scale", "scaled"),
    [("none", lambda c: c), ("unit", lambda c: (1 + c) / 2), ("clip", lambda c: min(max(c, 0), 1))],
)
def test_B16_the_scale_of_a_cosine_is_the_recipes_and_the_raw_one_is_kept(
    many: Stores, scale: Any, scaled: Any
) -> None:
    # The words have no say in the largest: their weight is next to nothing.
    arms = (Lexical(scale="none", weight=1e-6), Dense(scale=scale))
    recipe = Recipe(name="s", arms=arms, fusion=hr.Max(normalize="none"))
    assert f"scale={scale!r}" in recipe.explain()
    n_positive = 0
    for store, one in enumerate(many.ask(recipe=recipe, limit=60)):
        rows = many.vectors[many.first[store] : many.first[store + 1]]
        raw = cosines(rows, many.query_vectors[store])
        for hit in one:
            assert hit.vector_score == raw[hit.key - many.first[store]]
            if hit.vector_score > 0.01:
                assert hit.score == pytest.approx(scaled(hit.vector_score), rel=1e-12)
                n_positive += 1
    assert n_positive > 500


def test_B16_a_floor_on_the_cosine_is_the_recipes(many: Stores) -> None:
    for floor, holds in (
        (0.35, lambda c: c >= np.float32(0.35)),
        (hr.Above(0.0), lambda c: c > 0),
    ):
        recipe = Recipe(name="f", arms=(Dense(min_score=floor),), fusion=hr.RRF())
        assert f"min_score={floor!r}" in recipe.explain()
        for store, one in enumerate(many.ask(text=False, recipe=recipe, limit=60)):
            rows = many.vectors[many.first[store] : many.first[store + 1]]
            raw = cosines(rows, many.query_vectors[store])
            assert len(one) == sum(holds(c) for c in raw if not np.isnan(c))
            assert all(holds(hit.vector_score) for hit in one)


# ---- E31, E32 and E48: all stages and channels beside each other ----

SCOPE_NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
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
    created_at: datetime | None = SCOPE_NOW
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
    given = {"scope": EVERYONE, "now": SCOPE_NOW, "limit": 50, "recipe": honeycomb} | options
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
            "created_at": None if rng.random() < 0.1 else SCOPE_NOW - age,
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
                now=SCOPE_NOW,
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
                tags=("tea",), created_at=SCOPE_NOW)  # fmt: skip
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
