"""Part C of the acceptance rows, through a store: sessions, the graph, the plain answer."""

import threading
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest

from embed.lateness import within
from hyrecall import recipes
from hyrecall.errors import KeyConflictError, OptionError
from hyrecall.memory import (
    DegradedReason,
    InProcessSessions,
    MemorySync,
    Participant,
    RedisSessions,
    SessionTracker,
    hm_recall,
)
from memory.servers import redis_client
from memory.stores import HOUR, NOON, BrokenEmbedder, Clock, folder, open_store
from seams import Follower, IndexNotReadyError, SessionName
from seams import ask_Session as Session

CHAT = SessionName(None, None, "alice", "chat")
SECOND = timedelta(seconds=1)


@pytest.fixture(params=["in the store", "in process", "redis"])
def tracker(request: pytest.FixtureRequest) -> Iterator[SessionTracker]:
    if request.param == "in the store":
        with open_store(recipe=recipes.hypergraph) as memory:
            yield memory._store.sessions
    elif request.param == "in process":
        yield InProcessSessions()
    else:
        client = redis_client()
        client.flushdb()
        yield RedisSessions(client)


def test_C10_what_was_met_is_kept(tracker: SessionTracker) -> None:
    assert tracker.session(CHAT, now=NOON) == Session()
    tracker.record(CHAT, ["a", "b"], now=NOON)
    tracker.record(CHAT, ["b"], now=NOON + SECOND)
    session = tracker.session(CHAT, now=NOON + SECOND)
    assert session == Session({"a": NOON, "b": NOON + SECOND}, 2)
    tracker.record(CHAT, [], now=NOON + 2 * SECOND)
    assert tracker.session(CHAT, now=NOON + 2 * SECOND).n_recalls == 3


def test_C10_conversations_do_not_meet(tracker: SessionTracker) -> None:
    names = [
        SessionName(org, workspace, user, chat)
        for org in (None, "o", "")
        for workspace in (None, "w")
        for user in ("alice", None, "", "null")
        for chat in ("chat", 'ch"at', "a, b")
    ]
    for at, name in enumerate(names):
        tracker.record(name, [f"m{at}"], now=NOON)
    for at, name in enumerate(names):
        assert list(tracker.session(name, now=NOON).accessed) == [f"m{at}"]


def test_C10_the_newest_512_of_a_day(tracker: SessionTracker) -> None:
    tracker.record(CHAT, ["old"], now=NOON)
    for at in range(6):
        ids = [f"m{at:02}-{n:03}" for n in range(100)]
        tracker.record(CHAT, ids, now=NOON + (at + 1) * SECOND)
    session = tracker.session(CHAT, now=NOON + HOUR)
    assert len(session.accessed) == 512
    assert "old" not in session.accessed
    assert sum(key.startswith("m00") for key in session.accessed) == 12
    later = NOON + 23 * HOUR
    tracker.record(CHAT, ["new"], now=later)
    assert set(tracker.session(CHAT, now=NOON + 25 * HOUR).accessed) == {"new"}
    assert tracker.session(CHAT, now=later + 24 * HOUR) == Session()


def test_C10_a_clock_that_is_set_back_takes_nothing(tracker: SessionTracker) -> None:
    tracker.record(CHAT, ["a"], now=NOON)
    tracker.record(CHAT, ["b"], now=NOON - HOUR)
    assert set(tracker.session(CHAT, now=NOON - HOUR).accessed) == {"a", "b"}


def test_C10_records_at_the_same_time_are_all_kept(tracker: SessionTracker) -> None:
    def record(at: int) -> None:
        for n in range(5):
            tracker.record(CHAT, [f"m{at}-{n}"], now=NOON)

    threads = [threading.Thread(target=record, args=(at,)) for at in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    session = tracker.session(CHAT, now=NOON)
    assert (len(session.accessed), session.n_recalls) == (20, 20)


def test_in_process_keeps_so_many_conversations() -> None:
    sessions = InProcessSessions(most=3)
    for at in range(5):
        sessions.record(CHAT._replace(session_id=f"s{at}"), ["m"], now=NOON)
    assert len(sessions) == 3
    assert sessions.session(CHAT._replace(session_id="s0"), now=NOON) == Session()


# ---- through a store ----

TEXTS = {
    "jwt": "JWT tokens expire after an hour",
    "auth": "authentication decisions of the team",
    "disk": "the disk of pg-eu-2 is full",
    "tea": "green tea",
    "twin_a": "the same words",
    "twin_b": "the same words",
}


def graph_store(**options: Any) -> MemorySync:
    memory = open_store(recipe=recipes.hypergraph, clock=Clock(), **options)
    for key, text in TEXTS.items():
        memory.remember(text, id=key, user_id="alice", occurred_at=NOON)
    memory.link(["jwt", "auth"], "decided in", user_id="alice", id="e1", description="a meeting")
    memory.link(["auth", "disk", "tea"], "talked about", user_id="alice", id="e2")
    return memory


def test_C23_an_empty_query_is_refused() -> None:
    with graph_store() as memory:
        for query in ("", "  "):
            with pytest.raises(ValueError, match="query"):
                hm_recall(memory, query, user_id="alice")


def search(memory: MemorySync, query: str, **options: Any) -> list[str]:
    given = {"user_id": "alice", "session_id": "chat", "now": NOON}
    return [match.episode.id for match in memory.search(query, **(given | options))]


@pytest.mark.parametrize("with_edges", [True, False])
def test_C16_only_what_was_given_back_is_recorded(with_edges: bool) -> None:
    sessions = InProcessSessions()
    with graph_store(embedder=None, sessions=sessions) as memory:
        if not with_edges:
            for edge in ("e1", "e2"):
                memory.unlink(edge, user_id="alice")
        found = memory.search("same words", user_id="alice", session_id="chat", limit=1, now=NOON)
        assert [match.episode.id for match in found] == ["twin_a"]
        met = sessions.session(CHAT, now=NOON)
        assert (set(met.accessed), met.n_recalls) == ({"twin_a"}, 1)
        around = memory.search("JWT", user_id="alice", session_id="chat", now=NOON)
        assert {one.id for context in around.context for one in context} == (
            {"auth"} if with_edges else set()
        )
        met = sessions.session(CHAT, now=NOON)
        assert set(met.accessed) == {"twin_a", *(match.episode.id for match in around)}
        assert "auth" not in met.accessed
        # Repeating changes nothing but by the boost of what was met.
        orders = [search(memory, "same words") for _ in range(3)]
        assert orders == [["twin_a", "twin_b"]] * 3


@pytest.mark.parametrize("with_edges", [True, False])
def test_C12_what_the_conversation_met_is_first(with_edges: bool) -> None:
    sessions = InProcessSessions()
    with graph_store(embedder=None, sessions=sessions) as memory:
        if not with_edges:
            for edge in ("e1", "e2"):
                memory.unlink(edge, user_id="alice")
        sessions.record(CHAT, ["twin_b"], now=NOON)
        assert search(memory, "same words") == ["twin_b", "twin_a"]
        assert search(memory, "same words", session_id="another") == ["twin_a", "twin_b"]
        assert search(memory, "same words", session_id=None) == ["twin_a", "twin_b"]


class Broken:
    """A tracker that raises, hangs, or gives something else."""

    def __init__(self, how: str) -> None:
        self.how = how

    def _act(self) -> Any:
        if self.how == "raises":
            raise ConnectionError("password in here")
        if self.how == "hangs":
            time.sleep(6)
        return "no session"

    def session(self, name: SessionName, *, now: datetime) -> Session:
        given: Session = self._act()
        return given

    def record(self, name: SessionName, ids: Sequence[str], *, now: datetime) -> None:
        self._act()


@pytest.mark.parametrize("how", ["raises", "hangs", "nonsense"])
def test_C20_a_broken_tracker_is_told_of(how: str) -> None:
    with graph_store(embedder=None, sessions=Broken(how)) as memory:
        began = time.monotonic()
        matches = memory.search("same words", user_id="alice", session_id="chat")
        assert time.monotonic() - began < within(1.2)  # and not the 6 s of the tracker
        assert [match.episode.id for match in matches] == ["twin_a", "twin_b"]
        assert {reason.reason for reason in matches.reasons} == {"session_tracker"}
        assert "password" not in str(matches.reasons)
        assert matches.phase is not None
        phase = matches.phase
        assert (phase.general, phase.topical, phase.session) == (1.0, 0.0, 0.0)


def _changed_since() -> Session:
    made = Session({"twin_b": NOON})
    made.accessed["twin_b"] = "noon"  # type: ignore[index]
    return made


@pytest.mark.parametrize(
    "session",
    [Session({1: NOON}, 1), Session({"\ud800": NOON}, 1), _changed_since(), Session({2**70: NOON})],
    ids=["numbers", "no Unicode", "no times", "large numbers"],
)
def test_C20_a_tracker_that_names_no_memories_is_told_of(session: Session) -> None:
    class Custom:
        def session(self, name: SessionName, *, now: datetime) -> Session:
            return session

        def record(self, name: SessionName, ids: Sequence[str], *, now: datetime) -> None:
            pass

    with graph_store(embedder=None, sessions=Custom()) as memory:
        matches = memory.search("same words", user_id="alice", session_id="chat")
        assert [match.episode.id for match in matches] == ["twin_a", "twin_b"]
        assert [reason.reason for reason in matches.reasons] == ["session_tracker"]
        assert matches.phase is not None
        assert matches.phase.session == 0.0


@pytest.mark.parametrize("is_there", [True, False])
def test_C07_C08_by_force_only_the_pattern_counts(
    is_there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with graph_store(embedder=None) as memory:
        if not is_there:
            monkeypatch.setattr(Follower, "ready", _cannot)
        answer = hm_recall(memory, "^j.t$", user_id="alice", force_regex=True)
        assert [one["key"] for one in answer["results"]] == (["jwt"] if is_there else [])
        assert bool(answer["metadata"]["degraded"]) is not is_there
        words = hm_recall(memory, "same words", user_id="alice", force_regex=True)
        assert words["count"] == (2 if is_there else 0)
        with pytest.raises(OptionError, match=r"text\['regex'\]\[0\]: .*RE2\).*, got '\('"):
            hm_recall(memory, "(", user_id="alice", force_regex=True)
        assert hm_recall(memory, "(", user_id="alice")["count"] == 0  # searched as text


def _cannot(*args: Any, **options: Any) -> Any:
    raise IndexNotReadyError(DegradedReason.INDEX_UNAVAILABLE, "planted")


def test_C21_without_vectors_the_others_answer() -> None:
    with graph_store(embedder=BrokenEmbedder()) as memory:
        matches = memory.search("meeting", user_id="alice")
        assert {match.episode.id for match in matches} == {"jwt", "auth"}
        assert [reason.reason for reason in matches.reasons] == ["embed_unavailable"]


def test_C22_nodes_and_edges_are_as_after_a_rebuild() -> None:
    rng = np.random.default_rng(22)
    with graph_store(embedder=None) as memory:
        nodes, edges = list(TEXTS), ["e1", "e2"]
        for step in range(60):
            match int(rng.integers(5)):
                case 0:
                    key = f"n{step}"
                    memory.remember(f"node {rng.choice(nodes)}", id=key, user_id="alice")
                    nodes.append(key)
                case 1 if len(nodes) > 4:
                    gone = str(rng.choice(nodes))
                    nodes.remove(gone)
                    assert memory.forget(gone, user_id="alice") == 1
                    assert memory.links(gone, user_id="alice") == []
                case 2 | 3:
                    ends = rng.choice(nodes, int(rng.integers(2, 5)), replace=False).tolist()
                    edge = memory.link(ends, "beside", user_id="alice")
                    assert [end.id for end in edge.participants] == ends
                    edges.append(edge.id)
                case 4 if edges:
                    memory.unlink(edges.pop(int(rng.integers(len(edges)))), user_id="alice")
        store = memory._store
        asked = ("node", "beside", "same words", "meeting")

        def show() -> list[Any]:
            found = [memory.search(q, user_id="alice", now=NOON, limit=2) for q in asked]
            return [
                ([(m.episode.id, m.score) for m in one], one.context, one.edges) for one in found
            ]

        followed = show()
        store.follower.relayout(store.layout, model=store.guard.model, dim=store.dim)
        assert show() == followed
        assert any(edges for _, _, edges in followed)


# ---- nodes, edges and hyperedges, kept and taken away ----


def test_C22_edges_keep_role_and_order_and_survive_a_reopening() -> None:
    path = folder()
    ends = [Participant(id="c", role="author"), Participant(id="a", role="paper"), "b"]
    with open_store(path, embedder=None, recipe=recipes.hypergraph) as memory:
        for node in "abcd":
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
