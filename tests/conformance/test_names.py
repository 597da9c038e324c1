"""An argument has one name and one default at every door of the store.

Each verb's arguments in Python, with and without ``await`` and of an agent, are laid beside the
fields of its route, the arguments of its tool and the options of its command. A door may lack an
argument (``lacks`` in store_doors.py says why), but it calls none by a word of its own, except
those that stand below.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from conformance.store_doors import ROUTES, CommandLine, Mcp, Rest
from hyrecall import Index
from hyrecall.memory import AgentMemorySync, Browse, Episode, Fact, Memory, MemorySync
from seams import OPS, arguments

Arguments = Mapping[str, Any]
"""The names of the arguments, each with its default: None where the door states none."""

UNSTATED = (None, ..., (), [], {}, "", inspect.Parameter.empty)

WORDS = {
    ("command line", "*"): {
        "path": "the folder of the store, which other doors have opened",
        "user": "user_id",
        "tag": "one of tags; it may be repeated",
        "json": "how the reply is written",
        "yes": "a confirmation",
        "agent": "reads as an agent does, for which Python has a view",
    },
    ("command line", "search"): {
        "dir": "the folder of the store or of an index",
        **dict.fromkeys(
            ("embed", "by_thread", "parse", "threads", "sort", "facet"), "of an index"
        ),
        "force_regex": "recipe=recipes.hypergraph_regex",
        **dict.fromkeys(inspect.signature(Index.recall).parameters, "of Index.recall"),
        "explain": "match.explain() in Python",
    },
    ("command line", "feedback"): {"id": "one of used; it may be repeated"},
    ("command line", "list_feedback"): {"id": "used and query tell it apart from feedback",
                                        "query": "the same command gives feedback"},
    ("command line", "get_policy"): {
        "policy": "the same command sets it", "policy_group": "the same command sets it",
    },
    ("command line", "export"): {
        "output": "file, as other commands call what they write",
        "everyone": "user_id=EVERYONE, which is no str",
    },
    ("command line", "import_"): {
        "from": "system", "source": "file, or a folder or a URL of another system",
        **dict.fromkeys(
            ("user_from", "org", "workspace", "collection", "id_field", "text_field", "time_from",
             "vector_field", "vector_model", "into_index", "attribute"),
            "of hyrecall.migrate.into_store and into_index",
        ),
    },
    ("command line", "doctor"): {
        "repair": "the command's own", "rescue": "the command's own",
        "accept_loss": "of MemorySync.open",
    },
    **{
        ("REST", verb): dict.fromkeys(names, "a header of HTTP")
        for verb, names in (
            ("remember", ("Idempotency-Key",)), ("remember_fact", ("Idempotency-Key",)),
            ("supersede", ("Idempotency-Key", "If-Match")), ("update", ("If-Match",)),
            ("forget", ("If-Match",)),
        )
    },
    ("REST", "search"): {
        "depth": "recipe.replace(depth=) in Python", "explain": "match.explain() in Python",
        "confidence": "match.confidence in Python",
        "highlight": "match.highlights() and match.snippet() in Python",
    },
    **{
        (door, verb): dict.fromkeys(names, "of browse() in Python")
        for door, names in (
            ("REST", ("user_id", "org", "workspace")), ("command line", ("org", "workspace")),
        )
        for verb in ("ls", "cat", "grep", "find")
    },
}  # fmt: skip
"""What a door calls by a word of its own, or has alone, and what that is in Python."""

RECORDS = {
    "remember": Episode.model_fields,
    "remember_batch": Episode.model_fields,
    "supersede": Episode.model_fields,
    "remember_fact": Fact.model_fields,
}
"""Verbs that take a record in Python, whose fields are arguments elsewhere."""


def of_python(owner: type) -> Callable[[str], Arguments | None]:
    def read(verb: str) -> Arguments | None:
        function = getattr(owner, verb, None)
        if function is None:
            return None
        given = list(inspect.signature(function).parameters.values())
        return {one.name: one.default for one in given if one.name != "self"}

    return read


def of_rest(verb: str) -> Arguments | None:
    method, path = ROUTES[verb]
    described = Rest._described()
    route = described["paths"].get(path, {}).get(method)
    if route is None:
        return None
    found = {one["name"]: one["schema"].get("default") for one in route.get("parameters", ())}
    for model in re.findall(r"schemas/(\w+)", json.dumps(route.get("requestBody", {}))):
        fields = described["components"]["schemas"][model].get("properties", {})
        found |= {name: one.get("default") for name, one in fields.items()}
    return found


def of_mcp(verb: str) -> Arguments | None:
    found = Mcp._described().get(Mcp.tools.get(verb, verb))
    return None if found is None else {name: one.get("default") for name, one in found.items()}


def of_command(verb: str) -> Arguments | None:
    from typer.main import get_command

    from seams import app_app as app

    command: Any = get_command(app)
    for word in CommandLine.commands.get(verb, verb.replace("_", "-")).split():
        command = getattr(command, "commands", {}).get(word)
        if command is None:
            return None
    found = {}
    for one in command.params:
        options = [name[2:].replace("-", "_") for name in one.opts if name.startswith("--")]
        word = str(one.metavar or one.name).lower()
        for name in options or [word if word.isalpha() else one.name]:
            found[name] = one.default
    return found


DOORS: dict[str, Callable[[str], Arguments | None]] = {
    "Memory": of_python(Memory),
    "agent's view": of_python(AgentMemorySync),
    "REST": of_rest,
    "MCP": of_mcp,
    "command line": of_command,
}
IN_PYTHON = of_python(MemorySync)
FILES = of_python(Browse)


def differences(
    verb: str, asked: Arguments, doors: Mapping[str, Arguments | None]
) -> tuple[list[str], list[str]]:
    """Return what doors call otherwise than Python does, and the exceptions that were met."""
    wrong, met = [], []
    for door, given in doors.items():
        own = {**WORDS.get((door, "*"), {}), **WORDS.get((door, verb), {})}
        for name, default in (given or {}).items():
            where = f"{verb}, {door}: {name}"
            if name in asked:
                stated = asked[name], default
                if not any(one in UNSTATED for one in stated) and stated[0] != stated[1]:
                    wrong.append(f"{where} is {default!r} where it is {stated[0]!r} in Python")
            elif name in own:
                met.append(f"{where} ({own[name]})")
            elif name not in RECORDS.get(verb, ()):
                wrong.append(f"{where} is no argument in Python")
    return wrong, met


def test_an_agents_view_takes_what_the_table_says() -> None:
    for op in OPS.values():
        method = getattr(AgentMemorySync, op.name, None)
        assert (method is not None) == (op.is_at("agent") and "user_id" in op.scope), op.name
        if method is None:
            continue
        given = inspect.signature(method).parameters
        known = arguments(op, "agent")
        own = {"self", "embed_timeout", "created_at"}
        assert set(given) - own == set(known), op.name
        needed = {name for name, one in given.items() if one.default is one.empty} - own
        assert needed == {name for name, one in known.items() if one.is_needed}, op.name


def in_python(verb: str) -> Arguments:
    verb = "forget" if verb == "forget_many" else verb
    read = FILES if verb in ("ls", "cat", "grep", "find") else IN_PYTHON
    return read(verb) or {}


@pytest.fixture(scope="module", autouse=True)
def _extras() -> None:
    for package in ("fastapi", "mcp", "typer"):
        pytest.importorskip(package, reason=f"{package} is not installed")


@pytest.mark.parametrize("verb", ROUTES)
def test_an_argument_has_one_name_and_one_default_at_every_door(verb: str) -> None:
    wrong, met = differences(
        verb, in_python(verb), {door: read(verb) for door, read in DOORS.items()}
    )
    print("\n".join(met))
    assert not wrong, "\n".join(wrong)


def test_every_exception_is_needed() -> None:
    met = "\n".join(
        line
        for verb in ROUTES
        for line in differences(
            verb, in_python(verb), {door: read(verb) for door, read in DOORS.items()}
        )[1]
    )
    of_index = inspect.signature(Index.recall).parameters
    for (door, verb), words in WORDS.items():
        for name in words.keys() - of_index.keys():
            place = rf"{'.*' if verb == '*' else verb}, {door}: {name} "
            assert re.search(place, met), (door, verb, name)


@pytest.mark.parametrize(
    ("verb", "door", "given"),
    [
        ("list", "REST", {"tag": None}),
        ("search", "MCP", {"query": None}),
        ("search", "REST", {"time_range": None}),
        ("list", "MCP", {"limit": 50}),
        ("link", "Memory", {"data": None}),
        ("remember", "command line", {"at": None}),
    ],
)
def test_a_door_with_a_word_or_a_default_of_its_own_is_found(
    verb: str, door: str, given: Arguments
) -> None:
    (told,) = differences(verb, in_python(verb), {door: given})[0]
    assert told.startswith(f"{verb}, {door}: {next(iter(given))} is ")
