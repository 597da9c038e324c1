"""Test the tools of the benchmarks: their JSON, ratios, joined runs, targets, tables and plots."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

import hyrecall as hr
from bench import beside_old, limits, plots, readme, report, results
from bench.bench_growth import points
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
CPU = {"brand_raw": "a processor", "count": 2, "l3_cache_size": 1 << 20}

pytest_plugins = "pytester"


def entry(who: str = "hyrecall", **facts: Any) -> dict[str, Any]:
    made = {
        "group": "dense", "who": who, "kind": "dense", "docs": MILLION, "dim": 768, "queries": 1,
        "k": 10, "data": "gaussian", "stats": {"median": 0.02, "min": 0.01, "max": 0.05},
        "isa": "avx2", "others_cores": 0.0,
    }  # fmt: skip
    return made | facts


def run_of(*entries: dict[str, Any], **facts: Any) -> results.Run:
    """Return pytest-benchmark's JSON with these entries."""
    benchmarks = [
        {
            "group": one["group"],
            "stats": one["stats"],
            "extra_info": {name: one[name] for name in one.keys() - {"group", "stats"}},
        }
        for one in entries
    ]
    head = {
        "size": "full", "datetime": "2026-01-01T00:00:00", "machine_info": {"cpu": CPU},
        "versions": {}, "limits": LIMITS, "benchmarks": benchmarks,
    }  # fmt: skip
    return head | facts


def ratio(times: float) -> dict[str, float]:
    return {"median": times, "q1": times * 0.9, "q3": times * 1.1}


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


def test_reading_counts_bytes_alone() -> None:
    wanted = target("reading")
    facts: dict[str, Any] = {"kind": "scoped", "tenants": wanted.where["tenants"]}
    products = entry(**facts, limit_bytes=0.4e9, limit_int8_ops=1.5e12)
    (line,) = judge(wanted, [products], LIMITS)
    assert (line.figure, line.bound, line.verdict) == ("50%", ">= 60%", "MISS (83% of it)")
    (line,) = judge(wanted, [entry(**facts)], LIMITS)
    assert line.verdict == "not measured"


def test_a_time_is_held_in_the_unit_of_its_target() -> None:
    wanted = next(t for t in TARGETS if t.where.get("kind") == "one search")
    one = entry(kind="one search", docs=1_000, embedder=wanted.where["embedder"])
    (line,) = judge(wanted, [one | {"stats": {"median": 0.0006}}], LIMITS)
    assert (line.figure, line.bound, line.verdict) == ("0.6 ms", "<= 0.8 ms", "pass")
    without = {name: value for name, value in one.items() if name != "queries"}
    assert [line.verdict for line in judge(wanted, [without], LIMITS)] == ["not measured"]


def test_an_entry_without_documents_is_held_to_a_target_of_any_size() -> None:
    wanted = next(t for t in TARGETS if t.where.get("kind") == "import")
    made = entry(kind="import", stats={"median": 0.3})
    del made["docs"]
    (line,) = judge(wanted, [made], LIMITS)
    assert (line.figure, line.verdict) == ("0.3 s", "MISS (150% of it)")


def test_our_way_against_another_is_held_the_other_way_round() -> None:
    wanted = target("times")
    near = entry(kind="near-duplicates")
    (line,) = judge(wanted, [near, near | {"who": wanted.against, "ratio": ratio(0.5)}], LIMITS)
    assert line.verdict == "MISS (133% of it)"
    assert line.figure.startswith("2x (1.8")


def test_every_target_can_be_rendered_without_a_measurement() -> None:
    assert report.render(run_of()).count("not measured") >= len(TARGETS)
    assert readme.table(run_of()).startswith(readme.BEGIN)


@pytest.mark.parametrize("path", sorted(results.FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_every_committed_run_is_rendered(path: Path) -> None:
    """Runs before a target have no field for it, and get no verdict there."""
    found = results.load(path)
    lines = report.render(found).splitlines()
    assert sum("| pass" in line or "| MISS" in line for line in lines) > 50
    for wanted in TARGETS:
        assert any(line.startswith(f"| {wanted.row}") for line in lines)


def test_a_part_takes_the_place_of_its_earlier_self() -> None:
    old = run_of(entry(), entry(group="bm25"), entry("x"), limits={"a": 1.0})
    new = run_of(entry(docs=5), limits={"a": 0.5, "b": 2.0})
    joined = results.join(old, new)
    found = [(one["group"], one["docs"]) for one in results.entries(joined)]
    assert found == [("bm25", MILLION), ("dense", 5)]
    assert joined["limits"] == {"a": 1.0, "b": 2.0}
    elsewhere = run_of(entry(), machine_info={"cpu": CPU | {"brand_raw": "another"}})
    assert results.join(elsewhere, new) is new


def run_benchmarks(pytester: pytest.Pytester, source: str, *options: str) -> results.Run:
    """Run benchmarks in a folder of their own under this folder's conftest; return their JSON."""
    pytester.makeconftest("from bench.conftest import *")
    pytester.makepyfile(source)
    pytester.runpytest_inprocess("--benchmark-json=run.json", *options)
    return results.load(pytester.path / "run.json")


PACED = """
import pytest
from bench.turns import OURS, Clock

CLOCK = Clock()
PACES = iter([1, 1, 1, 1] + [1, 1, 1, 1, 3, 3, 3, 3])  # ours alone; then ours and the rival

@pytest.mark.benchmark(timer=CLOCK)
@pytest.mark.parametrize("who", [OURS, "rival"])
def test_paced(who, benchmark, turns):
    benchmark.group = "paced"
    seconds = 1.0 if who == OURS else 2.0
    run = CLOCK.counting(lambda took: took, lambda: seconds * next(PACES))
    turns.measure(benchmark, who, run, rounds=4, timer=CLOCK)
"""


def test_ratios_are_of_neighbouring_rounds(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both sides slow down together in mid-run: a ratio of two medians would not notice."""
    monkeypatch.setattr(limits, "measure", lambda threads, is_tiny: LIMITS)
    run = run_benchmarks(pytester, PACED, "--bench-size=small")
    mine, rival = results.entries(run)
    assert "ratio" not in mine
    assert rival["ratio"] == pytest.approx({"median": 2, "q1": 2, "q3": 2}, rel=1e-3)
    assert rival["stats"]["median"] / mine["stats"]["median"] == pytest.approx(4, rel=1e-3)


CHECKED = """
def test_right(benchmark):
    assert benchmark(lambda: 1) == 1

def test_wrong(benchmark):
    assert benchmark(lambda: 1) == 2
"""


def test_a_run_has_limits_and_versions_and_nothing_that_failed_or_names_the_machine(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = iter([{"a": 1.0, "b": 3.0}, {"a": 2.0, "b": 2.0}])
    monkeypatch.setattr(limits, "measure", lambda threads, is_tiny: next(measured))
    run = run_benchmarks(pytester, CHECKED)
    (one,) = run["benchmarks"]
    assert (one["name"], one["stats"]["rounds"]) == ("test_right", 1)
    assert {"threads", "isa", "others_cores", "commit"} <= one["extra_info"].keys()
    assert run["limits"] == {"a": 2.0, "b": 3.0}
    assert run["size"] == "tiny"
    assert "numpy" in run["versions"]
    assert "node" not in run["machine_info"]


@pytest.mark.parametrize("path", sorted(results.FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_pytest_benchmark_reads_a_committed_run(path: Path) -> None:
    command = [sys.executable, "-m", "pytest_benchmark", "compare", str(path), "-k", "test_mmr"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "test_mmr[hyrecall]" in done.stdout
    assert "test_mmr[numpy, incremental loop]" in done.stdout


@pytest.mark.parametrize("path", sorted(results.FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_the_tests_of_a_committed_run_are_there_to_be_compared_with(path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-n", "0", "-q", "--collect-only", "-p"]
    command += ["no:cacheprovider", f"--bench-size={path.stem.partition('_')[0]}"]
    files = sorted(str(one) for one in results.HERE.glob("bench_*.py") if one != Path(__file__))
    done = subprocess.run(
        [*command, *files], cwd=results.HERE.parent, capture_output=True, text=True, check=True
    )
    ran = {
        one["fullname"]
        for one in json.loads(path.read_text())["benchmarks"]
        if one["extra_info"].get("data") != "real"  # copies with noise: rows are grown instead now
    }
    assert ran <= set(done.stdout.splitlines())


def test_two_builds_are_timed_in_turns(capsys: pytest.CaptureFixture[str]) -> None:
    package = str(Path(hr.__file__).parents[1])
    beside_old.main([package, package, "--rows", "2000", "--rounds", "1"])
    rows = capsys.readouterr().out.splitlines()[2:]
    assert [row.split(" | ")[0] for row in rows] == [
        "| grown, k=10", "| grown, k=100", "| gaussian, k=10", "| gaussian, k=100",
    ]  # fmt: skip


def test_two_builds_are_held_to_their_share_and_to_equal_replies() -> None:
    def told(us: float, digest: str = "a") -> beside_old.Told:
        return beside_old.Told({"10": us, "100": us}, digest)

    for now, end in ((30.0, "0.30 (0.30..0.30) | <= 0.40 | pass |"), (50.0, "<= 0.40 | MISS |")):
        line, _ = beside_old.table("grown", [(told(100.0), told(now))] * 2)
        assert line.endswith(end)
    with pytest.raises(SystemExit, match="equal replies"):
        beside_old.table("grown", [(told(100.0), told(30.0, "b"))])


def test_plots_are_drawn_from_a_run(tmp_path: Path) -> None:
    facts: dict[str, Any] = {"kind": "growth", "axis": "dim"}
    entries = [entry(**facts, value=v) for v in (64, 128)]
    entries.append(entry("faiss*", **facts, value=64))
    (path,) = plots.draw(run_of(*entries), tmp_path)
    root = ET.parse(path).getroot()
    drawn = [e.tag.rpartition("}")[2] for e in root]
    assert drawn.count("circle") == 3
    assert drawn.count("polyline") == 2
    assert "Dense recall, 1,000,000 rows, batch 1, k=10" in path.read_text()


@pytest.mark.parametrize("size", SIZES)
def test_growth_has_every_axis_at_every_size(size: str) -> None:
    assert {p.axis for p in points(SIZES[size])} == set(plots.AXES)
