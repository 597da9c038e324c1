"""Part E of the acceptance rows, through a store: versions, tombstones, what is read of whom."""

import random
from datetime import timedelta
from typing import Any

import apsw
import pytest

from hyrecall import recipes
from hyrecall.embed import HashEmbedder
from hyrecall.memory import Episode, MemorySync
from laws.effort import Effort
from memory.isolation.world import VIEWERS, make_world
from memory.stores import DIM, NOON, episode, open_store
from seams import hit_episodes, recalling


def everywhere(memory: MemorySync, key: str) -> set[str]:
    """The doors that show a memory of alice's."""
    found = {
        "search": [m.episode.id for m in memory.search("note zebra", user_id="alice", limit=50)],
        "recall": [e.id for e in memory.recall("note zebra", user_id="alice", limit=50)],
        "newest": [e.id for e in memory.recall("", user_id="alice", limit=50)],
        "vector": [
            m.episode.id for m in memory.search("zebra", user_id="alice", alpha=1.0, limit=50)
        ],
        "list": [e.id for e in memory.list(user_id="alice")],
        "get": [key] if memory.get(key, user_id="alice") is not None else [],
        "export": [
            line["version"]["id"]
            for line in memory.export(user_id="alice")  # type: ignore[union-attr]
            if "version" in line
        ],
    }
    return {door for door, ids in found.items() if key in ids}


def test_E37_a_tombstone_is_gone_from_every_door_at_once() -> None:
    # Not honeycomb: its blank query lists nothing, and that is one of the seven doors.
    with open_store(recipe=recipes.loom) as memory:
        memory.remember(episode(0, "note zebra"))
        memory.remember(episode(1, "note"))
        assert len(everywhere(memory, "e0")) == 7
        assert memory.forget("e0", user_id="alice", reason="old") == 1
        assert everywhere(memory, "e0") == set()
        assert memory.forget("e0", user_id="alice") == 0
        versions = memory.history("e0", user_id="alice")
        assert [(v.version, v.status, v.reason) for v in versions] == [
            (1, "live", None), (2, "deleted", "old"),
        ]  # fmt: skip
        assert versions[0].episode is not None
        assert versions[0].episode.output == "note zebra"
        assert versions[1].episode is None
        memory.remember(episode(0, "note again"))
        assert len(memory.history("e0", user_id="alice")) == 3


def test_E41_an_old_version_never_returns_and_an_old_row_always() -> None:
    with open_store(recipe=recipes.honeycomb) as memory:
        memory.remember(episode(0, "zebra", occurred_at=NOON - timedelta(days=36_500)))
        memory.remember(episode(1, "zebra old"))
        memory.update("e1", user_id="alice", output="zebra new")
        matches = memory.search("zebra", user_id="alice", now=NOON)
        assert {m.episode.output for m in matches} == {"zebra", "zebra new"}


def test_E46_the_reply_says_for_whom_it_is() -> None:
    with open_store(recipe=recipes.honeycomb) as memory:
        memory.remember("note", user_id="ann", org="acme", workspace="west")
        scope = memory.search("note", user_id="ann", org="acme", workspace="west").scope
        assert scope is not None
        assert (scope.org, scope.workspace, scope.user, scope.policy) == (
            "acme", "west", "ann", None,
        )  # fmt: skip
        scope = memory.agent("ann", org="acme", workspace="west").search("note").scope
        assert scope is not None
        assert (scope.user, scope.policy) == ("ann", "isolated")


# ---- identifiers before content ----


class Reader:
    """Notes the cell of every row whose content is given."""

    def __init__(self) -> None:
        self.cells: set[int] = set()

    def __call__(
        self, connection: apsw.Connection, rows: Any, cells: Any, damaged: Any, **options: Any
    ) -> Any:
        episodes = self.read(connection, rows, cells, damaged, **options)
        where = "SELECT cell FROM versions WHERE row = ?"
        self.cells |= {connection.execute(where, (row,)).get for row in rows}
        return episodes

    read = staticmethod(recalling.episodes_of_rows)


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Reader:
    made = Reader()
    for module in (recalling, hit_episodes):
        monkeypatch.setattr(module, "episodes_of_rows", made)
    return made


@pytest.mark.filterwarnings("ignore::hyrecall.memory.data.types.IsolationWarning")
def test_E31_content_is_read_of_authorised_rows_only(reader: Reader, effort: Effort) -> None:
    rng = random.Random(31)
    world = make_world(1)
    memory = world.memory
    n_read = 0
    n_searches = effort.cases(quick=40, full=1_000)
    for _ in range(n_searches):
        viewer = rng.choice(VIEWERS)
        reader.cells.clear()
        query = " ".join(rng.choices(["oak", "ash", "disk", "tea", *list(world.secrets)[:3]], k=2))
        memory.search(
            query, kind=rng.choice([None, "note"]), limit=rng.randrange(20),
            alpha=rng.choice([0.0, 0.5, 1.0]), **viewer.place,
        )  # fmt: skip
        with memory._store.database.reading() as connection:
            for number in reader.cells:
                found = "SELECT org, workspace, user, visibility FROM cells WHERE cell = ?"
                assert viewer.may_see(connection.execute(found, (number,)).get)
                n_read += 1
    assert n_read > n_searches / 2
    memory.close()


def test_E31_a_row_of_another_cell_is_not_read_whoever_names_it() -> None:
    from seams import episodes_of_rows

    with open_store(embedder=HashEmbedder(dim=DIM), recipe=recipes.honeycomb) as memory:
        memory.remember(Episode(id="hers", user_id="alice", output="secret"))
        memory.remember(Episode(id="his", user_id="bob", output="own"))
        with memory._store.database.reading() as connection:
            rows = dict(connection.execute("SELECT id, row FROM versions"))
            cells = dict(connection.execute("SELECT user, cell FROM cells"))
            found = episodes_of_rows(connection, list(rows.values()), [cells["bob"]])
        assert list(found) == [rows["his"]]
