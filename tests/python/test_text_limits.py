"""Texts as they should not be: lone surrogates, NUL, megabytes, a million terms."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall.distributed import ShardedIndex
from laws.effort import Effort

MEGA = 1_000_000
SECONDS = 1.0  # of one core, for 10 MB


def index_of(texts: Any, analyzer: str = "unicode") -> hr.Index:
    if not isinstance(texts, pa.Array):
        texts = pa.array(texts, pa.string())
    table = pa.table({"id": np.arange(len(texts)), "text": texts})
    schema = hr.Schema(key="id", cell=None, text="text", stored=())
    return hr.Index.build(table, schema, analyzer=hr.Analyzer(analyzer))


def found(index: hr.Index, query: Any) -> list[int]:
    return sorted(index.recall_one(text=query, limit=100).keys)


ASKED = (["tea", "a\ud83d"], {"text": ["tea", "\ud800"]}, ["tea", hr.All("x", hr.Phrase("\udfff"))])


@pytest.mark.parametrize("text", [*ASKED, np.array(ASKED[0]), tuple(ASKED[0])])
def test_a_lone_surrogate_in_a_query_is_refused(text: Any, tmp_path: Path) -> None:
    message = r"text\[1\]: expected valid Unicode, got a lone surrogate"
    index = index_of(["hot", "tea", "\U0001f600"])
    index.save(tmp_path / "saved")
    for one in (index, ShardedIndex.open([tmp_path / "saved"])):
        with pytest.raises(hr.OptionError, match=message):
            one.recall(text=text)
    with pytest.raises(hr.OptionError, match=r"text\[0\]"):
        index.recall_one(text="\ud83d")
    assert found(index, "\U0001f600 tea") == [1]


# ---- sizes ----


@pytest.fixture(scope="module")
def large() -> hr.Index:
    rng = np.random.default_rng(1)
    texts = [" ".join(f"w{i}" for i in row) for row in rng.integers(0, 100_000, (5000, 12))]
    return index_of(texts)


def cpu_seconds(call: Callable[[], object]) -> tuple[float, object]:
    """Seconds of one core, since the machine may be busy with other things; and the outcome."""
    started = time.process_time()
    outcome = call()
    return time.process_time() - started, outcome


TEN_MEGABYTES: dict[str, Callable[[], str]] = {
    "one word again and again": lambda: "w7 cups " * (10 * MEGA // 8),
    "one word of 10 MB": lambda: "w" * (10 * MEGA),
    "NUL": lambda: "\0" * (10 * MEGA),
    "blanks": lambda: " " * (10 * MEGA),
    "a million words": lambda: " ".join(f"w{i:08d}" for i in range(MEGA)),
}


@pytest.mark.plain_cases(2)
@pytest.mark.parametrize("name", TEN_MEGABYTES)
def test_a_query_of_10_megabytes_takes_a_second_or_is_refused(large: hr.Index, name: str) -> None:
    query = TEN_MEGABYTES[name]()
    spent = []
    for _ in range(3):
        seconds, outcome = cpu_seconds(lambda: large.recall_one(text=query))
        assert isinstance(outcome, hr.QueryHits)
        told = ("text was not searched: it has more than 65,536 distinct terms",)
        assert outcome.trace.degraded == (told if name == "a million words" else ())
        spent.append(seconds)
        if seconds < SECONDS:
            return
    pytest.fail(f"took {spent} s")


def test_the_most_terms_a_query_may_have_are_answered_in_time(large: hr.Index) -> None:
    for query in (
        " ".join(f"w{i}" for i in range(65_536)),
        hr.Any(*(hr.Boost(f"w{i}", 2) for i in range(20_000)), hr.All("w1", "w2")),
    ):
        seconds, hits = cpu_seconds(lambda query=query: large.recall_one(text=query))
        assert isinstance(hits, hr.QueryHits)
        assert len(hits) == 10
        assert seconds < 5 * SECONDS


def test_a_document_of_megabytes_and_a_million_terms_is_indexed(effort: Effort) -> None:
    n = effort.cases(quick=100_000, full=MEGA)
    long = " ".join(f"w{i}" for i in range(n))
    index = index_of([long, "w5 tea", "x" * (10 * MEGA)])
    assert found(index, "w5") == [0, 1]
    assert found(index, f"w{n - 1}") == [0]
    assert found(index, hr.Phrase(f"w{n - 3} w{n - 2} w{n - 1}")) == [0]
    hit = index.recall_one(text=f"w{n - 1}")[0]
    assert hit.explain().components[0].doc_length == n
    assert hit.explain().score == hit.score
    index.compact()
    assert found(index, f"w{n - 1}") == [0]


def test_many_equal_texts_and_empty_rows_cost_little() -> None:
    index = index_of([None, ""] * 50_000 + ["tea"])
    assert found(index, "tea") == [100_000]
    assert index.recall_one(text="tea")[0].explain().components[0].n_docs == 50_001
