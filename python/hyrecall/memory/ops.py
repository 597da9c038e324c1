"""The table of operations: what every door of a store knows of each verb.

A verb is a method of :class:`hyrecall.memory.MemorySync`: its signature and its docstring say what
it takes, and what that means. An entry adds what doors need beside them; how an argument looks in
JSON stands once, by its name, for all verbs. REST, MCP and the command line are made of these.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cache
from typing import Annotated, Any, Final, Literal, TypeAlias, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    create_model,
)
from pydantic_core import PydanticCustomError

from hyrecall.ask.filter_json import filter_from_json
from hyrecall.base.times import as_moment
from hyrecall.memory.data.types import Episode, Fact, Participant, Visibility, checked
from hyrecall.memory.derived.layout import FILTERED
from hyrecall.memory.sync import MemorySync

Door: TypeAlias = Literal["agent", "rest", "mcp", "cli"]
Effect: TypeAlias = Literal["reads", "adds", "changes", "removes"]
Right: TypeAlias = Literal["read", "write"]

SCOPE: Final = ("user_id", "org", "workspace")
"""Whose memories are meant: each door has its own way to say so."""

# ---- How arguments look in JSON: by their names, at every door ----


def _whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _not_blank(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("blank", "Input should be a non-empty string")
    return text


def _read_moment(value: object, read: ValidatorFunctionWrapHandler) -> date:
    """Read an end of a range: a date alone stays one, since it is the whole day."""
    if isinstance(value, str):
        try:
            return as_moment(value)
        except ValueError:
            pass
    elif isinstance(value, datetime):  # of a table
        found: datetime = read(value)
        return found
    raise PydanticCustomError("time", "expected an ISO date or time")


def _read_time(value: object, read: ValidatorFunctionWrapHandler) -> datetime:
    """Read a time: a date alone is its midnight."""
    found = _read_moment(value, read)
    if isinstance(found, datetime):
        return found
    return datetime(found.year, found.month, found.day)


Whole: TypeAlias = Annotated[int, BeforeValidator(_whole)]
"""An integer; 5.0 is one, as in a query string."""

Count: TypeAlias = Annotated[Whole, Field(ge=0)]
Moment: TypeAlias = Annotated[datetime, WrapValidator(_read_moment)]
Time: TypeAlias = Annotated[datetime, WrapValidator(_read_time)]
Text: TypeAlias = Annotated[
    str, AfterValidator(_not_blank), Field(json_schema_extra={"minLength": 1})
]
Name: TypeAlias = Annotated[str, Field(json_schema_extra={"minLength": 1, "maxLength": 512})]
JsonObject: TypeAlias = dict[str, JsonValue]


class Node(BaseModel):
    """A memory and its part in an edge."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    id: Name
    role: str | None = None


_NAMES = (
    *("id", "kind", "source", "session_id", "relationship", "reason", "agent", "policy_group"),
    *("subject", "predicate", "object"),
)
_TIMES = ("occurred_at", "valid_from", "valid_to", "valid_at", "at")
_KINDS: Final[dict[str, Any]] = {
    **dict.fromkeys(_NAMES, Name),
    **dict.fromkeys(_TIMES, Time),
    **dict.fromkeys(("limit", "offset"), Count),
    **dict.fromkeys(("pinned", "erase", "single"), bool),
    **dict.fromkeys(("filter", "metadata", "data"), JsonObject),
    **dict.fromkeys(("tags", "used"), list[Name]),
    "text": Text,
    "query": str,
    "input": str,
    "description": str,
    "importance": Annotated[float, Field(ge=0, le=10)],
    "visibility": Visibility,
    "policy": Literal["isolated", "shared", "group"],
    "nodes": list[Name | Node],
    "vector": list[float],
}
"""The type of an argument in JSON; one whose default is None takes null too."""

_TYPES: Final = {name: column.type for name, column in FILTERED.items()}
_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "filter": lambda asked: filter_from_json(asked, _TYPES, "filter"),
    "nodes": lambda nodes: [
        one if isinstance(one, str) else checked(Participant, dict(one)) for one in nodes
    ],
}
"""What makes of a value in JSON what the method takes."""

_WORDS: Final = {
    "id": "Of the memory.",
    "text": "What was said or learnt.",
    "reason": "Why; it is kept in the history.",
}
"""What is said of an argument where the docstring of its method says it for Python alone."""

_IN_PYTHON = ("embed_timeout", "created_at", "recipe", "vectors", "progress")


# ---- The entries ----


@dataclass(frozen=True, kw_only=True, eq=False)
class Op:
    """A verb, and what its doors know beside its method.

    Attributes
    ----------
    name : str
        The method of ``MemorySync``, and the tool of MCP.
    effect : {"reads", "adds", "changes", "removes"}
        What it does to the store.
    rest : str
        Method and path of its route under ``/v1``.
    title : str
        What it does, for lists of verbs.
    out : mapping of Door to str
        The arguments which a door lacks; "*": the whole verb.
    needed : mapping of Door to str
        The arguments without which a door refuses a call.
    example : mapping of str to object
        Arguments of a call.
    made_of : type, optional
        The model whose fields are arguments, in place of the first one.
    shows : bool
        Whether the reply of a verb that writes shows what the store holds.
    is_repeatable : bool
        Whether a second call changes no more.
    missing : str
        What was not there, where an empty reply is an error of REST.
    """

    name: str
    effect: Effect
    rest: str
    title: str
    out: Mapping[Door, str] = field(default_factory=dict)
    needed: Mapping[Door, str] = field(default_factory=dict)
    example: Mapping[str, Any] = field(default_factory=dict)
    made_of: type[BaseModel] | None = None
    shows: bool = False
    is_repeatable: bool = False
    missing: str = ""

    @property
    def method(self) -> Callable[..., Any]:
        """The method of ``MemorySync``."""
        found: Callable[..., Any] = getattr(MemorySync, self.name)
        return found

    @property
    def scope(self) -> tuple[str, ...]:
        """The part of the scope that it takes."""
        known = inspect.signature(self.method).parameters
        return SCOPE if self.made_of else tuple(name for name in SCOPE if name in known)

    @property
    def rights(self) -> frozenset[Right]:
        """What a caller has to be allowed."""
        writes = self.effect != "reads"
        needed: dict[Right, bool] = {"write": writes, "read": self.shows or not writes}
        return frozenset(right for right, is_needed in needed.items() if is_needed)

    def is_at(self, door: Door) -> bool:
        """Return whether a door has the verb."""
        return self.out.get(door) != "*"


ID: Final = "/memories/{id}"

OPS: Final[dict[str, Op]] = {
    one.name: one
    for one in (
        Op(
            name="remember", effect="adds", rest="POST /memories", title="Keep a memory",
            out={"agent": "vector", "mcp": "vector", "cli": "vector"},
            example={"text": "The replica lags by 40 s", "tags": ["postgres"]},
        ),
        Op(
            name="get", effect="reads", rest=f"GET {ID}", title="Read a memory",
            out={"rest": "visibility", "mcp": "visibility", "cli": "visibility"},
            missing="a memory of the caller",
        ),
        Op(
            name="list", effect="reads", rest="GET /memories", title="List memories, newest first",
            out={"rest": "filter metadata", "mcp": "metadata", "cli": "metadata"},
        ),
        Op(
            name="update", effect="changes", rest=f"PATCH {ID}", title="Change a memory",
            needed={"agent": "reason"}, shows=True,
            example={"text": "The replica lags by 2 s", "reason": "measured again"},
        ),
        Op(
            name="supersede", effect="changes", rest=f"POST {ID}/supersede",
            title="Replace a memory by a new one", out={"agent": "*"},
            example={"text": "The replica is gone", "reason": "decommissioned"},
        ),
        Op(
            name="pin", effect="changes", rest=f"PUT {ID}/pin", title="Pin or unpin a memory",
            out={"agent": "*"}, is_repeatable=True, example={"pinned": True},
        ),
        Op(
            name="forget", effect="removes", rest=f"DELETE {ID}", title="Forget a memory",
            out={"agent": "session_id before erase everything", "mcp": "erase"},
            needed={"agent": "id reason", "rest": "id", "mcp": "id"},
            is_repeatable=True, missing="a memory of the caller",
        ),
        Op(
            name="history", effect="reads", rest=f"GET {ID}/history",
            title="Every version of a memory, oldest first",
        ),
        Op(
            name="link", effect="adds", rest="POST /links", title="Connect memories",
            out={"agent": "*"}, example={"nodes": ["m1", "m2"], "relationship": "causes"},
        ),
        Op(
            name="unlink", effect="removes", rest="DELETE /links/{id}", title="Remove an edge",
            out={"agent": "*"}, is_repeatable=True, missing="an edge of the caller",
        ),
        Op(
            name="links", effect="reads", rest=f"GET {ID}/links", title="The edges of a memory",
        ),
        Op(
            name="remember_fact", effect="adds", rest="POST /facts", title="Keep a fact",
            out={"agent": "*"}, made_of=Fact, shows=True,
            example={"subject": "replica", "predicate": "runs in", "object": "Oslo"},
        ),
        Op(
            name="end_fact", effect="changes", rest="POST /facts/{id}/end", title="End a fact",
            needed={"agent": "reason"}, shows=True, is_repeatable=True,
            example={"at": "2026-01-01T00:00:00Z", "reason": "moved"},
        ),
        Op(
            name="recall_facts", effect="reads", rest="POST /facts/recall", title="Recall facts",
            example={"query": "where does the replica run"},
        ),
        Op(
            name="list_facts", effect="reads", rest="GET /facts", title="List facts, newest first",
        ),
        Op(
            name="feedback", effect="adds", rest="POST /feedback",
            title="Say which memories helped", shows=True, is_repeatable=True,
            example={"query": "replication lag", "used": ["m1"]},
        ),
        Op(
            name="list_feedback", effect="reads", rest="GET /feedback",
            title="What the caller said that helped, oldest query first",
        ),
        Op(
            name="set_policy", effect="changes", rest="PUT /agents/{agent}/policy",
            title="Set an agent's read policy", out={"agent": "*"}, is_repeatable=True,
            example={"policy": "group", "policy_group": "planners"},
        ),
        Op(
            name="get_policy", effect="reads", rest="GET /agents/{agent}/policy",
            title="An agent's read policy", out={"agent": "*"},
        ),
    )
}  # fmt: skip


# ---- What an entry and its method say together ----


@dataclass(frozen=True)
class Argument:
    """An argument of a verb at a door; ``default`` is ``Parameter.empty`` where it is needed."""

    name: str
    kind: Any
    default: Any
    words: str

    @property
    def is_needed(self) -> bool:
        """Whether a call must have it."""
        return self.default is inspect.Parameter.empty


@cache
def arguments(op: Op, door: Door) -> dict[str, Argument]:
    """Return the arguments of a verb at a door, without the scope."""
    lacks = {*op.out.get(door, "").split(), *_IN_PYTHON, *SCOPE, "self"}
    needed = op.needed.get(door, "").split()
    words = _words_of(inspect.getdoc(op.method) or "")
    found = {}
    for name, default in _defaults(op).items():
        if name in lacks:
            continue
        is_fact = op.made_of is not None and name in op.made_of.model_fields
        told = (_words_of(op.made_of.__doc__ or "") if is_fact else words).get(name, "")
        empty = inspect.Parameter.empty if name in needed else default
        kind = _KINDS[name] if empty is not None else _KINDS[name] | None
        found[name] = Argument(name, kind, empty, _WORDS.get(name, told))
    return found


def _defaults(op: Op) -> dict[str, Any]:
    """Return the arguments of a verb with their defaults; None: what is not given."""
    parameters = dict(inspect.signature(op.method).parameters)
    own = {name: one.default for name, one in parameters.items()}
    fields = op.made_of or Episode
    if op.made_of is not None:
        own = {name: ... for name in op.made_of.model_fields} | {
            name: one for name, one in own.items() if one is not inspect.Parameter.empty
        }
    given = {}
    for name, default in own.items():
        if default is ...:
            model = fields.model_fields.get(name)
            if model is not None and model.is_required():
                default = inspect.Parameter.empty
            else:
                default = None if model is None else model.default
                default = default if isinstance(default, str | bool) else None
        given[name] = default
    return given


def words_of(op: Op) -> str:
    """Return what a verb does, as the docstring of its method says it."""
    head, _, _ = (inspect.getdoc(op.method) or "").partition("\n\nParameters\n")
    return re.sub(r":\w+:`([^`]*)`|``([^`]*)``", r"\1\2", head)


@cache
def _words_of(docstring: str) -> dict[str, str]:
    """Return what a docstring says of each parameter."""
    section = re.search(r"Parameters\n-+\n(.*?)(?:\n\n|\Z)", inspect.cleandoc(docstring), re.DOTALL)
    found: dict[str, str] = {}
    names: list[str] = []
    for line in section[1].splitlines() if section else ():
        if not line.startswith(" "):
            names = re.split(r",\s*", line.partition(" : ")[0])
            found |= dict.fromkeys(names, "")
        else:
            for name in names:
                found[name] = f"{found[name]} {line.strip()}".strip()
    plain = {name: re.sub(r":\w+:`([^`]*)`|``([^`]*)``", r"\1\2", one) for name, one in found.items()}
    return {name: one for name, one in plain.items() if one}


@cache
def model_of(op: Op, door: Door, base: type[BaseModel], without: tuple[str, ...] = ()) -> type[BaseModel]:
    """Return the model of what a door takes: the arguments of the verb on top of a base's fields."""
    fields: dict[str, Any] = {}
    for one in arguments(op, door).values():
        if one.name not in without:
            default = ... if one.is_needed else one.default
            fields[one.name] = (one.kind, Field(default, description=one.words or None))
    name = "".join(part.title() for part in op.name.split("_"))
    return create_model(name, __base__=base, __module__=__name__, **fields)


def as_call(op: Op, given: Mapping[str, Any], scope: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keywords of the method for what a door was given."""
    read = {
        name: _READERS[name](value) if name in _READERS and value is not None else value
        for name, value in given.items()
    }
    if op.made_of is None:
        return {**read, **scope}
    told = {name: value for name, value in read.items() if value is not None}
    return {next(iter(_positional(op))): checked(op.made_of, {**told, **scope})}


def _positional(op: Op) -> list[str]:
    parameters = inspect.signature(op.method).parameters.values()
    return [
        one.name
        for one in parameters
        if one.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD and one.name != "self"
    ]


__all__ = ["OPS", "Argument", "Door", "Effect", "Op", "arguments", "as_call", "model_of", "words_of"]
assert get_args(Door)
