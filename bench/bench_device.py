"""Run bench/device.sh and its parts on the CPU, as far as they work without a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import device_cases, device_report

ROOT = Path(__file__).parents[1]


def run_script(out: Path, **settings: str) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        ["bash", str(ROOT / "bench" / "device.sh"), str(out)],
        env=os.environ | {"PYTHON": sys.executable, "SIZE": "tiny"} | settings,
        stdout=subprocess.DEVNULL,
        check=False,
    )
    return done.returncode, json.loads((out / "device.json").read_text())


def test_the_script_runs_on_the_cpu(tmp_path: Path) -> None:
    code, found = run_script(tmp_path, DEVICE="cpu", STEPS="limits table hybrid memcheck")
    assert code == 0, found["steps"]
    results = {one["step"]: one["result"] for one in found["steps"]}
    assert results == {"limits": "ok", "table": "ok", "hybrid": "ok", "memcheck": "skipped"}
    assert len(found["cases"]) == len(device_cases.CASES) + 1
    for entry in found["cases"]:
        assert entry["ours"]["median_ms"] > 0
    shown = (tmp_path / "device.md").read_text()
    assert all(entry["case"] in shown for entry in found["cases"])
    assert "| 88 bytes: group 28, range 8, run 12, test 32, filter 8 |" in shown
    assert str(tmp_path) not in shown + json.dumps(found)


def test_a_step_that_fails_is_reported_and_the_others_still_run(tmp_path: Path) -> None:
    code, found = run_script(tmp_path, DEVICE="cuda:63", STEPS="table initcheck")
    assert code == 1
    assert [one["step"] for one in found["steps"]] == ["table", "initcheck"]
    assert found["steps"][0]["result"] == "FAILED (1)"
    assert {entry["error"].split(":")[0] for entry in found["cases"]} == {"DeviceUnavailableError"}


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
