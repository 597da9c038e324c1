"""Agents of one workspace: each reads by its own policy, in recall and in browsing."""

from hyrecall import recipes
from hyrecall.memory import MemorySync

HOUSE = {"org": "acme", "workspace": "lab"}

with MemorySync.in_memory(recipe=recipes.honeycomb, embedder="off") as memory:
    memory.set_policy("planner", **HOUSE, policy="shared")
    memory.set_policy("intern", **HOUSE, policy="isolated")
    planner, intern = memory.agent("planner", **HOUSE), memory.agent("intern", **HOUSE)

    memory.remember(
        "The deploy window is Friday noon", id="window", user_id="ops", **HOUSE,
        visibility="global", source="memory",
    )  # fmt: skip
    memory.remember(
        "ran: deploy --dry-run, deploy window open?", id="raw", user_id="ops", **HOUSE,
        visibility="global", source="session", session_id="s1",
    )  # fmt: skip
    memory.remember("ops keeps a secret", id="secret", user_id="ops", **HOUSE)
    memory.remember("to deploy is not my business", user_id="intern", **HOUSE)

    # A distilled fact comes before raw dialogue. Each agent sees only what its policy allows.
    matches = planner.search("deploy window")
    assert [match.episode.id for match in matches] == ["window", "raw"]
    print("planner:", [match.episode.text for match in matches], matches.scope)
    print("intern:", [match.episode.text for match in intern.search("deploy window")])

    # Embeddings are off here. So the answer is found by words, and is degraded.
    print("degraded:", matches.degraded, [str(reason) for reason in matches.reasons])

    # The newer version counts. The older version stays in the history.
    memory.update(
        "window", user_id="ops", **HOUSE, text="The deploy window is Monday noon", reason="moved"
    )
    print([(one.version, one.reason) for one in planner.history("window")])

    # Browsing shows the same memories as files.
    files = planner.browse()
    print(files.cat("/index.md"))
    assert files.find("*") == ["/shared/ops/episodic/raw.md", "/shared/ops/episodic/window.md"]
    assert files.cat("/memories/episodic/secret.md") == ""
    assert intern.browse().ls("/shared") == []
