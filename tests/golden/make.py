"""Write the golden table from the definitions, without hyrecall.

Run ``python tests/golden/make.py`` after a change of a formula, and say in the change why the bits
moved: saved scores of users move with them.
"""

import io
import math
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))

from golden import exact, joining
from golden.table import PATH, scalar_line, widen, write_bits
from oracle.arithmetic import plain_cosine, plain_dot, plain_sum_of_squares

F32 = NDArray[np.float32]
f32 = np.float32


def natural_log(x: float) -> float:
    """ln of a normal positive float64, by the series of atanh on [sqrt(1/2), sqrt(2))."""
    m, exponent = math.frexp(x)  # m in [1/2, 1)
    m, exponent = 2 * m, exponent - 1
    if m > 1.4142135623730951:
        m, exponent = m / 2, exponent + 1
    f = m - 1
    s = f / (2 + f)
    z = s * s
    tail = 0.0
    for k in range(11, 0, -1):
        tail = z * (2 / (2 * k + 1) + tail)
    high, low = float.fromhex("0x1.62e42feep-1"), float.fromhex("0x1.a39ef35793c76p-33")
    return exponent * high + (f - (s * (f - tail) - exponent * low))


def idf(variant: str, n_docs: int, doc_freq: int) -> float:
    """BM25's idf: with "+ 1" inside the logarithm, without, or FTS5's with its floor; or by N."""
    if variant == "bm25l":
        return natural_log((n_docs + 1) / (doc_freq + 0.5))
    if variant in ("atire", "bm25+"):
        return natural_log((n_docs + (variant == "bm25+")) / doc_freq) if doc_freq else 0.0
    odds = (n_docs - doc_freq + 0.5) / (doc_freq + 0.5)
    if variant == "fts5":
        value = natural_log(odds)
        return value if value > 0 else 1e-6
    return natural_log(odds if variant == "robertson" else 1 + odds)


def weight(saturated: bool, k1: float, idf_: float, multiplicity: float) -> np.float32:
    """What a term is worth in a query."""
    product = idf_ * multiplicity
    return f32(product * (k1 + 1) if saturated else product)


def length_norm(k1: float, b: float, doc_length: int, mean: float) -> np.float32:
    """What a document's length adds to the denominator; BM25L's has 1 for k1."""
    return f32(k1 * ((1 - b) + b * doc_length / mean))


def long_saturation(tf: np.float32, norm: np.float32, k1: np.float32, delta: np.float32) -> F32:
    """How much of its weight a term adds to a document under BM25L."""
    raised = tf / norm + delta
    return raised / (k1 + raised)


def impact(w: np.float32, tf: np.float32, norm: np.float32) -> np.float32:
    """What a term adds to a document."""
    return (w * tf) / (tf + norm)


def cosine(dot: np.float32, inverse_row: np.float32, inverse_query: np.float32) -> np.float32:
    """Cosine from a dot and two inverse norms, in [-1, 1]; never -0."""
    value = (dot * inverse_row) * inverse_query
    return min(max(value, f32(-1)), f32(1)) + f32(0)


def log_lines() -> Iterator[str]:
    near_one = [1 + sign * 2.0**-e for e in (1, 2, 5, 10, 20, 30, 40, 52) for sign in (1, -1)]
    root = math.sqrt(2)
    values = [
        *(2.0**e for e in (-1022, -100, -20, -3, -2, -1, 0, 1, 2, 3, 10, 20, 40, 60, 1023)),
        *near_one,
        *(math.nextafter(root, 0), root, math.nextafter(root, 2)),
        *(math.nextafter(root / 2, 0), root / 2, math.nextafter(root / 2, 1)),
        *(1e-300, 1e-6, 0.1, 1 / 3, 1.1, 1.5, math.e, 3.0, 7.0, 10.0, 1e6, 12345.678, 1e300),
    ]
    for x in values:
        assert abs(natural_log(x) - exact.true_log(x)) <= math.ulp(exact.true_log(x))
        yield scalar_line("log", (x,), natural_log(x))
    for tokens in (0, 1, 2, 3, 12, 20, 25, 146, 147, 148, 149, 1000, 2**32 - 2):
        worth = min(natural_log(1.0 + tokens) / 5.0, 1.0)
        yield scalar_line("length_worth", (tokens,), worth)


def bm25_lines() -> Iterator[str]:
    counts = [(1, 0), (1, 1), (2, 1), (3, 2), (10, 5), (10, 9), (10, 10), (1000, 1), (1000, 37)]
    counts += [(43769, 500), (10**6, 499_999), (10**6, 500_000), (10**6, 10**6), (2**53, 12345)]
    for variant in ("okapi", "lucene", "fts5", "robertson", "atire", "bm25+", "bm25l"):
        for n_docs, doc_freq in counts:
            yield scalar_line(f"idf_{variant}", (n_docs, doc_freq), idf(variant, n_docs, doc_freq))
    for n_docs, total in [(0, 0), (3, 0), (1, 1), (3, 10), (7, 1000), (10**9, 123_456_789_012)]:
        mean = total / n_docs if n_docs and total else 1.0
        yield scalar_line("mean_doc_length", (n_docs, total), mean)
    for k1 in (0.0, 0.9, 1.2, 2.0):
        for idf_ in (1e-6, idf("lucene", 1000, 37), idf("okapi", 10, 9)):
            for times in (1.0, 3.0, 0.1):
                inputs = (k1, idf_, times)
                yield scalar_line("weight_saturated", inputs, weight(True, *inputs))
                yield scalar_line("weight_plain", inputs, weight(False, *inputs))
    for delta in (0.0, 0.5, 1.0, 0.1):
        for idf_ in (idf("bm25+", 1000, 37), idf("bm25+", 10, 10)):
            for times in (1.0, 3.0, 0.1):
                yield scalar_line("shift", (delta, idf_, times), f32(idf_ * times * delta))
    for k1, b in [(1.2, 0.75), (0.9, 0.4), (2.0, 1.0), (1.5, 0.0), (0.0, 0.75)]:
        for doc_length, mean in [(0, 1.0), (1, 1.0), (17, 13.7), (4096, 60.25), (2**32 - 2, 1 / 3)]:
            inputs = (k1, b, doc_length, mean)
            yield scalar_line("length_norm", inputs, length_norm(*inputs))
            yield scalar_line("length_norm_bm25l", inputs[1:], length_norm(1.0, *inputs[1:]))
    for alike, mixed in [(0.25, 0.75), (0.75, 0.25), (0.1, 0.1), (0.0, 1.0), (0.3, 0.9)]:
        for share in (0.0, 1.0, 0.5, 1 / 3, 0.1):
            yield scalar_line("bm25_b", (alike, mixed, share), mixed + share * (alike - mixed))
    for w in (f32(1e-6), f32(0.1), f32(3.3025851), f32(250.7), f32(1e-40)):
        for tf in (1, 2, 7, 1000, 16_777_216):
            for norm in (f32(0), f32(0.3), f32(1.2), f32(1234.567)):
                yield scalar_line("impact", (float(w), tf, float(norm)), impact(w, f32(tf), norm))
    for w in (f32(0.1), f32(3.3025851), f32(-2.7)):
        for tf in (1, 7, 16_777_216):
            norm, shift = f32(1.2), f32(0.7)
            inputs = (float(w), float(shift), tf, float(norm))
            yield scalar_line("plus_impact", inputs, impact(w, f32(tf), norm) + shift)
    for tf in (1, 2, 7, 1000, 16_777_216):
        for norm in (f32(0.3), f32(1.2), f32(1234.567), f32(2.0**-32)):
            for k1, delta in ((f32(1.2), f32(0.5)), (f32(0), f32(0)), (f32(0.9), f32(0.1))):
                inputs = (tf, float(norm), float(k1), float(delta))
                result = long_saturation(f32(tf), norm, k1, delta)
                yield scalar_line("long_saturation", inputs, result)


def fusion_lines() -> Iterator[str]:
    for w in (1.0, 0.5, 1.4, 1 / 3):
        for constant in (60.0, 1.0, 0.5):
            for rank in (1, 2, 7, 100, 2**31 - 1):
                yield scalar_line("rrf_term", (w, constant, rank), w / (constant + rank))
    for score, low, high in [(0, 0, 0), (1, 0, 1), (0.1, 0, 0.3), (-0.2, -0.5, 0.7), (2, 2, 2)]:
        scaled = 1.0 if high == low else (score - low) / (high - low)
        yield scalar_line("minmax_scale", (score, low, high), scaled)
    for score in (0.0, 1.0, 0.1, -0.2, 7.3):
        for mean, deviation in ((0.1, 0.0), (0.5, 0.25), (1 / 3, 0.1), (5.0, 1e-9)):
            scaled = 1.0
            if deviation:
                scaled = (score - (mean - 3 * deviation)) / (6 * deviation)
            yield scalar_line("dbsf_scale", (score, mean, deviation), scaled)


def feedback_lines() -> Iterator[str]:
    """Yield what the best rows of a first answer add to a query."""
    singles = [
        (f32(0.1), f32(1.7)),
        (f32(-0.03), f32(12.5)),
        (f32(3.0), f32(0.2)),
        (f32(0), f32(1)),
    ]
    for value, inverse in singles:
        unit = float(value) * float(inverse)
        yield scalar_line("unit_row_value", (float(value), float(inverse)), unit)
        for rows, n_rows, weight in [(0.7, 3, 0.4), (-1.1, 1, 1.0), (1 / 3, 7, 0.1), (0.0, 2, 0.4)]:
            inputs = (float(value), float(inverse), rows, n_rows, weight)
            yield scalar_line("rocchio_value", inputs, f32(unit + weight * (rows / n_rows)))
    for term_freq, doc_length in [(1, 1), (1, 3), (7, 60), (2, 4096), (2**32 - 2, 2**32 - 2)]:
        yield scalar_line("term_share", (term_freq, doc_length), term_freq / doc_length)
    for shares in (0.1, 1.0, 2 / 3):
        for n_rows in (1, 3, 7):
            for idf_ in (1e-6, idf("lucene", 1000, 37)):
                worth = (shares / n_rows) * idf_
                yield scalar_line("term_worth", (shares, n_rows, idf_), worth)
    for weight in (0.2, 1.0, 1 / 3):
        for n_own in (1, 6):
            for worth, total in ((0.1, 0.3), (2.5, 2.5), (1e-6, 7.1)):
                boost = (weight * n_own) * (worth / total)
                yield scalar_line("added_boost", (weight, n_own, worth, total), boost)


def vectors(kind: str, dim: int, rng: np.random.Generator) -> tuple[F32, F32]:
    """Make a query and a row."""
    query = rng.standard_normal(dim).astype(np.float32)
    row = rng.standard_normal(dim).astype(np.float32)
    if kind == "cancelling":  # what one half adds the other takes away, but for the last bits
        half = dim // 2
        query[half : 2 * half] = query[:half]
        row[half : 2 * half] = -row[:half] * f32(1 + 2**-20)
    elif kind == "denormal":
        row = (row * f32(1e-5) * f32(1e-35)).astype(np.float32)
    elif kind == "huge":
        query, row = query * f32(2.0**50), row * f32(2.0**50)
    elif kind == "small":
        query, row = query * f32(2.0**-57), row * f32(2.0**-57)
    return query, row


def stored(row: F32, dtype: str, kind: str) -> tuple[NDArray[np.generic], F32]:
    """Return the row as the dtype holds it, and its float32 values."""
    if dtype == "float32":
        return row, row
    if dtype == "float16":
        # float16 ends at 65,504 and its subnormals begin at 2^-14.
        scale = {"huge": 2.0**-38, "small": 2.0**43, "denormal": 1e35}.get(kind, 1.0)
        bits = (row.astype(np.float64) * scale).astype(np.float16).view(np.uint16)
    else:
        bits = (row.view(np.uint32) >> 16).astype(np.uint16)
    return bits, widen(bits, dtype)


def dot_lines() -> Iterator[str]:
    rng = np.random.default_rng(20260401)
    shapes = [("normal", dim) for dim in (1, 31, 32, 33, 100, 384, 768)]
    for kind in ("cancelling", "denormal", "huge", "small"):
        shapes += [(kind, 33), (kind, 100)]
    for dtype in ("float32", "float16", "bfloat16"):
        for kind, dim in shapes:
            query, row = vectors(kind, dim, rng)
            bits, values = stored(row, dtype, kind)
            dot = plain_dot(values, query)
            text = f"{write_bits(query)} {write_bits(bits)}"
            yield f"dot,{dtype},{text},{write_bits(np.array([dot]))}"
            if dtype != "float32" or kind == "denormal":
                continue
            yield from norm_and_cosine_lines(values, query, dot)


def norm_and_cosine_lines(row: F32, query: F32, dot: np.float32) -> Iterator[str]:
    inverse = [f32(1 / math.sqrt(plain_sum_of_squares(x))) for x in (row, query)]
    for x, inv in zip((row, query), inverse, strict=True):
        yield f"inverse_norm,float32,{write_bits(x)},{write_bits(np.array([inv]))}"
    value = cosine(dot, *inverse)
    assert value == plain_cosine(row, query)
    yield scalar_line("cosine", (float(dot), *map(float, inverse)), value)


def corner_lines() -> Iterator[str]:
    """Yield cosines that are clamped or lose the sign of zero, and the norm of nothing."""
    for dot in (1.5, -1.5, 1.0, -0.0, 0.0, math.nextafter(1, 2)):
        yield scalar_line("cosine", (float(f32(dot)), 1.0, 1.0), cosine(f32(dot), f32(1), f32(1)))
    yield scalar_line("cosine", (-1e-40, 1e-10, 1.0), 0.0)
    yield f"inverse_norm,float32,{write_bits(np.zeros(33, np.float32))},{0:08x}"


def table() -> str:
    """Return the whole table as text."""
    out = io.StringIO()
    out.write("op,dtype,inputs,expected\n")
    parts = (log_lines, bm25_lines, fusion_lines, feedback_lines, exact.lines, joining.lines)
    for lines in (*parts, dot_lines, corner_lines):
        out.writelines(f"{line}\n" for line in lines())
    return out.getvalue()


if __name__ == "__main__":
    PATH.write_text(table())
