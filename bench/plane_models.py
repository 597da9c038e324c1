"""How many rows pass a small plane, and what a query then reads: a model in numpy.

    python -m bench.plane_models [--dim 384] [--rows 1000000] [--queries 64]

prints a table of grown rows (``grown.py``) and one of Gaussian rows for docs/decisions/0059. Bounds
are those of the engine, by Cauchy-Schwarz, with the true k-th score as the threshold:

- ``int8``: a byte an element, a scale a row (``csrc/kernels/int8_bound.hpp``);
- ``nibbles``: the high halves of these bytes, read as the middles of their ranges, with a residual
  of their own; a row that passes is looked at again with its low halves;
- ``head4 m``: m directions and the length of the rest in 4 bits (``csrc/kernels/head_bound.hpp``);
  a row that passes is scored.

``lines``: bytes read where a row that passes takes whole cache lines (of its low halves, or of the
float32 row). ``blocks``: where low halves of 16 rows lie together, as codes of the int8 plane do.
``time``: a row out of order costs as much as ten of the int8 plane in a stream (``kRowCost`` of the
engine). All three are shares of what the int8 plane alone takes, means over the queries.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bench import corpus, grown
from bench.corpus import Floats

AT_ONCE, KS = 16_384, (10, 100)
LINE, BLOCK, ROW_COST = 64, 16, 10
Coded = tuple[Floats, Floats]  # what codes hold of rows, and the norm of what they leave


def as_int8(rows: Floats) -> Coded:
    """Return rows as the int8 plane holds them; a query too."""
    scale = np.abs(rows).max(axis=1, keepdims=True) / np.float32(127)
    held = np.rint(rows / scale) * scale
    return held, np.linalg.norm(rows - held, axis=1)


def as_nibbles(rows: Floats) -> Coded:
    """Return rows as the high halves of their int8 bytes (code + 128) hold them."""
    scale = np.abs(rows).max(axis=1, keepdims=True) / np.float32(127)
    high = np.floor((np.rint(rows / scale) + 128) / 16)
    held = (16 * high - np.float32(120.5)) * scale
    return held, np.linalg.norm(rows - held, axis=1)


def as_odd_codes(heads: Floats) -> Coded:
    """Return heads in odd codes from -15 to 15 with the scale of least squares."""
    half = 0.1675 * np.sqrt((heads**2).mean(axis=1, keepdims=True))
    codes = np.clip(2 * np.floor(heads / (2 * half)) + 1, -15, 15)
    scale = (heads * codes).sum(axis=1, keepdims=True) / (codes**2).sum(axis=1, keepdims=True)
    return codes * scale, np.linalg.norm(heads - codes * scale, axis=1)


def head(directions: Floats) -> Callable[[Floats], Floats]:
    """Return what makes heads: coordinates, and half the length of the rest four times."""
    turn, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((directions.shape[1],) * 2))
    mixed = directions @ turn.astype(np.float32)

    def heads(rows: Floats) -> Floats:
        first = rows @ mixed
        rest = np.sqrt(np.maximum(1 - (first**2).sum(axis=1, keepdims=True), 0))
        return np.concatenate([first, np.repeat(rest / 2, 4, axis=1)], axis=1)

    return heads


@dataclass(frozen=True)
class Plane:
    """A plane of codes."""

    turned: Callable[[Floats], Floats]  # what is coded of unit rows
    coded: Callable[[Floats], Coded]
    nbytes: int  # a row with its scale and residual
    again: int  # bytes of a row's second look
    is_halved: bool = False  # that look is at low halves, and what passes it is scored


def planes(dim: int, directions: Floats) -> dict[str, Plane]:
    """Return the planes by name."""
    found = {
        "int8": Plane(np.asarray, as_int8, dim + 8, 4 * dim),
        "nibbles": Plane(np.asarray, as_nibbles, dim // 2 + 8, dim // 2 + 8, is_halved=True),
    }
    for m in (dim // 3 // 8 * 8 - 4, dim * 2 // 3 // 8 * 8 - 4):
        found[f"head4 {m}"] = Plane(head(directions[:, :m]), as_odd_codes, m // 2 + 10, 4 * dim)
    return found


def report(name: str, rows: Floats, queries: Floats) -> None:
    """Print the table of some rows of length 1."""
    (n, dim), whole = rows.shape, rows.shape[1] + 8
    best = np.full((KS[-1], len(queries)), -np.inf, np.float32)
    parts = [slice(begin, begin + AT_ONCE) for begin in range(0, n, AT_ONCE)]
    for part in parts:
        scores = rows[part] @ queries.T
        best = np.sort(np.concatenate([best, scores]), axis=0)[-KS[-1] :]
    made = planes(dim, grown.rotation(rows))
    asked = {which: as_int8(plane.turned(queries)) for which, plane in made.items()}
    passed = {(which, k): np.zeros(len(queries)) for which in made for k in KS}
    blocks, lost = dict.fromkeys(passed, 0.0), dict.fromkeys(made, 0.0)
    for part in parts:
        for which, plane in made.items():
            (held, residual), (query, t) = plane.coded(plane.turned(rows[part])), asked[which]
            lost[which] += float(residual.sum()) / n
            most = held @ query.T + residual[:, None] * (1 + t) + t
            for k in KS:
                passes = most >= best[-k]
                passed[which, k] += passes.sum(axis=0) / n
                in_blocks = np.logical_or.reduceat(passes, np.arange(0, len(held), BLOCK))
                blocks[which, k] += in_blocks.sum(axis=0).mean() / n
    shown = " and ".join(f"{np.median(best[-k]):.3f}" for k in KS)
    print(f"\n{n:,} {name} rows x {dim}, medians of the k-th score {shown}\n")
    print("| plane | bytes a row | left | k | pass: median, mean | lines | blocks | time |")
    print("|---" * 8 + "|")
    for (which, k), share in passed.items():
        plane = made[which]
        scored = passed["int8", k].mean() if plane.is_halved else 0.0
        by_lines = -(-plane.again // LINE) * LINE * share.mean() + 4 * dim * scored
        by_blocks = plane.again * BLOCK * blocks[which, k] + 4 * dim * scored
        cells = [
            f"{which} | {plane.nbytes} | {lost[which]:.3f} | {k}",
            f"{np.median(share):.5f}, {share.mean():.5f}",
            f"{(plane.nbytes + by_lines) / whole:.2f}",
            f"{(plane.nbytes + by_blocks) / whole:.2f}" if plane.is_halved else "",
            f"{plane.nbytes / whole + ROW_COST * (share.mean() + scored):.2f}",
        ]
        print(f"| {' | '.join(cells)} |")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=64)
    options = parser.parse_args()
    size, some = (options.rows, options.dim), options.queries
    asked = grown.queries(1_024, options.dim)[:: max(1_024 // some, 1)]
    report("grown", grown.rows(*size), asked)
    report("Gaussian", corpus.gaussian_rows(*size), corpus.gaussian_rows(some, size[1], "asked"))


if __name__ == "__main__":
    main()
