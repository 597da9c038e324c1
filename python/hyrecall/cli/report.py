"""Collects the data of a bug report: versions, the machine, its devices and the user's settings.

The result can be published: values that may be secret, and folders outside the home folder, are
left out.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

import hyrecall
from hyrecall import _core
from hyrecall.base.runtime import choose_threads, cuda_report
from hyrecall.cli.settings import KEYS, read_settings, settings_path
from hyrecall.embed import choose
from hyrecall.errors import HyrecallError, OptionError

__all__ = ["collect", "report_lines"]

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
    "HYRECALL_ISA": "scalar|avx2|avx512|avx512vnni|amx",
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
        from hyrecall.memory.sql.sqlite_errors import sqlite_version
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
        "model": facts.get("model name"),
        "instruction_set": instruction_set,
        "instructions": [flag for flag in flags if flag in _FLAGS],
        "cores": os.cpu_count(),
        "allowed_cores": len(os.sched_getaffinity(0)),
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
    devices = [asdict(device) | {"problem": device.problem} for device in report.devices]
    return asdict(report) | {"devices": devices, "problem": _without_folders(report.problem)}


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
