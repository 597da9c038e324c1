"""Translates Arrow compute expressions into filters of a class that the caller passes.

Arrow has no public access to the tree of an expression. Its pickled form has the tree: a record
batch with the tree in prefix order as metadata, and the constants as columns. It is read here as
data and never unpickled; docs/decisions/0007 compares the alternatives.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
import pyarrow as pa

from hyrecall import _core
from hyrecall.ask.predicates import IsNull, NotNull
from hyrecall.errors import OptionError, error

_WISH = "a column against a constant, isin, is_null, is_valid, is_nan, joined by &, | and ~"
_SWAPPED = {"less": "greater", "less_equal": "greater_equal"}
_SWAPPED |= {value: key for key, value in _SWAPPED.items()} | {
    name: name for name in ("equal", "not_equal")
}
_SIGNS = {"equal": "==", "not_equal": "!=", "less": "<", "less_equal": "<=", "greater": ">"}
_SIGNS |= {"greater_equal": ">=", "and_kleene": "and", "or_kleene": "or"}
# Arrow's numbers for how SetLookupOptions treats nulls; its other two return null for them.
_NULLS_MATCH, _NULLS_ARE_SKIPPED = 0, 1


class Joinable(Protocol):
    """A filter that can be joined with others."""

    def __and__(self, other: Self, /) -> Self:
        """Match rows that both filters match."""
        ...

    def __or__(self, other: Self, /) -> Self:
        """Match rows that at least one of the filters matches."""
        ...

    def __invert__(self) -> Self:
        """Match the rows that this filter does not match."""
        ...


F = TypeVar("F", bound=Joinable)


@dataclass(frozen=True)
class _Node(Generic[F]):
    """A part of the expression."""

    text: str
    true: F | None = None
    false: F | None = None
    column: str | None = None
    constant: pa.Scalar | None = None


@dataclass
class _FunctionCall(Generic[F]):
    """A function whose arguments are still being read."""

    name: str
    arguments: list[_Node[F]] = field(default_factory=list)
    options: dict[str, pa.Scalar] = field(default_factory=dict)

    @property
    def text(self) -> str:
        shown = [node.text for node in self.arguments]
        if self.name in _SIGNS and len(shown) == 2:
            return f"({shown[0]} {_SIGNS[self.name]} {shown[1]})"
        return f"{self.name}({', '.join(shown)})"


class _RefusedError(Exception):
    """Raised with what an expression may contain, and the part that is not supported."""


def translate(expression: Any, make: Callable[..., F], argument: str = "expression") -> F:
    """Translate an expression into a filter; see :meth:`hyrecall.Filter.expression`."""
    # ``make`` makes a filter of predicates by column, as :class:`hyrecall.Filter` does.
    import pyarrow.compute as pc

    if not isinstance(expression, pc.Expression):
        wish = "a pyarrow.compute.Expression"
        raise error(OptionError, argument, wish, type(expression).__name__)
    try:
        return _Translator(make).translated(expression)
    except _RefusedError as refused:
        raise error(OptionError, argument, *refused.args) from None


class _Translator(Generic[F]):
    """Translates an expression into filters of one kind."""

    def __init__(self, make: Callable[..., F]) -> None:
        self._make = make
        self._every_row = make()
        self._no_row = ~self._every_row
        self._tests: dict[str, Callable[[_FunctionCall[F], str], tuple[F, F]]] = {
            "is_in": self._is_in,
            "is_null": self._is_null,
            "is_valid": self._is_valid,
            "is_nan": self._is_nan,
        }

    def translated(self, expression: Any) -> F:
        try:
            _, (serialised,) = expression.__reduce__()
        except pa.ArrowNotImplementedError:
            raise _RefusedError("columns by name", str(expression)) from None
        batch = pa.ipc.open_file(serialised).get_batch(0)
        reading: list[_FunctionCall[F]] = [_FunctionCall("")]  # open calls, outermost first
        for key, value in _core.schema_metadata(batch.schema):
            word = value.decode()
            if key == b"call":
                reading.append(_FunctionCall(word))
            elif key == b"field_ref":
                reading[-1].arguments.append(_Node(word, column=word))
            elif key == b"literal":
                constant = batch.column(int(word))[0]
                reading[-1].arguments.append(_Node(_shown(constant), constant=constant))
            elif key == b"options":
                reading[-1].options = dict(batch.column(int(word))[0].items())
            elif key == b"end":
                done = reading.pop()
                reading[-1].arguments.append(self._evaluate(done))
            else:  # a field of a struct, or an element of a later Arrow version
                raise _RefusedError(_WISH, str(expression))
        return self._condition(reading[0].arguments[0])[0]

    def _evaluate(self, call: _FunctionCall[F]) -> _Node[F]:
        """Convert a complete call to a condition."""
        if call.name in ("and_kleene", "or_kleene"):
            (true, false), (true_, false_) = map(self._condition, call.arguments)
            if call.name == "and_kleene":
                return _Node(call.text, true & true_, false | false_)
            return _Node(call.text, true | true_, false & false_)
        if call.name == "invert":
            true, false = self._condition(call.arguments[0])
            return _Node(call.text, false, true)
        if call.name in _SWAPPED:
            return self._compare(call)
        if call.name in self._tests and call.arguments[0].column is not None:
            return _Node(call.text, *self._tests[call.name](call, call.arguments[0].column))
        raise _refused(call)

    def _condition(self, node: _Node[F]) -> tuple[F, F]:
        """Return the filters for the rows where a part is true and where it is false."""
        if node.true is not None and node.false is not None:
            return node.true, node.false
        if node.column is not None:
            return self._make(**{node.column: True}), self._make(**{node.column: False})
        value = None if node.constant is None else node.constant.as_py()
        if value is None:
            return self._no_row, self._no_row
        if not isinstance(value, bool):
            raise _RefusedError("a condition", node.text)
        return (self._every_row, self._no_row) if value else (self._no_row, self._every_row)

    def _compare(self, call: _FunctionCall[F]) -> _Node[F]:
        left, right = call.arguments
        name = call.name
        if left.constant is not None:
            left, right, name = right, left, _SWAPPED[name]
        if left.column is None or right.constant is None:
            raise _refused(call)
        value = _constant(right.constant, call)
        if value is None:
            return _Node(call.text, self._no_row, self._no_row)
        column = left.column
        equal, present = self._make(**{column: value}), self._make(**{column: NotNull()})
        if name in ("equal", "not_equal"):
            true = equal if name == "equal" else present & ~equal
            return _Node(call.text, true, present & ~equal if name == "equal" else equal)
        ends = (None, value) if name.startswith("less") else (value, None)
        true = self._make(**{column: ends})
        if not name.endswith("equal"):
            true = true & ~equal
        return _Node(call.text, true, present & ~true)

    def _is_in(self, call: _FunctionCall[F], column: str) -> tuple[F, F]:
        nulls = call.options["null_matching_behavior"].as_py()
        if nulls not in (_NULLS_MATCH, _NULLS_ARE_SKIPPED):
            raise _refused(call)
        constants = [_constant(one, call) for one in call.options["value_set"].values]
        if any(isinstance(one, float) and math.isnan(one) for one in constants):
            raise _RefusedError("isin without NaN (or is_nan)", call.text)
        true = self._make(**{column: [one for one in constants if one is not None]})
        if nulls == _NULLS_MATCH and None in constants:
            true = true | self._make(**{column: IsNull()})
        return true, ~true

    def _is_null(self, call: _FunctionCall[F], column: str) -> tuple[F, F]:
        true = self._make(**{column: IsNull()})
        if "nan_is_null" in call.options and call.options["nan_is_null"].as_py():
            true = true | self._is_nan(call, column)[0]
        return true, ~true

    def _is_valid(self, call: _FunctionCall[F], column: str) -> tuple[F, F]:
        return self._make(**{column: NotNull()}), self._make(**{column: IsNull()})

    def _is_nan(self, call: _FunctionCall[F], column: str) -> tuple[F, F]:
        ordered = self._make(**{column: (-math.inf, math.inf)})
        return self._make(**{column: NotNull()}) & ~ordered, ordered


def _constant(scalar: pa.Scalar, call: _FunctionCall[Any]) -> Any:
    """Convert a constant for use in a filter; None for null. Times keep their nanoseconds."""
    if isinstance(scalar, pa.DictionaryScalar):
        scalar = scalar.value
    if not scalar.is_valid:
        return None
    kind = scalar.type
    if pa.types.is_timestamp(kind):  # counts from 1970 in UTC, also with a time zone
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


def _refused(call: _FunctionCall[Any]) -> _RefusedError:
    return _RefusedError(_WISH, call.text)
