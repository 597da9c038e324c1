"""Hold the golden table against `hyrecall._core.arithmetic` and print what came out, as JSON.

``python -m golden.check``: a process of its own, because the instruction set is chosen once.
"""

import json
import struct
from collections.abc import Callable, Iterable
from functools import partial
from typing import get_args

import numpy as np

from golden.table import Case, read
from hyrecall._core import arithmetic, arms, shaping
from seams import Variant

PLAIN = ("lucene", "robertson")  # no factor k1 + 1


def idf(variant: str, n_docs: float, doc_freq: float) -> float:
    """The idf of counts that come as floats."""
    return arithmetic.idf(variant, int(n_docs), int(doc_freq))


# How the package evaluates a formula, where it does; the others have no other way than their name.
FORMULAS: dict[str, Callable[..., float]] = {
    "log": arithmetic.log,
    "cosine": arithmetic.cosine,
    **{f"idf_{variant}": partial(idf, variant) for variant in get_args(Variant)},
    "mean_doc_length": lambda n, total: arithmetic.mean_doc_length(int(n), int(total)),
    "weight_saturated": lambda k1, idf, times: same(
        arithmetic.weight((variant, k1, 0.75, 0.5, 0.75), idf, times)
        for variant in get_args(Variant)
        if variant not in PLAIN
    ),
    "weight_plain": lambda k1, idf, times: same(
        arithmetic.weight((variant, k1, 0.75, 0.0, 0.75), idf, times) for variant in PLAIN
    ),
    "shift": lambda delta, idf, times: arithmetic.shift(
        ("bm25+", 1.2, 0.75, delta, 0.75), idf, times
    ),
    "length_norm": lambda k1, b, length, mean: same(
        arithmetic.length_norm((variant, k1, b, 0.5, b), int(length), mean)
        for variant in get_args(Variant)
        if variant != "bm25l"
    ),
    "length_norm_bm25l": lambda b, length, mean: arithmetic.length_norm(
        ("bm25l", 1.2, b, 0.5, b), int(length), mean
    ),
    "impact": lambda weight, tf, norm: same(
        arithmetic.impact((variant, 1.2, 0.75, 0.0, 0.75), weight, 0.0, tf, norm)
        for variant in get_args(Variant)
        if variant not in ("bm25+", "bm25l")
    ),
    "plus_impact": lambda *numbers: arithmetic.impact(("bm25+", 1.2, 0.75, 1.0, 0.75), *numbers),
    "long_saturation": lambda tf, norm, k1, delta: arithmetic.impact(
        ("bm25l", k1, 0.75, delta, 0.75), 1.0, 0.0, tf, norm
    ),
    "rrf_term": lambda weight, constant, rank: arithmetic.rrf_term(weight, constant, int(rank)),
    "minmax_scale": arithmetic.minmax_scale,
    "dbsf_scale": arithmetic.dbsf_scale,
    "long_impact": lambda weight, tf, norm, k1, delta: arithmetic.impact(
        ("bm25l", k1, 0.75, delta, 0.75), weight, 0.0, tf, norm
    ),
    "best_scale": arithmetic.best_scale,
    "clip_scale": arithmetic.clip_scale,
    "unit_scale": arithmetic.unit_scale,
    "dense_share": arithmetic.dense_share,
    "exp2": shaping.exp2,
    "recency_factor": shaping.recency_factors,
    "composite_sum": shaping.composite_sums,
    "composite_mean": shaping.composite_means,
    "mmr_value": shaping.mmr_value,
    "place_score": lambda place: arms.place_score(int(place)),
}


def same(results: Iterable[float]) -> float:
    """Return the one value that all results have."""
    (value,) = set(results)
    return value


def found_bits(case: Case) -> str:
    """Evaluate a line and give the bits of the result."""
    if case.op == "dot":
        # The row stands in each place of nine: blocks of four and single rows must agree.
        rows = np.repeat(case.row[None], 9, axis=0)
        dots = arithmetic.dots(case.query, rows, case.dtype)
        assert len(set(dots.view(np.uint32).tolist())) == 1, "the place of a row changed its dot"
        return f"{dots.view(np.uint32)[0]:08x}"
    if case.op == "inverse_norm":
        norm = np.float32(arithmetic.inverse_norm(case.row))
        return f"{norm.view(np.uint32):08x}"
    found = arithmetic.formula(case.op, case.numbers)
    if case.op in FORMULAS:
        found = same([found, FORMULAS[case.op](*case.numbers)])
    return struct.pack(">d", found).hex()


def main() -> None:
    """Check every line."""
    cases = list(read())
    wrong = [
        {"op": case.op, "dtype": case.dtype, "expected": case.expected, "found": found}
        for case in cases
        if (found := found_bits(case)) != case.expected
    ]
    print(json.dumps({"isa": arithmetic.isa(), "n_cases": len(cases), "wrong": wrong}))


if __name__ == "__main__":
    main()
