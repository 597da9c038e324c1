"""What a reader of stored or sent bytes catches, to refuse them by an error of its own."""

from __future__ import annotations

import struct

import pyarrow as pa

__all__ = ["MALFORMED"]

MALFORMED = (
    ArithmeticError, AttributeError, LookupError, RecursionError, StopIteration, TypeError,
    ValueError, pa.ArrowException, struct.error,
)  # fmt: skip
"""The errors by which Python, numpy and Arrow end where bytes are not what a reader expects."""
