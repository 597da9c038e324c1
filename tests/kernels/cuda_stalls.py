"""How long a scan's test of scores takes where none passes, by its machine code's control codes.

Each instruction tells for how many cycles its warp issues no other: bits 41 to 44 of its upper
word. Their sum along a path is what one warp needs at least, with every value at hand and no other
warp beside it.

``PYTHONPATH=tests python -m kernels.cuda_stalls build/cuda/libhyrecall_cuda.so`` prints a table.
"""

import heapq
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kernels.cuda_resources import bare, demangle
from kernels.cuda_sass import find_tools, run

SCANS = {
    ("scan_rows_sm90", "false"): 32,
    ("scan_wide_sm90", "128"): 128,
    ("scan_wide_sm90", "256"): 256,
}

_FUNCTION = re.compile(r"^\s*Function : (\S+)")
_LOWER = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;\s*/\* 0x[0-9a-f]{16} \*/")
_UPPER = re.compile(r"^\s*/\* 0x([0-9a-f]{16}) \*/")
_BRANCH = re.compile(r"^(@!?U?P\d+ )?BRA (?:!?U?P\d+, )?(0x[0-9a-f]+)$")
_ENDS = re.compile(r"^(EXIT|RET|BRX|WARPSYNC\.COLLECTIVE)\b")
_WAITS_FOR_ALL = re.compile(r"WARPGROUP\.DEPBAR\.LE gsb0, 0x0\b")
_TEST = re.compile(r"\bFSETP\b")
_LOAD = re.compile(r"\bLDG?(\.|\b)(?!SM)")


@dataclass(frozen=True)
class Step:
    """An instruction, and for how many cycles its warp waits after it."""

    at: int
    text: str
    stall: int


@dataclass(frozen=True)
class Cost:
    """What the test of a lane's scores takes where none passes."""

    n_scores: int
    n_instructions: int
    stalls: int
    n_loads: int  # from memory, between the last product and the first score

    @property
    def stalls_per_128(self) -> float:
        """The stalls of 128 scores."""
        return self.stalls * 128 / self.n_scores


def parse(lines: Iterable[str]) -> dict[str, list[Step]]:
    """Read what ``cuobjdump -sass`` printed: the instructions of each function."""
    found: dict[str, list[Step]] = {}
    steps: list[Step] = []
    lower: tuple[int, str] | None = None
    for line in lines:
        if start := _LOWER.match(line):
            lower = int(start[1], 16), start[2]
        elif (rest := _UPPER.match(line)) and lower is not None:
            steps.append(Step(*lower, int(rest[1], 16) >> 41 & 15))
            lower = None
        elif function := _FUNCTION.match(line):
            steps = found.setdefault(function[1], [])
    names = demangle(list(found))
    return {bare(name): steps for name, steps in zip(names, found.values(), strict=True)}


def cost(steps: list[Step], n_scores: int) -> Cost:
    """Return the shortest way from the end of the products past the tests of so many scores."""
    place = {step.at: number for number, step in enumerate(steps)}
    begins = [n for n, step in enumerate(steps) if _WAITS_FOR_ALL.search(step.text)]
    if len(begins) != 1:
        raise ValueError(f"expected one wait for all products, got {len(begins)}")
    left = [(0, 0, 0, begins[0], 0)]  # stalls, instructions, loads, where, tests passed
    seen: set[tuple[int, int]] = set()
    while left:
        stalls, n, loads, at, tested = heapq.heappop(left)
        if tested == n_scores:
            return Cost(n_scores, n, stalls, loads)
        if (at, tested) in seen or at >= len(steps):
            continue
        seen.add((at, tested))
        step = steps[at]
        tested += bool(_TEST.search(step.text))
        loads += bool(tested == 0 and _LOAD.search(step.text))
        branch = _BRANCH.match(step.text)
        following = [at + 1]
        if branch:
            following = [place[int(branch[2], 16)]] + ([at + 1] if branch[1] else [])
        elif _ENDS.match(step.text):
            following = []
        for other in following:
            heapq.heappush(left, (stalls + max(step.stall, 1), n + 1, loads, other, tested))
    raise ValueError(f"expected a way past {n_scores} tests, got none")


def costs(cuobjdump: Path, library: Path) -> dict[tuple[str, int], Cost]:
    """Return the cost of each Hopper scan by its kind and its queries a tile."""
    found = {}
    for name, steps in parse(run(cuobjdump, "-sass", str(library)).splitlines()).items():
        scan = re.match(r"(\w+)<(?:\w+::)*(\w+), (?:\(bool\))?(\w+)>", name)
        width = SCANS.get((scan[1], {"0": "false"}.get(scan[3], scan[3]))) if scan else None
        if scan and width:
            found[scan[2], width] = cost(steps, width // 2)
    return found


if __name__ == "__main__":
    tool = find_tools()
    assert tool is not None, "cuobjdump and nvdisasm are not at hand"
    print(f"{'scan':<12}{'queries':>8}{'scores':>8}{'instr.':>8}{'stalls':>8}{'of 128':>8}")
    for (kind, width), one in sorted(costs(tool, Path(sys.argv[1])).items()):
        numbers = (width, one.n_scores, one.n_instructions, one.stalls, round(one.stalls_per_128))
        print(f"{kind:<12}" + "".join(f"{number:>8}" for number in numbers))
