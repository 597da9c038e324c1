"""Write the results of bench/on_device.sh as device.json and device.md.

    python -m bench.device_report OUTDIR --device cuda:0 --size full --command "bench/on_device.sh"

Reads steps.tsv, left_out.txt and what the steps wrote (PARTS), as far as it is there.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PARTS = ("ceilings", "cases", "threads", "late", "hybrid", "tune", "smoke")
Entry = dict[str, Any]


def said_by(*command: str) -> str:
    """Return the first line a command prints; nothing where it fails or is missing."""
    try:
        done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return (done.stdout.splitlines() or [""])[0].strip()


def processor() -> str:
    """Return the name of this machine's processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def commit() -> str:
    """Return the commit, with a mark if files other than results differ from it."""
    found = said_by("git", "rev-parse", "HEAD")
    # The first part of a run changes the results, which no later part reads.
    others = (":(top)", ":(top,exclude)bench/results")
    is_changed = bool(said_by("git", "status", "--porcelain", "--untracked-files=no", *others))
    return (found or os.environ.get("COMMIT", "unknown")) + (" + changes" if is_changed else "")


def versions(*packages: str) -> dict[str, str]:
    """Return the versions of Python and of those packages that are installed."""
    found = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def facts(device: str, size: str, command: str) -> Entry:
    """Say where, when and of what the numbers are."""
    driver = compiler = ""
    name = processor()
    if device.startswith("cuda:"):
        asked = ("--query-gpu=name,memory.total,driver_version", "--format=csv,noheader")
        name, _, driver = said_by("nvidia-smi", *asked, f"--id={device[5:]}").rpartition(", ")
        compiler = said_by("sh", "-c", "nvcc --version | tail -n 1")
    return {
        "device": device,
        "name": name or "unknown",
        "driver": driver or None,
        "compiler": compiler or None,
        "cores": os.cpu_count(),
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "commit": commit(),
        "command": command,
        "size": size,
        "versions": versions("hyrecall", "numpy", "pyarrow", "torch", "triton"),
    }


def read(path: Path) -> Any:
    """Read JSON; None where a step did not write it."""
    return json.loads(path.read_text()) if path.is_file() else None


def lines_of(path: Path) -> list[str]:
    """Read the lines of a file; none where it is not there."""
    return path.read_text().splitlines() if path.is_file() else []


def steps(path: Path) -> list[Entry]:
    """Read what became of each step."""
    names = ("step", "result", "seconds", "last_line")
    return [dict(zip(names, line.split("\t", 3), strict=True)) for line in lines_of(path)]


def ratio(entry: Entry) -> float | None:
    """Divide the fastest rival that counts by ours."""
    rivals = [r["median_ms"] for r in entry.get("rivals", {}).values() if r.get("counts")]
    return min(rivals) / entry["ours"]["median_ms"] if rivals else None


def is_met(entry: Entry) -> bool | None:
    """Say whether the targets are met, which are those of one H100 at full size."""
    if "ours" not in entry:
        return None
    held = []
    if entry.get("target_ms"):
        held.append(entry["ours"]["median_ms"] <= entry["target_ms"])
    if entry.get("target_ratio") and (found := ratio(entry)):
        held.append(found >= entry["target_ratio"])
    if entry.get("target_throughput"):
        held.append(entry["throughput"] >= entry["target_throughput"])
    return all(held) if held else None


def state_row() -> str:
    """Say what a query of one cell and one range of values takes on a device beside its vector."""
    try:
        from hyrecall import _core
    except ImportError:  # the build failed
        return ""
    parts = _core.device.STATE_BYTES
    named = ", ".join(f"{name} {n_bytes}" for name, n_bytes in parts.items())
    what = "scope and filter of a query (one cell, one range, one segment; computed)"
    return f"| {what} | {sum(parts.values())} bytes: {named} | | | | | | |"


def row(entry: Entry, *, has_targets: bool) -> str:
    """Return a line of the table."""
    if "ours" not in entry:
        return f"| {entry['case']} | {entry.get('error', 'not run')[:100]} | | | | | | |"
    ours, floor, best = entry["ours"], entry.get("floor_ms"), ratio(entry)
    rivals = "; ".join(
        f"{name} {r['median_ms']:.3g}" if "median_ms" in r else f"{name}: {r['error'][:60]}"
        for name, r in entry["rivals"].items()
    )
    if "throughput" in entry:
        rivals, best = f"one thread {entry['one_thread']['median_ms']:.3g}", entry["throughput"]
    signs = (("target_ms", "<= {} ms"), ("target_ratio", ">= {}x"), ("target_throughput", ">= {}x"))
    wish = ", ".join(text.format(entry[name]) for name, text in signs if entry.get(name))
    took, chosen = ours["median_ms"], entry.get("chosen", {}).get("median_ms")
    verdict = {True: "met", False: "missed", None: ""}[is_met(entry)] if has_targets else ""
    return (
        f"| {entry['case']}, {entry['dtype']} | {took:.3f} ({ours['min_ms']:.3f} to "
        f"{ours['p90_ms']:.3f}, {ours['rounds']}) | {f'{chosen:.3f}' if chosen else ''} | "
        f"{f'{floor:.3f} ({floor / took:.0%})' if floor else ''} | {rivals} | "
        f"{f'{best:.2f}x' if best else ''} | {wish} | {verdict} |"
    )


def table(*titles: str) -> list[str]:
    """Return the first lines of a table."""
    return ["", f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]


def kernel_rows(entry: Entry) -> list[str]:
    """Return a line a kernel of a case: what it took, and what its bytes and products allow."""
    name = f"{entry['case']}, {entry['dtype']}" if "dtype" in entry else entry["case"]
    if "kernels" not in entry:
        return []
    lines = [f"| {name}: {entry['searches']:g} searches a call | | | | | | |"]
    for one in entry["kernels"]:
        model, counts = one.get("model_ms"), ("", "")
        if "nbytes" in one:
            counts = (f"{one['nbytes'] / 1e6:.2f}", f"{one['flops'] / 1e9:.1f}")
        over = f"{one['ms'] / model:.1f}" if model else ""
        shown = f"{model:.4f}" if model is not None else ""
        lines.append(
            f"| | {one['kernel']} | {one['launches']:g} | {counts[0]} | {counts[1]} | {shown} | "
            f"{one['ms']:.4f}{f' ({over} x)' if over else ''} |"
        )
    return lines


def hybrid_row(entry: Entry) -> str:
    """Return a line of the texts and hybrid batches."""
    times = (entry.get(name, {}).get("median_ms") for name in ("ours", "host", "torch"))
    shown = " | ".join("" if ms is None else f"{ms:.2f}" for ms in times)
    stages = ", ".join(f"{name} {ms:.2f}" for name, ms in entry["stages_ms"].items())
    return f"| {entry['rows']:,} | {entry['case']} | {shown} | {stages} |"


def markdown(found: Entry) -> str:
    """Show everything for people."""
    about = found["facts"]
    cases = [*(found["cases"] or []), *(found["threads"] or []), *(found["late"] or [])]
    lines = [f"# {about['name']}, {about['date']}", ""]
    lines += [f"- {name}: {value}" for name, value in about.items() if value and name != "name"]
    for name, value in (found["ceilings"] or {}).items():
        lines.append(f"- ceiling, {name}: {round(value, 4) if isinstance(value, float) else value}")
    lines += [f"- left out: {what}" for what in found["left_out"]]
    lines += table("step", "result", "s", "last line")
    for one in found["steps"]:
        last = one["last_line"][:120].replace("|", "/")
        lines.append(f"| {one['step']} | {one['result']} | {one['seconds']} | {last} |")
    if shape := next((e for e in cases if "rows" in e), None):
        lines += ["", f"{shape['rows']:,} rows x {shape['dim']}, k={shape['k']}; milliseconds."]
    if cases:
        titles = ("case", "ours (min to p90, calls)", "chosen", "floor", "others", "ratio")
        lines += table(*titles, "target", "")
        has_targets = about["size"] == "full" and about["device"] != "cpu"
        lines += [row(entry, has_targets=has_targets) for entry in cases]
        lines += [text for text in (state_row(),) if text]
    if found["hybrid"]:
        places = ("device, ms", "all cores of the CPU, ms", "torch, ms")
        lines += table("rows", "batch", *places, "stages of a call, ms")
        lines += [hybrid_row(entry) for entry in found["hybrid"]]
    kernels = [each for entry in cases + (found["hybrid"] or []) for each in kernel_rows(entry)]
    if kernels:
        titles = ("case", "kernel", "launches", "MB", "GFLOP", "model, ms")
        lines += [*table(*titles, "measured, ms (over the model)"), *kernels]
    if found["tune"]:
        lines += table(
            "rows", "queries", "plane", "widest", "stride", "room", "ms", "the model, ms"
        )
        for one in found["tune"]["chosen"]:
            names = ("rows", "queries", "plane", "widest", "stride", "capacity")
            shown = " | ".join(str(one[name]) for name in names)
            lines.append(f"| {shown} | {one['ms']:.3f} | {one['model_ms']:.3f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write both files and print the one for people, without the long table of kernels."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--device", required=True)
    parser.add_argument("--size", required=True)
    parser.add_argument("--command", required=True)
    options = parser.parse_args()
    found = {
        "facts": facts(options.device, options.size, options.command),
        "steps": steps(options.out / "steps.tsv"),
        "left_out": lines_of(options.out / "left_out.txt"),
        **{name: read(options.out / f"{name}.json") for name in PARTS},
    }
    (options.out / "device.json").write_text(json.dumps(found, indent=1) + "\n")
    shown = markdown(found)
    (options.out / "device.md").write_text(shown)
    print(shown.split("\n| case | kernel |")[0])


if __name__ == "__main__":
    main()
