"""Run bench/on_device.sh and its parts: whole on the emulated device, else on the CPU as far as
they work without a GPU.

With HYRECALL_EMULATED set, every step of both calls runs on little data and must be reported.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyrecall as hr
from bench import device_cases, device_model, device_report, device_sweep, grown
from bench.device_world import SIZES, World

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "bench" / "on_device.sh"
STEPS = {
    1: "build ceilings smoke sweep tables late hybrid counters laws",
    2: "build ceilings smoke tables threads memcheck racecheck initcheck ways",
}
# What may be left out without a GPU; each says why.
WATCHERS = {"counters", "memcheck", "racecheck", "initcheck"}
CHOICE = {"plane": "bfloat16", "widest": 32, "stride": 32, "capacity": 100}
TUNE = {"chosen": [{"rows": "bfloat16", "queries": 8, "ms": 1.0, "model_ms": 2.0, **CHOICE}]}


def run_script(out: Path, call: int, **settings: str) -> tuple[int, dict[str, Any]]:
    """Run a call on the package of this process, and read its report."""
    script = settings.pop("script", str(SCRIPT))
    settings = {"PYTHON": sys.executable, "BUILD": str(Path(hr.__file__).parents[1])} | settings
    done = subprocess.run(
        ["bash", script, str(call), str(out)],
        env=os.environ | settings,
        stdout=subprocess.DEVNULL,
        check=False,
    )
    return done.returncode, json.loads((out / "device.json").read_text())


def problems(found: dict[str, Any], call: int) -> list[str]:
    """Name the steps of a call that are missing, and those that neither ran nor say why."""
    results = {one["step"]: one["result"] for one in found["steps"]}
    left_out = {line.split(":")[0] for line in found["left_out"]}
    out = []
    for step in STEPS[call].split():
        is_excused = step in WATCHERS & left_out and results.get(step) == "skipped"
        if results.get(step) != "ok" and not is_excused:
            out.append(f"{step}: {results.get(step, 'missing')}")
    return out


@pytest.mark.skipif(not os.environ.get("HYRECALL_EMULATED"), reason="no emulated device is named")
def test_both_calls_run_whole_on_the_emulated_device(tmp_path: Path) -> None:
    (tmp_path / "chosen.json").write_text(json.dumps(TUNE))
    for call in STEPS:
        settings = {"SIZE": "dry", "TUNE": str(tmp_path / "chosen.json"), "PATIENCE": "2"}
        code, found = run_script(tmp_path / str(call), call, **settings)
        assert problems(found, call) == []
        assert code == 0
        assert set(found["smoke"].values()) == {"ok"}
        for entry in found["cases"]:
            assert entry["searches"] >= 1
            assert {"nbytes", "flops", "model_ms", "ms"} <= set(entry["kernels"][1])
    tuned = [entry["case"] for entry in found["cases"] if "chosen" in entry]
    assert tuned == ["8 queries", "8 queries, grown rows", *tuned[2:]]
    first = json.loads((tmp_path / "1" / "device.json").read_text())
    assert {one["queries"] for one in first["tune"]["measured"]} == set(SIZES["dry"].batches)
    assert len(first["hybrid"]) == 4
    assert len(first["late"]) == 2
    assert (tmp_path / "1" / "tune.json").is_file()


def test_a_step_that_the_script_lacks_is_missed(tmp_path: Path) -> None:
    lines = SCRIPT.read_text().splitlines(keepends=True)
    planted = tmp_path / "planted" / "on_device.sh"
    planted.parent.mkdir()
    planted.write_text("".join(line for line in lines if not line.startswith("  step sweep ")))
    (tmp_path / "bench").symlink_to(ROOT / "bench")
    # Takes the place of Python: every step succeeds at once.
    python = tmp_path / "python"
    report = f'if [[ "$*" == *device_report* ]]; then exec {sys.executable} "$@"; fi'
    python.write_text(f"#!/usr/bin/env bash\n{report}\n")
    python.chmod(0o755)
    settings = {"DEVICE": "cuda:0", "PYTHON": str(python), "HYRECALL_EMULATED": "nowhere"}
    _, whole = run_script(tmp_path / "whole", 1, **settings)
    _, found = run_script(tmp_path / "out", 1, script=str(planted), **settings)
    assert problems(whole, 1) == []
    assert problems(found, 1) == ["sweep: missing"]


def test_the_script_runs_on_the_cpu(tmp_path: Path) -> None:
    settings = {"DEVICE": "cpu", "SIZE": "tiny", "STEPS": "ceilings sweep tables hybrid counters"}
    code, found = run_script(tmp_path, 1, **settings)
    assert code == 0, found["steps"]
    results = {one["step"]: one["result"] for one in found["steps"]}
    skipped = {"sweep": "skipped", "counters": "skipped"}
    assert results == {"ceilings": "ok", "tables": "ok", "hybrid": "ok", **skipped}
    assert len(found["cases"]) == len(device_cases.CASES)
    for entry in found["cases"]:
        assert entry["ours"]["median_ms"] > 0
    shown = (tmp_path / "device.md").read_text()
    assert all(entry["case"] in shown for entry in found["cases"])
    assert "| 88 bytes: group 28, range 8, run 12, test 32, filter 8 |" in shown
    assert str(tmp_path) not in shown + json.dumps(found)


def test_a_step_that_fails_is_reported_and_the_others_still_run(tmp_path: Path) -> None:
    code, found = run_script(tmp_path, 2, DEVICE="cuda:63", SIZE="tiny", STEPS="tables initcheck")
    assert code == 1
    assert [one["step"] for one in found["steps"]] == ["tables", "initcheck"]
    assert found["steps"][0]["result"] == "FAILED (1)"
    assert {entry["error"].split(":")[0] for entry in found["cases"]} == {"DeviceUnavailableError"}


def test_rows_that_torch_grows_are_like_those_of_grown() -> None:
    torch = pytest.importorskip("torch")
    world = World(replace(SIZES["tiny"], rows=2_000, dim=grown.DIM), "cpu", torch, "grown")
    assert np.allclose(world.rows.norm(dim=1), 1)
    asked, rows = (grown.rows(n, part=part) for part, n in ((1, 32), (0, 2_000)))
    best = [
        np.sort(scores, axis=1)[:, -10:].mean()
        for scores in (world.scores("float32", np.arange(32)), asked @ rows.T)
    ]
    assert best[0] == pytest.approx(best[1], abs=0.05)
    assert best[0] > 0.25  # of Gaussian rows: 0.15


def test_the_better_third_is_measured_for_longer_and_the_model_stays() -> None:
    seen: list[tuple[int, int]] = []

    def measure(choice: dict[str, Any], rounds: int) -> None:
        seen.append((choice["way"], rounds))
        ms = 10.0 - choice["way"]
        choice |= {"ms": {"a": ms, "b": 10.0}, "searches": {"a": 1.0, "b": 1.0}}
        if choice["way"] == 9:
            choice["searches"]["a"] = 2.0  # the fastest, but it searches twice
        if choice["way"] > 0:
            choice["ms"]["b"] -= 1

    tried: list[dict[str, Any]] = [{"way": way} for way in range(10)]
    left = device_sweep.halve(tried, measure, (1, 5), deadline=float("inf"))
    assert [rounds for _, rounds in seen] == [1] * 10 + [5] * 4
    assert left[-1] is tried[0]
    assert all(one["way"] != 9 for one in left)
    assert device_sweep.share(left[0], tried[0]) == pytest.approx(0.9)
    assert device_sweep.halve(tried, measure, (1,), deadline=0.0) == [tried[0]]


def test_the_model_counts_what_the_plan_reads() -> None:
    """Floors are those of docs/kernels/dense.md, tunings those of test_dense_stages.cpp."""
    tuning = device_model.choose_tuning(100, 1_000_000)
    assert str(tuning) == "11392,178,64"
    assert device_model.choose_tuning(100, 10_000_640).stride == 1_024
    assert str(device_model.choose_tuning(100, 10_000_640, 32, 16_384)) == "19584,306,512"
    scans = ["int8:32:sm_90a", "int8:128:sm_90a", "int8:256:sm_90a", "bfloat16:128:sm_90a"]
    assert device_model.widest_scan(scans, 768, "int8") == 256
    assert device_model.widest_scan(scans, 1_024, "int8") == 128
    assert device_model.widest_scan(scans, 1_024, "bfloat16") == 32
    shape: dict[str, Any] = {"dim": 768, "dtype": "float32", "plane": "int8", "k": 100}
    shape |= {"widest": 256, "tuning": tuning}
    found = device_model.works([(1_000_000, 1_024)], **shape)
    wide = found["scan of the rest, 256 wide"]
    assert wide.nbytes == 776e6
    assert wide.flops == pytest.approx(1.573e12, rel=1e-3)
    assert found["scan of the rest, 32 wide"].nbytes == 0
    assert found["scan of the first tiles, 32 wide"].nbytes == 123 * 128 * 776
    assert found["guess_thresholds"].nbytes == pytest.approx(4.0e6, rel=0.01)
    ceilings = {"bandwidth_gb_s": 3_000.0, "int8_top_s": 1_580.0}
    assert wide.ms(ceilings, "int8") == pytest.approx(0.9954, rel=1e-3)
    assert found["pick_best"].ms(ceilings, "int8") is None
    small = device_model.works([(20_000, 1), (300_000, 40)], **shape)
    assert small["scan of the first tiles, 32 wide"].nbytes == (20_000 + 37 * 128) * 776
    assert small["scan of the rest, 256 wide"].nbytes == 300_000 * 776


def test_an_index_that_lives_gives_the_cpus_bits() -> None:
    command = [sys.executable, "-m", "bench.device_sanitize", "--device", "cpu", "--seconds", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("cpu gives the CPU's bits: ")


def test_none_of_this_needs_pytest_benchmark_or_xdist() -> None:
    """A lent machine may have neither (README.md)."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:benchmark", "-p", "no:xdist"]
    command += ["-p", "no:cacheprovider", "-o", "addopts=", "--import-mode=importlib"]
    done = subprocess.run(
        [*command, __file__, "-k", "peer or targets"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert "2 passed" in done.stdout


def test_a_peer_that_answers_otherwise_is_found() -> None:
    ids = np.array([[4, 2, -1]])
    scores = np.array([[0.9, 0.5, -np.inf]], np.float32)
    assert device_cases.compare_with_peer((ids, scores), (ids, scores)) == 0
    swapped, close = ids[:, [1, 0, 2]], scores + np.float32(5e-4)
    assert 0 < device_cases.compare_with_peer((ids, scores), (swapped, close)) < 1e-3
    with pytest.raises(AssertionError, match="scores differ"):
        device_cases.compare_with_peer((ids, scores), (swapped, scores * np.float32(0.9)))
    with pytest.raises(AssertionError, match="lists of other lengths"):
        device_cases.compare_with_peer((ids, scores), (np.array([[4, 2, 1]]), scores))


def test_targets_are_met_or_missed_by_each_of_their_parts() -> None:
    rivals = {
        "eager": {"median_ms": 12.0, "counts": True},
        "compiled": {"error": "no compiler"},
        "another way": {"median_ms": 1.0, "counts": False},
    }
    entry = {"ours": {"median_ms": 2.0}, "rivals": rivals, "target_ms": 2.6, "target_ratio": 5.0}
    assert device_report.ratio(entry) == 6
    assert device_report.is_met(entry)
    assert not device_report.is_met(entry | {"target_ratio": 7.0})
    assert not device_report.is_met(entry | {"target_ms": 1.9})
    assert device_report.is_met({"case": "x", "error": "y"}) is None
