"""Memories as nodes of a graph: four search strategies, a conversation, context."""

from hyrecall import recipes
from hyrecall.memory import MemorySync
from hyrecall.systems.hypergraph import hm_recall

NODES = {
    "auth": "how users sign in to the service",
    "jwt": "JWT tokens expire after an hour",
    "decision-7": "decided: authentication by signed tokens, no server sessions",
    "ci": "builds run nightly",
    "bus": "the number 9 leaves at noon",
}

with MemorySync.in_memory(recipe=recipes.hypergraph, embedder=None) as memory:
    for key, description in NODES.items():
        memory.remember(description, id=key, user_id="ann")
    memory.link(["decision-7", "jwt", "auth"], "decides on authentication", user_id="ann")
    memory.link(["jwt", "ci"], "keys are rotated by", user_id="ann")

    reply = hm_recall(memory, "JWT authentication decisions", user_id="ann")
    for node in reply["results"]:
        around = ", ".join(one["key"] for one in node["expansion_context"])
        print(f"{node['key']:12} {node['score']:.3f}  {node['description']}  [{around}]")
    print(reply["metadata"]["phase"], reply["metadata"]["weights"], reply["metadata"]["tiers"])
    assert {"jwt", "decision-7"} <= {node["key"] for node in reply["results"]}
    # The context of a result is its neighbours that are not results themselves.
    context = {node["key"]: node["expansion_context"] for node in reply["results"]}
    assert [one["key"] for one in context["jwt"]] == ["ci"]

    # With force_regex only the pattern runs.
    by_pattern = hm_recall(memory, r"^decision-\d+$", force_regex=True, user_id="ann")
    assert [node["key"] for node in by_pattern["results"]] == ["decision-7"]

    # In the same conversation, memories that it returned before rank higher.
    again = hm_recall(memory, "tokens", session_id="default", user_id="ann")
    print(again["metadata"]["phase"], [node["key"] for node in again["results"]])
