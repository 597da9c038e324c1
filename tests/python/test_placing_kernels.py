"""HYRECALL_CUDA_KERNELS leaves out scanning kernels by name, and any one of them alone suffices."""

import ml_dtypes
import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall import _core
from seams import cuda_library_folder, ordinal_of

VARIABLE = "HYRECALL_CUDA_KERNELS"
N_ROWS, DIM = 130, 70  # a tile and a little, in two chunks of 16-bit rows


def scans(device: str) -> list[str]:
    return _core.device.scans(cuda_library_folder(), ordinal_of(device))


def reply(device: str, dtype: str, n_queries: int) -> pa.Table:
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((N_ROWS, DIM)).astype(getattr(ml_dtypes, dtype, dtype))
    queries = rng.standard_normal((n_queries, DIM)).astype(np.float32)
    schema = hr.Schema(key="id", cell=None, vector="v")
    table = pa.table({"id": np.arange(N_ROWS)})
    with hr.Index.build(table, schema, vectors={"v": rows}, device=device) as index:
        return index.recall(vectors=queries, limit=5).to_arrow()


def test_a_kernel_that_is_named_is_left_out(cuda: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    found = scans(cuda)
    assert {"int8:32:generic", "bfloat16:32:generic"} <= set(found)
    monkeypatch.setenv(VARIABLE, "-bfloat16:32:generic")
    assert set(found) - set(scans(cuda)) == {"bfloat16:32:generic"}


def test_any_kernel_alone_gives_the_cpus_bits(cuda: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    found = scans(cuda)
    monkeypatch.setenv("HYRECALL_FRONT_PLANE", "rows")
    for name in found:
        plane, width, _ = name.split(":")
        if int(width) > 64:
            continue  # as long again, and the laws take them
        dtype = "float32" if plane == "int8" else plane
        monkeypatch.delenv(VARIABLE, raising=False)
        expected = reply("cpu", dtype, int(width) + 1)
        monkeypatch.setenv(VARIABLE, ",".join(f"-{other}" for other in found if other != name))
        assert reply(cuda, dtype, int(width) + 1).equals(expected), name


def test_rows_are_read_where_no_kernel_for_their_int8_plane_is_left(
    cuda: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    expected = reply("cpu", "bfloat16", 3)
    without = ",".join(f"-{name}" for name in scans(cuda) if name.startswith("int8:"))
    monkeypatch.setenv(VARIABLE, without)
    assert reply(cuda, "bfloat16", 3).equals(expected)


@pytest.mark.parametrize("front_plane", ["", "int8", "rows"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_rows_of_float32_and_float16_are_read_by_their_int8_plane_alone(
    cuda: str, dtype: str, front_plane: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("HYRECALL_FRONT_PLANE", front_plane)
    expected = reply("cpu", dtype, 3)
    by_plane = {
        plane: ",".join(f"-{name}" for name in scans(cuda) if name.startswith(f"{plane}:"))
        for plane in ("int8", "bfloat16")
    }
    monkeypatch.setenv(VARIABLE, by_plane["bfloat16"])
    assert reply(cuda, dtype, 3).equals(expected)
    monkeypatch.setenv(VARIABLE, by_plane["int8"])
    with pytest.raises(hr.OptionError) as caught:
        reply(cuda, dtype, 3)
    assert str(caught.value) == (
        f"{VARIABLE}: expected at least one kernel for int8, got a value that excludes all of them"
    )


@pytest.mark.parametrize(
    "value", ["-int8:8", "int8:8:generic", "-int8:9:generic", "generic,-", "-x"]
)
@pytest.mark.usefixtures("cuda")
def test_a_kernel_of_no_such_name_is_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, value)
    with pytest.raises(hr.OptionError, match=f"^{VARIABLE}: expected generic, -PLANE:WIDTH:ARCH"):
        scans("cuda:0")
