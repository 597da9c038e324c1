"""The table of operations: what every door of a store knows of each verb.

A verb is a method of :class:`hyrecall.memory.MemorySync`: its signature and its docstring say what
it takes, and what that means. An entry adds what doors need beside them; how an argument looks in
JSON stands once, by its name, for all verbs. REST, MCP and the command line are made of these.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cache, cached_property
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
    create_model,
)
from pydantic_core import PydanticCustomError

from hyrecall.ask.filter_json import filter_from_json
from hyrecall.ask.filters import Filter
from hyrecall.base.arguments import unknown_option
from hyrecall.base.times import as_moment
from hyrecall.errors import OptionError, error
from hyrecall.memory.changing import CHANGED
from hyrecall.memory.data.types import Author, Episode, Fact, Participant, Visibility, checked
from hyrecall.memory.derived.layout import FILTERED
from hyrecall.memory.sync import MemorySync

Door: TypeAlias = Literal["agent", "rest", "mcp", "cli"]
Effect: TypeAlias = Literal["reads", "adds", "changes", "removes"]
Right: TypeAlias = Literal["read", "write"]

NEEDED: Final = inspect.Parameter.empty
SCOPE: Final = ("user_id", "org", "workspace")
"""Whose memories are meant: each door has its own way to say so."""

# ---- How arguments look in JSON: by their names, at every door ----


def as_whole(value: object) -> object:
    """Return 5 for 5.0."""
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
    raise PydanticCustomError("time", "Input should be an ISO 8601 time")


def _read_time(value: object, read: ValidatorFunctionWrapHandler) -> datetime:
    """Read a time: a date alone is its midnight."""
    found = _read_moment(value, read)
    if isinstance(found, datetime):
        return found
    return datetime(found.year, found.month, found.day)


Whole: TypeAlias = Annotated[int, BeforeValidator(as_whole)]
"""An integer; 5.0 is one, as in a query string."""

Count: TypeAlias = Annotated[int, Field(ge=0), BeforeValidator(as_whole)]
_IN_JSON = WithJsonSchema({"type": "string", "maxLength": 64})  # a date alone is taken, too
Moment: TypeAlias = Annotated[datetime, WrapValidator(_read_moment), _IN_JSON]
Time: TypeAlias = Annotated[datetime, WrapValidator(_read_time), _IN_JSON]
Text: TypeAlias = Annotated[
    str, AfterValidator(_not_blank), Field(json_schema_extra={"minLength": 1})
]
Name: TypeAlias = Annotated[str, Field(json_schema_extra={"minLength": 1, "maxLength": 512})]
JsonObject: TypeAlias = dict[str, JsonValue]


class Sought:
    """Marks what is looked for, which a door bounds more than a text to keep."""


Query: TypeAlias = Annotated[str, Sought()]


class Node(BaseModel):
    """A memory and its part in an edge."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    id: Name
    role: str | None = None


_NAMES = (
    *("id", "kind", "source", "session_id", "relationship", "reason", "agent", "policy_group"),
    *("subject", "predicate", "object", "new_id"),
)
_TIMES = ("expires_at", "occurred_at", "valid_from", "valid_to", "valid_at", "at", "before")
_KINDS: Final[dict[str, Any]] = {
    **dict.fromkeys(_NAMES, Name),
    **dict.fromkeys(_TIMES, Time),
    **dict.fromkeys(("since", "until"), Moment),
    **dict.fromkeys(("limit", "offset"), Count),
    **dict.fromkeys(("pinned", "erase", "single"), bool),
    **dict.fromkeys(("filter", "metadata", "changes"), JsonObject),
    "everything": Name,
    "if_version": Annotated[int, Field(ge=1), BeforeValidator(as_whole)],
    "ttl": Annotated[float, Field(gt=0)],
    "author": Author,
    "tags": list[Name],
    "used": Annotated[list[Name], Field(json_schema_extra={"minItems": 1, "maxItems": 1_000})],
    "text": Text,
    "query": Query,
    "input": str,
    "description": Annotated[str, Field(max_length=32_768)],
    "importance": Annotated[float, Field(ge=0, le=10)],
    "visibility": Visibility,
    "policy": Literal["isolated", "shared", "group"],
    "participants": Annotated[list[Name | Node], Field(json_schema_extra={"minItems": 2})],
    "vector": list[float],
}
"""The type of an argument in JSON; one whose default is None takes null too."""

_TYPES: Final = {name: column.type for name, column in FILTERED.items()}


def read_filter(asked: JsonObject | Filter | None) -> Filter | None:
    """Read a filter over the columns of memories and keys of their metadata."""
    if asked is None or isinstance(asked, Filter):
        return asked
    return filter_from_json(asked, _TYPES, "filter")


def _read_changes(asked: Any) -> Any:
    """Read fields and their new values as an update takes them."""
    known = arguments(OPS["update"], "rest")
    fields: dict[str, Any] = {
        name: (known[name].kind, None) for name in asked if name in known and name in CHANGED
    }
    config = ConfigDict(strict=True, extra="allow", hide_input_in_errors=True)
    made = checked(create_model("ChangesOfMany", __config__=config, **fields), asked)
    return {name: getattr(made, name) for name in asked}


_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "changes": _read_changes,
    "filter": read_filter,
    "participants": lambda given: [
        one if isinstance(one, str) else checked(Participant, dict(one)) for one in given
    ],
}
"""What makes of a value in JSON what the method takes."""

_WORDS: Final = {
    "id": "Of the memory.",
    "new_id": "The id of the new memory; default: a random one.",
    "text": "What was said or learnt.",
    "input": "The message that the text answers; also searched.",
    "kind": "What kind of memory it is.",
    "source": "Where it comes from: memory, summary or session.",
    "session_id": "Its conversation.",
    "occurred_at": "When it happened; default: now.",
    "importance": "A rating in [0, 10].",
    "pinned": "Whether it is pinned: recipe l0 ranks it first among equals.",
    "tags": "Words to file it under.",
    "metadata": "More data to keep.",
    "visibility": "Who may read it: its user (private), or agents of the workspace too (global), "
    "by their policy.",
    "expires_at": "From then on it is not found any more, and is erased.",
    "ttl": "Seconds until it expires; not beside expires_at.",
    "author": "Who said it.",
    "if_version": "Only if the memory has this version; otherwise nothing is changed.",
    "reason": "Why; it is kept in the history.",
    "agent": "The agent's name.",
    "filter": "Only memories with these attributes and keys of the metadata: "
    '{"kind": "note", "occurred_at": {"from": "2024-05-01"}, "metadata.project": "x"}.',
    "since": "Not before this time, ISO 8601.",
    "until": "Not after this time, ISO 8601; a date alone includes the whole day.",
    "limit": "The most to return.",
    "offset": "How many to leave out first.",
    "relationship": "How they are related, such as 'depends on'.",
    "subject": "What the fact is about.",
    "predicate": "What is said of it, such as 'lives in'.",
    "object": "What it is said to be, such as 'Oslo'.",
}
"""What is said of fields of a memory, and of arguments that a docstring does not explain."""

_FOR_PYTHON: Final = re.compile(r"As in |Each in |In \[|\d|JSON")
"""How words begin that say to a caller in Python what JSON and its schema say by themselves."""

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
    does : str
        What it does, where the docstring says it for Python alone.
    words : mapping of str to str
        What doors say of an argument which the docstring explains for Python alone.
    out : mapping of Door to str
        The arguments which a door lacks; "*": the whole verb.
    needed : mapping of Door to str
        The arguments without which a door refuses a call.
    optional : mapping of Door to str
        The arguments that a door can tell by itself, from who calls.
    example : mapping of str to object
        Arguments of a call.
    made_of : type, optional
        The model whose fields are arguments, in place of the first one.
    shows : str
        The arguments with which the reply of a verb that writes shows what the store holds; "*":
        it always does.
    is_repeatable : bool
        Whether a second call changes no more.
    missing : str
        What was not there, where an empty reply is an error of REST.
    of : str
        The method, where it has another name.
    kinds : mapping of str to type
        How an argument looks in JSON, where it is not as in other verbs.
    is_of_all : bool
        Whether it tells of all users, so that only who may name any of them may call it.
    """

    name: str
    effect: Effect
    rest: str
    title: str
    does: str = ""
    words: Mapping[str, str] = field(default_factory=dict)
    out: Mapping[Door, str] = field(default_factory=dict)
    needed: Mapping[Door, str] = field(default_factory=dict)
    optional: Mapping[Door, str] = field(default_factory=dict)
    example: Mapping[str, Any] = field(default_factory=dict)
    made_of: type[BaseModel] | None = None
    shows: str = ""
    is_repeatable: bool = False
    missing: str = ""
    of: str = ""
    kinds: Mapping[str, Any] = field(default_factory=dict)
    is_of_all: bool = False

    @property
    def method(self) -> Callable[..., Any]:
        """The method of ``MemorySync``."""
        found: Callable[..., Any] = getattr(MemorySync, self.of or self.name)
        return found

    @cached_property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """The parameters of the method."""
        return inspect.signature(self.method).parameters

    @cached_property
    def positional(self) -> tuple[str, ...]:
        """The parameters that may be given by position."""
        keyword = inspect.Parameter.KEYWORD_ONLY
        return tuple(
            name for name, one in self.parameters.items() if one.kind != keyword and name != "self"
        )

    @cached_property
    def scope(self) -> tuple[str, ...]:
        """The part of the scope that it takes."""
        return SCOPE if self.made_of else tuple(name for name in SCOPE if name in self.parameters)

    def rights(self, given: Iterable[str] = ()) -> frozenset[Right]:
        """Return what a caller has to be allowed that gives these arguments."""
        writes = self.effect != "reads"
        shows = self.shows == "*" or not set(given).isdisjoint(self.shows.split())
        needed: dict[Right, bool] = {"write": writes, "read": shows or not writes}
        return frozenset(right for right, is_needed in needed.items() if is_needed)

    def is_at(self, door: Door) -> bool:
        """Return whether a door has the verb."""
        return self.out.get(door) != "*"


ID: Final = "/memories/{id}"

_MANY: Final = "session_id before kind tags filter metadata everything"
_WHICH: Final = {
    "id": "The ids of the memories.",
    "session_id": "Those of this conversation.",
    "before": "What happened before this time, and facts that were stored before.",
    "kind": "Those of this kind.",
    "tags": "Those with one of these tags.",
    "filter": 'Those with these attributes: {"importance": {"to": 2}, "metadata.run": 7}.',
    "metadata": "Those with these keys and values.",
}
"""What is said of the arguments that choose memories."""

OPS: Final[dict[str, Op]] = {
    one.name: one
    for one in (
        Op(
            name="remember",
            effect="adds",
            rest="POST /memories",
            title="Keep a memory",
            does="Keep a text for later. When this replies, it is on the disk.",
            words={
                "text": "What to remember.",
                "id": "Its id; default: a random one.",
            },
            out={
                "agent": "vector",
                "mcp": "vector author",
                "cli": "vector",
            },
            example={"text": "The replica lags by 40 s", "tags": ["postgres"]},
        ),
        Op(
            name="get",
            effect="reads",
            rest=f"GET {ID}",
            title="Read a memory",
            does="Return a memory by its id.",
            out={
                "rest": "visibility",
                "mcp": "visibility",
                "cli": "visibility",
            },
            missing="a memory of the caller",
        ),
        Op(
            name="list",
            effect="reads",
            rest="GET /memories",
            title="List memories, newest first",
            out={
                "rest": "filter metadata",
                "mcp": "metadata",
                "cli": "metadata",
            },
        ),
        Op(
            name="list_sessions",
            effect="reads",
            rest="GET /sessions",
            title="List conversations, the newest first",
            out={"agent": "*"},
        ),
        Op(
            name="list_users",
            effect="reads",
            rest="GET /users",
            title="List users and how many memories they have",
            out={"agent": "*"},
            is_of_all=True,
        ),
        Op(
            name="list_agents",
            effect="reads",
            rest="GET /agents",
            title="List agents, their policies and how many memories they have",
            out={"agent": "*"},
            is_of_all=True,
        ),
        Op(
            name="update",
            effect="changes",
            rest=f"PATCH {ID}",
            title="Change a memory",
            does=(
                "Change fields of a memory. Those that are not named stay as they are, "
                "and the earlier version stays in its history."
            ),
            words={
                "occurred_at": "When it happened.",
                "tags": "In place of those that it has.",
                "metadata": "In place of what it has.",
                "visibility": "Another one moves it, without its history and its links.",
                "valid_to": "When a fact ends, given alone; null: where the next one begins, or "
                "never.",
                "text": "What was said or learnt, in its new form.",
            },
            out={
                "mcp": "valid_to author",
                "cli": "valid_to",
                "agent": "expires_at",
            },
            needed={"agent": "reason"},
            example={"text": "The replica lags by 2 s", "reason": "measured again"},
            shows="valid_to",
        ),
        Op(
            name="supersede",
            effect="changes",
            rest=f"POST {ID}/supersede",
            title="Replace a memory by a new one",
            words={
                "id": "Of the old memory: it is no longer found, and kept as history.",
                "text": "What takes its place.",
            },
            out={
                "agent": "*",
                "mcp": "author",
            },
            example={"text": "The replica is gone", "reason": "decommissioned"},
        ),
        Op(
            name="update_many",
            effect="changes",
            rest="POST /memories/update",
            title="Change fields of several memories",
            does="Change fields of several memories, all or none; facts are left as they are.",
            words={
                "changes": "Fields and their new values: kind, tags, importance, metadata, "
                "expires_at, ...; no text.",
                **_WHICH,
            },
            kinds={"id": list[Name]},
            out={
                "agent": "*",
            },
            example={"changes": {"kind": "note"}, "tags": ["postgres"]},
        ),
        Op(
            name="pin",
            effect="changes",
            rest=f"PUT {ID}/pin",
            title="Pin or unpin a memory",
            out={
                "agent": "*",
            },
            example={"pinned": True},
            is_repeatable=True,
        ),
        Op(
            name="forget",
            effect="removes",
            rest=f"DELETE {ID}",
            title="Forget a memory",
            does="Take a memory and its links out of recall. Its history is kept.",
            words={
                "reason": "Why; it is kept in the history.",
            },
            kinds={"id": Name},
            out={
                "agent": f"{_MANY} erase",
                "mcp": f"{_MANY} erase",
                "rest": _MANY,
            },
            needed={"agent": "id reason", "rest": "id", "mcp": "id"},
            is_repeatable=True,
            missing="a memory of the caller",
        ),
        Op(
            name="forget_many",
            of="forget",
            effect="removes",
            rest="POST /memories/forget",
            title="Forget several memories, or all of a user",
            does="Take memories and their links out of recall: all that meet what is given. With "
            "erase, every byte of them is removed.",
            words={
                "erase": "Remove every byte of them, history too.",
                "everything": "The user's name, to forget all of its memories; no argument that "
                "chooses some may stand beside it.",
                **_WHICH,
            },
            kinds={"id": list[Name]},
            out={
                "agent": "*",
                "cli": "*",
                "rest": "if_version",
                "mcp": "if_version",
            },
            example={"tags": ["scratch"], "reason": "done"},
            is_repeatable=True,
        ),
        Op(
            name="history",
            effect="reads",
            rest=f"GET {ID}/history",
            title="Every version of a memory, oldest first",
        ),
        Op(
            name="link",
            effect="adds",
            rest="POST /links",
            title="Connect memories",
            words={
                "id": "Its id; default: a random one.",
                "participants": "Ids of memories, two or more; their order is kept. One that "
                "is not there may come later.",
                "description": "A sentence about it, which recipes with a graph search.",
                "visibility": "That of the memories.",
            },
            out={
                "agent": "*",
            },
            example={"participants": ["m1", "m2"], "relationship": "causes"},
        ),
        Op(
            name="unlink",
            effect="removes",
            rest="DELETE /links/{id}",
            title="Remove an edge",
            does="Remove a link between memories.",
            out={
                "agent": "*",
            },
            is_repeatable=True,
            missing="an edge of the caller",
        ),
        Op(
            name="links",
            effect="reads",
            rest=f"GET {ID}/links",
            title="The edges of a memory",
        ),
        Op(
            name="remember_fact",
            effect="adds",
            rest="POST /facts",
            title="Keep a fact",
            does=(
                "Keep a fact: the one that held for its subject and predicate ends where "
                "it begins. If the same is held already, no fact is added."
            ),
            words={
                "id": "Its id; default: a random one.",
                "valid_from": "When it begins to hold; default: now.",
                "valid_to": "When it ends; default: it is not known to end.",
                "single": "Whether the subject has one object at a time. Otherwise it is one of "
                "several, as with 'likes', and ends no fact with another object.",
            },
            out={
                "agent": "*",
            },
            example={"subject": "replica", "predicate": "runs in", "object": "Oslo"},
            made_of=Fact,
            shows="*",
        ),
        Op(
            name="end_fact",
            effect="changes",
            rest="POST /facts/{id}/end",
            title="End a fact",
            does=(
                "Say that a fact no longer holds. It stays in the history, and searches "
                "leave it out."
            ),
            words={
                "id": "Of the fact.",
                "at": "When it ends, at most where the next fact of its subject and predicate "
                "begins; default: now, or its own end if that is past.",
            },
            needed={"agent": "reason"},
            example={"at": "2026-01-01T00:00:00Z", "reason": "moved"},
            shows="*",
            is_repeatable=True,
        ),
        Op(
            name="recall_facts",
            effect="reads",
            rest="POST /facts/recall",
            title="Recall facts",
            words={
                "text": "What to look for, in plain words. Blank gives the facts that began last.",
                "valid_at": "Only facts that hold at this time; default: now.",
            },
            example={"text": "where does the replica run"},
        ),
        Op(
            name="list_facts",
            effect="reads",
            rest="GET /facts",
            title="List facts, newest first",
            words={
                "subject": "Only facts about this.",
                "predicate": "Only facts that say this; case, _ and - make no difference.",
                "object": "Only facts that say this of it.",
                "valid_at": "Only facts that hold at this time; default: also those that have "
                "ended.",
            },
        ),
        Op(
            name="feedback",
            effect="adds",
            rest="POST /feedback",
            title="Say which memories helped",
            does=(
                "Say which memories helped with a query: the store learns from it how to "
                "rank for this user."
            ),
            words={
                "query": "What was asked.",
                "used": "Ids of the memories that helped.",
            },
            example={"query": "replication lag", "used": ["m1"]},
            shows="*",
            is_repeatable=True,
        ),
        Op(
            name="list_feedback",
            effect="reads",
            rest="GET /feedback",
            title="What the caller said that helped, oldest query first",
        ),
        Op(
            name="set_policy",
            effect="changes",
            rest="PUT /agents/{agent}/policy",
            title="Set an agent's read policy",
            words={
                "agent": "The agent's name.",
                "policy": "isolated: only its own memories; shared: the global ones of the "
                "workspace too; group: of these, those of agents in its group.",
                "policy_group": "The name of the group.",
            },
            out={
                "agent": "*",
            },
            example={"policy": "group", "policy_group": "planners"},
            is_repeatable=True,
        ),
        Op(
            name="get_policy",
            effect="reads",
            rest="GET /agents/{agent}/policy",
            title="An agent's read policy",
            optional={"mcp": "agent"},
            words={
                "agent": "The agent's name; default: the caller.",
            },
            out={
                "agent": "*",
            },
        ),
    )
}


# ---- What an entry and its method say together ----


@dataclass(frozen=True)
class Argument:
    """An argument of a verb at a door.

    Attributes
    ----------
    name : str
    kind : type
        As JSON has it.
    default : object
        ``Parameter.empty`` where a call must have it, ``...`` where what is not given is no value.
    words : str
    """

    name: str
    kind: Any
    default: Any
    words: str

    @property
    def is_needed(self) -> bool:
        """Whether a call must have it."""
        return self.default is NEEDED


@cache
def arguments(op: Op, door: Door) -> dict[str, Argument]:
    """Return the arguments of a verb at a door, without the scope."""
    lacks = {*op.out.get(door, "").split(), *_IN_PYTHON, *SCOPE, "self"}
    needed = op.needed.get(door, "").split()
    told = _words_of(inspect.getdoc(op.method) or "")
    found = {}
    for name, given in _parameters(op).items():
        if name in lacks:
            continue
        is_field = given.default is ...
        default = (
            NEEDED if name in needed else _default_of(op, given) if is_field else given.default
        )
        if name in op.optional.get(door, "").split():
            default = None
        kind = (
            Query if name == "text" and op.effect == "reads" else op.kinds.get(name, _KINDS[name])
        )
        may_be_null = "None" in str(given.annotation) if default is ... else default is None
        if is_field:
            words = _WORDS.get(name) or _words_of(getattr(op.made_of, "__doc__", "") or "").get(
                name, ""
            )
        else:
            words = told.get(name, "")
            words = _WORDS.get(name, words) if not words or _FOR_PYTHON.match(words) else words
        found[name] = Argument(
            name, kind | None if may_be_null else kind, default, op.words.get(name, words)
        )
    return found


def _parameters(op: Op) -> dict[str, inspect.Parameter]:
    """Return the parameters of a verb's method; those of a model in place of the model."""
    known = dict(op.parameters)
    if op.made_of is None:
        return known
    first = op.positional[0]
    fields = {
        name: inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=...)
        for name in op.made_of.model_fields
    }
    return fields | {name: one for name, one in known.items() if name != first}


def _default_of(op: Op, given: inspect.Parameter) -> Any:
    """Return the default of a field: None where null stands for a random or the present value."""
    if op.name == "update" or given.name in ("tags", "metadata"):
        return ...
    model = (op.made_of or Episode).model_fields.get(given.name)
    if model is None:
        return None
    if model.is_required():
        return NEEDED
    return model.default if isinstance(model.default, str | bool) else None


def words_of(op: Op) -> str:
    """Return what a verb does, as the docstring of its method says it."""
    if op.does:
        return op.does
    head, _, _ = (inspect.getdoc(op.method) or "").partition("\n\nParameters\n")
    head = re.sub(r"[^.]*``\w+\(.*?\)``[^.]*\.\s*", "", head)  # calls of other methods
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
    plain = {
        name: re.sub(r":\w+:`([^`]*)`|``([^`]*)``", r"\1\2", one) for name, one in found.items()
    }
    return {name: one for name, one in plain.items() if one}


@cache
def model_of(
    op: Op, door: Door, base: type[BaseModel], without: tuple[str, ...] = ()
) -> type[BaseModel]:
    """Return the model of what a door takes: a base's fields, and the arguments of the verb."""
    fields: dict[str, Any] = {}
    for one in arguments(op, door).values():
        if one.name in without:
            continue
        told: dict[str, Any] = {"description": one.words or None}
        if one.default is ...:  # the description names no default
            fields[one.name] = one.kind, Field(default_factory=lambda: None, **told)
        else:
            fields[one.name] = one.kind, Field(... if one.is_needed else one.default, **told)
    name = "".join(part.title() for part in op.name.split("_"))
    return create_model(name, __base__=base, __module__=__name__, **fields)


def as_call(op: Op, given: Mapping[str, Any], scope: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keywords of the method for what a door was given."""
    read = {
        name: _READERS[name](value) if name in _READERS else value
        for name, value in given.items()
        if value is not None or op.name == "update"
    }
    if op.made_of is None:
        return {**read, **scope}
    return {op.positional[0]: checked(op.made_of, {**read, **scope})}


def with_needed(op: Op, door: Door, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a door was given; it lacks nothing that is needed, and has nothing unknown."""
    known = arguments(op, door)
    given = {name: one for name, one in given.items() if name in known or one not in (None, False)}
    unknown = [name for name in given if name not in known]
    if unknown:
        raise unknown_option(op.name, unknown, list(known))
    for name, one in known.items():
        if one.is_needed and given.get(name) is None:
            raise error(OptionError, name, f"a{'n' * (name == 'id')} {name}", "none")
    return given
