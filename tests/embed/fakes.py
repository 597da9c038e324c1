"""Embedders that do what a test needs, well or badly."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import numpy as np

from seams import Guard

SLACK = 0.02  # seconds: what a loaded machine may add


class FakeClock:
    """Gives the time that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Fake:
    """Runs a function per call and counts; ``release`` frees what waits for it."""

    def __init__(
        self,
        reply: Callable[[Sequence[str]], object] | None = None,
        *,
        dim: int | None = 4,
        model: str = "fake",
    ) -> None:
        self.model = model
        self.dim = dim
        self.calls: list[list[str]] = []
        self.release = threading.Event()
        self._reply = reply or (lambda texts: np.ones((len(texts), dim or 4), np.float32))

    def embed(self, texts: Sequence[str]) -> object:
        self.calls.append(list(texts))
        return self._reply(texts)

    def hangs(self, texts: Sequence[str]) -> object:
        """Use as a reply: wait until the test ends."""
        self.release.wait(30)
        return np.ones((len(texts), 4), np.float32)


def hanging(dim: int | None = 4) -> Fake:
    fake = Fake(dim=dim)
    fake._reply = fake.hangs
    return fake


def wait_until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 30
    while not holds() and time.monotonic() < until:
        time.sleep(0.002)


def asked(guard: Guard, budget: float, text: str = "tea") -> tuple[object, float]:
    begun = time.monotonic()
    return guard.embed([text], budget=budget), time.monotonic() - begun


def hang(guard: Guard, n: int, budget: float = 0.02) -> object:
    """Ask until n calls hang: a call may be over before a busy machine hands it to a worker."""
    answer: object = None
    until = time.monotonic() + 30
    while guard.state()["hung"] < n and time.monotonic() < until:
        answer, _ = asked(guard, budget)
    return answer
