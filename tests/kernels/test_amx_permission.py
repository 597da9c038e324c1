"""AMX costs each thread 8 KiB for good: the system is asked for it only where AMX is chosen."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

FLAGS = Path("/proc/cpuinfo")
PERMITTED = """
import ctypes, sys
import numpy as np
import pyarrow as pa
import hyrecall as hr

vectors = np.random.default_rng(1).standard_normal((20_000, 64), np.float32)
schema = hr.Schema(key="id", cell=None, vector="v")
table = pa.table({"id": range(len(vectors))})
index = hr.Index.build(table, schema, vectors={"v": vectors}, device="cpu")
index.recall(vectors=vectors[:64])
permitted = ctypes.c_uint64()
ask = ctypes.CDLL(None, use_errno=True).syscall
assert ask(158, 0x1022, ctypes.byref(permitted)) == 0  # arch_prctl(ARCH_GET_XCOMP_PERM)
print(permitted.value >> 18 & 1)  # tile data
"""


def is_permitted(isa: str) -> bool:
    environment = {**os.environ, "HYRECALL_ISA": isa, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", PERMITTED],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout == "1\n"


@pytest.mark.slow
@pytest.mark.skipif(
    platform.machine() != "x86_64" or "amx_tile" not in FLAGS.read_text(),
    reason="amx: not on this CPU",
)
def test_the_system_is_asked_for_amx_only_where_it_is_chosen() -> None:
    assert not is_permitted("avx2")
    assert not is_permitted("avx512vnni")
    assert is_permitted("amx")  # the control
