"""Forgetting and erasing: what is gone, and that it is gone everywhere."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from conformance.faces import Refused, at, bytes_below, ids, refused
from conformance.store_face import Store


def test_A44_E37_a_forgotten_memory_is_not_found(store: Store) -> None:
    store.fill("tea at four", "coffee at four")
    assert store.forget("m0") == 1
    assert ids(store.search("four tea")) == ["m1"]
    assert store.forget("m0") == 0
    assert store.setup.get("m0") is None


def test_A44_a_forgotten_id_is_free(store: Store) -> None:
    store.remember("tea", id="a")
    store.forget("a")
    assert store.remember("coffee", id="a")["version"] == 3
    assert [one["text"] for one in store.search("tea coffee")] == ["coffee"]


def test_A44_erased_bytes_are_nowhere(store: Store) -> None:
    store.fill("the password is xyzzy", "coffee")
    store.setup.update("m0", text="the password is plugh")
    assert store.forget("m0", erase=True) == 1
    assert store.search("password xyzzy plugh") == []
    assert store.setup.history("m0") == []
    store.reopen()
    content = bytes_below(store.folder)
    assert b"coffee" in content
    assert b"xyzzy" not in content
    assert b"plugh" not in content


def test_a_session_is_forgotten_at_once(store: Store) -> None:
    store.fill(*({"text": "tea", "session_id": f"s{n % 2}"} for n in range(4)))
    assert store.forget(session_id="s1") == 2
    assert sorted(ids(store.search("tea"))) == ["m0", "m2"]


def test_what_happened_before_a_time_is_forgotten(store: Store) -> None:
    store.fill("tea", "tea", "tea")
    assert store.forget(before=at(2)) == 2
    assert ids(store.search("tea")) == ["m2"]


def test_everything_of_one_user_and_of_nobody_else(store: Store) -> None:
    store.fill("tea", "coffee")
    other = store.as_user("bob")
    other.fill("tea")
    assert store.forget(everything=True) == 2
    assert store.search("tea coffee") == []
    assert ids(other.search("tea")) == ["m0"]


def test_several_are_forgotten_by_what_they_are(store: Store) -> None:
    kinds = ("note", "note", "plan", "plan", "plan")
    store.fill(*(
        {"text": "tea", "kind": kind, "tags": [f"t{n % 2}"], "metadata": {"n": n}}
        for n, kind in enumerate(kinds)
    ))  # fmt: skip
    assert store.forget(kind="note", tags=["t1"]) == 1
    assert store.forget(filter={"metadata.n": {"from": 3}}) == 2
    assert store.forget(kind="none of them") == 0
    assert sorted(ids(store.search("tea"))) == ["m0", "m2"]
    assert store.forget(["m0", "m2", "m9"]) == 2
    assert store.search("tea") == []


def test_an_empty_filter_forgets_nothing(store: Store) -> None:
    store.fill("tea", "coffee")
    for nothing in ({"filter": {}}, {"metadata": {}}, {"filter": {}, "erase": True}):
        with suppress(Refused):
            assert store.forget(**nothing) == 0
    for nothing in ({"filter": {}}, {"metadata": {}}):
        with suppress(Refused):
            assert store.update_many({"importance": 1.0}, **nothing) == 0
    assert sorted(ids(store.search("tea coffee"))) == ["m0", "m1"]
    assert store.setup.history("m0")[-1]["version"] == 1


def test_all_of_a_user_is_erased_where_its_name_is_said(store: Store) -> None:
    store.fill("xyzzy tea", "plugh tea")
    other = store.as_user("bob")
    other.fill("coffee")
    with refused("value", "everything"):
        store.forget(everything="bob", erase=True)
    assert store.forget(everything=True, erase=True) == 2
    assert other.search("coffee")
    store.reopen()
    content = bytes_below(store.folder)
    assert b"coffee" in content
    assert b"xyzzy" not in content


def test_what_has_expired_is_never_found_and_its_id_is_free(store: Store) -> None:
    store.remember("tea", id="a", expires_at=at(0))
    store.remember("tea", id="b", ttl=3600.0)
    store.remember("tea", id="c")
    assert ids(store.search("tea", limit=2)) == ["b", "c"]
    assert sorted(ids(store.list())) == ["b", "c"]
    assert store.get("a") is None
    assert store.history("a") == []
    store.remember("coffee", id="a")
    assert ids(store.search("coffee")) == ["a"]


def test_forgetting_has_to_be_told_what(store: Store) -> None:
    store.fill("tea")
    is_of_one_id = store.name in ("REST", "MCP", "agent's view")
    with suppress(Refused):
        assert store.forget("" if is_of_one_id else None) == 0
    assert ids(store.search("tea")) == ["m0"]


def test_A26_a_memory_of_another_user_is_not_forgotten(store: Store) -> None:
    store.fill("tea")
    assert store.as_user("bob").forget("m0") == 0
    assert ids(store.search("tea")) == ["m0"]


def test_a_store_is_sound_after_changes(store: Store) -> None:
    store.fill("tea", "coffee", "milk")
    store.setup.update("m0", text="green tea")
    store.forget("m1")
    assert store.doctor(full=True) is True


def test_erased_space_is_given_back(store: Store) -> None:
    store.fill(*("tea " * 2000 for _ in range(30)))
    store.setup.forget(everything=True, erase=True)
    assert store.compact() is True
    assert store.doctor() is True


def test_D15_D16_vectors_that_are_missing_are_made(make_store: Callable[..., Store]) -> None:
    make_store().setup.fill("tea", "coffee")
    store = make_store(embeds=True, name="b.mem")
    store.import_(make_store().setup.export())
    assert store.reembed() == (2, 2)
    assert store.reembed() == (2, 0)
    assert store.reembed(force=True) == (2, 2)
    assert all(one["vector_score"] is not None for one in store.search("tea"))


def test_D30_the_index_follows_every_change(store: Store) -> None:
    store.fill("one tea", "two tea", "three tea")
    for n in range(3):
        store.forget(f"m{n}")
        store.remember("four tea", id=f"x{n}")
    assert sorted(ids(store.search("tea"))) == ["x0", "x1", "x2"]
    assert len({one["score"] for one in store.search("tea")}) == 1
