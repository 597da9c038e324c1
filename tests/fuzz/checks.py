"""One case of the fuzz, from one seed: a random index lives a random history and is asked.

Checked are: every id, score bit, order and returned value against the oracle; that a query's reply
is the same alone as in its batch (L4) and with other tenants' rows altered (L2); that bad tables
and arguments get a typed error and change nothing.
"""

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import hyrecall as hr
from fuzz.kinds import EPOCH, NANOSECONDS, Kind
from fuzz.world import World, draw_documents, draw_world, values
from hyrecall._core import shaping as native
from laws import engine
from oracle.corpus import Draw, draw_call, draw_mix, draw_text
from oracle.documents import Call, Row, Shape
from oracle.life import Life
from oracle.recall import DEFAULT_DEPTH, Oracle

MESSAGE = re.compile(r".+: expected .+, got .+", re.DOTALL)
EVERYTHING = 10**6
N_QUERIES = 5
CALLS = 3
NOWS = [
    dt.datetime(2026, 1, 3, 5, 6, 7, 123457),
    dt.datetime.min,
    dt.datetime.max,
    dt.datetime(1677, 1, 1),
    dt.datetime(2263, 1, 1),
]


class Broken(AssertionError):  # noqa: N818 - the verdict of a check
    """A case that does not hold; the message names the seed that repeats it."""


class Counts(NamedTuple):
    """What a case checked."""

    queries: int = 0
    values: int = 0
    refusals: int = 0

    def plus(self, other: "Counts") -> "Counts":
        """Both together."""
        return Counts(*map(sum, zip(self, other, strict=True)))


class Pools(Oracle):
    """The oracle's whole fused list, which stages take; depth does not grow with the limit."""

    def depth(self, call: Call) -> int:
        """What is said."""
        return DEFAULT_DEPTH if call.depth is None else call.depth


def run_case(seed: int, folder: Path) -> Counts:
    """Run the case of a seed."""
    try:
        return _run(Draw(seed), folder)
    except Exception as fault:
        raise Broken(f"--fuzz-seed={seed}: {type(fault).__name__}: {fault}") from fault


def _run(draw: Draw, folder: Path) -> Counts:
    world = draw_world(draw)
    life = Life(draw_documents(draw, world))
    index = hr.Index.build(
        world.table(draw, life.rows), world.schema(),
        analyzer=hr.Analyzer("word") if world.shape.lexical else None, device="cpu",
    )  # fmt: skip
    counts = Counts()
    for step in range(draw.randrange(4)):
        index = _change(draw, world, life, index, folder / str(step))
        counts = counts.plus(Counts(refusals=_refuse(draw, world, life, index)))
    for _ in range(CALLS):
        counts = counts.plus(_ask(draw, world, life.rows, index))
    return counts


# ---- history ----


def _change(draw: Draw, world: World, life: Life, index: hr.Index, folder: Path) -> hr.Index:
    kind = draw.choice(("add", "upsert", "update", "delete", "compact", "reopen"))
    if kind == "add":
        rows = draw_documents(draw, world, taken=life.rows, most=12)
        life.add(rows)
        index.add(world.table(draw, rows))
    elif kind == "upsert":
        old = draw.sample(life.rows, min(len(life.rows), 4))
        rows = [replace(row, attributes={**row.attributes, **values(draw, world)}) for row in old]
        rows += draw_documents(draw, world, taken=life.rows, most=3)
        life.upsert(rows)
        index.upsert(world.table(draw, rows))
    elif kind == "update":
        old, schema = draw.sample(life.rows, min(len(life.rows), 4)), world.schema()
        rows = [replace(row, attributes={**row.attributes, **values(draw, world)}) for row in old]
        names = draw.sample(schema.attributes, draw.randint(1, len(schema.attributes)))
        life.update(rows, names)
        named = [schema.key, *schema.cell_columns, *names]
        index.update(world.table(draw, rows).select(named))
    elif kind == "delete":
        gone = draw.sample(life.rows, min(len(life.rows), draw.randrange(8)))
        scopes = [frozenset([row.cell]) for row in gone]
        keys = [world.key(row.key) for row in gone]
        expected = life.delete([row.key for row in gone], scopes)
        said = {"scope": [world.scope(one) for one in scopes]} if world.shape.cell else {}
        assert index.delete(keys, **said) == expected
    elif kind == "compact":
        index.compact()
    else:
        index.save(folder)
        index = hr.Index.open(folder, device="cpu", memory=draw.choice(("mmap", "ram")))
    assert len(index) == len(life.rows)
    _hold(world, life.rows, index)
    return index


def _hold(world: World, rows: Sequence[Row], index: hr.Index) -> None:
    """Each cell counts and returns its own documents."""
    for cell in {row.cell: None for row in rows}:
        said = {"scope": world.scope([cell])} if world.shape.cell else {}
        keys = [world.key(row.key) for row in rows if row.cell == cell]
        assert index.count(**said) == len(keys)
        assert index.get(keys, **said)["key"].to_pylist() == keys


def _refuse(draw: Draw, world: World, life: Life, index: hr.Index) -> int:
    """Offer a bad table and bad arguments; each gets a typed error, and nothing changes."""
    rows = draw_documents(draw, world, taken=life.rows, most=5)
    n = len(index)
    refused = 0
    if rows:
        table = world.table(draw, rows)
        spoilt = [(name, spoil(draw, table.column(name))) for name in table.column_names]
        name, bad = draw.choice([(name, bad) for name, bad in spoilt if bad is not None])
        at = table.column_names.index(name)
        refused += _is_refused(lambda: index.upsert(table.set_column(at, name, bad)))
    hostile = draw.choice((np.array([1, 2]), np.array(1.0), "\ud800", b"\xff", object(), [[1]]))
    name = draw.choice(("columns", "scope", "shaping", "arms", "fusion", "limit", "filter", "now"))
    said = {"scope": "ana"} if world.shape.cell else {}
    asked = {"text": ["ash"]} if world.shape.lexical else {"vectors": [None]}
    refused += _is_refused(lambda: index.recall(**{**asked, **said, name: hostile}), may_pass=True)
    assert len(index) == n
    return refused


def _is_refused(call: Any, *, may_pass: bool = False) -> int:
    said = None
    try:
        call()
    except hr.HyrecallError as fault:
        said = str(fault)
    if said is None:
        assert may_pass, "a bad table was taken"
        return 0
    assert MESSAGE.fullmatch(said), said
    assert said.encode()  # it can be printed
    return 1


def spoil(draw: Draw, column: pa.ChunkedArray) -> pa.Array | None:
    """The column with bytes or offsets that its type does not allow; None: its type allows all."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return None
    n = len(column)
    offsets = np.arange(n + 1, dtype=np.int64)
    data = b"x" * n
    if n > 1 and draw.chance(0.5):
        offsets[draw.randrange(1, n)] = draw.choice((2**40, n + 3990, -7))
    else:
        data = data[:-1] + b"\xff"
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_string(), n, buffers)


# ---- requests ----


def _ask(draw: Draw, world: World, rows: Sequence[Row], index: hr.Index) -> Counts:
    shape = world.shape
    oracle = Oracle(shape, rows)
    call = draw_call(draw, oracle, N_QUERIES)
    if draw.chance(0.6):  # with floors of its own, which lie on scores of the call that was drawn
        filters = tuple(
            world.draw_filter(draw) if draw.chance(0.7) else None for _ in range(N_QUERIES)
        )
        call = replace(call, filters=filters)
    columns = draw.sample(sorted(world.kinds), draw.randrange(len(world.kinds) + 1))
    options: dict[str, Any] = {"columns": columns, "now": draw.choice(NOWS)}
    stage = _draw_stage(draw, world, call)
    arms = _draw_arms(draw, world, call)
    if arms:
        options["arms"] = arms
    if stage is not None:
        options["shaping"] = stage
    if stage is not None or arms:
        depth = max(call.depth or DEFAULT_DEPTH, call.limit + call.offset)
        call = replace(call, depth=depth)
    said = _arguments(world, call) | options
    table = index.recall(**said).to_arrow()
    hits = index.recall(**said)
    replies = _replies(world, hits, table)
    checked = 0
    for query, reply in enumerate(replies):
        if not arms and (stage is None or isinstance(stage, hr.Recency)):
            expected = _expected(world, rows, oracle, call, query, stage, options["now"])
            assert [hit[:3] for hit in reply] == [hit[:3] for hit in expected], (
                f"query {query} of {call.take([query])} with {options}:"
                f"\nexpected {expected}\ngot {reply}"
            )
            checked += 1
    n_values = _check_columns(world, rows, hits, columns)
    _check_alone(draw, world, index, call, options, table)
    _check_apart(draw, world, rows, call, options, index)
    return Counts(queries=checked, values=n_values)


def _arguments(world: World, call: Call) -> dict[str, Any]:
    said = engine.arguments(replace_cell(world.shape), replace(call, filters=None))
    if call.filters is not None:
        said["filter"] = [None if f is None else world.filter(f) for f in call.filters]
    if world.shape.cell:
        said["scope"] = [world.scope(cells) for cells in call.scopes]
    return said


def replace_cell(shape: Shape) -> Shape:
    """The shape without cells, whose scopes are said elsewhere."""
    return replace(shape, cell=())


def _draw_stage(draw: Draw, world: World, call: Call) -> Any:
    if draw.chance(0.4):
        return None
    times = [name for name, kind in world.kinds.items() if kind.is_time]
    name = draw.choice(times)
    half_life = draw.choice(("1d", "30d", "36500d", 1.5))
    recency = hr.Recency(name, half_life=half_life, exponent=draw.choice((1.0, 0.5)))
    others = [
        hr.Composite(time=name, half_life=half_life, rating="number"),
        hr.Provenance("kind", weights={"note": 2.0, "fact": 0.5}),
        hr.Budget(40, column=draw.choice(world.shape.text_columns)),
        hr.RerankBy(
            lambda _, texts: [float(len(text)) for text in texts],
            column=draw.choice(world.shape.text_columns),
        ),
    ]
    if len(world.shape.dense) == 1:
        others.append(hr.MMR(0.5))
        others.append(hr.Dedup(0.9))
    return recency if draw.chance(0.6) else draw.choice(others)


def _draw_arms(draw: Draw, world: World, call: Call) -> list[Any]:
    """Arms that the oracle does not know: their replies are compared with one another only."""
    if draw.chance(0.7) or call.fusion is not None or call.min_score or call.min_fused is not None:
        return []
    times = [name for name in world.attributes if world.kinds[name].is_time]
    arms = [
        hr.arms.Newest(draw.choice(["at", *times])),
        hr.arms.Regex((draw.choice(world.shape.text_columns),), pattern="gro|é"),
        hr.arms.Tags("tags"),
    ]
    return draw.sample(arms, draw.randint(1, 3))


def _replies(world: World, hits: hr.Hits, table: pa.Table) -> list[list[tuple[Any, ...]]]:
    out: list[list[tuple[Any, ...]]] = [[] for _ in range(len(hits))]
    keys, scores = table.column("key").to_pylist(), table.column("score").to_pylist()
    cells = [table.column(name).to_pylist() for name in world.shape.cell]
    for at, query in enumerate(table.column("query").to_pylist()):
        out[query].append((keys[at], tuple(values[at] for values in cells), scores[at]))
    return out


def _expected(
    world: World,
    rows: Sequence[Row],
    oracle: Oracle,
    call: Call,
    query: int,
    stage: hr.Recency | None,
    now: dt.datetime,
) -> list[tuple[Any, ...]]:
    """(key, cell, score) of each hit."""
    if stage is None:
        found = oracle.recall(call, query)
        return [(world.key(hit.key), world.cell(hit.cell), hit.score) for hit in found]
    pool = Pools(world.shape, rows).recall(replace(call, limit=EVERYTHING, offset=0), query)
    places = {row.identity: at for at, row in enumerate(rows)}
    kind = world.kinds[stage.column]
    ranked = []
    for hit in pool:
        raw = rows[places[hit.cell, hit.key]].attributes[stage.column]
        factor = _factor(kind, raw, stage, now)
        ranked.append((hit, places[hit.cell, hit.key], hit.score * factor, factor))
    if any(factor != 1.0 for *_, factor in ranked):
        ranked.sort(key=lambda one: (-one[2], one[1]))
    cut = ranked[call.offset : call.offset + call.limit]
    return [(world.key(hit.key), world.cell(hit.cell), score) for hit, _, score, _ in cut]


def _factor(kind: Kind, raw: int | None, stage: hr.Recency, now: dt.datetime) -> float:
    """0.5 ^ (exponent x age / half_life), of an age in exact integers."""
    if raw is None:
        return 1.0
    fine = min(NANOSECONDS[kind.unit], 1000)
    instant = (now - EPOCH) // dt.timedelta(microseconds=1) * (1000 // fine)
    age = float(instant - raw * (NANOSECONDS[kind.unit] // fine)) / (10**9 // fine)
    half_life = {"1d": 86_400.0, "30d": 2_592_000.0, "36500d": 3_153_600_000.0}.get(
        str(stage.half_life), 1.5
    )
    return float(native.recency_factors(np.array([age]), half_life, stage.exponent)[0])


def _check_columns(world: World, rows: Sequence[Row], hits: hr.Hits, columns: list[str]) -> int:
    by_identity = {(world.cell(row.cell), world.key(row.key)): row for row in rows}
    checked = 0
    lists = hits.to_list()
    for query, found in enumerate(hits):
        for at, hit in enumerate(found):
            row = by_identity[hit.cell, hit.key]
            for name in columns:
                raw = row.attributes[name]
                wanted = None if raw is None else world.kinds[name].shown(raw)
                for got in (hit[name], lists[query][at][name]):
                    assert plainly(got) == plainly(wanted), f"{world.kinds[name].name}: {raw!r}"
                checked += 1
        if len(found) and found[0].score == found[0].score:
            assert found[0].explain().score == found[0].score
    return checked


def plainly(value: Any) -> str:
    """A value in one spelling: equal values of one type, and no others, have it in common."""
    if isinstance(value, list):
        return f"[{', '.join(map(plainly, value))}]"
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return f"{value.astimezone(dt.UTC).isoformat()} {value.utcoffset()}"
    is_time = isinstance(value, np.datetime64)  # NumPy 2.5 does not print the least of some units
    return f"{value.dtype} {value.astype(np.int64)}" if is_time else repr(value)


def _of_query(table: pa.Table, query: int) -> bytes:
    mine = table.filter(pc.equal(table.column("query"), query)).drop(["query"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, mine.schema) as stream:
        stream.write_table(mine.combine_chunks().take(pa.array(range(mine.num_rows), pa.int64())))
    return bytes(sink.getvalue())


def _check_alone(
    draw: Draw, world: World, index: hr.Index, call: Call, options: dict[str, Any], table: pa.Table
) -> None:
    """L4: each query's reply is the one it gets alone."""
    for query in draw.sample(range(N_QUERIES), 2):
        alone = index.recall(**_arguments(world, call.take([query])), **options)
        got = alone.to_arrow()
        assert _of_query(got, 0) == _of_query(table, query), f"query {query} alone is another"
        alone.to_list()


def _check_apart(
    draw: Draw, world: World, rows: Sequence[Row], call: Call, options: dict[str, Any],
    index: hr.Index,
) -> None:  # fmt: skip
    """L2: a query's reply stays what it is when rows outside its scope change."""
    if not world.shape.cell:
        return
    query = draw.randrange(N_QUERIES)
    mix = draw_mix(draw)
    others = [
        row if row.cell in call.scopes[query] else replace(
            row,
            texts=dict.fromkeys(row.texts, draw_text(draw, mix)),
            attributes={**row.attributes, **values(draw, world)},
        )
        for row in rows
    ]  # fmt: skip
    built = [
        hr.Index.build(
            world.table(draw, those), world.schema(),
            analyzer=hr.Analyzer("word") if world.shape.lexical else None, device="cpu",
        )
        for those in (rows, others)
    ]  # fmt: skip
    said = _arguments(world, call) | options
    mine, theirs = (_of_query(one.recall(**said).to_arrow(), query) for one in built)
    assert mine == theirs, f"query {query} depends on rows outside its scope"
    assert mine == _of_query(index.recall(**said).to_arrow(), query), f"query {query} has history"


def one_seed(seed: int, folder: Path) -> Counts:
    """Run the case of a seed in a folder of its own."""
    own = folder / f"seed-{seed}"
    own.mkdir(parents=True, exist_ok=True)
    return run_case(seed, own)
