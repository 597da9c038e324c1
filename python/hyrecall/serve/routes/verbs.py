"""The routes of the verbs of :mod:`hyrecall.memory.ops`: one for each entry."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Annotated, Any, Final

from fastapi import Depends, Query, Request
from pydantic import BaseModel, ConfigDict
from starlette.responses import Response

from hyrecall.errors import NotFoundError, error
from hyrecall.memory.ops import OPS, Op, arguments, model_of, words_of
from hyrecall.serve.errors import check_lists, check_page, check_query, options_of
from hyrecall.serve.options import ServiceOptions
from hyrecall.serve.replies import ERRORS, JsonResponse, encode_within
from hyrecall.serve.routing import PathId, Router
from hyrecall.serve.scoped_store import Caller, caller, memory_of, narrow, require
from hyrecall.serve.verbs import REPLIES, CallersStore, answer

_TAGS: Final = {"facts": "facts", "agents": "agents"}
_MISSING: Final[dict[int | str, dict[str, Any]]] = {
    404: {"description": "The caller has no such memory."}
}
_TAKEN: Final[dict[int | str, dict[str, Any]]] = {409: {"description": "The id is taken."}}


class _Query(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


class _Body(BaseModel):
    model_config = ConfigDict(
        extra="forbid", strict=True, hide_input_in_errors=True, allow_inf_nan=False
    )


def _asked(op: Op, in_path: tuple[str, ...], *, in_query: bool) -> type[BaseModel]:
    """Return the model of a request's query string or body: the scope, and the arguments."""
    base: Any = _Query if in_query else _Body
    scope = {name: (str | None, None) for name in op.scope}
    example = ConfigDict(json_schema_extra={"examples": [dict(op.example)]} if op.example else {})
    scoped = create_model(f"{base.__name__}Of{op.name}", __base__=base, **scope)
    scoped.model_config |= example
    return model_of(op, "rest", scoped, in_path)


def check_sizes(options: ServiceOptions, given: dict[str, Any]) -> None:
    """Refuse a text to search, a page or a list beyond what the service takes."""
    check_lists(options, **given)
    check_page(options, given.get("limit", 0), given.get("offset", 0))


def _add(router: Router, op: Op) -> None:
    method, path = op.rest.split()
    in_path = tuple(re.findall(r"{(\w+)}", path))
    in_query = method in ("GET", "DELETE")
    model = _asked(op, in_path, in_query=in_query)
    status = 201 if op.effect == "adds" or op.name == "supersede" else 200

    async def route(request: Request, asked: Any, who: Caller, **ids: str) -> Response:
        for right in sorted(op.rights):
            require(who, right)
        options = options_of(request)
        given = {**ids, **{name: getattr(asked, name) for name in asked.model_fields_set}}
        names = narrow(who, given)
        for name in names:
            given.pop(name, None)
        check_sizes(options, given)
        memory = memory_of(request)
        store = CallersStore(memory._sync, **names, agent=who.agent)

        def work() -> bytes:
            data = answer(op, given, store)
            if op.missing and not any(data.values()):
                raise error(NotFoundError, "id", op.missing, "none")
            return encode_within(data, options.max_reply)

        return JsonResponse(await memory._run(work), status)

    kinds: dict[str, Any] = {
        "request": Request,
        **dict.fromkeys(in_path, PathId),
        "asked": Annotated[model, Query()] if in_query else model,
        "who": Annotated[Caller, Depends(caller)],
    }
    shown = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind)
        for name, kind in kinds.items()
    ]
    vars(route)["__signature__"] = inspect.Signature(shown)
    ...
