"""The report itself: how runs are joined, what becomes of a target, how ratios are taken."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from bench import plots, readme, report, results
from bench.bench_growth import points
from bench.measuring import Bench
from bench.sizes import SIZES
from bench.targets import TARGETS, Target
from bench.verdicts import judge, share

LIMITS = {
    "stream_gb_s": 40.0,
    "stream_gb_s_1_thread": 30.0,
    "int8_gop_s": 1_500.0,
    "numpy_sgemm_gflop_s": 300.0,
}
MILLION = 1_000_000


def entry(who: str = "hyrecall", **facts: Any) -> dict[str, Any]:
    seconds = {"median": 0.02, "low": 0.02, "high": 0.03, "min": 0.01, "max": 0.05}
    made = {
        "work": "dense", "who": who, "kind": "dense", "docs": MILLION, "dim": 768, "queries": 1,
        "k": 10, "data": "gaussian", "seconds": seconds, "others_cores": 0.0,
    }  # fmt: skip
    return made | facts


def ratio(times: float) -> dict[str, float]:
    return {"median": times, "low": times * 0.9, "high": times * 1.1}


def target(figure: str, against: str | None = None) -> Target:
    return next(t for t in TARGETS if t.figure == figure and against in (None, t.against))


def test_a_ratio_passes_or_is_missed_by_what_lacks() -> None:
    wanted = target("ratio", "faiss*")
    for times, verdict in ((9.5, "pass"), (4.5, "MISS (50% of it)")):
        (line,) = judge(wanted, [entry(), entry("faiss*", ratio=ratio(times))], LIMITS)
        assert line.verdict == verdict
        assert line.figure.startswith(f"{times}x (")


def test_another_size_gets_no_verdict_and_what_was_not_measured_says_so() -> None:
    wanted = target("ratio", "faiss*")
    small = [entry(docs=1_000), entry("faiss*", docs=1_000, ratio=ratio(20.0))]
    assert [line.verdict for line in judge(wanted, small, LIMITS)] == ["not measured"]
    scoped = next(t for t in TARGETS if t.where.get("kind") == "cells of ten")
    one = entry(kind="cells of ten", arms=scoped.where["arms"], docs=1_000, queries=1_000)
    (line,) = judge(scoped, [one], LIMITS)
    assert (line.figure, line.verdict) == ("20 us at 1,000", "-")
    (line,) = judge(scoped, [one | {"docs": MILLION}], LIMITS)
    assert (line.figure, line.verdict) == ("20 us", "MISS (250% of it)")


def test_a_share_is_of_the_time_that_bytes_or_products_take() -> None:
    bytes_alone = entry(limit_bytes=768 * MILLION, limit_int8_ops=0)
    assert share(bytes_alone, LIMITS) == pytest.approx(0.768 / 40 / 0.02)
    products = entry(limit_bytes=0.001, limit_int8_ops=1.5e9)
    assert share(products, LIMITS) == pytest.approx(0.001 / 0.02)
    assert share(entry(), LIMITS) is None


def test_our_way_against_another_is_held_the_other_way_round() -> None:
    wanted = target("times")
    near = entry(kind="near-duplicates")
    (line,) = judge(wanted, [near, near | {"who": wanted.against, "ratio": ratio(0.5)}], LIMITS)
    assert line.verdict == "MISS (133% of it)"
    assert line.figure.startswith("2x (1.8")


def test_every_target_can_be_rendered_without_a_measurement() -> None:
    run = {
        "size": "tiny", "date": "2026-01-01", "machine": {"processor": "p", "cores": 2},
        "versions": {}, "limits": LIMITS, "entries": [],
    }  # fmt: skip
    shown = report.render(run, with_details=True)
    assert shown.count("not measured") >= len(TARGETS)
    assert readme.table(run).startswith(readme.BEGIN)


def test_a_part_takes_the_place_of_its_earlier_self() -> None:
    head = {"machine": {"processor": "p"}, "size": "full"}
    old = head | {"limits": {"a": 1.0}, "entries": [entry(), entry(work="bm25"), entry("x")]}
    new = head | {"limits": {"a": 0.5, "b": 2.0}, "entries": [entry(docs=5)]}
    joined = results.join(old, new)
    assert [(e["work"], e["docs"]) for e in joined["entries"]] == [("bm25", MILLION), ("dense", 5)]
    assert joined["limits"] == {"a": 1.0, "b": 2.0}
    assert results.join(old | {"machine": {}}, new) is new


def test_ratios_are_of_neighbouring_rounds() -> None:
    """Both sides slow down together in mid-run: a ratio of two medians would not notice."""
    bench = Bench(is_tiny=False)
    pace = iter([1, 1, 1, 1, 1, 1, 1, 3, 3, 3, 3, 3, 3])

    def run(seconds: float) -> Any:
        return lambda: seconds * next(pace)

    facts: dict[str, Any] = {"kind": "x", "docs": 1, "queries": 1, "check": lambda _: None}
    facts["clock"] = lambda seconds: seconds
    bench.measure("w", "hyrecall", run(0.01), rounds=2, **facts)
    bench.measure("w", "rival", run(0.02), rounds=4, **facts)
    ours, rival = bench.entries
    assert rival["ratio"]["median"] == pytest.approx(2)
    assert rival["seconds"]["median"] / ours["seconds"]["median"] == pytest.approx(6)
    assert "ratio" not in ours


def test_a_wrong_result_is_not_timed() -> None:
    bench = Bench(is_tiny=True)

    def check(reply: object) -> None:
        assert reply == 2

    with pytest.raises(AssertionError):
        bench.measure("w", "hyrecall", lambda: 1, check=check, kind="x", docs=1, queries=1)
    assert not bench.entries


def test_plots_are_drawn_from_a_run(tmp_path: Path) -> None:
    facts: dict[str, Any] = {"kind": "growth", "axis": "dim"}
    entries = [entry(**facts, value=v) for v in (64, 128)]
    entries.append(entry("faiss*", **facts, value=64))
    (path,) = plots.draw({"entries": entries}, tmp_path)
    root = ET.parse(path).getroot()
    drawn = [e.tag.rpartition("}")[2] for e in root]
    assert drawn.count("circle") == 3
    assert drawn.count("polyline") == 2
    assert "Dense recall, 1,000,000 rows, batch 1, k=10" in path.read_text()


@pytest.mark.parametrize("size", SIZES)
def test_growth_has_every_axis_at_every_size(size: str) -> None:
    assert {p.axis for p in points(SIZES[size])} == set(plots.AXES)
