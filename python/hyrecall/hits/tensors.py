"""The numbers of a reply as arrays that other libraries import by DLPack, on the index's device."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import _core
from hyrecall.base.runtime import check_device, cuda_library_folder, ordinal_of
from hyrecall.errors import MissingExtraError, OptionError, error
from hyrecall.hits.reply import ReplyBase


class Tensor(Protocol):
    """An array of one axis, for ``from_dlpack`` of torch, CuPy, JAX or NumPy."""

    @property
    def shape(self) -> tuple[int, ...]:
        """``(n,)``."""
        ...

    def __dlpack__(self, *, stream: Any = None) -> Any:
        """Export it; on a device the given stream waits until it can be read."""
        ...

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return DLPack's type of device, and its number."""
        ...


def tensors_of(reply: ReplyBase, device: str | None) -> dict[str, Tensor]:
    """Return the numbers of a reply on a device; None: the index's. See ``Hits.tensors``."""
    where = _read_device(reply, device)
    arrays = _arrays_of(reply)
    if where == "cpu":
        return dict(arrays)
    made = _core.device.give_tensors(
        cuda_library_folder(), ordinal_of(where), list(arrays.values())
    )
    return dict(zip(arrays, made, strict=True))


def torch_tensors(reply: ReplyBase, device: str | None) -> dict[str, Any]:
    """Return the same as torch tensors. See ``Hits.to_torch``."""
    where = _read_device(reply, device)  # a wrong device is told before a missing package
    try:
        from torch.utils.dlpack import from_dlpack
    except ImportError:
        wish, got = "torch (pip install 'hyrecall[torch]')", "no package torch"
        raise error(MissingExtraError, "to_torch", wish, got) from None
    return {name: from_dlpack(one) for name, one in tensors_of(reply, where).items()}


def key_table(reply: ReplyBase) -> pa.Table:
    """Return the documents of a reply: key and cell of each, by its first hit."""
    columns = _identity(reply)
    places = _places(columns)
    before = np.concatenate([[-1], np.maximum.accumulate(places)[:-1]])
    first = np.flatnonzero(places > before[: len(places)])
    names = ["key", *reply.facts.schema.cell_columns]
    whole = pa.Table.from_arrays(columns, names=names)
    return whole.take(pa.array(first))


def _read_device(reply: ReplyBase, device: str | None) -> str:
    if device is None:
        return reply.trace.device
    if device == "auto":
        raise error(OptionError, "device", "'cpu', 'cuda:N' or None", "'auto'")
    check_device(device)
    return device


def _arrays_of(reply: ReplyBase) -> dict[str, npt.NDArray[Any]]:
    """Return copies of the numbers: a reply stays as it is, whoever writes to them."""
    results = reply.results()
    arrays: dict[str, npt.NDArray[Any]] = {
        "offsets": np.array(reply.offsets, np.int64),
        "key": _keys(reply),
        "score": np.array(results["score"].to_numpy(), np.float64),
        "rank": np.array(results["rank"].to_numpy(), np.int32),
    }
    for arm in reply.arms:
        scores, ranks = results[f"{arm}_score"], results[f"{arm}_rank"]
        arrays[f"{arm}_score"] = np.array(scores.to_numpy(), np.float32)  # null becomes NaN
        arrays[f"{arm}_valid"] = np.array(scores.is_valid().to_numpy(), np.bool_)
        arrays[f"{arm}_rank"] = np.array(ranks.fill_null(0).to_numpy(), np.int32)
    return arrays


def _keys(reply: ReplyBase) -> npt.NDArray[np.int64]:
    """Return integer keys, or of each hit the place of its document in :func:`key_table`."""
    columns = _identity(reply)
    if pa.types.is_int64(columns[0].type):
        return np.array(columns[0].to_numpy(zero_copy_only=False), np.int64)
    return _places(columns)


def _identity(reply: ReplyBase) -> list[pa.Array]:
    """Return what tells documents apart: a key is unique within its cell only."""
    schema = reply.facts.schema
    return [reply.column(name) for name in (schema.key, *schema.cell_columns)]


def _places(columns: list[pa.Array]) -> npt.NDArray[np.int64]:
    """Number the distinct rows of columns from 0, as they come."""
    numbers = _codes(columns[0])
    for column in columns[1:]:
        codes = _codes(column)
        numbers = _codes(pa.array(numbers * (codes.max(initial=0) + 1) + codes))
    return numbers


def _codes(column: pa.Array) -> npt.NDArray[np.int64]:
    """Number the distinct values of a column from 0, as they come; null is one of them."""
    found = column.dictionary_encode(null_encoding="encode").indices
    return np.asarray(found.to_numpy(zero_copy_only=False), np.int64)
