"""Compiles filters for a schema to native programs, which test codes of attribute columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall._core import FilterProgram
from hyrecall.ask.filters import Filter
from hyrecall.ask.predicates import AllOf, Between, IsNull, NoneOf, NotNull, Predicate
from hyrecall.base.arguments import set_fields
from hyrecall.errors import OptionError, ShapeError, error
from hyrecall.table.attributes import MAX_CODE, MIN_CODE, AttributeType, Place, attribute_type

# ---- Converts ``filter=``, a filter or an Arrow compute expression, to a filter ----


def read_filter(argument: str, given: object) -> Filter | None:
    """Convert ``filter=``, a filter, an Arrow compute expression or None, to a filter or None."""
    if given is None or isinstance(given, Filter):
        return given
    import pyarrow.compute as pc

    if isinstance(given, pc.Expression):
        from hyrecall.ask.arrow_conditions import translate

        return translate(given, Filter, argument)
    wish = "an hr.Filter, a pyarrow.compute.Expression or None"
    remedy = f"hr.Filter(**{given!r})" if isinstance(given, dict) else ""
    raise error(OptionError, argument, wish, repr(given), remedy)


# ---- Compiles filters for a schema to native programs, which test codes of attribute columns ----

_NO_FILTER = 2**32 - 1

_Columns = Mapping[str, tuple[int, pa.DataType]]


def compile_filter(filter: Filter, types: Mapping[str, pa.DataType]) -> FilterProgram:  # noqa: A002
    """Compile a filter against a schema's attribute columns."""
    if not isinstance(filter, Filter):
        raise error(OptionError, "filter", "an hr.Filter", type(filter).__name__)
    columns = {name: (index, arrow) for index, (name, arrow) in enumerate(types.items())}
    return _compile(filter, columns)


def known_program(given: object, types: Mapping[str, pa.DataType]) -> FilterProgram | None:
    """Return the program of a filter for a schema, which the filter keeps; None: no filter."""
    if type(given) is not Filter:
        return None
    known = given._program
    if known is None or known[0] is not types:
        try:
            known = (types, compile_filter(given, types))
        except OptionError:
            return None
        set_fields(given, _program=known)
    return known[1]


def _compile(node: Filter, columns: _Columns) -> FilterProgram:
    if node.op == "test":
        tests = [_compile_test(name, test, columns) for name, test in node.predicates]
        return tests[0] if len(tests) == 1 else FilterProgram.all_of(tests)
    parts = [_compile(part, columns) for part in node.parts]
    if node.op == "not":
        return FilterProgram.complement(parts[0])
    return FilterProgram.all_of(parts) if node.op == "and" else FilterProgram.any_of(parts)


def _compile_test(name: str, test: Predicate, columns: _Columns) -> FilterProgram:
    if name not in columns:
        known = ", ".join(columns) or "the index has none"
        raise error(OptionError, name, f"an attribute column ({known})", "an unknown column")
    index, arrow = columns[name]
    kind = attribute_type(arrow)
    if kind is None:
        raise error(OptionError, name, "a column of a filterable type", f"a column of type {arrow}")
    if isinstance(test, IsNull):
        return FilterProgram.is_null(index)
    if isinstance(test, NotNull):
        return FilterProgram.complement(FilterProgram.is_null(index))
    if isinstance(test, Between):
        return _compile_range(name, index, kind, *test.values)
    if isinstance(test, NoneOf):
        return FilterProgram.complement(_compile_any_of(name, index, kind, test.values))
    if isinstance(test, AllOf):
        if not kind.is_list:
            raise error(OptionError, name, "a list column for AllOf", f"a column of type {arrow}")
        each = [_compile_any_of(name, index, kind, (value,)) for value in test.values]
        return FilterProgram.all_of(
            each or [FilterProgram.complement(FilterProgram.is_null(index))]
        )
    return _compile_any_of(name, index, kind, test.values)


def value_codes(
    name: str, values: Sequence[object], types: Mapping[str, pa.DataType]
) -> tuple[int, list[list[int] | list[bytes]]]:
    """Return a column's number, and what the engine knows each value by: codes, or one text."""
    # A value that no row of the type can have gets no code.
    if name not in types:
        known = ", ".join(types) or "the index has none"
        raise error(OptionError, name, f"an attribute column ({known})", "an unknown column")
    kind = attribute_type(types[name])
    if kind is None or kind.is_list:
        wish = "a filterable column without lists"
        raise error(OptionError, name, wish, f"a column of type {types[name]}")
    index = list(types).index(name)
    if kind.place is None:
        return index, [[_utf8(name, kind, value)] for value in values]
    places = [place_of(name, kind, value) for value in values]
    return index, [
        [low] if low == high and MIN_CODE <= low <= MAX_CODE else [] for low, high in places
    ]


def _compile_any_of(
    name: str, index: int, kind: AttributeType, values: tuple[Any, ...]
) -> FilterProgram:
    if kind.place is None:
        return FilterProgram.text_any_of(index, [_utf8(name, kind, value) for value in values])
    places = [place_of(name, kind, value) for value in values]
    codes = [low for low, high in places if low == high and MIN_CODE <= low <= MAX_CODE]
    days = [_between(index, low, high) for low, high in places if low < high]
    one_of = FilterProgram.codes_any_of(index, codes)
    return FilterProgram.any_of([one_of, *days]) if days else one_of


def _between(index: int, low: int, high: int) -> FilterProgram:
    """Test codes; if low > high the range is empty, and the ends may be outside int64."""
    low, high = max(low, MIN_CODE), min(high, MAX_CODE)
    return (
        FilterProgram.codes_between(index, low, high) if low <= high else FilterProgram.any_of([])
    )


def _compile_range(
    name: str, index: int, kind: AttributeType, start: Any, end: Any
) -> FilterProgram:
    if not kind.has_order:
        raise error(OptionError, name, f"{kind.expected} (column type {kind.arrow})", "a range")
    if kind.place is None:
        first = None if start is None else _utf8(name, kind, start)
        last = None if end is None else _utf8(name, kind, end)
        return FilterProgram.text_between(index, first, last)
    low = MIN_CODE if start is None else place_of(name, kind, start)[0]
    # A range without ends includes NaN, whose code is above all other floats.
    open_top = MAX_CODE if start is None else kind.top_code
    high = open_top if end is None else place_of(name, kind, end)[1]
    return _between(index, low, high)


def place_of(name: str, kind: AttributeType, value: Any) -> Place:
    """Return the place of a constant among the codes of a column."""
    place = None if kind.place is None else kind.place(value)
    if place is None:
        raise _refused(name, kind, value)
    return place


def _utf8(name: str, kind: AttributeType, value: Any) -> bytes:
    if not isinstance(value, str):
        raise _refused(name, kind, value)
    try:
        return value.encode()
    except UnicodeEncodeError:
        expected, got = "a str of Unicode characters", f"{value!r}, with a lone surrogate"
        raise error(OptionError, name, expected, got) from None


def _refused(name: str, kind: AttributeType, value: object) -> OptionError:
    expected = f"{kind.expected} (column type {kind.arrow})"
    return error(OptionError, name, expected, f"{value!r} ({type(value).__name__})")


def read_filters(
    types: Mapping[str, pa.DataType], given: object, n: int
) -> tuple[list[FilterProgram], npt.NDArray[np.uint32] | None]:
    """Compile ``filter=``: a filter or an Arrow expression for all n queries, or a list of
    these.
    """
    if given is None:
        return [], None
    each = given if isinstance(given, list) else [given] * n
    if len(each) != n:
        raise error(ShapeError, "filter", f"{n} entries, one per query", len(each))
    numbers: dict[Filter, int] = {}
    met: dict[int, int] = {}  # program numbers by id(filter), cheaper than hashing its values
    programs: list[FilterProgram] = []
    index = []
    for place, one in enumerate(each):
        if one is None:
            index.append(_NO_FILTER)
            continue
        if id(one) in met:
            index.append(met[id(one)])
            continue
        asked = read_filter(f"filter[{place}]" if each is given else "filter", one)
        assert asked is not None
        number = numbers.setdefault(asked, len(programs))
        if number == len(programs):
            programs.append(compile_filter(asked, types))
        met[id(one)] = number
        index.append(number)
    return programs, np.array(index, np.uint32)
