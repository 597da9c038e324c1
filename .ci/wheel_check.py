"""What a wheel promises, checked with the interpreter that installed it.

Importing takes under half a second (the best of seven processes, wall clock) and loads neither
torch nor a CUDA library; the wheel has the typing files and, where it was built with a CUDA
compiler, the library.
"""

import subprocess
import sys
import zipfile

IMPORT_LIMIT_S = 0.5
CODE = """
import sys, time
begin = time.perf_counter()
import hyrecall
took = time.perf_counter() - begin
maps = open("/proc/self/maps").read()
assert "torch" not in sys.modules and "libcuda" not in maps and "hyrecall_cuda" not in maps
print(took)
"""


def import_seconds() -> float:
    """Import in a fresh process."""
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    return float(done.stdout)


def main() -> None:
    """Check the wheel that argv names, which is installed here."""
    names = zipfile.ZipFile(sys.argv[1]).namelist()
    for needed in ("hyrecall/py.typed", "hyrecall/_core/__init__.pyi", "hyrecall/data/demo.jsonl"):
        assert needed in names, f"the wheel lacks {needed}"
    assert not [name for name in names if name.endswith((".cpp", ".cu", ".o", ".a"))]
    print("CUDA library:", "in" if "hyrecall/libhyrecall_cuda.so" in names else "not in this wheel")
    best = min(import_seconds() for _ in range(7))
    print(f"import: {best:.3f} s (limit {IMPORT_LIMIT_S})")
    assert best < IMPORT_LIMIT_S
    from hyrecall.runtime import cuda_report

    print("devices:", cuda_report())


if __name__ == "__main__":
    main()
