"""A disk that is full while shards are built: an error of the system; the build goes on later."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hyrecall as hr
from hyrecall.distributed import build_shards

SCRIPT = """
import errno, resource, signal, sys
import hyrecall as hr
from hyrecall.distributed import build_shards
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
schema = hr.Schema(key="id", cell="user", text="text")
try:
    build_shards(sys.argv[1], schema, sys.argv[2], shards=2)
except OSError as fault:
    assert fault.errno == errno.EFBIG, fault
    print("refused")
"""


@pytest.mark.slow
def test_a_worker_without_room_and_a_build_that_goes_on(tmp_path: Path) -> None:
    n, chance = 3000, random.Random(0)
    words = [f"w{at}" for at in range(500)]
    rows = {"id": list(range(n)), "user": [f"u{at % 9}" for at in range(n)]}
    texts = [" ".join(chance.choices(words, k=20)) for _ in range(n)]
    pq.write_table(pa.table({**rows, "text": texts}), tmp_path / "rows.parquet")
    given = [str(tmp_path / "rows.parquet"), str(tmp_path / "out")]
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, *given], capture_output=True, text=True, check=False
    )
    assert run.stdout.strip() == "refused", run.stderr
    schema = hr.Schema(key="id", cell="user", text="text")
    assert build_shards(*given[:1], schema, given[1], shards=2, resume=True).rows == n
