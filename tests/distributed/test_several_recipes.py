"""A recipe for each query over shards, where their runs do not have the same queries as a batch."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

import hyrecall as hr
from distributed.placed import placed_index, placed_shards, placement_of
from distributed.placement import WireShard, index_of, laid_out
from hyrecall.arms import Regex
from hyrecall.distributed import ShardedIndex
from hyrecall.recipe import Lexical, Recipe, WithThreads
from laws.checks import outcome
from laws.engine import ipc_bytes

SCHEMA = hr.Schema(
    key="id",
    cell="user",
    thread="thread",
    text={"title": hr.Text("title"), "body": hr.Text("body")},
)
WORDS = ("oak", "ash-1", "elm-2", "fir")
PLAIN = Recipe(name="plain", arms=(Lexical(),), fusion=hr.RRF(), exact=True)
FORMS = PLAIN.replace(name="forms", with_threads=WithThreads(hr.Around((0.3,)), hr.BM25(k1=0.8)))
PATTERNS = Recipe(
    name="patterns", arms=(Lexical(),), fusion=hr.RRF(),
    on_no_match=(Regex(("title", "body"), name="pattern", on_bad="literal"),),
)  # fmt: skip


def documents(seed: int, n: int = 24) -> pa.Table:
    """Rows of ann, who has threads, and of bob, who has none."""
    chance = random.Random(seed)
    users = [chance.choice(["ann", "bob"]) for _ in range(n)]
    return pa.table(
        {
            "id": list(range(n)),
            "user": users,
            "thread": [f"t{at % 4}" if user == "ann" else None for at, user in enumerate(users)],
            "title": [" ".join(chance.choices(WORDS, k=2)) for _ in range(n)],
            "body": [" ".join(chance.choices(WORDS, k=3)) for _ in range(n)],
        }
    )


def built(table: pa.Table, first: int) -> hr.Index:
    return hr.Index.build(table, SCHEMA, first_seq=first, device="cpu")


@cache  # a recall changes nothing in them
def indexes(seed: int) -> tuple[hr.Index, ShardedIndex]:
    table = documents(seed)
    rows = table.select(["user", "thread"]).to_pylist()
    threads = [at if row["thread"] is None else tuple(row.values()) for at, row in enumerate(rows)]
    shards = laid_out(table, built, 3, random.Random(seed), threads)
    return built(table, 0), index_of(shards, wire=bool(seed % 2))


def same(seed: int, **asked: Any) -> int:
    one, sharded = indexes(seed)
    want, got = (
        outcome(lambda i=i: ipc_bytes(i.recall(**asked).to_arrow())) for i in (one, sharded)
    )
    assert got == want
    return one.recall(**asked).to_arrow().num_rows


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_recipes_with_and_without_a_form_for_threads(seed: int) -> None:
    texts = ['"oak fir"', "ash-1", '"elm-2"', "fir oak"]
    scopes = ["ann", "bob", "ann", "bob"]
    for recipe in (
        [PLAIN, PLAIN, FORMS, FORMS],
        [FORMS, FORMS, PLAIN, PLAIN],
        [PLAIN, FORMS, FORMS, PLAIN],
    ):
        assert same(seed, text=texts, scope=scopes, recipe=recipe) > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_queries_of_plain_recipes_beside_others_in_the_shards_that_they_need(seed: int) -> None:
    """A shard that is asked no query with a form for threads knows of no such runs."""
    table = documents(seed)
    one = built(table, 0)
    placement = placement_of(table, SCHEMA, 3)
    index = placed_index(placed_shards(table, SCHEMA, built, placement, 3), placement, WireShard)
    chance = random.Random(seed)
    n_hits = 0
    for _ in range(8):
        scopes: list[Any] = ["ann", "bob", hr.Scope(["ann", "bob"]), "nobody"]
        asked: dict[str, Any] = {
            "text": chance.choices(["oak", "ash-1", '"oak fir"'], k=4),
            "scope": chance.choices(scopes, k=4),
            "recipe": chance.choices([PLAIN, FORMS], k=4),
        }
        want = one.recall(**asked).to_arrow()
        assert index.recall(**asked).to_arrow().equals(want), asked
        n_hits += want.num_rows
    assert n_hits > 20


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_queries_of_either_form_name_other_text_arms(seed: int) -> None:
    texts = {"title": ["ash-1", None], "body": [None, "elm-2"]}
    for recipe in (FORMS, [FORMS, FORMS], [PLAIN, FORMS]):
        assert same(seed, text=texts, scope=["ann", "bob"], recipe=recipe) > 0
        assert same(seed, text=texts, scope=["bob", "ann"], recipe=recipe) > 0


@pytest.mark.parametrize("seed", range(4))
def test_a_fallback_refuses_a_query_only_if_no_shard_answers_it(seed: int) -> None:
    phrases = [hr.Phrase(f"{a} {b}") for a in WORDS for b in WORDS]
    one, sharded = indexes(seed)
    everyone = hr.Scope(["ann", "bob"])
    found = [
        text
        for text in phrases
        if one.recall_one(text=text, scope=everyone)
    ]  # fmt: skip
    assert len(found) > 3
    assert same(seed, text=[*found, "o.k"], scope=everyone, recipe=PATTERNS) > len(found)
    for index in (one, sharded):
        with pytest.raises(hr.DTypeError, match=r"text\['pattern'\]\[1\]: expected a str or None"):
            index.recall(
                text=[found[0], hr.Phrase("no such"), found[1]], scope=everyone, recipe=PATTERNS
            )


def test_a_form_for_threads_that_no_query_needs_refuses_nothing() -> None:
    """With one list and no evidence, more hits may be asked for than the depth is."""
    one, index = indexes(0)
    recipe = FORMS.replace(arms=(Lexical(arms=("body",)),), exact=False, depth=20)
    n_refused = 0
    for scope in ("bob", "ann", "nobody", ["bob"], ["bob", "nobody"], ["bob", "ann"], ["ann"], []):
        texts = ["oak"] * (len(scope) if isinstance(scope, list) else 1)
        asked: dict[str, Any] = {"text": texts, "scope": scope, "recipe": recipe, "limit": 50}
        want = outcome(lambda asked=asked: ipc_bytes(one.recall(**asked).to_arrow()))
        got = outcome(lambda asked=asked: ipc_bytes(index.recall(**asked).to_arrow()))
        assert got == want, scope
        n_refused += not isinstance(want, bytes)
    assert n_refused == 3, "those with ann, who has threads"
