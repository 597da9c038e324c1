"""The golden table of float bits, on every instruction set and on the device."""

import ctypes
import ctypes.util
import json
import math
import os
import platform
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import hyrecall
from golden import exact, make
from golden.check import found_bits
from golden.table import PATH, Case, read
from hyrecall import _core
from laws.effort import Effort
from laws.isa import NEEDED_FLAGS, skip_without
from seams import cuda_library_folder, cuda_report

CSRC = Path(__file__).parents[2] / "csrc"
MATH = ("formulas.hpp", "fusion_math.hpp", "shaping_math.hpp")  # of csrc/core
# Functions there that no scalar line calls, and why.
WITHOUT_A_SCALAR_LINE = {
    "fold_lanes": "the lines of dot and inverse_norm are folded by it",
    "row_norm": "the lines of inverse_norm go through it: it takes a row",
    "inverse_norm": "has lines of its own: they hold rows",
    "max_sim": "a sum of any number of cosines: tests/laws/test_vector_forms.py",
    "max_sim_sum": "max_sim goes through it, and so does a device",
    "max_sim_score": "max_sim goes through it, and so does a device",
    "sparse_sum": "a sum of any number of products: tests/laws/test_vector_forms.py",
    "counts": "the lines of fused_score go through it",
    "share_weights": "the lines of balanced_weight go through it",
}


def run_check(isa: str) -> subprocess.CompletedProcess[str]:
    """Check the table in a process with the instruction set forced."""
    tests = Path(__file__).parents[1]
    package = Path(hyrecall.__file__).parents[1]
    env = os.environ | {
        "HYRECALL_ISA": isa,
        "PYTHONPATH": os.pathsep.join([str(tests), str(package), *filter(None, sys.path)]),
    }
    command = [sys.executable, "-m", "golden.check"]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("isa", NEEDED_FLAGS)
def test_every_instruction_set_gives_the_golden_bits(isa: str) -> None:
    skip_without(isa)
    done = run_check(isa)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["isa"] == isa  # the override took
    assert found["n_cases"] > 900
    assert found["wrong"] == []


@pytest.mark.skipif(sys.platform != "linux", reason="fesetround's constants are Linux's")
def test_the_callers_rounding_mode_changes_no_formula() -> None:
    math_library = ctypes.CDLL(ctypes.util.find_library("m"))
    upward = {"x86_64": 0x800, "aarch64": 0x400000}[platform.machine()]
    cases = list(read())
    before = math_library.fegetround()
    one, tiny = np.float32(1), np.float32(2.0**-40)
    math_library.fesetround(upward)
    try:
        is_upward = one + tiny > one
        wrong = [case.op for case in cases if found_bits(case) != case.expected]
        kept = math_library.fegetround() == upward
    finally:
        math_library.fesetround(before)
    assert is_upward
    assert kept
    assert wrong == []


def test_an_unknown_instruction_set_is_refused_by_name() -> None:
    done = run_check("sse9")
    assert done.returncode != 0
    assert "HYRECALL_ISA: expected an instruction set of this CPU (scalar" in done.stderr
    assert "got sse9" in done.stderr


def test_the_committed_table_is_what_its_definitions_give() -> None:
    assert PATH.read_text() == make.table()


def test_every_formula_of_host_and_device_is_in_the_table() -> None:
    formulas = "".join((CSRC / "core" / name).read_text() for name in MATH)
    declared = set(re.findall(r"^HYRECALL_HD inline \w+ (\w+)\(", formulas, re.MULTILINE))
    assert len(declared) == len(re.findall("^HYRECALL_HD", formulas, re.MULTILINE))
    ops = (CSRC / "kernels" / "shared" / "arithmetic_op.hpp").read_text()
    called = set(re.findall(r"\b(\w+)\(", ops))
    assert declared - called == set(WITHOUT_A_SCALAR_LINE)
    # Each operation is evaluated, has a name, and under it lines.
    named = dict(re.findall(r'\{"([^"]+)", ArithmeticOp::(\w+)\}', ops))
    assert len(set(named.values())) == len(named) == ops.count("case ArithmeticOp::")
    assert {case.op for case in read()} == set(named) | {"dot", "inverse_norm"}


def test_exp2_stays_within_one_ulp_of_80_digits(effort: Effort) -> None:
    rng, n = np.random.default_rng(12), effort.cases(quick=500, full=5_000)
    spans = rng.choice([1.0, 1.0, 10.0, 100.0, 1074.0], n)
    wrong = 0
    for x in (-rng.uniform(0, 1, n) * spans).tolist():
        found = _core.shaping.exp2(x)
        assert found == exact.exp2(x)
        expected = exact.true_exp2(x)
        assert abs(found - expected) <= math.ulp(expected)
        wrong += found != expected
    assert wrong < n / 5  # nine in ten are the nearest float64


def test_one_wrong_bit_is_found() -> None:
    for case in read():
        off_by_one = f"{int(case.expected, 16) ^ 1:0{len(case.expected)}x}"
        assert found_bits(replace(case, expected=off_by_one)) != off_by_one


def test_a_dot_with_its_lanes_in_one_sum_would_not_pass() -> None:
    def in_one_sum(case: Case) -> np.float32:
        total = np.float32(0)
        for x, q in zip(case.row, case.query, strict=True):
            total = np.float32(float(x) * float(q) + float(total))
        return total

    cases = [c for c in read() if c.op == "dot" and c.dtype == "float32" and len(c.query) > 32]
    wrong = [c for c in cases if f"{in_one_sum(c).view(np.uint32):08x}" != c.expected]
    assert len(wrong) >= len(cases) // 2


def test_log_stays_within_one_ulp_of_libm_on_100_000_values() -> None:
    rng = np.random.default_rng(11)
    wide = np.ldexp(rng.uniform(1, 2, 50_000), rng.integers(-1000, 1000, 50_000))
    near_one = 1 + rng.uniform(-0.5, 1.0, 25_000)
    odds = (rng.integers(1, 10**7, 25_000) + 0.5) / (rng.integers(0, 10**6, 25_000) + 0.5)
    worst = 0.0
    for x in np.concatenate([wide, near_one, 1 + odds]).tolist():
        expected = math.log(x)
        worst = max(worst, abs(_core.arithmetic.log(x) - expected) / math.ulp(expected))
    assert worst <= 1.0


def test_log_of_powers_of_two_is_a_rounded_multiple_of_ln_2() -> None:
    for e in range(-1022, 1024):
        assert _core.arithmetic.log(2.0**e) == math.log(2.0**e)


def device_or_skip() -> int:
    report = cuda_report()
    if not report.devices:
        pytest.skip(f"CUDA device: {report.problem}")
    return 0


def test_the_device_gives_the_golden_bits() -> None:
    ordinal = device_or_skip()
    folder = cuda_library_folder()
    n_checked = 0
    for case in read():
        if case.dtype not in ("", "float32"):
            continue  # the device reads float32 only, as yet
        n_checked += 1
        if case.op == "dot":
            dots, _ = _core.device.dots(folder, ordinal, case.query, case.row[None])
            found = f"{dots.view(np.uint32)[0]:08x}"
        elif case.op == "inverse_norm":
            _, norms = _core.device.dots(folder, ordinal, case.row, case.row[None])
            found = f"{norms.view(np.uint32)[0]:08x}"
        else:
            arguments = np.zeros((1, _core.device.MAX_ARITY))
            arguments[0, : len(case.numbers)] = case.numbers
            result = _core.device.formulas(folder, ordinal, case.op, arguments)
            found = f"{result.view(np.uint64)[0]:016x}"
        assert found == case.expected, case
    assert n_checked > 900
