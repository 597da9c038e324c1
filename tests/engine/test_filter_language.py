"""The filter language: corners, refusals, a filter as a value, and times that compare exactly."""

import datetime as dt
import math
import pickle
import zoneinfo
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyrecall.errors import DTypeError, OptionError
from seams import AllOf, Between, Filter, IsNull, NoneOf, NotNull, attribute_column, compile_filter

# ---- corners, refusals, and a filter as a value ----


def matched(test: Any, values: list[Any], arrow: pa.DataType) -> list[int]:
    """The rows that Filter(x=test) matches."""
    program = compile_filter(Filter(x=test), {"x": arrow})
    return np.flatnonzero(program.evaluate([attribute_column(pa.array(values, arrow))])).tolist()


INT, UINT, REAL, SINGLE = pa.int64(), pa.uint64(), pa.float64(), pa.float32()
TEXT, FLAG, TEXTS = pa.large_string(), pa.bool_(), pa.large_list(pa.large_string())
INTS = [-(2**63), -1, 0, 3, 2**63 - 1, None]
REALS = [-math.inf, -2.5, -0.0, 0.0, 2.0**53, math.inf, math.nan, None]
WORDS = ["", "a", "ab", "b", "é", "\U0001f600", "\uffff", None]
NAT, MONTH = np.datetime64("NaT", "us"), np.timedelta64(1, "M")
LISTS = [["x", "y"], ["x", None], [], [None], None, ["y", "z", "z"]]


@pytest.mark.parametrize(
    ("test", "values", "arrow", "rows"),
    [
        # Ints: both extremes, constants that no int64 holds, floats between ints.
        ((-(2**63), 2**63 - 1), INTS, INT, [0, 1, 2, 3, 4]),
        ((2**63, None), INTS, INT, []),
        ((None, -(2**63) - 1), INTS, INT, []),
        ((-(10**30), 10**30), INTS, INT, [0, 1, 2, 3, 4]),
        ((-0.5, 2.5), INTS, INT, [2]),
        ((2.5, None), INTS, INT, [3, 4]),
        ((None, math.inf), INTS, INT, [0, 1, 2, 3, 4]),
        ((math.inf, None), INTS, INT, []),
        ((math.nan, None), INTS, INT, []),
        ((None, math.nan), INTS, INT, []),
        (3.0, INTS, INT, [3]),
        (3.5, INTS, INT, []),
        (2**63, INTS, INT, []),
        (float(2**63), INTS, INT, []),
        ([0, 3.0, 2**64, math.nan, -1], INTS, INT, [1, 2, 3]),
        ([], INTS, INT, []),
        (NoneOf(), INTS, INT, [0, 1, 2, 3, 4, 5]),
        (NoneOf(0, 2**64), INTS, INT, [0, 1, 3, 4, 5]),
        ((3, 0), INTS, INT, []),
        ((5.2, 5.8), INTS, INT, []),
        ((None, None), INTS, INT, [0, 1, 2, 3, 4]),
        (NotNull(), INTS, INT, [0, 1, 2, 3, 4]),
        (IsNull(), INTS, INT, [5]),
        ((2**63, None), [0, 2**63 - 1, 2**63, 2**64 - 1], UINT, [2, 3]),
        ((-5, 0), [0, 2**63 - 1, 2**63, 2**64 - 1], UINT, [0]),
        (2**64 - 1, [0, 2**63 - 1, 2**63, 2**64 - 1], UINT, [3]),
        # A negative range is empty even past int64's own end once the sign bit is flipped.
        ((-19, -11.5), [0, 1], UINT, []),
        (300, [44, -1, 127], pa.int8(), []),
        # Floats: NaN is a value that compares with nothing, -0 equals 0, ints stay exact.
        ((None, None), REALS, REAL, [0, 1, 2, 3, 4, 5, 6]),
        ((-math.inf, math.inf), REALS, REAL, [0, 1, 2, 3, 4, 5]),
        ((-(10**400), None), REALS, REAL, [1, 2, 3, 4, 5]),
        ((10**400, None), REALS, REAL, [5]),
        ((None, -(10**400)), REALS, REAL, [0]),
        (0, REALS, REAL, [2, 3]),
        (-0.0, REALS, REAL, [2, 3]),
        (2**53, REALS, REAL, [4]),
        (2**53 + 1, REALS, REAL, []),
        ((2**53 + 1, 2**54), REALS, REAL, []),
        (math.nan, REALS, REAL, []),
        ([math.nan, math.inf], REALS, REAL, [5]),
        (NoneOf(math.nan), REALS, REAL, [0, 1, 2, 3, 4, 5, 6, 7]),
        (IsNull(), REALS, REAL, [7]),
        (0.1, [np.float32(0.1)], SINGLE, []),
        (np.float32(0.1), [np.float32(0.1)], SINGLE, [0]),
        ((None, 5e-324), [5e-324, 1e-323, -5e-324], REAL, [0, 2]),
        # Strings: byte order, in which U+FFFF comes before an emoji; empty is a string.
        ("", WORDS, TEXT, [0]),
        ("absent", WORDS, TEXT, []),
        (Between("a", "b"), WORDS, TEXT, [1, 2, 3]),
        (("aa", None), WORDS, TEXT, [2, 3, 4, 5, 6]),
        ((None, "\uffff"), WORDS, TEXT, [0, 1, 2, 3, 4, 6]),
        (Between("b", "a"), WORDS, TEXT, []),
        (["é", "absent", "a", "a"], WORDS, TEXT, [1, 4]),
        ("e\u0301", WORDS, TEXT, []),
        (NoneOf("a", "b"), WORDS, TEXT, [0, 2, 4, 5, 6, 7]),
        (True, [True, False, None], FLAG, [0]),
        (np.bool_(False), [True, False, None], FLAG, [1]),
        ([True, False], [True, False, None], FLAG, [0, 1]),
        # Lists: a test holds when an element passes it; null elements are no elements.
        ("x", LISTS, TEXTS, [0, 1]),
        (["x", "z"], LISTS, TEXTS, [0, 1, 5]),
        (AllOf("x", "y"), LISTS, TEXTS, [0]),
        (AllOf("z", "z"), LISTS, TEXTS, [5]),
        (AllOf(), LISTS, TEXTS, [0, 1, 2, 3, 5]),
        (NoneOf("x"), LISTS, TEXTS, [2, 3, 4, 5]),
        (("y", None), LISTS, TEXTS, [0, 5]),
        ((None, None), LISTS, TEXTS, [0, 1, 5]),
        (IsNull(), LISTS, TEXTS, [4]),
        ((0, 1), [[5, 0], [2], []], pa.large_list(INT), [0]),
        ((None, None), [[math.nan], [], [1.0]], pa.large_list(REAL), [0, 2]),
        (AllOf(1, 2.5), [[1, 2, 3]], pa.large_list(INT), []),
        # Any-of as other containers.
        ({0, 3}, INTS, INT, [2, 3]),
        (frozenset({0}), INTS, INT, [2]),
        (np.array([0, 3]), INTS, INT, [2, 3]),
        (pa.array([0, 3]), INTS, INT, [2, 3]),
        (np.array(["a", "é"]), WORDS, TEXT, [1, 4]),
    ],
)
def test_a_corner_matches_these_rows(
    test: Any, values: list[Any], arrow: pa.DataType, rows: list[int]
) -> None:
    assert matched(test, values, arrow) == rows


def test_a_long_any_of_finds_its_values_in_every_tile() -> None:
    wanted = list(range(0, 3000, 7))
    assert matched(wanted, list(range(3000)), INT) == wanted
    assert matched(NoneOf(*wanted), wanted, INT) == []


def test_filters_join_and_complement_with_two_values_only() -> None:
    columns = [
        attribute_column(pa.array([1, 2, None])),
        attribute_column(pa.array([5, None, None])),
    ]
    types = {"x": INT, "y": INT}

    def rows(filtered: Filter) -> list[int]:
        return np.flatnonzero(compile_filter(filtered, types).evaluate(columns)).tolist()

    x, y = Filter(x=1), Filter(y=5)
    assert rows(Filter()) == [0, 1, 2]
    assert rows(~Filter()) == []
    assert rows(Filter(x=1, y=5)) == rows(x & y) == [0]
    assert rows(~x) == [1, 2]
    assert rows(~x | y) == [0, 1, 2]
    assert rows(~(x | y)) == rows(~x & ~y) == [1, 2]
    assert rows(x | Filter(y=IsNull())) == [0, 1, 2]
    assert rows(~~x) == [0]


TYPES = {"n": INT, "f": REAL, "s": TEXT, "b": FLAG, "tags": TEXTS, "raw": pa.large_binary()}
TYPES |= {"day": pa.date32(), "at": pa.timestamp("us"), "clock": pa.time64("us")}
TYPES |= {"span": pa.duration("ms")}


@pytest.mark.parametrize(
    ("test", "arrow", "rows"),
    [
        ("2024-01-02", pa.timestamp("us"), [1, 2]),
        ("2024-01-02T00:00:00Z", pa.timestamp("us"), [1]),
        ((None, "2024-01-02"), pa.timestamp("us", "UTC"), [0, 1, 2]),
        (("2024-01-02T01:00:00+01:00", None), pa.timestamp("ns"), [1, 2, 3]),
        (["2024-01-03", dt.date(2024, 1, 1)], pa.timestamp("us"), [0, 3]),
        (Between("2024-01-01", "2024-01-02"), pa.date32(), [0, 1, 2]),
        (NoneOf("2024-01-01"), pa.date64(), [1, 2, 3]),
    ],
)
def test_a_time_may_be_written_as_iso_8601(test: Any, arrow: pa.DataType, rows: list[int]) -> None:
    days = [dt.datetime(2024, 1, day, hour) for day, hour in ((1, 0), (2, 0), (2, 23), (3, 0))]
    values = [one.date() for one in days] if pa.types.is_date(arrow) else days
    assert matched(test, values, arrow) == rows
    noon = [dt.time(11), dt.time(12)]
    assert matched(("12:00", None), noon, pa.time64("us")) == [1]


NUMBER = "an int or float (column type int64)"
STRING = "a str (column type large_string)"
MOMENT = "a datetime.datetime or datetime.date, or one as ISO 8601 (column type timestamp[us])"


@pytest.mark.parametrize(
    ("column", "test", "expected", "got"),
    [
        ("nope", 1, f"an attribute column ({', '.join(TYPES)})", "an unknown column"),
        ("n", "5", NUMBER, "'5' (str)"),
        ("n", True, NUMBER, "True (bool)"),
        ("f", ("a", None), "an int or float (column type double)", "'a' (str)"),
        ("s", 5, STRING, "5 (int)"),
        ("s", ["a", 5], STRING, "5 (int)"),
        ("s", "\ud800", "a str of Unicode characters", "'\\ud800', with a lone surrogate"),
        ("b", 1, "True or False (column type bool)", "1 (int)"),
        ("b", (False, True), "True or False (column type bool)", "a range"),
        ("n", AllOf(1), "a list column for AllOf", "a column of type int64"),
        ("tags", NoneOf(1), "a str (column type large_list<item: large_string>)", "1 (int)"),
        (
            "day",
            dt.datetime(2024, 1, 1),
            "a datetime.date, or one as ISO 8601 (column type date32[day])",
            "datetime.datetime(2024, 1, 1, 0, 0) (datetime)",
        ),
        ("at", "noon", MOMENT, "'noon' (str)"),
        ("at", NAT, MOMENT, f"{NAT!r} (datetime64)"),
        (
            "clock",
            dt.time(1, tzinfo=dt.UTC),
            "a datetime.time without a time zone, or one as ISO 8601 (column type time64[us])",
            "datetime.time(1, 0, tzinfo=datetime.timezone.utc) (time)",
        ),
        (
            "span",
            MONTH,
            "a datetime.timedelta (column type duration[ms])",
            f"{MONTH!r} (timedelta64)",
        ),
        ("raw", IsNull(), "a column of a filterable type", "a column of type large_binary"),
    ],
)
def test_a_predicate_that_the_column_cannot_answer_is_refused(
    column: str, test: Any, expected: str, got: str
) -> None:
    with pytest.raises(OptionError) as refused:
        compile_filter(Filter(**{column: test}), TYPES)
    assert str(refused.value) == f"{column}: expected {expected}, got {got}"
    assert refused.value.argument == column


def test_a_pair_of_strings_is_refused_with_the_list_and_the_range_that_may_be_meant() -> None:
    for pair in (("note", "doc"), (np.str_("note"), "doc")):
        with pytest.raises(
            OptionError, match=r"^kind: expected a list \['note', 'doc'\]"
        ) as refused:
            Filter(kind=pair)
        assert "or hr.Between('note', 'doc') for a range, got the pair of" in str(refused.value)
    assert Filter(kind=("note", None)) == Filter(kind=Between("note", None))
    assert Filter(kind=(None, "note")) == Filter(kind=Between(None, "note"))


def test_between_is_the_range_of_a_pair_and_of_two_strings() -> None:
    names = attribute_column(pa.array(["a", "b", "bb", "c", None], pa.large_string()))

    def kept(test: Any) -> list[bool]:
        program = compile_filter(Filter(name=test), {"name": pa.large_string()})
        return program.evaluate([names]).tolist()

    assert kept(Between("b", "c")) == [False, True, True, True, False]
    assert kept(Between("c", "b")) == [False] * 5
    assert kept(Between(None, None)) == [True, True, True, True, False]
    assert Filter(n=Between(1, 2)) == Filter(n=(1, 2))
    assert repr(Filter(n=Between(1, None), s=Between("a", "f"))) == (
        "Filter(n=(1, None), s=Between('a', 'f'))"
    )
    assert pickle.loads(pickle.dumps(Filter(s=Between("a", "f")))) == Filter(s=Between("a", "f"))
    with pytest.raises(OptionError, match=r"^n: expected a str, bool, int"):
        Filter(n=Between([1], 2))


def test_a_column_that_is_not_there_is_refused_with_the_columns_that_are() -> None:
    with pytest.raises(OptionError, match=r"^yeer: expected an attribute column \(year, lang\)"):
        compile_filter(Filter(yeer=1), {"year": pa.int64(), "lang": pa.large_string()})


def test_what_is_no_filter_and_what_looks_like_logic_are_refused() -> None:
    with pytest.raises(OptionError, match=r"^filter: expected an hr\.Filter, got dict$"):
        compile_filter({"x": 1}, TYPES)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"expected &, \| and ~ between filters"):
        bool(Filter(n=1))
    with pytest.raises(TypeError):
        Filter(n=1) & {"f": 2}  # type: ignore[operator]


def test_filters_nest_up_to_a_limit_and_join_without_one() -> None:
    deep = Filter(n=0)
    for _ in range(33):
        deep = ~((deep & Filter(n=1)) | Filter(n=2))
    assert compile_filter(deep, TYPES)
    with pytest.raises(OptionError, match="filter: expected at most 100 levels"):
        _ = ~((deep & Filter(n=1)) | Filter(n=2))
    wide = Filter(n=0)
    for i in range(1, 1000):
        wide = wide | Filter(n=i)
    assert compile_filter(wide, TYPES).evaluate([attribute_column(pa.array([7, 1000]))])[0]


def test_a_filter_is_a_frozen_value_that_reads_as_it_was_written() -> None:
    made = Filter(at=(None, 5), kind="a", tags=["x", "y"], lang=NoneOf("de")) & ~(
        Filter(**{"a b": 1}) | Filter(z=IsNull())
    )
    assert repr(made) == (
        "Filter(at=(None, 5), kind='a', tags=['x', 'y'], lang=NoneOf('de')) & "
        "~(Filter(**{'a b': 1}) | Filter(z=IsNull()))"
    )
    rebuilt = eval(repr(made), {"Filter": Filter, "NoneOf": NoneOf, "IsNull": IsNull})
    assert rebuilt == made
    assert hash(rebuilt) == hash(made)
    assert pickle.loads(pickle.dumps(made)) == made
    assert repr(Filter(x={"b", "a"})) == "Filter(x=['a', 'b'])"
    for unlike in (
        Filter(x=1.0),
        Filter(x=True),
        Filter(x=[1]),
        Filter(x=(1, 1)),
        Filter(x=NoneOf(1)),
        Filter(),
    ):
        assert unlike != Filter(x=1)
    assert len({Filter(x=1), Filter(x=1), Filter(x=True), ~~Filter(x=1)}) == 2
    with pytest.raises(AttributeError):
        made.op = "or"
    with pytest.raises(AttributeError):
        NoneOf(1).values = ()


def test_a_column_reads_slices_chunks_and_nothing_under_a_null() -> None:
    with pytest.raises(
        DTypeError, match="attributes: expected a filterable type, got large_binary"
    ):
        attribute_column(pa.array([b"x"], pa.large_binary()))
    for arrow in (INT, REAL, TEXT, FLAG, TEXTS, pa.timestamp("s"), pa.large_list(FLAG)):
        assert len(attribute_column(pa.array([], arrow))) == 0
        assert len(attribute_column(pa.chunked_array([], arrow))) == 0
        assert matched(IsNull(), [None, None], arrow) == [0, 1]
    # The bytes under a null are nobody's: they must not enter the dictionary.
    hidden = pa.LargeStringArray.from_buffers(
        2,
        pa.array([0, 1, 9], pa.int64()).buffers()[1],
        pa.py_buffer(b"asecret!!"),
        pa.py_buffer(b"\x01"),
        1,
    )
    assert attribute_column(hidden).nbytes == attribute_column(pa.array(["a", None], TEXT)).nbytes
    flags = pa.array([True, False, None] * 50)
    program = compile_filter(Filter(x=True), {"x": FLAG})
    for start in (0, 1, 7, 8, 9, 100):
        expected = [value is True for value in flags.slice(start).to_pylist()]
        assert program.evaluate([attribute_column(flags.slice(start))]).tolist() == expected


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_date_on_a_column_of_times_is_the_whole_day(unit: str) -> None:
    first, day, last = (dt.date(2024, 1, one) for one in (1, 2, 3))
    ticks = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    begin = (day - dt.date(1970, 1, 1)).days * 86_400 * ticks
    end = begin + 86_400 * ticks
    at = pa.array([begin - 1, begin, end - 1, end, None], pa.timestamp(unit, "Asia/Tokyo"))

    def rows(test: Any) -> list[int]:
        program = compile_filter(Filter(at=test), {"at": at.type})
        return np.flatnonzero(program.evaluate([attribute_column(at)])).tolist()

    assert rows(day) == rows([day]) == rows((day, day)) == rows(np.datetime64(day)) == [1, 2]
    assert (rows((None, day)), rows((day, None))) == ([0, 1, 2], [1, 2, 3])
    assert (rows(NoneOf(day)), rows([first, last])) == ([0, 3, 4], [0, 3])
    assert rows((dt.datetime(2024, 1, 2), dt.datetime(2024, 1, 2))) == [1]


# ---- any constant against any unit, by the integers behind both ----

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
EPOCH = dt.datetime(1970, 1, 1)
MICRO = dt.timedelta(microseconds=1)
INT64 = st.integers(-(2**63), 2**63 - 1)

units = st.sampled_from(sorted(PER_SECOND))
close = st.datetimes(EPOCH - dt.timedelta(seconds=2), EPOCH + dt.timedelta(seconds=2))
near_or_any = st.one_of(close, st.datetimes())


def times_matched(test: Any, raw: list[int], arrow: pa.DataType) -> list[bool]:
    column = attribute_column(pa.array(raw, arrow))
    answer: list[bool] = compile_filter(Filter(x=test), {"x": arrow}).evaluate([column]).tolist()
    return answer


def around(seconds: Fraction, unit: str) -> list[int]:
    """Raw values about a moment, within int64."""
    near = int(seconds * PER_SECOND[unit])
    return [min(max(near + i, -(2**63)), 2**63 - 1) for i in (-2, -1, 0, 1, 2)]


@given(near_or_any, near_or_any, units, INT64, st.sampled_from([None, "UTC", "Asia/Tokyo"]))
def test_a_range_of_datetimes_includes_just_the_ticks_between_its_ends(
    start: dt.datetime, end: dt.datetime, unit: str, far: int, zone: str | None
) -> None:
    low, high = (Fraction((moment - EPOCH) // MICRO, 10**6) for moment in (start, end))
    raw = [*around(low, unit), *around(high, unit), far]
    times = [Fraction(value, PER_SECOND[unit]) for value in raw]
    arrow = pa.timestamp(unit, zone)
    aware = end.replace(tzinfo=dt.UTC)
    assert times_matched((start, aware), raw, arrow) == [low <= time <= high for time in times]
    assert times_matched((start, None), raw, arrow) == [low <= time for time in times]
    assert times_matched((None, end), raw, arrow) == [time <= high for time in times]
    assert times_matched([start, end], raw, arrow) == [time in {low, high} for time in times]


@given(st.timedeltas(), units)
def test_a_duration_equals_only_its_own_length(span: dt.timedelta, unit: str) -> None:
    length = Fraction(span // MICRO, 10**6)
    raw = around(length, unit)
    times = [Fraction(value, PER_SECOND[unit]) for value in raw]
    assert times_matched(span, raw, pa.duration(unit)) == [time == length for time in times]
    assert times_matched((span, None), raw, pa.duration(unit)) == [time >= length for time in times]


@given(
    INT64.filter(lambda value: value != -(2**63)),
    st.sampled_from(["h", "m", *PER_SECOND, "ps", "fs", "as"]),
    units,
)
def test_a_numpy_moment_of_any_unit_is_exact(count: int, numpy_unit: Any, unit: str) -> None:
    seconds = {
        "h": Fraction(3600),
        "m": Fraction(60),
        "ps": Fraction(1, 10**12),
        "fs": Fraction(1, 10**15),
    }
    seconds |= {"as": Fraction(1, 10**18)} | {
        name: Fraction(1, n) for name, n in PER_SECOND.items()
    }
    moment = count * seconds[numpy_unit]
    raw = around(moment, unit)
    times = [Fraction(value, PER_SECOND[unit]) for value in raw]
    at = np.datetime64(count, numpy_unit)
    assert times_matched((at, None), raw, pa.timestamp(unit)) == [moment <= time for time in times]
    assert times_matched((None, at), raw, pa.timestamp(unit)) == [time <= moment for time in times]
    assert times_matched(at, raw, pa.timestamp(unit)) == [time == moment for time in times]
    assert times_matched(np.timedelta64(count, numpy_unit), raw, pa.duration(unit)) == [
        time == moment for time in times
    ]


def test_zones_and_numpy_calendars_name_the_same_instant() -> None:
    noon = [int(dt.datetime(2024, 7, 1, 12, tzinfo=dt.UTC).timestamp())]
    berlin = dt.datetime(2024, 7, 1, 14, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"))
    for same in (berlin, dt.datetime(2024, 7, 1, 12), np.datetime64("2024-07-01T12")):
        assert times_matched(same, noon, pa.timestamp("s")) == [True]
        assert times_matched(same, noon, pa.timestamp("s", "America/New_York")) == [True]
    assert times_matched(
        (np.datetime64("2024"), np.datetime64("2024-08")), noon, pa.timestamp("s")
    ) == [True]
    assert times_matched((np.datetime64("2024-08"), None), noon, pa.timestamp("s")) == [False]
    assert times_matched(np.datetime64("1970-01-02"), [0, 1], pa.date32()) == [False, True]
    assert times_matched((np.datetime64(1, "W"), None), [6, 7], pa.date32()) == [False, True]
    # Extremes of the calendar in a zone: the instant lies outside what datetime itself can hold.
    for last in (dt.datetime.max, dt.datetime.min):
        for hours in (-14, 14):
            there = last.replace(tzinfo=dt.timezone(dt.timedelta(hours=hours)))
            assert times_matched((None, there), [0], pa.timestamp("s")) == [last is dt.datetime.max]


def test_pandas_moments_keep_their_nanoseconds() -> None:
    pd = pytest.importorskip("pandas")
    at = pd.Timestamp("1970-01-01 00:00:00.000000005", tz="UTC")
    assert times_matched(at, [4, 5, 6], pa.timestamp("ns")) == [False, True, False]
    assert times_matched((at, None), [0, 1], pa.timestamp("us")) == [False, True]
    assert times_matched(pd.Timedelta(5, "ns"), [4, 5], pa.duration("ns")) == [False, True]
    with pytest.raises(OptionError, match=r"x: expected a datetime\.datetime"):
        times_matched(pd.NaT, [0], pa.timestamp("s"))
