"""hits.plot(): bars whose parts are the contributions and whose ends are the scores."""

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")


@pytest.fixture(scope="module")
def index() -> hr.Index:
    texts = ["hot tea", "tea tea and milk", "cold milk", None]
    table = pa.table({"id": ["a", "b", "c", "d"], "text": texts})
    vectors = np.array([[1, 0], [1, 1], [-1, 1], [-1, 0]], np.float32)
    schema = hr.Schema(key="id", cell=None, text="text", vector="v")
    return hr.Index.build(table, schema, vectors={"v": vectors}, analyzer=hr.Analyzer("word"))


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    from matplotlib import pyplot

    pyplot.close("all")


def bars(ax: Any) -> dict[str, list[tuple[float, float]]]:
    """(start, width) of each hit's bar, by arm."""
    return {
        group.get_label(): [(bar.get_x(), bar.get_width()) for bar in group]
        for group in ax.containers
    }


ASKED: dict[str, Any] = {"text": ["tea", "milk"], "vectors": [[1, 0], [1, 1]]}
FUSIONS = [
    hr.RRF(),
    hr.WeightedSum({"text": 2}),
    hr.WeightedSum(normalize="none"),
    hr.DBSF(),
    hr.Max(normalize="none"),
]


@pytest.mark.plain_cases(4)
@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("fusion", FUSIONS, ids=repr)
def test_the_parts_of_a_bar_add_up_to_the_score(
    fusion: Any, normalize: bool, index: hr.Index
) -> None:
    hits = index.recall(**ASKED, fusion=fusion, normalize=normalize)
    for query in range(2):
        drawn = bars(hits.plot(query))
        assert list(drawn) == ["text", "v"]
        for at, hit in enumerate(hits[query]):
            widths = [drawn[arm][at][1] for arm in drawn]
            total = sum(widths)
            expected = min(max(total, 0.0), 1.0) if normalize else total
            if isinstance(fusion, hr.Max):
                assert sum(width != 0 for width in widths) <= 1
                expected = max(expected, 0.0) if hit.arm_score("text") is None else expected
            assert hit.score == pytest.approx(expected, rel=1e-12, abs=1e-15)
            if not normalize and not isinstance(fusion, hr.Max):
                parts = [part.contribution for part in hit.explain().components]
                assert widths == pytest.approx(parts, rel=1e-12)


def test_bars_are_stacked_away_from_0(index: hr.Index) -> None:
    hits = index.recall(**ASKED, fusion=hr.WeightedSum(normalize="none"))
    drawn = bars(hits.plot(0))
    assert any(width < 0 for _, width in drawn["v"])
    for text, vector in zip(drawn["text"], drawn["v"], strict=True):
        assert text[0] == 0.0
        assert vector[0] == (text[1] if vector[1] >= 0 and text[1] >= 0 else 0.0)


def test_labels_name_ranks_keys_arms_and_fusion(index: hr.Index) -> None:
    hits = index.recall(**ASKED, limit=2, offset=1, fusion=hr.RRF())
    ax = hits.plot(1)
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels == [f"{hit.rank}  {hit.key}" for hit in hits[1]]
    assert labels[0].startswith("2  ")
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the best on top
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["text", "v"]
    assert ax.get_xlabel() == "score (RRF)"
    assert ax.get_title() == "query 1"
    one = index.recall(text=["tea"], normalize=True).plot()
    assert one.get_xlabel() == "score, normalised"
    assert [text.get_text() for text in one.get_legend().get_texts()] == ["text"]


def test_axes_that_are_given_are_drawn_on(index: hr.Index) -> None:
    from matplotlib.figure import Figure

    ax = Figure().subplots()
    assert index.recall(**ASKED).plot(0, ax=ax) is ax
    assert len(ax.containers) == 2


def test_a_query_without_hits_is_an_empty_picture(index: hr.Index) -> None:
    ax = index.recall(text=["absent"]).plot()
    assert [bar for group in ax.containers for bar in group] == []
    assert ax.get_legend() is None


def test_a_query_that_is_not_there_is_refused(index: hr.Index) -> None:
    with pytest.raises(IndexError, match="query 2 of 2"):
        index.recall(**ASKED).plot(2)


def test_without_matplotlib_the_extra_is_named(
    index: hr.Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(hr.MissingExtraError, match=r"hyrecall\[plot\]"):
        index.recall(**ASKED).plot()
