"""The guard: vectors within the budget or a reason, whatever the embedder does."""

import os
import sys
import threading
import time
import unicodedata
from collections.abc import Sequence

import numpy as np
import pytest

from embed.fakes import SLACK, Fake, FakeClock, asked, hang, hanging, wait_until
from embed.lateness import within
from hyrecall.embed import EmbedFault, HashEmbedder
from hyrecall.errors import DTypeError, OptionError
from seams import Breaker, Guard, NoVectors, Off, embed_error


def test_vectors_come_through_as_they_are() -> None:
    guard = Guard(HashEmbedder(8))
    rows = guard.embed(["green tea", "coffee"], budget=30.0)
    assert isinstance(rows, np.ndarray)
    assert rows.tobytes() == HashEmbedder(8).embed(["green tea", "coffee"]).tobytes()
    assert (guard.model, guard.dim) == ("hash-8", 8)
    guard.close()


def test_blank_texts_have_zero_rows_and_are_not_sent() -> None:
    fake = Fake()
    guard = Guard(fake)
    rows = guard.embed(["", "tea", " \n"], budget=30.0)
    assert isinstance(rows, np.ndarray)
    assert rows.tolist() == [[0] * 4, [1] * 4, [0] * 4]
    assert fake.calls == [["tea"]]
    nothing = guard.embed(["", "  "], budget=30.0)
    assert isinstance(nothing, np.ndarray)
    assert nothing.shape == (2, 4)
    assert len(fake.calls) == 1
    guard.close()


def raising(kind: type[BaseException]) -> Fake:
    def reply(texts: Sequence[str]) -> object:
        raise kind(f"about {texts}")

    return Fake(reply)


def unreachable(texts: Sequence[str]) -> object:
    raise embed_error(EmbedFault.UNREACHABLE, "a connection", "none")


CAUSES = [
    (raising(ValueError), EmbedFault.CRASHED, "ValueError"),
    (raising(MemoryError), EmbedFault.CRASHED, "MemoryError"),
    (raising(KeyboardInterrupt), EmbedFault.CRASHED, "KeyboardInterrupt"),
    (raising(SystemExit), EmbedFault.CRASHED, "SystemExit"),
    (raising(GeneratorExit), EmbedFault.CRASHED, "GeneratorExit"),
    (Fake(unreachable), EmbedFault.UNREACHABLE, "expected a connection, got none"),
    (Fake(lambda texts: "junk"), EmbedFault.MALFORMED, "expected 1 rows"),
    (Fake(lambda texts: None), EmbedFault.MALFORMED, "expected 1 rows"),
    (Fake(lambda texts: [[float("nan")] * 4]), EmbedFault.MALFORMED, "finite"),
    (Fake(lambda texts: np.ones((2, 4))), EmbedFault.MALFORMED, "expected 1 rows"),
    (Fake(lambda texts: np.ones((1, 3))), EmbedFault.WRONG_SIZE, "vectors of 4 numbers, got 3"),
]


@pytest.mark.parametrize(("fake", "fault", "detail"), CAUSES, ids=lambda value: str(value)[:20])
def test_whatever_goes_wrong_is_a_reason_without_the_text(
    fake: Fake, fault: EmbedFault, detail: str
) -> None:
    guard = Guard(fake)
    answer = guard.embed(["SECRET"], budget=30.0)
    assert isinstance(answer, NoVectors)
    assert answer.fault is fault
    assert detail in answer.detail
    assert "SECRET" not in repr(answer) + repr(guard) + repr(guard.state())
    guard.close()


def test_a_worker_that_is_killed_is_no_loss() -> None:
    """More deaths than there are workers, and the next call is answered."""
    dying = 6

    def reply(texts: Sequence[str]) -> object:
        if len(fake.calls) <= dying:
            sys.exit()
        return np.ones((1, 4))

    fake = Fake(reply)
    guard = Guard(fake, breaker=Breaker(100))
    for _ in range(dying):
        answer = guard.embed(["tea"], budget=30.0)
        assert isinstance(answer, NoVectors)
        assert answer.fault is EmbedFault.CRASHED
    assert isinstance(guard.embed(["tea"], budget=30.0), np.ndarray)
    guard.close()


@pytest.mark.parametrize("budget", [0.05, 0.2])
def test_one_that_hangs_is_left_when_the_budget_is_over(budget: float) -> None:
    fake = hanging()
    took = []
    for _ in range(8):  # the machine may make some late
        guard = Guard(fake)
        answer, seconds = asked(guard, budget)
        assert answer == NoVectors(EmbedFault.TIMEOUT, f"no reply within {budget * 1000:.0f} ms")
        assert seconds > budget - 0.02
        took.append(seconds)
        guard.close()
        if seconds < budget + SLACK:
            break
    assert min(took) < budget + SLACK
    fake.release.set()


def test_without_time_there_is_no_call() -> None:
    fake = Fake()
    guard = Guard(fake)
    for budget in (0.0, -1.0, 0.001, float("nan"), float("-inf")):
        answer = guard.embed(["tea"], budget=budget)
        assert answer == NoVectors(EmbedFault.TIMEOUT, "no time was left to ask")
    assert fake.calls == []
    assert isinstance(guard.embed(["tea"], budget=float("inf")), np.ndarray)
    guard.close()


def test_five_faults_open_the_breaker_and_a_probe_closes_it() -> None:
    clock = FakeClock()
    is_well = False

    def reply(texts: Sequence[str]) -> object:
        return np.ones((1, 4)) if is_well else None

    fake = Fake(reply)
    guard = Guard(fake, clock=clock)
    for _ in range(5):
        assert asked(guard, 30.0)[0].fault is EmbedFault.MALFORMED  # type: ignore[attr-defined]
    clock.now += 18
    assert asked(guard, 30.0)[0].detail.startswith("for 12 s, after malformed")  # type: ignore[attr-defined]
    assert len(fake.calls) == 6  # the last is of a plain text, which fails too
    clock.now += 12
    is_well = True
    assert isinstance(asked(guard, 30.0)[0], np.ndarray)
    assert guard.state()["breaker"] == "closed"
    assert guard.state()["faults"] == {"malformed": 5, "resting": 1}
    guard.close()


def slow(seconds: float) -> Fake:
    def reply(texts: Sequence[str]) -> object:
        time.sleep(seconds)
        return np.ones((len(texts), 4))

    return Fake(reply)


def test_callers_in_a_hurry_take_the_vectors_from_nobody_else() -> None:
    guard = Guard(slow(0.5))
    for _ in range(7):
        answer = guard.embed(["tea"], budget=0.006)
        assert isinstance(answer, NoVectors)
        assert answer.fault in (EmbedFault.TIMEOUT, EmbedFault.HUNG)
    assert guard.state()["breaker"] == "closed"
    assert isinstance(guard.embed(["tea"], budget=5.0), np.ndarray)
    guard.close()


def test_a_caller_in_a_hurry_holds_no_more_than_one_thread() -> None:
    fake = hanging()
    guard = Guard(fake, workers=2)
    hang(guard, 1, budget=0.006)
    for _ in range(3):
        assert isinstance(guard.embed(["tea"], budget=0.006), NoVectors)
    assert guard.state()["hung"] == 1
    fake._reply = lambda texts: np.ones((len(texts), 4))
    assert isinstance(guard.embed(["tea"], budget=5.0), np.ndarray)
    fake.release.set()
    guard.close()


@pytest.mark.parametrize(("usual", "budget"), [(1.5, 0.05), (1.5, 0.2), (0.01, 0.01)])
def test_one_that_always_hangs_rests_for_callers_who_are_not_in_a_hurry(
    usual: float, budget: float
) -> None:
    fake = hanging()
    guard = Guard(fake, usual=usual)
    for _ in range(5):
        guard.embed(["tea"], budget=0.005)  # neither counts nor begins the count anew
        guard.embed(["tea"], budget=budget)
    answer = guard.embed(["tea"], budget=budget)
    assert isinstance(answer, NoVectors)
    assert answer.fault is EmbedFault.RESTING
    fake.release.set()
    guard.close()


def test_a_probe_that_is_in_a_hurry_leaves_it_to_the_next() -> None:
    clock = FakeClock()
    fake = slow(0.02)
    guard = Guard(fake, breaker=Breaker(1, clock=clock))
    guard._breaker.failed()
    clock.now += 30
    assert isinstance(guard.embed(["tea"], budget=0.006), NoVectors)
    assert guard.state()["breaker"] == "probing"
    assert isinstance(guard.embed(["tea"], budget=5.0), np.ndarray)
    assert guard.state()["breaker"] == "closed"
    guard.close()


def test_an_interrupt_while_it_waits_gives_the_probe_and_the_worker_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = FakeClock()
    fake = hanging()
    guard = Guard(fake, workers=1, breaker=Breaker(1, clock=clock))
    guard._breaker.failed()
    clock.now += 30
    wait = threading.Event.wait

    def interrupted(event: threading.Event, timeout: float | None = None) -> bool:
        if timeout is not None and threading.current_thread() is threading.main_thread():
            wait_until(lambda: bool(fake.calls))
            raise KeyboardInterrupt
        return wait(event, timeout)

    monkeypatch.setattr(threading.Event, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        guard.embed(["tea"], budget=5.0)
    monkeypatch.undo()
    assert guard.state()["hung"] == 1  # it is known that nobody waits for it
    fake.release.set()
    wait_until(lambda: guard.state()["hung"] == 0)
    assert isinstance(guard.embed(["tea"], budget=5.0), np.ndarray)
    guard.close()


def test_one_that_is_off_says_so_and_calls_nothing() -> None:
    guard = Guard(Off("install [local]"))
    guard.start_warming()
    assert guard.embed(["tea"], budget=30.0) == NoVectors(EmbedFault.OFF, "install [local]")
    assert (guard.model, guard.dim, guard.is_ready) == (None, None, False)
    guard.close()


def test_the_first_good_reply_sets_a_length_that_nobody_knew() -> None:
    sizes = iter([3, 3, 5])
    guard = Guard(Fake(lambda texts: np.ones((len(texts), next(sizes))), dim=None))
    assert guard.dim is None
    unknown = guard.embed([" "], budget=30.0)
    assert isinstance(unknown, np.ndarray)
    assert unknown.shape == (1, 0)
    guard.embed(["tea"], budget=30.0)
    assert guard.dim == 3
    assert isinstance(guard.embed(["tea"], budget=30.0), np.ndarray)
    assert asked(guard, 30.0)[0].fault is EmbedFault.WRONG_SIZE  # type: ignore[attr-defined]
    guard.close()


def test_the_length_of_the_store_goes_before_the_embedder_s() -> None:
    guard = Guard(Fake(dim=4), dim=768)
    answer = guard.embed(["tea"], budget=30.0)
    assert isinstance(answer, NoVectors)
    assert answer.fault is EmbedFault.WRONG_SIZE
    assert "768" in answer.detail
    guard.close()


def test_one_that_can_be_told_the_time_is_told() -> None:
    class Timed(Fake):
        def embed_within(self, texts: Sequence[str], seconds: float) -> object:
            self.calls.append([f"{seconds:.1f}"])
            return np.ones((1, 4))

    fake = Timed()
    guard = Guard(fake)
    guard.embed(["tea"], budget=0.55)
    assert fake.calls == [["0.5"]]
    guard.close()


def test_closing_closes_what_it_owns_even_if_that_hangs() -> None:
    closed: list[str] = []
    fake = hanging()
    fake.close = lambda: closed.append("once") or fake.release.wait(30)  # type: ignore[attr-defined]
    Guard(fake).close()
    assert closed == []
    guard = Guard(fake, closes=True)
    begun = time.monotonic()
    guard.close()
    assert closed == ["once"]
    assert time.monotonic() - begun < within(2)
    assert guard.embed(["tea"], budget=30.0) == NoVectors(EmbedFault.OFF, "closed")
    fake.release.set()


def test_a_call_under_way_ends_when_the_guard_is_closed() -> None:
    fake = hanging()
    guard = Guard(fake, workers=1)
    answers: list[object] = []
    threads = [
        threading.Thread(target=lambda: answers.append(asked(guard, 30.0)[0])) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    wait_until(lambda: guard.state()["calls"] == 3 and bool(fake.calls))
    begun = time.monotonic()
    guard.close()
    for thread in threads:
        thread.join()
    assert time.monotonic() - begun < 10.0  # of a budget of 30 seconds
    assert answers == [NoVectors(EmbedFault.OFF, "closed")] * 3
    assert not fake.release.is_set()
    fake.release.set()


def test_a_forked_child_is_told_at_once() -> None:
    guard = Guard(Fake())
    assert isinstance(guard.embed(["tea"], budget=30.0), np.ndarray)
    pid = os.fork()
    if pid == 0:
        answer = guard.embed(["tea"], budget=30.0)
        is_told = isinstance(answer, NoVectors) and answer.fault is EmbedFault.OFF
        os._exit(0 if is_told else 1)
    assert os.waitpid(pid, 0)[1] == 0
    guard.close()


def test_what_is_no_embedder_is_refused() -> None:
    with pytest.raises(DTypeError, match="embedder: expected an object with model, dim and embed"):
        Guard("http://localhost")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"embedder\.model: expected a name"):
        Guard(Fake(model=" "))
    with pytest.raises(DTypeError, match=r"embedder\.model: expected a str, got int"):
        Guard(Fake(model=5))  # type: ignore[arg-type]


def test_without_a_deadline_the_timing_test_would_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: a guard that waits for the reply is seen by the test above."""
    fake = hanging()
    guard = Guard(fake)
    whole_wait = threading.Event.wait
    monkeypatch.setattr(threading.Event, "wait", lambda self, *_: whole_wait(self, 0.3))
    _, seconds = asked(guard, 0.05)
    assert seconds > 0.05 + SLACK
    fake.release.set()
    guard.close()


class _StatusError(Exception):
    """An error of an HTTP client, such as openai's."""

    def __init__(self, status: int) -> None:
        super().__init__("about the text")
        self.status_code = status


def refusing(*bad: str, fault: Exception | None = None) -> Fake:
    def reply(texts: Sequence[str]) -> object:
        if set(texts) & set(bad):
            raise fault or embed_error(EmbedFault.REFUSED, "status 200", "status 400", "too long")
        return np.array([[len(text), 1, 1, 1] for text in texts], np.float32)

    return Fake(reply)


@pytest.mark.parametrize("fault", [None, _StatusError(413), ValueError("too long")])
@pytest.mark.parametrize("n_bad", [1, 3, 6])
def test_a_text_that_is_refused_leaves_the_others_of_its_batch_their_vectors(
    fault: Exception | None, n_bad: int
) -> None:
    bad = ["x" * (100 + at) for at in range(n_bad)]
    texts = [*bad, *(f"short {at}" for at in range(30)), " "]
    guard = Guard(refusing(*bad, fault=fault))
    rows, why = guard.embed_each(texts, budget=30.0)
    assert rows[:, 0].tolist() == [0 if text in bad else len(text) for text in texts[:-1]] + [0]
    assert [one is not None for one in why] == [text in bad for text in texts]
    kind = EmbedFault.CRASHED if isinstance(fault, ValueError) else EmbedFault.REFUSED
    assert {one.fault for one in why if one is not None} == {kind}
    guard.close()


@pytest.mark.parametrize("status", [400, 401, 404, 413, 422])
def test_the_breaker_stays_closed_whatever_is_refused_to_one_caller(status: int) -> None:
    fake = refusing("bad", fault=_StatusError(status))
    guard = Guard(fake)
    for _ in range(20):
        assert isinstance(asked(guard, 30.0, "bad")[0], NoVectors)
    assert guard.state()["breaker"] == "closed"
    assert isinstance(asked(guard, 30.0)[0], np.ndarray)
    guard.close()


@pytest.mark.parametrize("fault", [TypeError("a text"), ValueError("no text"), UnicodeError("x")])
def test_texts_that_crash_an_embedder_do_not_switch_it_off_for_others(fault: Exception) -> None:
    clock = FakeClock()
    fake = refusing("bad", "worse", fault=fault)
    guard = Guard(fake, clock=clock)
    for _ in range(10):
        assert isinstance(asked(guard, 30.0, "bad")[0], NoVectors)
        assert guard.embed_each(["bad", "worse"], budget=30.0)[1].count(None) == 0
    assert guard.state()["breaker"] == "closed"
    assert isinstance(asked(guard, 30.0)[0], np.ndarray)
    guard.close()


def test_a_text_that_crashes_an_embedder_does_not_prolong_its_rest() -> None:
    clock = FakeClock()
    is_down = True

    def reply(texts: Sequence[str]) -> object:
        if is_down or "bad" in texts:
            raise TypeError
        return np.ones((len(texts), 4))

    guard = Guard(Fake(reply), clock=clock)
    for _ in range(5):
        asked(guard, 30.0)
    assert guard.state()["breaker"] == "open"
    clock.now += 31
    is_down = False
    assert isinstance(asked(guard, 30.0, "bad")[0], NoVectors)
    assert isinstance(asked(guard, 30.0)[0], np.ndarray)
    guard.close()


@pytest.mark.parametrize("filler", ["", "\u304b\u3099" * 5000, "x\u0316\u0301" * 20_000])
def test_both_spellings_of_an_accent_are_sent_alike(filler: str) -> None:
    fake = Fake()
    guard = Guard(fake)
    for form in ("NFC", "NFD"):
        guard.embed([unicodedata.normalize(form, "caf\u00e9 " + filler)], budget=30.0)
    composed, decomposed = fake.calls
    assert composed == decomposed == [unicodedata.normalize("NFC", "caf\u00e9 " + filler)]
    guard.close()


def test_a_text_of_many_accents_is_sent_in_time() -> None:
    guard = Guard(Fake())
    begun = time.process_time()
    guard.embed(["a" + "\u0301\u0316" * 100_000], budget=30.0)
    assert time.process_time() - begun < 10  # 60 and more if it is normalized as a whole
    guard.close()


def test_an_endpoint_that_is_down_is_not_asked_for_each_text_of_a_batch() -> None:
    fake = refusing("bad", fault=_StatusError(503))
    guard = Guard(fake)
    _, why = guard.embed_each(["bad", *map(str, range(63))], budget=30.0)
    assert len(fake.calls) == 1
    assert {one.fault for one in why if one is not None} == {EmbedFault.UNREACHABLE}
    guard.close()


def test_an_embedder_that_refuses_everything_is_asked_few_times_for_a_batch() -> None:
    texts = [f"text {at}" for at in range(64)]
    fake = refusing(*texts)
    guard = Guard(fake)
    _, why = guard.embed_each(texts, budget=30.0)
    assert all(why)
    assert len(fake.calls) < 24
    guard.close()
