"""What a store is made to do while it is killed, cut off, or its disk fails.

Step ``at`` of a seed is the same in every run on the same state, down to the numbers of rows. So a
store that was interrupted must equal, table by table, one that did the same steps in peace.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw

from hyrecall.errors import KeyConflictError, NotFoundError
from hyrecall.memory import Edge, Fact, Participant
from memory.rows_of_tests import ANA, BOB, MODEL, NOW, an_episode, vector
from seams import (
    Cell,
    Database,
    NewVersion,
    Selection,
    add_feedback,
    assert_fact,
    encode_vector,
    erase,
    find_cell,
    forget,
    head_row,
    link,
    pin,
    remember,
    set_policy,
    set_vectors,
    supersede,
    touch,
    unlink,
    update,
)

TABLES = (
    *("documents", "versions", "facts", "edges", "participants", "cells", "roster", "models"),
    "feedback",
)


def do(database: Database, seed: int, at: int) -> str:
    """Take one step: one transaction. A step that the state does not admit changes nothing.

    Gives the name of the step.
    """
    draw = random.Random(1_000_003 * seed + at)
    kind = draw.choices(list(STEPS), [weight for weight, _ in STEPS.values()])[0]
    _, step = STEPS[kind]
    with contextlib.suppress(KeyConflictError, NotFoundError):
        step(database, draw)
    return kind


def contents(database: Database) -> dict[str, list[Any]]:
    """Every table, and the numbers that count changes."""
    with database.reading() as c:
        found: dict[str, list[Any]] = {
            name: sorted(c.execute(f"SELECT * FROM {name}"), key=repr) for name in TABLES
        }
        names = "('sequence', 'erasures')"
        found["meta"] = list(c.execute(f"SELECT * FROM meta WHERE name IN {names} ORDER BY name"))
    return found


class Expected:
    """What a store contains that did some of the steps of a seed in peace."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder = folder
        self._seed = seed
        self._known: dict[tuple[int, ...], dict[str, list[Any]]] = {}

    def after(self, steps: Iterable[int]) -> dict[str, list[Any]]:
        """The contents after these steps in their order."""
        wanted = tuple(steps)
        if wanted not in self._known:
            database = Database.open(self._folder / f"expected {len(self._known)}")
            try:
                with _in_haste(database):
                    for at in wanted:
                        do(database, self._seed, at)
                self._known[wanted] = contents(database)
            finally:
                database.close()
        return self._known[wanted]

    def each(self, n: int) -> list[dict[str, list[Any]]]:
        """The contents after no step, after the first, and so on to the n-th."""
        database = Database.open(self._folder / "expected each")
        states = [contents(database)]
        with _in_haste(database):
            for at in range(n):
                do(database, self._seed, at)
                states.append(contents(database))
        database.close()
        return states


@contextlib.contextmanager
def _in_haste(database: Database) -> Any:
    """Sync nothing meanwhile: this store is only compared with."""
    with database.transaction():
        pass
    writer = database._writer
    assert writer is not None
    writer.pragma("synchronous", "OFF")
    yield


# ---- the steps ----


def _cell(draw: random.Random) -> Cell:
    return draw.choice([ANA, BOB])


def _key(draw: random.Random) -> str:
    return f"d{draw.randrange(8)}"


def _new(draw: random.Random, cell: Cell) -> NewVersion:
    key = _key(draw)
    long = "x" * draw.choice([10, 100, 9000])  # on a page with others, or on pages of its own
    episode = an_episode(key, cell, text=f"{draw.random()} {long}", tags=("t",))
    return (
        NewVersion(cell, episode, vector(key), MODEL)
        if draw.random() < 0.5
        else NewVersion(cell, episode)
    )


def _remember(database: Database, draw: random.Random) -> None:
    rows = [_new(draw, _cell(draw)) for _ in range(draw.randrange(1, 4))]
    with database.transaction() as c:
        remember(c, rows, NOW)


def _update(database: Database, draw: random.Random) -> None:
    fields = draw.choice([{"text": str(draw.random())}, {"kind": "note"}, {"pinned": True}])
    with database.transaction() as c:
        update(c, _cell(draw), _key(draw), fields, None, None, "why", NOW)


def _supersede(database: Database, draw: random.Random) -> None:
    cell = _cell(draw)
    with database.transaction() as c:
        supersede(c, cell, _key(draw), _new(draw, cell), None, NOW)


def _selection(c: apsw.Connection, draw: random.Random) -> Selection:
    number = find_cell(c, _cell(draw))
    cells = [] if number is None else [number]
    return Selection(cells, ids=[_key(draw), _key(draw)])


def _forget(database: Database, draw: random.Random) -> None:
    with database.transaction() as c:
        forget(c, _selection(c, draw), "asked", NOW)


def _mark(database: Database, draw: random.Random) -> None:
    with database.transaction() as c:
        touch(c, [(_cell(draw), _key(draw)) for _ in range(3)], NOW)
        pin(c, _cell(draw), _key(draw), draw.random() < 0.5)


def _embed(database: Database, draw: random.Random) -> None:
    with database.transaction() as c:
        number = find_cell(c, _cell(draw))
        row = None if number is None else head_row(c, number, _key(draw))
        if row is not None:
            set_vectors(c, [(row, encode_vector(vector(str(draw.random()))), MODEL)])


def _link(database: Database, draw: random.Random) -> None:
    ends = tuple(Participant(id=_key(draw)) for _ in range(draw.randrange(2, 5)))
    edge = Edge(**_cell(draw).identity(), id=_key(draw), participants=ends, relationship="r")
    with database.transaction() as c:
        link(c, edge, NOW)


def _unlink(database: Database, draw: random.Random) -> None:
    with database.transaction() as c:
        unlink(c, _cell(draw), _key(draw), None, NOW)


def _fact(database: Database, draw: random.Random) -> None:
    fact = Fact(
        **_cell(draw).identity(), id=f"f{draw.randrange(10**9)}", subject=_key(draw),
        predicate="is", object=_key(draw), valid_from=NOW + timedelta(days=draw.randrange(9)),
    )  # fmt: skip
    with database.transaction() as c:
        assert_fact(c, fact, None, None, NOW)


def _policy(database: Database, draw: random.Random) -> None:
    with database.transaction() as c:
        set_policy(c, None, None, _key(draw), draw.choice(["shared", "isolated"]), None)
        number = find_cell(c, _cell(draw))
        keys = [f"d{at}" for at in range(8)]
        used = [(number, key) for key in keys if number is not None and head_row(c, number, key)]
        asker = (None, None, draw.choice(["ana", "bob"]))
        add_feedback(c, asker, _key(draw), draw.sample(used, len(used) // 2), NOW)


def _erase(database: Database, draw: random.Random) -> None:
    with database.reading() as c:
        selection = _selection(c, draw)
    erase(database, selection, wait=0.0)


STEPS: dict[str, tuple[int, Callable[[Database, random.Random], None]]] = {
    "remember": (6, _remember),
    "update": (4, _update),
    "supersede": (2, _supersede),
    "forget": (2, _forget),
    "mark": (1, _mark),
    "embed": (1, _embed),
    "link": (2, _link),
    "unlink": (1, _unlink),
    "fact": (2, _fact),
    "policy": (1, _policy),
    "erase": (1, _erase),
}
