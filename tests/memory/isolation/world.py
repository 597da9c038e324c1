"""A store in which every cell holds secrets of its own, and what a viewer may be told of them."""

import asyncio
import dataclasses
import inspect
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from hyrecall.embed import HashEmbedder
from hyrecall.memory import (
    AgentMemory,
    Episode,
    Fact,
    Facts,
    Matches,
    Memory,
    MemorySync,
)
from memory.copies import copy_store
from memory.stores import DIM, HOUR, NOON, Clock, folder

WORDS = ("oak", "ash", "elm", "fir", "yew", "disk", "tea")
USERS = ("alice", "bob", "", None)
AGENTS = ("ada", "ben", "cy")
ORG, WORKSPACE = "acme", "west"
PARTITIONS = ((None, None), (ORG, WORKSPACE), (ORG, "east"), ("other", WORKSPACE))

PAST = ("told", "moved", "gone", "again", "old")

Cell = tuple[str | None, str | None, str | None, str]


@dataclass
class World:
    """A store, and per cell the secrets that lie there."""

    memory: MemorySync
    rng: random.Random
    secrets: dict[str, Cell] = field(default_factory=dict)
    n_secrets: int = 0

    def secret(self, cell: Cell) -> str:
        self.n_secrets += 1
        made = f"zq{self.n_secrets:04d}{self.rng.getrandbits(32):08x}"
        self.secrets[made] = cell
        return made

    def foreign(self, may_see: Callable[[Cell], bool]) -> list[str]:
        return [secret for secret, cell in self.secrets.items() if not may_see(cell)]


def cells() -> Iterator[Cell]:
    for org, workspace in PARTITIONS:
        users: tuple[str | None, ...] = AGENTS if org == ORG else USERS
        for user in (*users, "bob") if org == ORG else users:
            for visibility in ("private", "global"):
                yield org, workspace, user, visibility


def make_world(seed: int) -> World:
    """Open a copy, as this process has made it once: making it takes ten times as long."""
    path, secrets = made_world(seed)
    copied = folder()
    copy_store(path, copied)
    memory = MemorySync.open(copied, embedder=HashEmbedder(dim=DIM), clock=Clock())
    return World(memory, random.Random(seed), dict(secrets), len(secrets))


@cache
def made_world(seed: int) -> tuple[Path, dict[str, Cell]]:
    """The same ids are in every cell; tags, metadata, edges and facts hold secrets too."""
    rng = random.Random(seed)
    path = folder()
    memory = MemorySync.open(path, embedder=HashEmbedder(dim=DIM), clock=Clock())
    world = World(memory, rng)
    episodes = []
    for cell in cells():
        org, workspace, user, visibility = cell
        for at in range(3):
            text = " ".join(rng.choices(WORDS, k=4))
            episodes.append(
                Episode(
                    id=f"m{at}",
                    org=org,
                    workspace=workspace,
                    user_id=user,
                    visibility=visibility,
                    input=text,
                    text=f"{text} {world.secret(cell)}",
                    kind=rng.choice(["episodic", "note"]),
                    source=rng.choice(["memory", "session"]),
                    session_id=f"s{at}",
                    tags=("shared", world.secret(cell)),
                    metadata={"of": world.secret(cell)},
                    occurred_at=NOON + rng.randrange(100) * HOUR,
                    pinned=at == 0,
                )
            )
    rng.shuffle(episodes)
    memory.remember_batch(episodes)
    for cell in cells():
        org, workspace, user, visibility = cell
        place: dict[str, Any] = {"org": org, "workspace": workspace, "user_id": user}
        memory.link(
            ["m0", "m1"], world.secret(cell), id="edge", visibility=visibility,
            description=f"disk {world.secret(cell)}", metadata={"of": world.secret(cell)}, **place,
        )  # fmt: skip
        memory.remember_fact(
            Fact(
                id="fact",
                subject="disk",
                predicate=f"is {visibility}",
                object=f"full {world.secret(cell)}",
                visibility=visibility,
                metadata={"of": world.secret(cell)},
                valid_from=NOON,
                **place,
            )
        )
        memory.feedback(used=["m0", "fact"], query=f"disk {world.secret(own_of(cell))}", **place)
    for cell in cells():
        if cell[3] == "global":
            keep_past(world, cell)
    for agent, policy, group in (
        ("ada", "isolated", None), ("ben", "group", "g"), ("cy", "group", "g"),
        ("bob", "shared", None),
    ):  # fmt: skip
        memory.set_policy(agent, org=ORG, workspace=WORKSPACE, policy=policy, policy_group=group)
    memory.close()
    return path, world.secrets


def own_of(cell: Cell) -> Cell:
    """The private cell of the same user: what was said that helped is its user's alone."""
    return (*cell[:3], "private")


def keep_past(world: World, cell: Cell) -> None:
    """Memories that were global; why they were changed, and what became of them, is their user's.

    Their ids have the user's name: an agent that had the same ones would be told of its own.
    """
    org, workspace, user, _ = cell
    own = (org, workspace, user, "private")
    memory, place = world.memory, {"org": org, "workspace": workspace, "user_id": user}
    for what in PAST:
        text = f"disk {world.secret(cell if what == 'told' else own)}"
        memory.remember(text, id=past(what, user), visibility="global", **place)
    why = {"reason": world.secret(own), **place}
    memory.update(past("told", user), tags=("told",), **why)
    memory.update(past("moved", user), visibility="private", **why)
    memory.forget(past("gone", user), **why)
    memory.forget(past("again", user), **why)
    memory.remember("disk again", id=past("again", user), visibility="global", **place)
    follows = Episode(id=world.secret(own), text="disk", visibility="private", **place)
    memory.supersede(past("old", user), follows, **why)


def past(what: str, user: str | None) -> str:
    """The id of a memory with a past."""
    return f"{what} of {user}"


# ---- who looks, and what it may see ----


@dataclass(frozen=True)
class Viewer:
    """Somebody who asks: a user of a partition, or an agent."""

    user: str | None
    org: str | None = None
    workspace: str | None = None
    is_agent: bool = False

    def may_see(self, cell: Cell) -> bool:
        org, workspace, user, visibility = cell
        if (org, workspace) != (self.org, self.workspace):
            return False
        if user == self.user:
            return True
        if not self.is_agent or visibility != "global":
            return False
        return {"ada": set(), "ben": {"cy"}, "cy": {"ben"}}.get(self.user or "", {user}) >= {
            user
        }  # bob is shared

    @property
    def place(self) -> dict[str, Any]:
        return {"user_id": self.user, "org": self.org, "workspace": self.workspace}


VIEWERS = (
    *(Viewer(user) for user in USERS),
    Viewer("bob", ORG, "east"),
    Viewer("ada", "other", WORKSPACE),
    Viewer("nobody"),
)
AGENT_VIEWERS = tuple(Viewer(agent, ORG, WORKSPACE, is_agent=True) for agent in (*AGENTS, "bob"))


# ---- everything that a reply tells ----


def told(given: object) -> Iterator[str]:
    """Every text in a reply, an error, a list of logs."""
    if isinstance(given, str):
        yield given
    elif isinstance(given, bytes):
        yield given.decode("utf-8", "replace")
    elif isinstance(given, BaseException):
        yield str(given)
        yield from told(list(given.args))
        yield from told(given.__cause__)
    elif isinstance(given, BaseModel):
        yield repr(given)
        yield from told(given.model_dump())
    elif dataclasses.is_dataclass(given) and not isinstance(given, type):
        yield repr(given)
        for one in dataclasses.fields(given):
            yield from told(getattr(given, one.name))
    elif isinstance(given, dict):
        for key, value in given.items():
            yield from told(key)
            yield from told(value)
    elif isinstance(given, list | tuple | set):
        yield repr(given)
        for value in given:
            yield from told(value)
        if isinstance(given, Matches):
            yield from _told_around(given)
        if isinstance(given, Facts):
            yield from told(given.reasons)
    elif given is not None:
        yield repr(given)


def _told_around(matches: Matches) -> Iterator[str]:
    names = ("reasons", "related", "context", "edges", "faults", "scope", "trace", "phase")
    for name in names:
        yield from told(getattr(matches, name))
    if matches.trace is not None:
        for at in range(len(matches)):
            yield repr(matches.explain(at))


class Blocking:
    """An async store or view, called as a sync one."""

    def __init__(self, inner: Memory | AgentMemory, loop: asyncio.AbstractEventLoop) -> None:
        self._inner, self._loop = inner, loop

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)

        def call(*args: Any, **options: Any) -> Any:
            given = method(*args, **options)
            if isinstance(given, AgentMemory):
                return Blocking(given, self._loop)
            return self._loop.run_until_complete(given) if inspect.isawaitable(given) else given

        return call
