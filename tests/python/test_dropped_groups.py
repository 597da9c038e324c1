"""Rows that are shown with a hit are told apart from those beyond the limit."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall import recipes

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
        "shown around a1", "in the thread of a1",
    ]  # fmt: skip
    assert found.explain_dropped().to_list()[0]["rows"][1]["kept"] == {"key": "a1", "cell": []}
    assert str(found.explain_dropped()).startswith("group: 2 of 3 dropped\n  2  a2: shown around")
