"""How many candidates the stages of a device's dense pass leave, on Gaussian rows, in numpy.

    python -m tools.stage_candidates --rows 1000000 --dim 768 --depth 100

Follows kernels/shared/dense_stages.hpp and choose_tuning() of device/dense_planner.cpp; the scores
and residuals are those of the int8 plane but for float32's roundings. docs/kernels/dense.md quotes
it.
"""

import argparse

import numpy as np
import numpy.typing as npt

TILE = 128
Floats = npt.NDArray[np.float64]


def quantize(rows: Floats) -> tuple[Floats, Floats]:
    """Return unit rows as int8 codes times a scale have them, and the norm of what is left."""
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    scales = np.abs(units).max(axis=1, keepdims=True) / 127
    planed = np.rint(units / scales) * scales
    return planed, np.linalg.norm(units - planed, axis=1)


def tuning(n_queries: int, depth: int) -> tuple[int, int, int]:
    """Return capacity, seed tiles and growth as choose_tuning() does."""
    least = 16384 + 32 * depth
    capacity = max(least, min(2**23 // n_queries, 2**17))
    growth = min(max(capacity // 16 // depth, 2), 4 if n_queries > 64 else 32)
    return capacity, capacity // 2 // TILE, growth


def stages(n_tiles: int, seed_tiles: int, growth: int) -> list[npt.NDArray[np.int64]]:
    """Return the tiles of each stage."""
    level, left = 0, n_tiles
    while left > seed_tiles and level < 7:
        left, level = -(-left // growth), level + 1
    tiles, taken = np.arange(n_tiles), np.zeros(n_tiles, bool)
    found = []
    for stage in range(level + 1):
        own = (tiles % growth ** (level - stage) == 0) & ~taken
        taken |= own
        found.append(tiles[own])
    return found


def most_candidates(
    scores: Floats, errors: Floats, bound: float, depth: int, parts: list[npt.NDArray[np.int64]]
) -> int:
    """Return the greatest number of candidates that one query holds."""
    by_tile = np.arange(len(scores)).reshape(-1, TILE)
    kept = np.empty(0, np.int64)
    threshold, most = -np.inf, 0
    for tiles in parts:
        rows = by_tile[tiles].ravel()
        kept = np.concatenate([kept, rows[scores[rows] + errors[rows] + bound >= threshold]])
        most = max(most, len(kept))
        if len(kept) < depth:
            continue
        lower = scores[kept] - errors[kept]
        threshold = max(threshold, float(np.partition(lower, -depth)[-depth]) - bound)
        kept = kept[lower + 2 * errors.max() + bound >= threshold]
    return most


def main() -> None:
    """Print a table: queries of a batch, the room each has, and what it needs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--depth", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--queries", type=int, default=8, help="how many are followed")
    options = parser.parse_args()
    rng = np.random.default_rng(1)
    queries, query_errors = quantize(rng.standard_normal((options.queries, options.dim)))
    n_rows = options.rows // TILE * TILE
    scores, residuals = np.empty((n_rows, options.queries)), np.empty(n_rows)
    for begin in range(0, n_rows, 2**14):
        end = min(begin + 2**14, n_rows)
        planed, residuals[begin:end] = quantize(rng.standard_normal((end - begin, options.dim)))
        scores[begin:end] = planed @ queries.T
    print(f"residuals: median {np.median(residuals):.4f}, at most {residuals.max():.4f}")
    print("| queries | depth | room | stages | candidates, at most |")
    print("|---|---|---|---|---|")
    for n_queries in (1, 64, 128, 1024):
        for depth in options.depth:
            capacity, seed_tiles, growth = tuning(n_queries, depth)
            parts = stages(n_rows // TILE, seed_tiles, growth)
            most = max(
                most_candidates(scores[:, q], residuals * (1 + t), float(t), depth, parts)
                for q, t in enumerate(query_errors)
            )
            print(f"| {n_queries:,} | {depth:,} | {capacity:,} | {len(parts)} | {most:,} |")


if __name__ == "__main__":
    main()
