"""Follows each equation of an explanation with a calculator that sees only what is printed."""

import math
import re
from collections.abc import Callable

import hyrecall as hr
from seams import explanation_lines

NUMBER = r"\d+(?:\.\d+)?(?:e[-+]\d+)?"
EQUATION = re.compile(rf"(-?{NUMBER}) = ((?:ln\(|{NUMBER}|[-+/()^]| x |[ ](?!x))+)")


def check_equations(made: hr.Explanation) -> int:
    """Check that both sides agree, as far as the printed digits say; return how many there were."""
    found = 0
    for _, line in explanation_lines(made):
        for shown, side in EQUATION.findall(line):
            check(float(shown), side, line)
            found += 1
    return found


def check(shown: float, side: str, line: str) -> None:
    """Compare a number with its other side; each printed digit may be off by half."""
    numbers = [float(one) for one in re.findall(NUMBER, side)]
    value = calculator(side)
    result = value(numbers)
    slack = half_digit(f"{shown:.6g}") + 1e-6 * abs(result)
    for at, one in enumerate(re.findall(NUMBER, side)):
        moved = list(numbers)
        moved[at] += half_digit(one)
        slack += 1.01 * abs(value(moved) - result)
    assert abs(shown - result) <= slack + 1e-12, line


def half_digit(shown: str) -> float:
    """Return by how much a printed number may be off."""
    digits = max(len(re.sub(r"\D", "", shown.split("e", maxsplit=1)[0]).lstrip("0")), 6)
    number = abs(float(shown))
    return 0.0 if not number else 0.5 * 10.0 ** (math.floor(math.log10(number)) + 1 - digits)


def calculator(side: str) -> Callable[[list[float]], float]:
    """Return the function of its numbers that one side is."""
    python = re.sub(NUMBER, "{}", side).replace(" x ", " * ").replace("^", "**")
    python = python.replace("ln(", "math.log(").strip()
    return lambda numbers: float(eval(python.format(*map(repr, numbers)), {"math": math}))
