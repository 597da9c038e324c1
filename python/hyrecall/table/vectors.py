"""Reads the document vectors of one dense arm from an Arrow column or an array of any library."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from hyrecall.errors import ShapeError, error
from hyrecall.table.arrow_lists import arrow_column, is_arrow, read_lists
from hyrecall.table.matrices import VectorInput, check_rows, native
from hyrecall.table.schema import MaxSim, Sparse, Vector, VectorDtype
from hyrecall.table.tensors import host_array, is_on_cuda

MOST_DIM = 1 << 24
"""Values in a row."""


def read_vectors(
    value: Any,
    *,
    n_rows: int,
    dim: int | None,
    dtype: VectorDtype | None,
    argument: str,
    row_name: str,
    form: type[Vector] = Vector,
    is_bits: bool = False,
) -> VectorInput:
    """Read the rows of a dense arm; each value is checked and converted at most once."""
    if form is Sparse:
        from hyrecall.table.sparse import narrowed, read_sparse

        read = read_sparse(value, argument=argument, row_name=row_name)
        if len(read.begins) != n_rows + 1:
            raise error(ShapeError, argument, f"{n_rows} rows", len(read.begins) - 1)
        kept: VectorDtype = dtype or ("float16" if read.weights.dtype == np.float16 else "float32")
        return VectorInput(kept, 0, (), None, sparse=narrowed(read, kept, argument, row_name))
    if form is MaxSim:
        from hyrecall.table.bundles import read_bundles

        values, begins, is_bits = read_bundles(value, argument=argument, row_name=row_name)
        if len(begins) != n_rows + 1:
            raise error(ShapeError, argument, f"{n_rows} rows", len(begins) - 1)
        made = read_vectors(
            values, n_rows=int(begins[-1]), dim=dim, dtype=dtype, argument=argument,
            row_name="vector", is_bits=is_bits,
        )  # fmt: skip
        return replace(made, begins=begins.astype(np.uint32), guest=None)
    bits = is_bits or dtype == "bfloat16"
    if is_arrow(value):
        column = arrow_column(value)
        if len(column) != n_rows:
            raise error(ShapeError, argument, f"{n_rows} rows", len(column))
        rows = read_lists(column, bits=bits, dim=dim, argument=argument, row_name=row_name)
        source, width, chunks, valid = rows.dtype, rows.dim, rows.chunks, rows.valid
    else:
        array, source = host_array(value, argument=argument, bits=bits)
        width = array.shape[1] if array.ndim == 2 else 0
        if len(array.shape) != 2 or len(array) != n_rows or width == 0 or dim not in (None, width):
            wish = f"shape ({n_rows}, {dim or 'dim >= 1'})"
            raise error(ShapeError, argument, wish, array.shape)
        chunks, valid = (array,), None

    if width > MOST_DIM:
        raise error(ShapeError, argument, f"at most {MOST_DIM:,} values in a row", width)
    target = dtype or ("float32" if source == "float64" else source)
    checked = []
    first_row = 0
    for chunk in chunks:
        checked.append(
            check_rows(
                native(chunk),
                source,
                target,
                valid=None if valid is None else valid[first_row : first_row + len(chunk)],
                first_row=first_row,
                argument=argument,
                row_name=row_name,
            )
        )
        first_row += len(chunk)
    guest = value if valid is None and is_on_cuda(value) else None
    return VectorInput(target, width, tuple(checked), valid, guest)
