"""Calls that wait together are one batch, and rows that join an index take its types."""

from __future__ import annotations

import asyncio
import datetime as dt
import random
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import hyrecall as hr
from laws.effort import Effort
from seams import Joiner, cast_line
from small_index import refused

# ---- calls ----


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as made:
        yield made


class Engine:
    """Answers ``n`` with ``n * 10``, in batches that wait for a gate; 13 fails."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.gate, self.began = threading.Event(), threading.Semaphore(0)

    def run(self, calls: Sequence[int]) -> list[int]:
        self.batches.append(list(calls))
        self.began.release()
        assert self.gate.wait(10)
        if 13 in calls:
            raise ValueError("13")
        return [one * 10 for one in calls]

    async def has_begun(self) -> None:
        await asyncio.to_thread(self.began.acquire)


def joined(
    pool: ThreadPoolExecutor,
    work: Callable[[Engine, Joiner[int, int]], Awaitable[Any]],
    most: int = 64,
) -> Engine:
    async def run() -> Engine:
        engine = Engine()
        await work(engine, Joiner(engine.run, pool, max_joined=most))
        return engine

    return asyncio.run(run())


async def behind(
    engine: Engine, joiner: Joiner[int, int], calls: Sequence[tuple[Any, ...]], *key: str
) -> list[Any]:
    """What a first call, and those that wait while it runs, return or raise."""
    first = asyncio.create_task(joiner.call(0, *key))
    await engine.has_begun()
    others = [asyncio.create_task(joiner.call(*one)) for one in calls]
    await asyncio.sleep(0)
    engine.gate.set()
    return await asyncio.gather(first, *others, return_exceptions=True)


def test_an_idle_engine_runs_at_once_and_what_comes_meanwhile_is_the_next_batch(
    pool: ThreadPoolExecutor,
) -> None:
    async def work(engine: Engine, joiner: Joiner[int, int]) -> None:
        replies = await behind(engine, joiner, [(n,) for n in range(1, 6)])
        assert replies == [0, 10, 20, 30, 40, 50]
        assert (joiner.n_calls, joiner.n_batches) == (6, 3)

    assert joined(pool, work, most=3).batches == [[0], [1, 2, 3], [4, 5]]


def test_only_calls_of_one_key_are_joined_and_their_order_holds(pool: ThreadPoolExecutor) -> None:
    async def work(engine: Engine, joiner: Joiner[int, int]) -> None:
        await behind(engine, joiner, [(1, "b"), (2, "a"), (3, "b"), (4, "c")], "a")

    assert joined(pool, work).batches == [[0], [1, 3], [2], [4]]


def test_a_call_that_fails_fails_alone(pool: ThreadPoolExecutor) -> None:
    async def work(engine: Engine, joiner: Joiner[int, int]) -> None:
        replies = await behind(engine, joiner, [(12,), (13,), (14,)])
        assert replies[:2] + replies[3:] == [0, 120, 140]
        assert isinstance(replies[2], ValueError)
        assert await joiner.call(15) == 150

    joined(pool, work)


@pytest.mark.parametrize(("n", "most"), [(2, 3), (16, 9), (64, 13)])
def test_one_wrong_call_of_many_costs_few_batches_more(
    pool: ThreadPoolExecutor, n: int, most: int
) -> None:
    async def work(engine: Engine, joiner: Joiner[int, int]) -> None:
        calls = [100 + at for at in range(n)]
        calls[n // 3] = 13
        replies = await behind(engine, joiner, [(one,) for one in calls])
        assert isinstance(replies.pop(1 + n // 3), ValueError)
        assert replies == [0, *(10 * one for one in calls if one != 13)]
        assert len(engine.batches) - 1 <= most
        assert joiner.n_calls == n + 1

    joined(pool, work)


def test_an_error_of_the_whole_batch_is_met_once(pool: ThreadPoolExecutor) -> None:
    async def run() -> None:
        engine = Engine()
        joiner: Joiner[int, int] = Joiner(
            engine.run, pool, max_joined=64, fails_all=lambda fault: str(fault) == "13"
        )
        replies = await behind(engine, joiner, [(12,), (13,), (14,)])
        assert replies[0] == 0
        assert [type(one) for one in replies[1:]] == [ValueError] * 3
        assert engine.batches == [[0], [12, 13, 14]]

    asyncio.run(run())


def test_a_cancelled_call_leaves_the_queue_or_its_reply_is_dropped(
    pool: ThreadPoolExecutor,
) -> None:
    async def work(engine: Engine, joiner: Joiner[int, int]) -> None:
        running = [asyncio.create_task(joiner.call(0))]
        await engine.has_begun()
        waiting = [asyncio.create_task(joiner.call(n)) for n in (1, 2, 3)]
        await asyncio.sleep(0)
        running[0].cancel()
        waiting[1].cancel()
        engine.gate.set()
        replies = await asyncio.gather(*running, *waiting, return_exceptions=True)
        assert [replies[1], replies[3]] == [10, 30]
        assert isinstance(replies[0], asyncio.CancelledError)
        assert isinstance(replies[2], asyncio.CancelledError)

    assert joined(pool, work).batches == [[0], [1, 3]]


def test_with_a_third_of_the_calls_cancelled_no_reply_is_another_ones(
    pool: ThreadPoolExecutor, effort: Effort
) -> None:
    draw = random.Random(20260501)

    async def work(engine: Engine, joiner: Joiner[int, int]) -> None:
        engine.gate.set()

        async def one(n: int) -> bool:
            task = asyncio.create_task(joiner.call(n, n % 3))
            if draw.random() < 0.3:
                for _ in range(draw.randrange(4)):
                    await asyncio.sleep(0)
                task.cancel()
            try:
                assert await task == n * 10
            except asyncio.CancelledError:
                return False
            return True

        n_calls = effort.cases(quick=300, full=10_000)
        numbers = [n for n in range(n_calls + 20) if n != 13]
        answered = await asyncio.gather(*map(one, numbers))
        assert 0.6 < sum(answered) / len(answered) < 0.95

    joined(pool, work)


# ---- nulls have any type, and no value changes on the way ----

DAY = dt.date(2024, 2, 29)
COLUMNS: dict[str, pa.Array] = {
    "n": pa.array([7]),
    "half": pa.array([0.5], pa.float16()),
    "single": pa.array([0.5], pa.float32()),
    "day": pa.array([DAY]),
    "at": pa.array([dt.datetime(2024, 2, 29)], pa.timestamp("us", "UTC")),
    "kind": pa.array(["note"]),
    "tags": pa.array([["a"]]),
    "sizes": pa.array([[1]], pa.list_(pa.int16())),
    "levels": pa.array([[0.5]], pa.list_(pa.float32())),
}
SCHEMA = hr.Schema(
    key="id",
    cell="user",
    text="text",
    attributes=tuple(COLUMNS),
    cluster="day",
    stored=("text", "extra"),
)
EXTRA = pa.struct([("a", pa.float32()), ("b", pa.int8())])


def row(key: int, **columns: Any) -> pa.Table:
    """One document of ana's; attributes are those of the first unless given."""
    rest = {name: columns.pop(name, array) for name, array in COLUMNS.items()}
    extra = columns.pop("extra", pa.array([{"a": 0.5, "b": 1}], EXTRA))
    plain: dict[str, Any] = {"id": [key], "user": ["ana"], "text": ["tea"]}
    return pa.table({**plain, **columns, **rest, "extra": extra})


def built() -> hr.Index:
    return hr.Index.build(row(0), SCHEMA)


def value(index: hr.Index, key: int, name: str, cell: Any = "ana") -> Any:
    hits = index.recall_one(text="tea", scope=hr.Scope([cell]))
    return next(hit[name] for hit in hits if hit.key == key)


# ---- columns that hold nothing ----


@pytest.mark.parametrize("verb", ["add", "upsert"])
@pytest.mark.parametrize("name", [*COLUMNS, "text", "extra"])
def test_a_column_of_nulls_only_joins_any_column(name: str, verb: str) -> None:
    index = built()
    getattr(index, verb)(row(1, **{name: [None]}))
    hits = index.recall(vectors=None, text=["tea"], scope="ana", columns=[name]).to_arrow()
    types = hr.Index.build(row(0), SCHEMA).recall(text=["tea"], scope="ana", columns=[name])
    assert hits.schema.equals(types.to_arrow().schema)
    assert len(index) == 2
    if name != "text":
        assert value(index, 1, name) is None
        index.compact()
        assert value(index, 1, name) is None
        assert value(index, 0, name) is not None


def test_a_cell_of_nulls_only_is_the_null_cell() -> None:
    for first in (["ana"], [1], [True]):
        index = hr.Index.build(row(0, user=first), SCHEMA)
        index.add(row(1, user=[None]))
        assert index.recall_one(text="tea", scope=hr.Scope([None])).keys == [1]


@pytest.mark.parametrize("name", ["tags", "sizes", "levels"])
def test_lists_of_nothing_and_of_nulls_join_a_column_of_lists(name: str) -> None:
    index = built()
    index.add(row(1, **{name: [[]]}))
    index.add(row(2, **{name: [[None]]}))
    index.add(row(3, **{name: pa.array([[None, None]], pa.list_(pa.null(), 2))}))
    assert [value(index, key, name) for key in (1, 2, 3)] == [[], [None], [None, None]]
    found = index.recall_one(text="tea", scope="ana", filter=hr.Filter(**{name: hr.IsNull()}))
    assert found.keys == []


def test_none_of_pandas_and_polars_joins_a_date_column() -> None:
    table = pa.table({"id": [0], "text": ["tea"], "day": [DAY]})
    schema = hr.Schema(key="id", cell=None, text="text", attributes="day", cluster="day")
    index = hr.Index.build(table, schema)
    index.add(pd.DataFrame({"id": [1], "text": ["tea"], "day": [None]}))
    index.add(pl.DataFrame({"id": [2], "text": ["tea"], "day": [None]}))
    assert index.recall_one(text="tea", filter=hr.Filter(day=hr.IsNull())).keys == [1, 2]
    index.add(pa.table({"id": [], "text": [], "day": []}))
    assert len(index) == 3


@pytest.mark.parametrize("name", ["kind", "text", "day", "at", "tags", "user", "extra"])
def test_a_column_that_pandas_writes_as_nan_joins_any_column(name: str) -> None:
    index = built()
    index.add(row(1, **{name: pa.Table.from_pandas(pd.DataFrame({"c": [np.nan]}))["c"]}))
    cell = None if name == "user" else "ana"
    assert index.get([1], scope=hr.Scope([cell]), columns=[name])[name].to_pylist() == [None]


def test_a_list_of_nothing_is_no_number_and_build_still_asks_for_a_type() -> None:
    index = built()
    refused(
        lambda: index.add(row(1, n=[[None]])),
        hr.DTypeError,
        "n: expected int64, the index's type, got large_list<item: null>",
    )
    for name in ("n", "user"):
        with pytest.raises(hr.DTypeError, match=rf"^{name}: expected .+, got null; cast it: "):
            hr.Index.build(row(0, **{name: [None]}), SCHEMA)


# ---- values that would change ----

NAN = float("nan")
EXACT: list[tuple[str, pa.Array, Any]] = [
    ("single", pa.array([0.25], pa.float64()), 0.25),
    ("single", pa.array([-1.5], pa.float16()), -1.5),
    ("single", pa.array([float("inf")]), float("inf")),
    ("half", pa.array([65504.0]), 65504.0),
    ("levels", pa.array([[0.5, None, -2.0]]), [0.5, None, -2.0]),
    ("n", pa.array([255], pa.uint8()), 255),
    ("n", pa.array([2.0]), 2),
    ("n", pa.array([3], pa.int32()), 3),
    ("single", pa.array([3]), 3.0),
    ("kind", pa.array(["note"], pa.string()).dictionary_encode(), "note"),
    ("day", pa.array([DAY], pa.date64()), DAY),
    ("day", pa.array([dt.datetime(2024, 2, 29)]), DAY),
    ("day", pa.array([dt.datetime(2024, 2, 29)], pa.timestamp("ns", "Europe/Paris")), DAY),
    ("at", pa.array([DAY]), dt.datetime(2024, 2, 29, tzinfo=dt.UTC)),
    ("extra", pa.array([{"b": 3, "a": 2.5}]), {"a": 2.5, "b": 3}),
    ("extra", pa.array([{"b": None, "a": 2.5}]), {"a": 2.5, "b": None}),
]


@pytest.mark.parametrize(("name", "column", "wanted"), EXACT, ids=str)
def test_values_that_the_index_holds_exactly_join(name: str, column: pa.Array, wanted: Any) -> None:
    index = built()
    index.add(row(1, **{name: column}))
    assert value(index, 1, name) == wanted


def test_whole_floats_join_integer_keys_and_cells() -> None:
    schema = hr.Schema(key="id", cell="team", text="text")
    index = hr.Index.build(pa.table({"id": [1], "team": [7], "text": ["tea"]}), schema)
    index.add(pa.table({"id": [2.0], "team": [7.0], "text": ["tea"]}))
    assert index.recall_one(text="tea", scope=7).keys == [1, 2]
    with pytest.raises(hr.KeyConflictError):
        index.add(pa.table({"id": [1.0], "team": [7.0], "text": ["tea"]}))


def test_a_day_that_no_time_of_the_index_holds_is_refused() -> None:
    at = pa.array([dt.datetime(2024, 2, 29)], pa.timestamp("ns"))
    schema = hr.Schema(key="id", cell=None, text="text", attributes="at")
    index = hr.Index.build(pa.table({"id": [0], "text": ["tea"], "at": at}), schema)
    with pytest.raises(hr.DTypeError, match=r"^at: expected values that .+ in row 1$"):
        index.add({"id": [1, 2], "text": ["tea"] * 2, "at": [DAY, dt.date(2600, 1, 1)]})


def test_nan_joins_as_nan() -> None:
    index = built()
    index.add(row(1, single=pa.array([NAN]), half=pa.array([NAN]), levels=pa.array([[NAN, 1.0]])))
    assert np.isnan([value(index, 1, "single"), value(index, 1, "half")]).all()
    assert np.isnan(value(index, 1, "levels")[0])
    index.add(row(2, extra=pa.array([{"a": NAN, "b": None}])))
    assert np.isnan(value(index, 2, "extra")["a"])


CHANGED: list[tuple[str, list[Any], str]] = [
    ("single", [0.5, 1e300], "values that float, the index's type, holds exactly, got 1e+300"),
    ("single", [NAN, 0.1], "values that float, the index's type, holds exactly, got 0.1"),
    ("half", [None, 2049.0], "values that halffloat, the index's type, holds exactly, got 2049.0"),
    ("levels", [[0.5], [NAN, 0.1]], "values that large_list<item: float>"),
    ("sizes", [[1], [None, 2**20]], "values that large_list<item: int16>"),
    ("n", pa.array([1, 2**63], pa.uint64()), "values that int64"),  # type: ignore[list-item]
    ("extra", [{"a": 0.5, "b": 1}, {"a": 0.1, "b": 1}], "values that struct"),
]


@pytest.mark.parametrize("verb", ["add", "upsert"])
@pytest.mark.parametrize(("name", "values", "wish"), CHANGED, ids=str)
def test_a_value_that_would_change_is_refused_with_its_row(
    name: str, values: Any, wish: str, verb: str
) -> None:
    index = built()
    table = pa.concat_tables([row(key, **{name: pa.array(values)[key:][:1]}) for key in (0, 1)])
    table = table.set_column(0, "id", pa.array([10, 11]))
    with pytest.raises(hr.DTypeError) as caught:
        getattr(index, verb)(table)
    assert str(caught.value).startswith(f"{name}: expected {wish}")
    assert " in row 1" in str(caught.value)
    assert caught.value.argument == name  # type: ignore[attr-defined]
    assert len(index) == 1


def test_the_row_of_a_changed_value_is_found_anywhere() -> None:
    index = hr.Index.build(
        pa.table({"id": [0], "text": ["tea"], "x": pa.array([0.5], pa.float32())}),
        hr.Schema(key="id", cell=None, text="text", attributes="x"),
    )
    for n_rows in (1, 2, 3, 64, 101):
        for bad in {0, 1, n_rows // 2, n_rows - 1} & set(range(n_rows)):
            values = np.full(n_rows, 0.25)
            values[bad] = 0.1
            halves = [values[: n_rows // 3], values[n_rows // 3 :]]
            table = pa.table(
                {
                    "id": np.arange(1, n_rows + 1),
                    "text": ["tea"] * n_rows,
                    "x": pa.chunked_array(halves, pa.float64()),
                }
            )
            refused(
                lambda table=table: index.add(table),
                hr.DTypeError,
                "x: expected values that float, the index's type, holds exactly, got 0.1 "
                f"in row {bad}; round it: pc.cast(table['x'], pa.float32(), safe=False)",
            )


# ---- the line that fixes it ----

OTHERS: list[tuple[str, Any, str]] = [
    ("n", ["7"], "int64, the index's type, got large_string; cast it: "
     "pc.cast(table['n'], pa.int64())"),
    ("n", [7.5], "values that int64, the index's type, holds exactly, got 7.5 in row 0"),
    ("n", [NAN], "values that int64, the index's type, holds exactly, got nan in row 0; make it "
     "null: pc.if_else(pc.is_nan(table['n']), None, table['n'])"),
    ("n", [Decimal(7)], "int64, the index's type, got decimal128(1, 0); cast it: "
     "pc.cast(table['n'], pa.int64())"),
    ("kind", [7], "large_string, the index's type, got int64; cast it: "
     "pc.cast(table['kind'], pa.large_string())"),
    ("at", ["2024-02-29"], "timestamp[us, tz=UTC], the index's type, got large_string; read it: "
     "pc.assume_timezone(pc.cast(table['at'], pa.timestamp('us')), 'UTC')"),
    ("day", [dt.datetime(2024, 2, 29, 5)], "values that date32[day], the index's type, holds "
     "exactly, got 2024-02-29 05:00:00 in row 0; drop its time: pc.cast(table['day'], "
     "pa.date32())"),
    ("id", [5.5], "values that int64, the index's type, holds exactly, got 5.5 in row 0"),
    ("id", [True], "int64, the index's type, got bool; cast it: "
     "pc.cast(table['id'], pa.int64())"),
    ("sizes", [["1"]], "large_list<item: int16>, the index's type, got large_list<item: "
     "large_string>; cast it: pc.cast(table['sizes'], pa.list_(pa.int16()))"),
    ("sizes", [1], "large_list<item: int16>, the index's type, got int64"),
    ("user", [1], "large_string, the index's type, got int64; cast it: "
     "pc.cast(table['user'], pa.large_string())"),
    ("id", ["x"], "int64, the index's type, got large_string"),
    ("id", ["5"], "int64, the index's type, got large_string; cast it: "
     "pc.cast(table['id'], pa.int64())"),
    ("extra", [{"a": 0.5, "c": 2}], "struct<a: float, b: int8>, the index's type, got "
     "struct<a: double, c: int64>"),
    ("extra", [1], "struct<a: float, b: int8>, the index's type, got int64"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "values", "message"), OTHERS, ids=str)
def test_another_type_than_the_indexs_is_refused_with_the_cast_to_it(
    name: str, values: Any, message: str
) -> None:
    index = built()
    refused(
        lambda: index.add(row(1, **{name: values})), hr.DTypeError, f"{name}: expected {message}"
    )


@pytest.mark.parametrize(
    "kind",
    [
        *(pa.bool_(), pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.float64()),
        *(pa.large_string(), pa.date32(), pa.date64(), pa.time32("ms"), pa.time64("ns")),
        *(pa.timestamp("s"), pa.timestamp("ns", "Europe/Paris"), pa.duration("ms")),
        pa.list_(pa.timestamp("us", "UTC")),
    ],
    ids=str,
)
def test_the_cast_in_a_message_makes_the_type(kind: pa.DataType) -> None:
    found = pa.list_(pa.null()) if pa.types.is_list(kind) else pa.null()
    line = cast_line(pa.chunked_array([pa.nulls(1, found)]), kind, "x")
    assert line.startswith("cast it: pc.cast(table['x'], ")
    assert eval(line.removeprefix("cast it: pc.cast(table['x'], ")[:-1], {"pa": pa}) == kind
