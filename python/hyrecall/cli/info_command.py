"""``hyrecall info``: shows an index's settings, this machine's devices, or a bug report."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from hyrecall.base.runtime import CudaReport, cuda_report
from hyrecall.base.text_tables import Column, Row, fields
from hyrecall.cli import report
from hyrecall.cli.show import print_json, print_lines, print_table, screen_width
from hyrecall.errors import IndexNotFoundError, error
from hyrecall.index import Index
from hyrecall.replicas import held
from hyrecall.text.analyzer import Analyzer
from hyrecall.text.bm25 import BM25

__all__ = ["info"]


def info(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="DIR",
            show_default="none, with --devices or --report",
            help="Folder of the index.",
        ),
    ] = None,
    devices: Annotated[
        bool,
        typer.Option("--devices", help="Show this machine's CUDA devices instead; without DIR."),
    ] = False,
    as_report: Annotated[
        bool,
        typer.Option(
            "--report",
            help="Show the data of a bug report instead: versions, the machine, and which settings "
            "and variables are set, without secrets and documents; without DIR.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object.")] = False,
) -> None:
    """Show an index's sizes and settings, this machine's devices, or the data of a bug report."""
    if [folder is not None, devices, as_report].count(True) != 1:
        raise typer.BadParameter("expected one of DIR, --devices and --report")
    if folder is not None:
        _show_index(folder, as_json)
    elif devices:
        _show_devices(cuda_report(), as_json)
    else:
        _show_report(as_json)


def _show(lines: list[tuple[str, str]]) -> None:
    """Write names and values."""
    print_lines(fields(lines, width=screen_width()))


def _show_report(as_json: bool) -> None:
    found = report.collect()
    if as_json:
        print_json(found)
    else:
        _show(report.report_lines(found))


def _show_devices(cuda: CudaReport, as_json: bool) -> None:
    if as_json:
        found = [asdict(device) | {"problem": device.problem} for device in cuda.devices]
        print_json(asdict(cuda) | {"devices": found})
        return
    none = "none" if cuda.has_library else "unknown"  # only the library can find them
    lines = [
        ("libhyrecall_cuda.so", "is present" if cuda.has_library else "is missing"),
        ("driver", cuda.driver_version or none),
        ("CUDA runtime", cuda.runtime_version or none),
    ]
    if not cuda.devices:
        lines.append(("devices", f"none: {cuda.problem}"))
    _show(lines)
    if not cuda.devices:
        return
    columns = (
        Column("device"), Column("name"), Column("memory", "right"),
        Column("compute capability", "right"), Column("usable", wraps=True),
    )  # fmt: skip
    rows = [
        Row(
            [
                device.device,
                device.name,
                f"{device.memory_bytes / 2**30:.1f} GiB",
                ".".join(map(str, device.compute_capability)),
                f"no: {device.problem}" if device.problem else "yes",
            ]
        )
        for device in cuda.devices
    ]
    print()
    print_table(columns, rows)


def _show_index(folder: Path, as_json: bool) -> None:
    if (folder / "memory.db").exists() and not (folder / "MANIFEST").exists():
        got = "a store (hyrecall doctor --path shows it)"
        raise error(IndexNotFoundError, str(folder), "a saved index", got)
    index = Index.open(folder, embed={})
    facts = _facts(index) | {"replica": _replica(folder)}
    if as_json:
        print_json(facts)
    else:
        _show(_lines(index, facts))


def _facts(index: Index) -> dict[str, Any]:
    facts = index._facts
    return {
        "schema": index.schema.to_dict(),
        "types": {name: str(kind) for name, kind in facts.row_types.items()},
        "analyzer": {arm: repr(analyzer) for arm, analyzer in facts.analyzers.items()},
        "bm25": {arm: repr(bm25) for arm, bm25 in facts.bm25.items()},
        **index.stats(),
    }


def _replica(folder: Path) -> dict[str, Any] | None:
    """Return which pushed generation an index is, and how many seconds old; None: no replica."""
    found = held(folder)
    if found is None:
        return None
    return {
        "url": found.url,
        "generation": found.generation,
        "pushed_at": found.pushed_at.isoformat(timespec="milliseconds"),
        "age": found.age.total_seconds(),
    }


def _lines(index: Index, facts: dict[str, Any]) -> list[tuple[str, str]]:
    schema, types = facts["schema"], facts["types"]

    def typed(names: list[str]) -> str:
        return ", ".join(f"{name} ({types[name]})" for name in names)

    lines = [
        ("documents", f"{facts['n_docs']:,} live, {facts['n_dead']:,} deleted"),
        ("segments", f"{facts['n_segments']}, {_mebibytes(facts['segments'])}"),
        ("key", typed([schema["key"]])),
        ("cell", typed(schema["cell"]) if schema["cell"] else "none: one audience"),
    ]
    for arm, columns in schema["text"].items():
        how = _words(index._facts.analyzers[arm]), _constants(index._facts.bm25[arm])
        lines.append((f"text arm {arm}", ", ".join((" + ".join(columns), *how))))
    for arm, vector in schema["vector"].items():
        what = f"{vector['column']}, {facts['dims'][arm]} dimensions"
        lines.append((f"vector arm {arm}", what))
    if schema["attributes"]:
        lines.append(("attributes", typed(schema["attributes"])))
    if schema.get("thread") is not None:
        lines.append(("threads", f"{schema['thread']}, by {schema['place'] or 'insertion'}"))
    replica = facts["replica"]
    if replica is not None:
        told = f"generation {replica['generation']:,} of {replica['url']}"
        when = f"pushed at {replica['pushed_at']} ({replica['age']:,.1f} s ago)"
        lines.append(("replica", f"{told}, {when}"))
    lines.append(("runs on", f"{facts['device']} ({facts['isa']}, {facts['threads']} threads)"))
    return lines


def _words(analyzer: Analyzer) -> str:
    """Return how texts are split into words, in words."""
    stopwords, function = analyzer.stopwords, analyzer.token_function
    parts = [f"words by {analyzer.name}"]
    if stopwords is not None:
        listed = stopwords if isinstance(stopwords, str) else f"of {len(stopwords)} words"
        parts.append(f"stop list {listed}")
    return ", ".join(parts + ([] if function is None else [f"then {function.name}"]))


def _constants(bm25: BM25) -> str:
    """Return the BM25 variant and constants, in words."""
    delta = "" if bm25.delta is None else f", delta {bm25.delta:g}"
    b = " to ".join(f"{one:g}" for one in (bm25.b if isinstance(bm25.b, tuple) else (bm25.b,)))
    return f"BM25 {bm25.variant} with k1 {bm25.k1:g}, b {b}{delta}"


def _mebibytes(segments: list[dict[str, Any]]) -> str:
    total = sum(_total(segment["nbytes"]) for segment in segments)
    return f"{total / 2**20:,.1f} MiB"


def _total(nbytes: Any) -> int:
    return sum(map(_total, nbytes.values())) if isinstance(nbytes, dict) else int(nbytes)
