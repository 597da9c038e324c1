"""``hyrecall recall`` says of a store what its Python methods say."""

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("apsw", reason="the extra [memory] is not installed")

from hyrecall import recipes
from hyrecall.memory import Episode, MemorySync

Run = Callable[..., SimpleNamespace]


def filled(path: Path, recipe: Any, **place: Any) -> None:
    """Two that hold the word, and an edge."""
    given = {"user_id": "ann", "occurred_at": "2026-06-01T12:00:00Z"} | place
    with MemorySync.open(path, embedder=None, recipe=recipe) as memory:
        for key, rating in (("low", 1.0), ("high", 9.0)):
            memory.remember(
                Episode(id=key, text=f"deploy {key}", importance=rating, tags=("deploy",), **given)
            )
        where = {name: given[name] for name in ("user_id", "org", "workspace") if name in given}
        memory.link(["low", "high"], "before", id="e", **where)


def ids(reply: SimpleNamespace) -> list[str]:
    assert reply.code == 0, reply.err
    return [one["episode"]["id"] for one in reply.data["items"]]


def test_a_store_is_searched_by_the_default_recipe_and_its_words_in_all_their_forms(
    run: Run, store: Path
) -> None:
    filled(store, None)
    asked = ("recall", "when was it deployed", "--user", "ann", "--json")
    reply = run(*asked)
    assert ids(reply) == ["low", "high"]
    assert [one["is_fill"] for one in reply.data["items"]] == [False, False]
    assert ids(run("recall", "", "--user", "ann", "--json")) == []
    assert ids(run("recall", "lunch", "--user", "ann", "--json")) == []
    filling = run(*asked, "--recipe", "loom")
    assert set(ids(filling)) == {"high", "low"}
    assert [one["is_fill"] for one in filling.data["items"]] == [True, True]


def test_the_setting_analyzer_is_that_of_a_store_unless_its_recipe_states_another(
    run: Run, store: Path
) -> None:
    filled(store, None)
    asked = ("recall", "when was it deployed", "--user", "ann", "--json")
    assert run("config", "set", "analyzer", "word").code == 0
    assert ids(run(*asked)) == []
    stemmed = run(*asked, "--recipe", "hebb")  # which states porter
    assert set(ids(stemmed)) == {"low", "high"}
    assert run("config", "unset", "analyzer").code == 0
    assert ids(run(*asked)) == ["low", "high"]


def test_a_pattern_by_force_and_all_that_a_graph_shows(run: Run, store: Path) -> None:
    filled(store, recipes.hypergraph)
    asked = ("recall", "--user", "ann", "--json")
    forced = run(*asked, "^l.w$", "--force-regex")
    assert ids(forced) == ["low"]
    assert forced.data["tiers"] == {"regex": 1}
    assert [[one["id"] for one in near] for near in forced.data["context"]] == [["high"]]
    assert [one["id"] for one in forced.data["edges"]] == ["e"]
    refused = run(*asked, "^l", "--force-regex", "--recipe", "loom")
    assert (refused.code, "--force-regex: expected --recipe hypergraph" in refused.err) == (1, True)
    words = run(*asked, "deploy", "--recipe", "hypergraph", "--session-id", "chat")
    assert words.data["phase"]["name"] == "early"
    phases = [
        run(*asked, "deploy", "--recipe", "hypergraph", "--session-id", "chat").data["phase"]
        for _ in range(3)
    ]
    assert [one["name"] for one in phases] == ["early", "early", "mid"]  # each is a process
    assert [one["is_fill"] for one in words.data["items"]] == [False, False]
    assert words.data["lexical_mode"] == "bm25"


def test_what_is_related_is_shown(run: Run, store: Path) -> None:
    filled(store, recipes.hebb)
    reply = run("recall", "low", "--user", "ann", "--recipe", "hebb", "--limit", 1, "--json")
    assert ids(reply) == ["low"]
    assert [one["id"] for one in reply.data["related"]] == ["high"]


def test_an_agent_sees_by_its_policy(run: Run, store: Path) -> None:
    place = {"org": "acme", "workspace": "lab"}
    filled(store, recipes.loom, user_id="ben", visibility="global", **place)
    with MemorySync.open(store, embedder=None) as memory:
        memory.set_policy("ada", policy="shared", **place)
    asked = ("recall", "deploy", "--org", "acme", "--workspace", "lab", "--json")
    assert sorted(ids(run(*asked, "--agent", "ada"))) == ["high", "low"]
    assert ids(run(*asked, "--agent", "cy")) == []
    both = run(*asked, "--agent", "ada", "--user", "ben")
    assert (both.code, "--agent: expected an agent, or --user, got both" in both.err) == (1, True)
    assert run("recall", "deploy", "--agent", "ada").code == 1


def test_rows_that_fill_the_list_are_marked_and_ranks_count_from_the_offset(
    run: Run, store: Path
) -> None:
    filled(store, recipes.loom)
    reply = run("recall", "low", "--user", "ann", "--recipe", "loom")
    hit, fill = (line.split() for line in reply.out.splitlines()[2::2])
    assert hit[:2] == ["1", "low"]
    assert fill[:3] == ["2", "high", "fill"]
    reply = run("recall", "deploy", "--user", "ann", "--offset", 1)
    assert [line.split()[0] for line in reply.out.splitlines()[2::2]] == ["2"]


@pytest.mark.parametrize("width", ["40", "80", "120"])
def test_a_table_of_a_store_has_whole_ids_and_its_texts_beneath(
    run: Run, store: Path, monkeypatch: pytest.MonkeyPatch, width: str
) -> None:
    with MemorySync.open(store, embedder=None) as memory:
        kept = [memory.remember("tea and milk " * 40, user_id="ann").id for _ in range(2)]
    monkeypatch.setenv("COLUMNS", width)
    reply = run("recall", "milk", "--user", "ann")
    lines = reply.out.splitlines()
    assert sorted(word for word in reply.out.split() if word.startswith("ep_")) == sorted(kept)
    assert max(map(len, lines)) <= max(int(width), 41)
    assert sum("milk tea and milk" in line for line in lines) >= 4
    for key in kept:
        assert run("forget", key, "--user", "ann").out == "1\n"


def test_the_json_of_a_recall_marks_what_holds_the_query_whole(run: Run, store: Path) -> None:
    with MemorySync.open(store, recipe=recipes.default, embedder=None) as memory:
        for key, text in (
            ("apart", "INV-2026 and 0042, INV-2026 and 0042"), ("whole", "paid INV-2026-0042"),
        ):  # fmt: skip
            memory.remember(text, id=key, user_id="ann")
    reply = run("recall", "INV-2026-0042", "--user", "ann", "--json")
    found = {one["episode"]["id"]: one["is_exact"] for one in reply.data["items"]}
    assert found == {"whole": True} | dict.fromkeys(set(found) - {"whole"}, False)
    assert ids(reply)[0] == "whole"
    shown = run("recall", "INV-2026-0042", "--user", "ann").out
    assert re.findall(r"exact  .*", shown) == [re.search(r"exact  .* paid INV-2026-0042", shown)[0]]
    longer = run("recall", "invoice INV-2026-0042", "--user", "ann", "--json")
    assert [one["is_exact"] for one in longer.data["items"]] == [False] * len(ids(longer))


def test_below_the_floor_of_confidence_nothing_is_shown(run: Run, store: Path) -> None:
    filled(store, None)
    asked = ("recall", "when was it deployed", "--user", "ann", "--json")
    sure = run(*asked, "--explain").data["confidence"]
    assert ids(run(*asked, "--min-confidence", str(sure))) == ["low", "high"]
    assert ids(run(*asked, "--min-confidence", str(sure + 0.001))) == []
