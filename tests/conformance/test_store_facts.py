"""Facts: when they hold, what ends them, and that ended ones are found by nobody unasked."""

from __future__ import annotations

from conformance.faces import ids, moment, refused
from conformance.store_face import Store

JAN, JUN, LATER = (
    "2024-01-01T00:00:00+00:00",
    "2024-06-01T00:00:00+00:00",
    "2999-01-01T00:00:00+00:00",
)


def moved(store: Store) -> None:
    """Keep that alice lived in Oslo and lives in Bergen."""
    said = store.setup
    said.remember_fact("alice", "lives in", "Oslo", id="oslo", valid_from=JAN)
    said.remember_fact("alice", "lives in", "Bergen", id="bergen", valid_from=JUN)


def test_A43_a_new_object_ends_the_old_fact(store: Store) -> None:
    store.remember_fact("alice", "lives in", "Oslo", id="oslo", valid_from=JAN)
    store.remember_fact("alice", "Lives_In", "Bergen", id="bergen", valid_from=JUN)
    (now,) = store.recall_facts("where does alice live")
    assert (now["id"], now["object"], now["valid_from"], now["valid_to"]) == (
        "bergen", "Bergen", moment(JUN), None,
    )  # fmt: skip
    (then,) = store.recall_facts("where does alice live", valid_at="2024-03-01T00:00:00+00:00")
    assert (then["id"], then["valid_to"]) == ("oslo", moment(JUN))
    assert store.recall_facts("alice", valid_at="2023-01-01T00:00:00+00:00") == []


def test_E53_an_ended_fact_is_not_found(store: Store) -> None:
    moved(store)
    assert ids(store.search("alice lives in Oslo")) == ["bergen"]


def test_E53_asked_for_it_stands_behind_its_successor(store: Store) -> None:
    moved(store)
    found = store.search("alice lives in Oslo", include_ended=True)
    assert [(one["id"], one["valid_to"]) for one in found] == [
        ("bergen", None), ("oslo", moment(JUN)),
    ]  # fmt: skip


def test_E53_lists_and_history_show_every_fact(store: Store) -> None:
    moved(store)
    assert sorted(ids(store.list(kind="fact"))) == ["bergen", "oslo"]
    assert store.get("oslo")["text"] == "alice lives in Oslo"


def test_a_fact_that_has_not_begun_is_not_found(store: Store) -> None:
    store.setup.remember_fact("alice", "lives in", "Mars", id="mars", valid_from=LATER)
    assert store.search("alice Mars") == []
    assert ids(store.search("alice Mars", include_ended=True)) == ["mars"]


def test_a_fact_is_ended_by_hand(store: Store) -> None:
    moved(store)
    assert store.end_fact("bergen", at="2025-01-01T00:00:00+00:00") == 2
    assert store.search("alice Bergen") == []
    (found,) = store.setup.list_facts(object="Bergen")
    assert found["valid_to"] == moment("2025-01-01T00:00:00+00:00")


def test_a_fact_is_ended_now_by_default(store: Store) -> None:
    moved(store)
    assert store.end_fact("bergen") == 2
    assert store.search("alice Bergen") == []


def test_what_is_no_fact_has_no_end(store: Store) -> None:
    store.fill("tea")
    with refused("value", "id"):
        store.end_fact("m0")
    with refused("missing", "id"):
        store.end_fact("none")
    moved(store)
    with refused("missing", "id"):
        store.as_user("bob").end_fact("bergen")


def test_an_end_before_the_begin_is_refused(store: Store) -> None:
    moved(store)
    with refused("value", "at"):
        store.end_fact("bergen", at="2020-01-01T00:00:00+00:00")


def test_a_fact_does_not_end_before_it_begins(store: Store) -> None:
    with refused("value", "valid_to"):
        store.remember_fact("alice", "lives in", "Oslo", valid_from=JUN, valid_to=JAN)
    assert store.setup.list_facts() == []


def test_the_same_fact_again_adds_none(store: Store) -> None:
    first = store.remember_fact("alice", "likes", "tea", id="a", valid_from=JAN)
    again = store.remember_fact("alice", "likes", "tea", id="b", valid_from=JAN)
    assert again["id"] == first["id"] == "a"
    assert ids(store.setup.list_facts()) == ["a"]


def test_facts_of_several_values_do_not_end_each_other(store: Store) -> None:
    for name in ("tea", "coffee"):
        store.remember_fact("alice", "likes", name, id=name, single=False, valid_from=JAN)
    assert sorted(ids(store.recall_facts("alice likes"))) == ["coffee", "tea"]
    assert len(store.search("alice likes")) == 2


def test_an_end_can_be_taken_away(store: Store) -> None:
    moved(store)
    store.setup.end_fact("bergen", at="2025-01-01T00:00:00+00:00")
    store.update("bergen", valid_to=None)
    assert ids(store.search("alice Bergen")) == ["bergen"]


def test_facts_are_listed_by_what_they_say(store: Store) -> None:
    moved(store)
    store.setup.remember_fact("bob", "likes", "tea", id="tea", valid_from=JAN)
    assert ids(store.list_facts(subject="bob")) == ["tea"]
    assert sorted(ids(store.list_facts(predicate="Lives-In"))) == ["bergen", "oslo"]
    assert ids(store.list_facts(subject="alice", valid_at="2024-03-01T00:00:00+00:00")) == ["oslo"]


def test_A26_facts_of_another_user_are_not_there(store: Store) -> None:
    moved(store)
    other = store.as_user("bob")
    assert other.search("alice lives") == []
    assert other.setup.list_facts() == []
    other.setup.remember_fact("alice", "lives in", "Rome", id="rome", valid_from=JUN)
    assert ids(store.search("alice lives")) == ["bergen"]
