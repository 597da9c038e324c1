"""The breaker against its definition, in a clock that the test sets."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embed.fakes import FakeClock
from hyrecall.errors import DTypeError, OptionError
from seams import Breaker


def test_five_failures_in_a_row_begin_a_rest_and_a_probe_ends_it() -> None:
    clock = FakeClock()
    breaker = Breaker(5, 30.0, clock=clock)
    for _ in range(4):
        assert breaker.admits()
        breaker.failed()
    assert (breaker.admits(), breaker.state) == (True, "closed")
    breaker.failed()
    assert (breaker.admits(), breaker.state, breaker.rests_for) == (False, "open", 30.0)
    clock.now += 29.9
    assert not breaker.admits()
    clock.now += 0.1
    assert (breaker.state, breaker.rests_for) == ("probing", 0.0)
    assert breaker.admits()
    assert not breaker.admits()  # one probe at a time
    breaker.succeeded()
    assert (breaker.admits(), breaker.state) == (True, "closed")


def test_a_probe_that_fails_begins_another_rest() -> None:
    clock = FakeClock()
    breaker = Breaker(1, 30.0, clock=clock)
    breaker.failed()
    clock.now += 30
    assert breaker.admits()
    breaker.failed()
    assert not breaker.admits()
    clock.now += 30
    assert breaker.admits()


def test_a_success_between_failures_counts_from_the_beginning() -> None:
    breaker = Breaker(2, 30.0, clock=FakeClock())
    for _ in range(10):
        breaker.failed()
        breaker.succeeded()
    assert breaker.admits()


def test_a_call_that_says_nothing_leaves_the_probe_to_the_next() -> None:
    clock = FakeClock()
    breaker = Breaker(2, 30.0, clock=clock)
    breaker.failed()
    breaker.undecided()
    assert breaker.state == "closed"
    breaker.failed()  # it counts as the second in a row
    assert breaker.state == "open"
    clock.now += 30
    assert breaker.admits()
    breaker.undecided()
    assert (breaker.admits(), breaker.admits()) == (True, False)
    breaker.failed()
    assert breaker.rests_for == 30.0


def test_calls_of_before_the_rest_make_it_no_longer() -> None:
    clock = FakeClock()
    breaker = Breaker(1, 30.0, clock=clock)
    breaker.failed()
    clock.now += 20
    breaker.failed()  # was under way when the rest began
    assert breaker.rests_for == 10


class Definition:
    """The breaker as one reads it, on a list of what happened."""

    def __init__(self, most: int, rest: float) -> None:
        self.most, self.rest = most, rest
        self.in_a_row = 0
        self.opened: float | None = None
        self.probe = False

    def admits(self, now: float) -> bool:
        if self.opened is None:
            return True
        if now < self.opened + self.rest or self.probe:
            return False
        self.probe = True
        return True

    def report(self, now: float, well: bool) -> None:
        if well:
            self.in_a_row, self.opened, self.probe = 0, None, False
            return
        self.in_a_row += 1
        if self.probe or (self.opened is None and self.in_a_row >= self.most):
            self.opened = now
        self.probe = False


@given(
    st.integers(1, 4),
    st.lists(st.tuples(st.sampled_from(["wait", "well", "badly"]), st.integers(0, 20))),
)
def test_any_history_admits_as_the_definition_does(
    most: int, history: list[tuple[str, int]]
) -> None:
    clock = FakeClock()
    breaker, definition = Breaker(most, 10.0, clock=clock), Definition(most, 10.0)
    for what, seconds in history:
        if what == "wait":
            clock.now += seconds
            continue
        admitted = breaker.admits()
        assert admitted == definition.admits(clock.now)
        if admitted:
            (breaker.succeeded if what == "well" else breaker.failed)()
            definition.report(clock.now, what == "well")


def test_of_many_threads_one_is_the_probe() -> None:
    clock = FakeClock()
    breaker = Breaker(1, 1.0, clock=clock)
    breaker.failed()
    clock.now += 2
    admitted: list[bool] = []
    start = threading.Barrier(8)

    def ask() -> None:
        start.wait()
        admitted.append(breaker.admits())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(admitted) == [False] * 7 + [True]


@pytest.mark.parametrize("failures", [0, -1, 1.5, True, "5", None])
def test_a_count_that_is_none_is_refused(failures: object) -> None:
    with pytest.raises(OptionError, match="failures: expected an int of at least 1"):
        Breaker(failures)  # type: ignore[arg-type]


def test_a_rest_that_is_no_time_is_refused() -> None:
    with pytest.raises(OptionError, match="rest: expected seconds"):
        Breaker(rest=-1)
    with pytest.raises(DTypeError, match="rest: expected seconds"):
        Breaker(rest="30s")  # type: ignore[arg-type]
