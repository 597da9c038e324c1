"""Part C of the acceptance rows: nodes, edges and hyperedges, kept and taken away."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from hyrecall import recipes
from hyrecall.errors import KeyConflictError
from hyrecall.memory import EVERYONE, Edge, MemorySync, Participant, hm_recall
from laws.effort import Effort
from memory.stores import folder, open_store

NODES = "abcd"
USERS = ("alice", "bob")


def test_C22_edges_keep_role_and_order_and_survive_a_reopening() -> None:
    path = folder()
    ends = [Participant(id="c", role="author"), Participant(id="a", role="paper"), "b"]
    with open_store(path, embedder=None, recipe=recipes.hypergraph) as memory:
        for node in NODES:
            memory.remember(f"node {node}", id=node, user_id="alice")
        edge = memory.link(ends, "wrote", user_id="alice", data={"year": 2026})
        pair = memory.link(["a", "d"], "cites", user_id="alice", id="pair")
        with pytest.raises(KeyConflictError):
            memory.link(["a", "b"], "cites", user_id="alice", id="pair")
    with open_store(path, embedder=None, recipe=recipes.hypergraph) as memory:
        (kept, other) = memory.links("a", user_id="alice")
        assert (kept, other) == (edge, pair)
        assert [(end.id, end.role) for end in kept.participants] == [
            ("c", "author"), ("a", "paper"), ("b", None),
        ]  # fmt: skip
        assert memory.links("a", user_id="bob") == []
        assert not memory.unlink("pair", user_id="bob")
        assert memory.unlink("pair", user_id="alice", reason="wrong")
        assert memory.links("d", user_id="alice") == []
        memory.forget("c", user_id="alice")
        assert memory.links("a", user_id="alice") == []


class GraphAgainstADict(RuleBasedStateMachine):
    """Nodes and edges of two users, against dicts; and the index against a rebuild."""

    def __init__(self) -> None:
        super().__init__()
        self.path = folder()
        self.memory: MemorySync = self.opened()
        self.nodes: set[tuple[str, str]] = set()
        self.edges: dict[tuple[str, str], Edge] = {}
        self.n = 0

    def opened(self) -> MemorySync:
        return open_store(self.path, embedder=None, recipe=recipes.hypergraph)

    users = st.sampled_from(USERS)
    nodes_of = st.sampled_from(NODES)

    @rule(user=users, node=nodes_of)
    def put(self, user: str, node: str) -> None:
        if (user, node) not in self.nodes:
            self.memory.remember(f"node {node}", id=node, user_id=user)
            self.nodes.add((user, node))

    @rule(user=users, ends=st.lists(nodes_of, min_size=2, max_size=4))
    def connect(self, user: str, ends: list[str]) -> None:
        self.n += 1
        key = f"e{self.n}"
        self.edges[user, key] = self.memory.link(ends, "knows", user_id=user, id=key)

    @rule(user=users, n=st.integers(1, 6))
    def disconnect(self, user: str, n: int) -> None:
        gone = self.edges.pop((user, f"e{n}"), None)
        assert self.memory.unlink(f"e{n}", user_id=user) == (gone is not None)

    @rule(user=users, node=nodes_of)
    def forget(self, user: str, node: str) -> None:
        was_there = (user, node) in self.nodes
        assert self.memory.forget(node, user_id=user) == was_there
        if was_there:
            self.nodes.discard((user, node))
            self.edges = {
                (owner, key): edge
                for (owner, key), edge in self.edges.items()
                if owner != user or node not in {end.id for end in edge.participants}
            }

    @rule()
    def reopen(self) -> None:
        self.memory.close()
        self.memory = self.opened()

    @invariant()
    def what_is_there_is_what_the_dicts_have(self) -> None:
        for user in USERS:
            for node in NODES:
                wish = [
                    edge
                    for (owner, _), edge in self.edges.items()
                    if owner == user and node in {end.id for end in edge.participants}
                ]
                assert self.memory.links(node, user_id=user) == wish
            found = {one.episode.id for one in self.memory.search("node", user_id=user)}
            assert found == {node for owner, node in self.nodes if owner == user}
        assert len(self.memory.list(user_id=EVERYONE)) == len(self.nodes)

    def teardown(self) -> None:
        self.memory.close()


def test_C22_nodes_and_edges_are_what_was_put_and_not_taken_away(effort: Effort) -> None:
    GraphAgainstADict.TestCase.settings = settings(
        max_examples=effort.cases(quick=3, full=100), stateful_step_count=12
    )
    GraphAgainstADict.TestCase().runTest()


def test_C28_neighbours_that_the_session_met_come_first() -> None:
    with open_store(embedder=None, recipe=recipes.hypergraph) as memory:
        memory.remember("gateway", id="hub")
        for at in range(6):
            memory.remember(f"leaf{at}", id=f"n{at}")
            memory.link(["hub", f"n{at}"], "to")
        for session, met in (("a", "leaf5"), ("b", "leaf4")):
            hm_recall(memory, met, session)

        def near(session: str) -> list[str]:
            (found,) = hm_recall(memory, "gateway", session)["results"]
            return [one["key"] for one in found["expansion_context"]]

        assert [near(one) for one in "abc"] == [
            ["n5", "n0", "n1"], ["n4", "n0", "n1"], ["n0", "n1", "n2"],
        ]  # fmt: skip


def test_C29_phase_and_weights_are_told_with_force_regex_too() -> None:
    with open_store(embedder=None, recipe=recipes.hypergraph) as memory:
        for key in ("gate_a", "gate_b"):
            memory.remember("a gateway", id=key)
        phases = []
        for _ in range(11):
            reply = hm_recall(memory, "gate_.", "s", force_regex=True)
            assert [one["key"] for one in reply["results"]] == ["gate_a", "gate_b"]
            told = reply["metadata"]
            assert told["weights"] == {"general": 1.0, "topical": 0.0, "session": 0.0}
            assert told["tiers"] == {"regex": 2}
            phases.append(told["phase"])
        assert phases == ["early"] * 3 + ["mid"] * 7 + ["deep"]
