"""Says whether the process lives, for those who start it again if it does not."""

from __future__ import annotations

from fastapi import APIRouter

__all__ = ["router"]

router = APIRouter(tags=["health"])


@router.get("/healthz", summary="The process answers")
async def healthz() -> dict[str, str]:
    """Answer, without a token and without a look at the store."""
    return {"status": "ok"}
