"""Which instruction sets can be compared on this machine."""

from pathlib import Path


def instruction_sets() -> list[str]:
    """Those that this machine has, by the names that HYRECALL_ISA takes."""
    cpu = Path("/proc/cpuinfo")
    flags = set(cpu.read_text().split()) if cpu.exists() else set()
    found = ["scalar"]
    if {"avx2", "fma"} <= flags:
        found.append("avx2")
    if {"avx512f", "avx512bw", "avx512vl", "avx512dq"} <= flags:
        found.append("avx512")
        if "avx512_vnni" in flags:
            found.append("avx512vnni")
        if {"avx512_vnni", "amx_tile", "amx_int8"} <= flags:
            found.append("amx")
    return found
