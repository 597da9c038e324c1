"""Arrow C structs and DLPack capsules that say odd things of sound memory: refused, or used.

What no importer can see is left out: a buffer that is shorter than its struct says, and a null
child, by which pyarrow's own importer dies. With ``HYRECALL_FUZZ_PLANTED=1`` a run ignores the
strides of capsules.
"""

from __future__ import annotations

import ctypes as c
import itertools
import math
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

import hyrecall as hr
from hyrecall.errors import HyrecallError, InternalError
from seams import tensors

N_ROWS = 9
DIM = 4
SCHEMA = hr.Schema(key="id", cell="c", text="x", vector="v", attributes=("k",), stored=("s",))


class ArrowSchema(c.Structure):
    pass


class ArrowArray(c.Structure):
    pass


ArrowSchema._fields_ = [
    ("format", c.c_char_p), ("name", c.c_char_p), ("metadata", c.c_char_p), ("flags", c.c_int64),
    ("n_children", c.c_int64), ("children", c.POINTER(c.POINTER(ArrowSchema))),
    ("dictionary", c.POINTER(ArrowSchema)), ("release", c.c_void_p), ("private", c.c_void_p),
]  # fmt: skip
ArrowArray._fields_ = [
    ("length", c.c_int64), ("null_count", c.c_int64), ("offset", c.c_int64),
    ("n_buffers", c.c_int64), ("n_children", c.c_int64), ("buffers", c.POINTER(c.c_void_p)),
    ("children", c.POINTER(c.POINTER(ArrowArray))), ("dictionary", c.POINTER(ArrowArray)),
    ("release", c.c_void_p), ("private", c.c_void_p),
]  # fmt: skip

_capsule = c.pythonapi.PyCapsule_New
_capsule.restype = c.py_object
_capsule.argtypes = [c.c_void_p, c.c_char_p, c.c_void_p]

Change = tuple[str, int]


def _list(kind: pa.DataType) -> pa.Array:
    return pa.array([[1.0, 2.0, 3.0, 4.0]] * N_ROWS, kind)


COLUMNS: dict[str, list[pa.Array]] = {
    "id": [
        pa.array(range(N_ROWS)),
        *(pa.array([f"a long key {i}" for i in range(N_ROWS)], kind) for kind in
          (pa.string(), pa.large_string(), pa.string_view())),
    ],
    "c": [
        pa.array(["a"] * N_ROWS), pa.array([1] * N_ROWS), pa.array([True] * N_ROWS),
        pa.array(["a"] * N_ROWS).dictionary_encode(),
        pa.RunEndEncodedArray.from_arrays(pa.array([2, N_ROWS], pa.int32()), pa.array(["a", "b"])),
    ],
    "x": [
        pa.array(["tea", None] * 4 + ["a rather long oak"], kind)
        for kind in (pa.string(), pa.large_string(), pa.string_view())
    ],
    "v": [
        pa.FixedSizeListArray.from_arrays(pa.array(np.ones(N_ROWS * DIM, np.float32)), DIM),
        _list(pa.list_(pa.float32())), _list(pa.large_list(pa.float64())),
    ],
    "k": [
        pa.array([1, None, 3] * 3), pa.array([1.5, None, 3] * 3), pa.array(["p", None, "q"] * 3),
        pa.array([["p", None], [], None] * 3), pa.array([True, None, False] * 3),
        pa.array([1, None, 2] * 3, pa.timestamp("us")), pa.array([1, 2, 3] * 3, pa.int16()),
    ],
    "s": [pa.array([{"p": 1}] * N_ROWS), pa.array([b"\xff"] * N_ROWS), pa.nulls(N_ROWS)],
}  # fmt: skip
CHANGES: list[Change] = [
    *itertools.product(["offset"], [-1, -(2**63), 2**63 - 1]),
    *itertools.product(["length"], [-1, 0, 1, 8, -(2**63)]),
    *itertools.product(["null_count"], [-2, 2**62, 5, 0]),
    *itertools.product(["n_buffers"], [0, 1]),
    *itertools.product(["n_children"], [0, -1]),
    *itertools.product(["buffer"], [0, 1, 2]),
    ("dictionary", 0),
]


class Changed:
    """A batch by the C data interface, one field of one struct of which is changed."""

    def __init__(
        self, batch: pa.RecordBatch, at: int | None, change: Change, *, deep: bool
    ) -> None:
        self.schema, self.array = ArrowSchema(), ArrowArray()
        batch._export_to_c(c.addressof(self.array), c.addressof(self.schema))
        node = self.array if at is None else self.array.children[at].contents
        if deep:
            node = node.dictionary.contents if node.dictionary else node.children[0].contents
        name, value = change
        self.is_changed = name != "buffer" or value < node.n_buffers
        if name == "buffer" and self.is_changed:
            node.buffers[value] = None
        elif name == "dictionary":
            node.dictionary = c.POINTER(ArrowArray)()
        elif name != "buffer":
            setattr(node, name, value)

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[Any, Any]:
        return (
            _capsule(c.addressof(self.schema), b"arrow_schema", None),
            _capsule(c.addressof(self.array), b"arrow_array", None),
        )


def grid() -> Iterator[tuple[str, pa.Array, bool, Change]]:
    """Every column in every type, its child too, with each change."""
    for name, kinds in COLUMNS.items():
        for array in kinds:
            kind, types = array.type, pa.types
            has_child = (
                types.is_nested(kind) or types.is_dictionary(kind) or types.is_run_end_encoded(kind)
            )
            for deep in (False, True)[: 1 + has_child]:
                for change in CHANGES:
                    yield name, array, deep, change


def build(source: object) -> str:
    """Build an index of a source and ask it; returns "used" or the message of the refusal.

    Anything but a typed error of the caller's input is raised.
    """
    try:
        index = hr.Index.build(source, SCHEMA, device="cpu", threads=1)
        hits = index.recall(
            text=["tea"], vectors=np.ones((1, DIM), np.float32), scope=["a"], columns=["k", "s"],
            limit=20,
        )  # fmt: skip
        hits.to_arrow().validate(full=True)
    except InternalError:
        raise
    except HyrecallError as fault:
        return str(fault)
    return "used"


def with_column(name: str, array: pa.Array) -> pa.RecordBatch:
    """The sound batch with another array in a column."""
    return pa.record_batch({key: kinds[0] for key, kinds in COLUMNS.items()} | {name: array})


# ---- DLPack ----


class _Tensor(c.Structure):
    _fields_ = [
        ("data", c.c_void_p), ("device_type", c.c_int32), ("device_id", c.c_int32),
        ("ndim", c.c_int32), ("code", c.c_uint8), ("bits", c.c_uint8), ("lanes", c.c_uint16),
        ("shape", c.POINTER(c.c_int64)), ("strides", c.POINTER(c.c_int64)),
        ("byte_offset", c.c_uint64),
    ]  # fmt: skip


class _Managed(c.Structure):
    _fields_ = [("tensor", _Tensor), ("context", c.c_void_p), ("deleter", c.c_void_p)]


ARENA = ((np.arange(1 << 16) % 251 + 1) / 16).astype(np.float32)
"""The memory of all capsules, whose elements lie inside it."""


class Tensor:
    """A DLPack capsule with an odd shape, type, stride, device or offset."""

    def __init__(self, draw: random.Random) -> None:
        self.managed = _Managed()
        tensor = self.managed.tensor
        rows, dim = draw.choice([0, 1, 2, 3, 5, 9]), draw.choice([4, 4, 4, 4, 4, 3, 1, 0])
        odd = [[rows], [], [rows, dim, 1], [1] * 33, [-1, 4], [2**62, 4], [2**40, 4], [1] * 65]
        odd += [[rows, 2**61], [-(2**63), 4], [2**33, 0], [0, 2**32], [rows, 2**40]]
        shape = draw.choice([*[[rows, dim]] * 8, *odd])
        types = [(2, 64), (2, 16), (4, 16), (0, 32), (1, 8), (5, 64), (6, 8), (2, 8), (99, 32)]
        code, bits = draw.choice([*[(2, 32)] * 8, *types, (2, 7), (2, 0), (3, 64)])
        strides = [draw.choice([1, 4, 5, 0, -1, -4, 3, 8]) for _ in shape]
        if any(abs(extent) > 1000 for extent in shape):
            strides = [0] * len(shape) if draw.random() < 0.7 else [2**60] * len(shape)
        extents = c.c_int64 * max(1, len(shape))
        self.shape, self.strides = extents(*shape), extents(*strides)
        tensor.shape = self.shape
        if draw.random() > 0.3 or any(abs(extent) > 1000 for extent in shape):
            tensor.strides = self.strides
        tensor.ndim = draw.choice([*[len(shape)] * 20, -1])
        tensor.code, tensor.bits = code, bits
        tensor.lanes = draw.choice([*[1] * 12, 0, 2, 65535])
        tensor.device_type = draw.choice([*[1] * 15, 2, 3, 13, 99])
        tensor.byte_offset = draw.choice([0, 0, 4, 16, 1, 2, 3])
        tensor.data = ARENA.ctypes.data + (1 << 17)
        device = (tensor.device_type, 0)
        self.device = draw.choice([*[device] * 9, (1, 0), None, (1,), "x", (2**40, 0)])
        self.name = draw.choice([*[b"dltensor"] * 14, b"used_dltensor", b"x"])

    def __dlpack__(self, **_: object) -> Any:
        return _capsule(c.addressof(self.managed), self.name, None)

    def __dlpack_device__(self) -> Any:
        return self.device


def dlpack_case(seed: int) -> str:
    """Build from and ask with the capsule of a seed; the same must come of a plain copy."""
    draw = random.Random(seed)
    tensor = Tensor(draw)
    asks = draw.random() < 0.5
    one = np.ones((1, DIM), np.float32)
    table = pa.table({"id": range(N_ROWS), "x": ["tea"] * N_ROWS})
    schema = hr.Schema(key="id", cell=None, text="x", vector="v")
    rows = tensor.shape[0] if tensor.managed.tensor.ndim > 0 else 1
    part = table.slice(0, rows) if 0 <= rows <= N_ROWS and not asks else table

    def reply(given: Any) -> pa.Table:
        vectors = {"v": np.tile(one, (N_ROWS, 1)) if asks else given}
        index = hr.Index.build(part, schema, vectors=vectors, device="cpu", threads=1)
        return index.recall(vectors=given if asks else one, limit=N_ROWS).to_arrow()

    try:
        got = reply(tensor)
    except InternalError:
        raise
    except HyrecallError as fault:
        return str(fault)
    except (TypeError, ValueError, BufferError, MemoryError, RuntimeError) as fault:
        # numpy's own importer, before anything here has seen the array
        if fault.__traceback__ is None or "hyrecall" in type(fault).__module__:
            raise
        return f"numpy: {type(fault).__name__}"
    assert got.equals(reply(np.ascontiguousarray(np.from_dlpack(tensor)))), seed
    return "used"


def plant() -> None:
    """Read the values of a capsule one behind the other, whatever its strides are."""
    sound = tensors._from_dlpack

    def without_strides(value: Any, argument: str) -> Any:
        array = sound(value, argument)
        if array.size > 1000:  # would leave the arena
            return array
        strides = [
            array.itemsize * math.prod(array.shape[axis + 1 :]) for axis in range(array.ndim)
        ]
        return np.lib.stride_tricks.as_strided(array, strides=strides)

    tensors._from_dlpack = without_strides
