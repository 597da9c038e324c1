"""Query vectors: one float32 matrix from an array of any library, a column or a list of rows."""

import ctypes
from typing import Any

import hypothesis.strategies as st
import ml_dtypes
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given

from guests import FromTorch, made, torch_or_skip
from hyrecall.errors import DTypeError, HyrecallError, OptionError, ShapeError
from seams import query_vectors, row_count
from small_index import IN_MEMORY

ROWS = np.array([[1.5, -2.0], [0.0, 3.25], [2.0**-10, 40.0]], np.float32)
FIXED = pa.FixedSizeListArray.from_arrays(pa.array(ROWS.ravel()), 2)


def refusal(kind: type[HyrecallError], value: Any, dim: int = 2) -> str:
    with pytest.raises(kind) as caught:
        query_vectors(value, dim=dim)
    assert caught.value.argument == "vectors"
    return str(caught.value).removeprefix("vectors: ")


class Dlpack:
    """An array of some other library: nothing but DLPack, on the CPU or only by copy to it."""

    def __init__(self, array: Any, device: int = 1) -> None:
        self.array, self.device = array, device

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self.device, 0)

    def __dlpack__(self, *, dl_device: Any = None, copy: Any = None, **options: Any) -> Any:
        if self.device != 1 and dl_device != (1, 0):
            raise BufferError("the memory is on a device")
        return self.array.__dlpack__()


class Convertible:
    """An array that NumPy can only have by `__array__`."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **options: Any) -> Any:
        raise BufferError("no bfloat16")

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.array


FORMS = {
    "numpy float16": ROWS.astype(np.float16),
    "numpy float32": ROWS,
    "numpy float64": ROWS.astype(np.float64),
    **{name: form(ROWS) for name, form in IN_MEMORY.items()},
    "ml_dtypes": ROWS.astype(ml_dtypes.bfloat16),
    "torch float16": FromTorch(lambda torch: torch.tensor(ROWS).half()),
    "torch float32": FromTorch(lambda torch: torch.tensor(ROWS)),
    "torch float64": FromTorch(lambda torch: torch.tensor(ROWS).double()),
    "torch bfloat16": FromTorch(lambda torch: torch.tensor(ROWS).bfloat16()),
    "torch bfloat16 transposed": FromTorch(lambda torch: torch.tensor(ROWS.T.copy()).bfloat16().T),
    "torch parameter": FromTorch(lambda torch: torch.nn.Parameter(torch.tensor(ROWS))),
    "torch negative bit": FromTorch(lambda torch: torch.tensor(ROWS * -1j).conj().imag),
    "dlpack": Dlpack(ROWS),
    "dlpack on a device": Dlpack(ROWS, device=2),
    "__array__": Convertible(ROWS.astype(ml_dtypes.bfloat16)),
    "fixed_size_list": FIXED,
    "fixed_shape_tensor": pa.FixedShapeTensorArray.from_numpy_ndarray(ROWS),
    "list<double>": pa.array(ROWS.astype(float).tolist()),
    "chunked": pa.chunked_array([FIXED[:1], FIXED[1:1], FIXED[1:]]),
    "polars": pl.Series(ROWS.tolist(), dtype=pl.Array(pl.Float32, 2)),
    "pandas": pd.Series(ROWS.tolist(), dtype=pd.ArrowDtype(FIXED.type)),
    "rows": ROWS.tolist(),
    "rows of tuples": tuple(map(tuple, ROWS.tolist())),
    "rows of numpy": list(ROWS.astype(np.float16)),
    "rows of torch": FromTorch(lambda torch: list(torch.tensor(ROWS).bfloat16())),
    "rows of ml_dtypes": list(ROWS.astype(ml_dtypes.bfloat16)),
    "rows of many kinds": FromTorch(
        lambda torch: [ROWS[0].tolist(), torch.tensor(ROWS[1]), Dlpack(ROWS[2])]
    ),
}


@pytest.mark.parametrize("value", FORMS.values(), ids=FORMS.keys())
def test_every_form_gives_the_same_float32_matrix(value: Any) -> None:
    value = made(value)
    queries, valid = query_vectors(value, dim=2)
    assert queries.dtype == np.float32
    assert queries.flags.c_contiguous
    assert queries.flags.aligned
    assert not queries.flags.writeable or isinstance(value, pa.ChunkedArray)
    assert valid is None
    assert np.array_equal(queries, ROWS)
    assert isinstance(value, Dlpack | Convertible) or row_count(value) == 3


def address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def test_a_float32_tensor_is_read_in_place() -> None:
    tensor = torch_or_skip().tensor(ROWS)
    assert address(query_vectors(tensor, dim=2)[0]) == tensor.data_ptr()


def test_float32_queries_are_read_in_place() -> None:
    assert address(query_vectors(ROWS, dim=2)[0]) == address(ROWS)
    assert address(query_vectors(FIXED, dim=2)[0]) == FIXED.values.buffers()[1].address
    assert ROWS.flags.writeable


@pytest.mark.parametrize(
    "value",
    [
        [ROWS[0], None, ROWS[2].tolist()],
        pa.array([ROWS[0], None, ROWS[2]], pa.list_(pa.float32(), 2)),
        pa.array([ROWS[0], None, ROWS[2]], pa.list_(pa.float64())),
        pa.chunked_array([FIXED[:1], pa.nulls(1, FIXED.type), FIXED[:0], FIXED[2:]]),
        pa.FixedSizeListArray.from_arrays(
            pa.array([1.5, -2, np.nan, np.inf, 2.0**-10, 40]),
            2,
            mask=pa.array([False, True, False]),
        ),
    ],
    ids=["rows", "fixed", "list", "chunked", "nan below the null"],
)
def test_a_missing_query_is_not_valid_and_its_row_is_zero(value: Any) -> None:
    queries, valid = query_vectors(value, dim=2)
    assert valid is not None
    assert valid.tolist() == [True, False, True]
    assert np.array_equal(queries, [ROWS[0], [0, 0], ROWS[2]])
    assert row_count(value) == 3


def test_all_missing_and_no_queries_have_the_dimension() -> None:
    for value in ([None, None], pa.nulls(2), pa.nulls(2, FIXED.type)):
        queries, valid = query_vectors(value, dim=2)
        assert queries.tolist() == [[0, 0], [0, 0]]
        assert valid is not None
        assert valid.tolist() == [False, False]
    for value in ([], np.empty((0, 2)), FIXED[:0], pa.chunked_array([], FIXED.type)):
        queries, valid = query_vectors(value, dim=2)
        assert (queries.shape, valid) == ((0, 2), None)


def test_float64_is_rounded_once_and_integers_are_taken_inside_lists() -> None:
    value = 1 + 2.0**-24 + 2.0**-50
    for form in (np.array([[value, 0]]), [[value, 0]], pa.array([[value, 0.0]])):
        assert query_vectors(form, dim=2)[0].tolist() == [[1 + 2.0**-23, 0]]
    assert query_vectors([[3, 4], [0, 1.5]], dim=2)[0].tolist() == [[3, 4], [0, 1.5]]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
def test_a_value_that_is_not_finite_is_refused_with_its_query(bad: float, dtype: Any) -> None:
    rows = np.ones((6, 2), dtype)
    rows[4, 1] = bad
    forms: list[Any] = [rows, list(rows)]
    if dtype != ml_dtypes.bfloat16:
        flat = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), 2)
        forms += [flat, pa.chunked_array([flat[:3], flat[3:]])]
    for form in forms:
        assert refusal(OptionError, form) == f"expected finite values, got {bad} in query 4"


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_a_tensor_that_is_not_finite_is_refused_with_its_query(bad: float, dtype: str) -> None:
    torch = torch_or_skip()
    rows = torch.ones(6, 2, dtype=getattr(torch, dtype))
    rows[4, 1] = bad
    assert refusal(OptionError, rows) == f"expected finite values, got {bad} in query 4"


def test_a_float64_beyond_float32_is_refused_with_its_query() -> None:
    for form in (np.array([[0, 1], [1e39, 0]]), [[0, 1], None, [1e39, 0]]):
        end = f"got 1e+39 in query {len(form) - 1}"
        assert refusal(OptionError, form) == f"expected values that fit float32, {end}"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (FromTorch(lambda torch: torch.ones(2)), "expected shape (n_queries, 2), got (2,)"),
        (np.float32(1), "expected shape (n_queries, 2), got ()"),
        (FromTorch(lambda torch: torch.tensor(1.0)), "expected shape (n_queries, 2), got ()"),
    ],
)
def test_other_shapes_are_refused_by_name(value: Any, message: str) -> None:
    assert refusal(ShapeError, made(value)).startswith(message)


FLOATS = "expected float16, bfloat16, float32 or float64 values, got "


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (FromTorch(lambda torch: torch.ones(1, 2, dtype=torch.bool)), FLOATS + "torch.bool"),
        (FromTorch(lambda torch: torch.ones(1, 2).to(torch.uint16)), FLOATS + "torch.uint16"),
        (
            FromTorch(lambda torch: torch.ones(1, 2, dtype=torch.float8_e5m2)),
            FLOATS + "torch.float8_e5m2",
        ),
        (
            FromTorch(lambda torch: torch.ones(1, 2, dtype=torch.complex64)),
            FLOATS + "torch.complex64",
        ),
        (
            FromTorch(lambda torch: torch.ones(1, 2).to_sparse()),
            "expected a dense tensor that holds data, got a torch.sparse",
        ),
        (
            FromTorch(lambda torch: torch.ones(1, 2, device="meta")),
            "expected a dense tensor that holds data, got a meta",
        ),
        (Dlpack(ROWS.astype(np.uint16)), FLOATS + "uint16"),
        (
            FromTorch(lambda torch: Dlpack(torch.tensor(ROWS).bfloat16())),
            "expected an array that DLPack can bring to host",
        ),
        ([np.ones(2, np.uint16)], FLOATS + "uint16"),
    ],
)
def test_other_values_are_refused_by_name(value: Any, message: str) -> None:
    assert refusal(DTypeError, made(value)).startswith(message)


def test_integers_are_queries_in_every_form() -> None:
    for value in (
        [[3, 4]], np.array([[3, 4]]), np.array([[3, 4]], np.int8), [np.array([3, 4], np.uint8)],
        Dlpack(np.array([[3, 4]], np.int32)), pa.array([[3, 4]]), pa.array([[9, 9], [3, 4]])[1:],
        pa.array([[3, 4]], pa.list_(pa.int8(), 2)), pa.array([[3, 4]], pa.large_list(pa.uint32())),
    ):  # fmt: skip
        queries, valid = query_vectors(value, dim=2)
        assert (queries.tolist(), queries.dtype, valid) == ([[3.0, 4.0]], np.float32, None)
    queries, valid = query_vectors(pa.array([[3, 4], None]), dim=2)
    assert valid is not None
    assert (queries.tolist(), valid.tolist()) == ([[3, 4], [0, 0]], [True, False])


def test_integers_of_torch_are_queries() -> None:
    torch = torch_or_skip()
    for value in (
        torch.tensor([[3, 4]]),
        torch.tensor([[3, 4]], dtype=torch.uint8),
        [torch.tensor([3, 4])],
    ):
        queries, valid = query_vectors(value, dim=2)
        assert (queries.tolist(), queries.dtype, valid) == ([[3.0, 4.0]], np.float32, None)


def test_a_vector_that_rounds_to_zero_is_refused_and_a_zero_vector_is_none() -> None:
    told = "expected a norm in [2^-60, 2^60] or a zero vector, got 1e-50 in query 1"
    for tiny in ([[0, 0], [1e-50, 0]], np.array([[0.0, 0.0], [1e-50, 0.0]])):
        assert refusal(OptionError, tiny) == told
    assert query_vectors([[0.0, 0.0]], dim=2)[0].tolist() == [[0.0, 0.0]]


def test_a_null_inside_a_query_is_refused() -> None:
    for column in (pa.array([[1.0, 2.0], [1.0, None]]), pa.array([[1, 2], [1, None]], FIXED.type)):
        message = refusal(OptionError, column)
        assert message == "expected no null inside a query's vector, got one in query 1"


def test_the_argument_can_be_named() -> None:
    with pytest.raises(ShapeError, match=r"^vectors\['e'\]: expected shape \(n_queries, 3\)"):
        query_vectors(ROWS, dim=3, argument="vectors['e']")


def test_row_count_reads_nothing_and_refuses_what_has_no_rows() -> None:
    assert row_count(Dlpack(ROWS)) == 3
    assert row_count(np.broadcast_to(np.float32(1), (1 << 40, 2))) == 1 << 40
    with pytest.raises(ShapeError, match=r"vectors: expected shape \(n_queries, dim\), got \(\)"):
        row_count(np.float32(1))
    with pytest.raises(DTypeError, match=r"e: expected a NumPy, torch, .* got float"):
        row_count(1.0, argument="e")


def test_row_count_refuses_a_tensor_without_rows() -> None:
    with pytest.raises(ShapeError, match=r"vectors: expected shape \(n_queries, dim\), got \(\)"):
        row_count(torch_or_skip().tensor(1.0))


@given(
    rows=st.lists(st.none() | st.tuples(*[st.floats(-60000, 60000, width=16)] * 3), max_size=12),
    cut=st.integers(0, 12),
    kind=st.sampled_from(
        [pa.list_(pa.float32(), 3), pa.list_(pa.float64()), pa.large_list(pa.float16())]
    ),
)
def test_a_list_and_a_column_of_the_same_rows_are_the_same_queries(
    rows: list[Any], cut: int, kind: pa.DataType
) -> None:
    column = pa.array(rows, kind)
    expected = np.array([row or (0, 0, 0) for row in rows], np.float32).reshape(-1, 3)
    for value in (rows, column, pa.chunked_array([column[:cut], column[cut:]])):
        queries, valid = query_vectors(value, dim=3)
        assert np.array_equal(queries, expected)
        assert (valid is None) == all(row is not None for row in rows)
        assert valid is None or valid.tolist() == [row is not None for row in rows]


class Lying:
    """An array that says by DLPack that its bytes begin elsewhere."""

    def __init__(self, byte_offset: int) -> None:
        self.array, self.byte_offset = ROWS.copy(), byte_offset

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **_: Any) -> Any:
        capsule = self.array.__dlpack__()
        read = ctypes.pythonapi.PyCapsule_GetPointer
        read.restype, read.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        ctypes.c_uint64.from_address(read(capsule, b"dltensor") + 40).value = self.byte_offset
        return capsule


@pytest.mark.parametrize("byte_offset", [2**44, 2**62, 2**63 + 8])
def test_a_dlpack_array_of_memory_that_is_not_there_is_refused(byte_offset: int) -> None:
    words = refusal(OptionError, Lying(byte_offset))
    assert words.startswith("expected an array in memory that is there (DLPack), got bytes 0x")
    assert query_vectors(Lying(0), dim=2)[0].tolist() == ROWS.tolist()
