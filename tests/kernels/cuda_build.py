"""Where the CUDA library and its compiler's report lie, for the tests that look into both.

``HYRECALL_CUDA_BUILD`` names a build folder; both must be there then. Without it the newest report
under ``build/`` counts if no CUDA source is newer, and the library beside it or the installed one.
"""

import os
from pathlib import Path

import pytest

from seams import cuda_library_folder

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "csrc" / "kernels" / "cuda"
REPORT = "cuda_resources.txt"
LIBRARY = "libhyrecall_cuda.so"


def report_or_skip() -> Path:
    """Return the compiler's report of the sources as they are."""
    if folder := os.environ.get("HYRECALL_CUDA_BUILD"):
        return Path(folder) / REPORT
    found = _newest_report()
    if found is None:
        pytest.skip(f"{REPORT}: no build folder has one (cmake --preset cuda)")
    newer = [p for p in SOURCES.iterdir() if p.stat().st_mtime > found.stat().st_mtime]
    if newer:
        pytest.skip(f"{REPORT}: {newer[0].name} was changed after it was written")
    return found


def library_or_skip() -> Path:
    """Return libhyrecall_cuda.so as nvcc made it."""
    if folder := os.environ.get("HYRECALL_CUDA_BUILD"):
        return Path(folder) / LIBRARY
    if os.environ.get("HYRECALL_EMULATED") == cuda_library_folder():
        pytest.skip(f"{LIBRARY}: this is the emulated one, which holds no machine code of a GPU")
    report = _newest_report()
    for folder in ([report.parent] if report else []) + [Path(cuda_library_folder())]:
        if (folder / LIBRARY).is_file():
            return folder / LIBRARY
    pytest.skip(f"{LIBRARY}: this build has none")


def _newest_report() -> Path | None:
    return max((ROOT / "build").glob(f"*/{REPORT}"), key=lambda p: p.stat().st_mtime, default=None)
