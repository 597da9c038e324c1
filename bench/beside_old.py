"""One query beside an older build of the package: its time as a share of the older one's.

python -m bench.beside_old OLD NEW                     1,000,000 x 384, grown and Gaussian
python -m bench.beside_old OLD NEW --rows 100000 --rounds 3

OLD and NEW are folders that hold a built package ``hyrecall`` each, as PYTHONPATH takes them. Every
round builds an index of the same rows in a process of either package, in turns, and asks sixteen
queries, one a call. Replies must be equal to the last bit.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import hyrecall as hr
from bench import THREADS, corpus, grown, ours
from bench.turns import quartiles

MOST = {"grown": 0.40, "gaussian": 1.03}  # of the older build's time
N_QUERIES, CALLS, DEPTHS = 16, 7, (10, 100)
ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Told:
    """What a process said: median microseconds of a query by k, and a digest of all replies."""

    us: Mapping[str, float]
    digest: str


def measure(folder: Path) -> Told:
    """Build an index of the rows in a folder and ask its queries, each several times."""
    rows, queries = np.load(folder / "rows.npy"), np.load(folder / "queries.npy")
    index = ours.build(len(rows), vectors=rows, threads=THREADS)
    replies, us = hashlib.sha256(), {}
    for k in DEPTHS:
        medians = []
        for at in range(len(queries)):
            taken = []
            for _ in range(CALLS):
                begin = time.perf_counter()
                hits = index.recall(vectors=queries[at : at + 1], limit=k, depth=k)
                taken.append(time.perf_counter() - begin)
            medians.append(np.median(taken[1:]))
            for part in ours.arrays(hits, k):
                replies.update(part.tobytes())
        us[str(k)] = float(np.median(medians) * 1e6)
    return Told(us, replies.hexdigest())


def run_package(package: Path, module: str, *words: str) -> dict[str, Any]:
    """Return what a module says of a package in a process of its own, in its last line."""
    path = os.pathsep.join([str(package), str(ROOT)])
    command = [sys.executable, "-m", module, "--measure", *words]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"PYTHONPATH": path}, check=True, stdout=subprocess.PIPE
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    imported = Path(found.pop("package"))
    if not imported.is_relative_to(package.resolve()):
        raise SystemExit(f"{package}: expected a built package hyrecall, got {imported}")
    return found


def ask(package: Path, folder: Path) -> Told:
    """Measure a package in a process of its own."""
    return Told(**run_package(package, "bench.beside_old", str(folder)))


def write_rows(data: str, n: int, folder: Path) -> None:
    """Write rows and queries of a kind, for all processes to read."""
    if data == "grown":
        rows, queries = grown.rows(n), grown.queries(N_QUERIES)
    else:
        rows = corpus.gaussian_rows(n, grown.DIM)
        queries = corpus.gaussian_rows(N_QUERIES, grown.DIM, "queries")
    np.save(folder / "rows.npy", rows)
    np.save(folder / "queries.npy", queries)


def in_turns(old: Path, new: Path, folder: Path, rounds: int) -> list[tuple[Told, Told]]:
    """Measure both packages round by round, each first in every second round."""
    pairs = []
    for round_ in range(rounds):
        order = (old, new) if round_ % 2 == 0 else (new, old)
        first, second = (ask(package, folder) for package in order)
        pairs.append((first, second) if round_ % 2 == 0 else (second, first))
    return pairs


def table(data: str, pairs: Sequence[tuple[Told, Told]]) -> list[str]:
    """Return a line for each k; refuse replies that differ."""
    if len({one.digest for pair in pairs for one in pair}) != 1:
        raise SystemExit(f"{data}: expected equal replies of all builds, got others")
    lines = []
    for k in map(str, DEPTHS):
        shares = quartiles([new.us[k] / old.us[k] for old, new in pairs])
        before, now = (float(np.median([pair[side].us[k] for pair in pairs])) for side in (0, 1))
        verdict = "pass" if shares["median"] <= MOST[data] else "MISS"
        lines.append(
            f"| {data}, k={k} | {before:,.0f} us | {now:,.0f} us | {shares['median']:.2f} "
            f"({shares['q1']:.2f}..{shares['q3']:.2f}) | <= {MOST[data]:.2f} | {verdict} |"
        )
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, or measure for another process."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["--measure"]:
        told = measure(Path(words[1]))
        print(json.dumps(vars(told) | {"package": str(Path(hr.__file__).resolve())}))
        return
    parser = argparse.ArgumentParser(
        prog="python -m bench.beside_old",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args(words)
    print("| one query | older build | this build | share (quartiles) | target | verdict |")
    print("|---|---|---|---|---|---|")
    for data in MOST:
        with tempfile.TemporaryDirectory() as name:
            write_rows(data, given.rows, Path(name))
            pairs = in_turns(given.old, given.new, Path(name), given.rounds)
        print("\n".join(table(data, pairs)), flush=True)


if __name__ == "__main__":
    main()
