"""How many lines and files a room may have. A budget only goes down: who needs room makes some.

A file is one subject, as long as that takes; what counts is what a reader has to know in all.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SLACK = 0.02  # more than this below its budget, a room's gain is to be written down here

# Lines and files of Python by hand.
PYTHON = {
    "": (1_930, 7),
    "adapters": (4_553, 15),
    "arm": (955, 8),
    "ask": (3_619, 14),
    "base": (2_865, 17),
    "cli": (6_613, 25),
    "distributed": (4_738, 10),
    "embed": (2_527, 10),
    "evaluate": (3_487, 9),
    "folders": (1_140, 5),
    "graph": (654, 2),
    "hits": (3_507, 13),
    "memory": (22_021, 56),
    "migrate": (1_322, 8),
    "parts": (1_493, 4),
    "recall": (5_377, 20),
    "replicas": (1_976, 6),
    "rerank": (348, 2),
    "segments": (3_249, 11),
    "serve": (7_024, 31),
    "stages": (3_303, 15),
    "systems": (5_033, 29),
    "table": (3_582, 13),
    "text": (804, 3),
}
TESTS = (125_627, 603)
CSRC = (44_669, 374)
DEVICE_HALF = 10_381  # csrc/kernels/cuda, csrc/device, and the engine's files of a device


def sizes(files: Iterator[Path]) -> tuple[int, int]:
    """Return how many lines files have, and how many files they are."""
    lines = [path.read_text("utf-8").count("\n") for path in files]
    return sum(lines), len(lines)


def rooms(package: Path) -> dict[str, tuple[int, int]]:
    """Return the sizes of a package's folders; what lies beside them is the room ``""``."""
    found: dict[str, list[Path]] = {"": []}
    for path in sorted(package.rglob("*.py")):
        inside = path.relative_to(package)
        found.setdefault(inside.parts[0] if len(inside.parts) > 1 else "", []).append(path)
    return {room: sizes(iter(files)) for room, files in found.items()}


def faults(found: Mapping[str, tuple[int, int]], held: Mapping[str, tuple[int, int]]) -> list[str]:
    """Return what is larger than its budget, has none, or is so small that the budget goes down."""
    out = [f"{name}: no budget" for name in found.keys() - held.keys()]
    for name, (lines, files) in held.items():
        has_lines, has_files = found.get(name, (0, 0))
        if has_lines > lines or has_files > files:
            out.append(f"{name}: {has_lines} lines in {has_files} files, more than its budget")
        elif has_lines < (1 - SLACK) * lines - 20 or has_files < (1 - SLACK) * files - 1:
            out.append(f"{name}: {has_lines} lines in {has_files} files; lower its budget")
    return out


def test_rooms_keep_their_budgets() -> None:
    assert faults(rooms(ROOT / "python" / "hyrecall"), PYTHON) == []


def test_tests_and_native_code_keep_theirs() -> None:
    native = [
        path
        for path in (ROOT / "csrc").rglob("*")
        if path.suffix in {".cpp", ".hpp", ".cu", ".cuh"}
    ]
    found = {"tests": sizes((ROOT / "tests").rglob("*.py")), "csrc": sizes(iter(native))}
    assert faults(found, {"tests": TESTS, "csrc": CSRC}) == []
    half = [path for path in native if is_of_a_device(path.relative_to(ROOT / "csrc"))]
    assert sizes(iter(half))[0] <= DEVICE_HALF


def is_of_a_device(inside: Path) -> bool:
    """Return whether a file of csrc is of the half that needs a device."""
    at = inside.as_posix()
    return at.startswith(("kernels/cuda/", "device/")) or (
        at.startswith("engine/") and "on_device" in at
    )


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ((1_000, 10), []),
        ((1_001, 10), ["a: 1001 lines in 10 files, more than its budget"]),
        ((1_000, 11), ["a: 1000 lines in 11 files, more than its budget"]),
        ((900, 10), ["a: 900 lines in 10 files; lower its budget"]),
    ],
)
def test_a_planted_size_is_found(found: tuple[int, int], told: list[str]) -> None:
    assert faults({"a": found}, {"a": (1_000, 10)}) == told
    assert faults({"a": (1, 1), "b": found}, {"a": (1, 1)}) == ["b: no budget"]
