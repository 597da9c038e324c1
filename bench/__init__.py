"""Benchmarks: hyrecall beside its rivals and beside the machine's limits, in one run.

The environment is set here because BLAS reads it once, when numpy is imported.
"""

import os
from pathlib import Path

THREADS = int(os.environ.get("HYRECALL_BENCH_THREADS", "2"))
"""Both sides get this many threads, unless a row says otherwise."""


def _has_avx512() -> bool:
    try:
        return " avx512f " in Path("/proc/cpuinfo").read_text()
    except OSError:
        return False


# No rival may lose by its BLAS: some images name an older core, or a cache that is not there.
if _has_avx512():
    os.environ["OPENBLAS_CORETYPE"] = "SkylakeX"
os.environ.pop("OPENBLAS_L2_SIZE", None)
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_name] = str(THREADS)
