"""Request bodies as pydantic models: unknown fields and other types are refused.

Limits that options set are checked by :mod:`hyrecall.serve.errors`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    StrictBool,
    StrictFloat,
    StrictInt,
)

from hyrecall.memory.ops import JsonObject, Moment, Time, as_whole

Number: TypeAlias = StrictFloat | StrictInt
Vectors: TypeAlias = list[Number] | list[list[Number]]
Whole: TypeAlias = Annotated[StrictInt, BeforeValidator(as_whole)]
Floor: TypeAlias = Annotated[Number | None, Field(ge=0, le=1, description="Below: an empty reply.")]
HowSure: TypeAlias = Annotated[
    StrictBool,
    Field(
        description="Add `confidence` in [0, 1]: how sure it is that the reply holds an answer "
        "(`answerable`: at least 0.2), and that each match or hit is one."
    ),
]
Count: TypeAlias = Annotated[StrictInt, Field(ge=0), BeforeValidator(as_whole)]


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
    min_confidence: Floor = None
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
    confidence: HowSure = False
    highlight: StrictBool = Field(
        False,
        description="Add to each match its `snippet`, HTML with `<mark>` around the query's words, "
        "and `highlights`: where they stand in input and text with a line break between, in "
        "code points.",
    )


class BatchBody(Body):
    """Several recalls; they are answered together, each as if it were alone."""

    model_config = _example(queries=[{"text": "replication lag"}, {"text": "tea", "limit": 2}])

    queries: list[RecallBody]


class BucketsBody(Body):
    """Ranges of a column whose rows are counted; null first or last is an open end."""

    column: str
    edges: list[Number | str | None]


class IndexQueryBody(Body):
    """A recall of an index."""

    model_config = _example(text="replication lag", scope=["alice"], limit=3)

    text: str | dict[str, str] | None = Field(None, description="For all text arms, or by arm.")
    parse: StrictBool = Field(
        False,
        description='Read the text as a query: `"a phrase"`, `-not`, `+must`, `begi*`, `mosue~`, '
        "`OR`, `( )`. Otherwise it is plain words.",
    )
    vector: Vectors | dict[str, Vectors | dict[str, Number]] | None = Field(
        None,
        description="For all vector arms, or by arm; a list of vectors for an arm of many, an "
        "object of terms and weights, by arm, for a sparse one.",
    )
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
    min_confidence: Floor = None
    normalize: StrictBool = False
    columns: list[str] = []
    group: str | None = Field(
        None, description='"thread", or an attribute column: one hit a group, its best row.'
    )
    per_group: Annotated[Whole, Field(ge=1, le=100)] | None = Field(
        None, description="Rows of its group that are listed with a hit; default 5."
    )
    surrounding: Annotated[Whole, Field(ge=0, le=100)] = Field(
        0, description="Rows on either side of each hit in its thread."
    )
    sort: list[str | tuple[str, Literal["asc", "desc"]]] | None = Field(
        None,
        description="Columns that order all matching rows in place of their scores; without text "
        "and vector the rows that pass the filter.",
    )
    facets: list[str | BucketsBody] | None = Field(
        None, description="Columns whose values are counted over the matching rows."
    )
    total: StrictBool = Field(False, description="Also how many rows match.")
    now: Time | None = None
    explain: StrictBool = False
    confidence: HowSure = False
    highlight: StrictBool = Field(
        False,
        description="Add to each hit its `snippet`, HTML with `<mark>` around the query's words, "
        "and `highlights`: where they stand in each of `columns` that is a text, in code points.",
    )


class IndexBatchBody(Body):
    """Several recalls of an index."""

    model_config = _example(queries=[{"text": "replication lag", "scope": ["alice"]}])

    queries: list[IndexQueryBody]
