"""What the stages left out is told: which rows, why, and the number that decided."""

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall import recipes
from oracle import dropped as oracle
from oracle import shaping as definition
from oracle.dropped import Drop
from seams import DroppedRow, Plan, RecallSource, choice, dedup, reply_of
from seams import recall_batch_module as batch
from several_recipes import RECIPES, Ask, World, asks, world
from shaped_corpus import Corpus, corpus, preference, tokens

ALL = 10_000
LIMIT = 6
CHOICES: list[tuple[Any, Callable[[definition.Ranked], list[Drop]]]] = [
    (
        hr.Dedup(0.8),
        lambda r: oracle.duplicates(r, 0.8, unit=False, preference=lambda doc: 0),
    ),
    (
        hr.Dedup(0.9, scale="unit", keep="source", prefer=("session", "memory")),
        lambda r: oracle.duplicates(r, 0.9, unit=True, preference=preference),
    ),
    *(
        (hr.Budget(n), lambda r, n=n: oracle.budget_drops(r, LIMIT, n, tokens))
        for n in (5, 40, 90, 4000)
    ),
    *(
        (
            (hr.Budget(n), hr.MMR(weight, relevance=scale)),
            lambda r, n=n, w=weight, s=scale: oracle.mmr_drops(
                r, LIMIT, weight=w, relevance=s, budget=n, tokens=tokens
            ),
        )
        for n, weight, scale in ((None, 0.3, "raw"), (None, 0.7, "max"), (60, 0.5, "minmax"))
    ),
]


def told(rows: Sequence[DroppedRow]) -> list[Drop]:
    """The rows as the oracle has them."""
    return [
        Drop(
            row.place, row.key, row.reason, row.value, row.bound,
            None if row.kept is None else row.kept.key, None if row.via is None else row.via.key,
        )
        for row in rows
    ]  # fmt: skip


def check(made: Sequence[Drop], expected: Sequence[Drop]) -> None:
    """Numbers of MMR are computed by another formula here; all others are the same bits."""
    assert [(d.place, d.key, d.reason, d.kept, d.via) for d in made] == [
        (d.place, d.key, d.reason, d.kept, d.via) for d in expected
    ]
    for one, other in zip(made, expected, strict=True):
        assert one.value == pytest.approx(other.value, rel=1e-12)
        assert one.bound == (None if other.bound is None else pytest.approx(other.bound, rel=1e-12))


def check_stage(case: Corpus, stage: Any, expect: Callable[[definition.Ranked], list[Drop]]) -> int:
    """Compare what a stage dropped for each query with its definition; return how many."""
    hits = case.ask(stage, limit=LIMIT)
    n = 0
    for query in range(3):
        made = hits[query].explain_dropped(ALL)
        name = hits.trace.stages[-1].stage
        own = next(one for one in made.stages if one.stage == name)
        before = case.before(query)
        check(told(own.rows), expect(before))
        assert (own.n_in, own.n_dropped) == (len(before), len(own.rows))
        assert {row.cell for row in own.rows} <= {("ana",)}
        n += len(own.rows)
    return n


def check_stages(stage: Any, expect: Callable[[definition.Ranked], list[Drop]]) -> int:
    """Compare in several worlds; return how many were dropped."""
    return sum(check_stage(corpus(seed), stage, expect) for seed in range(12))


@pytest.mark.plain_cases(2)
@pytest.mark.parametrize("number", range(len(CHOICES)))
def test_each_stage_drops_what_its_definition_says_for_the_reason_it_says(number: int) -> None:
    stage, expect = CHOICES[number]
    assert check_stages(stage, expect) > 0


def test_rows_that_joined_a_cluster_through_another_member_name_it() -> None:
    angles = np.deg2rad([0, 20, 40, 90])
    table = pa.table({"id": ["a", "b", "c", "d"], "text": ["tea"] * 4})
    index = hr.Index.build(
        table, hr.Schema(key="id", cell=None, text="text", vector="v"),
        vectors={"v": np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32)},
    )  # fmt: skip
    found = index.recall_one(text="tea", shaping=hr.Dedup(0.9))
    rows = found.explain_dropped().stages[0].rows
    assert [(row.key, row.kept.key, row.via and row.via.key) for row in rows if row.kept] == [
        ("b", "a", None), ("c", "a", "b"),
    ]  # fmt: skip
    assert [row.value for row in rows] == [pytest.approx(np.cos(np.deg2rad(20)), abs=1e-6)] * 2
    assert str(rows[1]) == (
        "3  c: duplicate of a, similarity 0.939693 to b, of the same cluster, above 0.9"
    )
    assert rows[1].bound == float(np.float32(0.9))


@pytest.mark.parametrize("normalize", [False, True])
def test_the_floor_of_the_fusion_drops_what_is_below_it(*, normalize: bool) -> None:
    n = 0
    for seed in range(6):
        case = corpus(seed)
        for query in range(2):
            whole = case.before(query)
            floor = whole[len(whole) // 2][1]
            hits = case.ask((), limit=60, min_fused=floor, normalize=normalize)[query]
            made = hits.explain_dropped(ALL)
            assert [one.stage for one in made.stages] == ["min_fused", "limit"]
            check(told(made.stages[0].rows), oracle.floor_drops(whole, floor))
            assert made.stages[0].n_out == made.stages[1].n_in == len(hits)
            n += made.n_dropped
    assert n > 30


def test_a_gate_drops_what_is_below_its_floor_in_the_score_of_the_stage_before() -> None:
    case = corpus(3)
    long = case.ask(hr.Recency("at", half_life="30d"), limit=60)[0]
    floor = long[len(long) // 2].score
    stages = (hr.Recency("at", half_life="30d"), hr.Gate(floor))
    gate = case.ask(stages, limit=60)[0].explain_dropped(ALL).stages[1]
    assert [(row.place, row.key, row.value, row.bound) for row in gate.rows] == [
        (hit.rank, hit.key, hit.score, floor) for hit in long if hit.score < floor
    ]
    assert gate.rows


@pytest.mark.parametrize("shaping", [(), hr.Recency("at", half_life="5d"), hr.Rerank(5)])
@pytest.mark.parametrize(("offset", "limit"), [(0, 4), (3, 4), (2, 0), (60, 0)])
def test_the_page_drops_what_a_longer_page_shows(shaping: Any, offset: int, limit: int) -> None:
    n = 0
    for seed in range(4):
        case = corpus(seed)
        long, page = case.ask(shaping, limit=60), case.ask(shaping, limit=limit, offset=offset)
        for query in range(3):
            ranked: definition.Ranked = [({"id": hit.key}, hit.score) for hit in long[query]]
            cut = page[query].explain_dropped(ALL).stages[-1]
            assert told(cut.rows) == oracle.page_drops(ranked, offset, limit)
            assert cut.n_out == len(page[query])
            n += len(cut.rows)
    assert n > 100


CHAIN = (
    hr.Rerank(20), hr.Dedup(0.7), hr.Recency("at", half_life="5d"), hr.Budget(90), hr.MMR(0.7),
    hr.Gate(0.2),
)  # fmt: skip


def test_each_stage_gets_what_the_one_before_left_and_the_last_is_the_reply() -> None:
    n = 0
    for seed in range(12):
        case = corpus(seed)
        for query in range(3):
            text = None if case.texts[query] is None else [case.texts[query]]
            hits = case.index.recall(
                text=text, vectors=case.vectors[query : query + 1], scope="ana", shaping=CHAIN,
                limit=5, offset=1, depth=60, now=case.ask(()).now,
            )  # fmt: skip
            made = hits[0].explain_dropped(ALL)
            assert [(one.stage, one.n_in, one.n_out) for one in made.stages[:-1]] == [
                (one.stage, one.n_in, one.n_out) for one in hits.trace.stages
            ]
            counts = [(one.n_in, one.n_out) for one in made.stages]
            assert [n_in for n_in, _ in counts[1:]] == [n_out for _, n_out in counts[:-1]]
            assert counts[-1][1] == len(hits[0])
            keys = [row.key for one in made.stages for row in one.rows]
            assert len(keys) == len(set(keys)) == made.n_dropped
            assert set(keys) | set(hits[0].keys) == {doc["id"] for doc, _ in case.before(query)}
            n += made.n_dropped
    assert n > 300


class ShortPages(World):
    """A world whose replies have few hits."""

    def options(self, asks: Sequence[Ask], columns: Sequence[str]) -> dict[str, Any]:
        return super().options(asks, columns) | {"limit": 3}


@pytest.mark.plain_cases(3)
@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_tells_the_same_for_a_query_alone_and_in_any_batch(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_world, dropped = world(5), 0
    case = ShortPages(made_world.index, made_world.graph)
    some = [one for one in asks(11, 24, (name,)) if one.text.strip()]
    others = asks(12, 8)
    for pieces in (512, 2):
        monkeypatch.setattr(batch, "SHAPED_QUERIES", pieces)
        monkeypatch.setattr(batch, "BATCH_QUERIES", pieces)
        together = case.together([*others, *some])
        for at, ask in enumerate(some):
            alone, one = case.alone(ask), together[len(others) + at]
            assert one.explain_dropped() == alone.explain_dropped()
            made = alone.explain_dropped(ALL)
            assert made.stages[-1].n_out <= len(alone)  # a fill adds rows
            scope = {("ann",), ("bob",)} if isinstance(ask.scope, hr.Scope) else {(ask.scope,)}
            left_out = {(row.key, row.cell) for stage in made.stages for row in stage.rows}
            assert {cell for _, cell in left_out} <= scope
            assert not left_out & {(hit.key, hit.cell) for hit in alone}
            dropped += made.n_dropped
    assert dropped > 0


def test_as_many_rows_are_described_as_are_asked_for_and_all_are_counted() -> None:
    hits = corpus(4).ask((hr.Dedup(0.7), hr.Budget(30)), limit=3)[0]
    whole = hits.explain_dropped(ALL)
    rows = [row for one in whole.stages for row in one.rows]
    assert whole.n_more == 0
    assert whole.n_dropped == len(rows) > 6
    for most in (0, 1, 5, len(rows)):
        made = hits.explain_dropped(most)
        assert [row for one in made.stages for row in one.rows] == rows[:most]
        assert made.n_dropped == len(rows)
        assert made.n_more == len(rows) - most
    assert [len(one.rows) for one in whole.first(2).stages] == [
        min(len(one.rows), 2) for one in whole.stages
    ]
    for most in (-1, 1.5, "3", True):
        with pytest.raises(hr.OptionError, match=r"^most: expected an int >= 0, got "):
            hits.explain_dropped(most)  # type: ignore[arg-type]


def test_callables_of_stages_are_not_called_again() -> None:
    calls = []

    def rerank(query: str, texts: list[str]) -> list[float]:
        calls.append("rerank")
        return [float(len(query + text) * 7 % (11 + len(calls))) for text in texts]

    def estimate(texts: list[str]) -> list[int]:
        calls.append("estimate")
        return [1 + len(text) % (3 + len(calls)) for text in texts]

    case = corpus(8)
    stages = (hr.RerankBy(rerank, window=9, timeout="30s"), hr.Budget(7, estimate=estimate))
    hits = case.ask(stages, limit=4)
    asked, n = len(calls), 0
    for query in range(3):
        made = hits[query].explain_dropped(ALL)
        left_out = {row.key for one in made.stages for row in one.rows}
        shown = {doc["id"] for doc, _ in case.before(query)} - left_out
        assert shown == set(hits[query].keys)
        n += sum(row.reason == "budget" for row in made.stages[1].rows)
    assert n > 0
    assert len(calls) == asked


def test_rows_that_come_first_are_compared_with_no_score() -> None:
    table = pa.table({"id": [1, 2, 3], "text": ["AB-1 tea tea tea", "AB 1", "one AB-1"]})
    index = hr.Index.build(table, hr.Schema(key="id", cell=None, text="text"))
    recipe = hr.Recipe(
        name="exact", arms=(hr.recipe.Lexical(),), fusion=hr.RRF(), exact=True,
        shaping=hr.Budget(100),
    )  # fmt: skip
    hits = index.recall_one(text="AB-1", recipe=recipe, limit=1)
    made = hits.explain_dropped()
    assert hits[0].is_exact
    assert {row.key for row in made.stages[0].rows} == {1, 2, 3} - set(hits.keys)


def test_unpickled_hits_cannot_say_what_was_dropped() -> None:
    hits = pickle.loads(pickle.dumps(corpus(1).ask(hr.Dedup(0.9))))
    with pytest.raises(hr.OptionError, match="hits: expected hits as a recall gives them"):
        hits[0].explain_dropped()


# ---- planted bugs, each of which the checks above find ----


def test_a_row_of_another_tenant_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    case, again = corpus(4), Plan.again
    keys = {doc["id"] for doc, _ in case.before(0)}
    everyone = case.index.recall(
        text=case.texts, vectors=case.vectors, scope=hr.Scope(["ana", "bob"]), depth=60
    )
    source = reply_of(everyone).parts[0].source
    assert isinstance(source, RecallSource)

    def of_everyone(plan: Plan, query: int, **joining: Any) -> Any:
        return again(source.plan, query, **joining)

    hits = case.ask((), limit=2)[0]
    rows = hits.explain_dropped(ALL).stages[-1].rows
    assert {row.key for row in rows} <= keys
    monkeypatch.setattr(Plan, "again", of_everyone)
    rows = hits.explain_dropped(ALL).stages[-1].rows
    assert not {row.key for row in rows} <= keys


def test_a_wrong_kept_row_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    clusters = dedup.clusters

    def wrong(*given: Any) -> Any:
        found = dict(clusters(*given))
        found["kept_for"] = np.maximum(found["kept_for"] - 1, 0)
        return found

    stage, expect = CHOICES[0]
    monkeypatch.setattr(dedup, "clusters", wrong)
    with pytest.raises(AssertionError):
        check_stages(stage, expect)


def test_a_wrong_reason_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        choice, "_not_chosen",
        lambda budget, mmr, before, *_: lambda at: choice.beyond(before, at, before, None),
    )  # fmt: skip
    stage, expect = CHOICES[3]
    with pytest.raises(AssertionError):
        check_stages(stage, expect)


# ---- rows that are shown with a hit, apart from those beyond the limit ----


SCHEMA = hr.Schema(
    key="id", cell=("user", "kind"), text="text", thread="session", place="turn", stored=("text",)
)
WORDS = ("tea", "milk", "ferry", "train", "cat")
SCOPE = hr.Scope([("ann", "a"), ("ann", "b")])
ALONE = recipes.default.replace(with_threads=None)
FORMS: tuple[dict[str, Any], ...] = (
    {"group": "thread"}, {"group": "thread", "surrounding": 1}, {"surrounding": 2},
)  # fmt: skip


def made(seed: int) -> hr.Index:
    """A table whose keys and threads stand in several cells."""
    rng = np.random.default_rng(seed)
    n = 60
    rows = {
        "id": [int(at) for at in range(n // 3)] * 3,
        "user": ["ann"] * 40 + ["bob"] * 20,
        "kind": ["a"] * 20 + ["b"] * 20 + ["a"] * 20,
        "session": [str(rng.integers(5)) if rng.random() < 0.8 else None for _ in range(n)],
        "turn": rng.integers(0, 9, n),
        "text": [" ".join(rng.choice(WORDS, rng.integers(1, 7))) for _ in range(n)],
    }
    return hr.Index.build(pa.table(rows), SCHEMA)


def threads_of(index: hr.Index, hits: Any) -> list[Any]:
    """The thread of each hit, with its cell."""
    keys = [hit.key for hit in hits]
    cells = [hr.Scope([hit.cell]) for hit in hits]
    found = index.get(keys, scope=cells, columns=("session",))["session"].to_pylist()
    return [(hit.cell, one) for hit, one in zip(hits, found, strict=True)]


def expected(
    index: hr.Index, asked: dict[str, Any], form: dict[str, Any], limit: int
) -> Iterator[tuple[int, Any, str, float, Any]]:
    """What is shown with a hit, by the plain list and what the grouped hits say they show."""
    schema_of = {(hit.cell, hit.key): one for hit, one in pairs(index, asked)}
    hits = index.recall_one(**asked, **form, limit=limit)
    near = {(hit.cell, row.key): hit for hit in hits for row in hit.surrounding}
    heads = {schema_of[hit.cell, hit.key]: hit for hit in hits if schema_of[hit.cell, hit.key][1]}
    names = {(hit.cell, hit.key) for hit in hits}
    for hit, thread in pairs(index, asked):
        if (hit.cell, hit.key) in names:
            continue
        if (hit.cell, hit.key) in near:
            kept = near[hit.cell, hit.key]
            yield hit.rank, (hit.cell, hit.key), "surrounding", hit.score, (kept.cell, kept.key)
        elif "group" in form and thread in heads:
            kept = heads[thread]
            yield hit.rank, (hit.cell, hit.key), "group", hit.score, (kept.cell, kept.key)


def pairs(index: hr.Index, asked: dict[str, Any]) -> list[tuple[Any, Any]]:
    hits = index.recall_one(**asked, limit=100)
    return list(zip(hits, threads_of(index, hits), strict=True))


@pytest.mark.parametrize("form", FORMS, ids="-".join)
@pytest.mark.parametrize("limit", [1, 3, 100])
def test_rows_that_are_shown_with_a_hit_name_it(form: dict[str, Any], limit: int) -> None:
    seen = set()
    for seed in range(4):
        index = made(seed)
        recipe = recipes.conversation if seed % 2 else ALONE
        asked = {"text": "tea ferry", "scope": SCOPE, "recipe": recipe}
        found = index.recall_one(**asked, **form, limit=limit)
        stages = found.explain_dropped(1000).stages
        own = next(one for one in stages if one.stage == next(iter(form)))
        told = [
            (row.place, (row.cell, row.key), row.reason, row.value, (row.kept.cell, row.kept.key))
            for row in own.rows
            if row.kept is not None
        ]
        assert told == list(expected(index, asked, form, limit))
        assert len(told) == own.n_dropped
        page = stages[-1]
        assert page.stage == "limit"
        assert (own.n_out, page.n_out) == (page.n_in, len(found))
        assert {row.reason for row in page.rows} <= {"limit"}
        assert own.n_in == len(pairs(index, asked))
        assert all(row.bound == found[-1].score for row in page.rows)
        seen |= {row.reason for row in own.rows} | {row.reason for row in page.rows}
    wanted = {"group": {"group"}, "surrounding": {"surrounding"}}
    assert seen >= set().union(*(wanted[name] for name in form))
    assert ("limit" in seen) == (limit < 100)


def test_rows_of_a_thread_on_an_earlier_page_name_its_hit() -> None:
    index = made(1)
    asked = {"text": "tea ferry", "scope": SCOPE, "recipe": recipes.conversation}
    first, second = (index.recall_one(**asked, group="thread", limit=2, offset=at) for at in (0, 2))
    drops = second.explain_dropped(1000).stages
    kept = {(row.kept.cell, row.kept.key) for row in drops[-2].rows if row.kept is not None}
    both = {(hit.cell, hit.key) for hits in (first, second) for hit in hits}
    assert kept <= both
    assert kept & {(hit.cell, hit.key) for hit in first}
    earlier = [row.key for row in drops[-1].rows if row.reason == "offset"]
    assert earlier == first.keys


def test_a_row_for_which_the_rows_around_left_no_room_has_the_tokens_that_were_left() -> None:
    texts = ["tea " * 12, "about the cat " * 4, "tea and milk " * 4]
    table = pa.table({"id": [1, 2, 3], "s": ["a", "a", "b"], "turn": [1, 2, 1], "text": texts})
    index = hr.Index.build(
        table, hr.Schema(key="id", cell=None, text="text", thread="s", place="turn")
    )
    found = index.recall_one(text="tea", shaping=hr.Budget(30), surrounding=1)
    assert found.keys == [1]
    assert [row.key for row in found[0].surrounding] == [2]
    (row,) = found.explain_dropped().stages[-2].rows
    assert (row.key, row.reason, row.value, row.bound) == (3, "budget", 13.0, 30.0 - 12 - 14)
    assert str(row) == "2  3: 13 tokens, 4 left in the budget"


def test_nothing_is_shown_with_a_hit_where_no_hit_is_asked_for() -> None:
    found = made(2).recall_one(text="tea", scope=SCOPE, group="thread", limit=0)
    group, page = found.explain_dropped(1000).stages[-2:]
    assert (group.n_dropped, page.n_out) == (0, 0)
    assert {row.reason for row in page.rows} == {"limit"}


def test_a_line_names_the_hit() -> None:
    texts = {"id": ["a1", "a2", "a3"], "s": ["a"] * 3, "turn": [1, 2, 3], "text": ["tea"] * 3}
    schema = hr.Schema(key="id", cell=None, text="text", thread="s", place="turn")
    index = hr.Index.build(pa.table(texts), schema)
    found = index.recall_one(text="tea", group="thread", surrounding=1)
    assert [row.why.partition(",")[0] for row in found.explain_dropped().stages[0].rows] == [
        "shown around a1", "in the group of a1",
    ]  # fmt: skip
    assert found.explain_dropped().to_list()[0]["rows"][1]["kept"] == {"key": "a1", "cell": []}
    assert str(found.explain_dropped()).startswith("group: 2 of 3 dropped\n  2  a2: shown around")
