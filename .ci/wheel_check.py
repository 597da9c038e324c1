"""What a wheel promises, checked with the interpreter that installed it.

Importing takes at most four times the processor time that importing numpy takes (each the best of
five processes, in turns) and loads neither torch nor a CUDA library nor the HTTP client; the wheel
has the typing files and, where it was built with a CUDA compiler, the library; a store keeps what
it is given.
"""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

MOST_TIMES_NUMPY = 4
NUMPY = """
import time
begin = time.process_time()
import numpy
print(time.process_time() - begin)
"""
HYRECALL = """
import sys, time
begin = time.process_time()
import hyrecall
hyrecall.Index
took = time.process_time() - begin
maps = open("/proc/self/maps").read()
assert "torch" not in sys.modules and "libcuda" not in maps and "hyrecall_cuda" not in maps
assert "httpcore2" not in sys.modules
print(took)
"""


def import_seconds(code: str) -> float:
    """Import in a fresh process."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def main() -> None:
    """Check the wheel that argv names, which is installed here."""
    names = zipfile.ZipFile(sys.argv[1]).namelist()
    for needed in ("hyrecall/py.typed", "hyrecall/_core/__init__.pyi", "hyrecall/data/demo.jsonl"):
        assert needed in names, f"the wheel lacks {needed}"
    page = Path(__file__).parents[1] / "python" / "hyrecall" / "serve" / "page"
    shown = [path.name for path in page.iterdir() if path.is_file()]
    assert "index.html" in shown
    for name in shown:
        assert f"hyrecall/serve/page/{name}" in names, f"the wheel lacks {name} of the page"
    assert not [name for name in names if name.endswith((".cpp", ".cu", ".o", ".a"))]
    print("CUDA library:", "in" if "hyrecall/libhyrecall_cuda.so" in names else "not in this wheel")
    turns = [(import_seconds(NUMPY), import_seconds(HYRECALL)) for _ in range(5)]
    numpy, hyrecall = (min(seconds) for seconds in zip(*turns, strict=True))
    print(f"import: {hyrecall:.3f} s, numpy's {numpy:.3f} (limit: {MOST_TIMES_NUMPY} times)")
    assert hyrecall < MOST_TIMES_NUMPY * numpy
    from hyrecall.base.runtime import cuda_report
    from hyrecall.embed import HttpEmbedder
    from hyrecall.memory import MemorySync

    print("devices:", cuda_report())
    print("embedder:", HttpEmbedder("https://host/v1"))
    with tempfile.TemporaryDirectory() as folder:
        with MemorySync.open(Path(folder, "a.mem"), embedder=None) as memory:
            memory.remember("tea at four", user_id="ann")
        with MemorySync.open(Path(folder, "a.mem"), embedder=None) as memory:
            (match,) = memory.search("tea", user_id="ann")
    print("store: kept and found again", repr(match.episode.output))


if __name__ == "__main__":
    main()
