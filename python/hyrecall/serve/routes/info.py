"""Says what is served, and what the caller's token is for."""

from __future__ import annotations

from typing import Any

from fastapi import Request

from hyrecall import recipes
from hyrecall.base.version import __version__
from hyrecall.memory.derived.layout import serves
from hyrecall.memory.store import Store
from hyrecall.serve.callers import Caller, Reader
from hyrecall.serve.limits import options_of
from hyrecall.serve.replies import ERRORS
from hyrecall.serve.routing import Router
from hyrecall.serve.served_index import AnyIndex

__all__ = ["recipes_of", "router"]

router = Router(prefix="/v1", tags=["info"], responses=ERRORS)


@router.get("/info", summary="What is served, and to whom")
async def info(request: Request, who: Reader) -> dict[str, Any]:
    """Return version, kind, recipes, limits, and the scope and rights of the token."""
    state, options = request.app.state, options_of(request)
    served = _of_index(state.index) if state.memory is None else _of_store(state.memory)
    limits = ("max_body", "max_query", "max_limit", "max_batch", "max_levels", "max_ids")
    return {
        "version": __version__,
        **served,
        "token": _of_caller(who),
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
        "vector_arms": list(schema.vector_arms),
        "columns": list(schema.row_columns),
    }


def _of_caller(who: Caller) -> dict[str, Any]:
    return {
        "org": who.org,
        "workspace": who.workspace,
        "user_id": who.user_id,
        "agent": who.agent,
        "rights": sorted(who.rights),
        "may_choose_user": who.may_choose_user,
        "may_choose_partition": who.may_choose_partition,
        "cells": who.cells,
    }
