"""A tool: its name, what it takes and returns, its hints, and the function that answers a call."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

from mcp_types import Tool as ListedTool
from mcp_types import ToolAnnotations
from pydantic import BaseModel, ConfigDict, Field, model_validator

from hyrecall.base.arguments import unknown_option
from hyrecall.base.fences import NOTICE
from hyrecall.errors import OptionError, error
from hyrecall.memory.data.types import checked
from hyrecall.memory.ops import SCOPE, Sought
from hyrecall.serve.mcp.session import CallerSession
from hyrecall.serve.options import Caller, Right, ServiceOptions

# ---- Bounds the bytes of a reply with several entries ----

SHARED: Final = 64 << 10
"""Bytes of JSON that the entries of a reply share."""

EACH: Final = 1 << 10
"""Bytes of JSON that each entry adds to them."""

_SHORT: Final = 512  # bytes of a string that is never cut: ids are not longer


Excerpts: TypeAlias = Mapping[str, Callable[[int], str]]
"""Texts of a reply, each with what returns the part of it to show, of so many characters."""


def with_previews(data: dict[str, Any], excerpts: Excerpts) -> dict[str, Any]:
    """Return data whose lists of entries are bounded: longer texts of large entries are cut.

    All small entries stay whole; large ones share what is left in equal parts. ``is_cut`` says
    whether any was cut, where the data has it. What has no excerpt keeps its beginning.
    """
    sizes = entry_sizes(data)
    if fits(sizes):
        return data
    most = _equal_part(sizes, SHARED + EACH * len(sizes))
    cut = {
        name: [one if _size(one) <= most else _cut(one, most, excerpts) for one in value]
        for name, value in data.items()
        if isinstance(value, list)
    }
    return data | cut | ({"is_cut": True} if "is_cut" in data else {})


def entry_sizes(data: dict[str, Any]) -> list[int]:
    """Return the bytes of each entry of the lists of a reply."""
    lists = (value for value in data.values() if isinstance(value, list))
    return [_size(entry) for value in lists for entry in value]


def fits(sizes: Sequence[int]) -> bool:
    """Return whether entries of these sizes stay whole."""
    return sum(sizes) <= SHARED + EACH * len(sizes)


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def _equal_part(sizes: list[int], room: int) -> int:
    """Return the most that each may have, so that all together have what there is room for."""
    n_left = len(sizes)
    for size in sorted(sizes):
        if size * n_left > room:
            break
        room -= size
        n_left -= 1
    return room // max(1, n_left)


def _cut(entry: Any, room: int, excerpts: Excerpts) -> Any:
    """Cut the long strings of an entry, then empty its largest lists and metadata."""
    long = [_size(text) for text in _strings(entry) if len(text) > _SHORT // 4]
    free = room - (_size(entry) - sum(long))
    entry = _with_strings(entry, max(_SHORT, _equal_part(long, max(free, 0))), excerpts)
    while _size(entry) > room and (place := _largest(entry)) is not None:
        holder, name = place
        holder[name] = type(holder[name])()
    return entry


def _strings(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _strings(one)


def _with_strings(value: Any, most: int, excerpts: Excerpts) -> Any:
    """Return a copy whose strings have so many bytes at most, and a note where one was longer."""
    if isinstance(value, dict):
        return {name: _with_strings(one, most, excerpts) for name, one in value.items()}
    if isinstance(value, list):
        return [_with_strings(one, most, excerpts) for one in value]
    if not isinstance(value, str) or len(value) * 4 <= most:
        return value
    whole = value.encode("utf-8", "replace")
    if len(whole) <= most:
        return value
    if value not in excerpts:
        return f"{whole[:most].decode('utf-8', 'ignore')}… ({len(whole) - most:,} bytes more)"
    width = len(value) * most // len(whole)  # less where the part has longer characters than most
    while len(shown := excerpts[value](width).encode("utf-8", "replace")) > most:
        width = width * 7 // 8
    n_left = len(whole) - len(shown.strip("…".encode()))
    return f"{shown.decode()} ({n_left:,} bytes more)"


def _largest(entry: Any) -> tuple[dict[str, Any], str] | None:
    """Return the place of the largest list or free object, which a schema lets be empty."""
    found: list[tuple[int, dict[str, Any], str]] = []
    rest = [entry]
    while rest:
        one = rest.pop()
        if not isinstance(one, dict):
            continue
        for name, value in one.items():
            if isinstance(value, list) or (
                isinstance(value, dict) and name in ("metadata", "data")
            ):
                if value:
                    found.append((_size(value), one, name))
            else:
                rest.append(value)
    if not found:
        return None
    _, holder, name = max(found, key=lambda place: place[0])
    return holder, name


# ---- Checks sizes of a call's arguments against the service's options, and shows them in schemas
# The same options hold for messages over stdio, which no guard stands before.

Arguments_ = TypeVar("Arguments_", bound=BaseModel)

LIMITS: Final = ("limit", "max_results", "top_k")
"""How tools name the number of memories that they return at most."""

_AROUND: Final = 2
"""Levels of JSON around the arguments of a call: the message and its parameters."""


def check_shape(options: ServiceOptions, given: Mapping[str, Any]) -> None:
    """Refuse arguments with too many levels, or a list with too many entries."""
    for name, value in given.items():
        most = options.max_levels - _AROUND - 1
        rest = [(value, 1)]
        while rest:
            one, level = rest.pop()
            if not isinstance(one, dict | list):
                continue
            if level > most:
                wish = f"a message of at most {options.max_levels} levels of JSON"
                raise error(OptionError, name, wish, "more")
            if len(one) > options.max_ids:
                wish = f"at most {options.max_ids} entries in a list"
                raise error(OptionError, name, wish, len(one))
            inner = one.values() if isinstance(one, dict) else one
            rest.extend((part, level + 1) for part in inner)


@cache
def _queries(takes: type[BaseModel]) -> tuple[str, ...]:
    """Return the names of the arguments that say what is looked for."""
    fields = takes.model_fields.items()
    return tuple(name for name, one in fields if any(isinstance(m, Sought) for m in one.metadata))


def check_page(options: ServiceOptions, given: BaseModel) -> None:
    """Refuse a query that is too long, or a page that is too large or too far down."""
    for name in _queries(type(given)):
        n_bytes = len(getattr(given, name).encode("utf-8", "surrogatepass"))
        if n_bytes > options.max_query:
            raise error(OptionError, name, f"at most {options.max_query} bytes", n_bytes)
    offset = getattr(given, "offset", 0)
    for name in LIMITS:
        limit = getattr(given, name, 0)
        if limit > options.max_limit:
            raise error(OptionError, name, f"<= {options.max_limit}", limit)
        if limit + offset > options.max_limit:
            wish = f"{name} + offset <= {options.max_limit}"
            raise error(OptionError, "offset", wish, limit + offset)


def with_defaults(options: ServiceOptions, given: Arguments_) -> Arguments_:
    """Return arguments whose page is not larger than the options allow where nobody named one."""
    room = max(1, options.max_limit - getattr(given, "offset", 0))
    lowered = {
        name: room
        for name in LIMITS
        if name not in given.model_fields_set and getattr(given, name, 0) > room
    }
    return given.model_copy(update=lowered) if lowered else given


def show_sizes(options: ServiceOptions, schema: dict[str, Any], queries: Sequence[str]) -> None:
    """Add to the schema of a tool's arguments what the options allow."""
    for name, one in schema["properties"].items():
        for kind in kinds_of(one):
            if name in queries:
                kind["maxLength"] = options.max_query
            if name in LIMITS:
                _lower(kind, "maximum", options.max_limit)
                _lower(one, "default", options.max_limit)
            if name == "offset":
                kind["maximum"] = options.max_limit - 1
            if kind.get("type") == "array":
                _lower(kind, "maxItems", options.max_ids)


def kinds_of(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the schemas that a value may have: those of ``anyOf``, or the one."""
    found: list[dict[str, Any]] = schema.get("anyOf", [schema])
    return found


def _lower(schema: dict[str, Any], name: str, most: int) -> None:
    schema[name] = min(schema.get(name, most), most)


# ---- A tool: its name, what it takes and returns, its hints, and the function that answers a call

Effect: TypeAlias = Literal["reads", "adds", "changes", "removes"]
"""What a tool does to the store: nothing; it adds; it changes; it takes away."""


class Arguments(BaseModel):
    """Base of what tools take: unknown arguments are refused, and no value is converted.

    Numbers and nulls are those of JSON: 5.0 is an integer, and null stands for an argument that is
    not given.
    """

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, hide_input_in_errors=True, populate_by_name=True
    )

    @model_validator(mode="before")
    @classmethod
    def _of_json(cls, given: dict[str, Any]) -> dict[str, Any]:
        kept = {}
        for name, value in given.items():
            kinds, is_needed = cls._kinds().get(name, (frozenset(), True))
            if value is None and not is_needed:
                continue
            is_whole = isinstance(value, float) and value.is_integer()
            kept[name] = int(value) if is_whole and "integer" in kinds else value
        return kept

    @classmethod
    @cache
    def _kinds(cls) -> dict[str, tuple[frozenset[str], bool]]:
        """Return the JSON types of each argument, and whether it is required."""
        schema = cls.model_json_schema()
        return {
            name: (
                frozenset(kind["type"] for kind in kinds_of(one) if "type" in kind),
                name in schema.get("required", ()),
            )
            for name, one in schema.get("properties", {}).items()
        }


class Structure(BaseModel):
    """Base of what tools return."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)


class StoredTexts(Structure):
    """Base of what tools return of texts that the store holds."""

    notice: str = NOTICE


class Previews(StoredTexts):
    """Base of lists of these."""

    is_cut: Annotated[
        bool, Field(description="Whether long texts were cut: get returns the whole.")
    ] = False


Query: TypeAlias = Annotated[str, Sought(), Field(description="What to look for, in plain words.")]
Id: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=512, description="The id of the memory.")
]
Ids: TypeAlias = Annotated[list[Annotated[str, Field(min_length=1, max_length=512)]],
                           Field(min_length=2)]  # fmt: skip
Limit: TypeAlias = Annotated[int, Field(ge=1, description="The most memories to return.")]

_SCOPE: Final = {
    "user_id": "The user whose memories these are.",
    "org": "The organisation of the user.",
    "workspace": "The workspace within the organisation.",
}


@dataclass(frozen=True)
class ToolReply:
    """The answer of a tool: structured data, and the same as a short text.

    A dict is already as JSON shows it, as the documents of a system have it.
    """

    data: Structure | dict[str, Any]
    text: str | Callable[[dict[str, Any]], str] | None = None
    """A function makes it of the data as the reply shows them; None: the data as JSON."""
    excerpts: Excerpts = field(default_factory=dict)


@dataclass(frozen=True)
class Tool:
    """One tool.

    Attributes
    ----------
    name, title, description : str
    takes : type of Arguments
    returns : type of Structure
    effect : Effect
    answer : function
        Of the session of the caller and the arguments.
    is_repeatable : bool
        Whether a second call with the same arguments changes nothing more.
    shows : bool
        Whether the reply of a tool that writes shows what the store holds.
    recipe : str, optional
        By which recipe the tool ranks, "" for the store's: its depth bounds a page.
    scope : tuple of str
        The names of the scope that a call may give.
    for_agents : bool
        Whether agents have it too.
    is_of_all : bool
        Whether only who may name any user has it.
    """

    name: str
    title: str
    description: str
    takes: type[Arguments]
    returns: type[Structure]
    effect: Effect
    answer: Callable[[CallerSession, Any], Awaitable[ToolReply]]
    is_repeatable: bool = False
    shows: bool = False
    recipe: str | None = None
    scope: tuple[str, ...] = SCOPE
    for_agents: bool = True
    is_of_all: bool = False

    def is_for(self, who: Caller) -> bool:
        """Return whether a caller may use it."""
        is_meant = who.may_name_any if self.is_of_all else self.for_agents or who.agent is None
        return is_meant and self.rights <= who.rights

    @property
    def writes(self) -> bool:
        """Whether it changes the store."""
        return self.effect != "reads"

    @property
    def rights(self) -> frozenset[Right]:
        """What the caller has to be allowed."""
        needed: dict[Right, bool] = {"write": self.writes, "read": self.shows or not self.writes}
        return frozenset(right for right, is_needed in needed.items() if is_needed)

    def listed(self, options: ServiceOptions, names: Iterable[str] = ()) -> ListedTool:
        """Return the tool as a list of tools shows it.

        ``names`` of the scope become arguments, for callers that may choose them.
        """
        takes = schema_of(self.takes)
        show_sizes(options, takes, _queries(self.takes))
        for name in names:
            told = {"type": "string", "maxLength": 512, "description": _SCOPE[name]}
            takes["properties"][name] = told
        for name, one in takes["properties"].items():
            if name not in takes.get("required", ()):
                takes["properties"][name] = _or_null(one)
        return ListedTool(
            name=self.name,
            title=self.title,
            description=self.description if self.writes else f"{self.description} {NOTICE}",
            input_schema=takes,
            output_schema=schema_of(self.returns, mode="serialization"),
            annotations=ToolAnnotations(
                read_only_hint=not self.writes,
                destructive_hint=self.effect in ("changes", "removes"),
                idempotent_hint=self.is_repeatable or not self.writes,
                open_world_hint=False,
            ),
        )

    def read(self, given: Mapping[str, Any], options: ServiceOptions) -> Arguments:
        """Check the arguments of a call."""
        known = [field.alias or name for name, field in self.takes.model_fields.items()]
        unknown = [name for name in given if name not in known]
        if unknown:
            raise unknown_option(self.name, unknown, known)
        check_shape(options, given)
        read = with_defaults(options, checked(self.takes, given))
        check_page(options, read)
        return read


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an argument that need not be given."""
    if any(kind.get("type") == "null" for kind in kinds_of(schema)):
        return schema
    outside: dict[str, Any] = {
        name: schema[name] for name in ("description", "default") if name in schema
    }
    inside = [{name: one for name, one in kind.items() if name not in outside}
              for kind in kinds_of(schema)]  # fmt: skip
    return {"anyOf": [*inside, {"type": "null"}], **outside}


def schema_of(
    model: type[BaseModel], mode: Literal["validation", "serialization"] = "validation"
) -> dict[str, Any]:
    """Return the JSON schema of a model, without the titles that repeat the names."""
    found: dict[str, Any] = _without_titles(model.model_json_schema(mode=mode))
    found.pop("description", None)  # the docstring of the class
    for definition in found.get("$defs", {}).values():
        definition.pop("description", None)
    found.setdefault("properties", {})
    return found


def _without_titles(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_titles(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: {key: _without_titles(one) for key, one in value.items()}
        if name in ("properties", "$defs")
        else _without_titles(value)
        for name, value in schema.items()
        if name != "title" or not isinstance(value, str)
    }
