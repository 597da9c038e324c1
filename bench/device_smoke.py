"""Runs each scanning kernel of a device, on a few tiles of rows, and names those that fail.

    python -m bench.device_smoke OUTDIR --device cuda:0 --seconds 5 --all 40

A kernel that hangs cannot be stopped from inside its process. So a worker process runs one kernel
after the other and says which it begins; the parent stops a worker that says nothing for
``--seconds``, and starts another for the kernels that are left. Writes OUTDIR/smoke.json with the
fate of every kernel, and OUTDIR/excluded with a line ``PLANE:WIDTH:ARCH`` for each that hung,
crashed, or gave a reply that is not the CPU's.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

KILLED = 5.0  # seconds for a process to end that the driver may hold
STARTING = 6  # times the seconds of a kernel: imports, and the first touch of a device
ROWS, DIM, LIMIT = 640, 300, 10  # tiles, in more than one chunk of each plane
PANEL = 32  # queries of a panel; kernels of more take several panels
SAMPLED = "640,1,2"  # tiles are read twice: a sample of them, then all
DTYPES = {"int8": "float32", "bfloat16": "bfloat16"}


# ---- the parent ----


def supervise(
    start: Callable[[Collection[str]], Sequence[str]],
    *,
    seconds: float,
    total: float,
    told: Callable[[dict[str, str]], None] = lambda fates: None,
) -> dict[str, str]:
    """Run workers until the fate of every kernel is known or the time is over.

    ``start(done)`` gives the command of a worker that leaves out ``done``. Returns each kernel's
    fate: ``ok``, ``hung``, ``failed`` or ``not tried``; ``told`` gets it after each change.
    """
    end = time.monotonic() + total
    fates: dict[str, str] = {}
    while not fates or "not tried" in fates.values():
        done = [name for name, fate in fates.items() if fate != "not tried"]
        worker = subprocess.Popen(start(done), stdout=subprocess.PIPE, bufsize=0)
        tried, patience = "", STARTING * seconds
        while True:
            said = _line(worker, min(patience, end - time.monotonic()))
            word, *names = (said or "").split() or [""]
            if word == "kernels":
                fates = {name: fates.get(name, "not tried") for name in names}
            elif word == "try":
                tried, patience = names[0], seconds
            elif word == "ok":
                fates[tried], tried = "ok", ""
            elif tried and (said is not None or time.monotonic() < end):
                fates[tried] = "failed" if said == "" else "hung"
            told(fates)  # now: a process that the driver holds may take long to end
            if word == "":
                break
        worker.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            worker.wait(timeout=KILLED)
        # A worker that settles nothing would be started for ever.
        settled = [name for name, fate in fates.items() if fate != "not tried"]
        if time.monotonic() > end or len(settled) == len(done):
            break
    return fates


def _line(worker: subprocess.Popen[bytes], seconds: float) -> str | None:
    """Wait for the next line; ``""`` where the worker has ended, None where nothing came."""
    assert worker.stdout is not None
    if seconds <= 0 or not select.select([worker.stdout], [], [], seconds)[0]:
        return None
    return worker.stdout.readline().decode()


# ---- the worker ----


def work(device: str, done: Collection[str]) -> None:
    """Try every kernel of the device that is not in ``done``, and print what happens."""
    from hyrecall import _core
    from hyrecall.base.runtime import cuda_library_folder, ordinal_of

    names: list[str] = _core.device.scans(cuda_library_folder(), ordinal_of(device))
    print("kernels", *names, flush=True)
    for name in names:
        if name in done:
            continue
        print("try", name, flush=True)
        run_alone(name, names, device)
        print("ok", name, flush=True)


def run_alone(name: str, names: Sequence[str], device: str) -> None:
    """Recall with one kernel, all others left out, and hold the reply to the CPU's.

    A wide one has the kernel of its plane's panels beside it, which reads the sample.
    """
    import ml_dtypes
    import numpy as np
    import pyarrow as pa

    import hyrecall as hr

    plane, width, _ = name.split(":")
    dtype = {"bfloat16": ml_dtypes.bfloat16}.get(DTYPES[plane], DTYPES[plane])
    rng = np.random.default_rng(7)
    rows = rng.standard_normal((ROWS, DIM)).astype(dtype)
    queries = rng.standard_normal((int(width) + 1, DIM)).astype(np.float32)

    def reply(where: str) -> Any:
        table = pa.table({"id": np.arange(ROWS)})
        schema = hr.Schema(key="id", cell=None, vector="embedding")
        with hr.Index.build(table, schema, vectors={"embedding": rows}, device=where) as index:
            return index.recall(vectors=queries, limit=LIMIT).to_arrow()

    expected = reply("cpu")
    os.environ["HYRECALL_FRONT_PLANE"] = "int8" if plane == "int8" else "rows"
    wanted = {name, name.replace(f":{width}:", f":{PANEL}:")}
    os.environ["HYRECALL_CUDA_KERNELS"] = ",".join(
        f"-{other}" for other in names if other not in wanted
    )
    for tuning in ("", SAMPLED):
        os.environ["HYRECALL_DENSE_TUNING"] = tuning
        assert reply(device).equals(expected), (
            f"{name}: not the CPU's bits, {tuning or 'as chosen'}"
        )


# ---- the command ----


def main() -> int:
    """Try the kernels; 1 if any is to be left out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--seconds", type=float, default=5.0, help="for one kernel")
    parser.add_argument("--all", type=float, default=40.0, help="seconds for all of them")
    parser.add_argument("--work", nargs="*", metavar="DONE", help="be the worker")
    options = parser.parse_args()
    if options.work is not None:
        work(options.device, options.work)
        return 0

    def start(done: Collection[str]) -> Sequence[str]:
        own = [sys.executable, "-m", "bench.device_smoke", str(options.out)]
        return [*own, "--device", options.device, "--work", *done]

    def write(fates: dict[str, str]) -> None:
        (options.out / "smoke.json").write_text(json.dumps(fates, indent=1) + "\n")
        (options.out / "excluded").write_text("".join(f"{name}\n" for name in bad(fates)))

    def bad(fates: dict[str, str]) -> list[str]:
        return [name for name, fate in fates.items() if fate in {"hung", "failed"}]

    fates = supervise(start, seconds=options.seconds, total=options.all, told=write)
    n_ok = sum(fate == "ok" for fate in fates.values())
    others = [f"{name} {fate}" for name, fate in fates.items() if fate != "ok"]
    print(f"{n_ok} of {len(fates)} kernels give the CPU's bits", *others, sep="; ")
    return 0 if fates and n_ok == len(fates) else 1


if __name__ == "__main__":
    sys.exit(main())
