"""Recalls of a store: one, or a batch, as JSON."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from fastapi import Request
from starlette.responses import Response

from hyrecall import recipes
from hyrecall.ask.recipe import Recipe
from hyrecall.base.version import __version__
from hyrecall.errors import HyrecallError, OptionError, error
from hyrecall.hits.marks import are_marked, tells_places
from hyrecall.memory import Matches
from hyrecall.memory.derived.layout import serves
from hyrecall.memory.ops import read_filter
from hyrecall.memory.store import Store
from hyrecall.serve.bodies import BatchBody, RecallBody
from hyrecall.serve.errors import (
    ServiceError,
    check_hits,
    check_lists,
    check_page,
    check_query,
    check_size,
    naming_query,
    options_of,
)
from hyrecall.serve.limits import FairSemaphore
from hyrecall.serve.options import Caller, ServiceOptions, caller_data
from hyrecall.serve.replies import (
    ERRORS,
    AnyIndex,
    BatchReply,
    JsonResponse,
    RecallReply,
    encode_within,
    recall_data,
)
from hyrecall.serve.routing import Router
from hyrecall.serve.scoped_store import Reader, require, store_of
from hyrecall.serve.verbs import CallersStore

# ---- Says what is served, and what the caller's token is for ----

info_router = Router(prefix="/v1", tags=["info"], responses=ERRORS)


@info_router.get("/info", summary="What is served, and to whom")
async def info(request: Request, who: Reader) -> dict[str, Any]:
    """Return version, kind, recipes, limits, and the scope and rights of the token."""
    state, options = request.app.state, options_of(request)
    served = _of_index(state.index) if state.memory is None else _of_store(state.memory)
    limits = ("max_body", "max_query", "max_limit", "max_batch", "max_levels", "max_ids")
    return {
        "version": __version__,
        **served,
        "token": caller_data(who),
        "limits": {name: getattr(options, name) for name in limits},
    }


def recipes_of(store: Store) -> list[str]:
    """Return the names of the recipes that a store can recall by."""
    return [name for name in recipes.__all__ if serves(store.layout, getattr(recipes, name))]


def _of_store(memory: Any) -> dict[str, Any]:
    store: Store = memory._sync._store
    return {
        "kind": "store",
        "recipe": store.recipe.name,
        "recipes": recipes_of(store),
        "read_only": store.database.read_only,
        "embeds": store.guard.off is None,
        "highlights": tells_places(store.layout.analyzer),
    }


def _of_index(index: AnyIndex | None) -> dict[str, Any]:
    if index is None:
        return {"kind": "store", "recipes": []}
    schema = index.schema
    return {
        "kind": "index",
        "recipes": list(recipes.__all__),
        "read_only": True,
        "cell": list(schema.cell_columns),
        "text_arms": list(schema.text_arms),
        "text_weights": {
            arm: dict(text.weights) for arm, text in schema.text_arms.items() if text.weights
        },
        "vector_arms": list(schema.vector_arms),
        "columns": list(schema.row_columns),
        "highlights": are_marked(index._facts),
    }


# ---- Recalls of a store: one, or a batch, as JSON ----

router = Router(prefix="/v1", tags=["recall"], responses=ERRORS)

MOST_OF_A_BATCH = 4
"""Queries of one batch that are on threads of the store at a time."""

MOST_OF_BATCHES = 8
"""The same of all batches: half of the store's threads are left to single requests."""

_ONLY_HERE = {
    "user_id", "org", "workspace", "explain", "highlight", "confidence", "filter", "recipe",
    "depth",
}  # fmt: skip


@router.post(
    "/recall",
    summary="Recall memories",
    responses={200: {"model": RecallReply}},
    response_class=JsonResponse,
)
async def recall(request: Request, body: RecallBody, who: Reader) -> Response:
    """Rank the caller's memories for one query."""
    began = time.perf_counter()
    check_recall(options_of(request), body)
    check_all(options_of(request), [body])
    store = _store_of(request, who, body)

    def work() -> bytes:
        found = recall_data(
            search(store, body), explain=body.explain, began=began, highlight=body.highlight,
            confidence=body.confidence,
        )  # fmt: skip
        return encode_within(found, options_of(request).max_reply)

    return JsonResponse(await store.run(work))


@router.post(
    "/recall/batch",
    summary="Recall memories for several queries",
    responses={200: {"model": BatchReply}},
    response_class=JsonResponse,
)
async def recall_batch(request: Request, body: BatchBody, who: Reader) -> Response:
    """Answer several queries together; each reply is what the query alone would get."""
    began, options = time.perf_counter(), options_of(request)
    check_size("queries", len(body.queries), options.max_batch, "queries")
    for at, query in enumerate(body.queries):
        check_recall(options, query, f"queries[{at}].")
    check_all(options, body.queries)
    found = await answer_all(request, who, body.queries)

    def written() -> bytes:  # on a thread: explanations are computed
        replies, n_bytes = [], 0
        for query, matches in zip(body.queries, found, strict=True):
            one = recall_data(
                matches, explain=query.explain, began=began, highlight=query.highlight,
                confidence=query.confidence,
            )  # fmt: skip
            replies.append(encode_within(one, options.max_reply - n_bytes))
            n_bytes += len(replies[-1])
        return b'{"replies":[' + b",".join(replies) + b"]}"

    return JsonResponse(await asyncio.to_thread(written))


async def answer_all(request: Request, who: Reader, queries: list[RecallBody]) -> list[Matches]:
    """Answer queries on threads of the store, a few at a time so that others find one free."""
    # No query begins after one has failed. The error of the first is named and raised.
    stores = []
    for at, query in enumerate(queries):
        with naming_query(at):
            stores.append(_store_of(request, who, query))
    places: FairSemaphore = request.app.state.of_batches
    rest = iter(enumerate(zip(stores, queries, strict=True)))
    found: dict[int, Matches | HyrecallError | ServiceError] = {}

    async def work() -> None:
        for at, (store, query) in rest:
            async with places.turn(who.name):  # with the batches of other callers
                one = found[at] = await _answer(store, query, at)
            if not isinstance(one, Matches):
                for _ in rest:  # the other workers end too
                    pass

    async with asyncio.TaskGroup() as group:
        for _ in range(min(MOST_OF_A_BATCH, len(queries))):
            group.create_task(work())
    in_order = [found[at] for at in sorted(found)]
    for one in in_order:
        if isinstance(one, HyrecallError | ServiceError):
            raise one
    return [one for one in in_order if isinstance(one, Matches)]


def _store_of(request: Request, who: Caller, query: RecallBody) -> CallersStore:
    """Return the store for a query; counting accesses is a write."""
    if query.touch:
        require(who, "write")
    return store_of(request, who, query)


async def _answer(
    store: CallersStore, query: RecallBody, at: int
) -> Matches | HyrecallError | ServiceError:
    try:
        return await store.run(lambda: search(store, query))
    except HyrecallError as fault:
        fault.args = (f"queries[{at}].{fault}",)
        return fault
    except ServiceError as fault:  # of the reply, not of this query
        return fault


def check_all(options: ServiceOptions, queries: list[RecallBody]) -> None:
    """Refuse queries that ask for too much together."""
    check_hits(options.max_hits, (q.limit for q in queries), (q.around for q in queries))


def check_recall(options: ServiceOptions, body: RecallBody, place: str = "") -> None:
    """Check the sizes of one query."""
    check_query(options, body.text, f"{place}text")
    check_page(options, body.limit, body.offset)
    check_size(f"{place}depth", body.depth or 0, options.max_limit, "")
    check_lists(
        options, vector=body.vector, tags=body.tags, filter=body.filter, metadata=body.metadata,
        candidates=body.candidates, weights=body.weights,
    )  # fmt: skip


def search(store: CallersStore, body: RecallBody) -> Matches:
    """Answer one query; blocks."""
    given = {name: getattr(body, name) for name in body.model_fields_set - _ONLY_HERE}
    text = given.pop("text")
    recipe = recipe_of(store.opened, body.recipe)
    if body.depth is not None:
        recipe = (store.opened.recipe if recipe is None else recipe).replace(depth=body.depth)
    found: Matches = store.sync(
        "search", text, filter=read_filter(body.filter), recipe=recipe, **given
    )
    return found


def recipe_of(store: Store, name: str | None) -> Recipe | None:
    """Return a recipe that a store can recall by; None: its own."""
    if name is None:
        return None
    known = recipes_of(store)
    if name not in known:
        raise error(OptionError, "recipe", f"one of {', '.join(known)}", "another")
    found: Recipe = getattr(recipes, name)
    return found
