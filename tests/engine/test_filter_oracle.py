"""Filters against their definition, and Arrow's expressions against Arrow's own filter."""

import datetime as dt
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hyrecall as hr
from laws.effort import Effort
from seams import AllOf, Between, Filter, IsNull, NoneOf, NotNull, attribute_column, compile_filter

# ---- on random columns and random trees ----

NONE, SOME, ALL = 0, 1, 2
TILE = 128

# --- The definition -------------------------------------------------------------------------------

Test = tuple[
    Any, ...
]  # ("eq", v) ("range", a, b) ("any", [v]) ("none", [v]) ("all", [v]) ("null",) ("set",)
# ("tests", {column: Test}), ("and" | "or", [Tree]) or ("not", Tree)
Tree = tuple[Any, ...]


def comparable(value: Any) -> Any:
    """What a value is compared by; Python compares int with float exactly."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, str):
        return value.encode()
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    if isinstance(value, dt.datetime):
        value = (value if value.tzinfo else value.replace(tzinfo=dt.UTC)) - epoch
    elif isinstance(value, dt.date):
        value = value - epoch.date()
    elif isinstance(value, dt.time):
        value = dt.datetime.combine(dt.date.min, value) - dt.datetime.min
    if isinstance(value, dt.timedelta):
        return Fraction((value.days * 86_400 + value.seconds) * 10**6 + value.microseconds, 10**6)
    return value


DAY = 86_400


def is_day(constant: Any) -> bool:
    return isinstance(constant, dt.date) and not isinstance(constant, dt.datetime)


def same(constant: Any, value: Any) -> bool:
    """On a column of times, where a value may lie between midnights, a date is the whole day."""
    first = comparable(constant)
    if is_day(constant):
        return bool(first <= value < first + DAY)
    return bool(first == value)


def in_range(value: Any, start: Any, end: Any) -> bool:
    if start is not None and value < comparable(start):
        return False
    if end is None or value <= comparable(end):
        return True
    return is_day(end) and bool(value < comparable(end) + DAY)


def holds(test: Test, elements: list[Any] | None, within: Callable[..., bool] = in_range) -> bool:
    """One test on one row: None for a null, else its elements (of a scalar, one)."""
    kind, constants = test[0], test[1:]
    present = elements or []
    if kind == "null":
        return elements is None
    if kind == "set":
        return elements is not None
    if kind == "eq":
        return any(same(constants[0], one) for one in present)
    if kind == "range":
        return any(within(one, *constants) for one in present)
    found = [any(same(constant, one) for one in present) for constant in constants[0]]
    if kind == "all":
        return elements is not None and all(found)
    return any(found) if kind == "any" else not any(found)


def matches(
    tree: Tree, row: dict[str, list[Any] | None], within: Callable[..., bool] = in_range
) -> bool:
    kind, inner = tree
    if kind == "tests":
        return all(holds(test, row[column], within) for column, test in inner.items())
    if kind == "not":
        return not matches(inner, row, within)
    return (all if kind == "and" else any)(matches(part, row, within) for part in inner)


def written_test(kind: str, *constants: Any) -> Any:
    if kind == "eq":
        return constants[0]
    if kind == "range":  # a pair of strings would be refused
        both_texts = all(isinstance(one, str) for one in constants)
        return Between(*constants) if both_texts else constants
    if kind == "any":
        return list(constants[0])
    if kind in {"none", "all"}:
        return NoneOf(*constants[0]) if kind == "none" else AllOf(*constants[0])
    return IsNull() if kind == "null" else NotNull()


def written(tree: Tree) -> Filter:
    """The same tree as a user would write it."""
    kind, inner = tree
    if kind == "not":
        return ~written(inner)
    if kind == "tests":
        return Filter(**{column: written_test(*test) for column, test in inner.items()})
    joined = written(inner[0])
    for part in inner[1:]:
        joined = joined & written(part) if kind == "and" else joined | written(part)
    return joined


# --- Random columns and filters -------------------------------------------------------------------

INTS = [0, 1, -1, 2, 3, 7, 127, -128, 2**31, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63)]
FLOATS = [0.0, -0.0, 1.0, 2.5, -2.5, 0.1, 5e-324, 1e300, 2.0**53, 2.0**63, -(2.0**63)]
FLOATS += [math.inf, -math.inf, math.nan]
TEXTS = [
    "",
    "a",
    "b",
    "ab",
    "\x00",
    "a\x00",
    "Z",
    "é",
    "e\u0301",
    "日本",
    "\U0001f600",
    "\uffff",
    "zz",
]
TEXTS += ["zz", "user-1", "user-10"]


@dataclass
class Kind:
    """A column type: a draw of raw values, what they mean to the oracle, a draw of constants."""

    arrow: pa.DataType
    value: Callable[[np.random.Generator], Any]
    constant: Callable[[np.random.Generator], Any]
    meaning: Callable[[Any], Any] = comparable
    has_order: bool = True


def pick(rng: np.random.Generator, options: list[Any]) -> Any:
    return options[rng.integers(len(options))]


def number(rng: np.random.Generator) -> Any:
    """A constant for any numeric column: of either type, in and out of range."""
    close = int(rng.integers(-20, 20))
    near = [close, close, close / 4, close + 0.5, np.int16(close), np.float32(0.1)]
    far = [pick(rng, INTS), pick(rng, FLOATS), 2**63, 2**64 - 1, 2**64, 10**400, -(10**400)]
    return pick(rng, near + far)


def int_kind(arrow: pa.DataType, bits: int, signed: bool) -> Kind:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)

    def value(rng: np.random.Generator) -> int:
        near = [int(rng.integers(-20, 20)), int(rng.integers(-20, 20))]
        near += [pick(rng, INTS), low, high, high - 1]
        return int(min(max(pick(rng, near), low), high))

    return Kind(arrow, value, number)


def float_kind(arrow: pa.DataType, dtype: type[np.floating[Any]]) -> Kind:
    def value(rng: np.random.Generator) -> Any:
        with np.errstate(over="ignore"):
            return dtype(pick(rng, [pick(rng, FLOATS), float(rng.integers(-80, 80)) / 4]))

    return Kind(arrow, value, number, float)


def moment_kind(arrow: pa.DataType, unit: Fraction, constant: Callable[..., Any]) -> Kind:
    """Raw integers of a unit in seconds; half of them are the times that constants take."""
    is_day = unit >= 86_400 or arrow == pa.date64()
    step, top = (Fraction(86_400), 12) if is_day else (Fraction(1, 4), 12)
    low = -top if pa.types.is_timestamp(arrow) or pa.types.is_duration(arrow) else 0

    def value(rng: np.random.Generator) -> int:
        if is_day or rng.random() < 0.5:
            return int(int(rng.integers(low, top)) * step / unit)
        return int(rng.integers(int(low * step / unit), int(top * step / unit)))

    return Kind(arrow, value, constant, lambda raw: raw * unit)


def instant(rng: np.random.Generator) -> dt.date:
    if rng.random() < 0.2:
        return dt.date(1970, 1, 1) + dt.timedelta(days=int(rng.integers(-2, 2)))
    moment = dt.datetime(1970, 1, 1) + span(rng)
    zone = pick(rng, [None, dt.UTC, dt.timezone(dt.timedelta(hours=5, minutes=45))])
    return moment if zone is None else moment.replace(tzinfo=dt.UTC).astimezone(zone)


def span(rng: np.random.Generator) -> dt.timedelta:
    return dt.timedelta(milliseconds=250 * int(rng.integers(-12, 12)))


def clock(rng: np.random.Generator) -> dt.time:
    return dt.time(second=rng.integers(3), microsecond=250_000 * rng.integers(4))


def day(rng: np.random.Generator) -> dt.date:
    return dt.date(1970, 1, 1) + dt.timedelta(days=int(rng.integers(-1, 13)))


def flag(rng: np.random.Generator) -> bool:
    return bool(rng.integers(2))


def kinds() -> dict[str, Kind]:
    made = {
        "half": float_kind(pa.float16(), np.float16),
        "single": float_kind(pa.float32(), np.float32),
        "double": float_kind(pa.float64(), np.float64),
        "flag": Kind(pa.bool_(), flag, flag, has_order=False),
        "text": Kind(
            pa.large_string(),
            lambda rng: pick(rng, TEXTS),
            lambda rng: pick(rng, [*TEXTS, "absent", "aa"]),
        ),
        "day32": moment_kind(pa.date32(), Fraction(86_400), day),
        "day64": moment_kind(pa.date64(), Fraction(1, 1000), day),
    }
    for bits in (8, 16, 32, 64):
        made[f"int{bits}"] = int_kind(getattr(pa, f"int{bits}")(), bits, True)
        made[f"uint{bits}"] = int_kind(getattr(pa, f"uint{bits}")(), bits, False)
    for i, unit in enumerate(("s", "ms", "us", "ns")):
        seconds = Fraction(1, 1000**i)
        made[f"naive_{unit}"] = moment_kind(pa.timestamp(unit), seconds, instant)
        made[f"aware_{unit}"] = moment_kind(pa.timestamp(unit, "Asia/Tokyo"), seconds, instant)
        made[f"span_{unit}"] = moment_kind(pa.duration(unit), seconds, span)
        of_day = pa.time32(unit) if unit in {"s", "ms"} else pa.time64(unit)
        made[f"clock_{unit}"] = moment_kind(of_day, seconds, clock)
    return made


KINDS = kinds()


def random_column(
    rng: np.random.Generator, kind: Kind, n: int, is_list: bool
) -> tuple[Any, list[Any]]:
    """An Arrow array, now and then sliced or chunked, and what its rows mean to the oracle."""
    p_null = pick(rng, [0.0, 0.1, 0.5, 1.0])
    before = int(rng.integers(0, 20))

    def maybe(draw: Callable[[], Any]) -> Any:
        return None if rng.random() < p_null else draw()

    def row_value() -> Any:
        if not is_list:
            return kind.value(rng)
        return [maybe(lambda: kind.value(rng)) for _ in range(rng.integers(0, 4))]

    rows = [maybe(row_value) for _ in range(n + before + 3)]
    if not is_list and rng.random() < 0.5:
        # Zones can then settle tiles. A NaN has no place in an order; it goes with the nulls.
        missing = [row for row in rows if row is None or row != row]  # noqa: PLR0124
        rows = sorted((row for row in rows if row not in missing), key=kind.meaning) + missing
    arrow = pa.large_list(kind.arrow) if is_list else kind.arrow
    array = pa.array(rows, arrow).slice(before, n)
    rows = rows[before : before + n]
    if rng.random() < 0.3:
        array = pa.chunked_array([array.slice(0, n // 2), array.slice(n // 2)], arrow)
    listed = [None if row is None else row if is_list else [row] for row in rows]
    return array, [
        None if row is None else [kind.meaning(one) for one in row if one is not None]
        for row in listed
    ]


def random_test(rng: np.random.Generator, kind: Kind, is_list: bool) -> Test:
    form = pick(
        rng, ["eq", "range", "range", "range", "any", "none", "null", "set"] + ["all"] * 2 * is_list
    )
    if form == "range" and not kind.has_order:
        form = "any"
    if form in {"null", "set"}:
        return (form,)
    if form == "eq":
        return (form, kind.constant(rng))
    if form == "range":
        ends = [None if rng.random() < 0.2 else kind.constant(rng) for _ in range(2)]
        return (form, *ends)
    return (form, [kind.constant(rng) for _ in range(rng.integers(0, 12))])


def random_tree(
    rng: np.random.Generator, columns: dict[str, tuple[Kind, bool]], depth: int
) -> Tree:
    form = pick(rng, ["tests", "and", "or", "not"]) if depth > 0 else "tests"
    if form == "tests":
        chosen = rng.permutation(list(columns))[: rng.integers(0 if depth == 3 else 1, 3)]
        return (form, {str(name): random_test(rng, *columns[name]) for name in chosen})
    if form == "not":
        return (form, random_tree(rng, columns, depth - 1))
    return (form, [random_tree(rng, columns, depth - 1) for _ in range(rng.integers(1, 4))])


@dataclass
class Tally:
    filters: int = 0
    wrong: list[str] = field(default_factory=list)
    unsound: list[str] = field(default_factory=list)
    tiles: dict[int, int] = field(default_factory=lambda: {NONE: 0, SOME: 0, ALL: 0})


def run_cases(seed: int, n_tables: int, within: Callable[..., bool] = in_range) -> Tally:
    rng = np.random.default_rng(seed)
    tally = Tally()
    for _ in range(n_tables):
        n = int(pick(rng, [0, 1, 2, 60, 127, 128, 129, 300]))
        names = [str(name) for name in rng.permutation(list(KINDS))[:3]]
        columns = {name: (KINDS[name], bool(rng.random() < 0.3)) for name in names}
        made = {name: random_column(rng, *columns[name][:1], n, columns[name][1]) for name in names}
        native = [attribute_column(array) for array, _ in made.values()]
        types = {name: array.type for name, (array, _) in made.items()}
        for _ in range(12):
            tree = random_tree(rng, columns, 3)
            program = compile_filter(written(tree), types)
            expected = [
                matches(tree, {name: rows[i] for name, (_, rows) in made.items()}, within)
                for i in range(n)
            ]
            got = program.evaluate(native).tolist()
            tally.filters += 1
            if got != expected:
                row = np.flatnonzero(np.not_equal(got, expected))[0]
                tally.wrong.append(f"{written(tree)!r} on {types}: row {row}")
            for tile, answer in enumerate(program.answers(native).tolist()):
                here = got[tile * TILE : (tile + 1) * TILE]
                tally.tiles[answer] += 1
                if (answer == NONE and any(here)) or (answer == ALL and not all(here)):
                    tally.unsound.append(f"{written(tree)!r}: tile {tile} of {types}")
    return tally


def test_random_filters_match_what_the_definition_matches(effort: Effort) -> None:
    n_tables = effort.cases(quick=30, full=2_000)
    tally = run_cases(0, n_tables)
    assert tally.filters == 12 * n_tables
    assert tally.wrong == []
    assert tally.unsound == []
    # Neither all doubt nor all certainty, so both halves of the engine were asked.
    assert min(tally.tiles.values()) > 30


def test_a_definition_with_an_exclusive_end_is_caught() -> None:
    def exclusive(value: Any, start: Any, end: Any) -> bool:
        return in_range(value, start, end) and (end is None or value != comparable(end))

    assert len(run_cases(0, 16, exclusive).wrong) > 5


@pytest.mark.slow
def test_a_definition_in_which_a_last_day_ends_at_midnight_is_caught() -> None:
    def at_midnight(value: Any, start: Any, end: Any) -> bool:
        return in_range(value, start, end) and (end is None or value <= comparable(end))

    assert len(run_cases(2, 60, at_midnight).wrong) > 5


# --- Zone maps settle what they can ---------------------------------------------------------------


def tile_answers(test: Any, array: pa.Array) -> list[int]:
    program = compile_filter(Filter(x=test), {"x": array.type})
    answers: list[int] = program.answers([attribute_column(array)]).tolist()
    return answers


def test_zone_maps_settle_every_tile_of_sorted_data_but_those_at_an_end() -> None:
    ordered = pa.array(range(100 * TILE))
    answers = tile_answers((10 * TILE + 5, 20 * TILE + 5), ordered)
    assert answers == [NONE] * 10 + [SOME] + [ALL] * 9 + [SOME] + [NONE] * 79
    assert tile_answers([5, 50 * TILE], ordered).count(SOME) == 2
    assert tile_answers(NoneOf(5, 50 * TILE), ordered).count(ALL) == 98


def test_zone_maps_settle_texts_lists_nulls_and_nan() -> None:
    texts = pa.array([f"{i // TILE:03d}" for i in range(8 * TILE)], pa.large_string())
    assert tile_answers("003", texts) == [NONE] * 3 + [ALL] + [NONE] * 4
    assert tile_answers(["001", "002", "absent"], texts) == [NONE] + [ALL] * 2 + [NONE] * 5
    assert tile_answers(Between("0021", "005"), texts) == [NONE] * 3 + [ALL] * 3 + [NONE] * 2
    lists = pa.array([[i // TILE, i // TILE] for i in range(4 * TILE)], pa.large_list(pa.int8()))
    assert tile_answers(AllOf(2), lists) == [NONE, NONE, ALL, NONE]
    assert tile_answers((1, 2), lists) == [NONE, ALL, ALL, NONE]
    gaps = pa.array([None] * TILE + [1] * TILE + [1, None] * (TILE // 2))
    assert tile_answers(IsNull(), gaps) == [ALL, NONE, SOME]
    assert tile_answers(NotNull(), gaps) == [NONE, ALL, SOME]
    assert tile_answers(1, gaps) == [NONE, ALL, SOME]
    nan = pa.array([math.nan] * TILE + [1.0] * TILE)
    assert tile_answers((None, 5), nan) == [NONE, ALL]
    assert tile_answers((None, None), nan) == [SOME, ALL]


def test_a_last_tile_that_is_not_full_answers_for_the_rows_it_has() -> None:
    assert tile_answers(7, pa.array([7] * (TILE + 3))) == [ALL, ALL]
    assert tile_answers(IsNull(), pa.array([None] * 3, pa.int64())) == [ALL]
    program = compile_filter(~Filter(x=1), {"x": pa.int64()})
    assert program.evaluate([attribute_column(pa.array([1, 2, None]))]).tolist() == [
        False,
        True,
        True,
    ]


# ---- arrow expressions keep the rows that Arrow's own filter keeps ----

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
