"""Print where we stand: ours beside every rival, and beside what the machine can do.

python -m bench.report                       the committed run
python -m bench.report results.json          another run
python -m bench.report --run small           run all benchmarks, keep the JSON, print
python -m bench.report --run small -k dense  the same for some; what pytest's -k takes
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
OURS = "hyrecall"
NOTHING_CHOSEN = 5  # pytest's exit status where -k left no test of a file
NOISY_CORES = 0.2  # more than this of others: read such a row with care
NOT_MEASURED = (
    "share of the int8 limit (no int8 plane yet)",
    "MMR, 1,024 queries, pool 100, pick 10 (not built yet)",
    "a reader's p99 while adds merge",
)

Entry = Mapping[str, Any]


def run(size: str, out: Path, keyword: str | None) -> int:
    """Run each file in a process of its own, so that none leaves memory to the next."""
    parts: list[dict[str, Any]] = []
    worst = 0
    with tempfile.TemporaryDirectory() as folder:
        for file in sorted(HERE.glob("bench_*.py")):
            part = Path(folder) / f"{file.stem}.json"
            command = [sys.executable, "-m", "pytest", str(file), f"--bench-size={size}"]
            command += [f"--benchmark-json={part}", "--benchmark-quiet", "-q"]
            command += ["-k", keyword] if keyword else []
            status = subprocess.run(command, cwd=HERE.parent, check=False).returncode
            worst = max(worst, 0 if status == NOTHING_CHOSEN else abs(status))
            if part.is_file() and part.stat().st_size:
                parts.append(json.loads(part.read_text()))
    if parts:
        out.write_text(json.dumps(join(parts), indent=1) + "\n")
    return worst


def join(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Put the results of several processes together; of a limit, the best that was seen counts."""
    first = parts[0]
    limits = {name: max(part["limits"][name] for part in parts) for name in first["limits"]}
    benchmarks = [one for part in parts for one in part["benchmarks"]]
    return {**first, "limits": limits, "benchmarks": benchmarks}


def limit_ms(facts: Mapping[str, Any], limits: Mapping[str, float]) -> float | None:
    """Give the least time the machine needs: for reading the bytes, or for the products."""
    if not facts.get("limit_bytes"):
        return None
    reading = facts["limit_bytes"] / limits["stream_gb_s"] / 1e6
    multiplying = facts.get("limit_flops", 0) / limits["numpy_sgemm_gflop_s"] / 1e6
    return float(max(reading, multiplying))


def _milliseconds(seconds: float) -> str:
    ms = seconds * 1e3
    return f"{ms:,.0f}" if ms >= 100 else f"{ms:.1f}" if ms >= 10 else f"{ms:.2f}"


def _verdict(value: float, target: float, *, at_least: bool, counts: bool) -> str:
    """Say pass or miss; nothing where the run is smaller than the target speaks of."""
    if not counts:
        return "-"
    good = value >= target if at_least else value <= target
    return "pass" if good else "miss"


def _row(entry: Entry, ours: Entry | None, limits: Mapping[str, float], *, full: bool) -> list[str]:
    facts, stats = entry["extra_info"], entry["stats"]
    median = stats["median"]
    share = limit_ms(facts, limits)
    each = f"{median / facts['queries'] * 1e6:,.1f}" if facts["queries"] else ""
    ratio, target, verdict = "", "", ""
    is_ours = facts["who"] == OURS
    if not is_ours and ours is not None:
        times = median / ours["stats"]["median"]
        ratio = f"{times:.2f}"
        if facts.get("target"):
            target = f">= {facts['target']:.2g}"
            verdict = _verdict(times, facts["target"], at_least=True, counts=full)
    if is_ours and facts.get("target_us"):
        target = f"<= {facts['target_us']:g} us"
        verdict = _verdict(
            median / facts["queries"] * 1e6, facts["target_us"], at_least=False, counts=full
        )
    spread = f"{stats['min'] * 1e3:.4g}..{stats['max'] * 1e3:.4g}"
    noise = facts.get("others_cores")
    return [
        facts["who"],
        _milliseconds(median),
        spread,
        each,
        "" if share is None else f"{share / median / 1e3:.0%}",
        ratio,
        target,
        verdict,
        "" if noise is None or noise < NOISY_CORES else f"{noise:.1f}",
    ]


HEADINGS = [
    "who",
    "ms",
    "min..max",
    "us a query",
    "of the limit",
    "x of ours",
    "target",
    "",
    "others' cores",
]


def table(entries: Iterable[Entry], limits: Mapping[str, float], *, full: bool) -> list[str]:
    """Give the ratio table as Markdown lines, a block for each work."""
    works: dict[str, list[Entry]] = {}
    for entry in entries:
        works.setdefault(entry["group"], []).append(entry)
    lines = []
    for work, group in works.items():
        ours = next((e for e in group if e["extra_info"]["who"] == OURS), None)
        lines += [
            f"**{work}**",
            "",
            "| " + " | ".join(HEADINGS) + " |",
            "|---" * len(HEADINGS) + "|",
        ]
        ordered = sorted(group, key=lambda e: (e is not ours, e["stats"]["median"]))
        lines += [
            "| " + " | ".join(_row(entry, ours, limits, full=full)) + " |" for entry in ordered
        ]
        lines += [*_notes(ours, full=full), ""]
    return lines


def _notes(ours: Entry | None, *, full: bool) -> list[str]:
    """Say what no column holds: throughput of a build, sizes, and the life of an index."""
    if ours is None:
        return []
    facts, median = ours["extra_info"], ours["stats"]["median"]
    notes = []
    if ours["group"].startswith("build"):
        each = facts["bytes"] / facts["docs"]
        notes.append(f"{facts['docs'] / median:,.0f} docs/s, {each:,.0f} bytes a doc")
        if "rss_grew" in facts:
            notes[-1] += f"; the process grew by {facts['rss_grew'] / 1e6:,.0f} MB"
    if "add_p99_ms" in facts:
        checks = [
            ("most segments", facts["most_segments"], facts["segments_allowed"]),
            ("p99 of an add outside merges, ms", facts["add_p99_ms"], facts["add_allowed_ms"]),
        ]
        for where in ("own_cell", "everywhere"):
            name = f"recall over recall after compaction, {where.replace('_', ' ')}"
            checks.append((name, facts[f"recall_ratio_{where}"], facts["recall_allowed"]))
        for name, value, most in checks:
            notes.append(
                f"{name}: {value} (<= {most}: {_verdict(value, most, at_least=False, counts=full)})"
            )
        notes.append(
            f"add p50 {facts['add_p50_ms']} ms; in CPU time p50 {facts['add_cpu_p50_ms']}, "
            f"p99 {facts['add_cpu_p99_ms']}; with the {facts['small_merges']} merges below 128 "
            f"rows p99 {facts['add_with_small_merges_p99_ms']}, with the {facts['large_merges']} "
            f"others {facts['add_with_all_merges_p99_ms']}, worst {facts['worst_add_ms']}; "
            f"delete p50 {facts['delete_p50_ms']}, p99 {facts['delete_p99_ms']} ms"
        )
    return ["", *(f"- {note}" for note in notes)] if notes else []


def render(results: Mapping[str, Any]) -> str:
    """Give the whole report as Markdown."""
    limits, cpu = results["limits"], results["machine_info"]["cpu"]
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    commit = results["commit_info"]
    head = [
        f"Size {results['size']}, commit {str(commit['id'])[:12]}"
        f"{' (dirty)' if commit['dirty'] else ''}, "
        f"{results['datetime'][:10]}. {cpu['brand_raw']}, {cpu['count']} cores.",
        f"{versions}.",
        f"Limits measured in this run: stream read {limits['stream_gb_s']} GB/s "
        f"({limits['stream_gb_s_1_thread']} on one thread), numpy sgemm "
        f"{limits['numpy_sgemm_gflop_s']:,.0f} GFLOP/s (a stand-in for the fma rate).",
        "`x of ours`: a rival's median over ours, above 1 we are faster; `of the limit`: float32 "
        "rows read once, or their products, whichever takes longer, over the median (above 100 %: "
        "the rows lie in cache); targets are for the full size; `others' cores`: used by other "
        "processes meanwhile, so such a row says little.",
        *([results["note"]] if "note" in results else []),
        "",
    ]
    tail = ["Not measured: " + "; ".join(NOT_MEASURED) + "."]
    return "\n".join(
        [*head, *table(results["benchmarks"], limits, full=results["size"] == "full"), *tail]
    )


def main(arguments: list[str] | None = None) -> int:
    """Run if asked, then print."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.report", description=__doc__.split("\n")[0]
    )
    parser.add_argument("results", nargs="?", type=Path, help="a JSON of an earlier run")
    parser.add_argument(
        "--run", choices=("smoke", "small", "full"), help="run the benchmarks first"
    )
    parser.add_argument("-k", dest="keyword", help="which benchmarks, as pytest's -k")
    given = parser.parse_args(arguments)
    path = given.results or HERE / "results" / f"{given.run or 'small'}.json"
    status = run(given.run, path, given.keyword) if given.run else 0
    if not path.is_file() or not path.stat().st_size:
        print(f"results: expected a JSON of pytest-benchmark, got {path}", file=sys.stderr)
        return status or 1
    print(render(json.loads(path.read_text())))
    return status


if __name__ == "__main__":
    sys.exit(main())
