"""A host may have changed how floats round; no reply of ours depends on it."""

import ctypes
import ctypes.util
import platform
import sys
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"),
    reason="fesetround's constants are those of Linux on x86_64 and aarch64",
)

RNG = np.random.default_rng(20261122)
N, DIM = 60, 24
ROWS = RNG.standard_normal((N, DIM))  # float64: building rounds them
QUERIES = RNG.standard_normal((4, DIM))
WORDS = ("tea", "milk", "oat", "fig", "rye")
TEXTS = [" ".join(RNG.choice(WORDS, size=RNG.integers(1, 9))) for _ in range(N)]


UP = {"x86_64": 0x800, "aarch64": 0x400000}


class Upward:
    """Rounding towards infinity, while the block lasts."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(ctypes.util.find_library("m"))

    def __enter__(self) -> None:
        self._library.fesetround(UP[platform.machine()])
        assert np.float32(1) + np.float32(2.0**-40) > 1

    def __exit__(self, *exc: object) -> None:
        self._library.fesetround(0)


@pytest.fixture
def upward() -> Iterator[Upward]:
    yield Upward()
    assert np.float32(1) + np.float32(2.0**-40) == 1


def built() -> hr.Index:
    table = pa.table({"id": range(N), "text": TEXTS})
    schema = hr.Schema(key="id", cell=None, text="text", vector=hr.Vector("v", dtype="float32"))
    return hr.Index.build(table, schema, vectors={"v": ROWS})


FUSIONS = [
    hr.RRF(),
    hr.RRF(alpha=0.3),
    hr.WeightedSum({"text": 0.3, "v": 0.7}),
    hr.WeightedSum({"text": 0.1, "v": 0.7}, normalize="none"),
    hr.Max(),
]


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("fusion", FUSIONS, ids=repr)
def test_replies_and_explanations_keep_their_bits(
    upward: Upward, fusion: hr.RRF, normalize: bool
) -> None:
    def ask(index: hr.Index) -> hr.Hits:
        return index.recall(
            text=["tea", "oat fig", "rye milk tea", None],
            vectors=QUERIES,
            limit=50,
            fusion=fusion,
            normalize=normalize,
        )

    expected = ask(built())
    with upward:
        found = ask(built())
        explained = [hit.explain().score for one in found for hit in one]
    assert found.to_arrow().equals(expected.to_arrow())
    assert explained == [hit.score for one in expected for hit in one]


def test_a_floor_rounds_to_nearest(upward: Upward) -> None:
    index = built()
    scores = [hit.score for hit in index.recall_one(vector=QUERIES[0], limit=N)]
    floor = scores[5] + float(np.spacing(np.float32(abs(scores[5])))) / 4
    expected = len(index.recall_one(vector=QUERIES[0], limit=N, min_score={"v": floor}))
    with upward:
        found = len(index.recall_one(vector=QUERIES[0], limit=N, min_score={"v": floor}))
    assert found == expected == 6


def test_the_scores_of_an_arm_that_searches_keep_their_bits(upward: Upward) -> None:
    names = [f"c{at}" for at in range(25)]  # float32(1 / 25) lies below 1 / 25
    table = pa.table({"id": [1], **{name: ["milk"] for name in names[:-1]}, names[-1]: ["tea"]})
    schema = hr.Schema(key="id", cell=None, text=names[-1], stored=names)
    index = hr.Index.build(table, schema)
    asked = {"text": {"regex": ["t.a"]}, "arms": hr.arms.Regex(names)}
    with upward:
        (hit,) = index.recall(**asked)[0]
    assert hit.score == float(np.float32(1 / 25)) < 1 / 25
