"""Arrow expressions as filters: they keep the rows that Arrow's own ``Table.filter`` keeps."""

import datetime as dt
import math
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hyrecall as hr
from laws.effort import Effort
from seams import attribute_column, compile_filter

Expression = pc.Expression

TYPES: dict[str, pa.DataType] = {
    "n": pa.int64(),
    "small": pa.uint8(),
    "price": pa.float64(),
    "word": pa.large_string(),
    "at": pa.timestamp("us", "UTC"),
    "day": pa.date32(),
    "flag": pa.bool_(),
    "odd name) or (": pa.int64(),
}
VALUES: dict[str, tuple[Any, ...]] = {
    "n": (-2, -1, 0, 1, 2, 3),
    "small": (0, 1, 7, 255),
    "price": (-1.5, 0.0, 0.25, 2.0, math.inf, math.nan),
    "word": ("", "a", "b", 'say "b"', "éclair", "日本"),
    "at": tuple(dt.datetime(2026, 1, 1 + day, tzinfo=dt.UTC) for day in range(4)),
    "day": tuple(dt.date(2026, 1, 1 + day) for day in range(4)),
    "flag": (True, False),
    "odd name) or (": (1, 2),
}


def kept(table: pa.Table, filter: hr.Filter) -> list[int]:  # noqa: A002
    """The rows that a filter of ours matches."""
    program = compile_filter(filter, TYPES)
    columns = [attribute_column(table[name]) for name in TYPES]
    return [row for row, matches in enumerate(program.evaluate(columns)) if matches]


def kept_by_arrow(table: pa.Table, expression: Expression) -> list[int]:
    rows = pa.array(range(table.num_rows))
    numbered = table.append_column("row", rows).filter(expression)
    return sorted(numbered["row"].to_pylist())


def draw_table(draw: random.Random) -> pa.Table:
    n = draw.choice((0, 1, 20, 300))
    return pa.table(
        {
            name: pa.array(
                [None if draw.random() < 0.2 else draw.choice(VALUES[name]) for _ in range(n)], kind
            )
            for name, kind in TYPES.items()
        }
    )


def draw_leaf(draw: random.Random) -> Expression:
    name = draw.choice(list(TYPES))
    column, values = pc.field(name), VALUES[name]
    value = draw.choice(values)
    if draw.random() < 0.3:
        sets: list[Callable[[], Expression]] = [
            column.is_null,
            column.is_valid,
            lambda: pc.is_in(column, value_set=listed(draw, name), skip_nulls=True),
            lambda: pc.is_in(column, value_set=listed(draw, name)),
            lambda: column.isin(listed(draw, name)),
        ]
        if name == "price":
            sets += [column.is_nan, lambda: column.is_null(nan_is_null=True)]
        if name == "flag":
            sets += [lambda: column]
        return draw.choice(sets)()
    if draw.random() < 0.1:
        value = None
    scalar = pa.scalar(value, TYPES[name])
    if name == "flag":
        return draw.choice((column == scalar, column != scalar))
    return draw.choice(
        (
            column == scalar,
            column != scalar,
            column < scalar,
            column <= scalar,
            column > scalar,
            pc.scalar(scalar) >= column,
        )
    )


def listed(draw: random.Random, name: str) -> pa.Array:
    some = draw.sample([v for v in VALUES[name] if str(v) != "nan"], draw.randint(0, 2))
    return pa.array(some + [None] * draw.randint(0, 1), TYPES[name])


def draw_expression(draw: random.Random, depth: int = 0) -> Expression:
    kind = draw.random()
    if depth == 4 or kind < 0.3:
        return draw_leaf(draw)
    if kind < 0.35:
        return pc.scalar(draw.choice((True, False)))
    left = draw_expression(draw, depth + 1)
    if kind < 0.55:
        return ~left
    right = draw_expression(draw, depth + 1)
    return left & right if kind < 0.8 else left | right


def test_random_expressions_keep_the_rows_that_arrow_keeps(effort: Effort) -> None:
    n_some = 0
    for seed in range(effort.cases(quick=200, full=20_000)):
        draw = random.Random(seed)
        table, expression = draw_table(draw), draw_expression(draw)
        expected = kept_by_arrow(table, expression)
        assert kept(table, hr.Filter.expression(expression)) == expected, f"{seed}: {expression}"
        n_some += 0 < len(expected) < table.num_rows
    assert n_some > effort.cases(quick=50, full=5000)


def test_a_plain_complement_inside_the_expression_would_be_seen() -> None:
    table = pa.table({name: pa.array([None], kind) for name, kind in TYPES.items()})
    inside = ~(pc.field("n") == 3)
    assert kept_by_arrow(table, inside) == kept(table, hr.Filter.expression(inside)) == []
    assert kept(table, ~hr.Filter.expression(pc.field("n") == 3)) == [0]


X = pc.field("x")
TRANSLATED = [
    (X == 3, "Filter(x=3)"),
    (X <= 3, "Filter(x=(None, 3))"),
    (pc.scalar(3) < X, "Filter(x=(3, None)) & ~Filter(x=3)"),
    (X != "a", "Filter(x=NotNull()) & ~Filter(x='a')"),
    (X.isin([2, 1]), "Filter(x=[2, 1])"),
    (X.isin([1, None]), "Filter(x=[1]) | Filter(x=IsNull())"),
    (X.is_null(), "Filter(x=IsNull())"),
    (~X.is_null(), "~Filter(x=IsNull())"),
    (X.is_valid() & (X > 1.5), "Filter(x=NotNull()) & Filter(x=(1.5, None)) & ~Filter(x=1.5)"),
    (X, "Filter(x=True)"),
    (pc.field("a.b c") == 1, "Filter(**{'a.b c': 1})"),
    (pc.scalar(True), "Filter()"),
    (pc.scalar(False), "~Filter()"),
    (pa.scalar(None, pa.int8()) == X, "~Filter()"),
    (pa.scalar("a").dictionary_encode() == X, "Filter(x='a')")
    if hasattr(pa.scalar("a"), "dictionary_encode")
    else (pa.array(["a"]).dictionary_encode()[0] == X, "Filter(x='a')"),
]


@pytest.mark.parametrize(("expression", "shown"), TRANSLATED, ids=str)
def test_a_translation_shows_as_a_filter(expression: Expression, shown: str) -> None:
    made = hr.Filter.expression(expression)
    assert repr(made) == shown
    assert made == hr.Filter.expression(expression)


REFUSED = [
    (X + 1 == 3, "add_checked(x, 1)"),
    (X.cast("int32") == 3, "cast(x)"),
    (pc.field("y") == X, "(y == x)"),
    (pc.scalar(1) == pc.scalar(1), "(1 == 1)"),
    (pc.starts_with(X, "a") & (X == 1), "starts_with(x)"),
    ((X == 1).is_null(), "is_null((x == 1))"),
    (X == b"a", "(x == b'a')"),
    (pc.scalar("a") & X, "'a'"),
    (X.isin([1.0, math.nan]), "is_in(x)"),
    (pc.field("a", "b") == 1, "FieldRef.Nested(FieldRef.Name(a) FieldRef.Name(b)) == 1"),
    (pc.field(0) == 1, "FieldPath(0)"),
    (pa.scalar(1, pa.time64("ns")) == X, "(x == "),
    (pc.xor(X, X), "xor(x, x)"),
    (pc.if_else(X, True, False), "if_else(x, True, False)"),
]


@pytest.mark.parametrize(("expression", "piece"), REFUSED, ids=str)
def test_what_a_filter_cannot_say_is_refused_and_shown(expression: Any, piece: str) -> None:
    with pytest.raises(hr.OptionError, match=r"^expression: expected .*, got ") as caught:
        hr.Filter.expression(expression)
    assert piece in str(caught.value)
    assert caught.value.argument == "expression"


@pytest.mark.parametrize("given", ["x == 3", None, 3, hr.Filter(x=3), X.__class__])
def test_only_an_expression_is_one(given: object) -> None:
    with pytest.raises(hr.OptionError, match=r"expected a pyarrow\.compute\.Expression, got"):
        hr.Filter.expression(given)


def test_constants_that_no_column_takes_are_refused_by_the_column() -> None:
    import decimal

    with pytest.raises(hr.OptionError, match=r"^x: expected a str, .*, got Decimal"):
        hr.Filter.expression(pa.scalar(decimal.Decimal("1.5")) == X)


def test_nanoseconds_and_time_zones_survive() -> None:
    moment = pa.scalar(1_767_225_600_000_000_001, pa.timestamp("ns", "Europe/Berlin"))
    kind = pa.timestamp("ns", "UTC")
    program = compile_filter(hr.Filter.expression(moment == X), {"x": kind})
    values = pa.array([moment.value - 1, moment.value, None], pa.int64()).cast(pa.timestamp("ns"))
    column = attribute_column(values.cast(kind))
    assert program.evaluate([column]).tolist() == [False, True, False]
    lasting = hr.Filter.expression(pa.scalar(5, pa.duration("ns")) < X)
    program = compile_filter(lasting, {"x": pa.duration("us")})
    lengths = attribute_column(pa.array([0, 1], pa.duration("us")))
    assert program.evaluate([lengths]).tolist() == [False, True]


def test_a_long_chain_is_no_deep_tree() -> None:
    chain = pc.field("n") == 0
    for value in range(1, 1200):  # more than Python lets functions nest
        chain = chain | (pc.field("n") == value)
    made = hr.Filter.expression(chain)
    assert len(made.parts) == 1200


def test_recall_takes_an_expression_as_its_filter_alone_or_one_per_query() -> None:
    table = pa.table({"id": [1, 2, 3], "text": ["tea"] * 3, "n": [1, 2, 3]})
    schema = hr.Schema(key="id", cell=None, text="text", attributes="n")
    index = hr.Index.build(table, schema)
    above = pc.field("n") > 1
    assert index.recall_one(text="tea", filter=above).keys == [2, 3]
    joined = hr.Filter.expression(above) & ~hr.Filter(n=2)
    assert index.recall_one(text="tea", filter=joined).keys == [3]
    hits = index.recall(text=["tea"] * 4, filter=[above, None, hr.Filter(n=1), above])
    assert [one.keys for one in hits] == [[2, 3], [1, 2, 3], [1], [2, 3]]
    with pytest.raises(hr.OptionError, match=r"^filter: expected a column against a constant"):
        index.recall(text=["tea"], filter=pc.field("n") + 1 > 2)
    with pytest.raises(hr.OptionError, match=r"^filter\[1\]: expected a column against a constant"):
        index.recall(text=["tea"] * 2, filter=[above, pc.field("n") + 1 > 2])
    with pytest.raises(hr.OptionError, match=r"^m: expected an attribute column \(n\), got an unk"):
        index.recall(text=["tea"], filter=pc.field("m") > 1)
    with pytest.raises(
        hr.OptionError, match=r"^filter: .* got \{'n': 1\}; hr.Filter\(\*\*\{'n': 1"
    ):
        index.recall(text=["tea"], filter={"n": 1})  # type: ignore[arg-type]
