"""Memories as files, and exports that are imported again."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress

from conformance.faces import Refused, begins, ids
from conformance.store_face import Store


def test_E42_memories_are_files_by_kind(store: Store) -> None:
    store.fill("tea at four", {"text": "coffee", "kind": "note", "session_id": "s1"})
    assert "/memories/" in store.ls()
    assert sorted(store.ls("/memories")) == ["/memories/episodic/", "/memories/note/"]
    assert store.ls("/memories/episodic") == ["/memories/episodic/m0.md"]
    assert begins(store.cat("/memories/episodic/m0.md"), "tea at four")
    assert store.ls("/sessions") == ["/sessions/s1.md"]


def test_E42_a_file_that_is_not_there_is_empty(store: Store) -> None:
    store.fill("tea")
    assert store.cat("/memories/episodic/none.md") == ""
    assert store.ls("/nowhere") == []
    for path in ("../../etc/passwd", "/../etc/passwd", "/memories/../../../etc/passwd"):
        with suppress(Refused):
            assert "root:" not in store.cat(path)


def test_E42_grep_takes_texts_literally(store: Store) -> None:
    store.fill("100% sure", "1000 sure", "snake_case", "snakeXcase")
    assert store.grep("100%") == [("/memories/episodic/m0.md", 1, "100% sure")]
    assert [line[2] for line in store.grep("snake_case")] == ["snake_case"]
    assert [line[2] for line in store.grep("SURE")] == ["1000 sure", "100% sure"]


def test_grep_by_regular_expression_and_limit(store: Store) -> None:
    store.fill("tea 1", "tea 22", "coffee 333")
    assert [line[2] for line in store.grep(r"^tea \d+$", regex=True)] == ["tea 22", "tea 1"]
    assert [line[2] for line in store.grep(r"\d", regex=True, limit=1)] == ["coffee 333"]


def test_E42_find_knows_patterns_of_names(store: Store) -> None:
    store.fill(*({"text": "tea", "id": name} for name in ("a1", "a2", "b1")))
    assert sorted(store.find("a*")) == ["/memories/episodic/a1.md", "/memories/episodic/a2.md"]
    assert store.find("a*", limit=1) == ["/memories/episodic/a2.md"]
    assert store.find("*.txt") == []


def test_find_and_grep_by_filter(store: Store) -> None:
    store.fill(*({"text": "tea", "importance": n, "metadata": {"n": n}} for n in range(3)))
    assert store.find("*", filter={"importance": {"from": 2}}) == ["/memories/episodic/m2.md"]
    for only in ({"importance": [0]}, {"metadata.n": 0}):
        assert [line[0] for line in store.grep("tea", filter=only)] == ["/memories/episodic/m0.md"]


def test_the_index_of_files_lists_the_newest(store: Store) -> None:
    store.fill(*(f"tea {n}" for n in range(3)))
    text = store.cat("/index.md")
    assert begins(text, "## Newest", "tea 2", "tea 1", "tea 0", "## Sessions")


def test_facts_and_pinned_memories_are_files(store: Store) -> None:
    store.setup.remember_fact("alice", "likes", "tea", id="f")
    store.fill({"text": "coffee", "pinned": True})
    assert begins(store.cat("/facts/alice.md"), "likes: tea")
    assert [line.rsplit("/", 1)[1] for line in store.ls("/pinned")] == ["m0.md"]


def test_E36_files_are_those_of_the_user(store: Store) -> None:
    store.fill("tea")
    other = store.as_user("bob")
    assert other.grep("tea") == other.find("*") == []
    assert other.cat("/memories/episodic/m0.md") == ""


def test_A44_an_export_is_of_one_user(store: Store) -> None:
    store.fill("tea", "coffee")
    store.as_user("bob").fill("milk")
    lines = store.export()
    assert json.loads(lines[0]) == {"format": 2}
    assert [json.loads(line)["version"]["content"]["text"] for line in lines[1:]] == [
        "tea",
        "coffee",
    ]


def test_an_export_with_history_has_every_version(store: Store) -> None:
    store.fill("tea")
    store.setup.update("m0", text="coffee", reason="changed")
    store.setup.forget("m0")
    assert len(store.export()) == 1
    statuses = [
        json.loads(line)["version"].get("status", "live") for line in store.export(history=True)[1:]
    ]
    assert statuses == ["live", "live", "deleted"]


def test_H10_an_import_restores_the_same_replies(make_store: Callable[..., Store]) -> None:
    store, copy = make_store(), make_store(name="b.mem")
    store.fill("hot tea", "cold tea", "coffee")
    store.setup.link(["m0", "m1"], "is not", id="edge")
    store.setup.feedback("hot", ["m0"])
    lines = store.setup.export()
    assert copy.import_(lines) == (5, 0, [])
    assert copy.search("hot tea") == store.search("hot tea")
    assert copy.setup.links("m0") == store.setup.links("m0")
    assert copy.setup.list_feedback() == [{"query": "hot", "used": ["m0"]}]


def test_an_import_leaves_what_is_there(store: Store) -> None:
    store.fill("tea", "coffee")
    lines = store.setup.export()
    store.setup.update("m0", text="green tea")
    store.setup.forget("m1")
    done = store.import_(lines)
    assert done[0] == 0
    assert [one["text"] for one in store.search("tea coffee")] == ["green tea"]


def test_an_import_reports_the_lines_that_it_does_not_take(
    make_store: Callable[..., Store],
) -> None:
    store = make_store()
    store.fill("tea", "coffee")
    lines = store.setup.export()
    lines[1] = lines[1].replace('"content"', '"contents"')
    copy = make_store(name="b.mem")
    assert copy.import_([*lines, "no json"]) == (1, 0, [2, 4])
    assert ids(copy.search("tea coffee")) == ["m1"]
