"""The CUDA library's machine code, where cuobjdump and nvdisasm are at hand."""

import re
from pathlib import Path

import pytest

from kernels.cuda_build import library_or_skip
from kernels.cuda_sass import Code, contents, disassemble, find_tools, parse
from kernels.test_cuda_resources import ALLOWED, ATTRIBUTE

ON_TENSOR_CORES = ("scan_rows_sm90", "scan_wide_sm90")
LOCAL = {"LDL", "STL"}
INSTRUCTION = 16  # bytes
MOST_CODE = 64 * 1024
TENSOR = {"HGMMA", "IGMMA"}

PLANTED = """
	code for sm_90a
		Function : _Z14scan_rows_sm90Pf
        /*0000*/                   LDC R1, c[0x0][0x28] ;    /* 0x00000a00ff017b82 */
                                                             /* 0x000fe20000000800 */
        /*0010*/              @!P0 STL.128 [R1], R4 ;        /* 0x0000000401007387 */
        /*0020*/              @UP1 UMOV UR4, URZ ;           /* 0x0000003f00047c82 */
        /*0030*/                   HGMMA.64x8x16.F32 R24, gdesc[UR4], RZ ;  /* 0x00000000041879f0 */
        /*0040*/               @P0 ATOMS.CAST.SPIN R2, [R0], R2, R3 ;  /* 0x0000000200027389 */
"""


@pytest.fixture(scope="module")
def tools() -> Path:
    found = find_tools()
    if found is None:
        pytest.skip("cuobjdump and nvdisasm: not both at hand")
    return found


@pytest.fixture(scope="module")
def code(tools: Path) -> Code:
    return disassemble(tools, library_or_skip())


def test_the_library_holds_code_for_both_architectures_and_portable_ptx(tools: Path) -> None:
    assert contents(tools, library_or_skip()) == {"sm_80", "sm_90a", "sm_80.ptx"}


def test_no_kernel_reads_or_writes_local_memory(code: Code) -> None:
    local = {name.partition("<")[0] for (name, _), counts in code.items() if LOCAL & set(counts)}
    assert local == set(ALLOWED)  # which shows as well that such instructions are seen


def test_no_kernel_outgrows_the_cache_of_instructions(code: Code) -> None:
    sizes = {kernel: INSTRUCTION * sum(counts.values()) for kernel, counts in code.items()}
    large = {name for (name, _), size in sizes.items() if size > MOST_CODE}
    assert large == set(ALLOWED)  # which shows as well that sizes are seen


def test_hopper_kernels_run_on_its_tensor_cores(code: Code) -> None:
    named = {k: v for k, v in code.items() if k[0].startswith(ON_TENSOR_CORES) and k[1] == "sm_90a"}
    if not named:
        pytest.skip(f"no kernel of this library is called {ON_TENSOR_CORES}...")
    assert [name for (name, _), counts in named.items() if not TENSOR & set(counts)] == []


def test_sums_of_texts_need_no_compare_and_swap(code: Code) -> None:
    scans = {key: counts for key, counts in code.items() if key[0] == "scan_postings"}
    assert {architecture for _, architecture in scans} == {"sm_80", "sm_90a"}
    for counts in scans.values():
        atomics = {operation for operation in counts if operation.startswith("ATOMS")}
        assert atomics <= {"ATOMS.ADD", "ATOMS.POPC", "ATOMS.MIN", "ATOMS.MAX"}
        assert counts["LDS"] > 0
        assert counts["STS"] > 0


def test_kernels_of_a_sequence_wait_for_those_before_them(code: Code) -> None:
    """They are placed while the one before still runs (``begin_behind`` of primitives.cuh)."""
    sources = Path(__file__).parents[2] / "csrc/kernels/cuda"
    begun = set()
    for source in sorted(sources.glob("*.cu*")):
        code_of = re.sub(r"//.*", "", source.read_text())
        for declaration, first in re.findall(r"__global__\b([^;{]*)\{\s*(\w+)", code_of):
            called = re.search(r"(\w+)\s*\(", ATTRIBUTE.sub("", declaration))
            if called is not None and first == "begin_behind":
                begun.add(called[1])
    waiting = {key for key, counts in code.items() if "ACQBULK" in counts}
    assert {name.partition("<")[0] for name, _ in waiting} == begun
    assert {architecture for _, architecture in waiting} == {"sm_90a"}
    assert len(begun) == 16
    for key in waiting:
        assert (code[key]["PREEXIT"], code[key]["ACQBULK"]) == (1, 1)


def test_the_listing_is_read_line_by_line() -> None:
    ((kernel, counts),) = parse(PLANTED.splitlines()).items()
    assert kernel == ("scan_rows_sm90", "sm_90a")
    assert counts == {"LDC": 1, "STL": 1, "UMOV": 1, "HGMMA": 1, "ATOMS.CAST": 1}
