"""What the CUDA compiler says of the kernels: nothing of them lies in local memory."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kernels.cuda_build import ROOT, SOURCES, report_or_skip
from kernels.cuda_resources import DEMANGLERS, Kernel, Report, bare, faults, parse, table

# Every kernel stays in registers but these, each with its reason.
ALLOWED: dict[str, str] = {
    "evaluate_formula": "golden tables only; a document's contributions lie in an array",
}
ATTRIBUTE = re.compile(r"__\w+__\s*\((?:[^()]|\([^()]*\))*\)")  # __launch_bounds__(...)
ARCHITECTURES = ("sm_80", "sm_90a")

SCAN = "_ZN1a36_GLOBAL__N__89b8bf71_4_t_cu_2d77642b9scan_rowsILi8EEEvPKfPfi"
ADVICE = "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async is serialized\n"
PLANTED = f"""\
# csrc/kernels/cuda/planted.cu.o
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '{SCAN}' for 'sm_80'
ptxas info    : Function properties for {SCAN}
    {{stack}} bytes stack frame, {{stores}} bytes spill stores, {{loads}} bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, {{total}}512 bytes smem, 372 bytes cmem[0]
ptxas info    : Compile time = 12.603 ms
ptxas info    : Function properties for _ZN1a6helperEPf
    {{called}} bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
"""


def planted(
    *, stack: int = 0, stores: int = 0, loads: int = 0, total: int = 0, called: int = 0
) -> str:
    """Report a kernel that calls a function, with so many bytes in local memory."""
    cumulative = f"{total} bytes cumulative stack size, " if total else ""
    return PLANTED.format(stack=stack, stores=stores, loads=loads, total=cumulative, called=called)


@pytest.fixture(scope="module", autouse=True)
def _demangler() -> None:
    if not any(map(shutil.which, DEMANGLERS)):
        pytest.skip(f"{' and '.join(DEMANGLERS)} are not installed")


@pytest.fixture(scope="module")
def report() -> Report:
    return parse(report_or_skip().read_text())


def kernels_in_sources() -> set[str]:
    """Return every function that the sources mark __global__."""
    found = set()
    for path in SOURCES.glob("*.cu*"):
        code = re.sub(r"//.*", "", path.read_text())
        for declaration in re.findall(r"__global__\b([^;{]*)", code):
            called = re.search(r"(\w+)(?:<[\w:]+>)?\s*\(", ATTRIBUTE.sub("", declaration))
            assert called is not None, declaration
            found.add(called[1])
    return found


def test_every_kernel_has_a_line_that_says_what_a_device_showed_of_it() -> None:
    page = (ROOT / "docs/kernels/shown.md").read_text()
    lines = page.partition("## Each kernel")[2].partition("\n## ")[0].splitlines()
    rows = [line.split("|")[1:-1] for line in lines if line.startswith("| `")]
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row[0])]
    assert sorted(named) == sorted(kernels_in_sources())
    assert all(cell.strip() for row in rows for cell in row)


def test_every_kernel_is_in_the_report_for_each_architecture(report: Report) -> None:
    compiled = {(k.plain_name, k.architecture) for k in report.kernels}
    wanted = kernels_in_sources()
    assert {"measure_rows", "scan_rows"} <= wanted
    assert compiled == {
        (name, of)
        for name in wanted
        for of in ARCHITECTURES
        if of == "sm_90a" or not name.endswith("_sm90")  # Hopper's own have no other code
    }


def test_the_scans_share_a_multiprocessor_as_they_are_made_to(report: Report) -> None:
    registers = {k.plain_name: k.registers for k in report.kernels if k.architecture == "sm_90a"}
    # 65,536 / (2 CTAs x 9 warps, spread over 4 parts of a multiprocessor), in eights; and of 12
    # warps, before they are shared out anew.
    assert registers["scan_rows_sm90"] <= 96
    assert registers["scan_wide_sm90"] <= 168


def test_no_kernel_keeps_anything_in_local_memory(report: Report) -> None:
    print(table(report))
    assert faults(report, ALLOWED) == []


def test_the_scan_of_texts_fits_six_times_on_a_multiprocessor(report: Report) -> None:
    scans = [k for k in report.kernels if k.plain_name == "scan_postings"]
    assert len(scans) == len(ARCHITECTURES)
    assert all(k.registers <= 80 for k in scans)  # 65,536 / (6 CTAs x 128 threads), in eights


def test_every_exception_is_still_one(report: Report) -> None:
    assert set(ALLOWED) <= {k.plain_name for k in report.kernels if not k.is_in_registers}


def test_a_kernel_is_read_whole() -> None:
    (kernel,) = parse(planted(stack=288, stores=8, loads=12)).kernels
    assert kernel == Kernel("scan_rows<8>", "sm_80", 40, 288, 8, 12, 512)
    assert "scan_rows<8>" in table(parse(planted()))


@pytest.mark.parametrize(
    "planted_fault",
    [{"stores": 8}, {"loads": 12}, {"stack": 288}, {"total": 416}, {"called": 16}],
    ids=str,
)
def test_local_memory_of_a_kernel_is_found(planted_fault: dict[str, int]) -> None:
    assert faults(parse(planted()), {}) == []
    (fault,) = faults(parse(planted(**planted_fault)), {})
    assert fault.startswith("scan_rows<8> on sm_80: ")
    assert faults(parse(planted(**planted_fault)), {"scan_rows": "a reason"}) == []


def test_advice_about_lost_speed_is_found() -> None:
    (fault,) = faults(parse(ADVICE + planted()), {"scan_rows": "a reason does not cover it"})
    assert "wgmma.mma_async is serialized" in fault


def test_a_line_that_is_not_understood_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a line of ptxas -v, got 'a new form'"):
        parse(planted() + "a new form\n")


@pytest.mark.parametrize(
    ("demangled", "name"),
    [
        ("hyrecall::cuda::(anonymous namespace)::dot_rows(float const*, long)", "dot_rows"),
        (
            "void a::scan<8, (a::Op)3, a::Tile<int> >(a::Tile<int>)",
            "scan<8, (a::Op)3, a::Tile<int> >",
        ),
        ("kernel", "kernel"),
    ],
)
def test_a_kernel_goes_by_its_bare_name(demangled: str, name: str) -> None:
    assert bare(demangled) == name


# ---- the launcher that keeps the report ----

COMPILER = """\
import pathlib, sys
sys.stderr.write(pathlib.Path(sys.argv[1]).read_text())
pathlib.Path(sys.argv[3]).touch()
sys.exit(int(sys.argv[4]))
"""


def launch(tmp_path: Path, told: str, name: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a stand-in for nvcc, which says ``told``, by the launcher."""
    (tmp_path / "compiler.py").write_text(COMPILER)
    (tmp_path / "told").write_text(told)
    compiler = [sys.executable, "compiler.py", "told", "-o", name, str(code)]
    launcher = [sys.executable, str(ROOT / "cmake" / "resource_report.py")]
    return subprocess.run(
        [*launcher, *compiler], cwd=tmp_path, capture_output=True, text=True, check=False
    )


def test_the_launcher_keeps_the_report_and_passes_on_the_rest(tmp_path: Path) -> None:
    told = ADVICE + planted(stack=8).split("\n", 1)[1]
    (tmp_path / "x.dir").mkdir()
    for name in ("x.dir/one.o", "x.dir/two.o"):
        done = launch(tmp_path, f"one.cu(3): warning\n    shown\n{told}a last word\n", name)
        assert (done.returncode, done.stdout) == (0, "")
        assert done.stderr == "one.cu(3): warning\n    shown\na last word\n"
    launcher = [sys.executable, str(ROOT / "cmake" / "resource_report.py")]
    objects = ["x.dir/one.o", "x.dir/two.o"]
    subprocess.run([*launcher, "--join", "report", *objects], cwd=tmp_path, check=True)
    joined = (tmp_path / "report").read_text()
    assert joined == f"# one.o\n{told}# two.o\n{told}"
    assert len(parse(joined).kernels) == 2


def test_the_launcher_fails_as_the_compiler_does(tmp_path: Path) -> None:
    done = launch(tmp_path, "one.cu(3): error\n", "one.o", code=3)
    assert (done.returncode, done.stderr) == (3, "one.cu(3): error\n")
    assert not (tmp_path / "one.o.resources").exists()
