"""Faces of a store in Python: plain calls, awaited calls, an agent's view, a second process."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import tempfile
import threading
from contextlib import ExitStack
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar, Self

from anyio.from_thread import BlockingPortal

import hyrecall as hr
from conformance.faces import Row, memory_row, moment, python_refusals
from conformance.store_face import PLACE, SELECTING, Found, Marked, Opening, Store
from hyrecall import recipes
from hyrecall.embed import AUTO, HashEmbedder
from hyrecall.memory import AgentMemorySync, Browse, Episode, EpisodeMatch, Fact, Memory, MemorySync

DIM = 16
BROWSE = ("ls", "cat", "grep", "find")


def opening_options(opening: Opening) -> dict[str, Any]:
    """Return how Python opens a store as a scenario wants it."""
    embedder: Any = HashEmbedder(DIM) if opening.embeds else None
    if opening.embeds is None:
        embedder = AUTO
    recipe = getattr(recipes, opening.recipe)
    return {"recipe": recipe, "embedder": embedder, "recall_timeout": 30.0, "warm": False}


class Shared:
    """What the faces of a run share: an event loop on a thread, a process, an endpoint."""

    def __init__(self, portal: BlockingPortal, stack: ExitStack) -> None:
        self.portal = portal
        self.tools_checked: set[str] = set()
        self.kept: dict[tuple[type, object], Any] = {}
        self.stack = stack

    @cached_property
    def owner(self) -> Owner:
        made = Owner()
        self.stack.callback(made.end)
        return made

    @cached_property
    def endpoint(self) -> str:
        server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.stack.callback(server.server_close)
        self.stack.callback(server.shutdown)
        return f"http://127.0.0.1:{server.server_port}/v1"


class Endpoint(BaseHTTPRequestHandler):
    """Serves the vectors of the embedder that Python's faces have."""

    def do_POST(self) -> None:
        given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
        texts = [given] if isinstance(given, str) else given
        rows = [{"embedding": one.tolist()} for one in HashEmbedder(DIM).embed(texts)]
        body = json.dumps({"data": rows}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Owner:
    """Another process, which owns the stores that this one opens."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "conformance.owner_process"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(one for one in sys.path if one)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def tell(self, *order: Any) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def end(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()


class House:
    """A store that is open for a scenario, and what has to be closed after it."""

    def __init__(self, opening: Opening, shared: Shared) -> None:
        self.opening, self.shared = opening, shared
        self.memory: Any = None
        self.second: MemorySync | None = None
        self.client: Any = None
        self.clients: dict[str | None, Any] = {}
        self.stack = ExitStack()

    def opened(self) -> MemorySync:
        return MemorySync.open(self.opening.folder, **opening_options(self.opening))

    def open_second(self) -> MemorySync:
        if self.second is None:
            self.second = self.opened()
        return self.second

    def close_second(self) -> None:
        if self.second is not None:
            self.second.close()
            self.second = None


class Housed(Store):
    """A store in a house; Python reaches it by a second handle, whatever the face is."""

    def __init__(self, house: House, user: str = "ann") -> None:
        self.house, self.user, self.folder = house, user, house.opening.folder

    @classmethod
    def enter(cls, opening: Opening, shared: Shared, stack: ExitStack) -> Self:
        made = cls(House(opening, shared))
        made.open()
        stack.callback(made.close)
        stack.callback(made.house.close_second)
        return made

    def open(self) -> None:
        """Open the store, or start to serve it."""

    def close(self) -> None:
        """Close it."""

    def reopen(self) -> None:
        self.house.close_second()
        self.close()
        self.open()

    def as_user(self, user: str) -> Self:
        return type(self)(self.house, user)

    @property
    def setup(self) -> Store:
        second = House(self.house.opening, self.house.shared)
        second.memory = self.house.open_second()
        return Python(second, self.user)

    @property
    def whose(self) -> dict[str, Any]:
        return {"user_id": self.user, **dict(self.house.opening.place)}


class Python(Housed):
    """``MemorySync``, called in the thread of the scenario."""

    name: ClassVar[str] = "MemorySync"
    shown: ClassVar[type] = MemorySync

    def open(self) -> None:
        self.house.memory = self.house.opened()

    def close(self) -> None:
        self.house.memory.close()

    @property
    def setup(self) -> Store:
        return self

    @classmethod
    def offers(cls, verb: str, option: str | None = None) -> bool:
        if verb in BROWSE:
            function = getattr(Browse, verb) if hasattr(cls.shown, "browse") else None
        else:
            function = getattr(cls.shown, "search" if verb in ("marked", "sure") else verb, None)
        names = () if function is None else inspect.signature(function).parameters
        return function is not None and (option is None or option in names)

    # ---- how a call is made ----

    def _ask(self, verb: str, *args: Any, **options: Any) -> Any:
        with python_refusals():
            return self._run(getattr(self.house.memory, verb), *args, **options)

    def _run(self, function: Any, *args: Any, **options: Any) -> Any:
        return function(*args, **options)

    def _files(self, verb: str, *args: Any, **options: Any) -> Any:
        with python_refusals():
            browse = self.house.memory.browse(**self.whose)
            return self._run(getattr(browse, verb), *args, **_filtered(options))

    # ---- verbs ----

    def _fill(self, rows: list[Row]) -> None:
        self._ask("remember_batch", [self._episode(**row) for row in rows])

    def _episode(self, text: str, **fields: Any) -> Episode:
        return Episode(text=text, **self.whose, **fields)

    def _remember(self, text: str, *, ttl: float | None = None, **fields: Any) -> Row:
        with python_refusals():
            episode = self._episode(text, **fields)
        kept = self._ask("remember", episode, ttl=ttl)
        return {"id": kept.id, "version": kept.version, "embedded": kept.embedded}

    def _get(self, key: str) -> Row | None:
        found = self._ask("get", key, **self.whose)
        return None if found is None else memory_row(found.model_dump())

    def _list(self, **options: Any) -> list[Row]:
        found = self._ask("list", **self.whose, **_filtered(options))
        return [memory_row(one.model_dump()) for one in found]

    def _update(self, key: str, **changes: Any) -> int:
        return self._ask("update", key, **self.whose, **changes).version

    def _supersede(self, key: str, text: str, *, reason: str | None = None, **fields: Any) -> Row:
        kept = self._ask("supersede", key, text, reason=reason, **fields, **self.whose)
        return {"id": kept.id, "version": kept.version, "embedded": kept.embedded}

    def _pin(self, key: str, **options: Any) -> None:
        self._ask("pin", key, **self.whose, **options)

    def _forget(self, key: str | list[str] | None, **options: Any) -> int:
        return self._ask("forget", key, **self.whose, **_filtered(times(options)))

    def _update_many(self, changes: Row, **which: Any) -> int:
        return self._ask("update_many", changes, **self.whose, **_filtered(times(which)))

    def _list_sessions(self) -> list[tuple[str, int]]:
        found = self._ask("list_sessions", **self.whose)
        return [(one.session_id, one.memories) for one in found]

    def _history(self, key: str) -> list[Row]:
        return [version_row(one) for one in self._ask("history", key, **self.whose)]

    def _search(self, query: str, **options: Any) -> Found:
        given = search_options(options)
        found = self._ask("search", query, **self.whose, **given)
        around = found.around or [()] * len(found)
        rows = [match_row(one, near) for one, near in zip(found, around, strict=True)]
        return Found(rows, [one.reason.value for one in found.reasons])

    def _sure(self, query: str) -> float | None:
        return self._ask("search", query, **self.whose).confidence

    def _marked(self, query: str) -> Marked:
        return [
            (one.episode.id, [list(span) for span in one.highlights()], one.snippet())
            for one in self._ask("search", query, **self.whose)
        ]

    def _recall_scored(self, query: str, **options: Any) -> Found:
        given = search_options(options)
        found = self._ask("recall_scored", query, **self._of_whom("recall_scored"), **given)
        return Found([match_row(one) for one in found], [])

    def _of_whom(self, verb: str) -> dict[str, Any]:
        return {"user_id": self.user}

    def _link(self, nodes: list[str], relationship: str, **options: Any) -> Row:
        return edge_row(self._ask("link", nodes, relationship, **self.whose, **options))

    def _unlink(self, key: str) -> bool:
        return bool(self._ask("unlink", key, **self.whose))

    def _links(self, key: str) -> list[Row]:
        return [edge_row(one) for one in self._ask("links", key, **self.whose)]

    def _remember_fact(self, subject: str, predicate: str, object: str, **fields: Any) -> Row:  # noqa: A002
        with python_refusals():
            fact = Fact(subject=subject, predicate=predicate, object=object, **self.whose, **fields)
        kept = self._ask("remember_fact", fact)
        return {"id": kept.id, "version": kept.version, "embedded": kept.embedded}

    def _end_fact(self, key: str, **options: Any) -> int:
        return self._ask("end_fact", key, **self.whose, **times(options)).version

    def _recall_facts(self, query: str, **options: Any) -> list[Row]:
        found = self._ask("recall_facts", query, **self.whose, **times(options))
        return [fact_row(one.model_dump()) for one in found]

    def _list_facts(self, **options: Any) -> list[Row]:
        found = self._ask("list_facts", **self.whose, **times(options))
        return [fact_row(one.model_dump()) for one in found]

    def _feedback(self, query: str, used: list[str]) -> int:
        return self._ask("feedback", used=used, query=query, **self.whose)

    def _list_feedback(self) -> list[Row]:
        found = self._ask("list_feedback", **self.whose)
        return [{"query": one.query, "used": list(one.used)} for one in found]

    def _set_policy(self, agent: str, policy: str, **options: Any) -> None:
        self._ask("set_policy", agent, policy=policy, **PLACE, **options)

    def _get_policy(self, agent: str) -> tuple[str, str | None]:
        return tuple(self._ask("get_policy", agent, **PLACE))

    def _ls(self, path: str, **options: Any) -> list[str]:
        return self._files("ls", path, **options)

    def _cat(self, path: str) -> str:
        return self._files("cat", path)

    def _grep(self, pattern: str, path: str, **options: Any) -> list[tuple[str, int, str]]:
        found = self._files("grep", pattern, path, **options)
        return [(one.path, one.number, one.text) for one in found]

    def _find(self, pattern: str, path: str, **options: Any) -> list[str]:
        return self._files("find", pattern, path, **options)

    def _export(self, **options: Any) -> list[str]:
        with tempfile.NamedTemporaryFile("r+", suffix=".jsonl", encoding="utf-8") as file:
            self._ask("export", file.name, **self.whose, **options)
            return Path(file.name).read_text("utf-8").splitlines()

    def _import_(self, lines: list[str]) -> tuple[int, int, list[int]]:
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in lines))
            file.flush()
            done = self._ask("import_", file.name)
        return done.imported, done.skipped, [one.line for one in done.errors]

    def _doctor(self, **options: Any) -> bool:
        return self._ask("doctor", **options).ok

    def _compact(self) -> bool:
        done = self._ask("compact")
        return done.bytes_after < done.bytes_before

    def _reembed(self, **options: Any) -> tuple[int, int]:
        done = self._ask("reembed", **self.whose, **options)
        return done.scanned, done.embedded


class Async(Python):
    """``Memory``, awaited on an event loop."""

    name = "Memory"
    shown = Memory

    def open(self) -> None:
        opening = self.house.opening
        self.house.memory = self._run(self._open_it, opening)

    @staticmethod
    async def _open_it(opening: Opening) -> Memory:
        return await Memory.open(opening.folder, **opening_options(opening))

    def close(self) -> None:
        self._run(self.house.memory.close)

    setup = Housed.setup

    def _run(self, function: Any, *args: Any, **options: Any) -> Any:
        async def call() -> Any:
            found = function(*args, **options)
            return await found if inspect.isawaitable(found) else found

        return self.house.shared.portal.call(call)


class SecondProcess(Python):
    """``MemorySync`` of a store that another process owns."""

    name = "2nd process"

    def open(self) -> None:
        opening = self.house.opening
        self.house.shared.owner.tell("open", str(opening.folder), opening.recipe, opening.embeds)
        super().open()

    def close(self) -> None:
        super().close()
        self.house.shared.owner.tell("close")


_AGENT_NO = "an agent reads and changes its own memories; who opened the store does this"


class Agent(Python):
    """An agent's view of a ``MemorySync``: the user's name is the agent's."""

    name = "agent's view"
    shown = AgentMemorySync
    lacks: ClassVar = {
        **dict.fromkeys(
            (
                "supersede", "pin", "link", "unlink", "remember_fact", "set_policy", "get_policy",
                "export", "import_", "doctor", "compact", "reembed", "update_many",
                "list_sessions",
                *(f"forget.{one}" for one in ("erase", "everything", *SELECTING)),
            ),
            _AGENT_NO,
        ),
    }  # fmt: skip

    @property
    def setup(self) -> Store:
        return Python(self.house, self.user)

    @property
    def whose(self) -> dict[str, Any]:
        return {}

    @property
    def _view(self) -> AgentMemorySync:
        return self.house.memory.agent(self.user, org=PLACE["org"], workspace=PLACE["workspace"])

    def _ask(self, verb: str, *args: Any, **options: Any) -> Any:
        if verb in ("update", "forget", "end_fact"):
            options = {"reason": "of the scenario"} | options
        with python_refusals():
            return getattr(self._view, verb)(*args, **options)

    def _files(self, verb: str, *args: Any, **options: Any) -> Any:
        with python_refusals():
            return getattr(self._view.browse(), verb)(*args, **_filtered(options))

    def _fill(self, rows: list[Row]) -> None:
        self.setup._fill(rows)

    def _remember(self, text: str, **fields: Any) -> Row:
        kept = self._ask("remember", text, **fields)
        return {"id": kept.id, "version": kept.version, "embedded": kept.embedded}

    def _of_whom(self, verb: str) -> dict[str, Any]:
        return {}


def agent_of(store: Store, name: str) -> Agent:
    """Return an agent's view of the store of a face."""
    python = store.setup
    assert isinstance(python, Python)
    return Agent(python.house, name)


# ---- options and replies as plain data ----


def times(options: dict[str, Any]) -> dict[str, Any]:
    """Read the times among options."""
    names = ("at", "valid_at", "before", "now")
    return options | {name: moment(options[name]) for name in names if name in options}


def search_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return options of a search as Python takes them."""
    given = _filtered(times(options))
    if "recipe" in given:
        given["recipe"] = getattr(recipes, given["recipe"], given["recipe"])
    return given


def _filtered(options: dict[str, Any]) -> dict[str, Any]:
    """Return options whose filter, given as JSON has it, is one of Python."""
    if options.get("filter") is None:
        return dict(options)
    columns, metadata = {}, {}
    for name, wanted in options["filter"].items():
        is_range = isinstance(wanted, dict)
        value = (wanted.get("from"), wanted.get("to")) if is_range else wanted
        column, _, key = name.partition(".")
        if key:
            metadata[key] = hr.IsNull() if value is None else value
        else:
            of_time = is_range and column == "occurred_at"
            columns[column] = hr.Between(*value) if of_time else value
    with python_refusals():
        made = {"filter": hr.Filter(**columns)} if columns else {}
    return {**options, "filter": None, **made} | ({"metadata": metadata} if metadata else {})


def match_row(match: EpisodeMatch, near: Any = ()) -> Row:
    return memory_row(match.episode.model_dump()) | {
        "score": match.score, "bm25_score": match.bm25_score, "vector_score": match.vector_score,
        "is_fill": match.is_fill, "valid_to": match.valid_to, "around": [one.id for one in near],
    }  # fmt: skip


def version_row(one: Any) -> Row:
    return {
        "version": one.version, "status": str(one.status), "reason": one.reason,
        "successor": one.successor, "text": None if one.episode is None else one.episode.text,
    }  # fmt: skip


def edge_row(edge: Any) -> Row:
    return {
        "id": edge.id, "relationship": edge.relationship, "description": edge.description,
        "nodes": [one.id for one in edge.participants],
    }  # fmt: skip


def fact_row(fact: Row) -> Row:
    names = ("id", "subject", "predicate", "object")
    return {name: fact[name] for name in names} | {
        name: moment(fact[name]) for name in ("valid_from", "valid_to")
    }
