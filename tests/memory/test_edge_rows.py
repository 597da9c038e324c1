"""Edges lie in a cell, keep the order of their participants, and go with a node."""

import apsw
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from hyrecall.errors import KeyConflictError
from hyrecall.memory import Edge, Participant
from memory.rows_of_tests import ANA, BOB, NOW
from seams import (
    Cell,
    edges_changed_since,
    edges_in,
    incident,
    link,
    make_cell,
    meta,
    migrate,
    unlink,
    unlink_all,
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


def test_an_edge_taken_away_says_why_and_may_come_again(store: apsw.Connection) -> None:
    link(store, an_edge("e", "a", "b"), NOW)
    assert unlink(store, ANA, "e", "wrong", NOW)
    assert store.execute("SELECT status, reason FROM edges").get == ("deleted", "wrong")
    (gone,) = edges_changed_since(store, 0, 10)
    assert (gone.id, gone.edge) == ("e", None)
    link(store, an_edge("e", "c", "d"), NOW)
    (back,) = edges_changed_since(store, gone.changed, 10)
    assert back.edge == an_edge("e", "c", "d")


class EdgesAgainstADict(RuleBasedStateMachine):
    """Spec C22: what is there is what a dict of edges has; following gives the same."""

    def __init__(self) -> None:
        super().__init__()
        self.store = a_store()
        self.cells = {cell: make_cell(self.store, cell) for cell in (ANA, BOB)}
        self.held: dict[tuple[Cell, str], Edge] = {}
        self.followed: dict[tuple[int, str], Edge] = {}
        self.applied = 0

    cells = st.sampled_from([ANA, BOB])
    keys = st.sampled_from("efgh")
    nodes = st.lists(st.sampled_from("abcd"), min_size=2, max_size=4)

    @rule(cell=cells, key=keys, nodes=nodes)
    def link(self, cell: Cell, key: str, nodes: list[str]) -> None:
        edge = an_edge(key, *nodes, cell=cell)
        if (cell, key) in self.held:
            with pytest.raises(KeyConflictError), self.store:
                link(self.store, edge, NOW)
            return
        with self.store:
            link(self.store, edge, NOW)
        self.held[cell, key] = edge

    @rule(cell=cells, key=keys)
    def unlink(self, cell: Cell, key: str) -> None:
        was_there = self.held.pop((cell, key), None) is not None
        assert unlink(self.store, cell, key, None, NOW) == was_there

    @rule(cell=cells, node=st.sampled_from("abcd"))
    def forget_a_node(self, cell: Cell, node: str) -> None:
        unlink_incident(self.store, self.cells[cell], [node], None, NOW)
        self.held = {
            where: edge
            for where, edge in self.held.items()
            if where[0] != cell or node not in {end.id for end in edge.participants}
        }

    @rule(cell=cells)
    def forget_a_cell(self, cell: Cell) -> None:
        unlink_all(self.store, [self.cells[cell]], None, NOW)
        self.held = {where: edge for where, edge in self.held.items() if where[0] != cell}

    @rule(limit=st.integers(1, 5))
    def follow(self, limit: int) -> None:
        while changes := edges_changed_since(self.store, self.applied, limit):
            for one in changes:
                self.followed.pop((one.cell, one.id), None)
                if one.edge is not None:
                    self.followed[one.cell, one.id] = one.edge
            self.applied = changes[-1].changed
        assert list(self.followed.values()) == edges_in(self.store, self.cells.values())

    @invariant()
    def what_is_there_is_what_the_dict_has(self) -> None:
        for cell, number in self.cells.items():
            held = {key: edge for (where, key), edge in self.held.items() if where == cell}
            assert {edge.id: edge for edge in edges_in(self.store, [number])} == held
            for node in "abcd":
                ids = {
                    key for key, edge in held.items() if node in {e.id for e in edge.participants}
                }
                assert {edge.id for edge in incident(self.store, [number], node)} == ids
        numbers = [one.changed for one in edges_changed_since(self.store, 0, 100)]
        assert numbers == sorted(set(numbers))
        assert max(numbers, default=0) <= meta(self.store, "sequence")


TestEdgesAgainstADict = EdgesAgainstADict.TestCase
TestEdgesAgainstADict.settings = settings(max_examples=15, stateful_step_count=30)
