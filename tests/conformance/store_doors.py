"""Faces of a store outside Python: REST, MCP and the command line, all in this process."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import pytest

from conformance.faces import Refused, Row, at, memory_row, moment
from conformance.store_face import PLACE, Found, Marked, Opening
from conformance.store_python import Housed, Shared, fact_row, opening_options
from hyrecall import recipes
from hyrecall.memory import Memory


class Door(Housed):
    """A store that a program serves; Python reaches it by a second handle."""

    paths: ClassVar[str] = "entries"

    def _read(self, verb: str, path: str, **given: Any) -> Any:
        """Ask for files: what `ls`, `cat`, `grep` or `find` replies."""
        raise NotImplementedError

    def _ls(self, path: str, **options: Any) -> list[str]:
        return self._read("ls", path, **options)[self.paths]

    def _cat(self, path: str) -> str:
        return self._read("cat", path)["text"]

    def _grep(self, pattern: str, path: str, **options: Any) -> list[tuple[str, int, str]]:
        found = self._read("grep", path, pattern=pattern, **options)["lines"]
        return [(one["path"], one["number"], one["text"]) for one in found]

    def _find(self, pattern: str, path: str, **options: Any) -> list[str]:
        return self._read("find", path, pattern=pattern, **options)[self.paths]


class JsonDoor(Door):
    """A door whose verbs take and give JSON, the same at each."""

    of_one: ClassVar[frozenset[str]] = frozenset(("reason", "if_version", "erase"))
    """The options of forgetting one memory by its id."""

    def _data(self, verb: str, **given: Any) -> Any:
        """Call a verb; what it replies."""
        raise NotImplementedError

    def _if_there(self, verb: str, missing: Any, **given: Any) -> Any:
        """Call a verb; `missing` where the door says that there is no such thing."""
        try:
            return self._data(verb, **given)
        except Refused as fault:
            if fault.kind != "missing":
                raise
            return missing

    def _remember(self, text: str, **fields: Any) -> Row:
        return _kept(self._data("remember", text=text, **fields))

    def _get(self, key: str) -> Row | None:
        found = self._if_there("get", None, id=key)
        return None if found is None else memory_row(found)

    def _list(self, **options: Any) -> list[Row]:
        return [memory_row(one) for one in self._data("list", **options)["items"]]

    def _update(self, key: str, **changes: Any) -> int:
        return self._data("update", id=key, **changes)["version"]

    def _supersede(self, key: str, text: str, **fields: Any) -> Row:
        return _kept(self._data("supersede", id=key, text=text, **fields))

    def _pin(self, key: str, **options: Any) -> None:
        self._data("pin", id=key, **options)

    def _forget(self, key: str | list[str] | None, **options: Any) -> int:
        if isinstance(key, str) and set(options) <= self.of_one:
            return self._if_there("forget", {"forgotten": 0}, id=key, **options)["forgotten"]
        if options.get("everything") is True:  # a door wants to be told of whom once more
            options["everything"] = self.user
        ids = {} if key is None else {"id": [key] if isinstance(key, str) else key}
        return self._data("forget_many", **ids, **options)["forgotten"]

    def _update_many(self, changes: Row, **which: Any) -> int:
        return self._data("update_many", changes=changes, **which)["updated"]

    def _list_sessions(self) -> list[tuple[str, int]]:
        found = self._data("list_sessions")["items"]
        return [(one["session_id"], one["memories"]) for one in found]

    def _history(self, key: str) -> list[Row]:
        names = ("version", "status", "reason", "successor")
        return [
            {name: one[name] for name in names} | {"text": (one["episode"] or {}).get("text")}
            for one in self._data("history", id=key)["items"]
        ]

    def _search(self, query: str, **options: Any) -> Found:
        found = self._data("search", text=query, **options)
        near = found.get("around") or [one.get("around", ()) for one in found["items"]]
        names = ("score", "bm25_score", "vector_score", "is_fill")
        rows = [
            memory_row(one["episode"]) | {name: one[name] for name in names} | {
                "valid_to": moment(one["valid_to"]), "around": [row["id"] for row in rows],
            }
            for one, rows in zip(found["items"], near, strict=True)
        ]  # fmt: skip
        return Found(rows, [one["reason"] for one in found["reasons"]])

    def _sure(self, query: str) -> float | None:
        return self._data("search", text=query, **self.sure_by)["confidence"]

    sure_by: ClassVar[Mapping[str, bool]] = {"confidence": True}
    """What asks a door for it."""

    def _marked(self, query: str) -> Marked:
        found = self._data("search", text=query, highlight=True)["items"]
        return [(one["episode"]["id"], one["highlights"], one["snippet"]) for one in found]

    def _link(self, nodes: list[str], relationship: str, **options: Any) -> Row:
        return _edge(self._data("link", participants=nodes, relationship=relationship, **options))

    def _unlink(self, key: str, **options: Any) -> bool:
        return self._if_there("unlink", {"unlinked": False}, id=key, **options)["unlinked"]

    def _links(self, key: str) -> list[Row]:
        return [_edge(one) for one in self._data("links", id=key)["items"]]

    def _remember_fact(self, subject: str, predicate: str, object: str, **fields: Any) -> Row:  # noqa: A002
        said = {"subject": subject, "predicate": predicate, "object": object}
        return _kept(self._data("remember_fact", **said, **fields))

    def _end_fact(self, key: str, **options: Any) -> int:
        return self._data("end_fact", id=key, **options)["version"]

    def _recall_facts(self, query: str, **options: Any) -> list[Row]:
        return list(map(fact_row, self._data("recall_facts", text=query, **options)["items"]))

    def _list_facts(self, **options: Any) -> list[Row]:
        return list(map(fact_row, self._data("list_facts", **options)["items"]))

    def _feedback(self, query: str, used: list[str]) -> int:
        return self._data("feedback", query=query, used=used)["new"]

    def _list_feedback(self) -> list[Row]:
        found = self._data("list_feedback")["items"]
        return [{"query": one["query"], "used": one["used"]} for one in found]

    def _policies(self, verb: str, **given: Any) -> Any:
        """Read or set a policy, as somebody who may name any user."""
        raise NotImplementedError

    def _set_policy(self, agent: str, policy: str, **options: Any) -> None:
        self._policies("set_policy", agent=agent, policy=policy, **options)

    def _get_policy(self, agent: str) -> tuple[str, str | None]:
        found = self._policies("get_policy", agent=agent)
        return found["policy"], found["policy_group"]


def _kept(done: Row) -> Row:
    return {name: done[name] for name in ("id", "version", "embedded")}


def _edge(edge: Row) -> Row:
    return {name: edge[name] for name in ("id", "relationship", "description")} | {
        "nodes": [one["id"] for one in edge["participants"]]
    }


# ---- REST ----

ID = "/v1/memories/{id}"
ROUTES = {
    "remember": ("post", "/v1/memories"), "get": ("get", ID), "list": ("get", "/v1/memories"),
    "update": ("patch", ID), "supersede": ("post", f"{ID}/supersede"), "pin": ("put", f"{ID}/pin"),
    "forget": ("delete", ID), "history": ("get", f"{ID}/history"), "links": ("get", f"{ID}/links"),
    "search": ("post", "/v1/recall"), "link": ("post", "/v1/links"),
    "unlink": ("delete", "/v1/links/{id}"), "remember_fact": ("post", "/v1/facts"),
    "end_fact": ("post", "/v1/facts/{id}/end"), "recall_facts": ("post", "/v1/facts/recall"),
    "list_facts": ("get", "/v1/facts"), "feedback": ("post", "/v1/feedback"),
    "list_feedback": ("get", "/v1/feedback"), "set_policy": ("put", "/v1/agents/{agent}/policy"),
    "get_policy": ("get", "/v1/agents/{agent}/policy"), "export": ("get", "/v1/export"),
    "import_": ("post", "/v1/import"), "doctor": ("get", "/v1/doctor"),
    "compact": ("post", "/v1/compact"), "reembed": ("post", "/v1/reembed"),
    "recall_scored": ("post", "/v1/recall_scored"), "list_sessions": ("get", "/v1/sessions"),
    "forget_many": ("post", "/v1/memories/forget"),
    "update_many": ("post", "/v1/memories/update"),
    **{verb: ("get", f"/v1/browse/{verb}") for verb in ("ls", "cat", "grep", "find")},
}  # fmt: skip
"""The route of each verb: also of one that a face lacks, which would be there."""

STATUSES = {400: "value", 422: "value", 403: "forbidden", 404: "missing", 409: "taken",
            412: "changed"}  # fmt: skip


@contextmanager
def served(opening: Opening, shared: Shared) -> Iterator[Any]:
    """Give a client of the service over a store, without sockets."""
    pytest.importorskip("fastapi", reason="the extra [serve] is not installed")
    from hyrecall.serve import create_app
    from serve_client import calling

    app = create_app(Memory.open(opening.folder, **opening_options(opening)))
    with shared.portal.wrap_async_context_manager(calling(app)) as client:
        yield client


class Rest(JsonDoor):
    """The routes of ``hyrecall serve``, without a token: a request names its user."""

    name: ClassVar[str] = "REST"
    paths: ClassVar[str] = "paths"
    lacks: ClassVar[Mapping[str, str]] = {
        "recall_scored": "POST /v1/recall has all scores of a match",
        "import_": "hyrecall import, beside the service",
        **dict.fromkeys(("doctor", "compact", "reembed"), "hyrecall doctor, compact and reembed"),
        "list.filter": "POST /v1/recall with a filter",
        "grep.filter": "in Python",
        "find.filter": "in Python",
    }

    @classmethod
    @cache
    def _described(cls) -> dict[str, Any]:
        from hyrecall.serve import create_app

        return create_app(Memory.in_memory(recipe=recipes.default, embedder=None)).openapi()

    @classmethod
    def offers(cls, verb: str, option: str | None = None) -> bool:
        method, path = ROUTES["search" if verb in ("marked", "sure") else verb]
        route = cls._described()["paths"].get(path, {}).get(method)
        if route is None or option is None:
            return route is not None
        names = {one["name"] for one in route.get("parameters", ())}
        body = json.dumps(route.get("requestBody", {}))
        for model in re.findall(r"schemas/(\w+)", body):
            names |= set(cls._described()["components"]["schemas"][model].get("properties", {}))
        return option in names

    def open(self) -> None:
        serving = served(self.house.opening, self.house.shared)
        self.house.client = self.house.stack.enter_context(serving)

    def close(self) -> None:
        self.house.stack.close()

    def _call(self, verb: str, **given: Any) -> Any:
        method, path = ROUTES[verb]
        path = path.format(id=_quoted(given.pop("id"))) if "{id}" in path else path
        given |= self.whose
        asked: dict[str, Any] = {"params" if method in ("get", "delete") else "json": given}
        request = partial(self.house.client.request, method.upper(), path, **asked)
        reply = self.house.shared.portal.call(request)
        if reply.status_code >= 400:
            message = reply.json()["error"]["message"]
            raise Refused(STATUSES.get(reply.status_code, str(reply.status_code)), message)
        return reply

    def _data(self, verb: str, **given: Any) -> Any:
        return self._call(verb, **given).json()

    def _fill(self, rows: list[Row]) -> None:
        memories = [row | self.whose for row in rows]
        post = partial(self.house.client.post, "/v1/memories/batch", json={"episodes": memories})
        reply = self.house.shared.portal.call(post)
        assert reply.status_code == 201, reply.text

    def _policies(self, verb: str, **given: Any) -> Any:
        path = ROUTES[verb][1].format(agent=given.pop("agent"))
        if verb == "get_policy":
            call = partial(self.house.client.get, path, params=PLACE)
        else:
            call = partial(self.house.client.put, path, json={**PLACE, **given})
        reply = self.house.shared.portal.call(call)
        if reply.status_code >= 400:
            raise Refused(STATUSES[reply.status_code], reply.json()["error"]["message"])
        return reply.json()

    def _read(self, verb: str, path: str, **given: Any) -> Any:
        try:
            return self._data(verb, path=path, **given)
        except Refused as fault:
            if fault.kind != "missing":  # 404 says that there is no such file
                raise
            return {"text": ""}

    def _export(self, **options: Any) -> list[str]:
        return self._call("export", **options).text.splitlines()


def _quoted(key: str) -> str:
    """Return an id for a path; a client would resolve the id ``..`` as a path."""
    return quote(key, safe="").replace(".", "%2E")


# ---- MCP ----

KINDS = {"NotFoundError": "missing", "KeyConflictError": "taken", "ScopeError": "forbidden",
         "VersionConflictError": "changed"}  # fmt: skip


class Mcp(JsonDoor):
    """The tools of ``hyrecall mcp --user``, called through the official SDK."""

    name: ClassVar[str] = "MCP"
    of_one: ClassVar[frozenset[str]] = frozenset(("reason", "if_version"))
    tools: ClassVar[Mapping[str, str]] = {
        "sure": "search",
        **{verb: f"browse_{verb}" for verb in ("ls", "cat", "grep", "find")},
    }  # fmt: skip
    sure_by: ClassVar[Mapping[str, bool]] = {}  # always
    lacks: ClassVar[Mapping[str, str]] = {
        "recall_scored": "search has all scores of a match",
        "marked": "a model sees the whole text",
        "update.valid_to": "end_fact ends a fact; REST and Python take an end away",
        "export": "hyrecall export",
        "import_": "hyrecall import",
        **dict.fromkeys(("doctor", "compact", "reembed"), "hyrecall doctor, compact and reembed"),
        "grep.filter": "in Python and the command line",
        "find.filter": "in Python and the command line",
        **{
            f"search.{one}": "REST and Python"
            for one in ("weights", "candidates", "diversity", "now", "touch", "metadata")
        },
    }

    @classmethod
    @cache
    def _described(cls) -> dict[str, Any]:
        from anyio import run
        from mcp.client import Client

        async def listed() -> Any:
            async with (
                Memory.in_memory(recipe=recipes.default, embedder=None) as memory,
                Client(cls._server(memory, {})) as client,
            ):
                return (await client.list_tools()).tools

        return {tool.name: tool.input_schema["properties"] for tool in run(listed)}

    @classmethod
    def offers(cls, verb: str, option: str | None = None) -> bool:
        found = cls._described().get(cls.tools.get(verb, verb))
        return found is not None and option in (None, *found)

    @staticmethod
    def _server(memory: Memory, who: dict[str, Any]) -> Any:
        from hyrecall.serve import Caller
        from hyrecall.serve.mcp import create_server

        rights = frozenset(("read", "write"))
        return create_server(memory, caller=Caller(**{"rights": rights, **PLACE} | who))

    def open(self) -> None:
        pytest.importorskip("mcp", reason="the extra [mcp] is not installed")
        opening, portal = self.house.opening, self.house.shared.portal
        self.house.clients = {}
        made = Memory.open(opening.folder, **opening_options(opening))
        self.house.memory = self.house.stack.enter_context(portal.wrap_async_context_manager(made))

    def close(self) -> None:
        self.house.stack.close()

    def _client(self, user: str | None) -> Any:
        """Return the client of a user's server; None: of one that may name any user."""
        from mcp.client import Client

        if user not in self.house.clients:
            who = {"may_choose_user": True} if user is None else {"user_id": user}
            client = Client(self._server(self.house.memory, who))
            self.house.clients[user] = self.house.stack.enter_context(
                self.house.shared.portal.wrap_async_context_manager(client)
            )
        return self.house.clients[user]

    def _data(self, verb: str, *, everybody: bool = False, **arguments: Any) -> Any:
        client = self._client(None if everybody else self.user)
        tool = self.tools.get(verb, verb)
        reply = self.house.shared.portal.call(self._ask, client, tool, arguments)
        if reply.is_error:
            kind, _, told = reply.content[0].text.partition(": ")
            raise Refused(KINDS.get(kind, "value"), told)
        return reply.structured_content

    async def _ask(self, client: Any, tool: str, arguments: Row) -> Any:
        """Call a tool: the first time as hosts do, which reads and checks all its schemas."""
        from mcp_types import CallToolRequest, CallToolRequestParams, CallToolResult

        if tool not in self.house.shared.tools_checked:
            reply = await client.call_tool(tool, arguments)
            if not reply.is_error:
                self.house.shared.tools_checked.add(tool)
            return reply
        asked = CallToolRequest(params=CallToolRequestParams(name=tool, arguments=arguments))
        return await client.session.send_request(asked, CallToolResult)

    def _fill(self, rows: list[Row]) -> None:
        self.setup._fill(rows)

    def _policies(self, verb: str, **given: Any) -> Any:
        return self._data(verb, everybody=True, **given)

    def _read(self, verb: str, path: str, **given: Any) -> Any:
        return self._data(verb, path=path, **given)


# ---- the command line ----

_IN_PYTHON = "Python, REST and MCP"


@cache
def commands_described() -> dict[str, list[str]]:
    """Return every command with its options."""
    from typer.main import get_command

    from seams import app_app as app

    top: Any = get_command(app)
    groups = {name: getattr(one, "commands", None) for name, one in top.commands.items()}
    every = {name: one for name, one in top.commands.items() if groups[name] is None}
    for group, inner in groups.items():
        every |= {f"{group} {name}": one for name, one in (inner or {}).items()}
    return {
        name: [opt.lstrip("-").replace("-", "_") for p in one.params for opt in p.opts]
        for name, one in every.items()
    }


def invoked(words: list[str], folder: Path, endpoint: str | None = None) -> str:
    """Run ``hyrecall`` in this process, with no settings but those in a folder; give its output."""
    from typer.testing import CliRunner

    from seams import app_app as app

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HYRECALL_CONFIG", str(folder / "config.json"))
        if endpoint is None:
            patch.setenv("HYRECALL_EMBED_DISABLE", "1")
        else:
            patch.setenv("HYRECALL_EMBEDDING_URL", endpoint)
        done = CliRunner().invoke(app, words)
    if done.exit_code == 1 and not done.stdout:
        raise Refused("", done.stderr.strip().splitlines()[-1].removeprefix("error: "))
    assert done.exit_code == bool(done.stdout.startswith("{") and done.exit_code), (
        done.output,
        done.stderr,
        done.exception,
    )
    return done.stdout


class CommandLine(JsonDoor):
    """The commands of ``hyrecall``, each of which opens the store anew."""

    name: ClassVar[str] = "command line"
    commands: ClassVar[Mapping[str, str]] = {
        "search": "recall", "sure": "recall", "set_policy": "policy", "get_policy": "policy",
        "import_": "import", "list_feedback": "feedback", "end_fact": "end-fact",
        **{verb: f"browse {verb}" for verb in ("ls", "cat", "grep", "find")},
    }  # fmt: skip
    flags: ClassVar[Mapping[str, str]] = {"tags": "tag"}
    sure_by: ClassVar[Mapping[str, bool]] = {"explain": True}
    lacks: ClassVar[Mapping[str, str]] = {
        "update.valid_to": "end-fact ends a fact; REST and Python take an end away",
        "recall_scored": "recall --json has all scores of a match",
        "marked": "the table marks them on a terminal",
        **{f"search.{one}": _IN_PYTHON for one in ("candidates", "diversity", "now")},
    }  # fmt: skip

    @classmethod
    def offers(cls, verb: str, option: str | None = None) -> bool:
        found = commands_described().get(cls.commands.get(verb, verb.replace("_", "-")))
        names = {option, cls.flags.get(option or "", option)}
        return found is not None and (option is None or bool(names & set(found)))

    def _call(self, verb: str, *words: object, is_json: bool = True, **options: Any) -> Any:
        command = self.commands.get(verb, verb.replace("_", "-")).split()
        given = ["--path", str(self.folder), *self._flags(options), *["--json"] * is_json]
        endpoint = self.house.shared.endpoint if self.house.opening.embeds else None
        try:
            told = invoked([*command, *given, "--", *map(str, words)], self.folder.parent, endpoint)
        except Refused as fault:
            names = {flag: name for name, flag in self.flags.items() if name in options}
            fault.arguments = [names.get(one, one) for one in fault.arguments]
            raise
        return json.loads(told) if is_json else told

    def _flags(self, options: Mapping[str, Any]) -> list[str]:
        """Return options as the command line has them."""
        made = []
        for name, value in options.items():
            flag = "--" + self.flags.get(name, name).replace("_", "-")
            if value is True:
                made.append(flag)
            elif value is False and name in ("pinned", "single"):
                made.append(f"--no-{name}")
            elif name in ("metadata", "filter"):
                made += [flag, json.dumps(value)]
            elif name in ("weights", "min_score") and isinstance(value, dict):
                pairs = [f"{key}={number!r}" for key, number in value.items()]
                made += [flag, ",".join(pairs)] if name == "weights" else [
                    part for pair in pairs for part in (flag, pair)
                ]  # fmt: skip
            elif isinstance(value, list):
                made += [part for one in value for part in (flag, str(one))]
            elif value is not None and value is not False:
                made += [flag, str(value)]
        return made

    @property
    def _who(self) -> dict[str, Any]:
        return {"user": self.user, **PLACE}

    def open(self) -> None:
        pytest.importorskip("typer", reason="the extra [cli] is not installed")
        pytest.importorskip("rich", reason="the extra [cli] is not installed")
        (self.folder.parent / "config.json").write_text(
            json.dumps({"recipe": self.house.opening.recipe})
        )

    def _fill(self, rows: list[Row]) -> None:
        """Import them: a command for each would open the store as often."""
        lines = [json.dumps({"format": 2})]
        for row in rows:
            own = dict(row)
            version = {
                name: own.pop(name) for name in ("id", "visibility", "pinned") if name in own
            }
            line = {**version, **self.whose, "recorded_at": at(0), "content": own}
            lines.append(json.dumps({"version": line}))
        assert self._import_(lines) == (len(rows), 0, [])
        if self.house.opening.embeds:
            self._reembed()

    words: ClassVar[Mapping[str, Sequence[str]]] = {
        "remember": ("text",), "search": ("text",), "recall_facts": ("text",),
        "supersede": ("id", "text"), "link": ("relationship", "participants"),
        "remember_fact": ("subject", "predicate", "object"), "feedback": ("query", "used"),
        **dict.fromkeys(
            ("get", "update", "pin", "history", "links", "unlink", "end_fact"), ("id",)
        ),
    }  # fmt: skip
    """The arguments that are words of a command."""

    def _if_there(self, verb: str, missing: Any, **given: Any) -> Any:
        try:
            return self._data(verb, **given)
        except Refused as fault:
            if fault.arguments != ["id"]:
                raise
            return missing

    def _data(self, verb: str, **given: Any) -> Any:
        words: list[Any] = []
        for name in self.words.get(verb, ()):
            if name in given:
                one = given.pop(name)
                words += one if isinstance(one, list) else [one]
        return self._call(verb, *words, **self._who, **given)

    def _update_many(self, changes: Row, **which: Any) -> int:
        told = self._call("update_many", json.dumps(changes), **self._who, **which)
        return told["updated"]

    def _forget(self, key: str | list[str] | None, **options: Any) -> int:
        words = [key] if isinstance(key, str) else key or []
        return self._call("forget", *words, yes=True, **self._who, **options)["forgotten"]

    def _set_policy(self, agent: str, policy: str, **options: Any) -> None:
        self._call("set_policy", agent, policy, **PLACE, **options)

    def _get_policy(self, agent: str) -> tuple[str, str | None]:
        found = self._call("get_policy", agent, **PLACE)
        return found["policy"], found["policy_group"]

    def _read(self, verb: str, path: str, pattern: str | None = None, **given: Any) -> Any:
        words = [path] if pattern is None else [pattern, path]
        return self._call(verb, *words, **self._who, **given)

    def _doctor(self, **options: Any) -> bool:
        return self._call("doctor", **options)["ok"]

    def _compact(self) -> bool:
        done = self._call("compact")
        return done["bytes_after"] < done["bytes_before"]

    def _reembed(self, **options: Any) -> tuple[int, int]:
        done = self._call("reembed", **self._who, **options)
        return done["scanned"], done["embedded"]

    def _export(self, **options: Any) -> list[str]:
        return self._call("export", is_json=False, **self._who, **options).splitlines()

    def _import_(self, lines: list[str]) -> tuple[int, int, list[int]]:
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in lines))
            file.flush()
            done = self._call("import_", file.name)
        return done["imported"], done["skipped"], [one["line"] for one in done["errors"]]
