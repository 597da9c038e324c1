"""The supervisor of bench/device_smoke.py, with workers that hang, crash and succeed by plan."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
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
