"""What a shard and a caller cost on this machine: times, bytes, and how they vary."""

from __future__ import annotations

import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import hyrecall as hr
from bench import limits, ours
from bench.device_report import commit, processor, versions
from bench.scale import world
from bench.scale.figures import STEPS
from bench.scale.fitting import condensed, noise_entry, rounded
from bench.scale.world import DEPTH, EVERYONE, KINDS, Questions, Sizes
from hyrecall.distributed import Request, ShardedIndex, Statistics

ROOT = Path(__file__).parents[2]
Entry = dict[str, Any]
TIMES = ("wall", "busy", "queued")
PAUSE_S = 0.005  # longer ones change no time any more
FEW_SHARDS = 4


def queued() -> float:
    """Return how long this thread could have run but others had its core; 0 where none tells."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except OSError:
        return 0.0


def clock(call: Callable[[], Any]) -> tuple[Any, tuple[float, float, float]]:
    """Call; return the result, and milliseconds: wall, processor, and waiting for a core."""
    before = time.perf_counter(), time.process_time(), queued()
    made = call()
    wall, busy = time.perf_counter() - before[0], time.process_time() - before[1]
    return made, (wall * 1e3, busy * 1e3, (queued() - before[2]) * 1e3)


def answer(index: hr.Index, asked: bytes, summed: bytes | None) -> bytes:
    """Answer bytes with bytes, as the process of a shard does."""
    request = Request.from_bytes(asked)
    if summed is None:
        return index.statistics(request).to_bytes()
    return index.candidates(request, Statistics.from_bytes(summed)).to_bytes()


def times(
    index: hr.Index, questions: Questions, kind: str, scope: object, n: int, pause: float = PAUSE_S
) -> Entry:
    """Ask all questions in turn, ``n`` times, over a single shard; the times of both steps.

    Seconds of pause come before each step, as between questions that arrive at random: after it a
    step takes up to twice as long as in a loop, since others have used the caches meanwhile.
    """
    asked = [Request(**questions.ask(kind, at, scope)).to_bytes() for at in range(questions.n)]
    took = np.zeros((len(STEPS), len(TIMES), questions.n, n))
    sizes: Entry = {"request": [], "statistics": [], "candidates": []}
    for turn in range(n):
        for at, one in enumerate(asked):
            time.sleep(pause)
            counted, took[0, :, at, turn] = clock(lambda: answer(index, one, None))  # noqa: B023
            time.sleep(pause)
            part, took[1, :, at, turn] = clock(lambda: answer(index, one, counted))  # noqa: B023
            for name, data in zip(sizes, (one, counted, part), strict=True):
                sizes[name].append(len(data))
    found: Entry = {
        step: {name: took[place, which].tolist() for which, name in enumerate(TIMES)}
        for place, step in enumerate(STEPS)
    }
    found["bytes"] = {name: statistics.mean(values) for name, values in sizes.items()}
    return found


def batches(index: hr.Index, questions: Questions, kind: str, scope: object, n: int) -> float:
    """Return processor milliseconds of a query in a batch of ``n``, the median of five calls."""
    asked = questions.ask(kind, 0, scope, n)
    took = [clock(lambda: index.recall(**asked).to_arrow())[1] for _ in range(5)]
    return statistics.median(busy for _, busy, _ in took) / n


def warm_shard(folder: Path, sizes: Sizes) -> float:
    """Return the share of a shard's time that its steps take in a loop, without pauses."""
    index = hr.Index.open(folder, device="cpu", threads=1)
    questions = Questions(sizes.questions, sizes.dim)
    took = []
    for pause in (PAUSE_S, PAUSE_S, 0.0):  # the first reads what later ones have
        found = times(index, questions, "hybrid", EVERYONE, sizes.repeats, pause)
        took.append(sum(np.median(found[step]["busy"], axis=1).mean() for step in STEPS))
    return float(min(1.0, took[-1] / took[-2]))


def shard_times(rows: int, sizes: Sizes, folder: Path) -> list[Entry]:
    """Measure a shard of so many rows, everyone's and those of tenants, each kind of question."""
    world.shard(rows, sizes).save(folder)
    index = hr.Index.open(folder, device="cpu", threads=1)
    questions = Questions(sizes.questions, sizes.dim)
    scopes: list[tuple[str, int, object]] = [("everyone", rows, EVERYONE)]
    scopes += [("tenant", n, number) for number, n in enumerate(sizes.tenants)]
    found = []
    for name, seen, scope in scopes:
        for kind in KINDS:
            times(index, questions, kind, scope, 1)  # the first reads what later ones have
            entry = times(index, questions, kind, scope, sizes.repeats)
            entry |= {"kind": kind, "scope": name, "seen": seen, "rows": rows}
            entry["batched"] = {
                n: batches(index, questions, kind, scope, n) for n in (1, sizes.batch)
            }
            found.append(entry)
    return found


# ---- the caller ----


def caller_times(sizes: Sizes, folder: Path) -> tuple[list[Entry], float]:
    """Measure what a recall costs the process that asks, by shards (each a process) and depth.

    Returns that, and the share of it that recalls take in a loop over few shards, without pauses.
    """
    paths = world.folders(folder, max(sizes.shards), sizes.shard_rows, sizes)
    questions = Questions(min(sizes.questions, 5), sizes.dim)
    found, in_a_loop = [], []
    for n in sizes.shards:
        with ShardedIndex.open(paths[:n], processes=True, device="cpu", threads=1) as index:
            for kind in KINDS:
                for depth in sizes.depths:
                    busy, wall = _recalls(index, questions, kind, depth, sizes.repeats)
                    found.append({
                        "kind": kind, "depth": depth, "shards": n,
                        "busy": rounded(busy), "wall": rounded(wall),
                    })  # fmt: skip
            if n <= FEW_SHARDS:
                warm, _ = _recalls(index, questions, "hybrid", DEPTH, sizes.repeats, pause=0.0)
                rested, _ = _recalls(index, questions, "hybrid", DEPTH, sizes.repeats)
                in_a_loop.append(min(1.0, warm / rested))
    return found, statistics.mean(in_a_loop)


def _recalls(
    index: ShardedIndex,
    questions: Questions,
    kind: str,
    depth: int,
    repeats: int,
    pause: float = PAUSE_S,
) -> tuple[float, float]:
    """Return the medians of what recalls take this process: processor, and until the reply."""
    busy, wall = [], []
    for turn in range(repeats):
        for at in range(questions.n):
            asked = questions.ask(kind, at, EVERYONE) | {"depth": depth}
            time.sleep(pause)
            _, took = clock(lambda: index.recall(**asked).to_arrow())  # noqa: B023
            if turn:
                wall.append(took[0])
                busy.append(took[1])
    return statistics.median(busy), statistics.median(wall)


# ---- the whole of it ----


def crowded(folder: Path, sizes: Sizes) -> float:
    """Return how much more processor time a query takes if every core answers the same."""
    alone = _children(1, folder, sizes)
    together = _children(os.cpu_count() or 1, folder, sizes)
    return statistics.median(together) / statistics.median(alone)


def _children(n: int, folder: Path, sizes: Sizes) -> list[float]:
    command = [
        sys.executable,
        "-m",
        "bench.scale.measuring",
        str(folder),
        json.dumps(asdict(sizes)),
    ]
    started = [
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(n)
    ]
    return [float(one.communicate()[0].splitlines()[-1]) for one in started]


def _child(folder: Path, sizes: Sizes) -> float:
    index = hr.Index.open(folder, device="cpu", threads=1)
    questions = Questions(sizes.questions, sizes.dim)
    busy: list[float] = []
    end = time.monotonic() + sizes.crowd_s
    while time.monotonic() < end:
        for at in range(questions.n):
            asked = questions.ask("hybrid", at, EVERYONE)
            busy.append(clock(lambda: index.recall(**asked).to_arrow())[1][1])  # noqa: B023
    return statistics.median(busy)


def cache_bytes(level: int) -> int | None:
    """Return the size of a cache of the first core; None where the system does not tell."""
    for folder in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        if (folder / "level").read_text().strip() == str(level):
            return int((folder / "size").read_text().strip().removesuffix("K")) << 10
    return None


def machine() -> Entry:
    """Say where and of what the figures are."""
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "commit": commit(),
        "machine_info": {
            "cpu": {
                "brand_raw": processor(),
                "count": os.cpu_count(),
                "l2_cache_size": cache_bytes(2),
                "l3_cache_size": cache_bytes(3),
            }
        },
        "isa": ours.isa(),
        "versions": versions("hyrecall", "numpy", "pyarrow"),
    }


def measure(sizes: Sizes, name: str, samples: Path | None = None) -> Entry:
    """Measure everything; times are in milliseconds. ``samples``: where to keep each of them."""
    watch = limits.Neighbours.watch()
    found: Entry = {"size": name, **machine(), "dim": sizes.dim, "depth": DEPTH}
    with tempfile.TemporaryDirectory() as folder:
        shards: list[Entry] = []
        for rows in sizes.rows:
            shards += shard_times(rows, sizes, Path(folder) / str(rows))
        largest = Path(folder) / str(max(sizes.rows))
        rows = max(sizes.rows)
        on_disk = world.by_role(largest)
        found["disk_bytes"] = {role: rounded(size / rows) for role, size in sorted(on_disk.items())}
        with hr.Index.open(largest, device="cpu", memory="ram") as index:
            in_memory = ours.parts(index)
        found["memory_bytes"] = {part: rounded(n / rows) for part, n in sorted(in_memory.items())}
        found["crowded"] = rounded(crowded(largest, sizes))
        found["warm"] = {"pause_ms": PAUSE_S * 1e3, "shard": rounded(warm_shard(largest, sizes))}
    if samples is not None:
        samples.write_text(json.dumps(shards))
    found["noise"] = noise_entry(shards, STEPS)
    found["noise_beside_others"] = noise_entry(shards, STEPS, beside_others=True)
    found["shards"] = [condensed(one, STEPS) for one in shards]
    with tempfile.TemporaryDirectory() as folder:
        found["callers"], warm = caller_times(sizes, Path(folder))
        found["warm"]["caller"] = rounded(warm)
    n_bytes = 1 << (24 if name == "tiny" else 28)
    for n in (1, 2):
        found.setdefault("limits", {})[f"stream_gb_s_{n}_thread"] = rounded(
            limits.stream_read(n, n_bytes)
        )
    found["others_cores"] = watch.cores()
    return found


if __name__ == "__main__":
    given = json.loads(sys.argv[2])
    lists: Entry = {n: tuple(one) if isinstance(one, list) else one for n, one in given.items()}
    print(_child(Path(sys.argv[1]), Sizes(**lists)))
