"""The numbers of a reply as tensors of other libraries, on the CPU and on the index's device."""

import dataclasses
import importlib.util
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from emulated_guests import TakenTensor, emulator, taken_on_a_stream

WORDS = ("ash", "bay", "gro", "elm", "oak")
N_ROWS, DIM = 300, 24
TEXTS = ["ash bay", "elm", None, "nothing", "oak gro"]


def built(device: str, *, has_integer_keys: bool = False) -> hr.Index:
    """Two users have each key, so that a key alone is no document."""
    keys: list[Any] = [i // 2 if has_integer_keys else f"k{i // 2}" for i in range(N_ROWS)]
    table = pa.table(
        {
            "id": keys,
            "user": [("ana", "bob")[i % 2] for i in range(N_ROWS)],
            "text": [f"{WORDS[i % 5]} {WORDS[i * 7 % 4]}" for i in range(N_ROWS)],
        }
    )
    vectors = np.random.default_rng(3).standard_normal((N_ROWS, DIM)).astype(np.float32)
    schema = hr.Schema(key="id", cell="user", text="text", vector="near")
    return hr.Index.build(table, schema, vectors={"near": vectors}, device=device)


def asked(**options: Any) -> dict[str, Any]:
    vectors = np.random.default_rng(4).standard_normal((len(TEXTS), DIM)).astype(np.float32)
    scope = hr.Scope(["ana", "bob"])
    return {"text": TEXTS, "vectors": vectors, "scope": scope, "limit": 7, "depth": 40, **options}


def values_of(hits: hr.Hits) -> dict[str, Any]:
    """The tensors as a consumer on the device finds them."""
    tensors = hits.tensors()
    where = hits.trace.device
    if where == "cpu":
        return {name: np.from_dlpack(one) for name, one in tensors.items()}
    if os.environ.get("HYRECALL_EMULATED"):
        return {name: taken_on_a_stream(emulator(), one) for name, one in tensors.items()}
    torch = pytest.importorskip("torch")
    found = hits.to_torch()
    assert {str(one.device) for one in found.values()} == {where}
    with torch.cuda.stream(torch.cuda.Stream(where)):
        return {name: (one + 0 if one.dtype != torch.bool else ~~one).cpu().numpy()
                for name, one in hits.to_torch().items()}  # fmt: skip


def check(hits: hr.Hits) -> dict[str, Any]:
    """The tensors say what the table says."""
    found, table = values_of(hits), hits.to_arrow()
    queries = np.arange(len(hits)).repeat(np.diff(found["offsets"]))
    assert queries.tolist() == table["query"].to_pylist()
    assert found["score"].tolist() == table["score"].to_pylist()
    assert found["rank"].tolist() == table["rank"].to_pylist()
    for arm in ("text", "near"):
        scores, is_valid = found[f"{arm}_score"], found[f"{arm}_valid"]
        wanted = table[f"{arm}_score"]
        assert is_valid.tolist() == wanted.is_valid().to_pylist()
        assert np.isnan(scores[~is_valid]).all()
        assert scores[is_valid].tolist() == wanted.drop_null().to_pylist()
        assert found[f"{arm}_rank"].tolist() == table[f"{arm}_rank"].fill_null(0).to_pylist()
    types = {name: str(one.dtype) for name, one in found.items()}
    assert types == {
        "offsets": "int64", "key": "int64", "score": "float64", "rank": "int32",
        "text_score": "float32", "text_valid": "bool", "text_rank": "int32",
        "near_score": "float32", "near_valid": "bool", "near_rank": "int32",
    }  # fmt: skip
    return found


OTHER = dataclasses.replace(hr.recipes.default, name="other", fusion=hr.RRF())
CALLS: list[dict[str, Any]] = [
    {"fusion": hr.RRF()},
    {"fusion": hr.WeightedSum(), "offset": 2, "limit": 3},
    {"text": None},
    {"vectors": None},
    {"fusion": hr.RRF(), "shaping": [hr.MMR(relevance_weight=0.5)]},
    {"recipe": hr.recipes.default},
    {"recipe": [hr.recipes.default, OTHER, hr.recipes.default, OTHER, hr.recipes.default]},
    {"fusion": hr.RRF(), "scope": hr.Scope([])},
]


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_tensors_say_what_the_table_says(device: str, number: int) -> None:
    index = built(device)
    call = asked(**CALLS[number])
    if "recipe" in call:
        call.pop("depth")
    hits = index.recall(**call)
    found = check(hits)
    documents = hits.key_table
    assert documents.column_names == ["key", "user"]
    table = hits.to_arrow().select(["key", "user"])
    assert documents.take(pa.array(found["key"])).equals(table)
    # Each document stands once, in the order of the hits.
    rows = list(zip(table["key"].to_pylist(), table["user"].to_pylist(), strict=True))
    wanted = list(dict.fromkeys(rows))
    assert [tuple(row.values()) for row in documents.to_pylist()] == wanted


def test_an_integer_key_is_itself(device: str) -> None:
    hits = built(device, has_integer_keys=True).recall(**asked(fusion=hr.RRF()))
    assert check(hits)["key"].tolist() == hits.to_arrow()["key"].to_pylist()


def test_a_batch_of_no_queries_has_empty_tensors(device: str) -> None:
    hits = built(device).recall(text=[], scope="ana")
    assert values_of(hits)["offsets"].tolist() == [0]
    assert {len(one) for name, one in values_of(hits).items() if name != "offsets"} == {0}


def test_tensors_are_the_callers_own() -> None:
    hits = built("cpu").recall(**asked(fusion=hr.RRF()))
    before = hits.to_arrow()
    for one in hits.tensors().values():
        np.from_dlpack(one)[:] = 1  # type: ignore[arg-type]
    assert hits.to_arrow().equals(before)
    check(hits)


def test_hits_from_another_process_have_tensors_too() -> None:
    hits = built("cpu").recall(**asked(fusion=hr.RRF()))
    check(pickle.loads(pickle.dumps(hits)))


def test_a_device_is_named_or_refused() -> None:
    hits = built("cpu").recall(**asked(fusion=hr.RRF()))
    assert hits.tensors(device="cpu")["score"].__dlpack_device__() == (1, 0)
    with pytest.raises(hr.OptionError, match="device: expected 'cpu', 'cuda:N' or None, got"):
        hits.tensors(device="auto")
    with pytest.raises(hr.OptionError, match="device: expected"):
        hits.tensors(device="gpu")
    with pytest.raises(hr.DeviceUnavailableError, match="cuda:9"):
        hits.tensors(device="cuda:9")


def test_torch_shares_the_memory_of_tensors() -> None:
    torch = pytest.importorskip("torch")
    hits = built("cpu").recall(**asked(fusion=hr.RRF()))
    found = hits.to_torch()
    assert {name: str(one.dtype) for name, one in found.items()} == {
        name: f"torch.{one.dtype}" for name, one in values_of(hits).items()
    }
    assert torch.equal(found["score"], torch.from_numpy(values_of(hits)["score"]))


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="torch is installed here")
def test_torch_is_named_where_it_is_missing() -> None:
    hits = built("cpu").recall(text=["ash"], scope="ana")
    with pytest.raises(hr.MissingExtraError, match="to_torch: expected torch"):
        hits.to_torch()


# ---- on the emulated device, whose copies are made when somebody waits for them ----


def test_a_tensor_is_read_on_a_stream_that_has_waited_for_its_copy(machine: Any) -> None:
    hits = built("cuda:0").recall(**asked(fusion=hr.RRF()))
    wanted = hits.to_arrow()["score"].to_numpy()
    tensor = hits.tensors()["score"]
    assert tensor.__dlpack_device__() == (2, 0)
    assert tensor.shape == wanted.shape
    early = TakenTensor(machine, tensor, -1)
    assert np.isnan(early.values()).all()  # nobody has waited: not the host either
    early.release()
    stream = machine.create_stream()
    taken = TakenTensor(machine, tensor, stream)
    assert np.isnan(taken.values()).all()
    assert np.array_equal(taken.values(stream), wanted)
    taken.release()
    for default in (None, 1, 2):  # streams of CUDA's own, which have waited
        taken = TakenTensor(machine, hits.tensors()["score"], default)
        assert np.array_equal(taken.values(), wanted)
        taken.release()


def test_what_is_no_stream_is_refused(machine: Any) -> None:
    tensor: Any = built("cuda:0").recall(text=["ash"], scope="ana").tensors()["score"]
    for stream in (0, -2, True, "1"):
        with pytest.raises(hr.OptionError, match="stream: expected a CUDA stream's handle"):
            tensor.__dlpack__(stream=stream)
    with pytest.raises(BufferError, match="dl_device: expected"):
        tensor.__dlpack__(stream=1, dl_device=(1, 0))
    with pytest.raises(BufferError, match="copy: expected"):
        tensor.__dlpack__(stream=1, copy=True)
    TakenTensor(machine, tensor, 1).release()


def test_memory_lives_as_long_as_a_tensor_and_ends_on_any_thread(machine: Any) -> None:
    index = built("cuda:0")
    hits = index.recall(**asked(fusion=hr.RRF()))
    wanted = hits.to_arrow()["score"].to_numpy()
    before = machine.allocated_bytes()
    tensors = hits.tensors()
    taken = [TakenTensor(machine, one, 1) for one in tensors.values()]
    del tensors
    assert machine.allocated_bytes() > before
    del hits
    index.close()
    del index
    assert np.array_equal(taken[2].values(), wanted)
    held = machine.allocated_bytes()
    thread = threading.Thread(target=lambda: [one.release() for one in taken])
    thread.start()
    thread.join()
    assert machine.allocated_bytes() < held


def test_what_nobody_takes_ends_with_its_capsule(machine: Any) -> None:
    hits = built("cuda:0").recall(**asked(fusion=hr.RRF()))
    before = machine.allocated_bytes()
    capsules = [one.__dlpack__(stream=1) for one in hits.tensors().values()]
    assert machine.allocated_bytes() > before
    del capsules
    assert machine.allocated_bytes() == before


def test_a_device_without_room_says_so_and_the_next_call_works(machine: Any) -> None:
    hits = built("cuda:0").recall(**asked(fusion=hr.RRF()))
    check(hits)
    machine.limit_memory(1)
    try:
        with pytest.raises(hr.DeviceMemoryError):
            hits.tensors()
    finally:
        machine.limit_memory(0)
    check(hits)


def run(code: str, **environment: str) -> str:
    """What a process of its own prints, on the emulated device."""
    folder = os.environ.get("HYRECALL_EMULATED")
    if not folder:
        pytest.skip("HYRECALL_EMULATED names no folder of an emulated libhyrecall_cuda.so")
    here = Path(__file__).parents[1]
    paths = [str(here), str(here / "python"), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        env=os.environ
        | {"HYRECALL_CUDA_LIBRARY": folder, "PYTHONPATH": os.pathsep.join(paths)}
        | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_deleter_may_run_when_the_interpreter_has_ended() -> None:
    code = """
import ctypes
from emulated_guests import TakenTensor, emulator
from test_tensors_out import asked, built
import hyrecall as hr

machine = emulator()
hits = built("cuda:0").recall(**asked(fusion=hr.RRF()))
taken = TakenTensor(machine, hits.tensors()["score"], 1)
libc = ctypes.CDLL(None)
at_exit = libc.__cxa_atexit
at_exit.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
say = ctypes.cast(libc.puts, ctypes.c_void_p).value
said = ctypes.create_string_buffer(b"the deleter has returned")
libc.malloc.restype = ctypes.c_void_p
text = libc.malloc(100)
ctypes.memmove(text, said, 30)
assert at_exit(say, text, None) == 0  # the last to be registered goes first
assert at_exit(taken.deleter, taken.address, None) == 0
"""
    assert run(code) == "the deleter has returned"


def test_another_device_gets_no_context() -> None:
    code = """
import threading
import numpy as np
from emulated_guests import TakenTensor, emulator
from test_tensors_out import asked, built
import hyrecall as hr

machine = emulator()
index = built("cuda:1")
hits = index.recall(**asked(fusion=hr.RRF()))
tensors = hits.tensors()
taken = [TakenTensor(machine, one, 1) for one in tensors.values()]
assert {one.device for one in taken} == {(2, 1)}
assert np.array_equal(taken[2].values(), hits.to_arrow()["score"].to_numpy())
index.delete(["k1"], scope="ana")
index.recall(**asked(fusion=hr.RRF()))
index.close()
del tensors, hits, index
thread = threading.Thread(target=lambda: [one.release() for one in taken])
thread.start()
thread.join()
print(machine.has_context(0), machine.has_context(1))
"""
    assert run(code, HYRECALL_EMULATOR_DEVICES="2") == "False True"


def test_a_forked_child_is_told_that_it_is_one() -> None:
    code = """
import os, sys, warnings
import hyrecall as hr
from test_tensors_out import asked, built

warnings.simplefilter("ignore", DeprecationWarning)
index = built("cuda:0")
hits = index.recall(text=["ash"], scope="ana")
hits.tensors()
if os.fork() == 0:
    for call in (
        hits.tensors,
        lambda: index.recall(text=["ash"], scope="ana"),
        lambda: built("cuda:0"),
    ):
        try:
            call()
        except hr.DeviceUnavailableError as fault:
            print("forked from one that had used CUDA" in str(fault), flush=True)
    os._exit(0)
os.wait()
"""
    assert run(code, HYRECALL_EMULATOR_FORKS="refused").split() == ["True"] * 3
