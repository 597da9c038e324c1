"""Lines of the golden table for the arithmetic of fusion and shaping over several numbers, from
its definitions (docs/scoring.md), without hyrecall."""

import functools
import math
import operator
from collections.abc import Iterator, Sequence

import numpy as np

from golden.exact import composite_sum, recency_factor
from golden.table import scalar_line

f32 = np.float32
Pair = tuple[float, float]

# The numbers of csrc/core/fusion_math.hpp and csrc/core/shaping_math.hpp.
NO_FUSION, RRF, SUM, MAX = range(4)
NO_SCALE, MINMAX, DISTRIBUTION, BEST, CLIP, UNIT = range(6)
RAW, BY_MAX, BY_MINMAX = range(3)


def worth(scale: int, score: float, first: float, second: float) -> float:
    """What a score is worth, scaled with low and high, or mean and deviation."""
    if scale == MINMAX:
        return 1.0 if first == second else (score - first) / (second - first)
    if scale == DISTRIBUTION:
        return 1.0 if second == 0 else (score - (first - 3 * second)) / (6 * second)
    if scale == BEST:
        return score / second if second > 0 and score > 0 else 0.0
    if scale == CLIP:
        return min(max(score, 0.0), 1.0)
    return (1 + score) / 2 if scale == UNIT else score


def added(values: Sequence[float]) -> float:
    """Add numbers, the largest first."""
    return functools.reduce(operator.add, sorted(values, reverse=True), 0.0)


def joined(kind: int, constant: float, weights: Pair, scores: Pair) -> float:
    """Fuse the two scores of a document, -inf = null; of RRF they are ranks, 0 = not listed."""
    pairs = list(zip(weights, scores, strict=True))
    if kind == RRF:
        return added([w / (constant + rank) for w, rank in pairs if rank > 0])
    pairs = [(w, float(f32(s))) for w, s in pairs if s != -math.inf]
    if kind == MAX:
        # A null adds 0, so the maximum of a document with one is not below 0.
        return max([w * s for w, s in pairs] + [0.0] * (len(pairs) < 2)) + 0.0  # never -0
    return added([s if kind == NO_FUSION else w * s for w, s in pairs])


def most(kind: int, constant: float, weights: Pair, best: Pair) -> float:
    """Return the most that a document can get; of RRF `best` are sizes of lists."""
    pairs = list(zip(weights, best, strict=True))
    if kind == RRF:
        return added([w / (constant + 1) if size > 0 else 0.0 for w, size in pairs])
    values = [w * max(b, 0.0) for w, b in pairs]
    return max(values) if kind == MAX else added(values)


def scale_lines() -> Iterator[str]:
    for scale in range(6):
        for score in (-0.2, 0.0, 0.1, 0.7, 7.3):
            for low, high in ((-0.2, 7.3), (0.1, 0.1), (-1.0, -0.5)):
                for mean, deviation in ((1 / 3, 0.1), (0.7, 0.0)):
                    numbers = (mean, deviation) if scale == DISTRIBUTION else (low, high)
                    inputs = (scale, score, low, high, mean, deviation)
                    yield scalar_line("arm_worth", inputs, worth(scale, score, *numbers))
        for numbers in ((-0.2, 7.3), (0.1, 0.0), (0.3, 0.3)):
            scores = (7.3, 0.1, 1 / 3)
            worths = [worth(scale, score, *numbers) for score in scores]
            mean = (worths[0] + worths[1] + worths[2]) / 3
            yield scalar_line("mean_worth", (scale, *numbers, *scores), mean)


def joining_lines() -> Iterator[str]:
    lists = [
        (0.1,),
        (0.1, 0.7, 0.2),
        (1e16, 1.0, -1e16, 1.0),
        (1e-9, 1 / 3, 1e9, 0.1, 0.2),
        (0, -0.0),
    ]
    lists += [(-0.3, -0.1), (2**53, 1.0, 1.0, 1.0, 1.0), (0.7, 0.1, 0.7, 0.1, 0.7)]
    for values in lists:
        yield scalar_line("sum_largest_first", (len(values), *values), added(values))
        some = values[:4]
        yield scalar_line("largest", (1, len(some), *some), max(some))
        yield scalar_line("largest", (0, len(some), *some), max(*some, 0.0))
    for kind in (NO_FUSION, SUM, MAX):
        for weights in ((1.0, 0.0), (0.3, 0.7), (1.4, 0.6)):
            for scores in ((0.1, 0.7), (-0.2, -math.inf), (-math.inf, 0.3), (-0.5, -0.25)):
                inputs = (kind, 60.0, weights[0], scores[0], weights[1], scores[1])
                yield scalar_line("fused_score", inputs, joined(kind, 60.0, weights, scores))
                if kind == NO_FUSION or -math.inf in scores:
                    continue
                yield scalar_line("best_of_table", inputs, most(kind, 60.0, weights, scores))
    for constant in (60.0, 0.5):
        for ranks in ((1, 2), (7, 0), (0, 100), (0, 0)):
            inputs = (RRF, constant, 0.3, ranks[0], 1.4, ranks[1])
            yield scalar_line("fused_score", inputs, joined(RRF, constant, (0.3, 1.4), ranks))
            yield scalar_line("best_of_table", inputs, most(RRF, constant, (0.3, 1.4), ranks))
    for score in (-0.1, 0.0, 0.3, 0.7, 0.8):
        for best in (0.0, 0.7, -1.0, 3.0):
            share = min(max(score / best, 0.0), 1.0) if best > 0 else 0.0
            yield scalar_line("normalized_score", (score, best), share)


def balance_lines() -> Iterator[str]:
    for balance in (0.0, 0.3, 0.5, 1.0):
        for lexical, dense in ((0.2, 0.9), (0.7, 0.1), (1 / 3, 1 / 3)):
            share = min(max((balance + lexical) - dense, 0.0), 1.0)
            for weights in ((1.0, 1.0), (0.0, 0.3), (0.3, 0.0), (0.0, 0.0)):
                mine = 0.0 if weights[1] == 0 else 1.0 if weights[0] == 0 else share
                inputs = (balance, weights[0], lexical, weights[1], dense)
                yield scalar_line("share_of_dense", inputs, mine)
                inputs = (balance, lexical, dense, *weights)
                yield scalar_line("balanced_weight", inputs, mine if weights[1] else 0.0)


def shaping_lines() -> Iterator[str]:
    for scale in (RAW, BY_MAX, BY_MINMAX):
        for score, low, high in ((0.1, -0.3, 0.7), (-0.3, -0.3, 0.0), (2.0, 2.0, 2.0), (0, 0, 0)):
            value = score
            if scale == BY_MAX:
                value = score / high if high > 0 else 0.0
            if scale == BY_MINMAX:
                value = 1.0 if low == high else (score - low) / (high - low)
            yield scalar_line("relevance", (scale, score, low, high), value)
    for cosine_ in map(float, (f32(0.9), f32(0.95), f32(0.8), f32(1), f32(-1))):
        for unit in (0, 1):
            for threshold in (0.9, float(f32(0.9)), 0.95, (1 + float(f32(0.9))) / 2):
                similarity = (1 + cosine_) / 2 if unit else cosine_
                yield scalar_line(
                    "is_duplicate", (cosine_, unit, threshold), similarity > threshold
                )
    for pair in ((0.1, 0.7), (0.7, 0.1), (0.5, 0.5), (-0.5, -0.1), (0.0, -0.0), (-0.1, 0.3)):
        given = tuple(float(f32(x)) for x in pair)
        similarity = max(0.0, *given)
        yield scalar_line("nearest_similarity", given, similarity)
        entry = given.index(similarity) if similarity > 0 else -1
        yield scalar_line("nearest_entry", given, entry)
    for value, place, other, other_place in (
        (1, 5, 0.5, 2),
        (0.5, 2, 1, 5),
        (1, 2, 1, 5),
        (1, 5, 1, 2),
    ):
        before = (-value, place) < (-other, other_place)
        yield scalar_line("is_chosen_before", (value, place, other, other_place), before)


def rescoring_lines() -> Iterator[str]:
    day = 86_400.0
    for score in (0.7, 1 / 3, -0.3, 0.0, 17.25):
        for age in (math.nan, -day, 0.0, 1.0, day, 30.3 * day, 1e9):
            for half_life, exponent in ((30 * day, 1.0), (day, 0.3), (7.7, 2.0)):
                left = score * recency_factor(age, half_life, exponent)
                yield scalar_line("recency_score", (score, age, half_life, exponent), left)
            for importance in (0.0, 0.3, 1.0):
                recency = recency_factor(age, 1.0, 1.0)
                raw = composite_sum(1.0, recency, 0.5, importance, 0.25, score)
                yield scalar_line("composite_raw", (score, age, importance), raw)
                yield scalar_line("composite_score", (score, age, importance), raw / 1.75)
        for weight in (0.0, 0.1, 1.0, 3.3):
            yield scalar_line("weight_score", (score, weight), weight * score)


def lines() -> Iterator[str]:
    """Yield all of them."""
    yield from scale_lines()
    yield from joining_lines()
    yield from balance_lines()
    yield from shaping_lines()
    yield from rescoring_lines()
