"""Hopper's scans test scores within a budget of stalls, by their machine code."""

import shutil
import subprocess
from pathlib import Path

import pytest

from kernels.cuda_build import ROOT, library_or_skip
from kernels.cuda_sass import Code, disassemble, find_tools
from kernels.cuda_stalls import Cost, Step, cost, costs, parse

MOST_STALLS = {"Int8": 1300, "Bfloat16": 900}  # of 128 scores
BFLOAT16 = {("Bfloat16", 32), ("Bfloat16", 128)}
WIDE = (128, 256)  # narrower scans wait for memory, whatever the test takes
CHAIN = "any[m] = any[m] || may_reach("

PLANTED = """
	code for sm_90a
		Function : _Z14scan_rows_sm90Pf
        /*0000*/                   WARPGROUP.DEPBAR.LE gsb0, 0x0 ;  /* 0x00008000000079c5 */
                                                                    /* 0x000fe20000000800 */
        /*0010*/                   FSETP.GE.AND P0, PT, R1, R2, PT ;  /* 0x000000020100720b */
                                                                      /* 0x000fca0003f06000 */
        /*0020*/               @P0 BRA 0x50 ;                       /* 0x0000000000080947 */
                                                                    /* 0x000fea0003800000 */
        /*0030*/                   LDG.E R1, desc[UR4][R2.64] ;     /* 0x0000000402017981 */
                                                                    /* 0x000fe2000c1e1900 */
        /*0040*/                   BRA 0x60 ;                       /* 0x0000000000040947 */
                                                                    /* 0x000fea0003800000 */
        /*0050*/                   LDS.128 R4, [R2] ;               /* 0x0000000002047984 */
                                                                    /* 0x000fe80000000c00 */
        /*0060*/                   FSETP.GE.AND P0, PT, R1, R2, PT ;  /* 0x000000020100720b */
                                                                      /* 0x000fe20003f06000 */
"""


@pytest.fixture(scope="module")
def tool() -> Path:
    found = find_tools()
    if found is None:
        pytest.skip("cuobjdump and nvdisasm: not both at hand")
    return found


def test_a_scan_tests_its_scores_within_its_budget(tool: Path) -> None:
    found = costs(tool, library_or_skip())
    assert set(found) == {("Int8", 32), ("Int8", 128), ("Int8", 256), *BFLOAT16}
    slow = {
        scan: one.stalls_per_128
        for scan, one in found.items()
        if scan[1] in WIDE and one.stalls_per_128 > MOST_STALLS[scan[0]]
    }
    assert slow == {}


def test_nothing_is_read_from_memory_between_products_and_scores(tool: Path) -> None:
    found = costs(tool, library_or_skip())
    assert {scan for scan, one in found.items() if one.n_loads} == set()


def test_a_chunk_of_128_bytes_is_four_products(tool: Path) -> None:
    code: Code = disassemble(tool, library_or_skip())
    products = {name: counts for (name, _), counts in code.items() if "_sm90<" in name}
    assert len(products) == 7  # two of 32 queries a plane, of what is read first and of the rest
    for name, counts in products.items():
        tensor = "IGMMA" if "Int8" in name else "HGMMA"
        assert (name, counts[tensor]) == (name, 4)


@pytest.mark.slow
def test_a_test_of_scores_that_is_a_chain_is_found(tool: Path, tmp_path: Path) -> None:
    if shutil.which("nvcc") is None:
        pytest.skip("nvcc is not at hand")
    within = Path("kernels") / "cuda"
    text = (ROOT / "csrc" / within / "candidates.cuh").read_text()
    assert text.count("any[m] |= may_reach(") == 1
    (tmp_path / within).mkdir(parents=True)
    wrong = text.replace("any[m] |= may_reach(", CHAIN)
    (tmp_path / within / "candidates.cuh").write_text(wrong)
    made = tmp_path / "scan.cubin"
    source = ROOT / "csrc" / within / "scan_sm90_int8.cu"
    flags = ["-O3", "-std=c++20", "-arch=sm_90a", "-fmad=false", "--expt-relaxed-constexpr"]
    folders = [f"-I{tmp_path}", f"-I{ROOT / 'csrc'}"]
    subprocess.run(["nvcc", "-cubin", *flags, *folders, str(source), "-o", str(made)], check=True)
    assert costs(tool, made)["Int8", 256].stalls_per_128 > MOST_STALLS["Int8"]


def test_control_codes_and_branches_are_read() -> None:
    ((name, steps),) = parse(PLANTED.splitlines()).items()
    assert name == "scan_rows_sm90"
    assert steps[1] == Step(0x10, "FSETP.GE.AND P0, PT, R1, R2, PT", 5)
    assert [step.stall for step in steps] == [1, 5, 5, 1, 5, 4, 1]
    # Past the test that stalls for 5, and the shorter of the two ways: 1 + 5 + 5 + 4 + 1.
    assert cost(steps, 2) == Cost(n_scores=2, n_instructions=5, stalls=16, n_loads=0)
    with pytest.raises(ValueError, match="expected a way past 3 tests"):
        cost(steps, 3)
