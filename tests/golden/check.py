"""Hold the golden table against `hyrecall._core.arithmetic` and print what came out, as JSON.

``python -m golden.check``: a process of its own, because the instruction set is chosen once.
"""

import json
import struct
from collections.abc import Callable, Iterable

import numpy as np

from golden.table import Case, read
from hyrecall._core import arithmetic

FORMULAS: dict[str, Callable[..., float]] = {
    "log": arithmetic.log,
    "cosine": arithmetic.cosine,
    "idf_okapi": lambda n_docs, doc_freq: arithmetic.idf("okapi", int(n_docs), int(doc_freq)),
    "idf_lucene": lambda n_docs, doc_freq: arithmetic.idf("lucene", int(n_docs), int(doc_freq)),
    "idf_fts5": lambda n_docs, doc_freq: arithmetic.idf("fts5", int(n_docs), int(doc_freq)),
    "mean_doc_length": lambda n, total: arithmetic.mean_doc_length(int(n), int(total)),
    "weight_saturated": lambda k1, idf, times: same(
        arithmetic.weight(variant, k1, 0.75, idf, times) for variant in ("okapi", "fts5")
    ),
    "weight_lucene": lambda k1, idf, times: arithmetic.weight("lucene", k1, 0.75, idf, times),
    "length_norm": lambda k1, b, length, mean: arithmetic.length_norm(k1, b, int(length), mean),
    "impact": arithmetic.impact,
    "rrf_term": lambda weight, constant, rank: arithmetic.rrf_term(weight, constant, int(rank)),
    "minmax_scale": arithmetic.minmax_scale,
}


def same(results: Iterable[float]) -> float:
    """Give the one value that all results have."""
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
    return struct.pack(">d", FORMULAS[case.op](*case.numbers)).hex()


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
