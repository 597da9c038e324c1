"""While the model of an embedder is loaded: who is answered at once, and who waits."""

import sys
import threading
import time

import numpy as np

from embed.fakes import Fake, hanging, wait_until
from embed.lateness import within
from hyrecall.embed import EmbedFault, Guard, NoVectors


def test_while_it_warms_calls_are_answered_at_once() -> None:
    fake = hanging()
    fake._reply = lambda texts: np.ones((len(texts), 4))
    fake.warm = lambda: fake.release.wait(30)  # type: ignore[attr-defined]
    guard = Guard(fake)
    begun = time.monotonic()
    guard.start_warming()
    assert guard.embed(["tea"], budget=5.0) == NoVectors(EmbedFault.NOT_READY)
    assert time.monotonic() - begun < within(1)
    assert (guard.is_ready, fake.calls) == (False, [])
    fake.release.set()
    wait_until(lambda: guard.is_ready)
    assert isinstance(guard.embed(["tea"], budget=5.0), np.ndarray)
    guard.close()


def test_a_call_that_waits_has_its_vectors_once_the_model_is_loaded() -> None:
    fake = hanging()
    fake._reply = lambda texts: np.ones((len(texts), 4))
    fake.warm = lambda: fake.release.wait(30)  # type: ignore[attr-defined]
    guard = Guard(fake)
    guard.start_warming()
    later = threading.Timer(0.2, fake.release.set)
    later.start()
    assert isinstance(guard.embed(["tea"], budget=30.0, waits=True), np.ndarray)
    later.join()
    guard.close()


def test_a_model_that_never_loads_holds_up_the_first_callers_only() -> None:
    fake = hanging()
    fake.warm = lambda: fake.release.wait(30)  # type: ignore[attr-defined]
    guard = Guard(fake)
    guard.start_warming()
    answers = [guard.embed(["tea"], budget=0.3, waits=True) for _ in range(2)]
    begun = time.monotonic()
    answers += [guard.embed(["tea"], budget=0.3, waits=True) for _ in range(8)]
    assert answers == [NoVectors(EmbedFault.NOT_READY)] * 10
    assert time.monotonic() - begun < within(0.3)
    fake.release.set()
    guard.close()


def test_closing_answers_those_who_wait_for_the_model() -> None:
    fake = hanging()
    fake.warm = lambda: fake.release.wait(30)  # type: ignore[attr-defined]
    guard = Guard(fake)
    guard.start_warming()
    later = threading.Timer(0.2, guard.close)
    later.start()
    answer = guard.embed(["tea"], budget=30.0, waits=True)
    assert answer == NoVectors(EmbedFault.OFF, "closed")
    later.join()
    fake.release.set()


def test_a_warm_up_that_fails_lets_calls_say_what_is_wrong() -> None:
    def refuse(texts: object) -> object:
        raise OSError

    fake = Fake(refuse)
    fake.warm = sys.exit  # type: ignore[attr-defined]
    guard = Guard(fake)
    guard.start_warming()
    wait_until(lambda: guard.is_ready)
    assert guard.embed(["tea"], budget=30.0) == NoVectors(EmbedFault.CRASHED, "OSError")
    guard.close()
