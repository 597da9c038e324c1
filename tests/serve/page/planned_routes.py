"""The routes that the page asks, answered as the plan of the service says, until it has them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import Body, FastAPI

import hyrecall as hr
from hyrecall.memory import EpisodeMatch, MemorySync
from hyrecall.serve.page import router


def explained(match: EpisodeMatch) -> dict[str, Any]:
    made = asdict(match.explain())
    return {"text": str(match.explain()), "parts": made.pop("components"), **made}


def add_routes(app: FastAPI, memory: MemorySync, recipes: tuple[str, ...]) -> None:
    app.include_router(router())

    @app.get("/v1/info")
    def info() -> dict[str, Any]:
        token = {"user_id": None, "org": None, "workspace": None, "agent": None, "cells": None}
        token |= {"may_choose_user": True, "may_choose_partition": True}
        return {
            "kind": "store", "version": "0", "recipe": recipes[0], "recipes": recipes,
            "token": token,
        }  # fmt: skip

    @app.post("/v1/recall")
    def recall(body: dict[str, Any] = Body()) -> dict[str, Any]:  # noqa: B008
        recipe, explain = body.pop("recipe", None), body.pop("explain", False)
        if "filter" in body:
            body["filter"] = hr.Filter(**body["filter"])
        found = memory.search(
            body.pop("query"),
            recipe=None if recipe is None else getattr(hr.recipes, recipe),
            **body,
        )
        matches = []
        for one in found:
            made: dict[str, Any] = {
                "id": one.episode.id,
                "text": one.episode.text,
                "score": one.score,
                "scores": {"vector": one.vector_score, "bm25": one.bm25_score},
                "ranks": one.parts.tiers if one.parts else {},
                "is_fill": one.is_fill,
                "is_exact": one.is_exact,
                "memory": one.episode.model_dump(mode="json"),
            }
            if explain and found.trace is not None:
                made["explanation"] = explained(one)
            matches.append(made)
        return {
            "matches": matches,
            "degraded": found.degraded,
            "reasons": [{"reason": str(one.reason), "detail": one.detail} for one in found.reasons],
            "lexical_mode": found.lexical_mode,
            "trace": None if found.trace is None else asdict(found.trace),
            "tiers": found.tiers,
            "now": found.now.isoformat(),
            "took_ms": 1.25,
        }

    @app.get("/v1/memories/{key:path}/history")
    def history(key: str, user_id: str | None = None) -> dict[str, Any]:
        versions = memory.history(key, user_id=user_id)
        return {
            "versions": [
                asdict(one)
                | {"memory": one.episode and one.episode.model_dump(mode="json"), "episode": 0}
                for one in versions
            ]
        }

    @app.get("/v1/memories/{key:path}/links")
    def links(key: str, user_id: str | None = None) -> dict[str, Any]:
        found = memory.links(key, user_id=user_id)
        return {"links": [one.model_dump(mode="json") for one in found]}

    @app.get("/v1/memories/{key:path}")
    def get(key: str, user_id: str | None = None) -> Any:
        found = memory.get(key, user_id=user_id)
        return found and found.model_dump(mode="json")

    @app.get("/v1/browse/ls")
    def ls(path: str, user_id: str | None = None) -> dict[str, Any]:
        return {"paths": memory.browse(user_id=user_id).ls(path)}

    @app.get("/v1/browse/cat")
    def cat(path: str, user_id: str | None = None) -> dict[str, Any]:
        return {"text": memory.browse(user_id=user_id).cat(path)}

    @app.get("/v1/browse/grep")
    def grep(
        pattern: str, path: str, regex: bool = False, user_id: str | None = None
    ) -> dict[str, Any]:
        found = memory.browse(user_id=user_id).grep(pattern, path, regex=regex)
        return {"lines": [asdict(one) for one in found]}

    @app.get("/v1/browse/find")
    def find(pattern: str, path: str, user_id: str | None = None) -> dict[str, Any]:
        return {"paths": memory.browse(user_id=user_id).find(pattern, path)}
