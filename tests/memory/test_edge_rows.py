"""Edges lie in a cell, keep the order of their participants, and go with a node."""

import apsw
import pytest

from hyrecall.errors import KeyConflictError
from hyrecall.memory import Edge, Participant
from memory.rows_of_tests import ANA, BOB, NOW
from seams import (
    Cell,
    edge_by_id,
    edges_in,
    find_cell,
    incident,
    link,
    migrate,
    unlink,
    unlink_incident,
)


@pytest.fixture
def store() -> apsw.Connection:
    return a_store()


def a_store() -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    connection.pragma("foreign_keys", 1)
    migrate(connection, now=NOW, made_by="a test")
    return connection


def an_edge(key: str, *nodes: str, cell: Cell = ANA) -> Edge:
    ends = tuple(Participant(id=node, role=f"as {node}") for node in nodes)
    return Edge(
        **cell.identity(), id=key, participants=ends, relationship="knows", metadata={"n": [1]}
    )


def test_an_edge_comes_back_as_it_was(store: apsw.Connection) -> None:
    edge = an_edge("e", "c", "a", "c", "b")
    link(store, edge, NOW)
    cell = find_cell(store, ANA)
    assert cell is not None
    assert edge_by_id(store, cell, "e") == edge
    assert edges_in(store, [cell]) == [edge]
    assert incident(store, [cell], "a") == [edge]
    assert incident(store, [cell], "x") == []
    assert incident(store, [], "a") == []
    assert edge_by_id(store, cell, "x") is None


def test_a_cell_has_an_id_once_and_cells_do_not_meet(store: apsw.Connection) -> None:
    link(store, an_edge("e", "a", "b"), NOW)
    link(store, an_edge("e", "a", "b", cell=BOB), NOW)
    with pytest.raises(KeyConflictError, match="id: expected an edge that is not there yet"):
        link(store, an_edge("e", "c", "d"), NOW)
    ana = find_cell(store, ANA)
    assert ana is not None
    assert unlink_incident(store, ana, ["a"], None, NOW) == 1
    assert edges_in(store, [ana]) == []
    assert not unlink(store, ANA, "e", None, NOW)
    assert not unlink(store, Cell("new", None, None, "private"), "e", None, NOW)
    assert unlink(store, BOB, "e", "asked", NOW)


def test_an_edge_taken_away_says_why_and_may_come_again(store: apsw.Connection) -> None:
    link(store, an_edge("e", "a", "b"), NOW)
    assert unlink(store, ANA, "e", "wrong", NOW)
    assert store.execute("SELECT status, reason FROM edges").get == ("deleted", "wrong")
    link(store, an_edge("e", "c", "d"), NOW)
    cell = find_cell(store, ANA)
    assert cell is not None
    assert edges_in(store, [cell]) == [an_edge("e", "c", "d")]
