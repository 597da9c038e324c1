"""What ``filter=`` takes becomes a filter: Arrow compute expressions too.

Arrow has no public view of an expression's tree. What it pickles is one: a record batch whose
metadata are the tree in prefix order and whose columns are the constants, with their types. It is
read here as data and never unpickled; why not another way: docs/decisions/0007.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hyrecall import _core
from hyrecall.ask.filters import Filter, IsNull, NotNull
from hyrecall.errors import OptionError, error

__all__ = ["FilterLike", "read_filter", "to_filter"]

FilterLike: TypeAlias = Filter | pc.Expression
"""What ``filter=`` takes."""

_EVERY_ROW = Filter()
_NO_ROW = ~_EVERY_ROW
_WISH = "a column against a constant, isin, is_null, is_valid, is_nan, joined by &, | and ~"
_SWAPPED = {"less": "greater", "less_equal": "greater_equal"}
_SWAPPED |= {value: key for key, value in _SWAPPED.items()} | {
    name: name for name in ("equal", "not_equal")
}
_SIGNS = {"equal": "==", "not_equal": "!=", "less": "<", "less_equal": "<=", "greater": ">"}
_SIGNS |= {"greater_equal": ">=", "and_kleene": "and", "or_kleene": "or"}
# How SetLookupOptions treats nulls, by Arrow's numbers; its other two give null for them.
_NULLS_MATCH, _NULLS_ARE_SKIPPED = 0, 1


@dataclass(frozen=True)
class _Node:
    """A piece of the expression.

    Attributes
    ----------
    text : str
        As Arrow would show it.
    true, false : Filter or None
        The rows for which it is true, and those for which it is false; where it is null, neither.
        None: it is no condition.
    column : str or None
    constant : pyarrow.Scalar or None
    """

    text: str
    true: Filter | None = None
    false: Filter | None = None
    column: str | None = None
    constant: pa.Scalar | None = None


@dataclass
class _Call:
    """A function whose arguments are still being read."""

    name: str
    arguments: list[_Node] = field(default_factory=list)
    options: dict[str, pa.Scalar] = field(default_factory=dict)

    @property
    def text(self) -> str:
        shown = [node.text for node in self.arguments]
        if self.name in _SIGNS and len(shown) == 2:
            return f"({shown[0]} {_SIGNS[self.name]} {shown[1]})"
        return f"{self.name}({', '.join(shown)})"


class _RefusedError(Exception):
    """What an expression may hold, and the piece of it that is something else."""


def read_filter(argument: str, given: object) -> Filter | None:
    """Read ``filter=``: a filter or an Arrow compute expression; None: there is none.

    Raises
    ------
    OptionError
        It is none of these, or an expression that no filter can stand for.
    """
    if given is None or isinstance(given, Filter):
        return given
    if isinstance(given, pc.Expression):
        return to_filter(given, argument)
    wish = "an hr.Filter, a pyarrow.compute.Expression or None"
    remedy = f"hr.Filter(**{given!r})" if isinstance(given, dict) else ""
    raise error(OptionError, argument, wish, repr(given), remedy)


def to_filter(expression: Any, argument: str = "expression") -> Filter:
    """Translate; see :meth:`hyrecall.Filter.expression`."""
    if not isinstance(expression, pc.Expression):
        wish = "a pyarrow.compute.Expression"
        raise error(OptionError, argument, wish, type(expression).__name__)
    try:
        return _translated(expression)
    except _RefusedError as refused:
        raise error(OptionError, argument, *refused.args) from None


def _translated(expression: Any) -> Filter:
    try:
        _, (serialised,) = expression.__reduce__()
    except pa.ArrowNotImplementedError:
        raise _RefusedError("columns by name", str(expression)) from None
    batch = pa.ipc.open_file(serialised).get_batch(0)
    reading = [_Call("")]  # outermost first; the last one takes what comes next
    for key, value in _core.schema_metadata(batch.schema):
        word = value.decode()
        if key == b"call":
            reading.append(_Call(word))
        elif key == b"field_ref":
            reading[-1].arguments.append(_Node(word, column=word))
        elif key == b"literal":
            constant = batch.column(int(word))[0]
            reading[-1].arguments.append(_Node(_shown(constant), constant=constant))
        elif key == b"options":
            reading[-1].options = dict(batch.column(int(word))[0].items())
        elif key == b"end":
            done = reading.pop()
            reading[-1].arguments.append(_evaluate(done))
        else:  # a field inside a struct, or what a later Arrow may write
            raise _RefusedError(_WISH, str(expression))
    return _condition(reading[0].arguments[0])[0]


def _evaluate(call: _Call) -> _Node:
    """Return the condition that a call with all its arguments is."""
    if call.name in ("and_kleene", "or_kleene"):
        (true, false), (true_, false_) = map(_condition, call.arguments)
        if call.name == "and_kleene":
            return _Node(call.text, true & true_, false | false_)
        return _Node(call.text, true | true_, false & false_)
    if call.name == "invert":
        true, false = _condition(call.arguments[0])
        return _Node(call.text, false, true)
    if call.name in _SWAPPED:
        return _compare(call)
    if call.name in _TESTS and call.arguments[0].column is not None:
        return _Node(call.text, *_TESTS[call.name](call, call.arguments[0].column))
    raise _refused(call)


def _condition(node: _Node) -> tuple[Filter, Filter]:
    """Return the rows for which a piece is true, and those for which it is false."""
    if node.true is not None and node.false is not None:
        return node.true, node.false
    if node.column is not None:
        return Filter(**{node.column: True}), Filter(**{node.column: False})
    value = None if node.constant is None else node.constant.as_py()
    if value is None:
        return _NO_ROW, _NO_ROW
    if not isinstance(value, bool):
        raise _RefusedError("a condition", node.text)
    return (_EVERY_ROW, _NO_ROW) if value else (_NO_ROW, _EVERY_ROW)


def _compare(call: _Call) -> _Node:
    left, right = call.arguments
    name = call.name
    if left.constant is not None:
        left, right, name = right, left, _SWAPPED[name]
    if left.column is None or right.constant is None:
        raise _refused(call)
    value = _constant(right.constant, call)
    if value is None:
        return _Node(call.text, _NO_ROW, _NO_ROW)
    column = left.column
    equal, present = Filter(**{column: value}), Filter(**{column: NotNull()})
    if name in ("equal", "not_equal"):
        true = equal if name == "equal" else present & ~equal
        return _Node(call.text, true, present & ~equal if name == "equal" else equal)
    ends = (None, value) if name.startswith("less") else (value, None)
    true = Filter(**{column: ends})
    if not name.endswith("equal"):
        true = true & ~equal
    return _Node(call.text, true, present & ~true)


def _is_in(call: _Call, column: str) -> tuple[Filter, Filter]:
    nulls = call.options["null_matching_behavior"].as_py()
    if nulls not in (_NULLS_MATCH, _NULLS_ARE_SKIPPED):
        raise _refused(call)
    constants = [_constant(one, call) for one in call.options["value_set"].values]
    if any(isinstance(one, float) and math.isnan(one) for one in constants):
        raise _RefusedError("isin without NaN (or is_nan)", call.text)
    true = Filter(**{column: [one for one in constants if one is not None]})
    if nulls == _NULLS_MATCH and None in constants:
        true = true | Filter(**{column: IsNull()})
    return true, ~true


def _is_null(call: _Call, column: str) -> tuple[Filter, Filter]:
    true = Filter(**{column: IsNull()})
    if "nan_is_null" in call.options and call.options["nan_is_null"].as_py():
        true = true | _is_nan(call, column)[0]
    return true, ~true


def _is_valid(call: _Call, column: str) -> tuple[Filter, Filter]:
    return Filter(**{column: NotNull()}), Filter(**{column: IsNull()})


def _is_nan(call: _Call, column: str) -> tuple[Filter, Filter]:
    ordered = Filter(**{column: (-math.inf, math.inf)})
    return Filter(**{column: NotNull()}) & ~ordered, ordered


_TESTS: dict[str, Callable[[_Call, str], tuple[Filter, Filter]]] = {
    "is_in": _is_in,
    "is_null": _is_null,
    "is_valid": _is_valid,
    "is_nan": _is_nan,
}


def _constant(scalar: pa.Scalar, call: _Call) -> Any:
    """Return a constant as a filter takes it, None for null; times keep their nanoseconds."""
    if isinstance(scalar, pa.DictionaryScalar):
        scalar = scalar.value
    if not scalar.is_valid:
        return None
    kind = scalar.type
    if pa.types.is_timestamp(kind):  # with a time zone too, it counts from 1970 in UTC
        return np.datetime64(scalar.value, kind.unit)
    if pa.types.is_duration(kind):
        return np.timedelta64(scalar.value, kind.unit)
    if kind == pa.time64("ns") and scalar.value % 1000:
        raise _RefusedError("a time of day in whole microseconds", call.text)
    value = scalar.as_py()
    if isinstance(value, (bytes, list, dict)):
        raise _refused(call)
    return value


def _shown(constant: pa.Scalar) -> str:
    return repr(constant.as_py()) if pa.types.is_string(constant.type) else str(constant)


def _refused(call: _Call) -> _RefusedError:
    return _RefusedError(_WISH, call.text)
