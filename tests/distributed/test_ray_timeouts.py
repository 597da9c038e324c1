"""When a Ray actor counts as hung: after its last answer, not after a question was sent.

Ray is played here, so that the order of events is certain; ``test_ray.py`` has a real hung actor.
"""

from __future__ import annotations

import queue
import sys
import threading
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from hyrecall.errors import ShardLostError
from seams import START_SECONDS, RayShard, ray_shards

TIMEOUT = 1.0
PATIENCE = 30.0  # seconds, for a thread of a test


class RayError(Exception):
    """What Ray raises."""


class Ref:
    """An answer that is to come. Each wait for it says how long it waits, and is told to end."""

    def __init__(self) -> None:
        self.waits: queue.Queue[float] = queue.Queue()
        self.ends: queue.Queue[bool] = queue.Queue()
        self.answer: Any = (b"answer", b"yes")


class Ray(ModuleType):
    """The part of Ray that a shard calls."""

    exceptions = SimpleNamespace(RayError=RayError)

    def __init__(self) -> None:
        super().__init__("ray")
        self.now = 0.0
        self.asked: queue.Queue[Ref] = queue.Queue()
        self.killed: list[bool] = []
        self.actor = SimpleNamespace(ask=SimpleNamespace(remote=self._remote))

    def monotonic(self) -> float:
        return self.now

    def _remote(self, *frames: bytes) -> Ref:
        made = Ref()
        self.asked.put(made)
        return made

    def wait(self, refs: list[Ref], *, timeout: float) -> tuple[list[Ref], list[Ref]]:
        (one,) = refs
        one.waits.put(timeout)
        return ([one], []) if one.ends.get(timeout=PATIENCE) else ([], [one])

    def get(self, one: Ref) -> Any:
        if isinstance(one.answer, Exception):
            raise one.answer
        return one.answer

    def kill(self, actor: object, *, no_restart: bool) -> None:
        assert actor is self.actor
        self.killed.append(no_restart)


class Question:
    """A question that a thread asks."""

    def __init__(self, ray: Ray, shard: RayShard) -> None:
        self.result: Any = None
        self.thread = threading.Thread(target=self._ask, args=(shard,))
        self.thread.start()
        self.ref = ray.asked.get(timeout=PATIENCE)
        self.waited = self.ref.waits.get(timeout=PATIENCE)

    def _ask(self, shard: RayShard) -> None:
        try:
            self.result = shard._ask(b"state")
        except Exception as fault:
            self.result = fault

    def waits_on(self) -> float:
        """End its wait without an answer; return how long it waits then."""
        self.ref.ends.put(False)
        return self.ref.waits.get(timeout=PATIENCE)

    def end(self, *, done: bool) -> Any:
        self.ref.ends.put(done)
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()
        return self.result


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Ray:
    made = Ray()
    monkeypatch.setitem(sys.modules, "ray", made)
    monkeypatch.setattr(ray_shards, "time", made)
    return made


@pytest.fixture
def shard(ray: Ray) -> RayShard:
    made: RayShard = RayShard("one", ray.actor, None, TIMEOUT)  # type: ignore[arg-type]
    first = Question(ray, made)
    assert first.waited == TIMEOUT + START_SECONDS, "an actor that starts opens its index first"
    assert first.end(done=True) == b"yes"
    return made


def test_a_question_behind_others_waits_for_them(ray: Ray, shard: RayShard) -> None:
    before, behind = Question(ray, shard), Question(ray, shard)
    assert before.waited == behind.waited == TIMEOUT
    ray.now = 0.75
    assert before.end(done=True) == b"yes"
    ray.now = 1.0
    assert behind.waits_on() == 0.75
    ray.now = 1.75
    assert behind.end(done=True) == b"yes", "an answer that comes at the last moment counts"
    assert not ray.killed


def test_a_hung_actor_is_ended_and_starts_again(ray: Ray, shard: RayShard) -> None:
    for n in (1, 2):
        asked = Question(ray, shard)
        assert asked.waited == TIMEOUT
        ray.now += TIMEOUT
        assert asked.waits_on() == 0.0
        fault = asked.end(done=False)
        assert isinstance(fault, ShardLostError)
        assert str(fault) == "one: expected an answer, got none within 1.0 s"
        assert ray.killed == n * [False], "no_restart: Ray starts it again"
        later = Question(ray, shard)
        assert later.waited == TIMEOUT + START_SECONDS
        assert later.end(done=True) == b"yes"


def test_a_hung_actor_that_many_ask_is_ended_once(ray: Ray, shard: RayShard) -> None:
    first = Question(ray, shard)
    ray.now = 0.5
    second, third = Question(ray, shard), Question(ray, shard)
    assert second.waited == 0.5, "the actor has been silent since the first question"
    ray.now = 1.0
    assert [one.waits_on() for one in (first, second)] == [0.0, 0.0]
    third.ref.answer = RayError("The actor died.")
    told = [first.end(done=False), second.end(done=False), third.end(done=True)]
    assert all(isinstance(one, ShardLostError) for one in told)
    assert ray.killed == [False]


def test_an_actor_that_ended_by_itself_is_not_ended_again(ray: Ray, shard: RayShard) -> None:
    asked = Question(ray, shard)
    asked.ref.answer = RayError("The actor died.\nIts log follows.")
    fault = asked.end(done=True)
    assert str(fault) == "one: expected an answer, got The actor died."
    assert not ray.killed
    later = Question(ray, shard)
    assert later.waited == TIMEOUT + START_SECONDS
    later.end(done=True)


def test_one_at_work_answers_a_check(ray: Ray, shard: RayShard) -> None:
    asked = Question(ray, shard)
    shard.check()
    assert ray.asked.empty()
    asked.end(done=True)
    check = threading.Thread(target=shard.check)
    check.start()
    ray.asked.get(timeout=PATIENCE).ends.put(True)
    check.join(PATIENCE)
    assert not check.is_alive()
