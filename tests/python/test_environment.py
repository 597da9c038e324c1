"""Variables of the environment that steer native code: their values, and threads that set them."""

import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from laws.effort import Effort

SCHEMA = hr.Schema(key="id", vector="v", cell=None)
VALUES = {
    "HYRECALL_FRONT_PLANE": ("float", "head8, head4, int8 or rows"),
    "HYRECALL_CUDA_KERNELS": ("hopper", "generic"),
    "HYRECALL_DENSE_TUNING": ("64,1", "capacity >= 1, seed tiles >= 1 and a stride of 2 to 4096"),
    "HYRECALL_CUDA_TIMES": ("yes", "0 or 1"),
    "HYRECALL_AUTO_POSTINGS": ("-1", "an integer of at least 0"),
}


def given() -> dict[str, Any]:
    return {"table": pa.table({"id": [1, 2]}), "vectors": {"v": np.eye(2, dtype=np.float32)}}


@pytest.mark.parametrize("name", VALUES)
def test_an_unknown_value_is_refused_by_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    value, expected = VALUES[name]
    index = hr.Index.build(given()["table"], SCHEMA, vectors=given()["vectors"], device="cpu")
    monkeypatch.setenv(name, value)
    with pytest.raises(hr.OptionError, match=rf"^{name}: expected {expected}.*, got {value}$"):
        index.recall(vectors=np.ones((1, 2), np.float32))
    with pytest.raises(hr.OptionError, match=rf"^{name}: expected {expected}.*, got {value}$"):
        hr.Index.build(given()["table"], SCHEMA, vectors=given()["vectors"], device="cpu")
    monkeypatch.setenv(name, "")  # as if it were not set
    assert index.recall(vectors=np.ones((1, 2), np.float32))[0][0].key == 1


@pytest.mark.parametrize("value", ["1,1,2", "64,1,32"])
def test_a_tuning_is_taken(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    index = hr.Index.build(given()["table"], SCHEMA, vectors=given()["vectors"], device="cpu")
    monkeypatch.setenv("HYRECALL_DENSE_TUNING", value)
    assert index.recall(vectors=np.ones((1, 2), np.float32))[0][0].key == 1


@pytest.mark.parametrize(
    "value",
    ["0,1,2", "64,0,2", "64,1,1", "64,1,4097", "-1,1,2", "64,1,2,", "64, 1,2", "4294967296,1,2"],
)
def test_a_tuning_out_of_range_is_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    index = hr.Index.build(given()["table"], SCHEMA, vectors=given()["vectors"], device="cpu")
    monkeypatch.setenv("HYRECALL_DENSE_TUNING", value)
    with pytest.raises(hr.OptionError, match=rf"HYRECALL_DENSE_TUNING: .*, got {value}$"):
        index.recall(vectors=np.ones((1, 2), np.float32))


# Sixty-four groups of queries beside a thread that sets and deletes variables. Growing the
# environment moves it, and what an unguarded getenv() reads is then freed memory.
RECALLS_BESIDE_WRITES = """
import os, sys, threading, time
import numpy as np, pyarrow as pa
import hyrecall as hr

end = time.monotonic() + float(sys.argv[1])
rng = np.random.default_rng(1)
users = [f"u{i % 64}" for i in range(2048)]
index = hr.Index.build(
    pa.table({"id": range(2048), "user": users}),
    hr.Schema(key="id", cell="user", vector="v"),
    vectors={"v": rng.standard_normal((2048, 8), np.float32)},
    threads=2,
    device="cpu",
)
asked = {"vectors": rng.standard_normal((256, 8), np.float32), "scope": users[:256], "limit": 3}
expected = index.recall(**asked).to_arrow()

def write():
    while time.monotonic() < end:
        names = [f"A_VARIABLE_{i}" for i in range(2000)]
        for name in names:
            os.environ[name] = "x"
        for name in names:
            del os.environ[name]

sys.setswitchinterval(1e-5)
writer = threading.Thread(target=write)
writer.start()
n_calls = 0
while n_calls < 3 or time.monotonic() < end:
    assert index.recall(**asked).to_arrow().equals(expected)
    n_calls += 1
writer.join()
print(n_calls)
"""


@pytest.mark.slow
def test_dense_recalls_run_beside_a_thread_that_writes_the_environment(effort: Effort) -> None:
    seconds = effort.cases(quick=1, full=600)
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", RECALLS_BESIDE_WRITES, str(seconds)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 3
