"""Every public callable that reads or writes a store, and how to knock at it as somebody else.

A door without a case fails the walk: whoever adds one says here how it is called.
"""

import io
import random
from collections.abc import Callable, Iterable
from typing import Any

from hyrecall import recipes
from hyrecall.memory import (
    Agent,
    AgentMemory,
    AgentMemorySync,
    Browse,
    Episode,
    Fact,
    InProcessSessions,
    Memory,
    MemorySync,
    SessionTracker,
)
from hyrecall.systems.hypergraph import RedisSessions
from hyrecall.systems.loom import (
    AutoExtract,
    ChromaMemory,
    Lazy,
    PostgresMemory,
    RecallOnly,
    RedisMemory,
    VectorStore,
)
from memory.isolation.world import AGENTS, PAST, WORDS, Viewer, World, past
from memory.stores import HOUR, NOON
from seams import Filter, Notes, NotNull, hm_recall

Case = Callable[[Any, World, Viewer, random.Random], Any]

FACES: tuple[type, ...] = (MemorySync, Memory, AgentMemorySync, AgentMemory)
_SESSIONS = {"session", "record"}  # of ids that were authorised before
_BACKEND = {"remember", "recall", "recall_scored", "forget", "export"}  # held to MemoryContract
OTHERS: dict[type, set[str]] = {
    Agent: set(),  # holds a memory
    AutoExtract: {"remember", "recall", "recall_scored"},
    Browse: {"ls", "cat", "find", "grep", "classify", "write", "append", "rm", "cp", "mv"},
    ChromaMemory: _BACKEND,
    InProcessSessions: _SESSIONS,
    Lazy: {"remember", "recall", "recall_scored", "forget", "close", "inner"},
    Notes: {"delete", "expand", "get", "list", "save", "search", "supersede"},
    PostgresMemory: _BACKEND,
    RecallOnly: {"recall", "recall_scored"},
    RedisMemory: _BACKEND,
    RedisSessions: _SESSIONS,
    SessionTracker: _SESSIONS,
    VectorStore: {"add", "search_hybrid"},  # of one audience, which is its holder
}
"""Further classes with doors: walked below, or of one audience, or over a store that is walked."""
DATA = {
    "ANONYMOUS", "AUTO", "DamageWarning", "EVERYONE", "Degradation", "DegradedReason", "Edge",
    "Episode", "EpisodeMatch", "Fact", "Facts", "IsolationWarning", "Matches", "Participant",
    "MatchParts", "NoteHit", "NoteHits", "Note", "Partition", "QueryFeedback", "ReadPolicy",
    "ReadPolicyFault", "Reading", "Remembered", "Version", "AgentEntry", "SessionEntry",
    "UserEntry",
}  # fmt: skip
"""What doors take and give; nothing is read or written by it."""
FUNCTIONS = {"default_recall_scored"}  # asks a memory that it is given


def public(kind: type) -> set[str]:
    """The methods of a face."""
    return {
        name for name in dir(kind) if not name.startswith("_") and callable(getattr(kind, name))
    }


def missing(kind: type, cases: Iterable[str]) -> set[str]:
    """The doors of a face that nobody knocks at."""
    return public(kind) - set(cases)


def _query(world: World, rng: random.Random) -> str:
    """Words that all have, and now and then a secret itself: guessing it must not show it."""
    return " ".join(rng.choices(WORDS, k=rng.randrange(4)))


def _options(rng: random.Random) -> dict[str, Any]:
    return {
        "kind": rng.choice([None, "episodic", "note", "fact"]),
        "limit": rng.choice([0, 1, 5, 50]),
        "offset": rng.choice([0, 0, 2]),
        "since": rng.choice([None, NOON, "2024-01-01"]),
        "until": rng.choice([None, NOON + 40 * HOUR]),
        "tags": rng.choice([None, ["shared"], []]),
        "filter": rng.choice([None, Filter(pinned=True), ~Filter(session_id="none")]),
        "metadata": rng.choice([None, None, {"of": NotNull()}, {"of": ("a", None)}]),
        "alpha": rng.choice([None, 0.0, 0.3, 0.5, 1.0]),
        "recipe": rng.choice([None, recipes.default, recipes.honeycomb]),
        "session_id": rng.choice([None, "s0"]),
        "reranker": rng.choice([None, lambda query, texts: [float(len(t)) for t in texts]]),
        "diversity": rng.choice([None, 0.5]),
        "normalize": rng.random() < 0.3,
        "min_score": rng.choice([None, 0.01]),
        "token_budget": rng.choice([None, 20]),
        "candidates": rng.choice([None, ["m1", "none", "m0"], {"m2": 0.5, "fact": 2.0}]),
    }


def _search(face: Any, world: World, viewer: Viewer, rng: random.Random) -> Any:
    options = _options(rng)
    asked = options["reranker"]
    if asked is not None:
        seen: list[str] = []

        def spy(query: str, texts: list[str]) -> Any:
            seen.extend(texts)
            return asked(query, texts)

        options["reranker"] = spy
        return face.search(_query(world, rng), **options, **_place(face, viewer)), seen
    return face.search(_query(world, rng), **options, **_place(face, viewer))


def _place(face: Any, viewer: Viewer) -> dict[str, Any]:
    return {} if viewer.is_agent else viewer.place


def _user(viewer: Viewer) -> dict[str, Any]:
    return {"user_id": viewer.user} if viewer.org is None else {"user_id": "no such"}


def _id(rng: random.Random) -> str:
    return rng.choice(["m0", "m1", "m2", "fact", "edge", "none"])


def _histories(face: Any, world: World, viewer: Viewer, rng: random.Random) -> Any:
    """Of an id that all have, and of one of somebody's that was more than it is."""
    keys = (_id(rng), *(past(what, rng.choice([*AGENTS, "alice", "bob"])) for what in PAST))
    return [face.history(key, **_place(face, viewer)) for key in keys]


def _export(face: Any, world: World, viewer: Viewer, rng: random.Random) -> Any:
    out = io.StringIO()
    face.export(out, history=True, **_place(face, viewer))
    return out.getvalue(), face.export(**_place(face, viewer))


def _browse(face: Any, world: World, viewer: Viewer, rng: random.Random) -> Any:
    """Every command on a few paths, some of them of files that are others'."""
    files = face.browse(**_place(face, viewer))
    user, key = rng.choice(["alice", "bob", "%00", "%", "ada", "ben"]), _id(rng)
    of: dict[str, Any] | None = rng.choice([None, {"of": NotNull()}])
    paths = [
        "/index.md", "/", "/pinned", "/shared", "/sessions", f"/shared/{user}",
        f"/memories/note/{key}.md",
        f"/shared/{user}/note/{key}.md", "/sessions/s0.md", f"/graph/{key}.md", "/facts",
    ]  # fmt: skip
    listed = [(files.ls(path), files.find("*", path, metadata=of)) for path in paths]
    read = [files.cat(path) for path in paths if files.classify(path) != "folder"]
    read += [files.cat(path) for entries, _ in listed for path in entries if path.endswith(".md")]
    return listed, read, files.grep(rng.choice([*WORDS, "zq"]), metadata=of, limit=500)


def _reason(viewer: Viewer) -> dict[str, Any]:
    return {"reason": "walk"} if viewer.is_agent else {}


READING: dict[str, Case] = {
    "search": _search,
    "recall": lambda f, w, v, r: f.recall(_query(w, r), limit=r.randrange(60), **_user(v)),
    "recall_scored": lambda f, w, v, r: f.recall_scored(
        _query(w, r), kind=None, limit=r.randrange(300), alpha=r.random(), **_user(v)
    ),
    "recall_facts": lambda f, w, v, r: f.recall_facts(
        _query(w, r), limit=20, valid_at=r.choice([None, NOON + HOUR]), **_place(f, v)
    ),
    "list_facts": lambda f, w, v, r: f.list_facts(
        subject=r.choice([None, "oak"]), limit=50, **_place(f, v)
    ),
    "get": lambda f, w, v, r: f.get(
        _id(r), visibility=r.choice([None, "private", "global"]), **_place(f, v)
    ),
    "history": _histories,
    "list": lambda f, w, v, r: f.list(
        kind=r.choice([None, "note"]),
        pinned=r.choice([None, True]),
        metadata=r.choice([None, {"of": NotNull()}]),
        **_place(f, v),
    ),
    "count": lambda f, w, v, r: f.count(metadata={"of": NotNull()}, **_place(f, v)),
    "list_sessions": lambda f, w, v, r: f.list_sessions(**_place(f, v)),
    "links": lambda f, w, v, r: f.links(_id(r), **_place(f, v)),
    "list_feedback": lambda f, w, v, r: f.list_feedback(**_place(f, v)),
    "browse": _browse,
    "export": _export,
    "doctor": lambda f, w, v, r: f.doctor(full=True),
    "snapshot": lambda f, w, v, r: f.snapshot(),
    "wait_until_ready": lambda f, w, v, r: f.wait_until_ready(30.0),
    "reembed": lambda f, w, v, r: f.reembed(force=True, **_place(f, v)),
    "get_policy": lambda f, w, v, r: f.get_policy("spy", org="x", workspace="y"),
}
WRITING: dict[str, Case] = {
    "remember": lambda f, w, v, r: f.remember("oak tea", **_place(f, v)),
    "remember_batch": lambda f, w, v, r: f.remember_batch(
        [Episode(id=key, text="oak tea", **v.place) for key in (f"b{r.random()}", f"c{r.random()}")]
    ),
    "remember_fact": lambda f, w, v, r: f.remember_fact(
        Fact(
            subject="disk",
            predicate=f"is {r.choice(['private', 'global'])}",
            object="oak",
            valid_from=NOON + HOUR,
            **v.place,
        )
    ),
    "end_fact": lambda f, w, v, r: f.end_fact(
        r.choice([_id(r), "none"]), at=NOON + HOUR, **_reason(v), **_place(f, v)
    ),
    "update": lambda f, w, v, r: f.update(_id(r), tags=("walked",), **_reason(v), **_place(f, v)),
    "update_many": lambda f, w, v, r: f.update_many(
        {"importance": 1.0}, id=[_id(r), _id(r)], kind=r.choice([None, "note"]), **_place(f, v)
    ),
    "supersede": lambda f, w, v, r: f.supersede(_id(r), "elm fir", **_place(f, v)),
    "forget": lambda f, w, v, r: f.forget(_id(r), **_reason(v), **_place(f, v)),
    "pin": lambda f, w, v, r: f.pin(_id(r), **_place(f, v)),
    "link": lambda f, w, v, r: f.link(["m0", "m2"], "beside", **_place(f, v)),
    "unlink": lambda f, w, v, r: f.unlink(r.choice(["edge", "none"]), **_place(f, v)),
    "feedback": lambda f, w, v, r: f.feedback(
        used=[_id(r), past("told", r.choice([*AGENTS, "bob"]))], query="walked", **_place(f, v)
    ),
    "import_": lambda f, w, v, r: f.import_(io.StringIO("no export")),
    "set_policy": lambda f, w, v, r: f.set_policy("spy", org="x", workspace="y", policy="shared"),
}
NO_READERS = {"open", "in_memory", "close", "agent", "compact", "list_users", "list_agents"}
"""They give a store or a view of one, whose own doors are walked; `compact` gives two sizes, and
lists of users and agents are for who keeps the store: a service gives them to nobody else."""

CASES = READING | WRITING


def notes_walk(notes: Notes, rng: random.Random) -> Any:
    query, key = " ".join(rng.choices(WORDS, k=2)), f"n{rng.random()}"
    hits = notes.search(query, scope=rng.choice(["", "bob"]))
    found = hits, notes.list(), notes.get("m0"), [notes.expand(hit) for hit in hits]
    notes.save(key, "elm")
    notes.supersede(key, f"{key} too", "elm")
    return found, notes.delete("none"), notes.list()


def graph_walk(memory: MemorySync, viewer: Viewer, rng: random.Random) -> Any:
    query = rng.choice(["oak", "disk tea", "m[0-9]"])
    force = query.startswith("m")
    return hm_recall(memory, query, max_results=50, force_regex=force, user_id=viewer.user)
