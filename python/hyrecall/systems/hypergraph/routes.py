"""HyperMemory's route: ``POST /api/v1/memory/recall``, with the reply of ``hm_recall``."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Header, Request
from pydantic import BaseModel, ConfigDict, Field

from hyrecall.recipes import hypergraph
from hyrecall.serve.errors import ServiceError, check_query, options_of
from hyrecall.serve.routing import Router
from hyrecall.serve.scoped_store import Reader, recipe_for, store_of
from hyrecall.systems.hypergraph.graph_recall import ahm_recall
from hyrecall.systems.route_shapes import ERRORS

router = Router(tags=["hypergraph"], responses=ERRORS)

MOST_RESULTS = 50


class RecallBody(BaseModel):
    """A recall of nodes.

    Parameters
    ----------
    query : str
    session_id : str, default "default"
        The conversation: what it met ranks higher.
    max_results : int, default 10
        In [1, 50].
    force_regex : bool, default False
        The query is a pattern, and nothing else runs.
    """

    model_config = ConfigDict(
        extra="forbid", strict=True,
        json_schema_extra={"examples": [{"query": "JWT authentication decisions"}]},
    )  # fmt: skip

    query: str = Field(min_length=1)
    session_id: str = Field(default="default", min_length=1, max_length=512)
    max_results: int = Field(default=10, ge=1, le=MOST_RESULTS)
    force_regex: bool = False


@router.post("/api/v1/memory/recall", summary="Recall nodes and the edges between them")
async def recall(
    body: RecallBody,
    who: Reader,
    request: Request,
    user_id: str | None = None,
    org: str | None = None,
    workspace: str | None = None,
    x_graph_id: Annotated[str | None, Header()] = None,
) -> dict[str, Any]:
    """Recall as HyperMemory's documents say; ``X-Graph-Id`` or ``user_id`` names whose graph."""
    if user_id is not None and x_graph_id not in (None, user_id):
        raise ServiceError(422, "Invalid", "user_id: expected that of X-Graph-Id")
    names = {"user_id": x_graph_id if user_id is None else user_id}
    store = store_of(request, who, {**names, "org": org, "workspace": workspace})
    recipe_for(store, hypergraph)
    check_query(options_of(request), body.query)
    return await ahm_recall(
        store.memory, body.query, body.session_id, body.max_results, body.force_regex,
        agent=store.caller.agent, **store.where,
    )  # fmt: skip


ROUTERS = (router,)
