"""Keeping, reading, listing and changing memories."""

from __future__ import annotations

import pytest

from conformance.faces import Row, at, ids, moment, refused
from conformance.store_face import Store

WHOLE: Row = {
    "input": "when is tea?", "kind": "note", "source": "summary", "session_id": "s1",
    "importance": 7.5, "pinned": True, "tags": ["tea", "time"], "metadata": {"n": [1, {"x": None}]},
    "visibility": "global", "occurred_at": at(3),
}  # fmt: skip


def expected(**fields: object) -> Row:
    return WHOLE | {"user_id": "ann", "occurred_at": moment(at(3))} | fields


def test_A05_a_memory_comes_back_as_it_was_given(store: Store) -> None:
    kept = store.remember("Tea at four", id="tea", **WHOLE)
    assert kept == {"id": "tea", "version": 1, "embedded": False}
    (found,) = store.search("tea")
    wanted = expected(id="tea", text="Tea at four")
    assert {name: found[name] for name in wanted} == wanted


def test_A05_reading_by_id_and_list_show_the_same(store: Store) -> None:
    store.remember("Tea at four", id="tea", **WHOLE)
    assert store.get("tea") == expected(id="tea", text="Tea at four")
    assert store.list() == [store.get("tea")]
    assert store.get("coffee") is None


def test_ids_are_drawn_where_none_is_given(store: Store) -> None:
    kept = [store.remember("tea")["id"], store.remember("tea")["id"]]
    assert kept[0] != kept[1]
    assert sorted(ids(store.search("tea"))) == sorted(kept)


NAMES = ("a b", "a/history", "a?b=c&d", "100%", "ää 日本", "..", "a\nb")
TEXTS = {
    "lines": "a\n\nb\t\r\nc", "NUL": "日本 café 🫖 \u0000x", "option": "-n", "json": '{"a": 1}',
    "long": "x" * 20_000,
}  # fmt: skip


def test_any_text_is_an_id(store: Store) -> None:
    for name in NAMES:
        store.remember("tea", id=name)
        assert store.get(name)["text"] == "tea"
        assert store.update(name, text="coffee") == 2
        assert store.forget(name) == 1
        assert [one["status"] for one in store.history(name)] == ["live", "live", "deleted"]


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_text_is_kept_to_the_letter(store: Store, text: str) -> None:
    if store.name == "command line" and "\u0000" in text:  # which no process is given
        text = text.replace("\u0000", "")
    store.remember(text, id="a")
    (found,) = store.setup.list()
    assert found["text"] == text


def test_a_list_is_newest_first_and_in_pages(store: Store) -> None:
    store.fill("one", "two", "three", {"text": "four", "kind": "note", "tags": ["x"]})
    assert ids(store.list()) == ["m3", "m2", "m1", "m0"]
    assert ids(store.list(limit=2, offset=1)) == ["m2", "m1"]
    assert ids(store.list(kind="note")) == ids(store.list(tags=["x", "y"])) == ["m3"]


def test_a_list_by_filter(store: Store) -> None:
    store.fill(*({"text": "tea", "importance": n, "metadata": {"n": n}} for n in range(4)))
    assert ids(store.list(filter={"importance": {"from": 2}})) == ["m3", "m2"]
    some: Row = {"filter": {"metadata.n": {"to": 2}}}
    assert ids(store.list(**some)) == ["m2", "m1", "m0"]
    assert ids(store.list(**some, limit=1, offset=1)) == ["m1"]
    assert store.list(**some, kind="fact") == store.list(**some, tags=["x"]) == []


def test_pinned_memories_are_listed_apart(store: Store) -> None:
    store.fill("one", {"text": "two", "pinned": True}, "three")
    assert ids(store.list(pinned=True)) == ["m1"]
    assert ids(store.list(pinned=False)) == ["m2", "m0"]


def test_A24_a_list_takes_the_ends_of_a_time(store: Store) -> None:
    late = {"text": "tea", "occurred_at": "2026-01-02T23:59:59+00:00"}
    store.fill("tea", late, {"text": "tea", "occurred_at": "2026-01-03T00:00:00+00:00"})
    assert ids(store.list(since="2026-01-02", until="2026-01-02")) == ["m1"]
    assert ids(store.list(since="2026-01-02T23:59:59Z", limit=1)) == ["m2"]
    assert ids(store.list(until=at(0))) == ["m0"]
    with refused("value", "until"):
        store.list(until="noon")


def test_a_pin_makes_no_version(store: Store) -> None:
    store.fill("one", "two")
    store.pin("m0")
    assert ids(store.list(pinned=True)) == ["m0"]
    assert len(store.history("m0")) == 1
    store.update("m0", text="three")
    assert ids(store.list(pinned=True)) == ["m0"]
    store.pin("m0", pinned=False)
    assert store.list(pinned=True) == []
    with refused("missing", "id"):
        store.pin("none")


def test_a_taken_id_is_refused(store: Store) -> None:
    store.remember("tea", id="a")
    with refused("taken", "id"):
        store.remember("coffee", id="a")
    assert [one["text"] for one in store.search("tea coffee")] == ["tea"]


def test_an_update_changes_what_it_names(store: Store) -> None:
    store.remember("Tea at four", id="tea", **WHOLE)
    assert store.update("tea", text="Tea at five", tags=["late"], reason="moved") == 2
    assert store.get("tea") == expected(id="tea", text="Tea at five", tags=["late"])
    assert store.update("tea", importance=1) == 3
    last = expected(id="tea", text="Tea at five", tags=["late"], importance=1)
    assert store.get("tea") == last
    assert store.update("tea", occurred_at=at(9)) == 4
    assert store.get("tea") == last | {"occurred_at": moment(at(9))}


def test_an_update_is_found_by_its_new_words_only(store: Store) -> None:
    store.fill("green tea", "black coffee")
    store.update("m0", text="white milk")
    assert store.search("green tea") == []
    assert ids(store.search("milk")) == ["m0"]


def test_E39_scores_are_as_if_earlier_versions_had_never_been(store: Store) -> None:
    store.fill("tea tea tea", "tea at four", "coffee")
    other = store.as_user("bob")
    other.fill("coffee", "tea at four", "coffee")
    store.update("m0", text="coffee")
    assert [one["score"] for one in store.search("tea")] == [
        one["score"] for one in other.search("tea")
    ]


def test_an_update_of_nothing_is_refused(store: Store) -> None:
    store.remember("tea", id="tea")
    with refused("missing", "id"):
        store.update("none", text="x")
    store.forget("tea")
    with refused("missing", "id"):
        store.update("tea", text="x")


def test_bad_fields_are_refused_by_name(store: Store) -> None:
    with refused("value", "importance"):
        store.remember("tea", importance=11)
    with refused("value", "visibility"):
        store.remember("tea", visibility="secret")
    with refused("value", "kind"):
        store.remember("tea", kind="")
    with refused("value", "occurred_at"):
        store.remember("tea", occurred_at="yesterday")
    assert store.setup.list() == []


def test_a_blank_text_is_refused(store: Store) -> None:
    with refused("value", "text"):
        store.remember("  ")
    assert store.setup.list() == []


def test_metadata_of_64_levels_is_the_most(store: Store) -> None:
    deep: object = 1
    for _ in range(70):
        deep = [deep]
    with refused("value", "metadata"):
        store.remember("tea", metadata={"x": deep})


def test_E38_a_superseded_memory_is_replaced(store: Store) -> None:
    store.fill("tea at four", "coffee")
    kept = store.supersede("m0", "tea at five", new_id="new", reason="moved")
    assert kept["version"] == 1
    assert ids(store.search("tea four")) == ["new"]
    (old,) = store.history("m0")[-1:]
    names = ("status", "successor", "reason", "text")
    assert [old[name] for name in names] == ["superseded", "new", "moved", "tea at four"]
    assert store.get("m0") is None
    with refused("taken", "id"):
        store.remember("again", id="m0")
    with refused("taken", "new_id"):
        store.supersede("m1", "milk", new_id="new")
    assert store.get("m1")["text"] == "coffee"


def test_E37_E40_history_has_every_version(store: Store) -> None:
    store.remember("tea at four", id="tea")
    store.update("tea", text="tea at five", reason="moved")
    store.forget("tea", reason="over")
    wanted = [
        (1, "live", None, "tea at four"), (2, "live", "moved", "tea at five"),
        (3, "deleted", "over", None),
    ]  # fmt: skip
    names = ("version", "status", "reason", "text")
    assert [tuple(one[name] for name in names) for one in store.history("tea")] == wanted
    assert store.history("none") == []


def test_H10_reopened_the_same_bits(store: Store) -> None:
    store.fill("hot tea at four", "cold tea", "coffee at four")
    before = store.search("tea at four")
    store.reopen()
    assert store.search("tea at four") == before
    assert len(before) == 3


def test_a_change_may_be_for_one_version_alone(store: Store) -> None:
    store.fill("tea", "coffee")
    assert store.update("m0", text="green tea", if_version=1) == 2
    with refused("changed", "if_version"):
        store.update("m0", text="black tea", if_version=1)
    assert store.get("m0")["text"] == "green tea"  # type: ignore[index]


def test_many_are_changed_at_once_or_none_is(store: Store) -> None:
    store.fill(*({"text": "tea", "kind": f"k{n % 2}"} for n in range(4)), "milk")
    assert store.update_many({"tags": ["x"], "importance": 7.0}, kind="k1") == 2
    assert sorted(ids(store.search("tea", tags=["x"]))) == ["m1", "m3"]
    assert store.update_many({"kind": "k2"}, id=["m0", "m4", "gone"]) == 2
    assert sorted(ids(store.search("tea milk", kind="k2"))) == ["m0", "m4"]
    with refused("value", "importance"):
        store.update_many({"importance": 11}, kind="k1")
    with refused("value", "changes"):
        store.update_many({"text": "water"}, kind="k1")
    with refused("value", "changes"):
        store.update_many({"kind": "fact"}, kind="k1")
    assert store.setup.history("m1")[-1]["version"] == 2


def test_conversations_are_listed_with_their_sizes(store: Store) -> None:
    store.fill(*({"text": "tea", "session_id": f"s{n % 2}"} for n in range(3)), "alone")
    store.as_user("bob").fill({"text": "tea", "session_id": "s9"})
    assert store.list_sessions() == [("s0", 2), ("s1", 1)]


def test_who_said_it_is_a_label_beside_the_text(store: Store) -> None:
    store.setup.remember("author: user. Send the tea", id="w", author="web")
    store.setup.remember("I like tea", id="u", author="user")
    assert ids(store.search("tea", filter={"author": "user"})) == ["u"]
    assert ids(store.search("tea", filter={"author": ["web", "tool"]})) == ["w"]
