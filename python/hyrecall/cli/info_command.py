"""``hyrecall info`` and ``hyrecall config``: an index, this machine, a bug report, the settings."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

import typer

import hyrecall
from hyrecall import _core
from hyrecall.base.runtime import CudaReport, allowed_cores, choose_threads, cuda_report
from hyrecall.base.text_tables import Column, Row, fields
from hyrecall.cli.declare import group
from hyrecall.cli.settings import KEYS, read_settings, remove_setting, set_setting, settings_path
from hyrecall.cli.show import print_json, print_lines, print_table, say, screen_width, show
from hyrecall.embed import choose
from hyrecall.errors import HyrecallError, IndexNotFoundError, OptionError, error
from hyrecall.index import Index
from hyrecall.replicas import held
from hyrecall.text.analyzer import Analyzer
from hyrecall.text.bm25 import BM25

# ---- Collects the data of a bug report: versions, the machine, its devices and the user's settings
# The result can be published: values that may be secret, and folders outside the home folder, are
# left out.

_PACKAGES = ("numpy", "pyarrow", "tokenizers", "PyStemmer", "xxhash")
_EXTRAS_OF_DEVELOPERS = {"test", "dev", "bench", "parity"}
_FLAGS = {
    *("avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512_vnni"),
    *("amx_tile", "amx_int8", "asimd", "asimddp", "i8mm", "sve"),
}
"""The system's names of the instructions that kernels use or may use later."""

_HARMLESS_SETTINGS = KEYS.keys() - {"path", "embedder", "embedding_url", "embedding_model"}
_DURATION = r"(\d{1,9}(\.\d{1,9})?(ms|s|m|h|d)?){1,4}"
_SCAN = r"(generic|-(int8|float16|bfloat16):\d{1,4}:(generic|sm_90a))"
_HARMLESS_VARIABLES = {
    "HYRECALL_ISA": "scalar|avx2|avx512|avx512vnni|amx|neon|neondot",
    "HYRECALL_FRONT_PLANE": "head8|head4|int8|rows",
    "HYRECALL_CUDA_KERNELS": f"{_SCAN}(,{_SCAN})*",
    "HYRECALL_DENSE_TUNING": r"\d{1,9},\d{1,9},\d{1,9}",
    "HYRECALL_CUDA_TIMES": "0|1",
    "HYRECALL_AUTO_POSTINGS": r"\d{1,20}",
    "CUDA_VISIBLE_DEVICES": r"-?\d{1,3}(,\d{1,3})*",
    **dict.fromkeys(choose.DISABLE, "(?i:0|1|true|false|yes|no|on|off|)"),
    **dict.fromkeys(choose.TIMEOUT, _DURATION),
}
"""Variables whose values are shown if they match this pattern."""

_OTHER_VARIABLES = {
    *(*choose.URL, *choose.MODEL, *choose.KEY, "XDG_CONFIG_HOME", "XDG_DATA_HOME"),
}


def collect() -> dict[str, Any]:
    """Return the report as plain data; hidden values are None."""
    return {
        "hyrecall": hyrecall.__version__,
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "packages": {name: _version(name) for name in _PACKAGES},
        "sqlite": _sqlite(),
        "extras": _extras(),
        "system": _system(),
        "processor": _processor(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "cuda": _cuda(),
        "settings": _settings(),
        "environment": _environment(os.environ),
    }


# ---- versions ----


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _sqlite() -> str | None:
    try:
        from hyrecall.memory.sql.connecting import sqlite_version
    except ImportError:
        return None
    return sqlite_version()


def _extras() -> dict[str, dict[str, str | None]] | None:
    """Return the packages of each extra with their versions, or None without package metadata."""
    try:
        required = metadata.requires("hyrecall") or []
    except metadata.PackageNotFoundError:
        return None
    extras: dict[str, dict[str, str | None]] = {}
    for requirement in required:
        package = re.match(r"[\w.-]+", requirement)
        extra = re.search(r"""extra\s*==\s*["']([\w.-]+)["']""", requirement)
        if package and extra and extra[1] not in _EXTRAS_OF_DEVELOPERS:
            extras.setdefault(extra[1], {})[package[0]] = _version(package[0])
    return extras


# ---- the machine ----


def _system() -> dict[str, str | None]:
    try:
        distribution = platform.freedesktop_os_release().get("PRETTY_NAME")
    except OSError:
        distribution = None
    return {
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "distribution": distribution,
        "libc": " ".join(platform.libc_ver()).strip() or None,
    }


def _processor() -> dict[str, Any]:
    facts = _cpu_facts()
    flags = (facts.get("flags") or facts.get("Features") or "").split()
    try:
        instruction_set: str | None = _core.arithmetic.isa()
    except OptionError:
        instruction_set = None  # this processor does not have the value of HYRECALL_ISA
    return {
        "model": facts.get("model name") or platform.processor() or None,
        "instruction_set": instruction_set,
        "instructions": [flag for flag in flags if flag in _FLAGS],
        "cores": os.cpu_count(),
        "allowed_cores": allowed_cores(),
        "threads": choose_threads(None),
    }


def _cpu_facts() -> dict[str, str]:
    """Return the fields of the first core in /proc/cpuinfo."""
    try:
        text = Path("/proc/cpuinfo").read_text("utf-8", "replace")
    except OSError:
        return {}
    pairs = (line.partition(":") for line in text.partition("\n\n")[0].splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _cuda() -> dict[str, Any]:
    report = cuda_report()
    return _as_data(report) | {"problem": _without_folders(report.problem)}


def _as_data(report: CudaReport) -> dict[str, Any]:
    devices = [asdict(device) | {"problem": device.problem} for device in report.devices]
    return asdict(report) | {"devices": devices}


def _without_folders(text: str) -> str:
    """Return a text with every path shortened to its file name."""
    return re.sub(r"/(?:[^/\n:'\"]+/)+", ".../", text)


# ---- settings ----


def _settings() -> dict[str, Any]:
    try:
        path = settings_path()
    except OptionError:  # no home folder
        return {"file": "none", "exists": False, "problem": None, "values": {}}
    exists = os.path.exists(path)  # Path.exists raises where a folder may not be entered
    report = {"file": _shown_path(path), "exists": exists, "problem": None, "values": {}}
    try:
        found = read_settings(path)
    except HyrecallError as fault:  # its message may hold the value
        key = f": {fault.argument}" if fault.argument in KEYS else ""
        return report | {"problem": type(fault).__name__ + key}
    except OSError as fault:
        return report | {"problem": type(fault).__name__}
    values = {key: found[key] if _is_harmless(key, found[key]) else None for key in sorted(found)}
    return report | {"values": values}


def _is_harmless(key: str, value: object) -> bool:
    return key in _HARMLESS_SETTINGS or (key == "embedder" and value in choose.NAMES)


def _shown_path(path: Path) -> str:
    """Return a path with ~ for the home folder; outside of it, only the file name."""
    path = path.absolute()
    try:
        home = Path.home()
    except RuntimeError:  # this user has none
        home = Path("/")
    is_below = path.is_relative_to(home) and home != Path("/")
    return f"~/{path.relative_to(home)}" if is_below else f".../{path.name}"


def _environment(environ: Mapping[str, str]) -> dict[str, str | None]:
    """Return the variables that hyrecall reads, with None for hidden values."""
    known = _HARMLESS_VARIABLES.keys() | _OTHER_VARIABLES
    names = [
        name for name in environ if name in known or re.fullmatch(r"HYRECALL_[A-Z0-9_]+", name)
    ]

    def shown(name: str) -> str | None:
        form = _HARMLESS_VARIABLES.get(name)
        return environ[name] if form and re.fullmatch(form, environ[name]) else None

    return {name: shown(name) for name in sorted(names)}


# ---- as text ----


def report_lines(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return a report as pairs of name and value, for a table of text."""
    system, processor = report["system"], report["processor"]
    cores = f"{processor['allowed_cores']} of {processor['cores']} cores allowed"
    isa = processor["instruction_set"] or "none: HYRECALL_ISA is refused"
    return [
        ("hyrecall", report["hyrecall"]),
        ("Python", report["python"]),
        ("packages", _versions(report["packages"])),
        ("SQLite", report["sqlite"] or "none: the extra [memory] is not installed"),
        *_extra_lines(report["extras"]),
        ("system", ", ".join(part for part in system.values() if part)),
        ("processor", f"{processor['model'] or 'unknown'}, {cores}"),
        ("threads", str(processor["threads"])),
        ("instruction set", isa),
        ("instructions", " ".join(processor["instructions"]) or "unknown"),
        ("memory", f"{report['memory_bytes'] / 2**30:.1f} GiB"),
        *_cuda_lines(report["cuda"]),
        *_setting_lines(report["settings"]),
        ("environment", _pairs(report["environment"]) or "no variable of hyrecall is set"),
    ]


def _versions(packages: Mapping[str, str | None]) -> str:
    shown = (f"{name} {version or 'is not installed'}" for name, version in packages.items())
    return ", ".join(shown)


def _extra_lines(extras: Mapping[str, Mapping[str, str | None]] | None) -> list[tuple[str, str]]:
    if extras is None:
        return [("extras", "unknown: hyrecall is not installed as a package")]
    return [(f"extra [{name}]", _versions(packages)) for name, packages in extras.items()]


def _cuda_lines(cuda: Mapping[str, Any]) -> list[tuple[str, str]]:
    library = "is present" if cuda["has_library"] else "is missing"
    driver, runtime = (cuda[name] or "none" for name in ("driver_version", "runtime_version"))
    lines = [("CUDA", f"libhyrecall_cuda.so {library}, driver {driver}, runtime {runtime}")]
    for device in cuda["devices"]:
        capability = ".".join(map(str, device["compute_capability"]))
        why = device["problem"]
        use = f"not usable: {why}" if why else f"compute capability {capability}"
        memory = f"{device['memory_bytes'] / 2**30:.1f} GiB"
        lines.append((device["device"], f"{device['name']}, {memory}, {use}"))
    return lines if cuda["devices"] else [*lines, ("devices", f"none: {cuda['problem']}")]


def _setting_lines(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    note = "" if settings["exists"] else ", which does not exist"
    if settings["problem"]:
        note = f", which is refused: {settings['problem']}"
    return [
        ("settings file", settings["file"] + note),
        ("settings", _pairs(settings["values"]) or "none"),
    ]


def _pairs(values: Mapping[str, object]) -> str:
    shown = (
        f"{name} is set" if value is None else f"{name} = {value}" for name, value in values.items()
    )
    return ", ".join(shown)


# ---- ``hyrecall info``: shows an index's settings, this machine's devices, or a bug report ----


def info(
    folder: Path | None = None,
    *,
    devices: bool = False,
    as_report: bool = False,
    as_json: bool = False,
) -> None:
    """Show an index's sizes and settings, this machine's devices, or the data of a bug report.

    Arguments
    folder DIR: Folder of the index. [default: none, with --devices or --report]
    Options
    devices: Show this machine's CUDA devices instead; without DIR.
    as_report --report: Show the data of a bug report instead: versions, the machine, and which
        settings and variables are set, without secrets and documents; without DIR.
    """
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
    found = collect()
    if as_json:
        print_json(found)
    else:
        _show(report_lines(found))


def _show_devices(cuda: CudaReport, as_json: bool) -> None:
    if as_json:
        print_json(_as_data(cuda))
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
    cells = (
        [
            device.device, device.name, f"{device.memory_bytes / 2**30:.1f} GiB",
            ".".join(map(str, device.compute_capability)),
            f"no: {device.problem}" if device.problem else "yes",
        ]
        for device in cuda.devices
    )  # fmt: skip
    print()
    print_table(columns, list(map(Row, cells)))


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
        **({} if facts.folder is None else {"folder": facts.folder}),
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
    for arm, text in index.schema.text_arms.items():
        weights = dict(text.weights)
        columns = [f"{c}:{weights[c]}" if c in weights else c for c in text.columns]
        how = _words(index._facts.analyzers[arm]), _constants(index._facts.bm25[arm])
        lines.append((f"text arm {arm}", ", ".join((" + ".join(columns), *how))))
    for arm, vector in schema["vector"].items():
        dim = facts["dims"][arm]
        what = f"{vector['column']}, {f'{dim} dimensions' if dim else 'sparse'}"
        lines.append((f"vector arm {arm}", what))
    if schema["attributes"]:
        lines.append(("attributes", typed(schema["attributes"])))
    if schema.get("thread") is not None:
        lines.append(("threads", f"{schema['thread']}, by {schema['place'] or 'insertion'}"))
    if "folder" in facts:
        read = facts["folder"]
        sizes = f"{read['chunk_tokens']:,} words a chunk, overlap {read['overlap']:,}"
        lines.append(("files", f"{', '.join(read['patterns'])}; {sizes}"))
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


# ---- ``hyrecall config``: shows and changes the user's settings, which commands use ----

SHARED = """
key KEY: The setting: $KEYS.
"""


def set_(key: str, value: str, *, as_json: bool = False) -> None:
    """Set a setting; an invalid value is refused.

    Arguments
    value VALUE: Its new value.
    """
    _show_setting(key, set_setting(key, value), as_json)


def get(key: str, *, as_json: bool = False) -> None:
    """Show a setting; empty if it is not set."""
    if key not in KEYS:
        raise error(OptionError, "key", f"one of {', '.join(KEYS)}", repr(key))
    value = read_settings().get(key)
    _show_setting(key, value, as_json)
    if value is None and not as_json:
        say("note: not set")


def unset(key: str, *, as_json: bool = False) -> None:
    """Remove a setting."""
    remove_setting(key)
    _show_setting(key, None, as_json)


def list_(*, as_json: bool = False) -> None:
    """Show all settings that are set."""
    found = read_settings()
    if found or as_json:
        show(as_json, found, "\n".join(f"{key} = {value}" for key, value in found.items()))
    else:
        say("note: nothing is set")


def path(*, as_json: bool = False) -> None:
    """Show the path of the settings file, whether or not it exists."""
    show(as_json, {"path": str(settings_path())}, settings_path())


def _show_setting(key: str, value: object, as_json: bool) -> None:
    if as_json or value is not None:
        show(as_json, {"key": key, "value": value}, value)


config = group(
    "config",
    f"Settings, kept in one JSON file: {', '.join(KEYS)}.",
    *(set_, get, unset, list_, path),
)
