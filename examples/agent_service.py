"""The memory of an agent over HTTP: remember, search and forget for the user of each request.

``pip install fastapi uvicorn httpx2``, then ``AGENT_STORE=agent.mem uvicorn agent_service:app
--workers 2``: each process opens the same store. Run as a script, the file tests itself, without
uvicorn.
"""

import os
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Body, Depends, FastAPI, Header, HTTPException, Request
from fastapi.responses import JSONResponse

import hyrecall as hr
from hyrecall.memory import Memory


@asynccontextmanager
async def lifespan(app: FastAPI):
    """Open the store before the first request and close it after the last."""
    path = os.environ.get("AGENT_STORE", ":memory:")
    async with Memory.open(path, recipe=hr.recipes.default) as app.state.memory:
        await app.state.memory.wait_until_ready(timeout=30)  # else replies may be degraded
        yield


def store_of(request: Request) -> Memory:
    """Return the store of the app."""
    return request.app.state.memory


app = FastAPI(lifespan=lifespan)
Store = Annotated[Memory, Depends(store_of)]
User = Annotated[str, Header(alias="X-User")]  # in a real service: the user of a verified token
Text = Annotated[str, Body()]
Metadata = Annotated[dict[str, Any] | None, Body()]


@app.post("/memories", status_code=201)
async def remember(text: Text, user: User, memory: Store, metadata: Metadata = None):
    """Keep a memory. It is on disk when this call answers."""
    return {"id": (await memory.remember(text, user_id=user, metadata=metadata or {})).id}


@app.post("/search")
async def search(
    text: Text, user: User, memory: Store, metadata: Metadata = None,
    token_budget: Annotated[int | None, Body()] = None, limit: Annotated[int, Body()] = 10,
):  # fmt: skip
    """Return the best matches, and whether and why they are degraded."""
    asked = {"metadata": metadata, "token_budget": token_budget, "limit": limit}
    matches = await memory.search(text, user_id=user, **asked)
    found = [{"id": match.episode.id, "text": match.episode.text} for match in matches]
    reasons = [str(reason) for reason in matches.reasons]
    return {"matches": found, "degraded": matches.degraded, "reasons": reasons}


@app.delete("/memories/{key}", status_code=204)
async def forget(key: str, user: User, memory: Store):
    """Forget a memory of the user. The id of another user's memory is not found."""
    if not await memory.forget(key, user_id=user):
        raise HTTPException(404, f"no memory {key}")


@app.exception_handler(hr.HyrecallError)
async def answer_error(request: Request, error: hr.HyrecallError):
    """Answer 422 to a wrong argument, 404 to an unknown id, 503 to a failure of the store."""
    codes = {ValueError: 422, TypeError: 422, LookupError: 404}
    code = next((code for kind, code in codes.items() if isinstance(error, kind)), 503)
    return JSONResponse({"detail": "try again later" if code == 503 else str(error)}, code)


if __name__ == "__main__":
    from fastapi.testclient import TestClient

    with TestClient(app, headers={"X-User": "ann"}) as client:
        for text, room in (("tea is at four", "hall"), ("tea is in the shed", "garden")):
            kept = client.post("/memories", json={"text": text, "metadata": {"room": room}}).json()
        query = {"text": "where is tea", "metadata": {"room": "garden"}, "token_budget": 50}
        print(client.post("/search", json=query).text)
        assert client.post("/search", json=query, headers={"X-User": "bob"}).json()["matches"] == []
        assert client.delete(f"/memories/{kept['id']}").status_code == 204
