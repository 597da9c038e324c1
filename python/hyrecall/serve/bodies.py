"""Request bodies as pydantic models: unknown fields and other types are refused.

Limits that options set are checked by :mod:`hyrecall.serve.errors`.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    StrictBool,
    StrictFloat,
    StrictInt,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import PydanticCustomError

from hyrecall.base.times import as_moment

Number: TypeAlias = StrictFloat | StrictInt


def _whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole: TypeAlias = Annotated[StrictInt, BeforeValidator(_whole)]
"""An integer; 5.0 is one, as in a query string."""

Count: TypeAlias = Annotated[Whole, Field(ge=0)]


def _not_blank(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("blank", "Input should be a non-empty string")
    return text


Text: TypeAlias = Annotated[
    str, AfterValidator(_not_blank), Field(json_schema_extra={"minLength": 1})
]
"""The text of a memory, at every door."""

JsonObject: TypeAlias = dict[str, JsonValue]


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


Moment: TypeAlias = Annotated[datetime, WrapValidator(_read_moment)]
Time: TypeAlias = Annotated[datetime, WrapValidator(_read_time)]


class Body(BaseModel):
    """A request's body."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True, allow_inf_nan=False)


class ScopedBody(Body):
    """A body that may narrow the token's scope."""

    user_id: str | None = Field(None, description="The user; the token's if it names one.")
    org: str | None = None
    workspace: str | None = None


def _example(**fields: Any) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": [fields]})


class RecallBody(ScopedBody):
    """A recall of a store: the options of ``Memory.search``."""

    model_config = _example(
        text="replication lag", limit=3, filter={"kind": "episodic"}, explain=True
    )

    text: str
    limit: Count = 10
    offset: Count = 0
    kind: str | None = None
    since: Moment | None = Field(None, description="The first time, included.")
    until: Moment | None = Field(
        None, description="The last time, included; a date alone is the whole day."
    )
    tags: list[str] | None = None
    filter: JsonObject | None = Field(
        None,
        description="Columns to predicates, as `hyrecall recall --filter` reads them: "
        '`{"kind": "note", "occurred_at": {"from": "2024-05-01"}, "metadata.project": "x"}`.',
    )
    metadata: JsonObject | None = Field(None, description="Keys of the metadata to predicates.")
    alpha: Number | None = Field(None, description="0: words alone, 1: vectors alone.")
    recipe: str | None = Field(None, description="One of `recipes` in `GET /v1/info`.")
    depth: Annotated[Whole, Field(ge=1)] | None = Field(
        None, description="In place of the recipe's; limit + offset may reach it."
    )
    vector: list[Number] | None = Field(None, description="In place of the text's embedding.")
    session_id: str | None = None
    diversity: Number | None = None
    normalize: StrictBool = False
    min_score: Number | dict[str, Number] | None = Field(
        None,
        description="The least `score`, which is relative to the other matches; or "
        '`{"bm25": 2.0, "cosine": 0.35}`, floors of both scores as they are.',
    )
    weights: dict[str, Number] | None = None
    token_budget: Whole | None = None
    candidates: list[str] | dict[str, Number] | None = None
    around: Annotated[Whole, Field(ge=0, le=100)] = Field(
        0, description="Memories on either side of a match in its session, shown with it."
    )
    touch: StrictBool = False
    include_ended: StrictBool = Field(
        False, description="Also facts that have ended, each behind its successor, or not begun."
    )
    now: Time | None = None
    explain: StrictBool = Field(
        False,
        description="Add to each match how its score came about, and what each stage dropped.",
    )


class BatchBody(Body):
    """Several recalls; they are answered together, each as if it were alone."""

    model_config = _example(queries=[{"text": "replication lag"}, {"text": "tea", "limit": 2}])

    queries: list[RecallBody]


class MemoryFields(Body):
    """Fields of a memory that a caller sets."""

    input: str = ""
    kind: str = "episodic"
    source: str | None = None
    session_id: str | None = None
    occurred_at: Time | None = None
    importance: Number | None = None
    pinned: StrictBool = False
    tags: list[str] = []
    metadata: JsonObject = {}
    visibility: Literal["private", "global"] = "private"


class MemoryBody(MemoryFields, ScopedBody):
    """A memory to keep."""

    model_config = _example(text="The replica lags by 40 s", tags=["postgres"], kind="episodic")

    text: Text = Field(description="What was said or learnt.")
    id: str | None = Field(None, description="Default: drawn at random.")
    vector: list[Number] | None = Field(None, description="In place of an embedding.")


class MemoriesBody(Body):
    """Several memories to keep, all or none."""

    model_config = _example(episodes=[{"text": "tea at four"}, {"text": "coffee at five"}])

    episodes: list[MemoryBody]


class PatchBody(ScopedBody):
    """Fields of a memory to change; those that are not named stay as they are."""

    model_config = _example(text="The replica lags by 2 s", reason="measured again")

    text: Text = Field(default_factory=str)  # so that the description names no default
    input: str | None = None
    kind: str | None = None
    source: str | None = None
    session_id: str | None = None
    occurred_at: Time | None = None
    importance: Number | None = None
    pinned: StrictBool | None = None
    tags: list[str] | None = None
    metadata: JsonObject | None = None
    visibility: Literal["private", "global"] | None = None
    valid_to: Time | None = Field(
        None, description="When a fact ends, alone; null: where the next one begins, or never."
    )
    reason: str | None = None


class SupersedeBody(MemoryFields, ScopedBody):
    """A memory that replaces another one."""

    model_config = _example(text="The replica is gone", reason="decommissioned")

    text: Text
    id: str | None = None
    reason: str | None = None


class PinBody(ScopedBody):
    """Whether a memory is pinned."""

    model_config = _example(pinned=True)

    pinned: StrictBool = True


class LinkBody(ScopedBody):
    """An edge between memories; more than two make a hyperedge."""

    model_config = _example(participants=["m1", "m2"], relationship="causes")

    class Node(Body):
        """A memory and its part in the edge."""

        id: str
        role: str | None = None

    participants: list[str | Node]
    relationship: str
    visibility: Literal["private", "global"] = "private"
    id: str | None = None
    description: str = ""
    metadata: JsonObject | None = None


class FeedbackBody(ScopedBody):
    """A query and the memories that helped with it."""

    model_config = _example(query="replication lag", used=["m1"])

    query: str
    used: list[str]


class FactBody(ScopedBody):
    """A fact to keep; the one that held before ends where it begins."""

    model_config = _example(subject="replica", predicate="runs in", object="Oslo")

    subject: str
    predicate: str
    object: str
    id: str | None = None
    valid_from: Time | None = None
    valid_to: Time | None = None
    single: StrictBool = Field(True, description="False: one of several objects of the predicate.")
    metadata: JsonObject = {}
    visibility: Literal["private", "global"] = "private"


class FactsBody(ScopedBody):
    """A recall of facts that hold at a time."""

    model_config = _example(text="where does the replica run")

    text: str
    limit: Count = 5
    valid_at: Time | None = None


class EndBody(ScopedBody):
    """When a fact ends."""

    model_config = _example(at="2026-01-01T00:00:00Z", reason="moved")

    at: Time | None = Field(None, description="Default: now.")
    reason: str | None = None


class PolicyBody(Body):
    """What an agent may read beside its own memories."""

    model_config = _example(policy="group", policy_group="planners", org="acme", workspace="lab")

    policy: Literal["isolated", "shared", "group"]
    policy_group: str | None = None
    org: str | None = None
    workspace: str | None = None


class IndexQueryBody(Body):
    """A recall of an index."""

    model_config = _example(text="replication lag", scope=["alice"], limit=3)

    text: str | dict[str, str] | None = Field(None, description="For all text arms, or by arm.")
    vector: list[Number] | dict[str, list[Number]] | None = None
    scope: JsonValue = Field(
        None,
        description="A cell (a value, or a list with one for each cell column), or a list of "
        "cells under `any_of`. Default: all cells of the token.",
    )
    filter: JsonObject | None = None
    limit: Count = 10
    offset: Count = 0
    depth: Annotated[Whole, Field(ge=1)] = 100
    recipe: str | None = None
    min_score: dict[str, Number] | None = None
    normalize: StrictBool = False
    columns: list[str] = []
    group: Literal["thread"] | None = Field(None, description="Threads as hits: the best row each.")
    surrounding: Annotated[Whole, Field(ge=0, le=100)] = Field(
        0, description="Rows on either side of each hit in its thread."
    )
    now: Time | None = None
    explain: StrictBool = False


class IndexBatchBody(Body):
    """Several recalls of an index."""

    model_config = _example(queries=[{"text": "replication lag", "scope": ["alice"]}])

    queries: list[IndexQueryBody]
