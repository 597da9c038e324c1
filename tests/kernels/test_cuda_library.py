"""The CUDA library as a file: one door, and nothing of CUDA that the user must have."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from hyrecall import _core
from kernels.cuda_build import library_or_skip

# The driver is looked up when a device is first asked for; all else of CUDA is inside.
SYSTEM = r"(libstdc\+\+|libgcc_s|libc|libm|libdl|libpthread|librt|ld-linux-x86-64)\.so\.\d+"


def output(tool: str, *arguments: str) -> str:
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    return subprocess.run([tool, *arguments], capture_output=True, text=True, check=True).stdout


def exported(library: Path) -> set[str]:
    listed = output("nm", "-D", "--defined-only", str(library))
    return {line.split()[-1] for line in listed.splitlines()}


def needed(library: Path) -> list[str]:
    return re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", str(library)))


def test_one_function_is_exported() -> None:
    assert exported(library_or_skip()) == {"hyrecall_cuda_api"}
    assert "PyInit__core" in exported(Path(_core.__file__))  # it lists what another one has


def test_only_the_systems_libraries_are_linked() -> None:
    linked = needed(library_or_skip())
    assert any(name.startswith("libc.so") for name in linked)
    assert [name for name in linked if not re.fullmatch(SYSTEM, name)] == []


@pytest.mark.parametrize("name", ["libcuda.so.1", "libcudart.so.13", "libcublas.so.13"])
def test_a_library_of_cuda_is_none_of_the_systems(name: str) -> None:
    assert not re.fullmatch(SYSTEM, name)
