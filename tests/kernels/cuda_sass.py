"""Which machine instructions each kernel of the CUDA library has, read by cuobjdump."""

import os
import re
import shutil
import subprocess
import sysconfig
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from kernels.cuda_resources import bare, demangle

_CODE = re.compile(r"^\s*code for (sm_\w+)")
_FUNCTION = re.compile(r"^\s*Function : (\S+)")
_INSTRUCTION = re.compile(
    r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9]*)(\.[A-Z][A-Z0-9]*)?"
)
_WITH_MODIFIER = {"ATOMS"}

Code = dict[tuple[str, str], Counter[str]]  # (kernel, architecture) -> operation -> how many


def tool_folders() -> list[Path]:
    """Return the folders where CUDA's tools may lie, beside those of PATH."""
    named = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")]
    packages = Path(sysconfig.get_path("purelib"))
    return [
        *(Path(folder) / "bin" for folder in named if folder),
        Path("/usr/local/cuda/bin"),
        *sorted(packages.glob("nvidia/cu*/bin")),  # nvidia-cuda-cuobjdump, nvidia-cuda-nvdisasm
        packages / "triton" / "backends" / "nvidia" / "bin",
    ]


def find_tools() -> Path | None:
    """Find cuobjdump where it can find nvdisasm; None where either is missing."""
    path = os.pathsep.join([os.environ.get("PATH", ""), *map(str, tool_folders())])
    cuobjdump, nvdisasm = (shutil.which(name, path=path) for name in ("cuobjdump", "nvdisasm"))
    return Path(cuobjdump) if cuobjdump and nvdisasm else None


def run(cuobjdump: Path, *arguments: str) -> str:
    """Return what cuobjdump prints."""
    path = os.pathsep.join([os.environ.get("PATH", ""), *map(str, tool_folders())])
    command = [str(cuobjdump), *arguments]
    env = os.environ | {"PATH": path}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout


def contents(cuobjdump: Path, library: Path) -> set[str]:
    """List what the library holds: ``sm_90a`` for machine code, ``sm_80.ptx`` for PTX."""
    listed = run(cuobjdump, "-lelf", "-lptx", str(library))
    code = set(re.findall(r"\.(sm_\w+)\.cubin", listed))
    return code | set(re.findall(r"\.(sm_\w+\.ptx)", listed))


def disassemble(cuobjdump: Path, library: Path) -> Code:
    """Count each kernel's instructions."""
    return parse(run(cuobjdump, "-sass", str(library)).splitlines())


def parse(lines: Iterable[str]) -> Code:
    """Count the instructions in what ``cuobjdump -sass`` printed, atomics with what they do."""
    found: dict[tuple[str, str], Counter[str]] = {}
    architecture, counts = "", Counter[str]()
    for line in lines:
        if instruction := _INSTRUCTION.match(line):
            operation, modifier = instruction[1], instruction[2] or ""
            counts[operation + modifier if operation in _WITH_MODIFIER else operation] += 1
        elif function := _FUNCTION.match(line):
            counts = found.setdefault((function[1], architecture), Counter())
        elif code := _CODE.match(line):
            architecture = code[1]
    names = demangle([mangled for mangled, _ in found])
    return {
        (bare(name), architecture): counts
        for name, ((_, architecture), counts) in zip(names, found.items(), strict=True)
    }
