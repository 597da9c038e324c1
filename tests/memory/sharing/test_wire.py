"""The codec: values come back exactly, and bytes that are no message are refused by type."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from enum import Enum, StrEnum
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.msgpack import Ext

import hyrecall as hr
from hyrecall.errors import HyrecallError, OptionError
from seams import OF_RECIPES, OF_REQUESTS, ClassCodec, Codec, Episode, Participant, WireError


class Colour(StrEnum):
    RED = "red"


class Side(Enum):
    LEFT = 1


class Pair(NamedTuple):
    first: object
    second: object


@dataclass(frozen=True)
class Even:
    """A class whose constructor checks."""

    number: int

    def __post_init__(self) -> None:
        if self.number % 2:
            raise OptionError("number: expected an even one, got an odd one")


@dataclass(frozen=True)
class Unlisted:
    number: int = 1


ANALYZER = ClassCodec(hr.Analyzer, lambda value: (value.to_dict(),), hr.Analyzer.from_dict)
LISTED = Colour, Side, Pair, Even, Episode, Participant, ANALYZER
CODEC = Codec([*LISTED, *OF_RECIPES, *OF_REQUESTS])


def round_trip(value: object) -> Any:
    return CODEC.decode(CODEC.encode(value))


def is_same(a: Any, b: Any) -> bool:
    """Equal in type too: NaN equal to itself, -0.0 unlike 0.0, times of one fold and zone."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return struct.pack("<d", a) == struct.pack("<d", b)
    if isinstance(a, datetime):
        return (a, a.fold, a.tzinfo) == (b, b.fold, b.tzinfo)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(is_same, a, b))
    if isinstance(a, dict):
        return is_same(list(a), list(b)) and is_same(list(a.values()), list(b.values()))
    return bool(a == b)


NAN = struct.unpack("<d", struct.pack("<Q", 0x7FF8DEAD00000001))[0]

VALUES: dict[str, object] = {
    "scalars": [None, True, False, 0, -1, "", "é\x00😀", b"", b"\xff\x00"],
    "numbers": [2**63 - 1, -(2**63), 2**63, 2**64, -(10**40), 0.1, -0.0, 5e-324, math.inf, NAN],
    "containers": [(), [], {}, ((),), {"a": {"b": [1, (2, [3])]}}, {1: "x", (1, 2): None}],
    "sets": [set(), {1, 2}, frozenset({"a"})],
    "times": [
        datetime(2026, 1, 2, 3, 4, 5, 678901, UTC),
        datetime.min.replace(tzinfo=UTC),
        datetime.max.replace(tzinfo=UTC),
        datetime(2026, 1, 2),
        datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin")),
        datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=-3, minutes=30))),
        date(2024, 2, 29),
        time(23, 59, 59, 999999),
        timedelta(days=-1, microseconds=1),
    ],
    "members": [Colour.RED, Side.LEFT],
    "objects": [Pair((1, 2), [3]), Even(4), [Even(0), {"k": Even(2)}]],
    "recipes": [getattr(hr.recipes, name) for name in ("loom", "l0", "hebb", "honeycomb")],
    "more recipes": [hr.recipes.default, hr.recipes.hypergraph],
    "filters": [
        hr.Filter(a=1),
        hr.Filter(a=1.0),
        ~hr.Filter(a=hr.NoneOf("x", "y")),
        hr.Filter(a=(1, None), b=[True, 2.5])
        & hr.Filter(c=hr.IsNull())
        & hr.Filter(d=hr.NotNull()),
        ~(hr.Filter(a=hr.Between("a", "b")) | hr.Filter(b=datetime(2024, 1, 1, tzinfo=UTC))),
    ],
}


@pytest.mark.parametrize("name", VALUES)
def test_values_come_back_exactly(name: str) -> None:
    assert is_same(round_trip(VALUES[name]), VALUES[name])


def test_every_class_of_recipes_crosses_with_all_its_options() -> None:
    given = hr.recipes.hebb.replace(
        fusion=hr.WeightedSum(normalize={"text": "best"}, complete=False),
        min_fused=hr.Above(0.5),
    )
    assert round_trip(given) == given
    sums = (hr.WeightedSum({"text": 0.25}, balance=1.5), hr.Max({"a": 1.0}), hr.DBSF({"a": 3.0}))
    for fusion in (hr.RRF({"text": 2.0}), hr.RRF(alpha=0, alpha_mode="votes"), *sums):
        assert is_same(round_trip(fusion), fusion)


@pytest.mark.parametrize("dtype", ["<f4", "<f8", "<f2", "<i8", "|u1", "|b1", "<M8[us]", "<U3"])
def test_arrays_keep_dtype_shape_and_bits(dtype: str) -> None:
    given = np.array(["1", "0", "1", "1", "0", "0"]).astype("<i8").astype(dtype).reshape(2, 3)
    made = round_trip(given)
    assert (made.dtype, made.shape) == (given.dtype, given.shape)
    assert made.tobytes() == given.tobytes()
    made[0, 0] = made[1, 1]  # its own memory, and writable
    scalar = round_trip(given[0, 0])
    assert type(scalar) is type(given[0, 0])
    assert scalar.tobytes() == given[0, 0].tobytes()


def test_arrays_without_elements_and_of_other_orders_come_back() -> None:
    assert round_trip(np.zeros((0, 4), np.float32)).shape == (0, 4)
    turned = np.arange(6, dtype=np.float32).reshape(2, 3).T[::-1]
    assert (round_trip(turned) == turned).all()


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(), inner, max_size=4)
    ),
    max_leaves=30,
)


@given(json_like)
def test_any_plain_value_comes_back_exactly(value: object) -> None:
    try:
        made = round_trip(value)
    except WireError:
        assert "\\ud" in ascii(value)  # a lone surrogate is the only text that does not cross
        return
    assert is_same(made, value)


@pytest.mark.parametrize(
    "value",
    [Unlisted(), object(), Unlisted, lambda: 1, np.array([object()]), "\ud800", 1j, range(3)],
    ids=["dataclass", "object", "class", "function", "objects", "surrogate", "complex", "range"],
)
def test_what_is_not_listed_does_not_cross(value: object) -> None:
    with pytest.raises(WireError):
        CODEC.encode([value])


def test_nesting_that_is_too_deep_is_refused_on_both_sides() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(WireError):
        CODEC.encode(deep)
    with pytest.raises(WireError):
        CODEC.decode(b"\x92\x00\x91" * 100_000 + b"\xc0")
    while deep:  # take it apart: to free it whole would overflow the stack of some Pythons
        deep = deep[0]


def test_two_classes_of_one_name_are_refused() -> None:
    other = type("Even", (Even,), {})
    with pytest.raises(TypeError, match="Even"):
        Codec([Even, other])


def test_a_class_whose_constructor_takes_less_than_it_holds_is_refused() -> None:
    with pytest.raises(TypeError, match="Scope"):
        Codec([hr.Scope])


# ---- hostile bytes ----


def raw(value: object) -> bytes:
    return msgspec.msgpack.encode(value)


EIGHT = Ext(0, b"12345678")
HOSTILE = {
    "nothing": b"",
    "half": CODEC.encode(["abc", 1.5])[:-3],
    "an array that claims 4 billion elements": b"\xdd\xff\xff\xff\xff",
    "bytes that claim 4 GB": b"\xc6\xff\xff\xff\xff",
    "a map of text": raw({"a": 1}),
    "a map of two keys": raw({1: [], 2: []}),
    "a map inside": raw([0, [{1: []}]]),
    "an unknown tag": raw([99, []]),
    "an unknown tag of no list": raw([99, 1]),
    "no list": raw([1, 5]),
    "a class that is not listed": raw([13, ["Unlisted", 1]]),
    "a class by no name": raw([13, []]),
    "a class by a number": raw([13, [7, 1]]),
    "too many fields": raw([13, ["Even", 2, 2]]),
    "too few fields": raw([13, ["Even"]]),
    "a field of another type": raw([13, ["Even", "x"]]),
    "a model with a wrong field": raw([13, ["Participant", 5, "role"]]),
    "an unknown member": raw([14, ["Colour", "BLUE"]]),
    "a member of no enumeration": raw([14, ["Even", "RED"]]),
    "a member by an attribute": raw([14, ["Colour", "__class__"]]),
    "keys that cannot be looked up": raw([2, [[0, [1]], 2]]),
    "a key without a value": raw([2, [1]]),
    "an array of objects": raw([11, ["|O", 1, EIGHT]]),
    "an array of a structure": raw([11, ["<i4,<i4", 1, EIGHT]]),
    "an array that is too short": raw([11, ["<f8", 2**40, EIGHT]]),
    "an array of a negative length": raw([11, ["<f8", -1, -1, EIGHT]]),
    "an array whose size overflows": raw([11, ["<f8", 2**33, 2**33, 0, 2**62, EIGHT]]),
    "an array of no parts": raw([11, []]),
    "a time that is none": raw([6, [2026, 13, 1, 0, 0, 0, 0, 0, None]]),
    "a time in a zone that is none": raw([6, [2026, 1, 1, 0, 0, 0, 0, 0, "../../etc/passwd"]]),
    "a time after all times": raw([7, 2**62]),
    "a number that is none": raw([5, "0xzz"]),
    "a callable": raw([15, 0]),
    "an extension type": raw(Ext(5, b"x")),
    "an extension type in an array": raw([11, ["<f8", 1, Ext(5, b"12345678")]]),
    "bytes that are none": raw(b"x"),
    "a timestamp": raw(datetime(2026, 1, 1, tzinfo=UTC)),
    "a kept class that is none": raw([16, Ext(0, b"\xc1")]),
    "a kept class that is not listed": raw([16, Ext(0, raw(["Unlisted", 1]))]),
    "a filter of no tests": raw([13, ["Filter", "test", None, [1, []]]]),
    "a filter with an operator that is none": raw([13, ["Filter", "xor", [1, []], [1, []]]]),
    "an analyzer of nothing": raw([13, ["Analyzer", None]]),
    "an analyzer without a name": raw([13, ["Analyzer", [2, ["kind", "preset"]]]]),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_bytes_are_refused_by_type(name: str) -> None:
    with pytest.raises(HyrecallError):
        CODEC.decode(HOSTILE[name])


def test_a_constructor_that_refuses_is_heard() -> None:
    with pytest.raises(OptionError, match="even"):
        CODEC.decode(raw([13, ["Even", 3]]))


def test_an_error_about_fields_does_not_quote_them() -> None:
    with pytest.raises(WireError) as caught:
        CODEC.decode(raw([13, ["Episode", [2, ["secret-canary", 1]]]]))
    assert "canary" not in str(caught.value)


def test_callables_cross_as_numbers_in_their_order() -> None:
    met: list[Any] = []

    def number_of(function: Any) -> int:
        met.append(function)
        return len(met) - 1

    stage = hr.RerankBy(lambda query, texts: [1.0] * len(texts))
    recipe = hr.recipes.loom.replace(shaping=(stage,))
    data = CODEC.encode([recipe, len], number_of)
    assert met == [stage.function, len]
    made, other = CODEC.decode(data, lambda number: lambda *args: ("called", number, args))
    assert made.shaping[0].function("q", ["t"]) == ("called", 0, ("q", ["t"]))
    assert other(1) == ("called", 1, (1,))


def test_a_kept_kind_makes_no_more_than_one_instance_of_the_same_bytes() -> None:
    made = 0

    def make(number: int) -> Even:
        nonlocal made
        made += 1
        return Even(number)

    codec = Codec([ClassCodec(Even, lambda value: (value.number,), make, is_kept=True)])
    assert [codec.decode(codec.encode(Even(n))) for n in (2, 4, 2, 2)] == list(
        map(Even, (2, 4, 2, 2))
    )
    assert made == 2
