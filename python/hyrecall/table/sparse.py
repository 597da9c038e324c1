"""Reads sparse vectors, terms with weights: mappings, pairs of arrays, Arrow columns, matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import _core
from hyrecall.errors import DTypeError, OptionError, ShapeError, error
from hyrecall.table.arrow_lists import arrow_column, is_arrow
from hyrecall.table.arrow_values import check_column, is_list
from hyrecall.table.matrices import describe_row

Numbers = npt.NDArray[Any]

_WISH = (
    "a list with a mapping {{term or id: weight}}, a pair (ids, weights) or None per {}, a column "
    "of maps or of lists of (id, weight), or a sparse matrix"
)
_FEW_IDS = 1 << 26  # up to here a table of all ids is smaller than sorting them is slow
_NO_TERMS = pa.array([], pa.large_string())

MAPS = pa.map_(pa.string(), pa.float32())
"""What Arrow has for the rows of a column."""


class SparseRows(NamedTuple):
    """Sparse vectors one after the other; row r has the entries from begins[r] to begins[r + 1]."""

    terms: pa.Array  # large_string, rising by their bytes, none twice
    begins: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.uint32]  # of terms
    weights: Numbers  # as given; their range is not checked yet

    def only(self, selected: npt.NDArray[np.bool_]) -> SparseRows:
        """Leave the other rows without entries."""
        sizes: Numbers = np.diff(self.begins)
        kept = np.repeat(selected, sizes)
        begins = np.append(0, np.cumsum(np.where(selected, sizes, 0)))
        return SparseRows(self.terms, begins, self.numbers[kept], self.weights[kept])

    def any(self) -> npt.NDArray[np.bool_]:
        """Say of each row whether a weight of it is not zero."""
        counts = np.append(0, np.cumsum(self.weights != 0))
        return np.asarray(counts[self.begins[1:]] > counts[self.begins[:-1]])

    def to_arrow(self) -> pa.Array:
        """Return the rows as maps; null where there is no entry."""
        keys = pa.DictionaryArray.from_arrays(pa.array(self.numbers.astype(np.int32)), self.terms)
        is_empty = np.append(self.begins[1:] == self.begins[:-1], False)
        offsets = pa.array(self.begins.astype(np.int32), mask=is_empty)
        weights = pa.array(self.weights.astype(np.float32))
        return pa.MapArray.from_arrays(offsets, keys.dictionary_decode().cast(pa.string()), weights)


def rows_of(column: _core.DenseColumn) -> SparseRows:
    """Return the rows of a column, which holds their entries term by term."""
    parts = column.sparse_parts()
    assert parts is not None
    ends = np.append(parts["run_begins"][1:], len(parts["rows"])).astype(np.int64)
    sizes: Numbers = ends - parts["run_begins"].astype(np.int64)
    places = np.repeat(parts["run_pages"].astype(np.int64) << 16, sizes) + parts["rows"]
    n_runs: Numbers = np.diff(parts["term_runs"].astype(np.int64))
    numbers = np.repeat(np.repeat(np.arange(len(n_runs), dtype=np.uint32), n_runs), sizes)
    order = np.argsort(places, kind="stable")
    texts = [None, pa.py_buffer(parts["term_offsets"]), pa.py_buffer(parts["term_bytes"])]
    return SparseRows(
        pa.Array.from_buffers(pa.large_string(), len(n_runs), texts),
        np.append(0, np.cumsum(parts["sizes"], dtype=np.int64)),
        numbers[order],
        parts["weights"].view(column.dtype)[order],
    )


def sparse_count(value: Any, argument: str, row_name: str = "query") -> int:
    """Return the number of rows of any input of :func:`read_sparse`."""
    if is_arrow(value):
        return len(arrow_column(value))
    return len(value) if isinstance(value, list) else _matrix(value, argument, row_name)[0]


def read_sparse(value: Any, *, argument: str, row_name: str) -> SparseRows:
    """Read rows of terms and weights; None has none."""
    if is_arrow(value):
        return _of_column(arrow_column(value), argument, row_name)
    if isinstance(value, list):
        return _of_list(value, argument, row_name)
    _, begins, ids, weights = _matrix(value, argument, row_name)
    return SparseRows(*_of_ids(ids, begins, argument), _checked(weights, argument))


def _of_ids(ids: Numbers, begins: Numbers, argument: str) -> tuple[pa.Array, Any, Any]:
    """Return terms, begins and each entry's term; an id is the term of its decimal digits."""
    if ids.dtype.kind not in "iu":
        raise error(DTypeError, argument, "whole numbers as ids", ids.dtype)
    if not len(ids):
        return _NO_TERMS, begins, ids.astype(np.uint32)
    if (least := int(ids.min())) < 0:
        raise error(OptionError, argument, "ids of at least 0", least)
    if (most := int(ids.max())) < _FEW_IDS:
        found = np.zeros(most + 1, np.bool_)
        found[ids] = True
        distinct = np.flatnonzero(found)
        place = np.zeros(most + 1, np.uint32)
        place[distinct] = np.arange(len(distinct), dtype=np.uint32)
        inverse = place[ids]
    else:
        distinct, places = np.unique(ids, return_inverse=True)
        inverse = places.astype(np.uint32)
    terms = pa.array([str(one) for one in distinct.tolist()], pa.large_string())
    return (*_sorted(terms, begins, inverse),)


def _sorted(terms: pa.Array, begins: Numbers, numbers: Numbers) -> tuple[pa.Array, Any, Any]:
    """Bring distinct terms into the order of their bytes."""
    import pyarrow.compute as pc

    order = pc.array_sort_indices(terms)
    place = np.empty(len(order), np.uint32)
    place[order.to_numpy()] = np.arange(len(order), dtype=np.uint32)
    return terms.take(order), begins, place[numbers]


def _of_terms(terms: pa.Array, begins: Numbers) -> tuple[pa.Array, Any, Any]:
    coded = terms.cast(pa.large_string()).dictionary_encode()
    return _sorted(coded.dictionary, begins, coded.indices.to_numpy())


def narrowed(read: SparseRows, dtype: str, argument: str, row_name: str) -> SparseRows:
    """Return rows with weights of a type, which must hold them; NaN is refused later."""
    most, weights = np.finfo(dtype).max, read.weights
    if dtype == "float16" and (wrong := ~((weights >= 0) & (weights <= most))).any():
        at = int(np.argmax(wrong))
        row = int(np.searchsorted(read.begins, at, side="right")) - 1
        term = read.terms[int(read.numbers[at])].as_py()
        got = f"{weights[at]:g} of {term!r} {describe_row(row_name, row)}"
        raise error(OptionError, argument, f"weights in [0, {most:g}], as float16 has", got)
    return read._replace(weights=weights.astype(dtype, copy=False))


def _checked(weights: Numbers, argument: str) -> Numbers:
    """Return weights as float32, or float16 if they are that; infinite where they are too large."""
    if weights.dtype.kind not in "fiu" or weights.ndim != 1:
        raise error(DTypeError, argument, "numbers as weights", weights.dtype)
    if weights.dtype == np.float16:
        return np.ascontiguousarray(weights)
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(weights, np.float32)


def _of_list(value: Sequence[Any], argument: str, row_name: str) -> SparseRows:
    ids: list[Any] = []
    weights: list[Any] = []
    counts = [0]
    for at, given in enumerate(value):
        keys: Any = ()
        values: Any = ()
        if isinstance(given, Mapping):
            keys, values = given.keys(), given.values()
        elif given is not None:
            keys, values = _pair(given, f"{argument}[{at}]", row_name)
        counts.append(len(keys))
        ids.extend(keys)
        weights.extend(values)
        for weight in values:
            if not isinstance(weight, int | float | np.number) or isinstance(weight, bool):
                where = f"{argument}[{at}]"
                raise error(DTypeError, where, "numbers as weights", repr(weight))
    begins = np.cumsum(counts, dtype=np.int64)
    try:
        numbers = np.array(weights, np.float64) if weights else np.zeros(0)
        terms = pa.array(map(_term, ids, repeat(argument)), pa.large_string())
    except (TypeError, ValueError, OverflowError, pa.ArrowException) as fault:
        wish = "terms of valid Unicode with numbers as weights"
        raise error(DTypeError, argument, wish, str(fault)) from fault
    return SparseRows(*_of_terms(terms, begins), _checked(numbers, argument))


def _term(one: object, argument: str) -> str:
    if isinstance(one, str):
        return one
    if isinstance(one, int | np.integer) and not isinstance(one, bool) and one >= 0:
        return str(int(one))
    raise error(DTypeError, argument, "a str or a whole number of at least 0 as term", repr(one))


def _pair(one: Any, argument: str, row_name: str) -> tuple[list[Any], list[Any]]:
    """Read (ids, weights), or a sparse tensor of one dimension."""
    wish = f"a mapping {{term or id: weight}}, a pair (ids, weights) or None as {row_name}"
    if getattr(one, "is_sparse", False):
        told = one.coalesce()
        if len(told.shape) != 1 or told.sparse_dim() != 1:
            raise error(ShapeError, argument, wish, f"shape {tuple(told.shape)}")
        one = told.indices()[0], told.values()
    if not (isinstance(one, tuple | list) and len(one) == 2):
        raise error(DTypeError, argument, wish, type(one).__name__)
    ids, weights = (
        [*part] if isinstance(part, list | tuple) else _numbers(part).tolist() for part in one
    )
    if not (isinstance(ids, list) and isinstance(weights, list) and len(ids) == len(weights)):
        raise error(ShapeError, argument, "as many weights as ids", "others")
    return ids, weights


def _numbers(part: Any) -> Numbers:
    """Return an array of NumPy or torch on the host; bfloat16 as float32."""
    if hasattr(part, "detach"):
        part = part.detach().cpu()
        part = part.float() if str(part.dtype) == "torch.bfloat16" else part
    return np.asarray(part)


def _matrix(value: Any, argument: str, row_name: str) -> tuple[int, Numbers, Numbers, Numbers]:
    """Return rows, begins, ids and weights of a matrix of SciPy or a sparse tensor of torch."""
    # A tensor of torch, both of whose dimensions are sparse.
    if getattr(value, "is_sparse", False) and len(value.shape) == value.sparse_dim() == 2:
        told = value.coalesce()
        rows, ids = map(_numbers, told.indices())
        begins = np.searchsorted(rows, np.arange(int(value.shape[0]) + 1))
        return len(begins) - 1, begins.astype(np.int64), ids, _numbers(told.values())
    if str(getattr(value, "layout", "")) == "torch.sparse_csr":
        parts = value.crow_indices(), value.col_indices(), value.values()
    elif hasattr(value, "tocsr"):
        csr = value.tocsr()
        parts = csr.indptr, csr.indices, csr.data
    else:
        raise error(DTypeError, argument, _WISH.format(row_name), type(value).__name__)
    begins, ids, weights = map(_numbers, parts)
    begins, n_rows = begins.astype(np.int64), int(value.shape[0])
    fits = len(begins) == n_rows + 1 and begins[0] == 0 and bool((np.diff(begins) >= 0).all())
    if not (fits and begins[-1] == len(ids) == len(weights)):
        raise error(ShapeError, argument, "a matrix whose parts fit together", "others")
    return n_rows, begins, ids, weights


def _of_column(column: pa.ChunkedArray, argument: str, row_name: str) -> SparseRows:
    import pyarrow.compute as pc

    check_column(column, argument, lambda row: describe_row(row_name, row))
    kind, n_rows = column.type, len(column)
    if pa.types.is_null(kind) or not n_rows:  # a column of only None
        return SparseRows(_NO_TERMS, np.zeros(n_rows + 1, np.int64), *_nothing())
    wish = "a column of maps, or of lists of (term or id, weight)"
    entries: Any = getattr(kind, "value_type", None)
    if pa.types.is_struct(kind):  # what Arrow makes of mappings: a field for each term
        column = _maps(column, argument, wish)
        kind = column.type
    if pa.types.is_map(kind):
        parts = kind.key_type, kind.item_type
    elif (is_list(kind) or pa.types.is_fixed_size_list(kind)) and pa.types.is_null(entries):
        return SparseRows(_NO_TERMS, np.zeros(n_rows + 1, np.int64), *_nothing())  # all empty
    elif pa.types.is_struct(entries) and entries.num_fields == 2:
        parts = entries.field(0).type, entries.field(1).type
    else:
        raise error(DTypeError, argument, wish, kind)
    term = parts[0].value_type if pa.types.is_dictionary(parts[0]) else parts[0]
    is_text = any(of(term) for of in (pa.types.is_string, pa.types.is_large_string, _is_view))
    is_number = pa.types.is_floating(parts[1]) or pa.types.is_integer(parts[1])
    if not (is_text or pa.types.is_integer(term)) or not is_number:
        raise error(DTypeError, argument, wish, kind)
    flat = column.combine_chunks()
    if pa.types.is_map(kind):
        flat = flat.cast(pa.list_(pa.struct([("key", parts[0]), ("value", parts[1])])))
    lengths = pc.fill_null(pc.list_value_length(flat), 0).to_numpy(zero_copy_only=False)
    begins = np.append(0, np.cumsum(lengths, dtype=np.int64))
    keys, weights = flat.flatten().flatten()
    if keys.null_count or weights.null_count:
        raise error(OptionError, argument, "terms and weights that are not null", "null")
    if pa.types.is_dictionary(keys.type):
        keys = keys.dictionary_decode()
    read = _of_terms(keys, begins) if is_text else _of_ids(keys.to_numpy(), begins, argument)
    return SparseRows(*read, _checked(weights.to_numpy(), argument))


def _is_view(kind: pa.DataType) -> bool:
    return str(kind) == "string_view"


def _maps(column: pa.ChunkedArray, argument: str, wish: str) -> pa.ChunkedArray:
    """Return structs as maps of the names of their fields; a null has no entry."""
    known = pa.types.is_floating, pa.types.is_integer, pa.types.is_null
    if any(not any(of(field.type) for of in known) for field in column.type):
        raise error(DTypeError, argument, wish, column.type)
    one = column.combine_chunks()
    names = [field.name for field in one.type]
    fields = [field.cast(pa.float64(), safe=False) for field in one.flatten()]
    weights = [field.to_numpy(zero_copy_only=False) for field in fields]
    has = [field.is_valid().to_numpy(zero_copy_only=False) for field in fields]
    is_there = np.array(has, np.bool_).reshape(len(names), len(one)).T
    rows, at = np.nonzero(is_there)
    values = np.array(weights).reshape(is_there.shape[::-1]).T[rows, at]
    offsets = np.searchsorted(rows, np.arange(len(one) + 1)).astype(np.int32)
    keys = pa.array(names, pa.string()).take(pa.array(at))
    return pa.chunked_array([pa.MapArray.from_arrays(pa.array(offsets), keys, pa.array(values))])


def query_sparse(value: object, *, argument: str) -> SparseRows:
    """Read a batch of queries."""
    read = read_sparse(value, argument=argument, row_name="query")
    return narrowed(read, "float32", argument, "query")


def _nothing() -> tuple[Any, Any]:
    return np.zeros(0, np.uint32), np.zeros(0, np.float32)
