"""bench/device.sh with an interpreter that only writes down how it was called: what the script does
beside its steps. The steps themselves are tried in bench/bench_device.py, and on a device."""

import json
import os
import re
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "bench" / "device.sh"
MOST_SECONDS = 525  # of 600 that a command may run on a lent machine; the report needs some
MOST_FILES = 8

FAKE = """#!/usr/bin/env bash
# Takes the place of Python: notes each call, and the settings it would see.
if [[ "$*" == *device_report* ]]; then PYTHONPATH={root}/python exec {python} "$@"; fi
case "$*" in
  "-c import xdist, pytest_timeout") exit {without_xdist} ;;
  *device_smoke*) printf '{excluded}' >"$3/excluded"; echo "some hung"; exit 1 ;;
  *device_limits*) {limits} ;;
  *device_cases*) {table} ;;
esac
printf '%s\\t%s\\t%s\\n' "${{PYTHONPATH:-}}" "${{HYRECALL_CUDA_KERNELS:-}}" "$*" >>{calls}
"""


@dataclass
class Run:
    code: int
    said: str
    out: Path
    calls: list[tuple[str, str, str]]  # PYTHONPATH, HYRECALL_CUDA_KERNELS, arguments

    @property
    def report(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.out / "device.json").read_text())
        return found

    def results(self) -> dict[str, str]:
        return {one["step"]: one["result"] for one in self.report["steps"]}


def run(
    tmp_path: Path,
    steps: str,
    *,
    limits: str = ":",
    table: str = ":",
    script: str | None = None,
    excluded: str = "",
    without_xdist: bool = False,
    **settings: str,
) -> Run:
    """Run a copy of the script, so that it builds and deletes nothing of this checkout."""
    bench = tmp_path / "bench"
    bench.mkdir()
    for name in ("__init__.py", "device_report.py"):
        (bench / name).write_text((SCRIPT.parent / name).read_text())
    (bench / "device.sh").write_text(script or SCRIPT.read_text())
    calls = tmp_path / "calls"
    calls.touch()
    python = tmp_path / "python"
    python.write_text(
        FAKE.format(
            python=sys.executable,
            root=ROOT,
            calls=calls,
            limits=limits,
            table=table,
            excluded=excluded,
            without_xdist=int(without_xdist),
        )
    )
    python.chmod(0o755)
    out = tmp_path / "out"
    environment = os.environ | {"PYTHON": str(python), "STEPS": steps, "DEVICE": "cuda:0"}
    environment.pop("HYRECALL_CUDA_KERNELS", None)
    done = subprocess.run(
        ["bash", str(bench / "device.sh"), str(out)],
        env=environment | settings,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    lines = [line.split("\t", 2) for line in calls.read_text().splitlines()]
    return Run(done.returncode, done.stdout, out, [(a, b, c) for a, b, c in lines])


def test_the_limits_of_all_steps_fit_the_time_of_one_command() -> None:
    limits = re.findall(r"^step (\w+) (\d+) ", SCRIPT.read_text(), re.MULTILINE)
    assert [name for name, _ in limits][:2] == ["build", "smoke"]
    assert len(limits) == 12
    assert sum(int(seconds) for _, seconds in limits) <= MOST_SECONDS


def test_the_callers_packages_stay_on_the_path(tmp_path: Path) -> None:
    met = run(tmp_path, "build limits", DEVICE="cpu", PYTHONPATH="/packages/of/the/caller")
    assert met.results() == {"build": "ok", "limits": "ok"}
    built = tmp_path / "build" / "device" / "site"
    assert {path for path, _, _ in met.calls} == {f"{built}:/packages/of/the/caller"}


def test_a_kernel_that_hangs_in_smoke_is_left_out_of_what_follows(tmp_path: Path) -> None:
    met = run(tmp_path, "smoke laws", excluded="int8:256:sm_90a\\nbfloat16:8:generic\\n")
    assert met.code == 1
    assert met.results() == {"smoke": "FAILED (1)", "laws": "ok"}
    kernels = {kernels for _, kernels, said in met.calls if "pytest" in said}
    assert kernels == {"-int8:256:sm_90a,-bfloat16:8:generic"}
    assert "left out: kernel int8:256:sm_90a: it hung or failed in smoke" in met.said
    assert any("int8:256:sm_90a" in line for line in met.report["left_out"])


def test_kernels_that_the_caller_left_out_stay_out_with_generic_ones_too(tmp_path: Path) -> None:
    met = run(tmp_path, "ways", HYRECALL_CUDA_KERNELS="-int8:8:generic")
    kernels = {kernels for _, kernels, said in met.calls if "pytest" in said}
    assert kernels == {"-int8:8:generic", "generic,-int8:8:generic"}


@pytest.mark.parametrize("without_xdist", [False, True])
def test_warnings_are_no_faults_and_workers_are_asked_for_only_where_they_are(
    tmp_path: Path, *, without_xdist: bool
) -> None:
    met = run(tmp_path, "laws", without_xdist=without_xdist)
    (said,) = [said for _, _, said in met.calls if "pytest" in said]
    assert " -W default " in said
    assert (" -n " in said) != without_xdist
    assert (" -o addopts= --import-mode=importlib " in said) == without_xdist


def test_results_are_few_files_and_one_archive_has_all(tmp_path: Path) -> None:
    met = run(tmp_path, "limits laws", limits="echo measured")
    files = [path for path in met.out.rglob("*") if path.is_file()]
    assert len(files) <= MOST_FILES
    assert {path.name for path in files} == {"device.json", "device.md", "results.tar.gz"}
    with tarfile.open(met.out / "results.tar.gz") as archive:
        names = {name.removeprefix("./") for name in archive.getnames()}
        logged = archive.extractfile("./logs/limits.log")
        assert logged is not None
        assert logged.read() == b"measured\n"
    assert {"steps.tsv", "logs/laws.log", "device.json", "left_out.txt"} <= names
    assert "left out: table: not among STEPS" in met.said


def test_a_step_that_hangs_is_stopped_and_the_archive_is_there_before_the_next(
    tmp_path: Path,
) -> None:
    text = re.sub(r"^(step \w+) \d+ ", r"\1 0 ", SCRIPT.read_text(), flags=re.MULTILINE)
    # Seconds for a slow machine to begin: the step must not be left out before it hangs.
    text = text.replace("step limits 0 ", "step limits 5 ").replace(
        "step table 0 ", "step table 60 "
    )
    met = run(
        tmp_path,
        "limits table",
        script=text.replace("readonly least=5 ", "readonly least=1 "),
        limits="exec sleep 60",
        table=f"cp {tmp_path}/out/results.tar.gz {tmp_path}/seen",
    )
    assert met.code == 1
    assert met.results()["limits"].startswith("stopped after")
    assert met.results()["table"] == "ok"
    assert "left out: limits, or the rest of it: stopped after" in met.said
    with tarfile.open(tmp_path / "seen") as archive:
        assert "./logs/limits.log" in archive.getnames()


def test_a_step_for_which_no_time_is_left_is_named(tmp_path: Path) -> None:
    text = re.sub(r"^(step \w+) \d+ ", r"\1 0 ", SCRIPT.read_text(), flags=re.MULTILINE)
    met = run(tmp_path, "limits", script=text)
    assert met.code == 1
    assert met.results() == {"limits": "left out"}
    assert "left out: limits: no time was left" in met.said
