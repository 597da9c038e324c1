"""Look-ups of tags: mistakes of callers, shards that are lost or change, and wrong answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from distributed.test_tags import World, alone, asked, built, chain, world_of
from hyrecall.arms import Tags
from hyrecall.distributed import Request, ShardedIndex
from hyrecall.errors import OptionError
from laws.checks import outcome
from seams import QUERY, LocalShard, Lookup, LookupAnswer, ToldLists, question_of

MISTAKES: tuple[dict[str, Any], ...] = (
    {"arms": Tags("nope")},
    {"arms": Tags("importance")},
    {"arms": (Tags("tags"), Tags("kind"))},
    {"arms": Tags("tags"), "text": {"tags": [hr.Phrase("green tea")]}},
    {"arms": Tags("tags"), "text": {"tags": "green tea"}},
    {"arms": Tags("tags"), "scope": ["ann"] * 3},
    {"arms": Tags("tags"), "scope": 7},
    {"arms": Tags("tags"), "filter": [None, None]},
    {"arms": Tags("tags"), "fusion": 1},
    {"expansion": hr.SharedTags("nope")},
    {"expansion": hr.SharedTags("importance")},
    {"expansion": "tags"},
    {"recipe": hr.recipes.hebb, "limit": 1000},
    {"recipe": hr.recipes.hebb, "text": [" "]},
    {"recipe": hr.recipes.hebb.replace(analyzer="word")},
    {"recipe": [hr.recipes.hebb, "hebb"]},
)


@pytest.mark.parametrize("options", MISTAKES, ids=str)
def test_mistakes_are_refused_as_one_index_refuses_them(options: dict[str, Any]) -> None:
    given = {"text": ["tea"], "scope": "ann"} | options
    for world in (world_of(2), world_of(3)):  # the second one sends bytes
        want, got = (
            outcome(lambda own=own: own.recall(**given)) for own in (world.one, world.shards)
        )
        assert not isinstance(want, hr.Hits)
        assert got == want


def test_scopes_and_texts_in_columns() -> None:
    world = world_of(2)
    texts, users = ["tea", "rain", "kettle"], ["ann", "bob", "ann"]
    for text in (np.array(texts), pa.array(texts)):
        for scope in (np.array(users), pa.array(users), pa.StructArray.from_arrays(
            [pa.array(users)], ["user"])):  # fmt: skip
            found = world.same(text=text, scope=scope, arms=Tags("tags"),
                               expansion=hr.SharedTags("tags"))  # fmt: skip
            assert found > 0


def three(kind: type[LocalShard]) -> tuple[list[Any], ShardedIndex]:
    table = chain(*["ann"] * 6)
    shards = [kind(f"shard {at}", built(table.slice(2 * at, 2), 2 * at)) for at in range(3)]
    return shards, ShardedIndex(shards)


GIVEN: dict[str, Any] = {
    "text": {"tags": ["t0"]}, "scope": "ann", "arms": Tags("tags", depth=5),
    "expansion": hr.SharedTags("tags"), "limit": 2,
}  # fmt: skip


class Growing(LocalShard):
    """A shard that gets a document between its answers."""

    when = ""

    def lookup(self, lookup: Lookup) -> LookupAnswer:
        found = super().lookup(lookup)
        if lookup.kind == self.when:
            self.when = ""
            row = chain("ann", "ann").slice(1, 1)
            named = row.set_column(row.schema.names.index("id"), "id", pa.array(["new"]))
            self.index.add(named, first_seq=100)
        return found


@pytest.mark.parametrize("when", ["named tags", "tags"])
def test_a_shard_that_changes_between_two_rounds_starts_the_recall_again(when: str) -> None:
    shards, index = three(Growing)
    assert "new" not in index.recall(**GIVEN | {"limit": 9})[0].keys
    shards[2].when = when
    assert "new" in index.recall(**GIVEN | {"limit": 9})[0].keys  # t1 t2, in another shard


class Spoiled(LocalShard):
    """A shard with wrong answers."""

    spoil: Callable[[pa.Table], pa.Table]

    def lookup(self, lookup: Lookup) -> LookupAnswer:
        found = super().lookup(lookup)
        return replace(found, rows=self.spoil(found.rows))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda rows: rows.drop_columns([rows.schema.names[-1]]),
        lambda rows: rows.append_column("tag", pa.nulls(rows.num_rows, pa.large_string())),
        lambda rows: rows.set_column(1, rows.schema.names[1], pa.array([1.5] * rows.num_rows)),
    ],
)
def test_answers_of_another_form_are_refused(spoil: Callable[[pa.Table], pa.Table]) -> None:
    shards, index = three(Spoiled)
    for one in shards:
        one.spoil = spoil
    with pytest.raises(OptionError, match="lookup: expected an answer with columns"):
        index.recall(**GIVEN)


def lookup(kind: str, rows: pa.Table, **settings: Any) -> Lookup:
    return Lookup(kind, "r", 1, "ann", rows, settings=settings)


def test_questions_that_are_none_are_refused() -> None:
    index = built(chain("ann"), 0)
    words = pa.table({QUERY: pa.array([0]), "text": pa.array([b"t0"], pa.large_binary())})
    plain: dict[str, Any] = {"column": "tags", "analyzer": "unicode", "partial": False}
    answer = index._look_up(lookup("named tags", words, **plain)).rows
    assert answer.to_pylist() == [{QUERY: 0, "tag": "t0", "documents": 1}]
    tags = answer.select([QUERY, "tag"])
    assert index._look_up(lookup("tags", tags, column="tags")).rows["tag"].to_pylist() == ["t1"]
    for wrong in (
        lookup("named tags", tags, **plain),
        lookup("named tags", words, **plain | {"analyzer": "nope"}),
        lookup("named tags", words, analyzer="unicode", partial=False),
        lookup("tags", words, column="tags"),
        lookup("tags", tags, column="nope"),
        lookup("tags", tags),
        lookup("related", tags, column="tags", n=3),
        lookup("related", tags, column="tags", n=0),
    ):
        with pytest.raises(OptionError):
            index._look_up(wrong)


def test_a_request_must_tell_what_its_arm_reads() -> None:
    index, arm = built(chain("ann"), 0), Tags("tags")
    request = Request._asking({"text": {"tags": ["t0"]}, "scope": "ann", "arms": arm})
    rows = pa.table({"tag": pa.array(["t0"], pa.large_string())})
    lists = ToldLists.of(1, np.array([0]), rows)
    for told in ({}, {question_of(arm): lists}):
        one = request._with_told(told)
        with pytest.raises(OptionError, match="request: expected"):
            index.candidates(one, index.statistics(one))
    world = World(index, ShardedIndex([LocalShard("only", index)]))
    assert world.same(**alone(asked(0)), arms=arm) == 0
    assert world.same(text={"tags": ["t0"]}, scope="ann", arms=arm) == 1
