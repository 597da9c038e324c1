"""Links between memories, and which memories were said to help."""

from __future__ import annotations

from conformance.faces import ids, refused
from conformance.store_face import Store


def test_C22_a_link_is_seen_from_both_ends(store: Store) -> None:
    store.fill("tea", "cup", "pot")
    made = store.link(["m0", "m1"], "is in", description="hot")
    assert (made["relationship"], made["nodes"], made["description"]) == (
        "is in",
        ["m0", "m1"],
        "hot",
    )
    assert store.links("m0") == store.links("m1") == [made]
    assert store.links("m2") == []


def test_C22_more_than_two_make_a_hyperedge(store: Store) -> None:
    store.fill("tea", "cup", "pot")
    made = store.link(["m2", "m0", "m1"], "breakfast")
    assert made["nodes"] == ["m2", "m0", "m1"]
    assert store.links("m1") == [made]


def test_a_link_is_removed_once(store: Store) -> None:
    store.fill("tea", "cup")
    made = store.link(["m0", "m1"], "is in")
    assert store.unlink(made["id"]) is True
    assert store.unlink(made["id"]) is False
    assert store.links("m0") == []


def test_C22_forgetting_a_memory_removes_it_from_its_links(store: Store) -> None:
    store.fill("tea", "cup", "pot")
    store.setup.link(["m0", "m1"], "is in", id="two")
    store.setup.link(["m0", "m1", "m2"], "breakfast", id="three")
    store.forget("m0")
    assert store.setup.links("m1") == store.setup.links("m2") == []


def test_a_link_has_two_ends_at_least(store: Store) -> None:
    store.fill("tea")
    for nodes in (["m0"], [], ["m0", ""]):
        with refused("value", "participants"):
            store.link(nodes, "is in")
    assert store.setup.links("m0") == []


def test_an_end_of_a_link_may_come_later(store: Store) -> None:
    store.fill("tea")
    made = store.link(["m0", "later"], "is in")
    store.remember("cup", id="later")
    assert store.links("later") == [made]


def test_A26_links_of_another_user_are_not_there(store: Store) -> None:
    store.fill("tea", "cup")
    store.setup.link(["m0", "m1"], "is in", id="x")
    other = store.as_user("bob")
    other.fill("tea", "cup")
    assert other.links("m0") == []
    if "unlink" not in store.lacks:
        assert other.unlink("x") is False
    assert ids(store.links("m0")) == ["x"]


def test_feedback_counts_a_query_and_a_memory_once(store: Store) -> None:
    store.fill("tea", "cup")
    assert store.feedback("hot", ["m0", "m1"]) == 2
    assert store.feedback("hot", ["m0"]) == 0
    assert store.setup.list_feedback() == [{"query": "hot", "used": ["m0", "m1"]}]


def test_feedback_is_listed(store: Store) -> None:
    store.fill("tea", "cup")
    assert store.list_feedback() == []
    store.feedback("hot", ["m1"])
    store.feedback("cold", ["m0"])
    assert [one["query"] for one in store.list_feedback()] == ["hot", "cold"]


def test_feedback_on_what_is_not_there_is_refused_whole(store: Store) -> None:
    store.fill("tea")
    store.as_user("bob").fill("tea", "cup")
    with refused("missing", "used"):
        store.feedback("hot", ["m0", "m1"])
    assert store.setup.list_feedback() == []


def test_feedback_is_its_askers_alone_and_goes_with_the_memory(store: Store) -> None:
    store.fill("tea", "cup")
    store.feedback("hot", ["m0"])
    assert store.as_user("bob").setup.list_feedback() == []
    store.forget("m0")
    assert store.setup.list_feedback() == []
