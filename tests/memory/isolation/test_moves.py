"""What moves to another cell leaves the one it was in, and comes with its new audience."""

import random
from typing import Any

import pytest

from hyrecall.memory import MemorySync
from memory.stores import folder, open_store

PLACE: dict[str, Any] = {"org": "acme", "workspace": "west"}
AGENTS = ("ann", "ben", "cy")


def check(memory: MemorySync, model: dict[tuple[str, str], str]) -> None:
    """Everybody sees its own, and of others what is global."""
    for agent in AGENTS:
        view = memory.agent(agent, **PLACE)
        wanted = {
            (owner, key)
            for (owner, key), visibility in model.items()
            if owner == agent or visibility == "global"
        }
        found = {(m.episode.user_id, m.episode.id) for m in view.search("note", limit=60)}
        listed = {(one.user_id, one.id) for one in view.list()}
        assert found == listed == wanted


@pytest.mark.plain_cases(1)
@pytest.mark.parametrize("seed", range(6))
def test_I6_visibility_is_that_of_the_last_change(seed: int) -> None:
    rng = random.Random(seed)
    path = folder()
    memory = open_store(path)
    for agent in AGENTS:
        memory.set_policy(agent, policy="shared", **PLACE)
    model: dict[tuple[str, str], str] = {}
    for step in range(60):
        agent, key = rng.choice(AGENTS), f"m{rng.randrange(4)}"
        view = memory.agent(agent, **PLACE)
        visibility: Any = rng.choice(["private", "global"])
        mine = (agent, key) in model
        match rng.randrange(5):
            case 0 | 1 if not mine:
                view.remember(f"note {key}", id=key, visibility=visibility)
                model[agent, key] = visibility
            case 2 if mine:
                view.update(key, reason="to move", visibility=visibility)
                model[agent, key] = visibility
            case 3 if mine:
                assert view.forget(key, reason="to see") == 1
                del model[agent, key]
            case 4 if step % 7 == 0:
                memory.forget(user_id=agent, everything=True, erase=True, **PLACE)
                model = {name: seen for name, seen in model.items() if name[0] != agent}
                memory.set_policy(agent, policy="shared", **PLACE)
            case _:
                continue
        check(memory, model)
        if rng.random() < 0.1:
            memory.close()
            memory = open_store(path)
            check(memory, model)
    memory.close()
