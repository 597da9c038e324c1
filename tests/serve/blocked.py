"""A route that holds requests back."""

from __future__ import annotations

import asyncio
from typing import Any


class Blocked:
    """A route that waits until it is let go."""

    def __init__(self, app: Any) -> None:
        self.began, self.gate = asyncio.Semaphore(0), asyncio.Event()
        self.cancelled = 0
        app.add_api_route("/blocked", self.route, methods=["GET", "POST", "DELETE"])

    async def route(self) -> dict[str, str]:
        self.began.release()
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return {"done": "yes"}
