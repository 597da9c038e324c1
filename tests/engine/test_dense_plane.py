"""The dense scan through its planes: the same replies as the plain scan, whatever the rows.

The plain scan is held to the oracle by the laws; `HYRECALL_FRONT_PLANE` says which of the two runs.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from engine.head_definition import Floats, Plane, check_definition
from engine.planted_planes import (
    ChangePlane,
    lost_rows,
    no_residual,
    scale_of_the_block,
    shifted_rows,
    with_plane,
)
from hyrecall import _core


@pytest.fixture(autouse=True, params=["int8", "head8", "head4"])
def _forced(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYRECALL_FRONT_PLANE", request.param)


def built(vectors: object, *, threads: int = 1, cells: int = 1) -> hr.Index:
    n = len(vectors)  # type: ignore[arg-type]
    table = pa.table({"id": np.arange(n), "cell": np.arange(n) % cells, "at": np.arange(n) % 7})
    return hr.Index.build(
        table,
        hr.Schema(key="id", cell=("cell",), text=(), vector="embedding", attributes=("at",)),
        vectors={"embedding": vectors},
        device="cpu",
        threads=threads,
    )


@dataclass
class World:
    rows: Floats
    queries: Floats


def random_world(seed: int, n: int, dim: int) -> World:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, dim))
    return World(rows.astype(np.float32), rng.standard_normal((40, dim)).astype(np.float32))


def near_duplicates(n: int, dim: int, noise: float) -> World:
    world = random_world(1, n, dim)
    centre = world.queries[0]
    close = (centre + noise * world.rows).astype(np.float32)
    rows = np.where(np.arange(n)[:, None] % 3 == 0, close, world.rows)
    return World(rows, np.concatenate([world.queries[:20], close[:20]]))


def outlier_dimensions(n: int, dim: int) -> World:
    world = random_world(2, n, dim)
    world.rows[:, :3] *= 40
    world.queries[:, :3] *= 40
    return world


def corners_of_the_cube(n: int, dim: int) -> World:
    """Every code is +-127."""
    world = random_world(3, n, dim)
    return World(np.sign(world.rows), np.sign(world.queries))


def ties(n: int, dim: int) -> World:
    """Few different rows, each in many tiles."""
    world = random_world(4, n, dim)
    return World(world.rows[np.arange(n) % 5], world.queries)


def holes(n: int, dim: int) -> World:
    world = random_world(5, n, dim)
    world.rows[::3] = 0
    world.queries[::4] = 0
    return world


WORLDS: dict[str, Callable[[int, int], World]] = {
    "random": lambda n, dim: random_world(0, n, dim),
    "duplicates": lambda n, dim: near_duplicates(n, dim, 0.0),
    "near-duplicates": lambda n, dim: near_duplicates(n, dim, 1e-4),
    "outliers": outlier_dimensions,
    "corners": corners_of_the_cube,
    "ties": ties,
    "holes": holes,
}


def ask(index: hr.Index, queries: Floats, limit: int, cells: int = 1) -> pa.Table:
    """Queries in scopes of their own, some with a filter, some with a floor: one call each."""
    scopes = [hr.Scope([q % cells, (q * 3 + 1) % cells]) for q in range(len(queries))]
    filters = [hr.Filter(at=(0, q % 7)) if q % 3 == 0 else None for q in range(len(queries))]
    tables = [
        index.recall(vectors=queries, scope=scopes, limit=limit, depth=limit),
        index.recall(vectors=queries, scope=scopes, filter=filters, limit=limit, depth=limit),
        index.recall(vectors=queries[:1], scope=0, limit=limit, min_score={"embedding": 0.1}),
        index.recall(vectors=queries, scope=0, limit=limit, min_score={"embedding": hr.Above(0.5)}),
    ]
    return pa.concat_tables([t.to_arrow() for t in tables])


def is_plain_reply(
    monkeypatch: pytest.MonkeyPatch, index: hr.Index, queries: Floats, limit: int, cells: int = 1
) -> bool:
    """Whether the reply through the plane is the plain scan's."""
    through_plane = ask(index, queries, limit, cells)
    with monkeypatch.context() as patch:
        patch.setenv("HYRECALL_FRONT_PLANE", "rows")
        plain = ask(index, queries, limit, cells)
    return bool(through_plane.equals(plain))


@pytest.mark.plain_cases(10)
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("dim", [3, 17, 64, 70])
def test_replies_are_the_plain_scans(world: str, dim: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made = WORLDS[world](3001, dim)
    for threads, cells, limit in ((1, 1, 10), (2, 5, 1), (3, 40, 100)):
        index = built(made.rows, threads=threads, cells=cells)
        assert is_plain_reply(monkeypatch, index, made.queries, limit, cells)
        assert index.stats()["segments"][0]["plane"]["embedding"]["windows"] > 0


@pytest.mark.plain_cases(1)
def test_replies_of_a_large_single_cell_split_among_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for made in (near_duplicates(30_000, 20, 1e-5), ties(30_000, 20), random_world(7, 30_000, 20)):
        index = built(made.rows, threads=3)
        for n_queries in (1, 7, 40):
            assert is_plain_reply(monkeypatch, index, made.queries[:n_queries], 25)


def test_tables_of_every_small_size(monkeypatch: pytest.MonkeyPatch) -> None:
    made = random_world(6, 50, 9)
    for n in range(1, 51):
        index = built(made.rows[:n], cells=3)
        assert is_plain_reply(monkeypatch, index, made.queries[:3], 5, 3)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_rows_of_16_bits(dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    made = near_duplicates(2000, 33, 1e-2)
    schema = hr.Schema(key="id", cell=None, text=(), vector="embedding")
    index = hr.Index.build(
        pa.table({"id": np.arange(2000)}),
        schema,
        vectors={"embedding": made.rows.astype(dtype)},
        device="cpu",
    )
    through_plane = index.recall(vectors=made.queries, limit=20, depth=20).to_arrow()
    monkeypatch.setenv("HYRECALL_FRONT_PLANE", "rows")
    assert through_plane.equals(index.recall(vectors=made.queries, limit=20, depth=20).to_arrow())


def changed(index: hr.Index, rows: Floats) -> None:
    """Add, delete and put together: what merges copy is what a build makes."""
    n = len(rows)
    columns = {"id": np.arange(n, 2 * n), "cell": np.arange(n) % 5, "at": np.arange(n) % 7}
    index.add(pa.table(columns), vectors={"embedding": rows})
    gone = list(range(0, 2 * n, 3))
    index.delete(gone, scope=[g % n % 5 for g in gone])


def test_deleted_and_merged_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    made = near_duplicates(2000, 24, 1e-3)
    index = built(made.rows, cells=5)
    changed(index, made.rows[::-1].copy())
    assert is_plain_reply(monkeypatch, index, made.queries, 30, 5)
    index.compact()
    assert is_plain_reply(monkeypatch, index, made.queries, 30, 5)
    (segment,) = index._state.segments
    column = segment.dense["embedding"]
    rows = column.rows.view(np.float32).reshape(-1, 24)
    fresh = _core.DenseColumn.build(
        "embedding", "float32", 24, [rows], np.zeros(0, np.uint8),
        np.arange(len(rows), dtype=np.uint32), 1,
    )  # fmt: skip
    for merged, made_anew in zip(column.int8_plane, fresh.int8_plane, strict=True):
        assert np.array_equal(merged, made_anew)
    if column.head is not None:  # learnt from the rows of both
        check_definition(rows, column.head)


def parts_of(index: hr.Index) -> list[np.ndarray]:
    """The arrays of the int8 plane and of the heads."""
    column = index._state.segments[0].dense["embedding"]
    directions, heads = column.head or (np.zeros(0, np.float32), ())
    return [*column.int8_plane, directions, *heads]


def test_planes_and_heads_are_saved_and_opened(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = random_world(8, 1500, 30)
    index = built(made.rows, cells=2)
    index.save(tmp_path)
    for memory in ("mmap", "ram"):
        opened = hr.Index.open(tmp_path, memory=memory)
        for ours, theirs in zip(parts_of(index), parts_of(opened), strict=True):
            assert np.array_equal(ours, theirs)
        assert is_plain_reply(monkeypatch, opened, made.queries, 10, 2)
    monkeypatch.setenv("HYRECALL_FRONT_PLANE", "rows")
    small = built(made.rows[:100], cells=2)  # too few rows for a plane of its own accord
    small.save(f"{tmp_path}/small")
    again = hr.Index.open(f"{tmp_path}/small")
    monkeypatch.setenv("HYRECALL_FRONT_PLANE", "int8")
    assert again._state.segments[0].dense["embedding"].int8_plane is None
    assert ask(again, made.queries, 10, 2).equals(ask(small, made.queries, 10, 2))


def test_exploding_queries_go_plain_and_stats_tells() -> None:
    rng = np.random.default_rng(9)
    centre = rng.standard_normal(32)
    rows = (centre + 1e-4 * rng.standard_normal((20_000, 32))).astype(np.float32)
    index = built(rows)
    assert index.stats()["segments"][0]["plane"]["embedding"] == {"windows": 0, "plain": 0}
    index.recall(vectors=centre[None].astype(np.float32), scope=0, limit=10, depth=10)
    use = index.stats()["segments"][0]["plane"]["embedding"]
    assert 0 < use["plain"] <= use["windows"] == math.ceil(20_000 / 4096)
    index.recall(vectors=rng.standard_normal((1, 32)).astype(np.float32), scope=0, limit=10)


# ---- the plane itself ----


def plane_by_definition(rows: Floats) -> Plane:
    """Codes, scales and residuals of each row, from kernels/int8_bound.hpp's definitions."""
    n, dim = rows.shape
    wide = np.zeros((n, math.ceil(dim / 32) * 32))
    wide[:, :dim] = rows
    norms = np.sqrt(fold(sum_lanes(wide**2)))
    has = norms > 0
    unit = wide / np.where(has, norms, 1)[:, None]
    scales = (np.abs(unit).max(axis=1) / 127.0).astype(np.float32)
    steps = unit / np.where(has, scales, 1)[:, None].astype(np.float64)
    codes = np.trunc(np.clip(steps + np.where(steps < 0, -0.5, 0.5), -127, 127))
    left = unit - scales[:, None].astype(np.float64) * codes
    root = np.sqrt(fold(sum_lanes(left**2)))
    slack = (dim // 32 + 1 + 16) * 2.0**-52
    exact = root + (root * slack + slack)
    up = exact.astype(np.float32)
    up = np.where(up.astype(np.float64) < exact, np.nextafter(up, np.float32(np.inf)), up)
    codes, scales = np.where(has[:, None], codes, 0), np.where(has, scales, np.float32(0))
    return codes[:, :dim].astype(np.int8), scales, np.where(has, up, -np.inf).astype(np.float32)


def sum_lanes(squares: Floats) -> Floats:
    lanes = np.zeros((len(squares), 32))
    for begin in range(0, squares.shape[1], 32):
        lanes = lanes + squares[:, begin : begin + 32]
    return lanes


def fold(lanes: Floats) -> Floats:
    for width in (16, 8, 4, 2, 1):
        lanes = lanes[:, :width] + lanes[:, width : 2 * width]
    return lanes[:, 0]


def unpacked(column: _core.DenseColumn) -> Plane:
    assert column.int8_plane is not None
    codes, scales, residuals = column.int8_plane
    n, steps = len(column.inverse_norms), -(-column.dim // 4)
    blocks = codes.reshape(-1, steps, 16, 4).transpose(0, 2, 1, 3).reshape(-1, steps * 4)
    signed = (blocks.astype(np.int16) - 128).astype(np.int8)
    assert not signed[:, column.dim :].any()
    assert not signed[n:].any()
    assert np.all(np.isneginf(residuals[n:]))
    assert signed[n:].size >= 960  # what a kernel may read past the last row
    return signed[:n, : column.dim], scales[:n], residuals[:n]


@pytest.mark.parametrize("dim", [1, 3, 4, 31, 32, 33, 100])
def test_the_plane_is_its_definition_bit_for_bit(dim: int) -> None:
    for world in WORLDS.values():
        rows = world(200, dim).rows
        column = _core.DenseColumn.build(
            "v", "float32", dim, [rows], np.zeros(0, np.uint8), np.arange(200, dtype=np.uint32), 2
        )
        for got, wanted in zip(unpacked(column), plane_by_definition(rows), strict=True):
            assert np.array_equal(got, wanted)


# ---- planted bugs: planes that a scan must not be able to live with ----


@pytest.mark.plain_cases(4)
@pytest.mark.parametrize("bug", [no_residual, scale_of_the_block, shifted_rows, lost_rows])
def test_a_planted_bug_in_the_plane_is_seen(
    bug: ChangePlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    for name in ("random", "outliers", "near-duplicates"):
        made = WORLDS[name](3001, 64)
        assert is_plain_reply(
            monkeypatch, with_plane(built(made.rows), lambda plane: plane), made.queries, 10
        )
        broken = with_plane(built(made.rows), bug)
        seen.append(not is_plain_reply(monkeypatch, broken, made.queries, 10))
    assert any(seen)


def test_a_plane_of_another_size_is_refused() -> None:
    column = _core.DenseColumn.build(
        "v", "float32", 8, [np.ones((40, 8), np.float32)], np.zeros(0, np.uint8),
        np.arange(40, dtype=np.uint32), 1,
    )  # fmt: skip
    codes, scales, residuals = column.int8_plane
    with pytest.raises(hr.CorruptIndexError, match="expected a plane of"):
        _core.DenseColumn.from_parts(
            "v",
            "float32",
            8,
            column.rows,
            column.inverse_norms,
            ((codes[:-1], scales, residuals), None),
        )
