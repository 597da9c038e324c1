"""Document vectors: each form reads to the same bits, in the input's own memory where it fits."""

import itertools
import tracemalloc
from typing import Any

import hypothesis.strategies as st
import ml_dtypes
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given

from guests import FromTorch, made, torch_or_skip
from hyrecall.errors import DTypeError, HyrecallError, OptionError, ShapeError
from seams import Schema, Vector, VectorInput, check_rows, native, read_table, widen_bfloat16
from small_index import IN_MEMORY, said

# ---- document vectors ----

ROWS = np.array([[1.5, -2.0], [0.0, 3.25], [2.0**-20, 40.0]], np.float32)
WIDE = ROWS.astype(np.float64)
BITS = ROWS.astype(ml_dtypes.bfloat16).view(np.uint16)


def read(column: Any, dtype: Any = None, **options: Any) -> VectorInput:
    """Read one vector column of a table."""
    table = pa.table({"id": np.arange(len(column)), "v": column})
    schema = Schema(key="id", cell=None, vector=Vector("v", dtype=dtype))
    return read_table(table, schema, **options).vectors["v"]


def take(value: Any, dtype: Any = None, n_rows: int | None = None, **options: Any) -> VectorInput:
    """Read vectors given beside a table."""
    table = pa.table({"id": np.arange(len(value) if n_rows is None else n_rows)})
    schema = Schema(key="id", cell=None, vector=Vector("v", dtype=dtype))
    return read_table(table, schema, vectors={"v": value}, **options).vectors["v"]


def floats(got: VectorInput) -> np.ndarray[Any, Any]:
    """Return all rows as float64."""
    rows = np.concatenate(got.chunks) if got.chunks else np.empty((0, got.dim), np.uint16)
    return (rows.view(ml_dtypes.bfloat16) if got.dtype == "bfloat16" else rows).astype(np.float64)


def refusal(kind: type[HyrecallError], call: Any, *arguments: Any, **options: Any) -> str:
    with pytest.raises(kind) as caught:
        call(*arguments, **options)
    assert caught.value.argument == ("v" if call is read else "vectors['v']")
    return str(caught.value)


def fixed(values: Any, dim: int = 2) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ravel(values)), dim)


def tensor(values: Any) -> pa.Array:
    return pa.FixedShapeTensorArray.from_numpy_ndarray(np.ascontiguousarray(values))


def layout(form: Any) -> Any:
    return lambda values: pa.array(list(values), form(pa.from_numpy_dtype(values.dtype)))


LAYOUTS = {
    "fixed_size_list": fixed,
    "fixed_shape_tensor": tensor,
    "list": layout(pa.list_),
    "large_list": layout(pa.large_list),
    "list_view": layout(pa.list_view),
    "large_list_view": layout(pa.large_list_view),
}


# ---- forms ----


ARRAYS = {
    "numpy float16": (ROWS.astype(np.float16), "float16"),
    "numpy float32": (ROWS, "float32"),
    **{name: (form(ROWS), "float32") for name, form in IN_MEMORY.items()},
    "numpy float64": (WIDE, "float32"),
    "ml_dtypes bfloat16": (ROWS.astype(ml_dtypes.bfloat16), "bfloat16"),
    "torch float16": (FromTorch(lambda torch: torch.tensor(ROWS, dtype=torch.float16)), "float16"),
    "torch float32": (FromTorch(lambda torch: torch.tensor(ROWS)), "float32"),
    "torch float64": (FromTorch(lambda torch: torch.tensor(WIDE)), "float32"),
    "torch bfloat16": (
        FromTorch(lambda torch: torch.tensor(ROWS, dtype=torch.bfloat16)),
        "bfloat16",
    ),
    "torch that requires grad": (
        FromTorch(lambda torch: torch.tensor(ROWS, requires_grad=True)),
        "float32",
    ),
    "polars": (pl.Series([*map(list, ROWS)], dtype=pl.Array(pl.Float32, 2)), "float32"),
}


@pytest.mark.parametrize(("value", "dtype"), ARRAYS.values(), ids=ARRAYS.keys())
def test_every_array_reads_alike(value: Any, dtype: str) -> None:
    got = take(made(value))
    assert (got.dtype, got.dim, got.valid) == (dtype, 2, None)
    if dtype == "float32":
        assert np.array_equal(floats(got), WIDE)
    assert np.array_equal(floats(got), floats(take(WIDE, dtype)))
    for chunk in got.chunks:
        assert chunk.flags.c_contiguous
        assert not chunk.flags.writeable


def test_uint16_is_bfloat16_only_when_the_schema_says_so() -> None:
    for form in (fixed, tensor, layout(pa.list_)):
        got = read(form(BITS), "bfloat16")
        assert (got.dtype, got.chunks[0].dtype) == ("bfloat16", np.uint16)
        assert np.array_equal(got.chunks[0], BITS)
        for dtype in (None, "float16"):
            message = refusal(DTypeError, read, form(BITS), dtype)
            assert "got uint16; uint16 means bfloat16 only under hr.Vector(column" in message
    assert np.array_equal(take(BITS, "bfloat16").chunks[0], BITS)
    assert "got uint16" in refusal(DTypeError, take, BITS)


@pytest.mark.parametrize("form", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_null_rows_are_marked_and_what_lies_under_them_is_ignored(form: Any) -> None:
    values = np.vstack([ROWS, [[np.nan, np.inf]]])
    whole = form(values)
    column = pa.array([ROWS[0], None, ROWS[2]], whole.type) if form is not tensor else None
    if form in (fixed, tensor):  # keep the NaN in the memory below the null
        lists = pa.FixedSizeListArray.from_arrays(
            pa.array(values[[0, 3, 2]].ravel()), 2, mask=pa.array([False, True, False])
        )
        column = lists if form is fixed else pa.ExtensionArray.from_storage(whole.type, lists)
    got = read(column)
    assert got.valid is not None
    assert got.valid.tolist() == [True, False, True]
    assert np.array_equal(floats(got)[got.valid], WIDE[[0, 2]])
    tail = read(column[1:], "float16")
    assert tail.valid is not None
    assert tail.valid.tolist() == [False, True]
    assert np.array_equal(floats(tail)[1], WIDE[2].astype(np.float16))


def test_a_list_row_that_is_null_may_be_of_any_length() -> None:
    offsets = pa.array([0, 2, 5, 7], pa.int32())
    values = pa.array([1.0, 2, np.nan, np.nan, np.nan, 3, 4], pa.float32())
    mask = pa.array([False, True, False])
    got = read(pa.ListArray.from_arrays(offsets, values, mask=mask))
    assert got.valid is not None
    assert got.valid.tolist() == [True, False, True]
    assert floats(got)[got.valid].tolist() == [[1, 2], [3, 4]]


def test_a_column_of_none_only_needs_the_dimension_from_the_index() -> None:
    for column in (pa.nulls(2), pa.nulls(2, pa.list_(pa.float32()))):
        got = read(column, dims={"v": 3})
        assert (got.dim, floats(got).shape) == (3, (2, 3))
        assert got.valid is not None
        assert got.valid.tolist() == [False, False]
    message = refusal(ShapeError, read, pa.nulls(2, pa.list_(pa.float32())))
    assert message.startswith("v: expected a row with a vector, or a column of")
    assert "got null; give them a width: " in refusal(DTypeError, read, pa.nulls(2))


def test_zero_rows_keep_the_dimension_of_their_type() -> None:
    empty = pa.array([], pa.list_(pa.float16(), 3))
    for column in (empty, pa.chunked_array([], empty.type), fixed(np.zeros(6), 3)[2:]):
        got = read(column)
        assert (got.dim, floats(got).shape, got.valid) == (3, (0, 3), None)
    assert read(pa.chunked_array([], pa.list_(pa.float32())), dims={"v": 5}).dim == 5
    assert take(np.empty((0, 4), np.float32)).dim == 4


# ---- memory ----


def address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


@pytest.mark.parametrize("form", [fixed, tensor])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_fixed_size_rows_are_read_in_place(form: Any, dtype: Any) -> None:
    column = form(ROWS.astype(dtype))
    storage = column.storage if form is tensor else column
    base = storage.values.buffers()[1].address
    assert address(read(column).chunks[0]) == base
    assert address(read(column[1:]).chunks[0]) == base + 2 * np.dtype(dtype).itemsize


def test_equal_lists_and_arrays_are_read_in_place() -> None:
    lists = layout(pa.list_)(ROWS)
    assert address(read(lists[1:]).chunks[0]) == lists.values.buffers()[1].address + 8
    brain = ROWS.astype(ml_dtypes.bfloat16)
    for value in (ROWS, brain):
        got = take(value)
        assert address(got.chunks[0]) == address(value)
        assert value.flags.writeable


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_tensors_are_read_in_place(dtype: str) -> None:
    torch = torch_or_skip()
    given_tensor = torch.tensor(ROWS, dtype=getattr(torch, dtype))
    assert address(take(given_tensor).chunks[0]) == given_tensor.data_ptr()


# ---- refusals ----


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
def test_a_value_that_is_not_finite_is_refused_with_its_row(bad: float, dtype: Any) -> None:
    rows = np.ones((40, 3), dtype)
    rows[17, 1] = bad
    rows[30, 0] = -bad
    end = f"expected finite values, got {bad} in row 17; a row of zeros counts as no vector: "
    for target in (None, "float32", "float16", "bfloat16"):
        assert refusal(OptionError, take, rows, target).startswith(f"vectors['v']: {end}")
    if dtype != ml_dtypes.bfloat16:
        parts = [fixed(part, 3) for part in (rows[:9], rows[9:9], rows[9:])]
        assert refusal(OptionError, read, pa.chunked_array(parts)).startswith(f"v: {end}")


def test_a_null_inside_a_row_is_refused_with_its_row() -> None:
    lists = [[1.0, 2.0], None, [3.0, 4.0], [5.0, None]]
    for kind in (
        pa.list_(pa.float32(), 2),
        pa.list_(pa.float32()),
        pa.large_list_view(pa.float64()),
    ):
        column = pa.array(lists, kind)
        message = refusal(OptionError, read, pa.chunked_array([column[:2], column[2:]]))
        assert message.startswith("v: expected no null inside a row's vector, got one in row 3; ")


def test_ragged_lists_are_refused_with_row_expected_and_found_length() -> None:
    column = pa.chunked_array([[None, [1.0, 2.0]], [[3.0, 4.0], [5.0], [6.0]]])
    message = refusal(ShapeError, read, column)
    assert message.startswith("v: expected 2 values in every row, got 1 in row 3; make them null")
    message = refusal(ShapeError, read, column, dims={"v": 3})
    assert message.startswith("v: expected 3 values in every row, got 2 in row 1; make them null")


def test_another_dimension_than_the_index_has_is_refused() -> None:
    assert refusal(ShapeError, read, fixed(ROWS), dims={"v": 3}) == (
        "v: expected 3 values in every row, got 2"
    )
    assert refusal(ShapeError, take, ROWS, dims={"v": 3}) == (
        "vectors['v']: expected shape (3, 3), got (3, 2)"
    )


def test_dimension_zero_is_refused() -> None:
    for column in (
        pa.array([[]], pa.list_(pa.float32(), 0)),
        pa.array([[]], pa.list_(pa.float32())),
    ):
        assert (
            refusal(ShapeError, read, column) == "v: expected at least 1 value in every row, got 0"
        )
    assert "expected shape (3, dim >= 1), got (3, 0)" in refusal(ShapeError, take, np.ones((3, 0)))


def test_other_columns_are_refused_by_type() -> None:
    for column in (pa.array([1.0]), pa.array(["a"]), pa.array([[[1.0]]])):
        refusal(DTypeError, read, column)
    message = refusal(DTypeError, read, pa.array([[1, 2]]))
    assert message == (
        "v: expected float16, float32 or float64 values, "
        "got int64; cast it: pc.cast(column, pa.list_(pa.float32()))"
    )
    message = refusal(ShapeError, read, tensor(np.ones((2, 3, 4), np.float32)))
    assert message == "v: expected tensors of shape (dim,), got (3, 4)"


@pytest.mark.parametrize(
    ("value", "kind", "got"),
    [
        (ROWS[:2], ShapeError, "expected shape (3, dim >= 1), got (2, 2)"),
        (np.float32(1), ShapeError, "got ()"),
        (FromTorch(lambda torch: torch.tensor(1.0)), ShapeError, "got ()"),
        (fixed(ROWS)[1:], ShapeError, "expected 3 rows, got 2"),
        (ROWS.astype(int), DTypeError, "got int64"),
        (ROWS.astype(np.longdouble), DTypeError, "got float128"),
        (ROWS.astype(ml_dtypes.float8_e5m2), DTypeError, "got float8_e5m2"),
        (FromTorch(lambda torch: torch.ones(3, 2, dtype=torch.int8)), DTypeError, "got torch.int8"),
        (
            FromTorch(lambda torch: torch.ones(3, 2, dtype=torch.complex64)),
            DTypeError,
            "got torch.complex64",
        ),
        (
            FromTorch(lambda torch: torch.ones(3, 2).to_sparse()),
            DTypeError,
            "got a torch.sparse_coo",
        ),
        (FromTorch(lambda torch: torch.ones(3, 2, device="meta")), DTypeError, "got a meta tensor"),
        ([[1.0, 2.0]] * 3, DTypeError, "expected a NumPy, torch, DLPack or Arrow array, got list"),
        (pa.table({"a": [1.0] * 3}), DTypeError, "list column of floats, got struct<a: double>"),
    ],
)
def test_other_arrays_are_refused_by_name(value: Any, kind: Any, got: str) -> None:
    assert got in refusal(kind, take, made(value), n_rows=3)


def test_vectors_that_come_twice_not_at_all_or_for_no_arm_are_refused() -> None:
    schema = Schema(key="id", cell=None, vector={"arm": "v"})
    table = pa.table({"id": [1, 2, 3]})
    with pytest.raises(OptionError) as caught:
        read_table(table, schema)
    assert str(caught.value) == (
        "v: expected one column of the table, or vectors={'arm': array}, got none among 'id'"
    )
    with pytest.raises(OptionError) as caught:
        read_table(table.append_column("v", fixed(ROWS)), schema, vectors={"arm": ROWS})
    assert str(caught.value) == (
        "vectors['arm']: expected rows from the table's column 'v' or from vectors=, got both"
    )
    with pytest.raises(OptionError, match=r"expected names of dense arms \('arm'\), got 'v'"):
        read_table(table, schema, vectors={"v": ROWS})
    with pytest.raises(
        OptionError, match=r"vectors: expected a mapping \{arm: array\}, got ndarray"
    ):
        read_table(table, schema, vectors=ROWS)  # type: ignore[arg-type]


# ---- any chunking, slicing and nulls reads as the plain lists do ----


@given(
    rows=st.lists(
        st.none() | st.tuples(*[st.floats(-1e4, 1e4, width=16)] * 3), min_size=1, max_size=25
    ),
    cuts=st.lists(st.integers(0, 25), max_size=4),
    skip=st.integers(0, 5),
    form=st.sampled_from([pa.list_, pa.large_list, pa.list_view, lambda kind: pa.list_(kind, 3)]),
    value=st.sampled_from([pa.float16(), pa.float32(), pa.float64()]),
)
def test_chunks_slices_and_nulls_do_not_show(
    rows: list[Any], cuts: list[int], skip: int, form: Any, value: pa.DataType
) -> None:
    edges = sorted({0, len(rows), *(min(cut, len(rows)) for cut in cuts)})
    whole = pa.array(rows, form(value))
    column = pa.chunked_array([whole[a:b] for a, b in itertools.pairwise(edges)], whole.type)[skip:]
    got = read(column, dims={"v": 3})
    valid = np.ones(len(column), bool) if got.valid is None else got.valid
    read_rows = [tuple(row) if ok else None for row, ok in zip(floats(got), valid, strict=True)]
    assert read_rows == rows[skip:]


# ---- matrices of floats: conversions round once; checks name the row ----

Array = np.ndarray[Any, Any]


def check(rows: Array, source: Any, target: Any, **options: Any) -> Array:
    names = {"argument": "v", "row_name": "row"}
    return check_rows(native(rows), source, target, **names, **options)


def nearest(values: Any, target: str) -> Any:
    """Round float64 by the definition: the multiple of the last place nearest, ties to even."""
    bits, lowest = {"float32": (24, -149), "float16": (11, -24), "bfloat16": (8, -133)}[target]
    _, exponent = np.frexp(values)
    place = np.maximum(exponent - bits, lowest)
    return np.ldexp(np.rint(np.ldexp(values, -place)), place)


def taken(rows: Array, source: Any, target: Any) -> Array:
    """Convert, and read the result as float64."""
    out = check(rows, source, target)
    return (out.view(ml_dtypes.bfloat16) if target == "bfloat16" else out).astype(np.float64)


def test_conversions_round_once_to_nearest_even() -> None:
    rng = np.random.default_rng(7)
    bits = rng.integers(0, 2**64, 40_000, np.uint64).view(np.float64)
    near = rng.standard_normal(40_000) * np.exp2(rng.integers(-30, 15, 40_000))
    # Just beside the ties of bfloat16: by way of float32 these would land on the tie and go astray.
    ties = (np.float32(1) + np.arange(1, 128, 2) * np.float32(2.0**-8)).astype(np.float64)
    for values in (
        near,
        ties,
        ties * (1 + 2.0**-40),
        ties * (1 - 2.0**-40),
        -ties - 2.0**-45,
        bits,
    ):
        usable = values[np.isfinite(values) & (np.abs(values) < 2.0**15)]
        usable = np.stack([usable, np.ones(len(usable))], axis=1)  # no row becomes zero
        for source, target in itertools.product(
            ("float64", "float32", "float16", "bfloat16"), ("float32", "float16", "bfloat16")
        ):
            kind = ml_dtypes.bfloat16 if source == "bfloat16" else source
            given_rows = usable.astype(kind)
            exact = given_rows.astype(np.float64)
            assert np.array_equal(taken(given_rows, source, target), nearest(exact, target))


@pytest.mark.parametrize(
    ("value", "target", "held"),
    [
        (65504.0, "float16", True),
        (65519.9, "float16", True),
        (65520.0, "float16", False),
        (-70000.0, "float16", False),
        (3.5e38, "float32", False),
        (-1e300, "bfloat16", False),
        (3.4e38, "float32", True),
        (3.38e38, "bfloat16", True),
        (3.4e38, "bfloat16", False),
    ],
)
def test_a_value_that_overflows_the_target_is_refused(
    value: float, target: str, held: bool
) -> None:
    rows = np.array([[1.0, 2.0], [0.0, value]])
    if held:
        assert np.isfinite(taken(rows, "float64", target)).all()
        return
    with pytest.raises(OptionError) as caught:
        check(rows, "float64", target, first_row=3)
    assert said(caught.value) == f"v: expected values that fit {target}, got {value} in row 4"


def test_subnormal_values_of_every_type_are_kept() -> None:
    tiny = np.array([[2.0**-24, -(2.0**-24)]], np.float16)
    assert check(tiny, "float16", "float16").tolist() == tiny.tolist()
    assert taken(tiny, "float16", "float32").tolist() == tiny.tolist()
    least = np.array([[2.0**-149, 2.0**-133]], np.float32)
    assert taken(least, "float32", "float32").tolist() == least.tolist()
    assert taken(least, "float32", "bfloat16").tolist() == [[0.0, 2.0**-133]]
    assert np.signbit(taken(-least, "float32", "bfloat16")).tolist() == [[True, True]]


def test_every_bfloat16_widens_exactly_and_every_bad_one_is_found() -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    wide = bits.view(ml_dtypes.bfloat16).astype(np.float32)
    assert np.array_equal(widen_bfloat16(bits), wide, equal_nan=True)
    finite = np.isfinite(wide)
    check(bits[finite][:, None], "bfloat16", "bfloat16")
    for pattern in bits[~finite]:
        with pytest.raises(OptionError, match=r"expected finite values, got -?(nan|inf) in row 0"):
            check(pattern.reshape(1, 1), "bfloat16", "bfloat16")


def test_every_nan_of_float32_stays_one_until_it_is_refused() -> None:
    for bits in (0x7F800001, 0x7FFFFFFF, 0xFFFFFFFF, 0xFF800001):
        rows = np.array([[bits]], np.uint32).view(np.float32)
        for source, target in itertools.product(("float32", "float64"), ("float16", "bfloat16")):
            with np.errstate(invalid="ignore"):  # a signalling NaN
                given_rows = rows.astype(source)
            with pytest.raises(OptionError, match="expected finite values, got nan in row 0"):
                check(given_rows, source, target)


def test_the_row_is_named_past_the_first_block() -> None:
    rows = np.zeros((3 << 10, 1024), np.float32)
    rows[2500, 1023] = np.nan
    with pytest.raises(OptionError, match="got nan in row 2507"):
        check(rows, "float32", "float32", first_row=7)


def test_checking_a_matrix_needs_a_few_megabytes_only() -> None:
    rows = np.ones((1 << 18, 64), np.float32)
    tracemalloc.start()
    out = check(rows, "float32", "float32")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < rows.nbytes // 8
    assert np.shares_memory(out, rows)
