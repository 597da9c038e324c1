"""The golden table: inputs of a formula and the bits it must give, on every backend.

``arithmetic.csv`` has the columns ``op,dtype,inputs,expected``; every number is its bits in hex,
most significant digit first.

- A scalar formula has no dtype; its inputs are float64 joined by spaces, its result is a float64
  (a float32 result is exact in it).
- ``dot`` has a query (float32) and a row (of the dtype), joined by a space, each a run of digits
  (8 a float32, 4 a 16-bit pattern); ``inverse_norm`` has a row. Their result is a float32.
"""

import csv
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

PATH = Path(__file__).with_name("arithmetic.csv")

Bits = NDArray[np.uint16] | NDArray[np.uint32] | NDArray[np.uint64]


@dataclass(frozen=True)
class Case:
    """A line of the table."""

    op: str
    dtype: str
    inputs: tuple[str, ...]
    expected: str

    @property
    def numbers(self) -> list[float]:
        """The inputs of a scalar formula."""
        return [float(read_bits(text, np.uint64).view(np.float64)[0]) for text in self.inputs]

    @property
    def query(self) -> NDArray[np.float32]:
        """The query of a dot, shape (dim,)."""
        return read_bits(self.inputs[0], np.uint32).view(np.float32)

    @property
    def row(self) -> Bits:
        """The row as stored, shape (dim,): float32, or the bits of a 16-bit type."""
        if self.dtype == "float32":
            return read_bits(self.inputs[-1], np.uint32).view(np.float32)
        return read_bits(self.inputs[-1], np.uint16)


def read_bits(text: str, kind: type[np.unsignedinteger]) -> Bits:
    """Turn a run of hex digits into unsigned integers."""
    size = np.dtype(kind).itemsize
    return (
        np.frombuffer(bytes.fromhex(text), np.dtype(kind).newbyteorder(">"))
        .astype(kind, copy=False)
        .reshape(len(text) // (2 * size))
    )


def write_bits(values: NDArray[np.generic]) -> str:
    """Turn floats, or the bits of 16-bit types, into hex digits."""
    kind = np.dtype(f"u{values.dtype.itemsize}")
    return values.view(kind).astype(kind.newbyteorder(">")).tobytes().hex()


def scalar_line(op: str, inputs: tuple[float, ...], result: float) -> str:
    """One line of a scalar formula."""
    bits = [struct.pack(">d", x).hex() for x in (*inputs, float(result))]
    return f"{op},,{' '.join(bits[:-1])},{bits[-1]}"


def widen(bits: NDArray[np.uint16], dtype: str) -> NDArray[np.float32]:
    """Return the float32 values of float16 or bfloat16 patterns; exact."""
    if dtype == "float16":
        return bits.view(np.float16).astype(np.float32)
    return (bits.astype(np.uint32) << 16).view(np.float32)


def read(path: Path = PATH) -> Iterator[Case]:
    """Yield the lines of a table."""
    with path.open(newline="") as file:
        for line in csv.DictReader(file):
            inputs = tuple(line["inputs"].split(" "))
            yield Case(line["op"], line["dtype"], inputs, line["expected"])
