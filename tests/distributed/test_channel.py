"""Questions of several threads to one process: each gets its own answer, or hears of its end."""

from __future__ import annotations

import contextlib
import os
import random
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from seams import Channel, Ended, Late, Messages, Pending, PipeClosed, message

SECONDS = 60.0  # in which something must have happened

# A process without hyrecall, which starts at once. It answers a question of two frames, a verb and
# its data: "twice" with the data twice, "after" with all questions so far when it has three, "end"
# by ending, "hang" never.
PROGRAM = """
import os, struct, sys, time

def read(n):
    data = sys.stdin.buffer.read(n)
    if len(data) < n:
        os._exit(0)
    return data

def answer(data):
    sys.stdout.buffer.write(struct.pack("<IQ", 1, len(data)) + data)
    sys.stdout.buffer.flush()

kept = []
while True:
    (count,) = struct.unpack("<I", read(4))
    lengths = [struct.unpack("<Q", read(8))[0] for _ in range(count)]
    verb, data = [read(length) for length in lengths]
    if verb == b"end":
        os._exit(1)
    if verb == b"hang":
        time.sleep(3600)
    if verb == b"after":
        kept.append(data)
        if len(kept) == 3:
            for one in kept:
                answer(one)
        continue
    answer(data + data)
"""


def channel_of(seconds: float | None = None, kind: type[Channel] = Channel) -> Channel:
    return kind([sys.executable, "-S", "-c", PROGRAM], seconds)


@pytest.fixture
def channel() -> Iterator[Channel]:
    made = channel_of()
    yield made
    made.end()


def ask(channel: Channel, *frames: bytes) -> bytes:
    (answer,) = channel.receive(channel.send(*frames))
    return answer


def fault_of(channel: Channel) -> BaseException | None:
    """Ask, and return the error."""
    try:
        ask(channel, b"twice", b"1")
    except Ended as fault:
        return fault
    return None


def wait_for(happened: Callable[[], bool]) -> None:
    until = time.monotonic() + SECONDS
    while not happened():
        assert time.monotonic() < until
        time.sleep(0.01)


# ---- messages ----


def test_messages_in_pieces_of_any_size() -> None:
    chance = random.Random(0)
    wanted = [[b"x" * chance.choice((0, 1, 3, 900)) for _ in range(n % 5)] for n in range(60)]
    data = b"".join(message(*frames) for frames in wanted)
    for most in (1, 7, 5_000, len(data)):
        messages, found, at = Messages(), [], 0
        while at < len(data):
            n = chance.randint(1, most)
            messages.add(data[at : at + n])
            at += n
            while (frames := messages.take()) is not None:
                found.append(frames)
        assert found == wanted
        assert messages.take() is None


def test_bytes_that_are_no_message_are_refused() -> None:
    messages = Messages()
    messages.add(b"not a message")
    with pytest.raises(PipeClosed):
        messages.take()


# ---- answers ----


def check_own_answers(channel: Channel, sizes: Sequence[int]) -> None:
    """Each of many questions of eight threads gets its own answer."""

    def own(number: int) -> None:
        for at in range(12):
            data = f"{number} {at} ".encode() + b"." * sizes[(number + at) % len(sizes)]
            assert ask(channel, b"twice", data) == data + data

    with ThreadPoolExecutor(8) as threads:
        for done in [threads.submit(own, number) for number in range(8)]:
            done.result(SECONDS)


@pytest.mark.parametrize("sizes", [[0, 2_000], [0, 100_000, 300_000]], ids=["small", "large"])
def test_each_thread_gets_its_own_answer(channel: Channel, sizes: list[int]) -> None:
    """Large ones fill the pipes in both directions, so threads that send must not stop reading."""
    check_own_answers(channel, sizes)


def test_a_process_has_the_next_questions_before_it_answers(channel: Channel) -> None:
    """It answers none of three before it has all; with one at a time this never ends."""
    with ThreadPoolExecutor(3) as threads:
        asked = [threads.submit(ask, channel, b"after", b"%d" % at) for at in range(3)]
        assert [one.result(SECONDS) for one in asked] == [b"0", b"1", b"2"]


def check_later_answers(channel: Channel) -> None:
    """One thread sends several questions, and waits for the last one first."""
    asked = [channel.send(b"after", b"%d" % at) for at in range(3)]
    assert [channel.receive(one) for one in reversed(asked)] == [[b"2"], [b"1"], [b"0"]]


def test_one_thread_sends_several_questions_and_reads_later(channel: Channel) -> None:
    check_later_answers(channel)


class NewestFirst(Channel):
    """A planted bug: an answer is given to the newest question."""

    def _take(self, data: bytes | None) -> None:
        self._pending.reverse()
        super()._take(data)
        self._pending.reverse()


def test_an_answer_of_another_question_is_caught() -> None:
    channel = channel_of(kind=NewestFirst)
    with pytest.raises(AssertionError):
        check_later_answers(channel)
    channel.end()


def test_an_answer_that_nobody_waits_for_is_not_taken_for_the_next(channel: Channel) -> None:
    for size in (3, 300_000):  # more than the pipes hold, in both directions
        channel.send(b"twice", b"1" * size)
        assert ask(channel, b"twice", b"2") == b"22"


def test_a_question_of_one_thread_meets_no_other_thread(
    channel: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(channel, b"twice", b"1")
    before, started = threading.active_count(), []
    monkeypatch.setattr(threading.Thread, "start", started.append)
    parked = []
    monkeypatch.setattr(Pending, "wake", lambda one: parked.append(one.woken))
    assert ask(channel, b"twice", b"2") == b"22"
    assert not started
    assert parked == [None], "nobody waited for another thread"
    assert threading.active_count() == before


# ---- ends ----


def test_a_process_that_does_not_answer_is_ended_in_time() -> None:
    channel = channel_of(seconds=0.2)
    assert ask(channel, b"twice", b"1") == b"11"
    first, *others = [channel.send(b"hang", b""), channel.send(b"twice", b"1")]
    for one in others:  # the thread of another question keeps the time, too
        with pytest.raises(Ended) as ended:
            channel.receive(one)
        assert not ended.value.was_at_work
    with pytest.raises(Late) as late:
        channel.receive(first)
    assert late.value.seconds == 0.2
    assert channel.is_over
    with pytest.raises(Ended):
        channel.send(b"twice", b"1")


def test_further_questions_do_not_keep_a_process_that_hangs() -> None:
    channel = channel_of(seconds=0.3)
    ask(channel, b"twice", b"1")
    over = threading.Event()

    def go_on() -> None:
        with contextlib.suppress(Ended):
            while not over.wait(0.01):
                channel.send(b"twice", b"1" * 100)

    asking = threading.Thread(target=go_on)
    first = channel.send(b"hang", b"")
    asking.start()
    with pytest.raises(Late):
        channel.receive(first)
    asking.join(SECONDS)
    assert not asking.is_alive(), "it heard of the end"
    over.set()


def test_a_question_larger_than_the_pipe_to_a_process_that_hangs() -> None:
    channel = channel_of(seconds=0.2)
    ask(channel, b"twice", b"1")
    os.kill(channel.pid, signal.SIGSTOP)
    asked = channel.send(b"twice", b"1" * 1_000_000)
    assert not asked.is_sent
    with pytest.raises(Late):
        channel.receive(asked)


def test_an_answer_that_came_in_time_is_read_later() -> None:
    """All of it, though the pipe holds its beginning only; and then the time of the next begins."""
    channel = channel_of(seconds=SECONDS)
    ask(channel, b"twice", b"1")
    asked = [channel.send(b"twice", b"1" * 60_000), channel.send(b"twice", b"1" * 300_000)]
    answers = vars(channel)["_answers"]
    wait_for(lambda: bool(select.select([answers], [], [], 0)[0]))
    vars(channel)["_since"] -= 2 * SECONDS
    assert [len(channel.receive(one)[0]) for one in asked] == [120_000, 600_000]
    channel.end()


def test_only_the_question_that_a_process_ended_at_counts(channel: Channel) -> None:
    ask(channel, b"twice", b"1")
    os.kill(channel.pid, signal.SIGSTOP)
    asked = [channel.send(verb, b"") for verb in (b"end", b"twice", b"twice")]
    os.kill(channel.pid, signal.SIGCONT)
    counts = []
    for one in asked:
        with pytest.raises(Ended) as ended:
            channel.receive(one)
        counts.append(ended.value.was_at_work)
    assert counts == [True, False, False]


def test_a_process_that_ended_meanwhile_did_not_end_at_the_next_question(channel: Channel) -> None:
    ask(channel, b"twice", b"1")
    os.kill(channel.pid, signal.SIGKILL)
    wait_for(lambda: channel.has_ended)
    assert not channel.is_busy
    with pytest.raises(Ended) as ended:
        ask(channel, b"twice", b"1")
    assert not ended.value.was_at_work


def test_an_end_lets_all_threads_go(channel: Channel) -> None:
    channel.send(b"hang", b"")
    with ThreadPoolExecutor(4) as threads:
        asked = [threads.submit(ask, channel, b"twice", b"1") for _ in range(4)]
        wait_for(lambda: len(vars(channel)["_parked"]) == 3)
        channel.end()
        for one in asked:
            assert isinstance(one.exception(SECONDS), Ended)


def test_pipes_are_closed_when_nobody_reads_any_more(channel: Channel) -> None:
    pipes = [vars(channel)[name] for name in ("_questions", "_answers")]
    channel.send(b"hang", b"")
    reading = threading.Thread(target=fault_of, args=(channel,))
    reading.start()
    wait_for(lambda: vars(channel)["_is_read"])
    channel.end()
    reading.join(SECONDS)
    assert not reading.is_alive()
    for pipe in pipes:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(pipe)


@pytest.mark.parametrize("does_read", [True, False], ids=["reading", "waiting for another"])
@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_ends_the_wait_and_the_process(channel: Channel, *, does_read: bool) -> None:
    """Half an answer may be read, so another process has to answer the next question."""
    ask(channel, b"twice", b"1")
    channel.send(b"hang", b"")
    with ThreadPoolExecutor(1) as threads:
        if not does_read:
            other = threads.submit(fault_of, channel)
            wait_for(lambda: vars(channel)["_is_read"])
        interrupting = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        interrupting.start()
        with pytest.raises(KeyboardInterrupt):
            ask(channel, b"twice", b"1")
        interrupting.join()
        if not does_read:
            assert isinstance(other.result(SECONDS), Ended)
    assert channel.is_over


def test_a_question_that_was_answered_before_the_end_is_not_charged_with_it() -> None:
    channel = channel_of(SECONDS)
    assert ask(channel, b"twice", b"0") == b"00"
    answered = channel.send(b"twice", b"1")
    ended_by = channel.send(b"end", b"")
    channel._process.wait()  # both answers and the end of the process are still unread
    later = channel.send(b"twice", b"3")
    faults = []
    for one in (later, ended_by):
        with pytest.raises(Ended) as told:
            channel.receive(one)
        faults.append(told.value.was_at_work)
    assert faults == [False, True]
    assert channel.receive(answered) == [b"11"]
    channel.end()


def test_an_end_that_was_interrupted_is_finished_by_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    channel = channel_of()
    waiting = channel.send(b"hang", b"")
    with monkeypatch.context() as patched:

        def interrupted() -> None:
            raise KeyboardInterrupt

        patched.setattr(channel._process, "kill", interrupted)
        with pytest.raises(KeyboardInterrupt):
            channel.end()
    channel.end()
    with pytest.raises(Ended):
        channel.receive(waiting)
    assert channel._process.poll() is not None
