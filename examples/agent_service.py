"""The memory of an agent over HTTP: remember, search and forget for the user of each request.

``pip install fastapi uvicorn httpx2``, then ``uvicorn agent_service:app``: one process, since one
process writes a store. Run as a script, the file checks itself, which needs no uvicorn.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Header, HTTPException, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel

import hyrecall as hr
from hyrecall.memory import Memory


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Open the store before the first request and close it after the last."""
    path = os.environ.get("AGENT_STORE", ":memory:")
    async with Memory.open(path, recipe=hr.recipes.default) as memory:
        await memory.wait_until_ready(timeout=30)  # after that, replies are degraded and say so
        app.state.memory = memory
        yield


def store_of(request: Request) -> Memory:
    """Return the store of the app."""
    return request.app.state.memory


app = FastAPI(lifespan=lifespan)
Store = Annotated[Memory, Depends(store_of)]
User = Annotated[str, Header(alias="X-User")]  # in a real service: the user of a checked token


class Note(BaseModel):
    """A memory to keep."""

    text: str
    metadata: dict[str, Any] = {}


class Query(BaseModel):
    """What to look for, the metadata that matches must have, and the tokens they may take."""

    text: str
    metadata: dict[str, Any] | None = None
    token_budget: int | None = None
    limit: int = 10


@app.post("/memories", status_code=201)
async def remember(note: Note, user: User, memory: Store) -> dict[str, str]:
    """Keep a memory: when this answers, it is on disk."""
    kept = await memory.remember(note.text, user_id=user, metadata=note.metadata)
    return {"id": kept.id}


@app.post("/search")
async def search(query: Query, user: User, memory: Store) -> dict[str, Any]:
    """Return the best matches, and whether and why they are less than they could have been."""
    asked = query.model_dump(exclude={"text"})
    matches = await memory.search(query.text, user_id=user, **asked)
    return {
        "matches": [{"id": m.episode.id, "text": m.episode.output} for m in matches],
        "degraded": matches.degraded,
        "reasons": [str(reason) for reason in matches.reasons],
    }


@app.delete("/memories/{key}", status_code=204)
async def forget(key: str, user: User, memory: Store) -> None:
    """Forget a memory of the user; the id of another user's memory is not found."""
    if not await memory.forget(key, user_id=user):
        raise HTTPException(404, f"no memory {key}")


@app.exception_handler(hr.HyrecallError)
async def answer_error(request: Request, error: hr.HyrecallError) -> JSONResponse:
    """Answer 422 to a wrong argument, 404 where nothing is there, 503 to trouble of the store."""
    codes = {ValueError: 422, TypeError: 422, LookupError: 404}
    code = next((code for kind, code in codes.items() if isinstance(error, kind)), 503)
    return JSONResponse({"detail": "try again later" if code == 503 else str(error)}, code)


if __name__ == "__main__":
    from fastapi.testclient import TestClient

    ann, bob = {"X-User": "ann"}, {"X-User": "bob"}
    with TestClient(app) as client:
        for text, room in (("tea is at four", "hall"), ("tea is in the shed", "garden")):
            note = {"text": text, "metadata": {"room": room}}
            kept = client.post("/memories", json=note, headers=ann).json()
        query = {"text": "where is tea", "metadata": {"room": "garden"}, "token_budget": 50}
        found = client.post("/search", json=query, headers=ann).json()
        print(found)
        assert [match["id"] for match in found["matches"]] == [kept["id"]]
        assert client.post("/search", json=query, headers=bob).json()["matches"] == []
        print(client.post("/search", json=query | {"limit": -1}, headers=ann).text)
        url = f"/memories/{kept['id']}"
        codes = [client.delete(url, headers=who).status_code for who in (bob, ann, ann)]
        assert codes == [404, 204, 404]
