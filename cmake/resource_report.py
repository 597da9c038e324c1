"""Keep what ptxas says of every kernel: registers, shared memory, stack frame, spills, advice.

As a compiler launcher (CUDA_COMPILER_LAUNCHER in cmake/cuda.cmake) it runs the compiler, puts the
lines of ``ptxas -v`` into a file beside the object and passes everything else on: a file for each
object, so that any number of compilers may run at once. After linking, ``--join`` makes one report.

    resource_report.py COMPILER ARGUMENT...      run the compiler
    resource_report.py --join REPORT OBJECT...   write the objects' reports into one file
"""

import subprocess
import sys
from pathlib import Path


def beside(object_file: str) -> Path:
    """Name the report of an object file."""
    return Path(object_file + ".resources")


def sort_lines(text: str) -> tuple[list[str], list[str]]:
    """Tell ptxas's lines, and the indented ones that go on with them, from the others."""
    told: list[str] = []
    others: list[str] = []
    is_report = False
    for line in text.splitlines(keepends=True):
        is_report = line.startswith("ptxas info") or (is_report and line.startswith("    "))
        (told if is_report else others).append(line)
    return told, others


def run(command: list[str]) -> int:
    """Run the compiler, keep its report, and give its exit code."""
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, errors="replace", check=False)
    told, others = sort_lines(done.stderr)
    sys.stderr.write("".join(others))
    if done.returncode == 0 and "-o" in command[:-1]:
        beside(command[command.index("-o") + 1]).write_text("".join(told))
    return done.returncode


def join(report: str, objects: list[str]) -> None:
    """Write the objects' reports one after the other, each under the object's name."""
    parts = [f"# {name.rsplit('.dir/')[-1]}\n{beside(name).read_text()}" for name in objects]
    Path(report).write_text("".join(parts))


if __name__ == "__main__":
    if sys.argv[1] == "--join":
        join(sys.argv[2], sys.argv[3:])
    else:
        sys.exit(run(sys.argv[1:]))
