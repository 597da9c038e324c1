"""The scripts that try a device: bench/on_device.sh and the supervisor of bench/device_smoke.py."""

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

# ---- bench/on_device.sh with an interpreter that only writes down how it was called ----

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "bench" / "on_device.sh"
MOST_SECONDS = {"1": 420, "2": 300}
MOST_FILES = 8

FAKE = """#!/usr/bin/env bash
# Takes the place of Python: notes each call, and the settings it would see.
if [[ "$*" == *device_report* ]]; then PYTHONPATH={root}/python exec {python} "$@"; fi
case "$*" in
  "-c import xdist, pytest_timeout") exit {without_xdist} ;;
  *device_smoke*) printf '{excluded}' >"$3/excluded"; echo "some hung"; exit 1 ;;
  *device_ceilings*) {ceilings} ;;
  *device_cases*) {tables} ;;
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
    call: int = 1,
    ceilings: str = ":",
    tables: str = ":",
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
    (bench / "on_device.sh").write_text(script or SCRIPT.read_text())
    calls = tmp_path / "calls"
    calls.touch()
    python = tmp_path / "python"
    python.write_text(
        FAKE.format(
            python=sys.executable,
            root=ROOT,
            calls=calls,
            ceilings=ceilings,
            tables=tables,
            excluded=excluded,
            without_xdist=int(without_xdist),
        )
    )
    python.chmod(0o755)
    out = tmp_path / "out"
    environment = os.environ | {"PYTHON": str(python), "STEPS": steps, "DEVICE": "cuda:0"}
    for name in ("HYRECALL_CUDA_KERNELS", "HYRECALL_EMULATED", "BUILD", "TUNE"):
        environment.pop(name, None)
    done = subprocess.run(
        ["bash", str(bench / "on_device.sh"), str(call), str(out)],
        env=environment | settings,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    lines = [line.split("\t", 2) for line in calls.read_text().splitlines()]
    return Run(done.returncode, done.stdout, out, [(a, b, c) for a, b, c in lines])


STEP = re.compile(r"^( *step (\w+)) (\d+|\$building) ", re.MULTILINE)


def test_the_limits_of_all_steps_fit_the_time_of_each_call() -> None:
    text = SCRIPT.read_text()
    ending = int(re.findall(r"ending=(\d+)", text)[0])
    carried = int(re.findall(r"building=(\d+)", text)[0])
    both, calls = text.split('if [ "$call" = 1 ]; then\n')
    for call, own in zip("12", calls.split("\nelse\n"), strict=True):
        found = [(name, limit) for _, name, limit in STEP.findall(both + own)]
        assert [name for name, _ in found][:3] == ["build", "ceilings", "smoke"]
        seconds = [carried if limit == "$building" else int(limit) for _, limit in found]
        assert len(seconds) >= 8
        assert sum(seconds) + ending <= MOST_SECONDS[call]
        assert f"call == 1 ? {MOST_SECONDS['1']} : {MOST_SECONDS['2']}" in text


def test_the_callers_packages_stay_on_the_path(tmp_path: Path) -> None:
    met = run(tmp_path, "build ceilings", DEVICE="cpu", PYTHONPATH="/packages/of/the/caller")
    assert met.results() == {"build": "ok", "ceilings": "ok"}
    built = tmp_path / "build" / "device" / "site"
    assert {path for path, _, _ in met.calls} == {f"{built}:/packages/of/the/caller"}
    assert any(" pip install " in said and said.endswith(" .") for _, _, said in met.calls)


@pytest.mark.parametrize("carried", ["folder", "a.whl", None])
def test_what_was_carried_or_built_before_is_not_built(tmp_path: Path, carried: str | None) -> None:
    built = tmp_path / "build" / "device" / "site"
    settings = {"BUILD": str(tmp_path / carried)} if carried else {}
    if carried != "a.whl":
        (tmp_path / carried if carried else built).mkdir(parents=True)
    met = run(tmp_path, "build", DEVICE="cpu", **settings)
    assert met.results() == {"build": "ok"}
    pip = [said for _, _, said in met.calls if " pip install " in said]
    assert [said.split()[-1] for said in pip] == (
        [f"{tmp_path}/a.whl"] if carried == "a.whl" else []
    )
    site = tmp_path / "folder" if carried == "folder" else built
    assert {path.split(":")[0] for path, _, _ in met.calls} == {str(site)}


def test_a_kernel_that_hangs_in_smoke_is_left_out_of_what_follows(tmp_path: Path) -> None:
    met = run(tmp_path, "smoke laws", excluded="int8:256:sm_90a\\nbfloat16:8:generic\\n")
    assert met.code == 1
    assert met.results() == {"smoke": "FAILED (1)", "laws": "ok"}
    kernels = {kernels for _, kernels, said in met.calls if "pytest" in said}
    assert kernels == {"-int8:256:sm_90a,-bfloat16:8:generic"}
    assert "left out: kernel int8:256:sm_90a: it hung or failed in smoke" in met.said
    assert any("int8:256:sm_90a" in line for line in met.report["left_out"])


def test_kernels_that_the_caller_left_out_stay_out_with_generic_ones_too(tmp_path: Path) -> None:
    met = run(tmp_path, "ways", call=2, HYRECALL_CUDA_KERNELS="-int8:8:generic")
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
    met = run(tmp_path, "ceilings laws", ceilings="echo measured")
    files = [path for path in met.out.rglob("*") if path.is_file()]
    assert len(files) <= MOST_FILES
    assert {path.name for path in files} == {"device.json", "device.md", "results.tar.gz"}
    with tarfile.open(met.out / "results.tar.gz") as archive:
        names = {name.removeprefix("./") for name in archive.getnames()}
        logged = archive.extractfile("./logs/ceilings.log")
        assert logged is not None
        assert logged.read() == b"measured\n"
    assert {"steps.tsv", "logs/laws.log", "device.json", "left_out.txt"} <= names
    assert "left out: tables: not among STEPS" in met.said


@pytest.mark.slow
def test_a_step_that_hangs_is_stopped_and_the_archive_is_there_before_the_next(
    tmp_path: Path,
) -> None:
    text = STEP.sub(r"\1 0 ", SCRIPT.read_text())
    # Seconds for a slow machine to begin: the step must not be left out before it hangs.
    text = text.replace("step ceilings 0 ", "step ceilings 5 ").replace(
        "step tables 0 ", "step tables 60 "
    )
    met = run(
        tmp_path,
        "ceilings tables",
        script=text.replace("readonly least=5 ", "readonly least=1 "),
        ceilings="exec sleep 60",
        tables=f"cp {tmp_path}/out/results.tar.gz {tmp_path}/seen",
    )
    assert met.code == 1
    assert met.results()["ceilings"].startswith("stopped after")
    assert met.results()["tables"] == "ok"
    assert "left out: ceilings, or the rest of it: stopped after" in met.said
    with tarfile.open(tmp_path / "seen") as archive:
        assert "./logs/ceilings.log" in archive.getnames()


def test_a_step_for_which_no_time_is_left_is_named(tmp_path: Path) -> None:
    met = run(tmp_path, "ceilings", script=STEP.sub(r"\1 0 ", SCRIPT.read_text()))
    assert met.code == 1
    assert met.results() == {"ceilings": "left out"}
    assert "left out: ceilings: no time was left" in met.said


def test_no_step_outlasts_the_whole_call(tmp_path: Path) -> None:
    text = SCRIPT.read_text().replace("call == 1 ? 420 ", "call == 1 ? 14 ")
    met = run(tmp_path, "ceilings", script=text)
    assert met.results() == {"ceilings": "left out"}


def test_the_second_call_says_that_it_knows_no_choice(tmp_path: Path) -> None:
    met = run(tmp_path, "ceilings", call=2)
    assert "left out: times with what call 1 chose: TUNE names no file" in met.said


def test_what_was_chosen_is_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "chosen").write_text('{"chosen": []}')
    met = run(tmp_path, "tables", call=2, TUNE=str(tmp_path / "chosen"))
    assert json.loads((met.out / "tune.json").read_text()) == {"chosen": []}
    assert met.report["tune"] == {"chosen": []}


# ---- the supervisor, with workers that hang, crash and succeed by plan ----

WORKER = """
import sys, time
fate = {"a": "ok", "b": "hangs", "c": "crashes", "d": "ok"}
done = sys.argv[1:]
print("kernels", *fate, flush=True)
for name in fate:
    if name in done:
        continue
    print("try", name, flush=True)
    if fate[name] == "hangs":
        time.sleep(60)
    assert fate[name] != "crashes"
    print("ok", name, flush=True)
"""
SUPERVISOR = """
import json, sys
from bench.device_smoke import supervise
worker, seconds, total = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
told = []
fates = supervise(
    lambda done: [sys.executable, "-c", worker, *done],
    seconds=seconds, total=total, told=lambda fates: told.append(dict(fates)),
)
print(json.dumps([fates, told[-1]]))
"""


def supervised(worker: str, seconds: float, total: float) -> dict[str, str]:
    """Run it in another process: importing bench sets the environment of BLAS."""
    done = subprocess.run(
        [sys.executable, "-c", SUPERVISOR, worker, str(seconds), str(total)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    )
    fates, last_told = json.loads(done.stdout)
    assert fates == last_told
    return dict(fates)


def test_kernels_that_hang_or_crash_are_named_and_the_others_still_run() -> None:
    found = supervised(WORKER, seconds=2, total=60)
    assert found == {"a": "ok", "b": "hung", "c": "failed", "d": "ok"}


def test_kernels_that_the_time_does_not_reach_are_not_called_hung() -> None:
    found = supervised(WORKER, seconds=30, total=1)
    assert set(found.values()) <= {"ok", "not tried"}
    assert found.get("b", "not tried") == "not tried"


def test_a_worker_that_cannot_begin_is_not_started_for_ever() -> None:
    assert supervised("import nothing_of_this_name", seconds=1, total=60) == {}
