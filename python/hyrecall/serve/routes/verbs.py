"""The routes of the verbs of :mod:`hyrecall.memory.ops`: one for each entry."""

from __future__ import annotations

import inspect
import re
from itertools import zip_longest
from typing import Annotated, Any, Final, TypeAlias

from fastapi import Depends, Header, Query, Request
from pydantic import BaseModel, ConfigDict, create_model
from starlette.responses import Response

from hyrecall.errors import NotFoundError, error
from hyrecall.memory import Episode
from hyrecall.memory.data.types import checked
from hyrecall.memory.ops import OPS, SCOPE, Op, arguments, as_call, model_of, words_of
from hyrecall.memory.replies import REPLIES, Changed, changed_data
from hyrecall.serve.errors import (
    ServiceError,
    check_lists,
    check_page,
    check_query,
    check_size,
    options_of,
)
from hyrecall.serve.options import Caller, ServiceOptions
from hyrecall.serve.replies import ERRORS, JsonResponse, encode, encode_within
from hyrecall.serve.routing import PathId, Router
from hyrecall.serve.scoped_store import Writer, caller, memory_of, require, store_of
from hyrecall.serve.verbs import CallersStore

_MISSING: Final[dict[int | str, dict[str, Any]]] = {
    404: {"description": "The caller has no such memory."}
}
_NEED_MEMORIES: Final = ("update", "supersede", "pin", "end_fact", "feedback")
_TAKE_IDS: Final = ("remember", "update", "supersede", "link", "remember_fact")
_KEEP: Final = ("remember", "supersede", "remember_fact")
_CHANGED: Final[dict[int | str, dict[str, Any]]] = {
    412: {"description": "The memory has another version than If-Match says."}
}
_VERSION: Final = re.compile(r'"([1-9]\d{0,17})"')
_TAKEN: Final[dict[int | str, dict[str, Any]]] = {409: {"description": "The id is taken."}}


class _VerbQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


class _VerbBody(BaseModel):
    model_config = ConfigDict(
        extra="forbid", strict=True, hide_input_in_errors=True, allow_inf_nan=False
    )


def _asked(op: Op, in_path: tuple[str, ...], *, in_query: bool) -> type[BaseModel]:
    """Return the model of a request's query string or body: the scope, and the arguments."""
    scope: Any = dict.fromkeys(op.scope, (str | None, None))
    base: Any = create_model(
        f"Scope{op.name.title()}", __base__=_VerbQuery if in_query else _VerbBody, **scope
    )
    if op.example:
        base.model_config["json_schema_extra"] = {"examples": [dict(op.example)]}
    return model_of(op, "rest", base, in_path)


def _check_sizes(options: ServiceOptions, op: Op, given: dict[str, Any]) -> None:
    """Refuse a text to look for, a page or a list beyond what the service takes."""
    known = arguments(op, "rest")
    if "limit" in known:  # a default is lowered to what the service gives
        given.setdefault("limit", min(known["limit"].default, options.max_limit))
        check_page(options, given["limit"])
    for name in ("query", "text") if op.effect == "reads" else ("query",):
        check_query(options, given.get(name) or "", name)
    check_lists(options, **given)


def _handler(op: Op, asked_as: Any, in_path: tuple[str, ...], status: int) -> Any:
    """Return the function of a route: it takes what its signature shows to FastAPI."""

    async def route(request: Request, asked: BaseModel, who: Caller, **given: Any) -> Response:
        options = options_of(request)
        once = given.pop("idempotency_key", None)
        if_match = given.pop("if_match", None)
        given |= {name: getattr(asked, name) for name in asked.model_fields_set}
        if if_match is not None:
            given["if_version"] = _version_of(if_match, given.get("if_version"))
        for right in sorted(op.rights(given)):
            require(who, right)
        store = store_of(request, who, {name: given.pop(name, None) for name in op.scope})
        _check_sizes(options, op, given)

        def work() -> tuple[bytes, int | None]:
            data = store.answer_once(op, given, once) if once else store.answer(op, given)
            if op.missing and not any(data.values()):
                raise error(NotFoundError, "id", op.missing, "none")
            return encode_within(data, options.max_reply), data.get("version")

        encoded, version = await store.run(work)
        headers = None if version is None else {"ETag": f'"{version}"'}
        return JsonResponse(encoded, status, headers)

    kinds = {
        "request": Request,
        **dict.fromkeys(in_path, PathId),
        "asked": asked_as,
        "who": Annotated[Caller, Depends(caller)],
    }
    if "if_version" in arguments(op, "rest"):
        kinds["if_match"] = _IfMatch
    if op.name in _KEEP:
        kinds["idempotency_key"] = _IdempotencyKey
    headers = ("if_match", "idempotency_key")
    shown = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, annotation=kind,
            default=None if name in headers else inspect.Parameter.empty,
        )
        for name, kind in kinds.items()
    ]  # fmt: skip
    vars(route)["__signature__"] = inspect.Signature(shown)
    return route


_IfMatch: TypeAlias = Annotated[
    str | None,
    Header(alias="If-Match", description='The version to change, in quotes ("3"), as ETag has it.'),
]
_IdempotencyKey: TypeAlias = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key", min_length=1, max_length=255,
        description="A name of the call: the same one again keeps nothing more.",
    ),
]  # fmt: skip


def _version_of(if_match: str, also: int | None) -> int:
    """Read the header If-Match: one version in quotes."""
    found = _VERSION.fullmatch(if_match.strip())
    if found is None or also is not None:
        wish = 'a version in quotes ("3")' if also is None else "none beside if_version"
        raise ServiceError(422, "Invalid", f"If-Match: expected {wish}")
    return int(found[1])


def _router() -> Router:
    """Return the routes of all verbs; those that name more come first."""
    router = Router(prefix="/v1", responses=ERRORS, default_response_class=JsonResponse)
    for op in sorted(OPS.values(), key=lambda one: one.rest.endswith("}")):
        if not op.is_at("rest"):
            continue
        method, path = op.rest.split()
        in_path = tuple(re.findall(r"{(\w+)}", path))
        in_query = method in ("GET", "DELETE")
        asked: Any = _asked(op, in_path, in_query=in_query)
        status = 201 if method == "POST" and op.effect != "reads" and "end" not in path else 200
        convertor = "id" if path.endswith("}") or "/memories" in path else "path"
        told = dict(_MISSING) if op.missing or op.name in _NEED_MEMORIES else {}
        told |= _TAKEN if op.name in _TAKE_IDS else {}
        told |= _CHANGED if "if_version" in arguments(op, "rest") else {}
        router.add_api_route(
            re.sub(r"{(\w+)}", rf"{{\1:{convertor}}}", path),
            _handler(op, Annotated[asked, Query()] if in_query else asked, in_path, status),
            methods=[method], name=op.name, summary=op.title, description=words_of(op),
            status_code=status, tags=[path.split("/")[1]],
            responses={status: {"model": REPLIES[op.name][0]}, **told},
        )  # fmt: skip
    return router


router: Final = _router()

# ---- Several memories in one transaction ----

_One: Any = _asked(OPS["remember"], (), in_query=False)


class MemoriesBody(_VerbBody):
    """Several memories to keep, all or none."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"episodes": [{"text": "tea at four"}, {"text": "coffee at five"}]}]
        }
    )

    episodes: list[_One]


@router.post(
    "/memories/batch", status_code=201, summary="Keep several memories, all or none",
    tags=["memories"], responses={201: {"model": list[Changed]}, **_TAKEN},
)  # fmt: skip
async def remember_batch(
    request: Request,
    body: MemoriesBody,
    who: Writer,
    idempotency_key: _IdempotencyKey = None,
) -> Response:
    """Keep several memories in one transaction."""
    options = options_of(request)
    check_size("episodes", len(body.episodes), options.max_batch, "memories")
    if who.agent is not None:
        raise ServiceError(403, "Forbidden", "agents keep one memory at a time")
    asked: list[tuple[dict[str, Any], CallersStore]] = []
    for one in body.episodes:
        given = {name: getattr(one, name) for name in one.model_fields_set}
        store = store_of(request, who, {name: given.pop(name, None) for name in SCOPE})
        check_lists(options, **given)
        if given.pop("vector", None) is not None:
            raise ServiceError(422, "Invalid", "vector: expected none in a batch")
        asked.append((given, store))
    memory = memory_of(request)

    def work() -> bytes:
        made: list[str] = []
        if idempotency_key is not None:
            made = [
                store.id_of("batch", f"{at} {idempotency_key}", given)
                for at, (given, store) in enumerate(asked)
            ]
            kept = [store.kept_as(one) for (_, store), one in zip(asked, made, strict=True)]
            if kept and all(kept):
                return encode(kept)
        episodes = [
            checked(Episode, as_call(OPS["remember"], {"id": one, **given}, store.where))
            for one, (given, store) in zip_longest(made, asked)
        ]
        done = memory._sync.remember_batch(episodes)
        return encode([changed_data(one) for one in done])

    return JsonResponse(await memory._run(work), 201)
