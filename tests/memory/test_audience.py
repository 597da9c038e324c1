"""Who may see what: the cells by definition, and what it costs to find them."""

from __future__ import annotations

import itertools
from typing import Any

import apsw
import pytest

from memory.rows_of_tests import a_store
from seams import EVERYONE, AskedBy, Cell, cells_of, every_cell, make_cell, set_policy
from seams import audience_audience as audience

ORG, WORKSPACE = "acme", "west"


def fill(connection: apsw.Connection, n_users: int) -> None:
    """Cells of the anonymous one, of three agents and of so many users, in several partitions."""
    names = (None, "", "ann", "ben", "cy", *(f"user {at}" for at in range(n_users)))
    places = ((ORG, WORKSPACE), (None, None), (ORG, "east"))
    with connection:
        for (org, workspace), name in itertools.product(places, names):
            for visibility in ("private", "global"):
                make_cell(connection, Cell(org, workspace, name, visibility))
        for agent, policy, group in (
            ("ann", "isolated", None), ("ben", "group", "g"), ("cy", "group", "g"),
            ("user 0", "shared", None),
        ):  # fmt: skip
            set_policy(connection, ORG, WORKSPACE, agent, policy, group)


def by_definition(connection: apsw.Connection, asked: AskedBy) -> set[Cell]:
    others = {"ben": {"cy"}, "cy": {"ben"}}.get(str(asked.user), set())
    return {
        cell
        for cell in every_cell(connection).values()
        if (cell.org, cell.workspace) == (asked.org, asked.workspace)
        and (
            asked.user is EVERYONE
            or cell.user == asked.user
            or (
                asked.is_agent
                and cell.visibility == "global"
                and (cell.user in others or asked.user == "user 0")
            )
        )
    }


NAMES: tuple[Any, ...] = (None, "", "ann", "user 1", "nobody", EVERYONE)
ASKED = (
    *(AskedBy(org, workspace, user) for org, workspace in ((ORG, WORKSPACE), (None, None))
      for user in NAMES),
    *(AskedBy(ORG, WORKSPACE, agent, is_agent=True)
      for agent in ("ann", "ben", "cy", "user 0", "nobody", "")),
)  # fmt: skip


def test_the_cells_are_those_of_the_definition() -> None:
    connection = a_store()
    fill(connection, 4)
    known = every_cell(connection)
    for asked in ASKED:
        seen = audience(connection, asked)
        assert set(seen.cells.values()) == by_definition(connection, asked), asked
        assert all(known[number] == cell for number, cell in seen.cells.items())


@pytest.mark.parametrize("name", [None, "", "ann", "~"])
def test_the_anonymous_one_is_told_of_named_users_of_its_partition(name: str | None) -> None:
    connection = a_store()
    with connection:
        make_cell(connection, Cell(None, None, None, "private"))
        make_cell(connection, Cell(ORG, WORKSPACE, name, "private"))
    assert not audience(connection, AskedBy()).has_named_users
    found = audience(connection, AskedBy(ORG, WORKSPACE)).has_named_users
    assert found is (name is not None)


def effort(connection: apsw.Connection, asked: AskedBy) -> int:
    """How many steps of its machine SQLite takes to say who may see what."""
    steps = itertools.count()
    connection.set_progress_handler(lambda: next(steps) < 0, 1)
    try:
        audience(connection, asked)
    finally:
        connection.set_progress_handler(None)
    return next(steps)


def efforts(*asked: AskedBy) -> list[list[int]]:
    """The steps for each asker, beside few users and beside many."""
    found = []
    for n_users in (4, 400):
        connection = a_store()
        fill(connection, n_users)
        found.append([effort(connection, one) for one in asked])
    return found


def test_its_cost_does_not_tell_how_many_others_there_are() -> None:
    few, many = efforts(
        AskedBy(ORG, WORKSPACE, "user 1"),
        AskedBy(ORG, WORKSPACE, "nobody"),
        AskedBy(ORG, WORKSPACE, None),
        AskedBy(None, None, ""),
        AskedBy(ORG, WORKSPACE, "ann", is_agent=True),
        AskedBy(ORG, WORKSPACE, "ben", is_agent=True),
        AskedBy(ORG, WORKSPACE, "nobody", is_agent=True),
    )
    assert few == many


def test_a_look_at_every_cell_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: everybody's cells are read, and one's own taken from them."""

    def slow(
        connection: apsw.Connection, org: str | None, workspace: str | None, user: str | None
    ) -> dict[int, Cell]:
        known = cells_of(connection, org, workspace)
        return {number: one for number, one in known.items() if one.user == user}

    monkeypatch.setattr("hyrecall.memory.recall.audience.cells_of_user", slow)
    (few,), (many,) = efforts(AskedBy(ORG, WORKSPACE, "ann"))
    assert many > 10 * few
