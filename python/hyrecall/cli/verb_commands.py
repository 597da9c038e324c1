"""The commands of the verbs of :mod:`hyrecall.memory.ops`: one for each entry.

Arguments that a method takes by position are words of its command; the others are options of the
same names. With ``--json`` a command writes what the service replies.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from pydantic_core import to_jsonable_python

from hyrecall.base.text_tables import Column, Row
from hyrecall.base.times import read_moment, read_time
from hyrecall.cli.declare import shared
from hyrecall.cli.memory_options import given_text, now_ready, opened, read_store_filter
from hyrecall.cli.show import print_json, print_stored, print_table, say
from hyrecall.errors import HyrecallError, NotFoundError, OptionError, error
from hyrecall.memory.data.types import Episode, checked
from hyrecall.memory.ops import (
    OPS,
    SCOPE,
    Argument,
    Moment,
    Op,
    Time,
    arguments,
    as_call,
    words_of,
)
from hyrecall.memory.replies import REPLIES

_WORDS: Final = {
    "link": ("relationship", "participants"),
    "remember_fact": ("subject", "predicate", "object"),
}
"""The arguments that are words of a command; of others, those that their methods take so."""

_METAVARS: Final = {bool: None, int: "N", float: "NUMBER"}


# ---- The parameters of a command ----


def _parameters(op: Op) -> Iterator[inspect.Parameter]:
    """Yield the parameters of a command, as typer reads them."""
    known = arguments(op, "cli")
    words = _words(op)
    for name in words:
        one = known[name]
        metavar = {"participants": "ID"}.get(name, name.upper())
        what, default = _told(one)
        if name == "text" and op.effect != "reads":
            what += " - reads it from stdin."
        told = typer.Argument(metavar=metavar, help=what, show_default=default or False)
        if _is_many(one):  # the store says how many there have to be
            yield _parameter(name, list[str] | None, told, None)
        else:
            yield _parameter(name, str, told, NEEDED)
    yield shared("path", Path | None)
    for name in op.scope:
        yield shared(name, str | None)
    for name, one in known.items():
        if name not in words:
            yield _option(one)
    yield shared("as_json", bool, False)


NEEDED: Final = inspect.Parameter.empty
_KEYWORD: Final = inspect.Parameter.KEYWORD_ONLY


def _words(op: Op) -> tuple[str, ...]:
    return _WORDS.get(op.name, op.positional)


def _parameter(name: str, kind: Any, told: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, _KEYWORD, default=default, annotation=Annotated[kind, told])


def _option(one: Argument) -> inspect.Parameter:
    """Return the parameter of an option; one that is repeated has the name of one of many."""
    flag = "--" + one.name.removesuffix("s" if _is_many(one) else "").replace("_", "-")
    plain = next((kind for kind in _METAVARS if kind in _kinds(one.kind)), None)
    metavar = _METAVARS.get(plain, _metavar(one)) if plain else _metavar(one)
    words, default = _told(one)
    shown = str(one.default) if isinstance(one.default, str | int) and one.default else default
    if plain is bool:
        both = one.default is not False  # what is not given is no value, or True
        told: Any = typer.Option(f"{flag}/--no-{flag[2:]}" if both else flag, help=words)
        return _parameter(one.name, bool | None if both else bool, told, None if both else False)
    told = typer.Option(flag, metavar=metavar, help=words, show_default=shown or False)
    kind = list[str] if _is_many(one) or one.name == "filter" else plain or str
    return _parameter(one.name, kind | None, told, None)


def _told(one: Argument) -> tuple[str, str]:
    """Return what is said of an argument, and what it is by default."""
    found = re.fullmatch(r"(.*?)[;.] [Dd]efault: (.*)\.", one.words)
    words, default = (f"{found[1]}.", found[2]) if found else (one.words, "")
    if one.name in _TIMES and "ISO" not in words:
        words = f"{words.removesuffix('.')}, ISO 8601."
    if _is_many(one) and one.name == "tags":
        words = f"{words.removesuffix('.')}; repeat for several."
    return words, default


def _kinds(kind: Any) -> tuple[Any, ...]:
    """Return the plain types that an argument's type is made of."""
    inside = getattr(kind, "__args__", ())
    own = getattr(kind, "__origin__", None)
    return (kind, own, *(part for one in inside for part in _kinds(one)))


def _is_many(one: Argument) -> bool:
    return list in _kinds(one.kind)


def _metavar(one: Argument) -> str:
    if dict in _kinds(one.kind):
        return "JSON"
    if one.name in _TIMES or one.name in _MOMENTS:
        return "TIME"
    if one.name.endswith("id"):
        return "ID"
    choices = [part for part in _kinds(one.kind) if isinstance(part, str)]
    return "|".join(choices) if choices else "TEXT"


def _named(kind: Any) -> tuple[str, ...]:
    """Return the arguments of a type, of whatever verb."""
    return tuple(
        name
        for op in OPS.values()
        for name, one in arguments(op, "cli").items()
        if kind in (one.kind, *getattr(one.kind, "__args__", ()))
    )


_TIMES: Final = frozenset(_named(Time))
_MOMENTS: Final = frozenset(_named(Moment))


# ---- Running one ----


def _read(op: Op, one: Argument, value: Any) -> Any:
    """Return the value of an option as JSON has it; times are read."""
    flag = "--" + one.name.replace("_", "-")
    if one.name == "text" and op.effect != "reads":
        return given_text(value)
    if one.name == "filter":
        return value
    if one.name in _TIMES:
        return read_time(flag, value)
    if one.name in _MOMENTS:
        return read_moment(flag, value)
    if dict in _kinds(one.kind):
        return read_object(flag, value)
    return value


def read_object(flag: str, text: str) -> Any:
    """Read an option that is a JSON object."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise error(OptionError, flag, "a JSON object", repr(text))
    return found


@contextmanager
def _options_named(known: Mapping[str, Argument], words: tuple[str, ...]) -> Iterator[None]:
    """Name the option in an error about an argument."""
    try:
        yield
    except HyrecallError as fault:
        name, colon, rest = str(fault).partition(":")
        if name in known and name not in words:
            flag = name.removesuffix("s" if _is_many(known[name]) else "").replace("_", "-")
            fault.args = (f"--{flag}{colon}{rest}",)
        elif name in SCOPE:
            fault.args = (f"--{name.removesuffix('_id')}{colon}{rest}",)
        raise


def _command(op: Op) -> Callable[..., None]:
    """Return the function of a command."""
    known, words = arguments(op, "cli"), _words(op)

    def command(path: Any, as_json: bool, **given: Any) -> None:
        scope: dict[str, Any] = {name: given.pop(name) for name in SCOPE if name in op.scope}
        with _options_named(known, words):
            told = {
                name: _read(op, known[name], value)
                for name, value in given.items()
                if value not in (None, [])
            }
            told |= {name: [] for name in words if name not in told}
            asked = dict(told)
            if "filter" in told:
                asked["filter"] = read_store_filter(told["filter"])
            call = as_call(op, asked, scope)
            if op.name == "remember":  # before a store is made for it
                checked(Episode, {name: one for name, one in call.items() if name != "ttl"})
            reads, makes = op.effect == "reads", op.name in ("remember", "remember_fact")
            with opened(path, read_only=reads, makes=makes) as memory:
                ranks = "embed_timeout" in op.parameters or op.name == "recall_facts"
                found = op.method(now_ready(memory) if ranks else memory, **call)
                if op.name == "get" and found is None:
                    raise error(NotFoundError, "id", op.missing, repr(told["id"]))
                view = memory._view(**{"user_id": None, **scope})
                data = to_jsonable_python(REPLIES[op.name][1](found, asked, view))
        for reason in data.get("reasons", ()):
            detail = f" ({reason['detail']})" if reason["detail"] else ""
            say(f"note: degraded: {reason['reason']}{detail}")
        if as_json:
            print_json(data)
        else:
            _PRINTED[op.name](data)

    vars(command)["__signature__"] = inspect.Signature(list(_parameters(op)))
    command.__doc__ = words_of(op)
    return command


# ---- What is printed ----


def _table(*columns: str) -> Callable[[dict[str, Any]], None]:
    """Return what prints the items of a reply as a table."""

    def show(data: dict[str, Any]) -> None:
        if not data["items"]:
            say("note: nothing found")
            return
        rows = [Row([_cell(one, name) for name in columns]) for one in data["items"]]
        wide = ("text", "participants", "used")
        print_table([Column(name.replace("_", " "), wraps=name in wide) for name in columns], rows)

    return show


def _cell(one: dict[str, Any], name: str) -> str:
    value = (
        (one.get("episode") or {}).get(name) if name == "text" and "episode" in one else one[name]
    )
    if value is None:
        return ""
    if name == "participants":
        return " ".join(end["id"] for end in value)
    if isinstance(value, list):
        return " ".join(map(str, value))
    return (
        str(value)[:16].replace("T", " ")
        if name.endswith(("_at", "_from", "_to", "oldest", "newest"))
        else str(value)
    )


_PRINTED: Final[dict[str, Callable[[dict[str, Any]], None]]] = {
    **dict.fromkeys(
        ("remember", "supersede", "remember_fact", "link"), lambda data: print(data["id"])
    ),
    **dict.fromkeys(("update", "end_fact"), lambda data: print(data["version"])),
    "get": lambda data: print_stored(f"{data['text']}\n"),
    "pin": lambda data: print("pinned" if data["pinned"] else "not pinned"),
    "unlink": lambda data: print(int(data["unlinked"])),
    "update_many": lambda data: print(data["updated"]),
    "list_sessions": _table("session_id", "memories", "oldest", "newest"),
    "list_users": _table("user_id", "memories", "newest"),
    "list_agents": _table("agent", "policy", "policy_group", "memories"),
    "list": _table("id", "occurred_at", "kind", "text"),
    "history": _table("version", "status", "recorded_at", "reason", "text"),
    "links": _table("id", "relationship", "participants"),
    **dict.fromkeys(("recall_facts", "list_facts"), _table("id", "text", "valid_from", "valid_to")),
}


def __getattr__(name: str) -> Any:
    """Return the command of a verb, which is made when it is asked for."""
    if name in _PRINTED:
        return _command(OPS[name])
    raise AttributeError(name)
