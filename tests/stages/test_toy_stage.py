"""A stage from outside the package runs, is traced, explains itself and says why it drops rows."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from distributed.placement import ApartShard, index_of
from hyrecall.distributed import ShardedIndex
from hyrecall.stages import FusedLists, Stage, StageCall, Why


@dataclass(frozen=True)
class Cap(Stage):
    """Keeps at most so many hits of each value of a column."""

    column: str
    most: int = 1

    phase = 3.5
    column_options = ("column",)

    def run(self, lists: FusedLists, call: StageCall) -> FusedLists:
        values = call.column(lists, self.column).to_pylist()
        seen: Counter[Any] = Counter()
        stays = np.zeros(len(lists), np.bool_)
        for at, pair in enumerate(zip(lists.query.tolist(), values, strict=True)):
            seen[pair] += 1
            stays[at] = seen[pair] <= self.most
        return lists.keep(stays)

    def explain(
        self, hit: FusedLists, score: float, call: StageCall
    ) -> tuple[float, dict[str, float]]:
        return score, {"most": float(self.most)}

    def why(self, before: FusedLists, after: FusedLists, call: StageCall) -> Callable[[int], Why]:
        return lambda entry: Why("cap", float(before.score[entry]), float(self.most))


class Halved(Stage):
    """Halves every score, without explaining more."""

    phase = 0.5

    def run(self, lists: FusedLists, call: StageCall) -> FusedLists:
        return call.ordered(lists.with_arrays(score=lists.score / 2))

    def explain(
        self, hit: FusedLists, score: float, call: StageCall
    ) -> tuple[float, dict[str, float]]:
        return score / 2, {}


class Alone(Halved):
    over_shards = "it is a toy"


class Asked(Stage):
    """Adds what a function says of each text, and keeps it for explanations."""

    phase = 0.5

    def __init__(self, function: Callable[[list[str]], list[float]]) -> None:
        self.function = function

    @property
    def keeps(self) -> tuple[str, ...]:
        return ("said",)

    def run(self, lists: FusedLists, call: StageCall) -> FusedLists:
        texts = call.column(lists, "text").to_pylist()
        said = call.once(self, lists, lambda: np.array(self.function(texts), np.float64))
        if (said == 0).any():
            empty = np.unique(lists.query[said == 0]) + call.first_query
            call.note("said nothing", {int(query): "said nothing of yours" for query in empty})
        return call.ordered(lists.with_arrays(said=said, score=lists.score + said))

    def explain(
        self, hit: FusedLists, score: float, call: StageCall
    ) -> tuple[float, dict[str, float]]:
        said = float(hit.arrays["said"][0])
        return score + said, {"said": said}


TABLE = pa.table(
    {
        "id": [1, 2, 3, 4, 5],
        "user": ["ann"] * 5,
        "source": ["chat", "chat", "mail", "chat", "mail"],
        "text": ["green tea", "tea", "tea with milk", "black tea, tea", "more tea for two"],
    }
)
SCHEMA = hr.Schema(key="id", cell="user", text="text", vector="v", attributes="source")
VECTORS = np.array([[1, 0], [1, 0.1], [0.2, 1], [0, 1], [1, 0.4]], np.float32)
ASKED: dict[str, Any] = {
    "text": ["tea", "milk"], "vectors": np.array([[1, 0], [0, 1]], np.float32), "scope": "ann",
}  # fmt: skip
SHAPING = (Halved(), hr.Rerank(3), Cap("source"), hr.MMR(0.9))


@pytest.fixture(scope="module")
def index() -> hr.Index:
    return hr.Index.build(TABLE, SCHEMA, vectors={"v": VECTORS}, device="cpu")


def test_it_runs_among_other_stages_and_is_traced(index: hr.Index) -> None:
    plain = index.recall(**ASKED, shaping=hr.Rerank(3))
    hits = index.recall(**ASKED, shaping=SHAPING)
    sources = dict(zip(TABLE["id"].to_pylist(), TABLE["source"].to_pylist(), strict=True))
    for before, after in zip(plain, hits, strict=True):
        first = [
            next(key for key in before.keys if sources[key] == one) for one in set(sources.values())
        ]
        assert sorted(after.keys) == sorted(first)
    cap = hits.trace.stages[2]
    assert (cap.stage, cap.n_in, cap.n_out, cap.notes) == ("Cap", 10, 4, ())


def test_its_scores_are_explained_to_the_last_bit(index: hr.Index) -> None:
    for hits in index.recall(**ASKED, shaping=SHAPING):
        for hit in hits:
            made = hit.explain()
            assert made.score == hit.score
            assert [step.stage for step in made.steps] == ["Halved", "Rerank", "Cap", "MMR"]
            assert made.steps[0].score == made.fused / 2
            assert f"Cap: score {made.steps[2].score:.6g} as before: most 1" in str(made)


def test_what_it_keeps_explains_rows_that_a_rerank_has_moved(index: hr.Index) -> None:
    asked: list[int] = []

    def lengths(texts: list[str]) -> list[float]:
        asked.append(len(texts))
        return [len(text) / 10 if "milk" not in text else 0.0 for text in texts]

    hits = index.recall(**ASKED, shaping=(Asked(lengths), hr.Rerank(4), hr.MMR(0.5)), limit=3)
    assert hits[0].keys != index.recall(**ASKED, shaping=Asked(lengths), limit=3)[0].keys
    for hit in (*hits[0], *hits[1]):
        assert hit.explain().score == hit.score
    told = hits.trace
    assert told.degraded == told.stages[0].notes == ("said nothing",)
    assert hits[1].trace.degraded == ("said nothing of yours",)
    n_asked = len(asked)
    assert hits[0].explain_dropped().n_dropped == 2
    assert len(asked) == n_asked  # its function is not called again


def test_it_says_why_it_drops_a_row(index: hr.Index) -> None:
    dropped = index.recall(**ASKED, shaping=SHAPING)[0].explain_dropped()
    (cap,) = (one for one in dropped.stages if one.stage == "Cap")
    assert (cap.n_in, cap.n_out) == (5, 2)
    assert {row.reason for row in cap.rows} == {"cap"}
    assert "cap, " in str(dropped)
    assert "compared with 1" in str(dropped)


def test_its_columns_and_its_place_are_checked(index: hr.Index) -> None:
    with pytest.raises(hr.OptionError, match=r"^Cap\.column: expected a column of .*'kind'$"):
        index.recall(**ASKED, shaping=Cap("kind"))
    with pytest.raises(hr.OptionError, match=r"^shaping: expected at most one of each stage"):
        index.recall(**ASKED, shaping=(hr.MMR(0.9), Cap("source")))
    with pytest.raises(hr.DTypeError, match=r"^Stage\.phase: expected a number"):
        index.recall(**ASKED, shaping=(Stage(), Cap("source")))


def test_a_query_replies_alone_as_in_its_batch_and_a_smaller_limit_gives_a_prefix(
    index: hr.Index,
) -> None:
    both = index.recall(**ASKED, shaping=SHAPING[:3])
    for at, text in enumerate(ASKED["text"]):
        one = index.recall_one(
            text=text, vector=ASKED["vectors"][at], scope="ann", shaping=SHAPING[:3], limit=1
        )
        assert one.keys == both[at].keys[:1]
        assert [hit.score for hit in one] == [hit.score for hit in both[at]][:1]


def test_a_recipe_holds_it(index: hr.Index) -> None:
    recipe = hr.recipes.default.replace(shaping=(Cap("source", 2),), with_threads=None)
    assert recipe.columns == ("source",)
    assert len(index.recall(text=["tea"], scope="ann", recipe=recipe)[0]) == 4


def test_shards_refuse_it_by_name_if_it_says_so(index: hr.Index) -> None:
    with ShardedIndex.build(
        [TABLE.slice(0, 3), TABLE.slice(3)],
        SCHEMA,
        vectors=[{"v": VECTORS[:3]}, {"v": VECTORS[3:]}],
    ) as shards:
        with pytest.raises(hr.OptionError, match=r"^shaping: expected .*Alone \(it is a toy\)"):
            index_of([one.index for one in shards.shards], wire=False, kind=ApartShard).recall(
                **ASKED, shaping=Alone()
            )
        found = shards.recall(**ASKED, shaping=SHAPING)
    assert found.to_arrow().equals(index.recall(**ASKED, shaping=SHAPING).to_arrow())


@dataclass(frozen=True)
class Askew(Stage):
    """A stage that does what a stage must not."""

    made: object
    phase = 3.5

    def run(self, lists: FusedLists, call: StageCall) -> Any:
        match self.made:
            case "NaN":
                return lists.with_arrays(score=np.full(len(lists), np.nan))
            case "short":
                return lists.with_arrays(score=lists.score[1:])
        return self.made


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (None, r"Askew.run: expected FusedLists, got NoneType"),
        ("NaN", r"Askew.run: expected a score of each entry"),
        ("short", r"Askew.run: expected a score of each entry"),
    ],
)
def test_what_a_stage_gets_wrong_is_told_with_its_name(
    index: hr.Index, made: object, told: str
) -> None:
    with pytest.raises(hr.HyrecallError, match=told):
        index.recall(**ASKED, shaping=Askew(made))


@pytest.mark.parametrize("phase", [float("nan"), float("inf"), True, "3", None])
def test_a_stage_without_a_number_of_its_own_is_refused(index: hr.Index, phase: object) -> None:
    kind = type("Odd", (Askew,), {"phase": phase})
    with pytest.raises(hr.HyrecallError, match=r"^Odd.phase: expected a number"):
        index.recall(**ASKED, shaping=kind("NaN"))


def test_two_stages_of_one_name_keep_what_their_own_functions_said(index: hr.Index) -> None:
    def boost(by: float, number: float) -> Stage:
        @dataclass(frozen=True)
        class Boost(Stage):
            phase = number

            def run(self, lists: FusedLists, call: StageCall) -> FusedLists:
                said = call.once(self, lists, lambda: np.full(len(lists), by))
                return call.ordered(lists.with_arrays(score=lists.score + said))

        return Boost()

    shaping = (boost(5.0, 3.2), boost(-5.0, 3.6))
    hits = index.recall(**ASKED, shaping=shaping, limit=1)
    for one in hits:
        for stage in one.explain_dropped().stages:
            for row in stage.rows:
                assert abs(row.value) < 4
