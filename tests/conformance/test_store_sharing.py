"""Who sees what: users, agents and their read policies, at every door."""

from __future__ import annotations

import pytest

from conformance.faces import ids, refused
from conformance.store_face import Store
from conformance.store_python import agent_of


def test_A26_users_see_their_own_memories_only(store: Store) -> None:
    store.fill("tea of ann")
    other = store.as_user("bob")
    other.fill("tea of bob", "more tea of bob")
    assert [one["text"] for one in store.search("tea")] == ["tea of ann"]
    assert sorted(ids(other.search("tea"))) == ["m0", "m1"]


def test_the_same_id_is_another_memory_of_another_user(store: Store) -> None:
    other = store.as_user("bob")
    store.remember("tea", id="x")
    other.remember("coffee", id="x")
    assert [one["text"] for one in store.search("tea coffee")] == ["tea"]
    assert store.forget("x") == 1
    assert [one["text"] for one in other.search("tea coffee")] == ["coffee"]


def test_A26_ids_of_others_are_as_ids_that_do_not_exist(store: Store) -> None:
    store.fill("tea", "cup")
    other = store.as_user("bob")
    assert other.get("m0") is None
    assert other.history("m0") == []
    assert other.links("m0") == []
    told = []
    for name in ("m0", "none"):
        with pytest.raises(Exception, match="id: expected a memory") as caught:
            other.update(name, text="x")
        told.append(str(caught.value).replace(name, "*"))
    assert told[0] == told[1]


def test_A28_scores_do_not_depend_on_other_users(store: Store) -> None:
    store.fill("hot tea", "cold tea", "coffee")
    before = store.search("hot tea")
    store.as_user("bob").fill(*(f"hot hot tea {n}" for n in range(30)))
    assert store.search("hot tea") == before


def shared(store: Store) -> None:
    """Let ops keep a global and a private memory, and planner one of its own."""
    ops = store.as_user("ops").setup
    ops.fill(
        {"text": "tea for all", "visibility": "global", "id": "all"},
        {"text": "tea of ops", "id": "ops"},
    )
    store.as_user("planner").setup.fill({"text": "tea of planner", "id": "own"})


def test_E34_E54_policies_are_set_and_read(store: Store) -> None:
    shared(store)
    assert store.get_policy("planner") == ("isolated", None)
    store.set_policy("planner", "shared")
    assert store.get_policy("planner") == ("shared", None)
    store.set_policy("planner", "group", policy_group="team")
    assert store.get_policy("planner") == ("group", "team")
    with refused("value", "policy"):
        store.set_policy("planner", "everything")


def test_E34_E54_an_agent_reads_by_its_policy(store: Store) -> None:
    shared(store)
    planner = agent_of(store, "planner")
    assert ids(planner.search("tea")) == ["own"]
    store.set_policy("planner", "shared")
    assert sorted(ids(planner.search("tea"))) == ["all", "own"]
    store.set_policy("planner", "isolated")
    assert ids(planner.search("tea")) == ["own"]


def test_E34_a_group_reads_the_global_memories_of_its_group(store: Store) -> None:
    shared(store)
    store.set_policy("planner", "group", policy_group="team")
    planner = agent_of(store, "planner")
    assert ids(planner.search("tea")) == ["own"]
    store.set_policy("ops", "group", policy_group="team")
    assert sorted(ids(planner.search("tea"))) == ["all", "own"]


def test_E36_files_have_the_same_boundary(store: Store) -> None:
    shared(store)
    planner = agent_of(store, "planner")
    assert planner.grep("tea for all") == []
    store.set_policy("planner", "shared")
    assert [line[0] for line in planner.grep("tea for all")] == ["/shared/ops/episodic/all.md"]
    assert planner.grep("tea of ops") == []


def test_a_user_is_no_agent_and_sees_no_global_memory_of_others(store: Store) -> None:
    shared(store)
    assert store.as_user("planner2").search("tea") == []
