"""The table of measured choices, csrc/device/tuned.hpp: what tools/tuned.py writes, and of what."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FACTS = {
    "name": "NVIDIA H200",
    "multiprocessors": 132,
    "memory_bytes": 143_771 << 20,
    "date": "2026-12-01",
    "commit": "0123456789abcdef",
    "dim": 768,
}
CHOICE = {
    **{"rows": "bfloat16", "queries": 64, "plane": "int8", "widest": 128, "stride": 32},
    **{"capacity": 16_384, "ms": 0.5, "model_ms": 0.625},
}


@pytest.fixture(scope="module")
def tuned() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tuned", ROOT / "tools" / "tuned.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def sweep(*choices: dict[str, Any], **facts: object) -> dict[str, Any]:
    return {"facts": FACTS | facts, "chosen": list(choices)}


def test_the_table_is_what_the_kept_sweeps_say() -> None:
    command = [sys.executable, "-m", "tools.tuned", "--check"]
    subprocess.run(command, cwd=ROOT, check=True)


def test_an_entry_says_when_where_and_by_which_commit_it_was_measured(tuned: ModuleType) -> None:
    assert tuned.entries([("h200.json", sweep(CHOICE))]) == [
        "  // 2026-12-01, NVIDIA H200, commit 01234567, h200.json: 0.500 ms, the model 0.625",
        "  {{132, 144, FirstPassPlane::kBFloat16, 1024, 64}, FirstPassPlane::kInt8, 128, 32, "
        "16384},",
    ]
    assert "std::array<Tuned, 1> kTuned{{\n  // 2026" in tuned.text([("h200.json", sweep(CHOICE))])
    assert "std::array<Tuned, 0> kTuned{};" in tuned.text([])


def test_the_later_sweep_of_a_device_counts(tuned: ModuleType) -> None:
    later = sweep(CHOICE | {"stride": 128}, date="2026-12-02")
    lines = tuned.entries([("b.json", later), ("a.json", sweep(CHOICE))])
    assert len(lines) == 2
    assert ", 128, 128, 16384}" in lines[1]


def test_entries_rise_by_their_keys(tuned: ModuleType) -> None:
    other = sweep(CHOICE, multiprocessors=114, memory_bytes=81_559 << 20)
    mine = sweep(CHOICE, CHOICE | {"rows": "int8", "queries": 9}, CHOICE | {"queries": 1})
    keys = [line.split("}")[0] for line in tuned.entries([("a", mine), ("b", other)])[1::2]]
    assert keys == [
        "  {{114, 80, FirstPassPlane::kBFloat16, 1024, 64",
        "  {{132, 144, FirstPassPlane::kInt8, 1024, 64",
        "  {{132, 144, FirstPassPlane::kBFloat16, 1024, 1",
        "  {{132, 144, FirstPassPlane::kBFloat16, 1024, 64",
    ]


WRONG_KEYS = """
constexpr bool is_refused(auto change) {
  auto table = hyrecall::kTuned;
  change(table[0].key);
  return !hyrecall::are_keys_valid(table);
}
static_assert(hyrecall::are_keys_valid(hyrecall::kTuned));
static_assert(is_refused([](auto& key) { key.dim_class = 768; }));
static_assert(is_refused([](auto& key) { key.batch_class = 63; }));
"""


@pytest.mark.skipif(shutil.which("c++") is None, reason="no compiler is at hand")
def test_a_table_with_a_wrong_key_does_not_compile(tuned: ModuleType, tmp_path: Path) -> None:
    """dense_tuning.cpp asserts are_keys_valid() of its table."""
    source = tmp_path / "tuned.cpp"
    source.write_text(tuned.text([("h200.json", sweep(CHOICE))]) + WRONG_KEYS)
    command = ["c++", "-std=c++20", "-w", "-fsyntax-only", f"-I{ROOT / 'csrc'}", str(source)]
    subprocess.run(command, check=True)
