"""The instruction sets that kernels are compiled for, and which of them this CPU has."""

import platform
from pathlib import Path

import pytest

# Of this processor, from the plainest to the best, by the names that HYRECALL_ISA takes.
NEEDED_FLAGS = {"scalar": set[str]()}
if platform.machine() == "aarch64":
    NEEDED_FLAGS["neon"] = {"asimd"}
    NEEDED_FLAGS["neondot"] = {"asimd", "asimddp"}
else:
    NEEDED_FLAGS["avx2"] = {"avx2", "fma", "f16c"}
    NEEDED_FLAGS["avx512"] = NEEDED_FLAGS["avx2"] | {"avx512f", "avx512bw", "avx512vl", "avx512dq"}
    NEEDED_FLAGS["avx512vnni"] = NEEDED_FLAGS["avx512"] | {"avx512_vnni"}
    NEEDED_FLAGS["amx"] = NEEDED_FLAGS["avx512vnni"] | {"amx_tile", "amx_int8"}


def cpu_flags() -> set[str]:
    """Return what the system says of this CPU: not what hyrecall says."""
    cpu = Path("/proc/cpuinfo")
    for line in cpu.read_text().splitlines() if cpu.exists() else ():
        if line.startswith(("flags", "Features")):
            return set(line.split(":")[1].split())
    return set()


def instruction_sets() -> list[str]:
    """Return those that this CPU has, the best last."""
    flags = cpu_flags()
    return [isa for isa, needed in NEEDED_FLAGS.items() if needed <= flags]


def skip_without(isa: str) -> None:
    """Skip a test by name if this CPU lacks the instruction set."""
    if missing := NEEDED_FLAGS[isa] - cpu_flags():
        pytest.skip(f"{isa}: this CPU lacks {', '.join(sorted(missing))}")
