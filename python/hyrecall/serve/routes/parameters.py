"""What query strings of several routes have: a narrower scope, and pages of a list."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from fastapi import Query
from pydantic import BaseModel, ConfigDict

from hyrecall.ask.filter_json import filter_from_json
from hyrecall.ask.filters import Filter
from hyrecall.memory.derived.layout import FILTERED

__all__ = ["PageParams", "ScopeParams", "Scoped", "store_filter"]

_TYPES = {name: column.type for name, column in FILTERED.items()}


class ScopeParams(BaseModel):
    """Narrows the token's scope."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    user_id: str | None = None
    org: str | None = None
    workspace: str | None = None


class PageParams(ScopeParams):
    """A page of a list."""

    kind: str | None = None
    tag: list[str] | None = None
    pinned: bool | None = None
    limit: Annotated[int, Query(ge=0)] = 200
    offset: Annotated[int, Query(ge=0)] = 0


Scoped: TypeAlias = Annotated[ScopeParams, Query()]


def store_filter(asked: dict[str, Any] | None) -> Filter | None:
    """Read a filter over the columns of memories and keys of their metadata."""
    return None if asked is None else filter_from_json(asked, _TYPES, "filter")
