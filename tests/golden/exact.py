"""Formulas of scales, shaping and listed arms from their definitions, in exact numbers.

Every operation is done on fractions and then rounded once to float64, half to even: no arithmetic
of the host takes part. What a series makes is held against 80 digits of the function itself.
"""

import math
from collections.abc import Iterator, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np

from golden.table import scalar_line

LARGEST = float(np.finfo(np.float64).max)
TINY = 5e-324  # the smallest subnormal
NORMAL = 2.0**-1022
ULP = 2.0**-52  # of 1
LN_2 = float.fromhex("0x1.62e42fefa39efp-1")


def rounded(exact: Fraction) -> float:
    """The float64 nearest to a number, half to even; beyond the largest one infinity."""
    try:
        return float(exact)  # a quotient of integers, which Python rounds correctly
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def add(a: float, b: float) -> float:
    return rounded(Fraction(a) + Fraction(b))


def sub(a: float, b: float) -> float:
    return rounded(Fraction(a) - Fraction(b))


def mul(a: float, b: float) -> float:
    return rounded(Fraction(a) * Fraction(b))


def div(a: float, b: float) -> float:
    return rounded(Fraction(a) / Fraction(b))


def root(a: float) -> float:
    with localcontext() as context:
        context.prec = 80
        return float(Decimal(a).sqrt())


def single(a: float) -> float:
    """Round a float64 to float32: the double rounding of an operation on float32 shows nowhere."""
    return float(np.float32(a))


def true_exp2(x: float) -> float:
    """2^x rounded once."""
    with localcontext() as context:
        context.prec = 80
        return float(Decimal(2) ** Decimal(x))


def true_log(x: float) -> float:
    """ln x rounded once."""
    with localcontext() as context:
        context.prec = 80
        return float(Decimal(x).ln())


def exp2(x: float) -> float:
    """2^x for x <= 0 by the series of e^(r ln 2), r in [-1/2, 1/2]; 0 for what is no number."""
    if math.isnan(x) or x <= -1074.5:
        return 0.0
    n = math.trunc(sub(x, 0.5))
    y = mul(sub(x, n), LN_2)
    power = 1.0
    for k in range(13, 0, -1):
        power = add(1, div(mul(y, power), k))
    scaled = rounded(Fraction(power) * Fraction(2) ** n)
    assert abs(scaled - true_exp2(x)) <= math.ulp(true_exp2(x))
    return scaled


def recency_factor(age: float, half_life: float, exponent: float) -> float:
    """0.5 ^ (exponent x age / half_life); a missing or future time leaves everything."""
    if math.isnan(age) or age <= 0:
        return 1.0
    half_lives = age if math.isinf(age) else div(age, half_life)
    return 0.0 if math.isinf(half_lives) else exp2(-mul(exponent, half_lives))


def minmax_scale(score: float, low: float, high: float) -> float:
    width = sub(high, low)
    return 0.0 if math.isinf(width) else div(sub(score, low), width)


def mean(values: Sequence[float]) -> float:
    total = 0.0
    for value in values:
        total = add(total, value)
    return div(total, len(values))


def deviation(values: Sequence[float]) -> float:
    middle = mean(values)
    squares = 0.0
    for value in values:
        off = sub(value, middle)
        squares = add(squares, mul(off, off))
    return root(div(squares, len(values)))


def dense_share(balance: float, mean_lexical: float, mean_dense: float) -> float:
    return min(max(sub(add(balance, mean_lexical), mean_dense), 0.0), 1.0)


def composite_sum(w1: float, a: float, w2: float, b: float, w3: float, c: float) -> float:
    return add(add(mul(w1, a), mul(w2, b)), mul(w3, c))


def mmr_value(weight: float, relevance: float, similarity: float) -> float:
    return sub(mul(weight, relevance), mul(sub(1, weight), similarity))


def tag_relevance(most_documents: int) -> float:
    return min(add(0.5, mul(0.5, div(most_documents, max(most_documents, 5)))), 0.9)


def hop_decay(score: float, hops: int) -> float:
    for _ in range(hops):
        score = div(score, 2)
    return score


def length_share(n_docs: int, total_length: int, squared_length: int) -> float:
    """All where the variance of lengths is at most half their squared mean, nothing from 3/4 on."""
    if total_length <= 0:
        return 0.0
    spread = sub(div(mul(n_docs, squared_length), mul(total_length, total_length)), 1)
    return min(max(mul(sub(0.75, spread), 4), 0.0), 1.0)


def long_impact(weight: float, tf: float, norm: float, k1: float, delta: float) -> float:
    """BM25L's impact: every operation rounded to float32.

    A float64 result of +, x, / of two float32, rounded again, is the float32 nearest to the exact
    one: 53 >= 2 x 24 + 2 (Figueroa, "When is double rounding innocuous?", 1995). Below the normal
    numbers only sums are safe; no value here is there.
    """
    raised = single(add(single(div(tf, norm)), delta))
    return single(mul(weight, single(div(raised, single(add(k1, raised))))))


def scale_lines() -> Iterator[str]:
    """What scores are worth in sums and maxima, and how a balanced sum weighs its arms."""
    for score, high in [
        *((0.0, 0.0), (1.0, 0.0), (-1.0, -0.5), (1.0, -2.0), (-1.0, 2.0), (0.0, 2.0), (2.0, 2.0)),
        *((1.0, 3.0), (0.1, 0.3), (7.25, 8.0), (TINY, 1.0), (TINY, TINY), (TINY, 2.0)),
        *((3 * TINY, 2.0), (5 * TINY, 2.0), (1.0, LARGEST), (LARGEST, LARGEST), (NORMAL, 3.0)),
        (single(1 / 3), single(0.7)),
    ]:
        value = div(score, high) if high > 0 and score > 0 else 0.0
        yield scalar_line("best_scale", (score, high), value)
    below, above = math.nextafter(1, 0), math.nextafter(1, 2)
    for score in (0.0, TINY, -TINY, 0.1, 0.5, below, 1.0, above, 2.0, -1.0, LARGEST, -LARGEST):
        yield scalar_line("clip_scale", (score,), min(max(score, 0.0), 1.0))
    for scores in [
        *((0.5, 0.25, 0.75), (0.3, 0.1, 0.7), (0.7, 0.1, 0.7), (0.1, 0.1, 0.7), (TINY, 0.0, TINY)),
        *((TINY, 0.0, 3 * TINY), (1.0, 1.0, 1.0 + ULP), (0.5, -LARGEST, LARGEST)),
    ]:
        yield scalar_line("minmax_scale", scores, minmax_scale(*scores))
    halves = (ULP / 2, 3 * ULP / 2, 5 * ULP / 2, -ULP / 4, -3 * ULP / 4)  # between two floats at 1
    cosines = (single(0.7), single(-0.3), single(1 / 3))
    ends = (-1.0, -below, 0.0, TINY, NORMAL, 1.0, LARGEST)
    for score in (*ends, *halves, *cosines, 0.1, -0.2):
        yield scalar_line("unit_scale", (score,), div(add(1, score), 2))
    for shares in [
        *((0.5, 0.5, 0.5), (0.0, 0.0, 0.0), (0.0, 0.0, 1.0), (1.0, 1.0, 0.0), (1.0, 0.0, 0.0)),
        *((0.5, 1 / 3, 0.1), (0.1, 0.2, 0.3), (0.3, 0.2, 0.1), (0.5, 0.62, 0.47)),
        *((1.0, ULP / 2, 1.0), (1.0, 3 * ULP / 2, 1.0), (ULP, 1.0, 1.0), (0.25, 0.5, 0.75)),
        *((TINY, 0.0, 0.0), (TINY, TINY, TINY), (0.0, TINY, 2 * TINY), (1.0, TINY, 0.0)),
        *((0.0, 1.0, ULP / 4), (0.7, 0.9, 0.6), (0.5, above, 0.5), (0.5, 0.5 + ULP, 0.0)),
    ]:
        yield scalar_line("dense_share", shares, dense_share(*shares))
    for values in [
        *((0.0,), (7.25,), (TINY,), (LARGEST,), (1.0, 2.0), (1.0, 2.0, 3.0, 4.0), (-1.0, 1.0)),
        *((1.0, ULP / 2, ULP / 2), (ULP / 2, ULP / 2, 1.0), (TINY, TINY, 2 * TINY)),
        *((single(0.1),) * 5, (0.1,) * 3, (0.1, 0.2, 0.3, 0.4, 0.5), (1.0, 1.0 + ULP, 1.0)),
        *((2.0**-540, 0.0), (2.0**500, -(2.0**500), 1.0), (1e-160, 3e-160, 7e-160)),
        tuple(map(single, (12.4, 9.03, 9.03, 4.1, 0.7))),
    ]:
        yield scalar_line("mean", (len(values), *values), mean(values))
        if max(map(abs, values)) < LARGEST:
            yield scalar_line("deviation", (len(values), *values), deviation(values))


def age_lines() -> Iterator[str]:
    """Powers of two and what they make of an age."""
    half = (0.5, math.nextafter(0.5, 0), math.nextafter(0.5, 1))  # |r| = 1/2: n goes either way
    for x in (
        *(0.0, 1.0, 2.0, 3.0, 10.0, 52.0, 53.0, 512.0, 1022.0, 1023.0, 1073.0, 1074.0),
        *half,
        *(n + r for n in (1, 10, 1022) for r in half),
        *(0.1, 0.25, 1 / 3, 0.75, 1 / 7, math.pi, 17.3, 100.7, 500.25, 999.999),
        *(0.47, 0.49, 3.495),  # the last term of the series shows
        *(TINY, NORMAL, ULP / 4, ULP / 2, ULP, 1e-9, 1e-4),
        *(1022.25, 1023.75, 1050.3, 1072.5, 1073.3, 1073.5, 1073.75),  # subnormal results
        *(1074.25, math.nextafter(1074.5, 0), 1074.5, 1075.0, 1e4, LARGEST, math.inf, math.nan),
    ):
        yield scalar_line("exp2", (-x,), exp2(-x))
    day = 86_400.0
    for age, half_life, exponent in [
        *((0.0, day, 1.0), (-0.0, day, 1.0), (-5.0, day, 1.0), (-LARGEST, day, 1.0)),
        *((math.nan, day, 1.0), (math.inf, day, 1.0), (-math.inf, day, 1.0)),
        *((day, day, 1.0), (2 * day, day, 1.0), (day, 2 * day, 1.0), (30 * day, 30 * day, 2.0)),
        *((3 * day, 7 * day, 1.0), (1e-6, 30 * day, 1.0), (12_345_678.9, 30 * day, 1.0)),
        *((day, 30 * day, 0.5), (day, 30 * day, 0.0), (45 * day, 30 * day, 1.7)),
        *((1.0, 3.0, 3.0), (0.1, 0.3, 1.0), (0.1, 0.3, 3.0), (7.0, 1 / 3, 0.1)),
        *((TINY, day, 1.0), (TINY, TINY, 1.0), (1.0, LARGEST, 1.0), (1.0, TINY, 1.0)),
        *((1074 * day, day, 1.0), (1075 * day, day, 1.0), (1e9 * day, day, 1.0)),
        (1_577_836_800.123456, 90 * day, 1.0),
    ]:
        value = recency_factor(age, half_life, exponent)
        yield scalar_line("recency_factor", (age, half_life, exponent), value)


def value_lines() -> Iterator[str]:
    """The values that shaping orders by."""
    for signals in [
        *(
            (0.0,) * 6,
            (1.0,) * 6,
            (1.0, 0.5, 1.0, 0.25, 1.0, 0.125),
            (0.0, 1.0, 0.0, 1.0, 1.0, 0.3),
        ),
        *((1.0, 0.1, 1.0, 0.2, 1.0, 0.3), (1.0, 0.3, 1.0, 0.2, 1.0, 0.1)),
        *((1.0, 1.0, 1.0, ULP / 2, 1.0, ULP / 2), (1.0, ULP / 2, 1.0, ULP / 2, 1.0, 1.0)),
        *((0.3, 0.77, 0.2, 0.4, 0.5, 0.91), (1 / 3, 1 / 3, 1 / 3, 1 / 3, 1 / 3, 1 / 3)),
        *((0.5, TINY, 0.5, TINY, 0.5, TINY), (0.5, 3 * TINY, 0.0, 1.0, 0.0, 1.0)),
        *((0.1, 0.1, 1.0, -0.01, 0.0, 5.0), (1.0, LARGEST, 0.0, 1.0, 0.0, 1.0)),
        (1.0, NORMAL, 1.0, NORMAL, 2.0, NORMAL / 4),
    ]:
        yield scalar_line("composite_sum", signals, composite_sum(*signals))
    for total, weight in [
        *((0.0, 0.0), (1.0, 0.0), (1.0, -1.0), (0.0, 3.0), (1.0, 3.0), (0.6, 3.0), (-0.2, 3.0)),
        *((3.0, 3.0), (TINY, 2.0), (3 * TINY, 2.0), (5 * TINY, 2.0), (1.0, TINY), (TINY, TINY)),
        *((1.0, LARGEST), (LARGEST, 3.0), (2.1, 0.7)),
    ]:
        value = div(total, weight) if weight > 0 else 0.0
        yield scalar_line("composite_mean", (total, weight), value)
    for weight, relevance, similarity in [
        *((w, r, s) for w in (0.0, 0.5, 0.7, 1.0) for r, s in ((1.0, 0.0), (0.9, 0.4), (0.1, 0.3))),
        *((0.5, 1.0, 1.0), (0.7, 0.3, 0.7), (1 / 3, 0.2, 0.1), (0.9, single(1 / 3), single(0.99))),
        *((1.0, TINY, 1.0), (0.5, TINY, 0.0), (0.5, 3 * TINY, 0.0), (ULP / 2, 1.0, 1.0)),
        *((ULP / 4, 1.0, 1.0), (0.7, LARGEST, 1.0), (0.7, 0.0, 0.0), (0.7, -2.5, 0.5)),
    ]:
        value = mmr_value(weight, relevance, similarity)
        yield scalar_line("mmr_value", (weight, relevance, similarity), value)


def listed_lines() -> Iterator[str]:
    """What arms beside text and vectors score, and BM25L's whole impact."""
    for place in (1, 2, 3, 4, 5, 7, 10, 49, 100, 1000, 2**31 - 1, 2**31, 2**53 - 1, 2**53):
        yield scalar_line("place_score", (place,), div(1, place))
    for most in (0, 1, 2, 3, 4, 5, 6, 100, 2**31, 2**53 - 1, 2**53):
        yield scalar_line("tag_relevance", (most,), tag_relevance(most))
    for score, hops in [
        *((1.0, 0), (1.0, 1), (1.0, 2), (1.0, 3), (0.9, 1), (0.7, 5), (0.1, 20), (0.0, 3)),
        *((TINY, 0), (TINY, 1), (3 * TINY, 1), (5 * TINY, 1), (7 * TINY, 1), (7 * TINY, 2)),
        *((LARGEST, 1), (LARGEST, 200), (NORMAL, 1), (NORMAL + TINY, 1), (NORMAL + 3 * TINY, 1)),
        *((1.0, 254), (1.0, 1074), (1.0, 1075), (1.5, 1074), (math.nextafter(2, 0), 1074)),
    ]:
        yield scalar_line("hop_decay", (score, hops), hop_decay(score, hops))
    for lengths in [
        *((0, 0, 0), (1, 0, 0), (1, 7, 49), (2, 4, 16), (2, 4, 10), (3, 30, 450), (3, 30, 480)),
        *((7, 100, 2300), (7, 100, 2143), (10**6, 3 * 10**7, 14 * 10**8), (3, 1, 1)),
        *((2**40, 2**45, 2**50 + 2**49), (2**40, 2**45, 2**50 + 2**49 + 2**47)),
    ]:
        yield scalar_line("length_share", lengths, length_share(*lengths))
    for weight in map(single, (0.1, 3.3025851, -2.7)):
        for tf in (1, 7, 16_777_216):
            for norm in map(single, (0.3, 1234.567)):
                for k1, delta in ((single(1.2), 0.5), (0.0, 0.0), (single(0.9), single(0.1))):
                    inputs = (weight, tf, norm, k1, delta)
                    yield scalar_line("long_impact", inputs, long_impact(*inputs))


def lines() -> Iterator[str]:
    """All of them."""
    for some in (scale_lines, age_lines, value_lines, listed_lines):
        yield from some()
