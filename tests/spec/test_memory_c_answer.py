"""Part C of the acceptance rows, through a store: the plain answer, its edges and its faces."""

import asyncio
import inspect
import json
from typing import Any

import pytest

from hyrecall import recipes
from hyrecall.errors import OptionError, ScopeError
from hyrecall.memory import Episode, Memory, MemorySync, ahm_recall, hm_recall
from memory.stores import NOON, Clock, open_store
from spec.test_memory_c import graph_store


def test_C01_C19_the_plain_answer() -> None:
    with graph_store(embedder=None) as memory:
        answer = hm_recall(memory, "JWT", user_id="alice")
        assert set(answer) == {"results", "edges", "count", "metadata"}
        assert set(answer["metadata"]) == {"phase", "weights", "tiers", "degraded", "took_ms"}
        first = answer["results"][0]
        assert set(first) == {
            "key", "type", "description", "data", "score", "expansion_context",
        }  # fmt: skip
        assert first["key"] == "jwt"
        assert [one["key"] for one in first["expansion_context"]] == ["auth"]
        assert [edge["id"] for edge in answer["edges"]] == ["e1"]
        assert answer["edges"][0]["participants"] == ["jwt", "auth"]
        assert all(0 <= one["score"] <= 1 for one in answer["results"])
        assert answer["count"] == len(answer["results"])
        assert answer["metadata"]["degraded"] == []
        assert answer["metadata"]["phase"] == "early"
        assert sum(answer["metadata"]["weights"].values()) == pytest.approx(1.0)
        assert answer["metadata"]["tiers"]["text"] >= 1
        forced = hm_recall(memory, "^j.t$", user_id="alice", force_regex=True)
        assert [one["key"] for one in forced["results"]] == ["jwt"]
        for wrong in ({"max_results": "5"}, {"max_results": 2.5}):
            with pytest.raises(OptionError, match="max_results"):
                hm_recall(memory, "tea", **wrong)  # type: ignore[arg-type]


NUMBER = (int, float)
NODE = {"key": str, "type": str, "description": str, "data": dict}
ANSWER: Any = {
    "results": [{**NODE, "score": NUMBER, "expansion_context": [{**NODE, "rel": str}]}],
    "edges": [
        {"id": str, "relationship": str, "description": str, "data": dict, "participants": [str]}
    ],
    "count": int,
    "metadata": {
        "phase": str,
        "weights": {"general": NUMBER, "topical": NUMBER, "session": NUMBER},
        "tiers": {"text": int, "edges": int, "embedding": int, "regex": int},
        "degraded": [str],
        "took_ms": NUMBER,
    },
}


def fits(given: Any, wish: Any) -> bool:
    """Whether parsed JSON has the fields and types of a wish; a list holds any number of one."""
    if isinstance(wish, dict):
        is_same = isinstance(given, dict) and given.keys() == wish.keys()
        return is_same and all(fits(given[name], wish[name]) for name in wish)
    if isinstance(wish, list):
        return isinstance(given, list) and all(fits(one, wish[0]) for one in given)
    return isinstance(given, wish) and not isinstance(given, bool)


def test_C01_C19_parameters_and_the_answer_as_json() -> None:
    told = {name: one.default for name, one in inspect.signature(hm_recall).parameters.items()}
    empty = inspect.Parameter.empty
    assert told == {
        "memory": empty, "query": empty, "session_id": "default", "max_results": 10,
        "force_regex": False, "user_id": None, "org": None, "workspace": None, "agent": None,
    }  # fmt: skip
    twin = {name: one.default for name, one in inspect.signature(ahm_recall).parameters.items()}
    assert twin == told
    with graph_store() as memory:
        memory.remember_batch(
            [Episode(id=f"n{at}", user_id="alice", output=f"oak {at}") for at in range(60)]
        )
        memory.link(["n1", "jwt", "n2"], "oak of", user_id="alice", id="e3", description="trees")
        counts = {
            given: hm_recall(memory, "oak", user_id="alice", max_results=given)["count"]
            for given in (-5, 0, 1, 2, 49, 50, 51, 55, 1_000)
        }
        assert counts == {-5: 1, 0: 1, 1: 1, 2: 2, 49: 49, 50: 50, 51: 50, 55: 50, 1_000: 50}
        assert hm_recall(memory, "oak", user_id="alice")["count"] == 10
        answer = json.loads(json.dumps(hm_recall(memory, "jwt", user_id="alice")))
        assert fits(answer, ANSWER), answer
        assert answer["edges"]
        assert any(one["expansion_context"] for one in answer["results"])
        for wrong in ({"count": "3"}, {"results": [{}]}, {"more": 1}):  # the control
            assert not fits(answer | wrong, ANSWER)


def decisions(memory: MemorySync, **place: Any) -> None:
    """The document's example: two nodes that the query finds, and what connects them."""
    given = {"user_id": "alice", "occurred_at": NOON} | place
    for key, kind, text in (
        ("jwt", "technology", "JWT tokens for the API"),
        ("auth", "decision", "authentication decisions of the team"),
        ("meeting", "event", "the weekly round"),
        ("oak", "tree", "a tree in the yard"),
    ):
        memory.remember(text, id=key, kind=kind, metadata={"of": key}, **given)
    where = {name: given[name] for name in ("user_id", "org", "workspace") if name in given}
    memory.link(["meeting", "auth"], "held", id="a-held", **where)
    memory.link(["jwt", "auth"], "decided by", id="b-decided", data={"in": "May"}, **where)
    memory.link(["meeting", "oak"], "under", id="c-under", **where)
    memory.link(["jwt", "meeting", "oak"], "minutes", id="d-minutes", **where)


def test_C18_every_edge_between_results_and_context_is_returned() -> None:
    with open_store(recipe=recipes.hypergraph, clock=Clock(), embedder=None) as memory:
        decisions(memory)
        answer = hm_recall(memory, "JWT authentication decisions", user_id="alice")
        found = [one["key"] for one in answer["results"]]
        assert set(found) == {"jwt", "auth"}
        around = {one["key"] for hit in answer["results"] for one in hit["expansion_context"]}
        assert around == {"meeting", "oak"}
        # Every edge with two ends among the four; what connects the two results is among them.
        assert {edge["id"] for edge in answer["edges"]} == {
            "a-held", "b-decided", "c-under", "d-minutes",
        }  # fmt: skip
        (jwt,) = (one for one in answer["results"] if one["key"] == "jwt")
        assert (jwt["type"], jwt["data"]) == ("technology", {"of": "jwt"})
        rels = {one["key"]: one["rel"] for one in jwt["expansion_context"]}
        assert rels["meeting"] == "minutes"
        # The edge that the query's words name comes first, though it was put there second.
        answer = hm_recall(memory, "who decided on JWT", user_id="alice", session_id="other")
        assert {"jwt", "auth"} <= {one["key"] for one in answer["results"]}
        assert answer["edges"][0]["id"] == "b-decided"
        assert answer["edges"][0]["data"] == {"in": "May"}


def test_C18_of_two_nodes_that_are_found_without_context_the_edge_is_returned() -> None:
    with open_store(recipe=recipes.hypergraph, clock=Clock(), embedder=None) as memory:
        for key in ("jwt", "auth"):
            memory.remember(f"{key} decisions", id=key, user_id="alice", occurred_at=NOON)
        memory.link(["jwt", "auth"], "decided by", id="e", user_id="alice")
        answer = hm_recall(memory, "decisions", user_id="alice")
        assert all(not one["expansion_context"] for one in answer["results"])
        assert [edge["id"] for edge in answer["edges"]] == ["e"]


def test_C18_edges_of_others_are_not_returned() -> None:
    with open_store(recipe=recipes.hypergraph, clock=Clock(), embedder=None) as memory:
        decisions(memory)
        decisions(memory, user_id="bob")
        memory.unlink("b-decided", user_id="alice")
        answer = hm_recall(memory, "JWT authentication decisions", user_id="alice")
        assert {edge["id"] for edge in answer["edges"]} == {"a-held", "c-under", "d-minutes"}


def test_C19_tiers_keep_every_arm_where_the_fallback_ran() -> None:
    with graph_store(embedder=None) as memory:
        answer = hm_recall(memory, "okens expi", user_id="alice")
        assert [one["key"] for one in answer["results"]] == ["jwt"]
        assert answer["metadata"]["tiers"] == {"text": 0, "edges": 0, "regex": 1}


def test_C01_an_agent_sees_by_its_policy_and_both_faces_are_one() -> None:
    place = {"org": "acme", "workspace": "lab"}
    with open_store(recipe=recipes.hypergraph, clock=Clock(), embedder=None) as memory:
        decisions(memory, user_id="ada", **place)
        decisions(memory, user_id="ben", **place)
        path = memory._store.database.folder
        mine = hm_recall(memory, "JWT authentication decisions", agent="ada", **place)
        same = hm_recall(memory, "JWT authentication decisions", user_id="ada", **place)
        assert [one["key"] for one in mine["results"]] == [one["key"] for one in same["results"]]
        assert mine["edges"] == same["edges"]
        assert len(mine["edges"]) == 4
        assert not hm_recall(memory, "JWT", agent="cy", **place)["results"]
        with pytest.raises(ScopeError, match="org"):
            hm_recall(memory, "JWT", agent="ada")
        with pytest.raises(OptionError, match="agent: expected an agent, or user_id="):
            hm_recall(memory, "JWT", agent="ada", user_id="ada", **place)

    async def ask() -> Any:
        options = {"recipe": recipes.hypergraph, "embedder": None, "clock": Clock()}
        async with await Memory.open(path, **options) as face:
            by_agent = await ahm_recall(face, "JWT authentication decisions", agent="ada", **place)
            by_user = await ahm_recall(
                face, "JWT authentication decisions", "new", user_id="ada", **place
            )
            return by_agent, by_user

    for answer in asyncio.run(ask()):
        assert [one["key"] for one in answer["results"]] == [one["key"] for one in mine["results"]]
        assert answer["edges"] == mine["edges"]
