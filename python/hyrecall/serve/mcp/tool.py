"""A tool: its name, what it takes and returns, its hints, and the function that answers a call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Final, Literal, TypeAlias

from mcp_types import Tool as ListedTool
from mcp_types import ToolAnnotations
from pydantic import BaseModel, ConfigDict, Field, model_validator

from hyrecall.base.keywords import unknown_option
from hyrecall.memory.data.given_fields import checked
from hyrecall.serve.bodies import Text
from hyrecall.serve.identity import Right
from hyrecall.serve.mcp.previews import NOTICE
from hyrecall.serve.mcp.session import Session
from hyrecall.serve.mcp.sizes import check_page, check_shape, kinds_of, show_sizes, with_defaults
from hyrecall.serve.options import ServiceOptions

__all__ = [
    "Arguments",
    "Effect",
    "Id",
    "Ids",
    "Limit",
    "Previews",
    "Query",
    "Reply",
    "Stored",
    "Structure",
    "Text",
    "Tool",
]

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


class Stored(Structure):
    """Base of what tools return of texts that the store holds."""

    notice: str = NOTICE


class Previews(Stored):
    """Base of lists of these."""

    is_cut: Annotated[
        bool, Field(description="Whether long texts were cut: get returns the whole.")
    ] = False


Query: TypeAlias = Annotated[str, Field(description="What to look for, in plain words.")]
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
class Reply:
    """The answer of a tool: data of its output schema, and the same as a short text.

    A dict is already as JSON shows it, as the documents of a system have it.
    """

    data: Structure | dict[str, Any]
    text: str | Callable[[dict[str, Any]], str] | None = None
    """A function makes it of the data as the reply shows them; None: the data as JSON."""


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
    """

    name: str
    title: str
    description: str
    takes: type[Arguments]
    returns: type[Structure]
    effect: Effect
    answer: Callable[[Session, Any], Awaitable[Reply]]
    is_repeatable: bool = False
    shows: bool = False
    recipe: str | None = None

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
        show_sizes(options, takes)
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
        """Check the arguments of a call.

        Raises
        ------
        OptionError, DTypeError
            The first argument that is missing, unknown, wrong or too large is named.
        """
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
