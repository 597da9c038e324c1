"""What the first pass on a device may be wrong by. For bfloat16 rows that is an assumption about
tensor cores (csrc/kernels/int8_bound.hpp): here it is held to half of it."""

import os

import numpy as np
import numpy.typing as npt
import pytest

from hyrecall import _core
from seams import cuda_library_folder, ordinal_of

Rows = npt.NDArray[np.float32]
Patterns = npt.NDArray[np.uint16]

KINDS = ("same sign", "cancelling", "many octaves")
LONGEST = 2**20  # elements of a row: from there on the bound says nothing


def patterns_of(values: Rows) -> tuple[Patterns, Rows]:
    """Return the rows as bfloat16, cut and not rounded, and what these say."""
    bits = (values.view(np.uint32) >> 16).astype(np.uint16)
    return bits, (bits.astype(np.uint32) << 16).view(np.float32)


def rows_of(kind: str, dim: int, rng: np.random.Generator) -> Rows:
    rows = rng.uniform(1, 2, (16 if dim == LONGEST else 130, dim))  # a tile has 128
    if kind == "cancelling":  # what is added first is taken away again, but for a little
        half = dim // 2
        rows[:, half : 2 * half] = rng.uniform(0, 2**-6, (len(rows), half)) - rows[:, :half]
    if kind == "many octaves":
        rows *= np.exp2(rng.integers(-10, 3, rows.shape)) * rng.choice([-1, 1], rows.shape)
    return rows.astype(np.float32)


def queries_of(dim: int, rng: np.random.Generator) -> Rows:
    """Return queries of norm 1 whose elements are powers of two: nothing of them is rounded."""
    power = 4 ** int(np.log2(dim) // 2)
    queries = np.zeros((9, dim), np.float32)  # more than the narrowest panel
    queries[:, :power] = power**-0.5
    queries[1:] *= rng.choice([-1, 1], (8, dim)).astype(np.float32)
    queries[2:] = rng.permuted(queries[2:], axis=1)
    return queries


def half_of_the_bound(dim: int) -> float:
    return dim * 2.0**-23 + 3 * 2.0**-24


def errors(scores: Rows, queries: Rows, rows: Rows) -> npt.NDArray[np.float64]:
    wide = rows.astype(np.float64)
    units = wide / np.sqrt((wide * wide).sum(axis=1, keepdims=True))
    found: npt.NDArray[np.float64] = np.abs(scores - queries.astype(np.float64) @ units.T)
    return found


@pytest.mark.parametrize("dim", [1, 63, 768, 4096, LONGEST])
@pytest.mark.parametrize("kind", KINDS)
def test_the_first_pass_stays_within_half_of_its_bound(
    kind: str, dim: int, cuda: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if dim == LONGEST and "HYRECALL_EMULATED" in os.environ:
        pytest.skip("rows this long take minutes on the emulated device")
    rng = np.random.default_rng(dim)
    patterns, rows = patterns_of(rows_of(kind, dim, rng))
    queries = queries_of(dim, rng)
    monkeypatch.setenv("HYRECALL_FRONT_PLANE", "rows")
    found = _core.device.first_scores(
        cuda_library_folder(), ordinal_of(cuda), queries, patterns, "bfloat16"
    )
    scores = found.reshape(len(queries), len(rows))
    assert errors(scores, queries, rows).max() <= half_of_the_bound(dim)
    if 1 < dim < LONGEST:  # it can fail: the scores of the rows next to these do
        assert errors(np.roll(scores, 1, axis=1), queries, rows).max() > half_of_the_bound(dim)


@pytest.mark.parametrize("kind", ["same sign", "many octaves"])
def test_sums_in_half_precision_would_not_stay_within_it(kind: str) -> None:
    rng = np.random.default_rng(3)
    _, rows = patterns_of(rows_of(kind, 768, rng))
    queries = queries_of(768, rng)
    sums = np.zeros((len(queries), len(rows)), np.float16)
    for i in range(768):
        sums += (queries[:, i, None] * rows[None, :, i]).astype(np.float16)
    norms = np.sqrt((rows.astype(np.float64) ** 2).sum(axis=1))
    scores = (sums / norms).astype(np.float32)
    assert errors(scores, queries, rows).max() > half_of_the_bound(768)
