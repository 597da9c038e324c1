"""Reads rows and queries of many vectors each: lists of vectors, arrays, ragged tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall.errors import DTypeError, OptionError, ShapeError, error
from hyrecall.table.arrow_lists import arrow_column, is_arrow
from hyrecall.table.arrow_values import check_column, is_list
from hyrecall.table.matrices import describe_row, native, widen_bfloat16
from hyrecall.table.tensors import host_array, query_vectors, row_count

MOST_VECTORS = 2**32 - 2
"""Vectors of all rows of a table."""

_WISH = (
    "a list with one (n, dim) array or None per {}, a column of lists of vectors, "
    "an array of shape (n, n_vectors, dim), or (values, offsets)"
)


class Bundles(NamedTuple):
    """Vectors of all rows one after the other; row r has those from begins[r] to begins[r + 1]."""

    values: Any  # as read_vectors takes them: a column or an array
    begins: npt.NDArray[np.int64]
    is_bits: bool = False  # uint16 values are bit patterns of bfloat16


def bundle_count(value: Any, argument: str) -> int:
    """Return the number of rows of any input of :func:`read_bundles`."""
    if isinstance(value, tuple) and len(value) == 2:
        return len(_offsets_of(value[1], argument)) - 1
    return row_count(value, argument=argument)


def read_bundles(value: Any, *, argument: str, row_name: str) -> Bundles:
    """Read rows of many vectors, whose values are not checked yet; None has no vector."""
    if is_arrow(value):
        made = _of_lists(arrow_column(value), argument, row_name)
    elif isinstance(value, tuple) and len(value) == 2:
        made = _of_offsets(*value, argument)
    elif isinstance(value, list):
        made = _of_arrays(value, argument, row_name)
    else:
        array, kind = host_array(value, argument=argument)
        if array.ndim != 3:
            raise error(ShapeError, argument, _WISH.format(row_name), f"shape {array.shape}")
        n_rows, n_vectors, dim = array.shape
        begins = np.arange(n_rows + 1, dtype=np.int64) * n_vectors
        made = Bundles(array.reshape(n_rows * n_vectors, dim), begins, kind == "bfloat16")
    if made.begins[-1] > MOST_VECTORS:
        raise error(ShapeError, argument, f"at most {MOST_VECTORS} vectors", int(made.begins[-1]))
    return made


def _of_lists(column: pa.ChunkedArray, argument: str, row_name: str) -> Bundles:
    import pyarrow.compute as pc

    check_column(column, argument, lambda row: describe_row(row_name, row))
    kind = column.type
    if pa.types.is_null(kind):  # a column of only None
        return Bundles(pa.chunked_array([pa.nulls(0)]), np.zeros(len(column) + 1, np.int64))
    if not (is_list(kind) or pa.types.is_fixed_size_list(kind)) or isinstance(
        kind, pa.ExtensionType
    ):
        remedy = "a column of one vector a row is an hr.Vector"
        raise error(DTypeError, argument, "a column of lists of vectors", kind, remedy)
    lengths = pc.fill_null(pc.list_value_length(column), 0)
    counts = [np.zeros(1, np.int64), *(one.to_numpy() for one in lengths.chunks)]
    vectors = pa.chunked_array([one.flatten() for one in column.chunks], kind.value_type)
    return Bundles(vectors, np.cumsum(np.concatenate(counts), dtype=np.int64))


def _of_offsets(values: Any, offsets: Any, argument: str) -> Bundles:
    array, kind = host_array(values, argument=f"{argument}[0]")
    begins = _offsets_of(offsets, argument)
    if array.ndim != 2:
        wish = "values of shape (n_vectors, dim) and offsets"
        raise error(ShapeError, argument, wish, f"shape {array.shape}")
    if begins[0] != 0 or begins[-1] != len(array) or (np.diff(begins) < 0).any():
        raise error(OptionError, argument, f"offsets that rise from 0 to {len(array)}", "others")
    return Bundles(array, begins, kind == "bfloat16")


def _offsets_of(offsets: Any, argument: str) -> npt.NDArray[np.int64]:
    begins = np.asarray(offsets)
    if begins.ndim != 1 or begins.dtype.kind not in "iu" or not len(begins):
        wish = "(values, offsets) with whole numbers, one more than rows"
        raise error(ShapeError, argument, wish, f"{type(offsets).__name__} of others")
    return begins.astype(np.int64)


def _of_arrays(value: Sequence[Any], argument: str, row_name: str) -> Bundles:
    arrays, counts, kinds, dims = [], [0], set(), set()
    for at, given in enumerate(value):
        one: Any = given
        if one is None or (isinstance(one, list | tuple) and not one):
            counts.append(0)
            continue
        wish = f"a {row_name} of shape (n_vectors, dim)"
        if isinstance(one, list | tuple):
            try:
                one = np.array(one, np.float32)
            except (TypeError, ValueError, OverflowError) as fault:
                got = f"a {type(one).__name__} of others"
                raise error(ShapeError, f"{argument}[{at}]", wish, got) from fault
        array, kind = host_array(one, argument=f"{argument}[{at}]")
        if array.ndim != 2:
            raise error(ShapeError, f"{argument}[{at}]", wish, f"shape {array.shape}")
        counts.append(len(array))
        arrays.append(array)
        kinds.add(kind)
        dims.add(array.shape[1])
    if len(kinds) > 1 or len(dims) > 1:
        got = f"{sorted(kinds)} of {sorted(dims)}"
        raise error(DTypeError, argument, "arrays of one type and dim", got)
    values = np.concatenate(arrays) if arrays else pa.chunked_array([pa.nulls(0)])
    return Bundles(values, np.cumsum(counts, dtype=np.int64), "bfloat16" in kinds)


class QueryBundles(NamedTuple):
    """The queries of an arm: vectors as float32, which of them count, and where each begins."""

    values: npt.NDArray[np.float32]
    valid: npt.NDArray[np.bool_] | None
    begins: npt.NDArray[np.int64]

    def only(self, selected: npt.NDArray[np.bool_]) -> QueryBundles:
        """Leave the other queries without vectors."""
        kept = np.repeat(selected, np.diff(self.begins))
        return self._replace(valid=kept if self.valid is None else self.valid & kept)

    def any(self) -> npt.NDArray[np.bool_]:
        """Say of each query whether it has a vector that is not zero."""
        some = self.values.any(axis=1)
        counts = np.concatenate([[0], np.cumsum(some)])
        return np.asarray(counts[self.begins[1:]] > counts[self.begins[:-1]])


def query_bundles(value: object, *, dim: int, argument: str) -> QueryBundles:
    """Read a batch of queries of many vectors."""
    read = read_bundles(value, argument=argument, row_name="query")
    if read.begins[-1] == 0:
        return QueryBundles(np.zeros((0, dim), np.float32), None, read.begins)
    given = widen_bfloat16(native(read.values)) if read.is_bits else read.values
    values, valid = query_vectors(given, dim=dim, argument=argument)
    return QueryBundles(values, valid, read.begins)
