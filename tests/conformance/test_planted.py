"""A bug that is planted behind a face fails the scenario that is named beside it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("fastapi", reason="the extra [serve] is not installed")
pytest.importorskip("typer", reason="the extra [cli] is not installed")
pytest.importorskip("mcp", reason="the extra [mcp] is not installed")

import httpx2
from typer.testing import CliRunner

import hyrecall as hr
from conformance import (
    test_index_changes,
    test_index_fusion,
    test_index_recall,
    test_index_scopes,
    test_store_facts,
    test_store_files,
    test_store_forgetting,
    test_store_links,
    test_store_memories,
    test_store_search,
    test_store_sharing,
)
from conformance.index_faces import CommandLine as IndexCommands
from conformance.index_faces import Index, Plain, Served, TwoShards
from conformance.index_worlds import TEAS
from conformance.store_doors import CommandLine as StoreCommands
from conformance.store_doors import Mcp, Rest
from conformance.store_face import Opening, Store
from conformance.store_python import Python, Shared
from hyrecall.distributed import ShardedIndex
from hyrecall.memory import EVERYONE, Matches, MemorySync, Partition, ReadPolicy, Remembered

Method = Callable[..., Any]


@dataclass(frozen=True)
class Plant:
    """A method of a class that does something else, and the scenario that notices."""

    owner: type
    method: str
    bug: Callable[[Method], Method]
    scenario: Callable[..., None]
    face: type[Any] = Python
    index_face: type[Index] = Plain


def without(*names: str) -> Callable[[Method], Method]:
    """Drop options of a call."""

    def bug(method: Method) -> Method:
        return lambda *args, **given: method(
            *args, **{name: one for name, one in given.items() if name not in names}
        )

    return bug


def always(**options: Any) -> Callable[[Method], Method]:
    """Call with these options, whatever was said."""
    return lambda method: lambda *args, **given: method(*args, **given | options)


def then(change: Callable[[Any], Any]) -> Callable[[Method], Method]:
    """Change what a call returns."""
    return lambda method: lambda *args, **given: change(method(*args, **given))


def unsaid(*names: str) -> Callable[[Method], Method]:
    """Let a door ignore fields of a request, arguments of a tool or options of a command."""

    def dropped(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: dropped(one) for name, one in value.items() if name not in names}
        return list(map(dropped, value)) if isinstance(value, list) else value

    def bug(method: Method) -> Method:
        def call(door: Any, *args: Any, **given: Any) -> Any:
            return method(door, *map(dropped, args), **dropped(given))

        return call

    return bug


def unflagged(flag: str) -> Callable[[Method], Method]:
    """Let a command ignore an option and its value."""

    def bug(method: Method) -> Method:
        def invoke(runner: Any, app: Any, words: list[str]) -> Any:
            at = words.index(flag) if flag in words else len(words)
            return method(runner, app, [*words[:at], *words[at + 2 :]])

        return invoke

    return bug


def never(reply: Any) -> Callable[[Method], Method]:
    """Do nothing, and reply as if it were done."""
    return lambda _: lambda *args, **given: reply


def reversed_matches(found: Matches) -> Matches:
    return Matches(list(reversed(found)))


def one_bit(table: Any) -> Any:
    """Return a table of hits whose last score is the next float."""
    scores = np.array(table["score"].to_pylist())
    scores[-1:] = np.nextafter(scores[-1:], np.inf)
    at = table.column_names.index("score")
    return table.set_column(at, "score", pa.array(scores))


def adding_less(method: Method) -> Method:
    return lambda index, table, **given: method(index, table.slice(0, table.num_rows - 1), **given)


def everybody(method: Method) -> Method:
    def search(memory: MemorySync, query: str, **given: Any) -> Matches:
        place = {"org": given.pop("org"), "workspace": given.pop("workspace")}
        users = [Partition(one, **place) for one in (given.pop("user_id"), "bob")]
        return method(memory, query, partitions=users, **given)

    return search


_stages = test_index_fusion.test_stages_rank_alike
WIDE = hr.Scope.matching(tenant=hr.ANY)

PLANTS: dict[str, Plant] = {
    # a store
    "a search sees other users": Plant(
        MemorySync, "search", everybody,
        test_store_sharing.test_A26_users_see_their_own_memories_only,
    ),
    "statistics of other users": Plant(
        MemorySync, "search", everybody,
        test_store_sharing.test_A28_scores_do_not_depend_on_other_users,
    ),
    "matches are upside down": Plant(
        MemorySync, "search", then(reversed_matches),
        test_store_search.test_A08_without_vectors_the_score_is_bm25s,
    ),
    "an offset is ignored": Plant(
        MemorySync, "search", without("offset"),
        test_store_search.test_A23_a_shorter_reply_is_the_begin_of_a_longer_one,
    ),
    "a filter is ignored": Plant(
        MemorySync, "search", without("filter", "metadata"),
        test_store_search.test_filters_on_attributes_and_metadata,
    ),
    "a floor is ignored": Plant(
        MemorySync, "search", without("min_score"),
        test_store_search.test_a_floor_on_bm25_is_inclusive,
    ),
    "a time is ignored": Plant(
        MemorySync, "search", without("since", "until"),
        test_store_search.test_A24_both_ends_of_a_time_are_included,
    ),
    "each search counts as an access": Plant(
        MemorySync, "search", always(touch=True),
        test_store_search.test_F20_accesses_are_counted_where_asked,
    ),
    "ended facts are shown": Plant(
        MemorySync, "search", always(include_ended=True),
        test_store_facts.test_E53_an_ended_fact_is_not_found,
    ),
    "a time of facts is ignored": Plant(
        MemorySync, "recall_facts", without("valid_at"),
        test_store_facts.test_A43_a_new_object_ends_the_old_fact,
    ),
    "an update is lost": Plant(
        MemorySync, "update", never(Remembered("m0", 2, False)),
        test_store_memories.test_an_update_is_found_by_its_new_words_only,
    ),
    "an update clears what it does not name": Plant(
        MemorySync, "update", always(metadata={}),
        test_store_memories.test_an_update_changes_what_it_names,
    ),
    "a memory is kept without its fields": Plant(
        MemorySync, "get", then(lambda one: one and one.model_copy(update={"input": ""})),
        test_store_memories.test_A05_reading_by_id_and_list_show_the_same,
    ),
    "a list is oldest first": Plant(
        MemorySync, "list", then(lambda found: found[::-1]),
        test_store_memories.test_a_list_is_newest_first_and_in_pages,
    ),
    "history lacks its last version": Plant(
        MemorySync, "history", then(lambda found: found[:-1]),
        test_store_memories.test_E37_E40_history_has_every_version,
    ),
    "forgetting forgets nothing": Plant(
        MemorySync, "forget", never(1),
        test_store_forgetting.test_A44_E37_a_forgotten_memory_is_not_found,
    ),
    "erased text is still there": Plant(
        MemorySync, "forget", without("erase"),
        test_store_forgetting.test_A44_erased_bytes_are_nowhere,
    ),
    "forgetting a session takes everything": Plant(
        MemorySync, "forget",
        lambda method: lambda memory, key=None, **given: method(
            memory, **{**given, "session_id": None, "everything": True}
        ),
        test_store_forgetting.test_a_session_is_forgotten_at_once,
    ),
    "links are seen from nowhere": Plant(
        MemorySync, "links", never([]), test_store_links.test_C22_a_link_is_seen_from_both_ends
    ),
    "feedback counts again": Plant(
        MemorySync, "feedback",
        lambda method: lambda memory, **given: (method(memory, **given), len(given["used"]))[1],
        test_store_links.test_feedback_counts_a_query_and_a_memory_once,
    ),
    "a policy is not kept": Plant(
        MemorySync, "get_policy", never(ReadPolicy("isolated", None)),
        test_store_sharing.test_E34_E54_policies_are_set_and_read,
    ),
    "every agent reads what is shared": Plant(
        MemorySync, "set_policy", always(policy="shared", policy_group=None),
        test_store_sharing.test_E34_E54_an_agent_reads_by_its_policy,
    ),
    "an export has everybody's memories": Plant(
        MemorySync, "export", always(user_id=EVERYONE, org=None, workspace=None),
        test_store_files.test_A44_an_export_is_of_one_user,
    ),
    # a door
    "REST ignores a limit": Plant(
        httpx2.AsyncClient, "request", unsaid("limit"),
        test_store_search.test_A23_a_shorter_reply_is_the_begin_of_a_longer_one, Rest,
    ),
    "REST ignores a user": Plant(
        httpx2.AsyncClient, "request", unsaid("user_id"),
        test_store_search.test_A22_a_user_without_memories_finds_nothing, Rest,
    ),
    "MCP ignores a field": Plant(
        Mcp, "_ask", unsaid("importance"),
        test_store_memories.test_A05_a_memory_comes_back_as_it_was_given, Mcp,
    ),
    "MCP ignores that ended facts are asked for": Plant(
        Mcp, "_ask", unsaid("include_ended"),
        test_store_facts.test_E53_asked_for_it_stands_behind_its_successor, Mcp,
    ),
    "a command ignores a user": Plant(
        CliRunner, "invoke", unflagged("--user"),
        test_store_sharing.test_A26_users_see_their_own_memories_only, StoreCommands,
    ),
    "a command ignores a floor": Plant(
        CliRunner, "invoke", unflagged("--min-score"),
        test_store_search.test_a_floor_on_bm25_is_inclusive, StoreCommands,
    ),
    "a served index ignores a filter": Plant(
        httpx2.AsyncClient, "post", unsaid("filter"),
        test_index_scopes.test_a_filter_leaves_statistics_alone, index_face=Served,
    ),
    "a command ignores how lists are joined": Plant(
        CliRunner, "invoke", unflagged("--fusion"),
        test_index_fusion.test_B09_reciprocal_ranks_count_from_one, index_face=IndexCommands,
    ),
    # an index
    "a scope is every cell": Plant(
        hr.Index, "recall", always(scope=WIDE),
        test_index_scopes.test_a_query_sees_its_cells_only,
    ),
    "a filter of an index is ignored": Plant(
        hr.Index, "recall", without("filter"),
        test_index_scopes.test_a_filter_leaves_statistics_alone,
    ),
    "a filter of a batch holds for all": Plant(
        hr.Index, "recall",
        lambda method: lambda index, **given: method(
            index, **given | ({"filter": given["filter"][1]} if "filter" in given else {})
        ),
        test_index_scopes.test_each_query_of_a_batch_has_its_filter,
    ),
    "a score is off by one bit": Plant(
        hr.Hits, "to_arrow", then(one_bit), test_index_recall.test_B14_words_find_by_bm25
    ),
    "a shard is not asked": Plant(
        ShardedIndex, "recall",
        lambda method: lambda index, **given: method(ShardedIndex(index.shards[1:]), **given),
        test_index_recall.test_B14_words_find_by_bm25, index_face=TwoShards,
    ),
    "fusion is always by ranks": Plant(
        hr.Index, "recall", always(fusion=hr.RRF()), test_index_recall.test_both_arms_are_fused
    ),
    "constants of BM25 are ignored": Plant(
        hr.Index, "recall", without("bm25"),
        lambda index: test_index_recall.test_B01_B02_variants_of_bm25(index, "fts5"),
    ),
    "a floor of an arm is ignored": Plant(
        hr.Index, "recall", without("min_score"),
        test_index_recall.test_a_floor_of_an_arm_is_inclusive,
    ),
    "a stage does not run": Plant(
        hr.Index, "recall", without("shaping"),
        lambda make_index: _stages(make_index, "dedup"),
    ),
    "time stands still": Plant(
        hr.Index, "recall", without("now"),
        test_index_fusion.test_recency_halves_a_score_at_its_half_life,
    ),
    "the last row of an add is lost": Plant(
        hr.Index, "add", adding_less,
        test_index_changes.test_B08_rows_added_one_by_one_equal_a_build,
    ),
    "an upsert only adds": Plant(
        hr.Index, "upsert",
        lambda _: lambda index, table: index.add(table.slice(1)),
        test_index_changes.test_an_upsert_replaces_and_comes_last,
    ),
    "a delete takes the key of every cell": Plant(
        hr.Index, "delete",
        lambda method: lambda index, keys, scope: method(index, keys, scope=WIDE),
        test_index_changes.test_a_key_is_deleted_in_its_scope_only,
    ),
    "a reader stays where it was": Plant(
        hr.Index, "reload", never(None),
        test_index_changes.test_a_version_that_another_has_saved_is_taken_up,
    ),
}  # fmt: skip


def run(plant: Plant, shared: Shared, folder: Path) -> None:
    """Run the scenario of a plant at its face."""
    folder.mkdir()
    scenario, index_face = plant.scenario, plant.index_face
    with ExitStack() as stack:

        def make_store(recipe: str = "default", *, name: str = "a.mem", **how: Any) -> Store:
            return plant.face.enter(Opening(folder / name, recipe, **how), shared, stack)

        given: dict[str, Callable[[], Any]] = {
            "make_store": lambda: make_store,
            "store": make_store,
            "make_index": lambda: lambda world=TEAS: index_face(world, folder, shared, stack),
            "index": lambda: index_face(TEAS, folder, shared, stack),
            "tmp_path": lambda: folder,
        }
        scenario(**{name: given[name]() for name in inspect.signature(scenario).parameters})


@pytest.mark.plain_cases(10)
@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_bug_is_caught(
    name: str, shared: Shared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant = PLANTS[name]
    run(plant, shared, tmp_path / "sound")
    monkeypatch.setattr(plant.owner, plant.method, plant.bug(getattr(plant.owner, plant.method)))
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        run(plant, shared, tmp_path / "planted")
