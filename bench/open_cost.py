"""Measure opening a saved index and its first queries: time, page faults, memory by file.

    python -m bench.open_cost FOLDER [--rows 200000] [--dim 384]

builds an index of texts and vectors in FOLDER unless it is there, and prints the tables of
docs/larger-than-memory.md. Each way to open runs in a process of its own. "cold" means that the
system was asked to drop the pages of the files before.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import hyrecall as hr
from bench import corpus

TENANT_ROWS = 5_000
_ROLE = re.compile(r"[0-9a-f]{16}-([a-z]+)(-[0-9a-f]+)?\.arrow$")


def table_of(n: int) -> pa.Table:
    """Return keys, tenants of 5,000 rows, times and texts of n rows."""
    n_tenants = max(1, n // TENANT_ROWS)
    return pa.table(
        {
            "id": np.arange(n),
            "tenant": corpus.uniform_tenants(n, n_tenants),
            "created": np.arange(n) * 1000,
            "text": corpus.zipf_texts(n).strings,
        }
    )


def build(folder: Path, n: int, dim: int) -> None:
    """Build and save an index."""
    schema = hr.Schema(
        key="id", cell="tenant", text="text", vector="embedding", attributes="created"
    )
    rows = corpus.clustered_rows(n, dim)
    index = hr.Index.build(table_of(n), schema, vectors={"embedding": rows}, device="cpu")
    index.save(folder)


def drop_pages(folder: Path) -> None:
    """Ask the system to drop the pages of a folder's files."""
    for path in folder.iterdir():
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(handle)


def resident_by_role() -> dict[str, int]:
    """Return the resident bytes of this process's mapped index files by role, and "anonymous"."""
    found: dict[str, int] = {}
    role = "other"
    for line in Path("/proc/self/smaps").read_text().splitlines():
        parts = line.split()
        if "-" in parts[0] and not parts[0].endswith(":"):
            match = _ROLE.search(line)
            role = match[1] if match else "other"
        elif parts[0] == "Rss:" and role != "other":
            found[role] = found.get(role, 0) + int(parts[1]) * 1024
        elif parts[0] == "Anonymous:" and role == "other":
            found["anonymous"] = found.get("anonymous", 0) + int(parts[1]) * 1024
    return found


class Step:
    """Measures one step: seconds, page faults, and what became resident."""

    def __init__(self) -> None:
        """Begin with nothing measured."""
        self.lines: list[dict[str, Any]] = []

    def run(self, name: str, work: Callable[[], Any]) -> Any:
        """Run and measure one step."""
        resident = resident_by_role()
        before = resource.getrusage(resource.RUSAGE_SELF)
        began = time.perf_counter()
        result = work()
        seconds = time.perf_counter() - began
        after, now = resource.getrusage(resource.RUSAGE_SELF), resident_by_role()
        grew = {role: now[role] - resident.get(role, 0) for role in now}
        self.lines.append(
            {
                "step": name,
                "ms": seconds * 1e3,
                "cpu_ms": (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
                * 1e3,
                "minor": after.ru_minflt - before.ru_minflt,
                "major": after.ru_majflt - before.ru_majflt,
                "mb": {role: round(grew[role] / 1e6, 1) for role in sorted(grew)},
            }
        )
        return result


def warm_up() -> None:
    """Load what a first recall imports, so that it counts for nothing."""
    rows = {"id": [1, 2], "text": ["one two", "two"]}
    schema = hr.Schema(key="id", cell=None, text="text", vector="v")
    vectors = {"v": np.ones((2, 4), np.float32)}
    index = hr.Index.build(pa.table(rows), schema, vectors=vectors, device="cpu")
    index.recall(text=["two"], vectors=vectors["v"][:1], columns=("text",)).to_arrow().to_pylist()


def measure(folder: Path, options: dict[str, Any], dim: int) -> list[dict[str, Any]]:
    """Open a folder and ask first queries, in this process."""
    rng = np.random.default_rng(5)
    query = rng.standard_normal((1, dim), dtype=np.float32)
    words = [corpus.spell(corpus.text_queries(1)[0])]
    warm_up()
    steps = Step()
    index = steps.run("open", lambda: hr.Index.open(folder, device="cpu", **options))

    def ask(**more: Any) -> Callable[[], Any]:
        return lambda: index.recall(limit=10, **more).to_arrow()

    steps.run("first: vector, a tenant", ask(vectors=query, scope=3))
    steps.run("first: text, a tenant", ask(text=words, scope=3))
    n_tenants = max(1, len(index) // TENANT_ROWS)
    everyone = hr.Scope(list(range(n_tenants)))
    steps.run("first: vector, all rows", ask(vectors=query, scope=everyone))
    steps.run("again: vector, all rows", ask(vectors=query, scope=everyone))
    steps.run("first: text, all rows", ask(text=words, scope=everyone))
    steps.run("again: both, a tenant", ask(text=words, vectors=query, scope=3))
    return steps.lines


def show(title: str, lines: list[dict[str, Any]]) -> None:
    """Print one table."""
    print(f"\n{title}\n")
    print("| step | ms | processor ms | faults: minor | major | MB that became resident |")
    print("|---|---|---|---|---|---|")
    for one in lines:
        grew = ", ".join(f"{role} {mb:g}" for role, mb in one["mb"].items() if abs(mb) >= 0.5)
        numbers = f"{one['ms']:.1f} | {one['cpu_ms']:.1f} | {one['minor']:,} | {one['major']:,}"
        print(f"| {one['step']} | {numbers} | {grew or '0'} |")


def child(folder: Path, what: dict[str, Any]) -> list[dict[str, Any]]:
    """Run this module in a process of its own and return what it measured."""
    command = [sys.executable, "-m", "bench.open_cost", str(folder), "--child", json.dumps(what)]
    done = subprocess.run(
        command, cwd=Path(__file__).parent.parent, check=True, stdout=subprocess.PIPE, text=True
    )
    lines: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return lines


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        what = json.loads(given.child)
        if what["rows"]:
            build(given.folder, what["rows"], what["dim"])
            print("[]")
            return
        print(json.dumps(measure(given.folder, what["options"], what["dim"])))
        return
    if not (given.folder / "MANIFEST").exists():
        child(given.folder, {"rows": given.rows, "dim": given.dim})
    sizes: dict[str, float] = {}
    for path in given.folder.iterdir():
        match = _ROLE.search(path.name)
        if match:
            sizes[match[1]] = sizes.get(match[1], 0) + path.stat().st_size / 1e6
    print("files:", ", ".join(f"{role} {mb:.0f} MB" for role, mb in sorted(sizes.items())))
    for verify in ("full", "structure"):
        for is_cold in (False, True):
            if is_cold:
                drop_pages(given.folder)
            lines = child(
                given.folder, {"rows": 0, "dim": given.dim, "options": {"verify": verify}}
            )
            show(f'verify="{verify}", {"cold" if is_cold else "warm"} files', lines)


if __name__ == "__main__":
    main()
