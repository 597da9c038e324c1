"""How many candidates a device's dense pass leaves, on Gaussian rows, in numpy.

    python -m tools.stage_candidates --rows 1000000 --dim 768 --depth 100

Follows kernels/shared/dense_stages.hpp, choose_tuning() of device/dense_tuning.cpp and
guess_thresholds() and pick_best() of kernels/cuda/select.cu; the scores and residuals are those of
the int8 plane but for float32's roundings. docs/kernels/dense.md quotes it.
"""

import argparse
import itertools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

TILE = 128
BLOCK = 16  # rows of which a sample keeps the best score
SAMPLE_TILES = 128
Floats = npt.NDArray[np.float64]


def units_of(rows: Floats) -> Floats:
    """Return the rows with length 1."""
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def quantize(units: Floats) -> tuple[Floats, Floats]:
    """Return unit rows as int8 codes times a scale have them, and the norm of what is left."""
    scales = np.abs(units).max(axis=1, keepdims=True) / 127
    planed = np.rint(units / scales) * scales
    return planed, np.linalg.norm(units - planed, axis=1)


def room(depth: int) -> int:
    """Return how many candidates a query has room for, as choose_tuning() does."""
    return 8192 + 32 * depth


def stride_of(n_tiles: int) -> int:
    """Return of how many tiles one is in the sample, as choose_tuning() does."""
    return max(64, 1 << (-(-n_tiles // SAMPLE_TILES) - 1).bit_length())


def guess_rank(depth: int, stride: int) -> int:
    """Return which of the sample's scores is the guess, as dense_stages.hpp does."""
    mean = depth / stride
    return math.ceil(mean + 3.5 * math.sqrt(mean) + 3)


def chance_of_another_pass(depth: int, stride: int) -> float:
    """Return how often a sample holds guess_rank() or more of the best `depth`, by Poisson."""
    mean = depth / stride
    below, term = 0.0, math.exp(-mean)
    for k in range(guess_rank(depth, stride)):
        below += term
        term *= mean / (k + 1)
    return max(1 - below, 0.0)


@dataclass
class Rows:
    """What the passes see of one query's rows."""

    canonical: Floats
    planed: Floats
    errors: Floats  # of each row
    bound: float  # of the query
    deviation: float  # of an error of the plane, at most


@dataclass
class Found:
    """How many candidates a query has."""

    passed: int  # those that reach the guess
    kept: int  # after the proven threshold
    is_too_high: bool  # the guess


def follow(rows: Rows, depth: int, stride: int) -> Found:
    """Walk a query through the sample, all tiles and the proven threshold."""
    n = len(rows.planed)
    maxima = rows.planed.reshape(-1, BLOCK).max(axis=1)
    sample = maxima[np.arange(n // BLOCK) // (TILE // BLOCK) % stride == 0]
    rank = guess_rank(depth, stride)
    guess = np.partition(sample, -rank)[-rank] - 4 * rows.deviation
    found = np.flatnonzero(rows.planed + rows.errors + rows.bound >= guess)
    lower = rows.planed[found] - rows.errors[found]
    threshold = guess
    if len(found) >= depth:
        threshold = max(threshold, np.partition(lower, -depth)[-depth] - rows.bound)
    reach = rows.planed[found] + rows.errors[found] + rows.bound
    kept = int((reach >= threshold).sum())
    is_too_high = int((rows.canonical >= guess).sum()) < depth
    return Found(len(found), kept, is_too_high)


def main() -> None:
    """Print a line a depth: the room a query has, and what it needs at most."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--depth", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument(
        "--stride", type=int, nargs="+", help="of the sample; default: the engine's"
    )
    parser.add_argument("--queries", type=int, default=24, help="how many are followed")
    options = parser.parse_args()
    rng = np.random.default_rng(1)
    queries = units_of(rng.standard_normal((options.queries, options.dim)))
    planed_queries, query_errors = quantize(queries)
    n_rows = options.rows // TILE * TILE
    canonical = np.empty((options.queries, n_rows))
    scores, residuals = np.empty((options.queries, n_rows)), np.empty(n_rows)
    for begin in range(0, n_rows, 2**14):
        end = min(begin + 2**14, n_rows)
        units = units_of(rng.standard_normal((end - begin, options.dim)))
        planed, residuals[begin:end] = quantize(units)
        canonical[:, begin:end] = queries @ units.T
        scores[:, begin:end] = planed_queries @ planed.T
    print(f"residuals: median {np.median(residuals):.4f}, at most {residuals.max():.4f}")
    print(
        "| depth | room | one tile in | guess | candidates: median | at most | kept: median"
        " | another pass |"
    )
    print("|---|---|---|---|---|---|---|---|")
    strides = options.stride or [stride_of(n_rows // TILE)]
    for depth, stride in itertools.product(options.depth, strides):
        found = [
            follow(
                Rows(
                    canonical[q],
                    scores[q],
                    residuals * (1 + t),
                    float(t),
                    float(residuals.max() + t) / math.sqrt(options.dim),
                ),
                depth,
                stride,
            )
            for q, t in enumerate(query_errors)
        ]
        most = [one.passed for one in found]
        kept = [one.kept for one in found]
        print(
            f"| {depth:,} | {room(depth):,} | {stride} |"
            f" {guess_rank(depth, stride)} of the sample |"
            f" {int(np.median(most)):,} | {max(most):,} | {int(np.median(kept)):,} |"
            f" {chance_of_another_pass(depth, stride):.1g}, seen"
            f" {sum(one.is_too_high for one in found)} of {len(found)} |"
        )


if __name__ == "__main__":
    main()
