"""Six documents of three cells, and how a refusal is checked."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr

N = 6
TEXTS = ("hot tea", "cold tea", "green tea", "tea", "coffee", "hot milk")
ONE = np.ones((1, 3), np.float32)


def documents(first: int = 0) -> pa.Table:
    return pa.table(
        {
            "id": [f"k{i}" for i in range(first, first + N)],
            "user": ["ana", "ana", "ana", "bob", "bob", None],
            "text": TEXTS,
            "kind": [0, 1, 0, 1, 0, 1],
        }
    )


def _misaligned(array: np.ndarray) -> np.ndarray:
    return np.frombuffer(b"\0" + array.tobytes(), array.dtype, offset=1).reshape(array.shape)


def _read_only(array: np.ndarray) -> np.ndarray:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


# The same matrix as it may lie in memory.
IN_MEMORY: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "Fortran order": np.asfortranarray,
    "every second value of wider rows": lambda a: np.repeat(a, 2, axis=1)[:, ::2],
    "negative strides": lambda a: a[::-1, ::-1].copy()[::-1, ::-1],
    "a window of a larger matrix": lambda a: np.pad(a, 2)[2:-2, 2:-2],
    "read-only": _read_only,
    "misaligned": _misaligned,
    "byte-swapped": lambda a: a.astype(a.dtype.newbyteorder()),
    "float64 byte-swapped": lambda a: a.astype(">f8"),
    "a subclass": lambda a: a.view(np.matrix),
}
VECTORS = np.arange(1, 3 * N + 1, dtype=np.float32).reshape(N, 3)
SCHEMA = hr.Schema(key="id", cell="user", text="text", vector="embedding", attributes="kind")


def built(schema: hr.Schema = SCHEMA, **options: Any) -> hr.Index:
    return hr.Index.build(documents(), schema, vectors={"embedding": VECTORS}, **options)


def refused(
    call: Callable[[], object],
    kind: type[hr.HyrecallError],
    message: str,
    argument: str | None = None,
) -> None:
    """The call raises exactly this; ``argument`` defaults to what stands before the colon."""
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value) == message
    assert re.fullmatch(r".+?: expected .+, got .+", message, re.DOTALL)
    assert caught.value.argument == (argument or message.split(":", 1)[0])  # type: ignore[attr-defined]


def said(fault: object) -> str:
    """The message of an error without the remedy at its end."""
    return str(fault).removesuffix(f"; {getattr(fault, 'remedy', '')}")


TEXT = {"text": ["tea"], "scope": "ana"}
BOTH = {**TEXT, "vectors": ONE}
