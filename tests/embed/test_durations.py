"""Durations against Go's rules."""

import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyrecall.errors import OptionError
from seams import duration, timeout_of

# From the table of Go's own test of time.ParseDuration.
GOOD = [
    ("0", 0), ("5s", 5), ("30s", 30), ("1478s", 1478), ("-5s", -5), ("+5s", 5), ("-0", 0),
    ("+0", 0), ("5.0s", 5), ("5.6s", 5.6), ("5.s", 5), (".5s", 0.5), ("1.0s", 1), ("1.00s", 1),
    ("1.004s", 1.004), ("100.00100s", 100.001), ("10ns", 1e-8), ("11us", 1.1e-5), ("12µs", 1.2e-5),
    ("13ms", 0.013), ("14s", 14), ("15m", 900), ("16h", 57600), ("3h30m", 12600),
    ("10.5s4m", 250.5), ("-2m3.4s", -123.4), ("1h2m3s4ms5us6ns", 3723.004005006),
    ("52763797000ns", 52.763797), ("0.3333333333333333333h", 1200),
]  # fmt: skip
BAD = [
    "", "3", "-", "s", ".", "-.", ".s", "+.s", "1.2.3s", "--5s", " 5s", "5s ", "5 s", "5S", "1d",
    "s5", "5x", "1e3s", "٣s", "9223372036854775808ns", "3000000h", "1m-30s", "0" * 200 + "s",
    "5s\n",
]  # fmt: skip


@pytest.mark.parametrize(("text", "seconds"), GOOD)
def test_what_go_reads_is_read(text: str, seconds: float) -> None:
    assert duration(text) == pytest.approx(seconds, rel=1e-12, abs=1e-9)


@pytest.mark.parametrize("text", BAD)
def test_what_go_refuses_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="duration: expected a duration like"):
        duration(text)
    assert timeout_of(text) == 5.0


@given(st.lists(st.tuples(st.integers(0, 999), st.sampled_from(["h", "m", "s", "ms"])), max_size=6))
def test_parts_add_up(parts: list[tuple[int, str]]) -> None:
    text = "".join(f"{n}{unit}" for n, unit in parts)
    if not parts:
        return
    factor = {"h": Fraction(3600), "m": Fraction(60), "s": Fraction(1), "ms": Fraction(1, 1000)}
    assert duration(text) == float(sum(n * factor[unit] for n, unit in parts))


@given(st.text(alphabet="0123456789.hmsnuµ+- ", max_size=12))
def test_any_text_is_a_duration_or_refused(text: str) -> None:
    is_good = text in {"0", "+0", "-0"} or re.fullmatch(
        r"[+-]?((\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h))+", text, re.ASCII
    )
    try:
        duration(text)
    except OptionError:
        assert not is_good or float(re.findall(r"[\d.]+", text)[0]) > 1e5
    else:
        assert is_good


def test_a_timeout_that_is_none_is_the_default() -> None:
    assert (timeout_of(None), timeout_of("0s"), timeout_of("-3s")) == (5.0, 5.0, 5.0)
    assert timeout_of("nonsense") == 5.0
