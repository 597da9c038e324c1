"""Nobody is told what is not theirs: every door of a store, knocked at as everybody else."""

import asyncio
import io
import json
import logging
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pydantic import BaseModel

import hyrecall.memory
from hyrecall import recipes
from hyrecall.embed import HashEmbedder
from hyrecall.errors import HyrecallError
from hyrecall.memory import MemorySync
from hyrecall.systems import hypergraph, l0, loom
from memory.isolation.doors import (
    CASES,
    DATA,
    FACES,
    FUNCTIONS,
    NO_READERS,
    OTHERS,
    READING,
    WRITING,
    Case,
    graph_walk,
    missing,
    notes_walk,
    public,
)
from memory.isolation.world import (
    AGENT_VIEWERS,
    VIEWERS,
    Blocking,
    Viewer,
    World,
    cells,
    make_world,
    told,
)
from memory.stores import DIM, HOUR, NOON, folder
from seams import Memory, Notes, browse, changing, episode_by_id, recalling, view
from seams import audience_module as audience

pytestmark = pytest.mark.filterwarnings("ignore::hyrecall.memory.data.types.IsolationWarning")


@pytest.fixture(params=[1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    made = make_world(request.param)
    yield made
    made.memory.close()


def leaks(world: World, viewer: Viewer, reply: object) -> list[str]:
    text = "\n".join(told(reply))
    return [secret for secret in world.foreign(viewer.may_see) if secret in text]


def knock(face: Any, case: Case, world: World, viewer: Viewer, rng: random.Random) -> object:
    try:
        return case(face, world, viewer, rng)
    except (HyrecallError, ValueError, TypeError) as fault:
        return fault


def face_of(world: World, viewer: Viewer) -> Any:
    """Where somebody asks: at the store, or an agent at its view of it."""
    if not viewer.is_agent:
        return world.memory
    given = viewer.user or "", viewer.org or "", viewer.workspace or ""
    return world.memory.agent(given[0], org=given[1], workspace=given[2])


def walk(
    world: World, cases: dict[str, Case], caplog: pytest.LogCaptureFixture, rounds: int = 2
) -> dict[str, list[str]]:
    """Return the doors that told somebody what is not theirs."""
    found: dict[str, list[str]] = {}
    with caplog.at_level(logging.DEBUG):
        for viewer in (*VIEWERS, *AGENT_VIEWERS):
            face = face_of(world, viewer)
            for name, case in cases.items():
                if not hasattr(face, name) or name in found:  # one leak is enough
                    continue
                rng = random.Random(f"{viewer} {name}")  # whatever the doors before it drew
                for _ in range(rounds):
                    caplog.clear()
                    reply = knock(face, case, world, viewer, rng)
                    logged = [record.getMessage() for record in caplog.records]
                    if leaked := leaks(world, viewer, [reply, logged, repr(face)]):
                        found.setdefault(name, []).extend(leaked)
    return found


def test_every_door_has_a_case() -> None:
    for face in FACES:
        assert missing(face, CASES) <= NO_READERS, face
    assert {kind: public(kind) for kind in OTHERS} == OTHERS


def test_every_public_name_is_a_door_that_is_known_or_none() -> None:
    kinds = {kind.__name__ for kind in (*FACES, *OTHERS)}
    names = {*hyrecall.memory.__all__, *loom.__all__, *l0.__all__, *hypergraph.__all__}
    assert names - kinds - DATA - FUNCTIONS == {"ahm_recall", "hm_recall"}


def test_a_door_without_a_case_is_seen() -> None:
    class Wider(MemorySync):
        def recall_everything(self) -> None: ...

    assert missing(Wider, CASES) - NO_READERS == {"recall_everything"}


def test_no_reading_door_tells(world: World, caplog: pytest.LogCaptureFixture) -> None:
    assert walk(world, READING, caplog) == {}


def test_no_writing_door_tells_or_changes(world: World, caplog: pytest.LogCaptureFixture) -> None:
    assert walk(world, WRITING, caplog) == {}
    # What is nobody's whom the walk was, is there as it was.
    walked = (*VIEWERS, *AGENT_VIEWERS)
    for cell in cells():
        org, workspace, user, visibility = cell
        if any((v.org, v.workspace, v.user) == (org, workspace, user) for v in walked):
            continue
        place: dict[str, Any] = {"org": org, "workspace": workspace, "user_id": user}
        for key in ("m0", "m1", "m2"):
            versions = world.memory.history(key, **place)
            assert [one.version for one in versions] == [1]
            kept = world.memory.get(key, visibility=visibility, **place)  # type: ignore[arg-type]
            assert kept is not None
        assert len(world.memory.links("m0", **place)) == 2


def of_others(world: World, viewer: Viewer) -> list[str]:
    """Everything that is kept, its history too, but what is the viewer's own."""
    place = [viewer.place[name] for name in ("user_id", "org", "workspace")]
    lines = []
    with world.memory._store.database.reading() as connection:
        said = "SELECT * FROM feedback WHERE NOT (user IS ? AND org IS ? AND workspace IS ?)"
        lines += [f"feedback {row}" for row in connection.execute(said, place)]
        for table in ("versions", "facts", "edges", "participants"):
            query = f"""
                SELECT * FROM {table} JOIN cells USING (cell)
                WHERE NOT (user IS ? AND org IS ? AND workspace IS ?)"""
            lines += [f"{table} {row}" for row in connection.execute(query, place)]
    return sorted(lines)


def changes_of_others(world: World, doors: dict[str, Case]) -> set[str]:
    """Return the doors through which somebody changed what is not theirs."""
    found = set()
    for viewer in (*VIEWERS, *AGENT_VIEWERS):
        face = face_of(world, viewer)
        before = of_others(world, viewer)
        assert len(before) > 100
        for name, case in doors.items():
            if hasattr(face, name):
                knock(face, case, world, viewer, random.Random(f"{viewer} {name}"))
                after = of_others(world, viewer)
                if after != before:
                    found.add(name)
                before = after
    return found


def test_no_writing_door_changes_what_is_anybody_elses(world: World) -> None:
    assert changes_of_others(world, WRITING) == set()
    then = NOON + 2 * HOUR
    facts = world.memory.recall_facts("disk", user_id="alice", limit=50, valid_at=then)
    assert "oak" in {fact.object for fact in facts}  # the walk did keep some


@pytest.mark.parametrize(
    ("name", "door"), [("remember_fact", "remember_fact"), ("remember", "remember_batch")]
)
def test_a_door_that_writes_beside_its_user_is_seen(
    name: str, door: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = getattr(changing, name)
    bob = {"user_id": "bob", "org": None, "workspace": None}

    def planted(store: Any, given: Any, **options: Any) -> Any:
        is_one = isinstance(given, BaseModel)
        moved = [one.model_copy(update=bob) for one in ([given] if is_one else given)]
        return plain(store, moved[0] if is_one else moved, **options)

    world = make_world(1)
    monkeypatch.setattr(changing, name, planted)
    assert changes_of_others(world, {door: WRITING[door]}) == {door}
    world.memory.close()


@pytest.mark.slow
def test_the_async_face_tells_no_more(caplog: pytest.LogCaptureFixture) -> None:
    world = make_world(1)
    path = world.memory._store.database.folder
    world.memory.close()
    loop = asyncio.new_event_loop()
    try:

        async def opened() -> Memory:
            return await Memory.open(path, embedder=HashEmbedder(dim=DIM))

        memory = loop.run_until_complete(opened())
        world.memory = Blocking(memory, loop)  # type: ignore[assignment]
        assert walk(world, CASES, caplog, rounds=1) == {}
        loop.run_until_complete(memory.close())
    finally:
        loop.close()


def kept_again(world: World, recipe: Any) -> MemorySync:
    """What a world holds, in a store of another recipe."""
    lines = world.memory.export(user_id=audience.EVERYONE)
    world.memory.close()
    memory = MemorySync.open(folder(), recipe=recipe, embedder=HashEmbedder(dim=DIM))
    assert isinstance(lines, list)
    done = memory.import_(io.StringIO("\n".join(json.dumps(line) for line in lines)))
    assert not done.errors
    return memory


def test_notes_tell_no_more() -> None:
    world = make_world(1)
    with kept_again(world, recipes.l0) as memory:
        rng = random.Random(3)
        notes = Notes(memory, scopes=["bob"])
        for _ in range(4):
            assert leaks(world, Viewer("bob"), notes_walk(notes, rng)) == []


@pytest.mark.slow
@pytest.mark.parametrize("viewer", VIEWERS[:4])
def test_a_graph_leads_to_nobody_elses(viewer: Viewer) -> None:
    world = make_world(6)
    with kept_again(world, recipes.hypergraph) as memory:
        rng = random.Random(9)
        for _ in range(6):
            reply = graph_walk(memory, viewer, rng)
            assert leaks(world, viewer, reply) == []
        assert reply["count"]
        assert any(graph_walk(memory, viewer, rng)["edges"] for _ in range(20))


# ---- planted bugs, which the walk must see ----


def everybody(connection: Any, asked: Any) -> Any:
    """An audience that asks not who asks."""
    from dataclasses import replace

    every = audience.audience(connection, replace(asked, user=audience.EVERYONE, is_agent=False))
    return replace(audience.audience(connection, asked), cells=every.cells)


def truthy(connection: Any, asked: Any) -> Any:
    """``if user:`` where ``is not None`` is meant."""
    from dataclasses import replace

    return audience.audience(connection, replace(asked, user=asked.user or None))


def by_id_alone(connection: Any, cell: int, key: str) -> Any:
    """Content by id, whoever's it is."""
    for (number,) in connection.execute("SELECT cell FROM documents WHERE id = ?", (key,)):
        found = episode_by_id(connection, number, key)
        if found is not None:
            return found
    return None


@pytest.mark.plain_cases(1)
@pytest.mark.parametrize(
    ("plant", "name", "doors"),
    [
        (
            everybody,
            "audience",
            {
                *("search", "get", "list", "history", "links", "recall_facts", "list_facts"),
                "browse",
            },
        ),
        (truthy, "audience", {"get", "list", "browse"}),
        (by_id_alone, "episode_by_id", {"get"}),
        (list, "_as_others_see", {"history"}),
    ],
)
def test_a_planted_bug_is_seen(
    plant: Callable[..., Any],
    name: str,
    doors: set[str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = make_world(1)
    for module in (view, recalling, changing, browse):
        if hasattr(module, name):
            monkeypatch.setattr(module, name, plant)
    found = walk(world, {door: READING[door] for door in doors}, caplog, rounds=4)
    world.memory.close()
    assert doors == set(found)
