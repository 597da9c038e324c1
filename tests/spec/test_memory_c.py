"""Part C of the acceptance rows (hm_recall), through a store: sessions, the graph, the answer."""

import asyncio
import inspect
import json
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest

from embed.lateness import within
from hyrecall import recipes
from hyrecall.errors import KeyConflictError, OptionError, ScopeError
from hyrecall.memory import (
    DegradedReason,
    Episode,
    InProcessSessions,
    Memory,
    MemorySync,
    Participant,
    SessionTracker,
)
from hyrecall.systems.hypergraph import RedisSessions, ahm_recall, hm_recall
from memory.servers import redis_client
from memory.stores import (
    HOUR,
    NOON,
    BrokenEmbedder,
    Clock,
    FixedEmbedder,
    episode,
    folder,
    open_store,
)
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
        # By the column that matches: the key, the description, an edge, the data; then by key.
        memory.remember("a jwt", id="oak", user_id="alice", metadata={"by": "meeting"})
        placed = hm_recall(memory, "AUTH|twin_b|meeting", user_id="alice", force_regex=True)
        keys = [one["key"] for one in placed["results"]]
        assert keys == (["auth", "twin_b", "jwt", "oak"] if is_there else [])
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


# ---- the plain answer, its edges and its faces ----


NUMBER = (int, float)
NODE = {"key": str, "type": str, "description": str, "data": dict}
ANSWER: Any = {
    "results": [{**NODE, "score": NUMBER, "expansion_context": [{**NODE, "rel": str}]}],
    "edges": [
        {"id": str, "relationship": str, "description": str, "data": dict, "participants": [str]}
    ],
    "count": int,
    "metadata": {
        "phase": str,
        "weights": {"general": NUMBER, "topical": NUMBER, "session": NUMBER},
        "tiers": {"text": int, "edges": int, "embedding": int, "regex": int},
        "degraded": [str],
        "took_ms": NUMBER,
    },
}


def fits(given: Any, wish: Any) -> bool:
    """Whether parsed JSON has the fields and types of a wish; a list holds any number of one."""
    if isinstance(wish, dict):
        is_same = isinstance(given, dict) and given.keys() == wish.keys()
        return is_same and all(fits(given[name], wish[name]) for name in wish)
    if isinstance(wish, list):
        return isinstance(given, list) and all(fits(one, wish[0]) for one in given)
    return isinstance(given, wish) and not isinstance(given, bool)


def test_C01_C19_parameters_and_the_answer_as_json() -> None:
    told = {name: one.default for name, one in inspect.signature(hm_recall).parameters.items()}
    empty = inspect.Parameter.empty
    assert told == {
        "memory": empty, "query": empty, "session_id": "default", "max_results": 10,
        "force_regex": False, "user_id": None, "org": None, "workspace": None, "agent": None,
    }  # fmt: skip
    twin = {name: one.default for name, one in inspect.signature(ahm_recall).parameters.items()}
    assert twin == told
    with graph_store() as memory:
        memory.remember_batch(
            [Episode(id=f"n{at}", user_id="alice", text=f"oak {at}") for at in range(60)]
        )
        memory.link(["n1", "jwt", "n2"], "oak of", user_id="alice", id="e3", description="trees")
        counts = {
            given: hm_recall(memory, "oak", user_id="alice", max_results=given)["count"]
            for given in (-5, 0, 1, 2, 49, 50, 51, 55, 1_000)
        }
        assert counts == {-5: 1, 0: 1, 1: 1, 2: 2, 49: 49, 50: 50, 51: 50, 55: 50, 1_000: 50}
        assert hm_recall(memory, "oak", user_id="alice")["count"] == 10
        answer = json.loads(json.dumps(hm_recall(memory, "jwt", user_id="alice")))
        assert fits(answer, ANSWER), answer
        first = answer["results"][0]
        assert first["key"] == "jwt"
        # The conversation has met n1 and n2.
        assert [one["key"] for one in first["expansion_context"]] == ["n1", "n2", "auth"]
        assert [edge["id"] for edge in answer["edges"]] == ["e1", "e3"]
        assert all(0 <= one["score"] <= 1 for one in answer["results"])
        assert answer["metadata"]["degraded"] == []
        assert sum(answer["metadata"]["weights"].values()) == pytest.approx(1.0)
        for wrong in ("5", 2.5):
            with pytest.raises(OptionError, match="max_results: expected an int"):
                hm_recall(memory, "oak", max_results=wrong)  # type: ignore[arg-type]
        for wrong in ({"count": "3"}, {"results": [{}]}, {"more": 1}):  # the control
            assert not fits(answer | wrong, ANSWER)


def decisions(memory: MemorySync, **place: Any) -> None:
    """The document's example: two nodes that the query finds, and what connects them."""
    given = {"user_id": "alice", "occurred_at": NOON} | place
    for key, kind, text in (
        ("jwt", "technology", "JWT tokens for the API"),
        ("auth", "decision", "authentication decisions of the team"),
        ("meeting", "event", "the weekly round"),
        ("oak", "tree", "a tree in the yard"),
    ):
        memory.remember(text, id=key, kind=kind, metadata={"of": key}, **given)
    where = {name: given[name] for name in ("user_id", "org", "workspace") if name in given}
    memory.link(["meeting", "auth"], "held", id="a-held", **where)
    memory.link(["jwt", "auth"], "decided by", id="b-decided", metadata={"in": "May"}, **where)
    memory.link(["meeting", "oak"], "under", id="c-under", **where)
    memory.link(["jwt", "meeting", "oak"], "minutes", id="d-minutes", **where)


def test_C18_every_edge_between_results_and_context_is_returned() -> None:
    with open_store(recipe=recipes.hypergraph, clock=Clock(), embedder=None) as memory:
        decisions(memory)
        answer = hm_recall(memory, "JWT authentication decisions", user_id="alice")
        found = [one["key"] for one in answer["results"]]
        assert set(found) == {"jwt", "auth"}
        around = {one["key"] for hit in answer["results"] for one in hit["expansion_context"]}
        assert around == {"meeting", "oak"}
        # Every edge with two ends among the four; what connects the two results is among them.
        assert {edge["id"] for edge in answer["edges"]} == {
            "a-held", "b-decided", "c-under", "d-minutes",
        }  # fmt: skip
        (jwt,) = (one for one in answer["results"] if one["key"] == "jwt")
        assert (jwt["type"], jwt["data"]) == ("technology", {"of": "jwt"})
        rels = {one["key"]: one["rel"] for one in jwt["expansion_context"]}
        assert rels["meeting"] == "minutes"
        # The edge that the query's words name comes first, though it was put there second.
        answer = hm_recall(memory, "who decided on JWT", user_id="alice", session_id="other")
        assert {"jwt", "auth"} <= {one["key"] for one in answer["results"]}
        assert answer["edges"][0]["id"] == "b-decided"
        assert answer["edges"][0]["data"] == {"in": "May"}


def test_C18_of_two_nodes_that_are_found_without_context_the_edge_is_returned() -> None:
    with open_store(recipe=recipes.hypergraph, clock=Clock(), embedder=None) as memory:
        for key in ("jwt", "auth"):
            memory.remember(f"{key} decisions", id=key, user_id="alice", occurred_at=NOON)
        memory.link(["jwt", "auth"], "decided by", id="e", user_id="alice")
        answer = hm_recall(memory, "decisions", user_id="alice")
        assert all(not one["expansion_context"] for one in answer["results"])
        assert [edge["id"] for edge in answer["edges"]] == ["e"]


def test_C18_edges_of_others_are_not_returned() -> None:
    with open_store(recipe=recipes.hypergraph, clock=Clock(), embedder=None) as memory:
        decisions(memory)
        decisions(memory, user_id="bob")
        memory.unlink("b-decided", user_id="alice")
        answer = hm_recall(memory, "JWT authentication decisions", user_id="alice")
        assert {edge["id"] for edge in answer["edges"]} == {"a-held", "c-under", "d-minutes"}


def test_C19_tiers_keep_every_arm_where_the_fallback_ran() -> None:
    with graph_store(embedder=None) as memory:
        answer = hm_recall(memory, "okens expi", user_id="alice")
        assert [one["key"] for one in answer["results"]] == ["jwt"]
        assert answer["metadata"]["tiers"] == {"text": 0, "edges": 0, "regex": 1}


def test_C01_an_agent_sees_by_its_policy_and_both_faces_are_one() -> None:
    place = {"org": "acme", "workspace": "lab"}
    with open_store(recipe=recipes.hypergraph, clock=Clock(), embedder=None) as memory:
        decisions(memory, user_id="ada", **place)
        decisions(memory, user_id="ben", **place)
        path = memory._store.database.folder
        mine = hm_recall(memory, "JWT authentication decisions", agent="ada", **place)
        same = hm_recall(memory, "JWT authentication decisions", user_id="ada", **place)
        assert [one["key"] for one in mine["results"]] == [one["key"] for one in same["results"]]
        assert mine["edges"] == same["edges"]
        assert len(mine["edges"]) == 4
        assert not hm_recall(memory, "JWT", agent="cy", **place)["results"]
        with pytest.raises(ScopeError, match="org"):
            hm_recall(memory, "JWT", agent="ada")
        with pytest.raises(OptionError, match="agent: expected an agent, or user_id="):
            hm_recall(memory, "JWT", agent="ada", user_id="ada", **place)

    async def ask() -> Any:
        options = {"recipe": recipes.hypergraph, "embedder": None, "clock": Clock()}
        async with await Memory.open(path, **options) as face:
            by_agent = await ahm_recall(face, "JWT authentication decisions", agent="ada", **place)
            by_user = await ahm_recall(
                face, "JWT authentication decisions", "new", user_id="ada", **place
            )
            return by_agent, by_user

    for answer in asyncio.run(ask()):
        assert [one["key"] for one in answer["results"]] == [one["key"] for one in mine["results"]]
        assert answer["edges"] == mine["edges"]


# ---- nodes, edges and hyperedges, kept and taken away ----


NODES = "abcd"
USERS = ("alice", "bob")


def test_C22_edges_keep_role_and_order_and_survive_a_reopening() -> None:
    path = folder()
    ends = [Participant(id="c", role="author"), Participant(id="a", role="paper"), "b"]
    with open_store(path, embedder=None, recipe=recipes.hypergraph) as memory:
        for node in NODES:
            memory.remember(f"node {node}", id=node, user_id="alice")
        edge = memory.link(ends, "wrote", user_id="alice", metadata={"year": 2026})
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


# ---- strategies, signals, phases ----


def opened(
    vectors: dict[str, Sequence[float]] | None = None, clock: Clock | None = None
) -> MemorySync:
    """A store of hypergraph; with vectors by text, or without an embedder."""
    embedder = None if vectors is None else FixedEmbedder(vectors)
    return open_store(
        recipe=recipes.hypergraph, embedder=embedder, recall_timeout=30.0, clock=clock or Clock()
    )


def keep(memory: MemorySync, **texts: str) -> None:
    """Keep nodes by key and description."""
    for key, text in texts.items():
        memory.remember(episode(0, text, id=key))


def ask(memory: MemorySync, query: str, **options: Any) -> Any:
    return memory.search(query, **({"user_id": "alice", "limit": 50} | options))


def ids(matches: Any) -> list[str]:
    return [match.episode.id for match in matches]


def test_C02_each_of_four_strategies_finds_and_is_counted() -> None:
    vectors = {"oak.*": [1.0, 0.0], "cables": [0.9, 0.1]}
    with opened(vectors) as memory:
        keep(memory, words="an oak tree", meaning="cables", end="a garden", other="a street")
        memory.remember(episode(0, "a house", id="data", metadata={"wood": "oaken"}))
        memory.link(["end", "other"], "oak", user_id="alice")
        matches = ask(memory, "oak.*")
        assert matches.tiers == {"text": 1, "embedding": 1, "edges": 2, "regex": 4}
        tiers = {match.episode.id: set(match.parts.tiers) for match in matches}
        assert tiers == {
            "words": {"text", "regex"}, "meaning": {"embedding"}, "data": {"regex"},
            "end": {"edges", "regex"}, "other": {"edges", "regex"},
        }  # fmt: skip


def test_C03_words_are_sought_in_descriptions_and_not_in_data() -> None:
    with opened() as memory:
        keep(memory, a="the oak by the river", c="an elm")
        memory.remember(episode(0, "a garden", id="b", metadata={"tree": "oak"}))
        matches = ask(memory, "oak")
        assert ids(matches) == ["a"]
        assert matches.tiers["regex"] == 0


def test_C04_a_cosine_of_035_is_a_candidate_and_less_is_not() -> None:
    vectors: dict[str, Sequence[float]] = {
        "nowhere": [1.0, 0, 0, 0, 0],
        "exact": [7.0, 18.0, 5.0, 1.0, 1.0],  # of length 20: the cosine is 7 / 20
        "below": [0.3499, (1 - 0.3499**2) ** 0.5, 0, 0, 0],
        "above": [0.3501, (1 - 0.3501**2) ** 0.5, 0, 0, 0],
    }
    embedder = FixedEmbedder(vectors, dim=5)
    with open_store(
        recipe=recipes.hypergraph, embedder=embedder, recall_timeout=30.0, clock=Clock()
    ) as memory:
        keep(memory, exact="exact", below="below", above="above")
        assert ids(ask(memory, "nowhere")) == ["above", "exact"]


def test_C05_an_edge_that_matches_brings_all_its_participants() -> None:
    with opened() as memory:
        keep(memory, **{key: f"node {key}" for key in "abcdef"})
        memory.link(["a", "b"], "decided by", user_id="alice")
        memory.link(["c", "d", "e"], "met", description="they decided together", user_id="alice")
        memory.link(["e", "f"], "likes", user_id="alice")
        assert set(ids(ask(memory, "decided"))) == set("abcde")


def test_C06_patterns_run_where_the_query_is_one_or_nothing_else_finds() -> None:
    with opened() as memory:
        keep(memory, sessions="cookies in the browser", jwt="tokens", deploy="blue green deploy")
        memory.remember(episode(0, "a house", id="data", metadata={"alg": "RS256 (?=ahead)"}))
        memory.link(["jwt", "sessions"], "uses", user_id="alice", description="upon responses")
        for query, n_regex, keys in (
            ("cookies", 0, ["sessions"]),
            ("uses", 0, ["jwt", "sessions"]),
            ("ookie", 1, ["sessions"]),  # no word of it: the fallback
            ("cook.*", 1, ["sessions"]),
            ("t.kens|nothing", 1, ["jwt"]),
            ("R[ST]256", 1, ["data"]),
            ("rs256 (", 1, ["data"]),  # no pattern, and no word: a piece of text
            ("deploy (", 0, ["deploy"]),
            ("(?=AHEAD)", 1, ["data"]),  # RE2 has no lookahead
            ("pons", 2, ["jwt", "sessions"]),  # of the edge's text
            ("no.where", 0, []),
        ):
            matches = ask(memory, query)
            assert (matches.tiers["regex"], sorted(ids(matches))) == (n_regex, keys), query


@pytest.mark.parametrize(("seconds", "expected"), [(0, 1.0), (1800, 0.5), (3600, 0.25)])
def test_C11_half_of_the_session_score_is_gone_in_1800_seconds(
    seconds: int, expected: float
) -> None:
    clock = Clock()
    with opened(clock=clock) as memory:
        keep(memory, a="oak")
        ask(memory, "oak", session_id="chat")
        keep(memory, never="oak tree")
        clock.now = NOON + timedelta(seconds=seconds)
        matches = ask(memory, "oak", session_id="chat")
        found = {match.episode.id: match.parts.session for match in matches}
        assert found == {"a": pytest.approx(expected, abs=1e-9), "never": 0.0}


def chain(memory: MemorySync) -> None:
    """h - a - b - c - d, and x apart; only h has the word oak."""
    keep(memory, h="oak node", **dict.fromkeys("abcdx", "node"))
    for first, second in ("ha", "ab", "bc", "cd"):
        memory.link([first, second], "beside", user_id="alice")


def test_C13_the_topical_score_is_halved_with_every_hop_up_to_three() -> None:
    with opened() as memory:
        chain(memory)
        ask(memory, "oak", session_id="chat")
        matches = ask(memory, "node", session_id="chat")
        assert {match.episode.id: match.parts.topical for match in matches} == {
            "h": 1.0, "a": 0.5, "b": 0.25, "c": 0.125, "d": 0.0, "x": 0.0,
        }  # fmt: skip


def test_C14_the_score_is_the_weighted_sum_of_three_signals() -> None:
    with opened() as memory:
        chain(memory)
        ask(memory, "oak", session_id="chat")
        for _ in range(12):
            matches = ask(memory, "node", session_id="chat")
            phase = matches.phase
            assert phase.general + phase.topical + phase.session == pytest.approx(1.0)
            for match in matches:
                parts = match.parts
                expected = (
                    phase.general * parts.general
                    + phase.topical * parts.topical
                    + phase.session * parts.session
                )
                assert match.score == pytest.approx(expected, abs=1e-9)


def test_C15_the_phase_is_chosen_by_earlier_recalls() -> None:
    with opened() as memory:
        keep(memory, a="oak")
        phases = [ask(memory, "oak", session_id="chat").phase for _ in range(12)]
        names = [phase.name for phase in phases]
        assert names == ["early"] * 3 + ["mid"] * 7 + ["deep"] * 2
        weights = {phase.name: (phase.general, phase.topical, phase.session) for phase in phases}
        assert weights == {
            "early": (0.8, 0.1, 0.1), "mid": (0.6, 0.2, 0.2), "deep": (0.5, 0.25, 0.25),
        }  # fmt: skip


def test_C17_a_hot_node_that_no_strategy_finds_is_absent() -> None:
    with opened() as memory:
        keep(memory, a="oak", hot="elm", near="fir")
        memory.link(["hot", "a"], "beside", user_id="alice")
        ask(memory, "elm", session_id="chat")
        assert ids(ask(memory, "oak", session_id="chat")) == ["a"]
        assert ids(ask(memory, "nowhere", session_id="chat")) == []
