"""Queries that lie on the index's device: read there, with the replies of the same values on the
host. On the emulated device of tests/emulator; HYRECALL_EMULATED names its folder.
"""

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from emulated_guests import KINDS, DeviceTensor, as_float32, emulator, on_device, stored_as
from laws.checks import compare_with
from laws.engine import EngineSubject, arguments
from oracle.documents import Call
from oracle.recall import Oracle

LAYOUTS = ("plain", "compact", "transposed", "spread", "upside down")
DIM = 40
N_ROWS = 300


def documents(n_rows: int = N_ROWS) -> pa.Table:
    words = ("ash", "bay", "gro", "elm", "oak")
    return pa.table(
        {
            "id": [f"k{i}" for i in range(n_rows)],
            "user": [("ana", "bob", "cid")[i % 3] for i in range(n_rows)],
            "text": [f"{words[i % 5]} {words[i * 7 % 4]}" for i in range(n_rows)],
            "number": pa.array([i % 10 for i in range(n_rows)], pa.int64()),
        }
    )


def matrix(seed: int, n_rows: int, dim: int = DIM) -> Any:
    return np.random.default_rng(seed).standard_normal((n_rows, dim)).astype(np.float32)


def built(device: str, arms: tuple[str, ...] = ("near",), n_rows: int = N_ROWS) -> hr.Index:
    schema = hr.Schema(key="id", cell="user", text="text", vector=arms, attributes="number")
    vectors = {arm: matrix(at, n_rows) for at, arm in enumerate(arms)}
    table = documents(n_rows + 1).slice(0, n_rows)
    return hr.Index.build(table, schema, vectors=vectors, device=device)


@pytest.fixture
def index(machine: Any) -> hr.Index:
    return built("cuda:0")


def outcome(index: hr.Index, **options: Any) -> tuple[bytes, list[str]]:
    """A reply to the last bit, and how it is explained."""
    hits = index.recall(scope="ana", **options)
    table = hits.to_arrow()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    first = itertools.islice((hit for query in hits for hit in query), 3)
    return sink.getvalue().to_pybytes(), [str(hit.explain()) for hit in first]


def fault(index: hr.Index, vectors: object, **options: Any) -> tuple[type, str, object]:
    with pytest.raises(hr.HyrecallError) as caught:
        index.recall(scope="ana", vectors=vectors, **options)
    return type(caught.value), str(caught.value), caught.value.argument


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_tensor_on_the_device_gives_the_replies_of_the_same_values_on_the_host(
    machine: Any, index: hr.Index, kind: str, layout: str
) -> None:
    values = stored_as(matrix(7, 9) * 3, kind)
    guest = DeviceTensor(machine, values, kind, layout=layout)
    assert outcome(index, vectors=guest) == outcome(index, vectors=as_float32(values, kind))
    assert guest.n_host_copies == 0
    assert len(guest.streams) == 1
    assert guest.streams[0] > 2  # a stream of ours


def test_every_option_of_a_recall_takes_a_tensor_on_the_device(machine: Any) -> None:
    index = built("cuda:0", ("near", "far"))
    near, far = matrix(8, 5), matrix(9, 5)
    texts = ["ash", "bay elm", "gro", None, "oak"]
    calls: list[dict[str, Any]] = [
        {"vectors": {"near": near}, "normalize": True, "fusion": hr.RRF()},
        {"vectors": {"near": near}, "shaping": [hr.MMR(relevance_weight=0.5, vector="near")]},
        {"vectors": {"near": near, "far": far}, "text": texts},
        {"vectors": {"near": near}, "text": texts, "fusion": hr.RRF(weights={"near": 0})},
        {"vectors": {"near": near}, "text": texts, "fusion": hr.WeightedSum(balance=0.85)},
    ]
    for call in calls:
        guests = {**call, "vectors": on_device(machine, call["vectors"])}
        assert outcome(index, **guests) == outcome(index, **call), call
    recipes = {"vectors": near, "text": texts, "recipe": hr.recipes.default}
    guest = {**recipes, "vectors": DeviceTensor(machine, near)}
    alone = built("cuda:0")
    assert outcome(alone, **guest) == outcome(alone, **recipes)
    mixed = {"near": near, "far": DeviceTensor(machine, far)}
    assert outcome(index, vectors=mixed) == outcome(index, vectors={"near": near, "far": far})


def test_tensors_of_many_vectors_come_through_the_host(machine: Any) -> None:
    schema = hr.Schema(key="id", cell="user", vector=hr.MaxSim("tokens"))
    rows = {"tokens": [matrix(at, 1 + at % 3) for at in range(30)]}
    index = hr.Index.build(documents(30), schema, vectors=rows, device="cuda:0")
    asked = matrix(40, 5)
    assert outcome(index, vectors=[DeviceTensor(machine, asked)]) == outcome(index, vectors=[asked])
    assert fault(index, DeviceTensor(machine, asked)) == fault(index, asked)  # alone: no batch


def test_the_search_waits_for_the_tensors_own_stream(machine: Any, index: hr.Index) -> None:
    values = matrix(10, 4)
    guest = DeviceTensor(machine, values)
    assert not guest.is_filled  # NaN until then
    assert outcome(index, vectors=guest) == outcome(index, vectors=values)


def test_a_tensor_is_held_until_it_was_read_and_no_longer(machine: Any, index: hr.Index) -> None:
    values = matrix(11, 4)
    guest = DeviceTensor(machine, values)
    hits = index.recall(vectors=guest, scope="ana")  # letting go overwrites it
    assert (guest.n_released, guest.n_held) == (1, 0)
    assert hits[0][0].explain() is not None
    values[2, 1] = np.nan
    bad = DeviceTensor(machine, values)
    fault(index, bad)
    assert (bad.n_released, bad.n_held) == (1, 0)


def test_a_batch_beyond_a_piece_is_read_piece_by_piece(
    machine: Any, index: hr.Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hyrecall.recall.batch.BATCH_QUERIES", 10)
    values = matrix(12, 33)
    guest = DeviceTensor(machine, values, layout="transposed")
    assert outcome(index, vectors=guest, limit=2) == outcome(index, vectors=values, limit=2)
    assert guest.n_host_copies == 0
    values[4] = 2.0**70
    values[31, 3] = np.inf  # a worse fault, in another piece
    assert fault(index, DeviceTensor(machine, values)) == fault(index, values)


def test_zero_rows_ask_nothing(machine: Any, index: hr.Index) -> None:
    values = matrix(13, 3)
    values[1] = 0
    assert outcome(index, vectors=DeviceTensor(machine, values)) == outcome(index, vectors=values)


@pytest.mark.parametrize("kind", KINDS)
def test_values_that_are_none_are_refused_as_on_the_host(
    machine: Any, index: hr.Index, kind: str
) -> None:
    for value in (np.nan, np.inf, -np.inf):
        wide = matrix(14, 6)
        wide[4, 33] = value
        wide[4, 35] = np.nan
        wide[5, 0] = np.inf
        values = stored_as(wide, kind)
        found = fault(index, DeviceTensor(machine, values, kind))
        assert found == fault(index, as_float32(values, kind))
        assert f"got {value} in query 4" in found[1]
    assert index.recall(vectors=matrix(14, 2), scope="ana")  # the next call works


@pytest.mark.parametrize("value", [1e39, -1.7976931348623157e308, 3.5e38, 3.4028235677973366e38])
def test_a_float64_beyond_float32_is_refused_as_on_the_host(
    machine: Any, index: hr.Index, value: float
) -> None:
    values = matrix(15, 3).astype(np.float64)
    values[1, 2] = value
    assert fault(index, DeviceTensor(machine, values, "float64")) == fault(index, values)


def test_norms_out_of_range_are_refused_as_on_the_host_after_every_value(
    machine: Any, index: hr.Index
) -> None:
    for scale in (2.0**-70, 2.0**70):
        values = matrix(16, 6)
        values[2] *= np.float32(scale)
        found = fault(index, DeviceTensor(machine, values))
        assert found == fault(index, values)
        assert "in query 2" in found[1]
        values[5, 5] = np.nan
        found = fault(index, DeviceTensor(machine, values))
        assert found == fault(index, values)
        assert "nan in query 5" in found[1]


def test_faults_name_the_arm_where_the_caller_did(machine: Any) -> None:
    index = built("cuda:0", ("near", "far"))
    values = matrix(17, 2)
    values[1, 1] = np.nan
    vectors = {"near": matrix(18, 2), "far": values}
    found = fault(index, on_device(machine, vectors))
    assert found == fault(index, vectors)
    assert found[2] == "vectors['far']"
    # An arm that does not run is checked all the same.
    left_out = hr.RRF(weights={"far": 0})
    assert fault(index, on_device(machine, vectors), fusion=left_out) == found


def test_an_index_without_documents_checks_them_too(machine: Any) -> None:
    index = built("cuda:0", n_rows=0)
    values = matrix(19, 3)
    assert index.recall(vectors=DeviceTensor(machine, values), scope="ana").to_arrow().num_rows == 0
    values[2, 2] = np.nan
    assert fault(index, DeviceTensor(machine, values)) == fault(index, values)


def test_shapes_and_types_are_refused_as_on_the_host(machine: Any, index: hr.Index) -> None:
    narrow = DeviceTensor(machine, matrix(20, 3, DIM - 1))
    assert fault(index, narrow) == fault(index, matrix(20, 3, DIM - 1))
    assert narrow.n_held == 0
    patterns = np.ones((3, DIM), np.uint16)  # bits of bfloat16, or numbers: nobody can tell
    assert fault(index, DeviceTensor(machine, patterns, "uint16")) == fault(index, patterns)


def test_integers_are_those_of_the_host(machine: Any, index: hr.Index) -> None:
    whole = np.arange(3 * DIM, dtype=np.int32).reshape(3, DIM)
    guest = DeviceTensor(machine, whole, "int32")
    assert outcome(index, vectors=guest) == outcome(index, vectors=whole)
    assert guest.n_held == 0


def test_other_devices_come_through_the_host(machine: Any, index: hr.Index) -> None:
    values = matrix(21, 3)
    for device in ((2, 1), (13, 0), (10, 0)):
        guest = DeviceTensor(machine, values, device=device)
        assert outcome(index, vectors=guest) == outcome(index, vectors=values)
        assert guest.n_host_copies == 1
        assert guest.streams == []
    on_cpu = built("cpu")
    guest = DeviceTensor(machine, values)
    assert outcome(on_cpu, vectors=guest) == outcome(on_cpu, vectors=values)
    assert guest.n_host_copies == 1


def test_a_producer_that_will_not_give_comes_through_the_host(
    machine: Any, index: hr.Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: DeviceTensor, **options: object) -> object:
        raise BufferError("not today")

    monkeypatch.setattr(DeviceTensor, "__dlpack__", refuse)
    values = matrix(22, 3)
    guest = DeviceTensor(machine, values)
    assert outcome(index, vectors=guest) == outcome(index, vectors=values)
    assert guest.n_host_copies == 1


def test_a_changed_index_reads_them_on_all_its_segments(machine: Any, index: hr.Index) -> None:
    more = documents(N_ROWS + 80).slice(N_ROWS)
    index.add(more, vectors={"near": matrix(23, 80)})
    index.delete(["k0", "k3"], scope="ana")
    values = matrix(24, 12)
    assert outcome(index, vectors=DeviceTensor(machine, values)) == outcome(index, vectors=values)


def rebuilt(vectors: object, device: str = "cuda:0", dtype: Any = None) -> hr.Index:
    schema = hr.Schema(
        key="id",
        cell="user",
        text="text",
        vector={"near": hr.Vector("near", dtype=dtype)},
        attributes="number",
    )
    return hr.Index.build(documents(), schema, vectors={"near": vectors}, device=device)


@pytest.mark.parametrize("dtype", [None, "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
def test_columns_on_the_device_make_the_index_of_the_same_values_on_the_host(
    machine: Any, kind: str, dtype: str | None
) -> None:
    values = stored_as(matrix(30, N_ROWS) * 3, kind)
    guest = DeviceTensor(machine, values, kind, layout="spread")
    index = rebuilt(guest, dtype=dtype)
    assert (guest.n_host_copies, len(guest.streams), guest.n_held) == (1, 1, 0)
    same = rebuilt(values, dtype=dtype)
    assert index.stats() == same.stats()
    for plane in ("int8", "rows"):
        with pytest.MonkeyPatch.context() as forced:
            forced.setenv("HYRECALL_FRONT_PLANE", plane)
            vectors = matrix(31, 20)
            assert outcome(index, vectors=vectors) == outcome(same, vectors=vectors)


def test_rows_of_columns_on_the_device_are_read_there(machine: Any) -> None:
    guest = DeviceTensor(machine, matrix(32, N_ROWS))
    told, there = -guest.values, guest.values
    guest.values = told  # the host is told other rows than the device has
    indexes = [rebuilt(vectors) for vectors in (guest, there, told)]
    query = {"vectors": matrix(33, 1), "scope": "ana", "limit": 5}
    found, wanted, other = (index.recall(**query).to_arrow()["key"] for index in indexes)
    assert found == wanted != other


def test_added_columns_on_the_device_are_read_there_too(machine: Any, index: hr.Index) -> None:
    more = documents(N_ROWS + 100).slice(N_ROWS)
    values = matrix(34, 100)
    other = built("cuda:0")
    other.add(more, vectors={"near": values})
    guest = DeviceTensor(machine, values, layout="transposed")
    index.add(more, vectors={"near": guest})
    assert (len(guest.streams), guest.n_held, len(index._state.segments)) == (1, 0, 2)
    vectors = matrix(35, 6)
    assert outcome(index, vectors=vectors) == outcome(other, vectors=vectors)


def test_columns_are_let_go_wherever_the_index_lies(machine: Any) -> None:
    for device, says in (("cpu", (2, 0)), ("auto", (2, 0)), ("cuda:0", (2, 1))):
        guest = DeviceTensor(machine, matrix(36, N_ROWS), device=says)
        index = rebuilt(guest, device)
        assert (guest.n_host_copies, guest.streams) == (1, [])
        assert not any(segment.guests for segment in index._state.segments)
        same = rebuilt(guest.values, device)
        assert outcome(index, vectors=matrix(37, 3)) == outcome(same, vectors=matrix(37, 3))


def test_columns_that_are_none_are_refused_as_on_the_host(machine: Any) -> None:
    values = matrix(38, N_ROWS)
    values[17, 3] = np.nan
    said = []
    for given in (values, DeviceTensor(machine, values)):
        with pytest.raises(hr.HyrecallError) as caught:
            rebuilt(given)
        said.append((type(caught.value), str(caught.value)))
    assert said[0] == said[1]


class GuestSubject(EngineSubject):
    """The engine, asked by tensors on its device wherever every query has a vector."""

    n_guests = 0

    def hits(self, call: Call) -> hr.Hits:
        said = arguments(self.shape, call)
        if "vectors" in said:
            said["vectors"] = on_device(emulator(), said["vectors"])
            given = said["vectors"].values()  # type: ignore[attr-defined]
            GuestSubject.n_guests += sum(isinstance(one, DeviceTensor) for one in given)
        return self.index.recall(**said)


def test_random_calls_by_tensors_on_the_device_are_the_oracles(machine: Any) -> None:
    def make(shape: Any, rows: Any) -> GuestSubject:
        return GuestSubject(shape, rows, device="cuda:0")

    GuestSubject.n_guests = 0
    assert compare_with(Oracle, make, range(12)) > 400
    assert GuestSubject.n_guests > 20
