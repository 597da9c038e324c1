"""Read policies of agents: what each may read beside its own memories."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Request
from pydantic import BaseModel, ConfigDict

from hyrecall.memory import ReadPolicy
from hyrecall.serve.bodies import PolicyBody
from hyrecall.serve.callers import Caller, Reader, Writer, narrow
from hyrecall.serve.errors import ServiceError
from hyrecall.serve.replies import ERRORS
from hyrecall.serve.routing import PathId, Router
from hyrecall.serve.scoped_store import memory_of

__all__ = ["router"]

router = Router(prefix="/v1", tags=["agents"], responses=ERRORS)

POLICY = "/agents/{id:path}/policy"


class _Place(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    org: str | None = None
    workspace: str | None = None


@router.put(POLICY, summary="Set an agent's read policy")
async def set_policy(request: Request, id: PathId, body: PolicyBody, who: Writer) -> dict[str, Any]:  # noqa: A002
    """Set what an agent may read, from its next request on; for callers that may name any user."""
    place = _place(who, body)
    if not who.may_choose_user or who.user_id is not None or who.agent is not None:
        raise ServiceError(403, "Forbidden", "expected a token that may name any user")
    found = ReadPolicy(body.policy, body.policy_group)
    await memory_of(request).set_policy(
        id, policy=found.policy, policy_group=found.policy_group, **place
    )
    return _as_reply(id, place, found)


@router.get(POLICY, summary="An agent's read policy")
async def get_policy(
    request: Request,
    id: PathId,  # noqa: A002
    asked: Annotated[_Place, Query()],
    who: Reader,
) -> dict[str, Any]:
    """Return what an agent may read; an agent may ask for its own."""
    place = _place(who, asked)
    may_name_any = who.may_choose_user and who.user_id is None and who.agent is None
    if not may_name_any and id not in (who.agent, who.user_id):
        raise ServiceError(403, "Forbidden", "expected the caller's own name")
    return _as_reply(id, place, await memory_of(request).get_policy(id, **place))


def _place(who: Caller, asked: object) -> dict[str, str | None]:
    names = narrow(who, asked)
    return {name: names[name] for name in ("org", "workspace")}


def _as_reply(agent: str, place: dict[str, str | None], found: ReadPolicy) -> dict[str, Any]:
    return {"agent": agent, **place, **found._asdict()}
