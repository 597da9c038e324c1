"""How many candidates a device's dense pass leaves, on Gaussian rows, in numpy.

    python -m tools.stage_candidates --rows 1000000 --dim 768 --depth 100

Follows kernels/shared/dense_stages.hpp, choose_tuning() of device/dense_planner.cpp and
kernels/cuda/seeds.cu; the scores and residuals are those of the int8 plane but for float32's
roundings. docs/kernels/dense.md quotes it.
"""

import argparse
import itertools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

TILE = 128
SEED_TILES = 128
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
    return max(64, -(-n_tiles // SEED_TILES))


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


@dataclass
class Found:
    """How many candidates a query has."""

    passed: int  # of the rest, those that reach the guess
    most: int  # with those of the seed
    kept: int  # after the cut
    is_too_high: bool  # the guess


def follow(rows: Rows, depth: int, stride: int, middle: int = 0) -> Found:
    """Walk a query through the seed, the rest and the cut.

    middle: after every so-many-th tile a second guess is made, of all that was read; 0: none is.
    """
    n = len(rows.planed)
    tiles = np.arange(n) // TILE
    is_seed = tiles % stride == 0
    lower = rows.planed - rows.errors
    seed = np.flatnonzero(is_seed)
    best = seed[np.argsort(-lower[seed])[: guess_rank(depth, stride)]]
    guess = rows.canonical[best].min()
    loose = lower + 2 * rows.errors.max() + rows.bound  # what a cut tests
    reach = rows.planed + rows.errors + rows.bound
    passes = reach >= guess
    if middle:
        is_read = is_seed | (tiles % middle == 0)
        read = np.flatnonzero(is_read & passes)
        second = read[np.argsort(-lower[read])[: guess_rank(depth, middle)]]
        guess = max(guess, rows.canonical[second].min())
        passes = np.where(is_read, passes, reach >= guess)
    passed = np.flatnonzero(~is_seed & passes)
    found = np.concatenate([seed[loose[seed] >= guess], passed])
    threshold = guess
    if len(found) >= depth:
        threshold = max(threshold, np.partition(lower[found], -depth)[-depth] - rows.bound)
    kept = int((loose[found] >= threshold).sum())
    is_too_high = int((rows.canonical >= guess).sum()) < depth
    return Found(len(passed), len(found), kept, is_too_high)


def main() -> None:
    """Print a line a depth: the room a query has, and what it needs at most."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--depth", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument(
        "--stride", type=int, nargs="+", help="of the sample; default: the engine's"
    )
    parser.add_argument("--middle", type=int, default=0, help="of a second guess; default: none")
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
    print("| depth | room | one tile in | guess | candidates: median | at most | another pass |")
    print("|---|---|---|---|---|---|---|")
    strides = options.stride or [stride_of(n_rows // TILE)]
    for depth, stride in itertools.product(options.depth, strides):
        found = [
            follow(
                Rows(canonical[q], scores[q], residuals * (1 + t), float(t)),
                depth,
                stride,
                options.middle,
            )
            for q, t in enumerate(query_errors)
        ]
        most = [one.most for one in found]
        print(
            f"| {depth:,} | {room(depth):,} | {stride} |"
            f" {guess_rank(depth, stride)} of the sample |"
            f" {int(np.median(most)):,} | {max(most):,} |"
            f" {chance_of_another_pass(depth, stride):.1g}, seen"
            f" {sum(one.is_too_high for one in found)} of {len(found)} |"
        )


if __name__ == "__main__":
    main()
