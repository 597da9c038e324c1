"""Agents see by policy and visibility what they should, by every method; in doubt less."""

import logging
import random
from collections.abc import Iterator
from typing import Any

import pytest

from hyrecall import recipes
from hyrecall.errors import NotFoundError, OptionError, ScopeError
from hyrecall.memory import AgentMemorySync, Episode, Fact, MemorySync
from memory.stores import NOON, folder, open_store

PLACE = {"org": "acme", "workspace": "west"}
# Whose a memory is, and how visible; and the group of whom it is.
KEPT = {
    "own private": ("ann", "private"),
    "own global": ("ann", "global"),
    "fellow private": ("ben", "private"),
    "fellow global": ("ben", "global"),
    "stranger private": ("cy", "private"),
    "stranger global": ("cy", "global"),
}
OWN = {"own private", "own global"}
SEEN = {
    "isolated": OWN,
    "shared": OWN | {"fellow global", "stranger global"},
    "group": OWN | {"fellow global"},
}


@pytest.fixture
def memory() -> Iterator[MemorySync]:
    # Not honeycomb: it drops near copies and answers a blank query with nothing.
    with open_store(recipe=recipes.loom) as made:
        for at, (name, (agent, visibility)) in enumerate(KEPT.items()):
            place = {"user_id": agent, "visibility": visibility, **PLACE}
            made.remember(f"note {name}", id=name, kind="note", **place)
            made.remember_fact(
                Fact(
                    subject=f"s{at}", predicate="is", object=name, valid_from=NOON,
                    id=f"fact {name}", **place,
                )  # type: ignore[arg-type]
            )  # fmt: skip
            made.link([name, "x"], "beside", id=f"edge {name}", **place)
        for place in ({}, {"org": "acme", "workspace": "east"}, {"org": "b", "workspace": "west"}):
            made.remember("note elsewhere", user_id="ann", visibility="global", **place)
        made.set_policy("ben", policy="group", policy_group="g", **PLACE)
        made.set_policy("cy", policy="group", policy_group="h", **PLACE)
        yield made


def seen_by(view: AgentMemorySync) -> dict[str, set[str]]:
    """What each reading method shows of what is kept."""
    facts = {fact.object for fact in view.recall_facts("is", limit=50)}
    return {
        "search": {m.episode.id for m in view.search("note", kind="note", limit=50)},
        "blank": {m.episode.id for m in view.search("", kind="note", limit=50)},
        "list": {episode.id for episode in view.list(kind="note")},
        "get": {name for name in KEPT if view.get(name) is not None},
        "history": {name for name in KEPT if view.history(name)},
        "links": {name for name in KEPT if view.links(name)},
        "facts": facts,
    }


@pytest.mark.parametrize("policy", SEEN)
def test_E34_policies_and_visibilities(memory: MemorySync, policy: str) -> None:
    group = "g" if policy == "group" else None
    memory.set_policy("ann", policy=policy, policy_group=group, **PLACE)
    found = seen_by(memory.agent("ann", **PLACE))
    assert found == dict.fromkeys(found, SEEN[policy])
    matches = memory.agent("ann", **PLACE).search("note")
    assert matches.faults == ()
    assert matches.scope is not None
    assert (matches.scope.org, matches.scope.workspace) == ("acme", "west")
    assert (matches.scope.user, matches.scope.policy) == ("ann", policy)


def test_an_agent_that_is_not_in_the_roster_is_isolated(memory: MemorySync) -> None:
    matches = memory.agent("ann", **PLACE).search("note", kind="note")
    assert {match.episode.id for match in matches} == OWN
    assert matches.faults == ()


@pytest.mark.parametrize("policy", ["all", "", "SHARED", "shared "])
def test_E35_an_unknown_policy_closes(
    memory: MemorySync, policy: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(OptionError, match="policy"):
        memory.set_policy("ann", policy=policy, **PLACE)
    memory.set_policy("ann", policy="shared", **PLACE)
    with memory._store.database.transaction() as connection:
        connection.execute("UPDATE roster SET policy = ? WHERE agent = 'ann'", (policy,))
    with caplog.at_level(logging.WARNING, "hyrecall.memory"):
        matches = memory.agent("ann", **PLACE).search("note", kind="note")
    assert {match.episode.id for match in matches} == OWN
    (fault,) = matches.faults
    assert (fault.org, fault.workspace, fault.agent, fault.policy) == (
        "acme", "west", "ann", policy,
    )  # fmt: skip
    assert fault.reason == "an unknown policy"
    assert any("policy" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("agent", ["", "  "])
def test_E35_a_blank_agent_sees_nothing_of_others(memory: MemorySync, agent: str) -> None:
    view = memory.agent(agent, **PLACE)
    matches = view.search("note", kind="note")
    assert list(matches) == []
    assert [fault.reason for fault in matches.faults] == ["a blank agent"]
    with pytest.raises(ScopeError, match="agent"):
        view.remember("of nobody")


def test_E35_a_group_without_members_or_name_is_own_only(memory: MemorySync) -> None:
    for group in ("nobody else's", None):
        memory.set_policy("ann", policy="group", policy_group=group, **PLACE)
        matches = memory.agent("ann", **PLACE).search("note", kind="note")
        assert {match.episode.id for match in matches} == OWN
        assert matches.faults == ()


def test_E33_no_filter_crosses_the_partition(memory: MemorySync) -> None:
    import hyrecall as hr

    view = memory.agent("ann", **PLACE)
    for name in ("org", "workspace", "user", "visibility"):
        with pytest.raises(OptionError, match=name):
            view.search("note", filter=hr.Filter(**{name: hr.NotNull()}))
    wide = hr.Filter(kind="note") | ~hr.Filter(kind="note")
    assert {m.episode.id for m in view.search("note", kind="note", filter=wide)} == OWN


def test_an_agent_writes_its_own_only(memory: MemorySync) -> None:
    memory.set_policy("ann", policy="shared", **PLACE)
    view = memory.agent("ann", **PLACE)
    for name in set(KEPT) - OWN:
        with pytest.raises(NotFoundError, match="a memory that is there"):
            view.update(name, reason="to try", text="mine now")
        assert view.forget(name, reason="to try") == 0
    kept = view.remember("note of mine", visibility="global", kind="note")
    assert view.get(kept.id) is not None
    other = memory.agent("ben", **PLACE)
    memory.set_policy("ben", policy="shared", **PLACE)
    found = other.get(kept.id)
    assert found is not None
    assert found.user_id == "ann"


def test_of_others_only_what_is_there_has_a_history(memory: MemorySync) -> None:
    """And not why it was changed, nor what came before it was last taken away."""
    memory.set_policy("ann", policy="shared", **PLACE)
    view, ben = memory.agent("ann", **PLACE), memory.agent("ben", **PLACE)

    def shown() -> list[tuple[int, str | None, str | None]]:
        return [
            (one.version, one.reason, None if one.episode is None else one.episode.text)
            for one in view.history("fellow global")
        ]

    assert shown() == [(1, None, "note fellow global")]
    ben.update("fellow global", reason="it was wrong", text="note two")
    assert shown() == [(1, None, "note fellow global"), (2, None, "note two")]
    ben.forget("fellow global", reason="for nobody's eyes")
    assert shown() == []
    ben.remember("note three", id="fellow global", visibility="global")
    assert shown() == [(4, None, "note three")]
    ben.update("fellow global", reason="mine alone", visibility="private")
    assert shown() == []
    ben.update("fellow global", reason="to all", visibility="global")
    following = Episode(id="next", user_id="ben", text="note of ben's own", **PLACE)
    memory.supersede("fellow global", following, user_id="ben", reason="newer", **PLACE)
    assert shown() == []
    own = ben.history("fellow global")
    assert (own[-1].reason, own[-1].successor) == ("newer", "next")


def test_E40_an_agent_says_why(memory: MemorySync) -> None:
    view = memory.agent("ann", **PLACE)
    with pytest.raises(TypeError):
        view.update("own private", text="x")  # type: ignore[call-arg]
    for wrong in ("", "  ", None, 5):
        with pytest.raises((ValueError, TypeError), match="reason"):
            view.update("own private", reason=wrong, text="x")  # type: ignore[arg-type]
        with pytest.raises((ValueError, TypeError), match="reason"):
            view.forget("own private", reason=wrong)  # type: ignore[arg-type]
    view.update("own private", reason="it was wrong", text="y")
    view.forget("own private", reason="it is old")
    assert [one.reason for one in view.history("own private")] == [
        None, "it was wrong", "it is old",
    ]  # fmt: skip
    assert view.get("own private") is None


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
