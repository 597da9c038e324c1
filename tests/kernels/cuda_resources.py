"""What ptxas said of each kernel, from the report that the build keeps (cmake/resource_report.py).

``PYTHONPATH=tests python -m kernels.cuda_resources build/cuda/cuda_resources.txt`` prints a table.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

DEMANGLERS = ("cu++filt", "c++filt")

_CAST = re.compile(r"\((?:unsigned )?(?:int|bool)\)(?=-?\w)")
_ENTRY = re.compile(r"^ptxas info\s*: Compiling entry function '([^']+)' for '(\w+)'")
_FRAME = re.compile(
    r"^\s+(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
)
_USED = re.compile(r"^ptxas info\s*: Used (\d+) registers")
_INFO = re.compile(r"^ptxas info\s*: (.*)")


@dataclass(frozen=True)
class Kernel:
    """What one kernel takes on one architecture; bytes are a thread's, shared memory a block's."""

    name: str  # without its namespace and parameters: scan_rows<8>
    architecture: str  # sm_80, sm_90a
    registers: int
    stack_bytes: int  # its own and that of what it calls
    spill_store_bytes: int
    spill_load_bytes: int
    shared_bytes: int  # static; what a launch adds is not known here

    @property
    def plain_name(self) -> str:
        """The name without template arguments."""
        return self.name.partition("<")[0]

    @property
    def is_in_registers(self) -> bool:
        """Whether nothing of it lies in local memory."""
        return self.stack_bytes == self.spill_store_bytes == self.spill_load_bytes == 0


@dataclass
class Report:
    """Every kernel of the library, once for each architecture, and the compiler's advice."""

    kernels: list[Kernel] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)


def parse(text: str) -> Report:
    """Read the lines of ``ptxas -v``; a function that a kernel calls counts as part of it."""
    report = Report()
    found: list[tuple[str, str, dict[str, int]]] = []
    for line in text.splitlines():
        if entry := _ENTRY.match(line):
            found.append((entry[1], entry[2], {}))
        elif frame := _FRAME.match(line):
            _add(found[-1][2], zip(("stack", "stores", "loads"), frame.groups(), strict=True))
        elif used := _USED.match(line):
            numbers = found[-1][2]
            numbers["registers"] = int(used[1])
            numbers["shared"] = _bytes_of("smem", line)
            # The deepest chain of calls, where ptxas tells it: never less than the kernel's own.
            numbers["cumulative"] = _bytes_of("cumulative stack size", line)
        elif _is_of_no_account(line):
            continue
        elif advice := _INFO.match(line):
            report.advice.append(advice[1])  # of a serialised wgmma, for example
        else:
            raise ValueError(f"expected a line of ptxas -v, got {line!r}")
    names = demangle([mangled for mangled, _, _ in found])
    for name, (_, architecture, numbers) in zip(names, found, strict=True):
        report.kernels.append(
            Kernel(
                name=bare(name),
                architecture=architecture,
                registers=numbers["registers"],
                stack_bytes=max(numbers["stack"], numbers["cumulative"]),
                spill_store_bytes=numbers["stores"],
                spill_load_bytes=numbers["loads"],
                shared_bytes=numbers["shared"],
            )
        )
    return report


def _add(numbers: dict[str, int], counted: Iterable[tuple[str, str]]) -> None:
    for name, value in counted:
        numbers[name] = numbers.get(name, 0) + int(value)


def _bytes_of(what: str, line: str) -> int:
    found = re.search(rf"(\d+) bytes {what}", line)
    return int(found[1]) if found else 0


def _is_of_no_account(line: str) -> bool:
    known = (": Function properties for ", "bytes gmem", ": Compile time =")
    return line.startswith("#") or any(word in line for word in known)


def demangle(names: list[str]) -> list[str]:
    """Return names as the sources have them; needs c++filt or cu++filt."""
    tool = next(filter(None, map(shutil.which, DEMANGLERS)))
    asked = "\n".join(names)
    done = subprocess.run([tool], input=asked, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def bare(demangled: str) -> str:
    """Take result, namespace and parameters off a demangled function."""
    text = demangled.replace("(anonymous namespace)::", "")
    text = _CAST.sub("", text)  # some tools write scan_rows<(int)8>
    begin = depth = 0
    for at, letter in enumerate(text):
        depth += (letter == "<") - (letter == ">")
        if depth == 0 and letter in " :":
            begin = at + 1
        elif depth == 0 and letter == "(":
            return text[begin:at]
    return text[begin:]


def faults(report: Report, allowed: Mapping[str, str]) -> list[str]:
    """Say which kernels keep something in local memory, and where ptxas saw speed lost."""
    wrong = [
        f"{k.name} on {k.architecture}: {k.stack_bytes} bytes of stack, "
        f"{k.spill_store_bytes} spilled, {k.spill_load_bytes} loaded back"
        for k in report.kernels
        if not k.is_in_registers and k.plain_name not in allowed
    ]
    return wrong + [line for line in report.advice if "Potential Performance Loss" in line]


def table(report: Report) -> str:
    """Show the kernels, a line each."""
    titles = ("registers", "shared", "stack", "spill st", "spill ld")
    lines = [f"{'kernel':<48} {'for':<7}" + "".join(f"{title:>10}" for title in titles)]
    for k in sorted(report.kernels, key=lambda k: (k.name, k.architecture)):
        spilled = (k.spill_store_bytes, k.spill_load_bytes)
        numbers = (k.registers, k.shared_bytes, k.stack_bytes, *spilled)
        lines.append(f"{k.name:<48} {k.architecture:<7}" + "".join(f"{n:>10}" for n in numbers))
    return "\n".join([*lines, *report.advice])


if __name__ == "__main__":
    print(table(parse(Path(sys.argv[1]).read_text())))
