"""What each kernel of a dense search has to move and to multiply, and how long that takes at least.

The counts are those of the plan (docs/kernels/dense.md): rows that are read, once a set of queries
that may see them, the products with these queries, and the copies. Bytes that come from L2 and
candidates, whose number depends on the data, are left out, so a kernel takes longer than this.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

TILE = 128  # rows
SAMPLED_ROWS = 16  # of which a sample keeps the best score
PANEL = 32  # queries
WIDE_BYTES = 192 << 10  # of the queries of a wide panel
ITEM_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
LEAST_CAPACITY, LEAST_STRIDE, SAMPLE_TILES = 8_192, 64, 128  # of choose_tuning()


@dataclass(frozen=True)
class Tuning:
    """A DenseTuning of csrc/kernels/settings.hpp."""

    capacity: int
    seed_tiles: int
    stride: int

    def __str__(self) -> str:
        return f"{self.capacity},{self.seed_tiles},{self.stride}"


def choose_tuning(
    depth: int, rows: int, stride: int = LEAST_STRIDE, capacity: int = LEAST_CAPACITY
) -> Tuning:
    """Return what choose_tuning() of csrc/device/dense_tuning.cpp does, for a column of rows."""
    room = capacity + 32 * depth
    sampled = max(SAMPLE_TILES * LEAST_STRIDE // stride, 1)
    wanted = -(-tiles_of(rows) // sampled)
    return Tuning(room, 2 * room // TILE, max(stride, 1 << (wanted - 1).bit_length()))


@dataclass
class Work:
    """Bytes over one way, and operations."""

    nbytes: float = 0.0
    flops: float = 0.0
    way: str = "copy"  # copy: in order; gather: rows at random; down, up: between host and device

    def ms(self, ceilings: dict[str, Any], plane: str) -> float | None:
        """Return the longer of both times at the measured ceilings; None where none was."""
        way = "bandwidth_gb_s" if self.way == "copy" else f"{self.way}_gb_s"
        rate = "int8_top_s" if plane == "int8" else "rate_tflop_s"
        if way not in ceilings or rate not in ceilings:
            return None
        return float(max(self.nbytes / ceilings[way] / 1e6, self.flops / ceilings[rate] / 1e9))


def tiles_of(rows: int) -> int:
    """Return how many tiles hold the rows."""
    return -(-rows // TILE)


def row_bytes(dim: int, plane: str) -> int:
    """Return the bytes of a row in a plane, with its scale and residual or its inverse norm."""
    values = dim if plane == "int8" else 2 * dim
    return -(-values // 128) * 128 + (8 if plane == "int8" else 4)


def widest_scan(scans: Iterable[str], dim: int, plane: str) -> int:
    """Return the queries of the widest panel: names as HYRECALL_CUDA_KERNELS has them."""
    most = WIDE_BYTES // (row_bytes(dim, plane) // 128 * 128)
    widths = (int(name.split(":")[1]) for name in scans if name.startswith(f"{plane}:"))
    return max((width for width in widths if width <= most), default=PANEL)


def works(
    cohorts: Sequence[tuple[int, int]],
    *,
    dim: int,
    dtype: str,
    plane: str,
    k: int,
    widest: int,
    tuning: Tuning,
) -> dict[str, Work]:
    """Return the work of each kernel; cohorts are (rows, queries that read them)."""
    nbytes = row_bytes(dim, plane)
    n_queries = sum(queries for _, queries in cohorts)
    first, rest, wide, guess = Work(), Work(), Work(), Work()
    for rows, queries in cohorts:
        tiles = tiles_of(rows)
        is_whole = tiles <= tuning.seed_tiles
        sampled = rows if is_whole else -(-tiles // tuning.stride) * TILE
        first.nbytes += sampled * nbytes
        first.flops += 2.0 * sampled * dim * queries
        if is_whole:
            continue
        guess.nbytes += sampled // SAMPLED_ROWS * 4 * queries
        scan = wide if queries > PANEL < widest else rest
        scan.nbytes += rows * nbytes
        scan.flops += 2.0 * rows * dim * queries
    found = {
        "copy in": Work(n_queries * dim * 4, way="down"),
        "prepare_queries": Work(n_queries * (4 * dim + nbytes)),
        f"scan of the first tiles, {PANEL} wide": first,
        "guess_thresholds": guess,
        f"scan of the rest, {PANEL} wide": rest,
        "pick_best": Work(n_queries * k * dim * ITEM_BYTES[dtype], way="gather"),
        "copy out": Work(n_queries * k * 16, way="up"),
    }
    if widest > PANEL:
        found[f"scan of the rest, {widest} wide"] = wide
    return found


def floor_ms(found: dict[str, Work], ceilings: dict[str, Any], plane: str) -> float | None:
    """Return the time of all scans as if they were one kernel: their bytes and their products."""
    scans = [work for name, work in found.items() if name.startswith("scan of the")]
    both = Work(sum(scan.nbytes for scan in scans), sum(scan.flops for scan in scans))
    return both.ms(ceilings, plane)
